"""torchaudio's face on Taper: sound in WAV files, spectrograms, resampling."""

from taper import _C

__version__ = f"2.11.0+taper{_C._version}"


def __getattr__(name):
    if name in ("functional", "transforms"):
        from importlib import import_module

        return import_module("taper.torchaudio." + name)
    raise AttributeError(f"module 'torchaudio' has no attribute '{name}'")


class AudioMetaData:
    """What a file says about its sound."""

    def __init__(self, sample_rate, num_frames, num_channels, bits_per_sample, encoding):
        self.sample_rate, self.num_frames, self.num_channels = sample_rate, num_frames, num_channels
        self.bits_per_sample, self.encoding = bits_per_sample, encoding

    def __repr__(self):
        return "AudioMetaData(" + ", ".join(f"{name}={value!r}" for name, value in vars(self).items()) + ")"


def _file_bytes(uri):
    if hasattr(uri, "read"):
        import taper

        return taper.frombuffer(bytearray(uri.read()), dtype=taper.uint8)
    return _C._read_file(uri)


def load(
    uri, frame_offset=0, num_frames=-1, normalize=True, channels_first=True, format=None, buffer_size=4096, backend=None
):
    """The sound of a WAV file, (channels, frames), and its rate."""
    waveform, rate = _C._decode_wav(_file_bytes(uri), frame_offset, num_frames, normalize)
    return waveform if channels_first else waveform.t().contiguous(), rate


def save(
    uri,
    src,
    sample_rate,
    channels_first=True,
    format=None,
    encoding=None,
    bits_per_sample=None,
    buffer_size=4096,
    backend=None,
    compression=None,
):
    """Writes (channels, frames) to a WAV file. encoding: PCM_S, PCM_U (8 bits) or PCM_F; by default what the tensor's
    dtype suggests."""
    if src.ndim != 2:
        raise ValueError(f"Expected 2D Tensor, got {src.ndim}D.")
    if encoding not in (None, "PCM_S", "PCM_U", "PCM_F"):
        raise ValueError(f"WAV files are written as PCM_S, PCM_U or PCM_F, not as {encoding}")
    bits = bits_per_sample or {None: 0, "PCM_S": 16, "PCM_U": 8, "PCM_F": 32}[encoding]
    floating = encoding == "PCM_F" or encoding is None and src.is_floating_point() and bits in (32, 64)
    data = _C._encode_wav(src if channels_first else src.t(), sample_rate, bits, floating)
    if hasattr(uri, "write"):
        uri.write(bytes(memoryview(data)))
    else:
        _C._write_file(uri, data)


def info(uri, format=None, buffer_size=4096, backend=None):
    rate, frames, channels, bits, floating = _C._describe_wav(_file_bytes(uri))
    return AudioMetaData(rate, frames, channels, bits, "PCM_F" if floating else "PCM_U" if bits == 8 else "PCM_S")


def list_audio_backends():
    return ["taper"]


def set_audio_backend(backend):
    """There is one."""


def get_audio_backend():
    return "taper"
