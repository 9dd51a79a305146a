"""What the programs of this folder share."""

import os
import re
import socket
import struct


def listening():
    """The addresses at which this process listens."""
    inodes, found = set(), []
    for fd in os.listdir("/proc/self/fd"):
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/self/fd/{fd}")))
        except OSError:
            pass
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        if not os.path.exists(f"/proc/net/{name}"):
            continue
        for line in open(f"/proc/net/{name}").read().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A" and parts[9] in inodes:
                address = bytes.fromhex(parts[1].split(":")[0])
                words = struct.unpack(f"<{len(address) // 4}I", address)
                found.append(socket.inet_ntop(family, struct.pack(f">{len(words)}I", *words)))
    return sorted(found)
