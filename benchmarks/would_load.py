"""What experts would load: from where, under which terms, at which precision, how much memory, and whether it fits.

Nothing is loaded, downloaded or asked of a server.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..reward import AsyncExpert, Expert, ExpertDown, SpecError, load_experts
from ..reward.experts.ocr import RapidOcr
from ..reward.experts.vllm_judge import VllmJudge
from ..reward.models.checkpoint import place
from ..reward.models.known import BYTES, Model, models
from ..reward.models.local import LocalExpert
from .weights_here import Weights, look, memory, offline


@dataclass(frozen=True, slots=True)
class Entry:
    """One expert. roles: that it is bound to; several where they were given the same spec.

    source: `folder`, `file`, `hub cache`, `hub` (would be downloaded), `nowhere`, `server`, `package` or `none`.
    where: the same for people. licence and gated: as the table of known models has them, empty where it has none.
    weights: bytes, None where nobody knows; exact: counted in the files, else estimated. kept: bytes that are kept of
    recent pictures, at most. shares: the role that the same weights are loaded for already. problem: why it would not
    load.
    """

    roles: tuple[str, ...]
    expert: str
    model: str = ""
    source: str = "none"
    where: str = "needs no weights"
    revision: str = ""
    licence: str = ""
    gated: bool = False
    dtype: str = ""
    device: str = ""
    quantisation: str = ""
    weights: int | None = 0
    exact: bool = True
    kept: int = 0
    budget: str = ""
    shares: str = ""
    problem: str = ""


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


@dataclass(frozen=True)
class WouldLoad:
    """All of it."""

    entries: tuple[Entry, ...]
    devices: tuple[Device, ...]

    @property
    def exit_code(self) -> int:
        """1 where something is not there, or does not fit."""
        return int(any(one.problem for one in self.entries) or any(one.fits is False for one in self.devices))

    def to_json(self) -> dict[str, Any]:
        devices = [{**asdict(one), "fits": one.fits, "verdict": one.verdict} for one in self.devices]
        return {"experts": [asdict(one) for one in self.entries], "devices": devices}


def would_load(given: Sequence[str], *, ask: bool = False) -> WouldLoad:
    """What a line of experts (see `load_experts`) would load. ask: servers are asked for the models they have.

    Raises `SpecError` for a line that means nothing.
    """
    experts = bound(given)
    roles: dict[int, list[str]] = {}
    for role, expert in experts.items():
        roles.setdefault(id(expert), []).append(role)
    entries: list[Entry] = []
    holders: dict[int, str] = {}
    with offline():
        for names in roles.values():
            expert, whose = within(experts[names[0]])
            entry = _entry(tuple(names), expert, ask)
            entry = _changed(entry, expert=f"{whose}{entry.expert}")
            if isinstance(expert, LocalExpert):
                held = id(expert.checkpoint.held)
                entry = entry if held not in holders else _changed(entry, shares=holders[held])
                holders.setdefault(held, names[0])
            entries.append(entry)
    return WouldLoad(tuple(entries), tuple(_devices(entries)))


def bound(given: Sequence[str]) -> dict[str, Expert]:
    """Role -> expert; of models on the hub whose kind is not known here it is not asked there. Raises `SpecError`."""
    with offline():
        try:
            experts = load_experts(given)
        except SpecError as error:
            if "be had from the hub" not in str(error):
                raise
            raise SpecError(
                f"{error}; nothing is downloaded here: say which expert answers with it, as in vlm:NAME"
            ) from None
    if not experts:
        raise SpecError("no experts are given: write as in --experts 'detector=grounding-dino-tiny judge=vlm:FOLDER'")
    return experts


def within(expert: Expert) -> tuple[Expert, str]:
    """Who has the weights, where another one is asked: the judge of a rater, the best upscaler that is there."""
    for name, does in (("chosen", "chooses"), ("asked", "asks")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what was not chosen: the table tells
            inner = getattr(expert, name, None) if not isinstance(expert, LocalExpert | AsyncExpert) else None
        if isinstance(inner, Expert):
            return inner, f"{type(expert).__name__}, which {does} "
    return expert, ""


def _entry(roles: tuple[str, ...], expert: Expert, ask: bool) -> Entry:
    kind = type(expert).__name__
    if isinstance(expert, LocalExpert):
        return _local(roles, expert)
    if isinstance(expert, VllmJudge):
        return _in_vllm(roles, expert)
    if isinstance(expert, AsyncExpert):
        return _served(roles, expert, ask)
    if isinstance(expert, RapidOcr):
        return Entry(roles, kind, "", "package", "comes with the package rapidocr", device="cpu")
    return Entry(roles, kind)


def _local(roles: tuple[str, ...], expert: LocalExpert[Any]) -> Entry:
    found = look(expert.name, expert.revision, expert.weights_file)
    lora, lora_revision = getattr(expert, "lora", ""), getattr(expert, "lora_revision", None)
    known = known_as(expert.name, lora)
    device, dtype, problem = _on(expert)
    out = getattr(expert.loader, "leaves_out", ())
    weights, exact = _memory(found, known, dtype, expert.quantisation, out=out)
    where, more = _where(found), ""
    if base := expert.checkpoint.base:
        beside = look(base)
        where += f"; with {base}, {_short(beside)}"
        if parts := getattr(expert.loader, "takes_of_base", ()):
            weights, exact = _sum((weights, exact), _memory(beside, known_as(base), dtype, "", only=parts))
            if known and not found.here:  # whose number is of both
                weights, exact = known.memory(dtype), False
        more = beside.problem
    if lora:
        added = look(lora, lora_revision, "adapter_model.safetensors")
        where += f"; with the adapter {lora}, {_short(added)}"
        weights, exact = _sum((weights, exact), memory(added, dtype) if added.here else (0, False))
        more = more or added.problem or _incomplete(added)
    return Entry(
        roles,
        type(expert).__name__,
        expert.name,
        found.source,
        where,
        expert.revision or found.commit[:12],
        known.licence if known else "",
        bool(known and known.gated),
        dtype,
        device,
        expert.quantisation,
        weights,
        exact,
        expert.limit_bytes,
        expert.memory,
        "",
        found.problem or _incomplete(found) or more or problem,
    )


def _in_vllm(roles: tuple[str, ...], expert: VllmJudge) -> Entry:
    found, known = look(expert.name, expert.revision), known_as(expert.name)
    dtype = "bfloat16" if expert.dtype == "auto" else expert.dtype
    weights, exact = _memory(found, known, dtype, "")
    share = expert.engine.get("gpu_memory_utilization", 0.9)
    return Entry(
        roles,
        type(expert).__name__,
        expert.name,
        found.source,
        f"{_where(found)}; vLLM takes {share:.0%} of a GPU, whatever the weights take",
        expert.revision or found.commit[:12],
        known.licence if known else "",
        bool(known and known.gated),
        dtype,
        "cuda",
        "",
        weights,
        exact and expert.dtype != "auto",
        problem=found.problem or _incomplete(found),
    )


def _served(roles: tuple[str, ...], expert: Any, ask: bool) -> Entry:
    kind, model = type(expert).__name__, str(getattr(expert, "model", "") or getattr(expert, "name", ""))
    at = getattr(getattr(expert, "endpoint", None), "place", "a server")
    problem = ""
    if not model and hasattr(type(expert), "served"):
        model = "its only model (not asked)"
        if ask:
            try:
                model = str(expert.served)
            except ExpertDown as error:
                problem = str(error)
    return Entry(roles, kind, model, "server", f"asked at {at}", problem=problem)


def _changed(entry: Entry, **changed: Any) -> Entry:
    return Entry(**{**{name: getattr(entry, name) for name in Entry.__slots__}, **changed})


def _on(expert: LocalExpert[Any]) -> tuple[str, str, str]:
    """Device and dtype as they would be here, and what is wrong with them."""
    try:
        import torch
    except ImportError as error:
        return "cpu", expert.dtype, f"{error.name} is not installed: pip install 'editcritic[hf]'"
    try:
        device, dtype = place(torch, expert.device, expert.dtype)
    except (ExpertDown, RuntimeError) as error:  # the latter: no such kind of device
        return expert.device, expert.dtype, str(error).splitlines()[0]
    said = str(device) if not expert.device_map else f"{device.type}, all of them ({expert.device_map})"
    problem = ""
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        problem = f"there is no {device}: {torch.cuda.device_count()} of its kind are here"
    if expert.quantisation:
        from transformers.utils import is_bitsandbytes_available

        if not is_bitsandbytes_available():
            problem = f"quantisation {expert.quantisation} needs bitsandbytes: pip install 'editcritic[quantised]'"
    return said, str(dtype).removeprefix("torch."), problem


def known_as(name: str, lora: str = "") -> Model | None:
    """By its name on the hub, or that of its file; of an adapter on top of it, by that."""
    for model in models().values():
        named = name in (model.checkpoint, model.weights) or Path(name).name == model.file != "model.safetensors"
        if name and named and lora == model.options.get("lora", ""):
            return model
    return known_as(name) if lora else None


def _memory(
    found: Weights,
    known: Model | None,
    dtype: str,
    quantisation: str,
    *,
    only: tuple[str, ...] = (),
    out: tuple[str, ...] = (),
) -> tuple[int | None, bool]:
    if found.here:
        return memory(found, dtype, quantisation, only, out)
    return (known.memory(quantisation or (dtype if dtype in BYTES else "float32")) if known else None), False


def _sum(one: tuple[int | None, bool], other: tuple[int | None, bool]) -> tuple[int | None, bool]:
    taken = None if one[0] is None or other[0] is None else one[0] + other[0]
    return taken, one[1] and other[1]


def _where(found: Weights) -> str:
    if found.source in ("folder", "file"):
        return f"the {found.source} {found.path}"
    if found.source == "hub cache" and found.lacking:
        return "in part in the hub's cache, the rest would be downloaded"
    if found.source == "hub cache":
        return f"the hub's cache, commit {found.commit[:12]}"
    return "would be downloaded" if found.source == "hub" else "nowhere"


def _short(found: Weights) -> str:
    return {"hub": "to be downloaded", "hub cache": "cached", "nowhere": "which is nowhere"}.get(found.source, "here")


def _incomplete(found: Weights) -> str:
    if found.source in ("folder", "file") and found.lacking:
        named = ", ".join(found.lacking[:3]) + (", ..." if len(found.lacking) > 3 else "")
        return f"{found.path} lacks {named}"
    return ""


# -- what fits --------------------------------------------------------------------------------------------------------


def _devices(entries: Sequence[Entry]) -> list[Device]:
    found: list[Device] = []
    for name in dict.fromkeys(one.device for one in entries if one.device):
        here = [one for one in entries if one.device == name]
        own = [one for one in here if not one.shares]
        free, size = _room(name)
        found.append(
            Device(
                name,
                sum(one.weights or 0 for one in own),
                sum(one.kept for one in here),
                all(one.exact for one in own),
                tuple(one.roles[0] for one in own if one.weights is None),
                free,
                size,
            )
        )
    return found


def _room(name: str) -> tuple[int | None, int | None]:
    """Bytes that are free on a device, and that it has."""
    kind = name.partition(",")[0].partition(":")[0]
    if kind == "cpu":
        return _ram()
    try:
        import torch

        if kind != "cuda" or not torch.cuda.is_available():
            return None, None
        every = range(torch.cuda.device_count()) if "," in name else [torch.device(name.partition(",")[0])]
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


# -- for people -------------------------------------------------------------------------------------------------------


def size_of(taken: int | None, exact: bool = True) -> str:
    """As in `about 1.2 GiB`."""
    if taken is None:
        return "not known"
    about = "" if exact or not taken else "about "
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if taken >= unit:
            return f"{about}{taken / unit:.{1 if taken < 100 * unit else 0}f} {name}"
    return f"{about}{taken} B"


def table(found: WouldLoad) -> RenderableType:
    """For a terminal of 80 columns or more."""
    parts: list[RenderableType] = [_experts(found.entries)]
    if found.devices:
        parts.append(_together(found.devices))
        parts.append(Text("\nPasses take memory of their own: `memory=8GiB` among an expert's options bounds them."))
    return Group(*parts)


def _experts(entries: Sequence[Entry]) -> Table:
    grid = _grid("What would load")
    grid.add_column("role", overflow="fold", max_width=18)
    grid.add_column("expert, model, and where it is from", overflow="fold")
    grid.add_column("as", overflow="fold", max_width=14)
    grid.add_column("weights", no_wrap=True)
    grid.add_column("kept, at most", no_wrap=True)
    for one in entries:
        how = [one.dtype, one.quantisation, f"on {one.device}" if one.device else ""]
        how.append(f"in {one.budget}" if one.budget else "")
        local = bool(one.device) and one.source != "package"
        grid.add_row(
            Text("\n".join(one.roles)),
            _told(one),
            Text("\n".join(filter(None, how))),
            Text(size_of(one.weights, one.exact) if local else ""),
            Text(size_of(one.kept) if one.kept else ""),
        )
    return grid


def _told(one: Entry) -> Text:
    terms = one.licence or ("licence not known" if one.source.startswith("hub") else "")
    if one.gated:
        terms += ", gated: accept its terms on the hub first"
    where = one.where + (f", revision {one.revision}" if one.revision and one.source == "hub" else "")
    shared = f"the same weights as {one.shares}" if one.shares else ""
    told = Text("\n".join(filter(None, [f"{one.expert} {one.model}".strip(), where, terms, shared])))
    if one.problem:
        told.append(f"\n{one.problem}", "red")
    return told


def _together(devices: Sequence[Device]) -> Table:
    grid = _grid("\nTogether, what is shared counted once")
    for heading in ("device", "weights", "kept, at most", "free", "of", ""):
        grid.add_column(heading, overflow="fold")
    for one in devices:
        weights = size_of(one.weights, one.exact) + (" and more" if one.unknown else "")
        room = (size_of(one.free), size_of(one.size))
        grid.add_row(*map(Text, (one.name, weights, size_of(one.kept), *room, one.verdict)))
    return grid


def _grid(title: str) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), title=title, title_justify="left")
