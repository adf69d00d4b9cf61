"""Memory of devices, and what the experts would use of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Planned memory of one device. unknown: roles of experts of unknown size. fits: None if that is unknown.
    free_bytes, total_bytes: None if the device does not report them."""

    name: str
    weights: int
    cache_bytes: int
    is_exact: bool
    unknown: tuple[str, ...]
    free_bytes: int | None
    total_bytes: int | None

    @property
    def fits(self) -> bool | None:
        if self.free_bytes is None:
            return None
        if self.weights > self.free_bytes:
            return False
        return None if self.unknown else True

    @property
    def verdict(self) -> str:
        """Whether it fits, as text."""
        if self.free_bytes is None:
            return "free memory is unknown"
        if self.weights > self.free_bytes:
            return f"does not fit: {format_size(self.weights - self.free_bytes)} too large"
        if self.unknown:
            return f"size of {', '.join(self.unknown)} is unknown"
        if self.weights + self.cache_bytes > self.free_bytes:
            return "weights fit, but not with full caches: lower cache_bytes"
        return f"fits, {format_size(self.free_bytes - self.weights - self.cache_bytes)} are left for forward passes"


def available_memory(name: str) -> tuple[int | None, int | None]:
    """Free and total bytes of a device."""
    plain = name.partition(",")[0]  # "cuda:0", or "cuda, all of them (auto)"
    if plain == "cpu":
        table = Path("/proc/meminfo")
        if table.exists():
            lines = dict(line.split(":", 1) for line in table.read_text(encoding="ascii").splitlines())
            return tuple(int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))  # type: ignore[return-value]
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            return None, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return None, None
    return gpu_memory(plain if ":" in plain else "") if plain.startswith("cuda") else (None, None)


def gpu_memory(name: str = "") -> tuple[int | None, int | None]:
    """Free and total bytes of one GPU, or of all together."""
    try:
        import torch

        if not torch.cuda.is_available():
            return None, None
        devices: Any = [torch.device(name)] if name else range(torch.cuda.device_count())
        memory = [torch.cuda.mem_get_info(device) for device in devices]
    except (ImportError, RuntimeError, ValueError):
        return None, None
    return sum(free for free, _ in memory), sum(size for _, size in memory)


def format_size(num_bytes: int | None, exact: bool = True) -> str:
    """A size as text, e.g. `about 1.2 GiB`."""
    if num_bytes is None:
        return "unknown"
    about = "" if exact or not num_bytes else "about "
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if num_bytes >= unit:
            return f"{about}{num_bytes / unit:.{1 if num_bytes < 100 * unit else 0}f} {name}"
    return f"{about}{num_bytes} B"
