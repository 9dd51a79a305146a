"""torchaudio.transforms: the functions as modules, their windows and filters as buffers."""

import math

import taper as torch
from taper.nn import Module
from taper.torchaudio import functional as F


class Spectrogram(Module):
    def __init__(
        self,
        n_fft=400,
        win_length=None,
        hop_length=None,
        pad=0,
        window_fn=torch.hann_window,
        power=2.0,
        normalized=False,
        wkwargs=None,
        center=True,
        pad_mode="reflect",
        onesided=True,
        return_complex=None,
    ):
        super().__init__()
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.power, self.normalized, self.center, self.pad_mode, self.onesided = (
            pad,
            power,
            normalized,
            center,
            pad_mode,
            onesided,
        )

    def forward(self, waveform):
        return F.spectrogram(
            waveform,
            self.pad,
            self.window,
            self.n_fft,
            self.hop_length,
            self.win_length,
            self.power,
            self.normalized,
            self.center,
            self.pad_mode,
            self.onesided,
        )


class InverseSpectrogram(Module):
    def __init__(
        self,
        n_fft=400,
        win_length=None,
        hop_length=None,
        pad=0,
        window_fn=torch.hann_window,
        normalized=False,
        wkwargs=None,
        center=True,
        pad_mode="reflect",
        onesided=True,
    ):
        super().__init__()
        self.n_fft = n_fft
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))
        self.pad, self.normalized, self.center, self.pad_mode, self.onesided = (
            pad,
            normalized,
            center,
            pad_mode,
            onesided,
        )

    def forward(self, spectrogram, length=None):
        return F.inverse_spectrogram(
            spectrogram,
            length,
            self.pad,
            self.window,
            self.n_fft,
            self.hop_length,
            self.win_length,
            self.normalized,
            self.center,
            self.pad_mode,
            self.onesided,
        )


class AmplitudeToDB(Module):
    def __init__(self, stype="power", top_db=None):
        super().__init__()
        self.stype = stype
        if top_db is not None and top_db < 0:
            raise ValueError("top_db must be positive value")
        self.top_db = top_db
        self.multiplier = 10.0 if stype == "power" else 20.0
        self.amin, self.ref_value = 1e-10, 1.0
        self.db_multiplier = math.log10(max(self.amin, self.ref_value))

    def forward(self, x):
        return F.amplitude_to_DB(x, self.multiplier, self.amin, self.db_multiplier, self.top_db)


class MelScale(Module):
    def __init__(self, n_mels=128, sample_rate=16000, f_min=0.0, f_max=None, n_stft=201, norm=None, mel_scale="htk"):
        super().__init__()
        self.n_mels, self.sample_rate, self.f_min, self.norm, self.mel_scale = (
            n_mels,
            sample_rate,
            f_min,
            norm,
            mel_scale,
        )
        self.f_max = f_max if f_max is not None else float(sample_rate // 2)
        if f_min > self.f_max:
            raise ValueError(f"Require f_min: {f_min} <= f_max: {self.f_max}")
        self.register_buffer(
            "fb", F.melscale_fbanks(n_stft, self.f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        )

    def forward(self, specgram):
        return torch.matmul(specgram.transpose(-1, -2), self.fb).transpose(-1, -2)


class MelSpectrogram(Module):
    def __init__(
        self,
        sample_rate=16000,
        n_fft=400,
        win_length=None,
        hop_length=None,
        f_min=0.0,
        f_max=None,
        pad=0,
        n_mels=128,
        window_fn=torch.hann_window,
        power=2.0,
        normalized=False,
        wkwargs=None,
        center=True,
        pad_mode="reflect",
        onesided=None,
        norm=None,
        mel_scale="htk",
    ):
        super().__init__()
        self.sample_rate, self.n_fft, self.pad, self.power, self.normalized = sample_rate, n_fft, pad, power, normalized
        self.win_length = win_length if win_length is not None else n_fft
        self.hop_length = hop_length if hop_length is not None else self.win_length // 2
        self.n_mels, self.f_max, self.f_min = n_mels, f_max, f_min
        self.spectrogram = Spectrogram(
            n_fft, self.win_length, self.hop_length, pad, window_fn, power, normalized, wkwargs, center, pad_mode, True
        )
        self.mel_scale = MelScale(n_mels, sample_rate, f_min, f_max, n_fft // 2 + 1, norm, mel_scale)

    def forward(self, waveform):
        return self.mel_scale(self.spectrogram(waveform))


class MFCC(Module):
    def __init__(self, sample_rate=16000, n_mfcc=40, dct_type=2, norm="ortho", log_mels=False, melkwargs=None):
        super().__init__()
        if dct_type != 2:
            raise ValueError(f"DCT type not supported: {dct_type}")
        self.sample_rate, self.n_mfcc, self.dct_type, self.norm, self.log_mels = (
            sample_rate,
            n_mfcc,
            dct_type,
            norm,
            log_mels,
        )
        self.top_db = 80.0
        self.amplitude_to_DB = AmplitudeToDB("power", self.top_db)
        self.MelSpectrogram = MelSpectrogram(sample_rate=sample_rate, **(melkwargs or {}))
        if n_mfcc > self.MelSpectrogram.n_mels:
            raise ValueError("Cannot select more MFCC coefficients than # mel bins")
        self.register_buffer("dct_mat", F.create_dct(n_mfcc, self.MelSpectrogram.n_mels, norm))

    def forward(self, waveform):
        mels = self.MelSpectrogram(waveform)
        mels = torch.log(mels + 1e-6) if self.log_mels else self.amplitude_to_DB(mels)
        return torch.matmul(mels.transpose(-1, -2), self.dct_mat).transpose(-1, -2)


class Resample(Module):
    def __init__(
        self,
        orig_freq=16000,
        new_freq=16000,
        resampling_method="sinc_interp_hann",
        lowpass_filter_width=6,
        rolloff=0.99,
        beta=None,
        *,
        dtype=None,
    ):
        super().__init__()
        self.orig_freq, self.new_freq, self.gcd = orig_freq, new_freq, math.gcd(int(orig_freq), int(new_freq))
        self.resampling_method, self.lowpass_filter_width, self.rolloff, self.beta = (
            resampling_method,
            lowpass_filter_width,
            rolloff,
            beta,
        )
        if orig_freq != new_freq:
            kernel, self.width = F._sinc_resample_kernel(
                orig_freq, new_freq, self.gcd, lowpass_filter_width, rolloff, resampling_method, beta, dtype=dtype
            )
            self.register_buffer("kernel", kernel)

    def forward(self, waveform):
        if self.orig_freq == self.new_freq:
            return waveform
        return F._apply_sinc_resample_kernel(waveform, self.orig_freq, self.new_freq, self.gcd, self.kernel, self.width)


class MuLawEncoding(Module):
    def __init__(self, quantization_channels=256):
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x):
        return F.mu_law_encoding(x, self.quantization_channels)


class MuLawDecoding(Module):
    def __init__(self, quantization_channels=256):
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x_mu):
        return F.mu_law_decoding(x_mu, self.quantization_channels)


class ComputeDeltas(Module):
    def __init__(self, win_length=5, mode="replicate"):
        super().__init__()
        self.win_length, self.mode = win_length, mode

    def forward(self, specgram):
        return F.compute_deltas(specgram, win_length=self.win_length, mode=self.mode)


class _AxisMasking(Module):
    def __init__(self, mask_param, axis, iid_masks, p=1.0):
        super().__init__()
        self.mask_param, self.axis, self.iid_masks, self.p = mask_param, axis, iid_masks, p

    def forward(self, specgram, mask_value=0.0):
        if self.iid_masks:
            return F.mask_along_axis_iid(
                specgram, self.mask_param, mask_value, self.axis + specgram.dim() - 3, p=self.p
            )
        return F.mask_along_axis(specgram, self.mask_param, mask_value, self.axis + specgram.dim() - 3, p=self.p)


class FrequencyMasking(_AxisMasking):
    def __init__(self, freq_mask_param, iid_masks=False):
        super().__init__(freq_mask_param, 1, iid_masks)


class TimeMasking(_AxisMasking):
    def __init__(self, time_mask_param, iid_masks=False, p=1.0):
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"The value of p must be between 0.0 and 1.0 ({p} given).")
        super().__init__(time_mask_param, 2, iid_masks, p=p)


class Vol(Module):
    def __init__(self, gain, gain_type="amplitude"):
        super().__init__()
        self.gain, self.gain_type = gain, gain_type
        if gain_type in ("amplitude", "power") and gain < 0:
            raise ValueError("If gain_type = amplitude or power, gain must be positive.")

    def forward(self, waveform):
        db = {"amplitude": None, "db": self.gain}.get(
            self.gain_type, 10 * math.log10(self.gain) if self.gain_type == "power" else None
        )
        waveform = waveform * self.gain if self.gain_type == "amplitude" else F.gain(waveform, db)
        return torch.clamp(waveform, -1, 1)
