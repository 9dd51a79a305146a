"""torch.torch_version: a version that is a string and compares as a version, so that "2.15.0" >= "2.4" holds."""

from taper.version import __version__ as _of_names

_PARTS = r"""v?(?P<release>\d+(\.\d+)*)
    ([-_.]?(?P<stage>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<number>\d*))?
    ([-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>\d*))?
    ([-_.]?dev[-_.]?(?P<dev>\d*))?
    (\+(?P<local>[a-z0-9]+([-_.][a-z0-9]+)*))?"""
_STAGES = {"a": 0, "alpha": 0, "b": 1, "beta": 1}  # any other one is a release candidate


def _key(version):
    """What orders versions, by the rules of Python's packages; ValueError where the text is no version."""
    import re

    parts = re.fullmatch(_PARTS, version.strip(), re.VERBOSE | re.IGNORECASE)
    if parts is None:
        raise ValueError(f"Invalid version: '{version}'")
    release = [int(number) for number in parts["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    before = parts["dev"] is not None and not parts["stage"] and not parts["post"]  # 2.0.dev1 comes before 2.0a1
    stage = (
        (-1, 0)
        if before
        else (_STAGES.get(parts["stage"].lower(), 2), int(parts["number"] or 0))
        if parts["stage"]
        else (3, 0)
    )
    post = int(parts["post_number"] or 0) if parts["post"] else -1
    dev = float("inf") if parts["dev"] is None else int(parts["dev"] or 0)
    local = [
        (1, int(part), "") if part.isdigit() else (0, 0, part.lower())
        for part in re.split("[-_.]", parts["local"] or "")
        if part
    ]
    return release, stage, post, dev, local


class TorchVersion(str):
    """A str that is compared as a version with texts, tuples of numbers and other versions; with anything else, as a
    str."""

    def _compared(self, other, how):
        if isinstance(other, (tuple, list)):
            other = ".".join(map(str, other))
        try:
            return getattr(_key(self), how)(_key(str(other)))
        except ValueError:
            return getattr(str, how)(self, other)

    __hash__ = str.__hash__


for _how in ("__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__ne__"):
    setattr(TorchVersion, _how, lambda self, other, how=_how: self._compared(other, how))

# The version of PyTorch whose names and behaviour these are; scripts compare it. Taper's own is torch.version.taper.
__version__ = TorchVersion(_of_names)
