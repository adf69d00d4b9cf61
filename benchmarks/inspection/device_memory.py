"""How much room a device has, and what would be on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Device:
    """All that would be on one device. unknown: roles of experts whose size nobody knows. fits: None if that is open.

    free and size: bytes, None where the device does not tell.
    """

    name: str
    weights: int
    kept: int
    exact: bool
    unknown: tuple[str, ...]
    free: int | None
    size: int | None

    @property
    def fits(self) -> bool | None:
        if self.free is None:
            return None
        if self.weights > self.free:
            return False
        return None if self.unknown else True

    @property
    def verdict(self) -> str:
        """In words."""
        if self.free is None:
            return "nobody knows how much is free"
        if self.weights > self.free:
            return f"does not fit: {size_of(self.weights - self.free)} too much"
        if self.unknown:
            return f"it is not known how large {', '.join(self.unknown)} is"
        if self.weights + self.kept > self.free:
            return "weights fit, but not all that may be kept: lower limit_bytes"
        return f"fits, {size_of(self.free - self.weights - self.kept)} are left for passes"


def room(name: str) -> tuple[int | None, int | None]:
    """Bytes that are free on a device, and that it has."""
    plain = name.partition(",")[0]  # "cuda:0", or "cuda, all of them (auto)"
    if plain == "cpu":
        return _ram()
    return on_gpus(plain if ":" in plain else "") if plain.startswith("cuda") else (None, None)


def on_gpus(name: str = "") -> tuple[int | None, int | None]:
    """Of one, or of all together."""
    try:
        import torch

        if not torch.cuda.is_available():
            return None, None
        every: Any = [torch.device(name)] if name else range(torch.cuda.device_count())
        rooms = [torch.cuda.mem_get_info(one) for one in every]
    except (ImportError, RuntimeError, ValueError):
        return None, None
    return sum(free for free, _ in rooms), sum(size for _, size in rooms)


def _ram() -> tuple[int | None, int | None]:
    table = Path("/proc/meminfo")
    if table.exists():
        lines = dict(line.split(":", 1) for line in table.read_text(encoding="ascii").splitlines())
        return tuple(int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))  # type: ignore[return-value]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return None, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None, None


def size_of(taken: int | None, exact: bool = True) -> str:
    """As in `about 1.2 GiB`."""
    if taken is None:
        return "not known"
    about = "" if exact or not taken else "about "
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if taken >= unit:
            return f"{about}{taken / unit:.{1 if taken < 100 * unit else 0}f} {name}"
    return f"{about}{taken} B"
