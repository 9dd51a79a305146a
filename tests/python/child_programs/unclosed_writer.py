"""Writes one scalar into the folder that is given, and ends without closing the writer."""

import sys
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter(sys.argv[1])
writer.add_scalar("a", 1, 1)
raise SystemExit("stopped")
