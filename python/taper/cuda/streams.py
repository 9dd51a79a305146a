"""torch.cuda.streams: streams and events of GPUs."""
from taper.cuda import Event, ExternalStream, Stream  # noqa: F401
