"""What listens on a host tells a stranger its challenge and no more."""

import os
import socket
import struct
import sys
from datetime import timedelta
import torch.distributed as dist

ports = [int(port) for port in sys.argv[1].split()]
assert 29511 in ports, ports
for port in ports:
    for purpose in (1, 2, 3, 4):
        for more in (b"", b"\0" * 32, struct.pack("=IIIIQ", 0x54505354, 2, 0, 7, 0) + b"taper/0"):
            with socket.create_connection(("10.77.0.1", port), timeout=15) as s:
                got = b""
                try:
                    s.sendall(
                        b"TAPER-01" + struct.pack("=II", purpose, 1 if more[:1] == b"\0" else 0) + os.urandom(32) + more
                    )
                    s.shutdown(socket.SHUT_WR)
                    while data := s.recv(4096):
                        got += data
                except OSError:
                    pass
                assert len(got) in (0, 80), (port, purpose, got)  # the challenge, and no more
try:
    dist.TCPStore("10.77.0.1", 29511, is_master=False, timeout=timedelta(seconds=10), wait_for_workers=False)
except RuntimeError as error:
    assert "asks for the job's secret" in str(error), error
    print("refused")
