"""How busy this machine is, for the page of `taper watch --serve`: processors, memory, GPUs; and what ranks last
said."""

import ctypes
import os
import time


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Processors:
    """The share of the processors' time that was used since the last look."""

    def __init__(self):
        self.before = self._times()

    def _times(self):
        numbers = [int(word) for word in _read("/proc/stat").split("\n")[0].split()[1:]]
        return (sum(numbers), numbers[3] + numbers[4]) if len(numbers) > 4 else (0, 0)

    def busy(self):
        now = self._times()
        total, idle = now[0] - self.before[0], now[1] - self.before[1]
        self.before = now
        return round(1 - idle / total, 3) if total > 0 else None


def memory():
    """(used, total) bytes of the machine."""
    found = {}
    for line in _read("/proc/meminfo").split("\n"):
        name, _, rest = line.partition(":")
        if rest.split():
            found[name] = int(rest.split()[0]) * 1024
    total = found.get("MemTotal", 0)
    return total - found.get("MemAvailable", 0), total


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gpus:
    """NVIDIA's GPUs by NVML, AMD's by /sys; no context is made on a device."""

    def __init__(self):
        self.nvml = None
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() == 0:
                self.nvml = library
        except OSError:
            pass

    def states(self):
        """[{name, busy, used, total}]."""
        return list(self._nvidia()) + list(self._amd())

    def _nvidia(self):
        count = ctypes.c_uint()
        if self.nvml is None or self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for i in range(count.value):
            device, rates, held = ctypes.c_void_p(), _Rates(), _Memory()
            name = ctypes.create_string_buffer(96)
            if self.nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)):
                continue
            self.nvml.nvmlDeviceGetName(device, name, 96)
            failed = self.nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref(rates))
            self.nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(held))
            yield {
                "name": f"{i}: {name.value.decode(errors='replace')}",
                "busy": None if failed else rates.gpu / 100,
                "used": held.used,
                "total": held.total,
            }

    def _amd(self):
        folder = "/sys/class/drm"
        for card in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            device = os.path.join(folder, card, "device")
            busy = _read(os.path.join(device, "gpu_busy_percent")).strip()
            if card.startswith("card") and "-" not in card and busy.isdigit():
                used = _read(os.path.join(device, "mem_info_vram_used")).strip() or "0"
                total = _read(os.path.join(device, "mem_info_vram_total")).strip() or "0"
                yield {"name": f"AMD {card}", "busy": int(busy) / 100, "used": int(used), "total": int(total)}


def _last_line(path):
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
    except OSError:
        return ""
    return next((line[:200] for line in reversed(lines) if line.strip()), "")


def ranks(roots):
    """What `taper launch --log-dir` kept below some folders: a rank's last line and the seconds since it spoke."""
    found = []
    for root in roots:
        for folder, _, files in os.walk(root):
            above = os.path.basename(os.path.dirname(folder))
            name = os.path.basename(folder)
            if not (name.isdigit() and above.startswith("attempt_")):
                continue
            logs = [os.path.join(folder, file) for file in files if file in ("stdout.log", "stderr.log")]
            logs = [path for path in logs if os.path.getsize(path)]
            if logs:
                latest = max(logs, key=os.path.getmtime)
                quiet = round(time.time() - os.path.getmtime(latest), 1)
                job = os.path.relpath(os.path.dirname(folder), root)
                found.append({"job": job, "rank": int(name), "quiet": quiet, "line": _last_line(latest)})
    return sorted(found, key=lambda rank: (rank["job"], rank["rank"]))
