"""What experts would load: from where, under which terms, at which precision, how much memory, and whether it fits.

Nothing is loaded, downloaded or asked of a server.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..reward import AsyncExpert, Expert, ExpertDown, SpecError, load_experts
from ..reward.experts.ocr import RapidOcr
from ..reward.experts.vllm_judge import VllmJudge
from ..reward.models.checkpoint import place
from ..reward.models.known import BYTES, Model, models
from ..reward.models.local import LocalExpert
from .room import Device, on_gpus, room
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
            if "chooses" in whose and entry.source == "none":
                entry = _changed(entry, where="needs no weights; a better one is not here, and may be on the hub")
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
    where, more = found.where, ""
    if base := expert.checkpoint.base:
        beside = look(base)
        where += f"; with {base}, {beside.briefly}"
        if parts := getattr(expert.loader, "takes_of_base", ()):
            weights, exact = _sum((weights, exact), _memory(beside, known_as(base), dtype, "", only=parts))
            if known and not found.here:  # whose number is of both
                weights, exact = known.memory(dtype), False
        more = beside.problem
    if lora:
        added = look(lora, lora_revision, "adapter_model.safetensors")
        where += f"; with the adapter {lora}, {added.briefly}"
        weights, exact = _sum((weights, exact), memory(added, dtype) if added.here else (0, False))
        more = more or added.problem or added.incomplete
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
        found.problem or found.incomplete or more or problem,
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
        f"{found.where}; vLLM takes {share:.0%} of a GPU, whatever the weights take",
        expert.revision or found.commit[:12],
        known.licence if known else "",
        bool(known and known.gated),
        dtype,
        "cuda",
        "",
        weights,
        exact and expert.dtype != "auto",
        problem=found.problem or found.incomplete or ("" if on_gpus()[1] else "vLLM needs a GPU, and none is here"),
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
    if device.type == "cuda" and device.index is None and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())  # or it would be counted beside itself
    said = (
        str(device)
        if not expert.device_map or device.type == "cpu"
        else f"{device.type}, all of them ({expert.device_map})"
    )
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


def _devices(entries: Sequence[Entry]) -> list[Device]:
    found: list[Device] = []
    for name in dict.fromkeys(one.device for one in entries if one.device):
        here = [one for one in entries if one.device == name]
        own = [one for one in here if not one.shares]
        free, size = room(name)
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
