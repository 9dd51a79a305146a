"""Knocks at the store whose port is given."""

import sys
import taper.distributed as dist

dist.TCPStore("127.0.0.1", int(sys.argv[1]), wait_for_workers=False)
