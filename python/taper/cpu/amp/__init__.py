"""torch.cpu.amp: the older names of torch.amp for the device type 'cpu'."""

from taper.cpu.amp.autocast_mode import autocast
from taper.cpu.amp.grad_scaler import GradScaler
