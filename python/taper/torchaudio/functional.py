"""torchaudio.functional: spectrograms, mel scales, decibels, resampling, companding."""

import math
import warnings

import taper as torch


def _norms(normalized):
    """Whether by the frame's length, and whether by the window."""
    if normalized == "frame_length":
        return True, False
    if normalized == "window" or normalized is True:
        return False, True
    return False, False


def spectrogram(
    waveform,
    pad,
    window,
    n_fft,
    hop_length,
    win_length,
    power,
    normalized,
    center=True,
    pad_mode="reflect",
    onesided=True,
    return_complex=None,
):
    """(..., time) to (..., frequency, frame): magnitudes to a power, or complex values where power is None."""
    if pad > 0:
        waveform = torch.nn.functional.pad(waveform, (pad, pad), "constant")
    by_length, by_window = _norms(normalized)
    shape = waveform.shape
    spec = torch.stft(
        waveform.reshape(-1, shape[-1]),
        n_fft=n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=window,
        center=center,
        pad_mode=pad_mode,
        normalized=by_length,
        onesided=onesided,
        return_complex=True,
    )
    spec = spec.reshape(shape[:-1] + spec.shape[-2:])
    if by_window:
        spec = spec / window.pow(2.0).sum().sqrt()
    if power is None:
        return spec
    return spec.abs() if power == 1.0 else spec.abs().pow(power)


def inverse_spectrogram(
    spectrogram,
    length,
    pad,
    window,
    n_fft,
    hop_length,
    win_length,
    normalized,
    center=True,
    pad_mode="reflect",
    onesided=True,
):
    """Back from complex values to (..., time)."""
    if not spectrogram.is_complex():
        raise ValueError("Expected `spectrogram` to be complex dtype.")
    by_length, by_window = _norms(normalized)
    if by_window:
        spectrogram = spectrogram * window.pow(2.0).sum().sqrt()
    shape = spectrogram.size()
    waveform = torch.istft(
        spectrogram.reshape(-1, shape[-2], shape[-1]),
        n_fft=n_fft,
        hop_length=hop_length,
        win_length=win_length,
        window=window,
        center=center,
        normalized=by_length,
        onesided=onesided,
        length=length + 2 * pad if length is not None else None,
    )
    if length is not None and pad > 0:
        waveform = waveform[:, pad:-pad]
    return waveform.reshape(shape[:-2] + waveform.shape[-1:])


def amplitude_to_DB(x, multiplier, amin, db_multiplier, top_db=None):
    """multiplier * log10(x), at most top_db below the loudest."""
    db = multiplier * torch.log10(torch.clamp(x, min=amin)) - multiplier * db_multiplier
    if top_db is None:
        return db
    shape = db.size()
    packed = shape[-3] if db.dim() > 2 else 1
    db = db.reshape(-1, packed, shape[-2], shape[-1])
    return torch.max(db, (db.amax(dim=(-3, -2, -1)) - top_db).view(-1, 1, 1, 1)).reshape(shape)


def DB_to_amplitude(x, ref, power):
    return ref * torch.pow(torch.pow(10.0, 0.1 * x), power)


# ---- Mel scales ----
_STEP, _LOG_FROM = 200.0 / 3, 1000.0  # Slaney's scale is linear up to 1000 Hz
_LOG_STEP = math.log(6.4) / 27.0


def _hz_to_mel(freq, mel_scale="htk"):
    if mel_scale not in ("slaney", "htk"):
        raise ValueError('mel_scale should be one of "htk" or "slaney".')
    if mel_scale == "htk":
        return 2595.0 * math.log10(1.0 + freq / 700.0)
    return freq / _STEP if freq < _LOG_FROM else _LOG_FROM / _STEP + math.log(freq / _LOG_FROM) / _LOG_STEP


def _mel_to_hz(mels, mel_scale="htk"):
    if mel_scale not in ("slaney", "htk"):
        raise ValueError('mel_scale should be one of "htk" or "slaney".')
    if mel_scale == "htk":
        return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    logarithmic = _LOG_FROM * torch.exp(_LOG_STEP * (mels - _LOG_FROM / _STEP))
    return torch.where(mels >= _LOG_FROM / _STEP, logarithmic, _STEP * mels)


def _triangles(all_freqs, points):
    """(frequencies, filters): each filter rises from one point to the next and falls to the one after."""
    widths = points[1:] - points[:-1]
    slopes = points.unsqueeze(0) - all_freqs.unsqueeze(1)
    down, up = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    return torch.max(torch.zeros(1), torch.min(down, up))


def melscale_fbanks(n_freqs, f_min, f_max, n_mels, sample_rate, norm=None, mel_scale="htk"):
    """The filters of a mel scale, (n_freqs, n_mels)."""
    if norm is not None and norm != "slaney":
        raise ValueError('norm must be one of None or "slaney"')
    all_freqs = torch.linspace(0, sample_rate // 2, n_freqs)
    mels = torch.linspace(_hz_to_mel(f_min, mel_scale=mel_scale), _hz_to_mel(f_max, mel_scale=mel_scale), n_mels + 2)
    points = _mel_to_hz(mels, mel_scale=mel_scale)
    banks = _triangles(all_freqs, points)
    if norm == "slaney":
        banks *= (2.0 / (points[2 : n_mels + 2] - points[:n_mels])).unsqueeze(0)
    if (banks.max(dim=0).values == 0.0).any():
        warnings.warn(
            f"At least one mel filterbank has all zero values. The value for `n_mels` ({n_mels}) may be set too high. "
            f"Or, the value for `n_freqs` ({n_freqs}) may be set too low."
        )
    return banks


def linear_fbanks(n_freqs, f_min, f_max, n_filter, sample_rate):
    return _triangles(torch.linspace(0, sample_rate // 2, n_freqs), torch.linspace(f_min, f_max, n_filter + 2))


def create_dct(n_mfcc, n_mels, norm):
    """The matrix (n_mels, n_mfcc) of a discrete cosine transform of type 2."""
    if norm is not None and norm != "ortho":
        raise ValueError('norm must be either "ortho" or None')
    dct = torch.cos(
        math.pi / float(n_mels) * (torch.arange(float(n_mels)) + 0.5) * torch.arange(float(n_mfcc)).unsqueeze(1)
    )
    if norm is None:
        dct *= 2.0
    else:
        dct[0] *= 1.0 / math.sqrt(2.0)
        dct *= math.sqrt(2.0 / float(n_mels))
    return dct.t()


# ---- Resampling ----
def _sinc_resample_kernel(
    orig_freq,
    new_freq,
    gcd,
    lowpass_filter_width=6,
    rolloff=0.99,
    resampling_method="sinc_interp_hann",
    beta=None,
    device=None,
    dtype=None,
):
    if int(orig_freq) != orig_freq or int(new_freq) != new_freq:
        raise Exception("Frequencies must be of integer type to ensure quality resampling computation.")
    if resampling_method not in ("sinc_interp_hann", "sinc_interp_kaiser"):
        raise ValueError(f"Invalid resampling method: {resampling_method}")
    if lowpass_filter_width <= 0:
        raise ValueError("Low pass filter width should be positive.")
    orig_freq, new_freq = int(orig_freq) // gcd, int(new_freq) // gcd
    base = min(orig_freq, new_freq) * rolloff
    width = math.ceil(lowpass_filter_width * orig_freq / base)
    steps = torch.arange(-width, width + orig_freq, dtype=dtype or torch.float64)[None, None] / orig_freq
    t = torch.arange(0, -new_freq, -1, dtype=dtype)[:, None, None] / new_freq + steps
    t = (t * base).clamp_(-lowpass_filter_width, lowpass_filter_width)
    if resampling_method == "sinc_interp_hann":
        window = torch.cos(t * math.pi / lowpass_filter_width / 2) ** 2
    else:
        beta = torch.tensor(float(14.769656459379492 if beta is None else beta))
        window = torch.i0(beta * torch.sqrt(1 - (t / lowpass_filter_width) ** 2)) / torch.i0(beta)
    t *= math.pi
    kernels = torch.where(t == 0, torch.tensor(1.0).to(t), t.sin() / t)
    kernels *= window * (base / orig_freq)
    return (kernels if dtype is not None else kernels.to(torch.float32)), width


def _apply_sinc_resample_kernel(waveform, orig_freq, new_freq, gcd, kernel, width):
    if not waveform.is_floating_point():
        raise TypeError(f"Expected floating point type for waveform tensor, but received {waveform.dtype}.")
    orig_freq, new_freq = int(orig_freq) // gcd, int(new_freq) // gcd
    shape = waveform.size()
    waveform = waveform.reshape(-1, shape[-1])
    n, length = waveform.shape
    padded = torch.nn.functional.pad(waveform, (width, width + orig_freq))
    resampled = torch.nn.functional.conv1d(padded[:, None], kernel, stride=orig_freq).transpose(1, 2).reshape(n, -1)
    resampled = resampled[..., : math.ceil(new_freq * length / orig_freq)]
    return resampled.reshape(shape[:-1] + resampled.shape[-1:])


def resample(
    waveform, orig_freq, new_freq, lowpass_filter_width=6, rolloff=0.99, resampling_method="sinc_interp_hann", beta=None
):
    """Another rate, by windowed sincs."""
    if orig_freq <= 0.0 or new_freq <= 0.0:
        raise ValueError("Original frequency and desired frequency should be positive")
    if orig_freq == new_freq:
        return waveform
    gcd = math.gcd(int(orig_freq), int(new_freq))
    kernel, width = _sinc_resample_kernel(
        orig_freq,
        new_freq,
        gcd,
        lowpass_filter_width,
        rolloff,
        resampling_method,
        beta,
        waveform.device,
        waveform.dtype,
    )
    return _apply_sinc_resample_kernel(waveform, orig_freq, new_freq, gcd, kernel, width)


# ---- Companding, deltas, masks ----
def mu_law_encoding(x, quantization_channels):
    mu = torch.tensor(quantization_channels - 1.0, dtype=x.dtype)
    y = torch.sign(x) * torch.log1p(mu * torch.abs(x)) / torch.log1p(mu)
    return ((y + 1) / 2 * mu + 0.5).to(torch.int64)


def mu_law_decoding(x_mu, quantization_channels):
    if not x_mu.is_floating_point():
        x_mu = x_mu.to(torch.float)
    mu = torch.tensor(quantization_channels - 1.0, dtype=x_mu.dtype)
    x = x_mu / mu * 2 - 1.0
    return torch.sign(x) * (torch.exp(torch.abs(x) * torch.log1p(mu)) - 1.0) / mu


def compute_deltas(specgram, win_length=5, mode="replicate"):
    """The slope of each coefficient over the frames around."""
    if win_length < 3:
        raise ValueError(f"Window length should be greater than or equal to 3. Found win_length {win_length}")
    shape = specgram.size()
    flat = specgram.reshape(1, -1, shape[-1])
    n = (win_length - 1) // 2
    flat = torch.nn.functional.pad(flat, (n, n), mode=mode)
    kernel = torch.arange(-n, n + 1, 1, dtype=specgram.dtype).repeat(flat.shape[1], 1, 1)
    return (torch.nn.functional.conv1d(flat, kernel, groups=flat.shape[1]) / (n * (n + 1) * (2 * n + 1) / 3)).reshape(
        shape
    )


def mask_along_axis(specgram, mask_param, mask_value, axis, p=1.0):
    """A random stretch of an axis becomes mask_value, the same for all."""
    if p < 1.0:
        mask_param = min(mask_param, int(specgram.shape[axis] * p))
    if mask_param < 1:
        return specgram
    size = specgram.size(axis)
    value = torch.rand(1) * mask_param
    start = (torch.rand(1) * (size - value)).long()
    end = start + value.long()
    place = torch.arange(0, size)
    mask = (place >= start) & (place < end)
    if (axis - specgram.ndim if axis >= 0 else axis) == -2:
        mask = mask.unsqueeze(-1)
    return specgram.masked_fill(mask, mask_value)


def mask_along_axis_iid(specgrams, mask_param, mask_value, axis, p=1.0):
    """A stretch of its own for each example and channel."""
    if p < 1.0:
        mask_param = min(mask_param, int(specgrams.shape[axis] * p))
    if mask_param < 1:
        return specgrams
    lead = specgrams.shape[: specgrams.dim() - 2]
    value = torch.rand(lead, dtype=specgrams.dtype) * mask_param
    first = torch.rand(lead, dtype=specgrams.dtype) * (specgrams.size(axis) - value)
    start, end = first.long()[..., None, None], (first.long() + value.long())[..., None, None]
    place = torch.arange(0, specgrams.size(axis), dtype=specgrams.dtype)
    specgrams = specgrams.transpose(axis, -1)
    return specgrams.masked_fill((place >= start) & (place < end), mask_value).transpose(axis, -1)


def gain(waveform, gain_db=1.0):
    return waveform if gain_db == 0 else waveform * 10 ** (gain_db / 20)
