"""Models of experts: source, licence, precision, memory, and whether it fits.

Nothing is loaded or downloaded, and servers are queried on request only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...reward import Expert, SpecError, load_experts
from ...reward.config import named_bundles
from ...reward.experts.loading.devices import resolve_device_and_dtype
from ...reward.experts.loading.local_expert import LocalExpert
from ...reward.experts.loading.model_registry import BYTES_PER_WEIGHT, Bundle, ModelEntry, registered_models
from ...reward.experts.openai_judge import OpenAIJudge
from ...reward.experts.rapid_ocr import RapidOcr
from ...reward.installation import install_command
from ...reward.queries import AsyncExpert, ExpertDown
from .local_weights import (
    DeviceMemory,
    LocalWeights,
    available_memory,
    find_weights,
    format_size,
    hub_offline,
    weight_memory,
)

NO_WEIGHTS = "needs no weights"


@dataclass(frozen=True, slots=True)
class RequiredModel:
    """One expert. roles: the roles it is bound to; several for the same spec. source: `folder`, `file`, `hub cache`,
    `hub` (would be downloaded), `nowhere`, `server`, `package` or `none`. location: the same as text. licence, gated:
    from the model registry, empty for other models. download: bytes of weights that are not local yet, None if unknown.
    weights: bytes in memory, None if unknown; is_exact: counted in the files, else estimated. cache_bytes: maximum
    bytes of cached features. budget: the `max_memory` option. shares_weights_with: a role with the same weights.
    problem: why it would not load."""

    roles: tuple[str, ...]
    expert: str
    model: str = ""
    source: str = "none"
    location: str = NO_WEIGHTS
    revision: str = ""
    licence: str = ""
    gated: bool = False
    dtype: str = ""
    device: str = ""
    quantisation: str = ""
    weights: int | None = 0
    is_exact: bool = True
    cache_bytes: int = 0
    budget: str = ""
    shares_weights_with: str = ""
    problem: str = ""
    download: int | None = 0

    @property
    def is_ready(self) -> bool:
        """Whether it runs with what is installed, and has no weights to load."""
        return not self.problem and (self.source == "package" or self.location == NO_WEIGHTS)


@dataclass(frozen=True)
class ModelRequirements:
    """The models of all experts. bundles: those that were named."""

    entries: tuple[RequiredModel, ...]
    devices: tuple[DeviceMemory, ...]
    bundles: tuple[Bundle, ...] = ()

    @property
    def downloads(self) -> dict[str, int | None]:
        """Model -> bytes of weights that would be downloaded, None if unknown."""
        return {entry.model: entry.download for entry in self.entries if entry.download != 0}

    @property
    def exit_code(self) -> int:
        """1 if something is missing or does not fit."""
        return int(any(item.problem for item in self.entries) or any(item.fits is False for item in self.devices))

    def to_json(self) -> dict[str, Any]:
        devices = [{**asdict(item), "fits": item.fits, "verdict": item.verdict} for item in self.devices]
        bundles = [{**asdict(bundle), "install": bundle.install_command} for bundle in self.bundles]
        return {"bundles": bundles, "experts": [asdict(item) for item in self.entries], "devices": devices}


def model_requirements(specs: Sequence[str], *, query_servers: bool = False) -> ModelRequirements:
    """The models of expert specs (see `load_experts`). query_servers: query servers for the name of their model.
    Raises `SpecError` for an invalid spec."""
    experts = bind_experts(specs)
    roles: dict[int, list[str]] = {}
    for role, expert in experts.items():
        roles.setdefault(id(expert), []).append(role)
    entries: list[RequiredModel] = []
    holders: dict[int, str] = {}
    owners: set[int] = set()
    with hub_offline():
        for names in roles.values():
            expert, prefix = weight_owner(experts[names[0]])
            entry = _entry(tuple(names), expert, query_servers)
            if id(expert) in owners:  # one that another asks, too: its cache is there once
                entry = replace(entry, cache_bytes=0)
            owners.add(id(expert))
            entry = replace(entry, expert=f"{prefix}{entry.expert}")
            if "chooses" in prefix and entry.source == "none":
                entry = replace(entry, location="needs no weights; a better one is not local, and may be on the hub")
            if isinstance(expert, LocalExpert):
                weights_id = id(expert.checkpoint.shared_weights)
                entry = replace(entry, shares_weights_with=holders.get(weights_id, ""))
                holders.setdefault(weights_id, names[0])
            entries.append(entry)
    return ModelRequirements(tuple(entries), tuple(_devices(entries)), named_bundles(specs))


def bind_experts(specs: Sequence[str]) -> dict[str, Expert]:
    """Role -> expert, without querying the hub for the kind of an unknown model. Raises `SpecError`."""
    with hub_offline():
        try:
            experts = load_experts(specs)
        except SpecError as error:
            if "available from the hub" not in str(error):
                raise
            raise SpecError(f"{error}; nothing is downloaded here: name the expert, as in vlm:NAME") from None
    if not experts:
        raise SpecError("no experts: write as in --experts 'detector=grounding-dino-tiny judge=vlm:FOLDER'")
    return experts


def weight_owner(expert: Expert) -> tuple[Expert, str]:
    """The expert with the weights, and a prefix for its name: the judge of a rater, the selected upscaler, the detector
    of what has no box."""
    for name, verb in (("chosen", "chooses"), ("judge_expert", "queries"), ("detector", "queries")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about upscalers that are not available: the table shows it
            inner = getattr(expert, name, None) if not isinstance(expert, LocalExpert | AsyncExpert) else None
        if isinstance(inner, Expert):
            return inner, f"{type(expert).__name__}, which {verb} "
    return expert, ""


def _entry(roles: tuple[str, ...], expert: Expert, query_servers: bool) -> RequiredModel:
    kind = type(expert).__name__
    if isinstance(expert, LocalExpert):
        return _local(roles, expert)
    if isinstance(expert, AsyncExpert):
        return _served(roles, expert, query_servers)
    if isinstance(expert, RapidOcr):
        problem = _missing_extra("ocr", "rapidocr", "onnxruntime")
        return RequiredModel(roles, kind, "", "package", "comes with the package rapidocr", problem=problem)
    return RequiredModel(roles, kind)


def _local(roles: tuple[str, ...], expert: LocalExpert[Any]) -> RequiredModel:
    weights_found = find_weights(expert.name, expert.revision, expert.weights_file)
    lora, lora_revision = getattr(expert, "lora", ""), getattr(expert, "lora_revision", None)
    registered = registry_name(expert.name, lora)
    device, dtype, problem = _placement(expert)
    ignored = getattr(expert.loader, "ignored_prefixes", ())
    weights, exact = _memory(weights_found, registered, dtype, expert.quantisation, ignored=ignored)
    location, other_problem = weights_found.location, ""
    if base := expert.checkpoint.base:
        base_weights = find_weights(base)
        location += f"; with {base}, {base_weights.summary}"
        if prefixes := getattr(expert.loader, "base_prefixes", ()):
            weights, exact = _add_sizes(
                (weights, exact), _memory(base_weights, registry_name(base), dtype, "", only=prefixes)
            )
            if registered and not weights_found.is_complete:  # the registry counts both
                weights, exact = registered.weight_bytes(dtype), False
        other_problem = base_weights.problem
    if lora:
        adapter = find_weights(lora, lora_revision, "adapter_model.safetensors")
        location += f"; with the adapter {lora}, {adapter.summary}"
        weights, exact = _add_sizes(
            (weights, exact), weight_memory(adapter, dtype) if adapter.is_complete else (0, False)
        )
        other_problem = other_problem or adapter.problem or adapter.incomplete
    return RequiredModel(
        roles,
        type(expert).__name__,
        expert.name,
        weights_found.source,
        location,
        expert.revision or weights_found.commit[:12],
        registered.licence if registered else "",
        bool(registered and registered.gated),
        dtype,
        device,
        expert.quantisation,
        weights,
        exact,
        expert.cache_bytes,
        expert.max_memory,
        "",
        weights_found.problem or weights_found.incomplete or other_problem or problem or _missing_packages(registered),
        _download(weights_found, registered),
    )


def _download(weights_found: LocalWeights, registered: ModelEntry | None) -> int | None:
    if weights_found.source not in ("hub", "hub cache") or weights_found.is_complete:
        return 0
    return registered.download_bytes if registered else None


def _missing_packages(registered: ModelEntry | None) -> str:
    missing = [name for name in registered.packages if find_spec(name) is None] if registered else []
    return f"its processor needs {' and '.join(missing)}: pip install {' '.join(missing)}" if missing else ""


def _missing_extra(extra: str, *packages: str) -> str:
    missing = [name for name in packages if find_spec(name) is None]
    return f"{' and '.join(missing)} not installed: {install_command(extra)}" if missing else ""


def _served(roles: tuple[str, ...], expert: Any, query_servers: bool) -> RequiredModel:
    kind, model = type(expert).__name__, str(getattr(expert, "model", "") or getattr(expert, "name", ""))
    endpoint = getattr(expert, "endpoint", None)
    address = "unknown address" if endpoint is None else endpoint.addresses.names
    problem = ""
    if not model and hasattr(type(expert), "served"):
        model = "its only model (not queried)"
        if query_servers:
            try:
                model = str(expert.served)
            except ExpertDown as error:
                problem = str(error)
    if isinstance(expert, OpenAIJudge):
        problem = problem or _missing_extra("judge", "openai")
    return RequiredModel(roles, kind, model, "server", f"server at {address}", problem=problem)


def _placement(expert: LocalExpert[Any]) -> tuple[str, str, str]:
    """Device and dtype on this machine, and the problem with them if any."""
    try:
        import torch
    except ImportError as error:
        return "cpu", expert.dtype, f"{error.name} is not installed: {install_command('hf')}"
    try:
        device, dtype = resolve_device_and_dtype(torch, expert.device, expert.dtype)
    except (ExpertDown, RuntimeError) as error:  # RuntimeError: no such kind of device
        return expert.device, expert.dtype, str(error).splitlines()[0]
    if device.type == "cuda" and device.index is None and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())  # so that it is counted as one device
    device_text = (
        str(device)
        if not expert.device_map or device.type == "cpu"
        else f"{device.type}, all of them ({expert.device_map})"
    )
    problem = ""
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        problem = f"there is no {device}: this machine has {torch.cuda.device_count()}"
    if expert.quantisation:
        from transformers.utils import is_bitsandbytes_available

        if not is_bitsandbytes_available():
            problem = f"quantisation {expert.quantisation} needs bitsandbytes: {install_command('quantised')}"
    return device_text, str(dtype).removeprefix("torch."), problem


def registry_name(name: str, lora: str = "") -> ModelEntry | None:
    """The registered model by its name on the hub, its file, or its adapter."""
    for model in registered_models().values():
        matches = name in (model.checkpoint, model.weights) or Path(name).name == model.file != "model.safetensors"
        if name and matches and lora == model.options.get("lora", ""):
            return model
    return registry_name(name) if lora else None


def _memory(
    weights_found: LocalWeights,
    registered: ModelEntry | None,
    dtype: str,
    quantisation: str,
    *,
    only: tuple[str, ...] = (),
    ignored: tuple[str, ...] = (),
) -> tuple[int | None, bool]:
    if weights_found.is_complete:
        return weight_memory(weights_found, dtype, quantisation, only, ignored)
    return (
        registered.weight_bytes(quantisation or (dtype if dtype in BYTES_PER_WEIGHT else "float32"))
        if registered
        else None
    ), False


def _add_sizes(first: tuple[int | None, bool], second: tuple[int | None, bool]) -> tuple[int | None, bool]:
    total = None if first[0] is None or second[0] is None else first[0] + second[0]
    return total, first[1] and second[1]


def _devices(entries: Sequence[RequiredModel]) -> list[DeviceMemory]:
    devices: list[DeviceMemory] = []
    for name in dict.fromkeys(entry.device for entry in entries if entry.device):
        on_device = [entry for entry in entries if entry.device == name]
        unshared = [entry for entry in on_device if not entry.shares_weights_with]
        free, total = available_memory(name)
        devices.append(
            DeviceMemory(
                name,
                sum(entry.weights or 0 for entry in unshared),
                sum(entry.cache_bytes for entry in on_device),
                all(entry.is_exact for entry in unshared),
                tuple(entry.roles[0] for entry in unshared if entry.weights is None),
                free,
                total,
            )
        )
    return devices


def render_requirements(plan: ModelRequirements) -> RenderableType:
    """The models as tables."""
    parts: list[RenderableType] = [*map(_bundle, plan.bundles), _experts(plan.entries)]
    if plan.downloads:
        parts.append(_downloads(plan.downloads))
    if plan.devices:
        parts.append(_device_table(plan.devices))
        if len(plan.devices) > 1 and any("," in device.name for device in plan.devices):
            parts.append(Text("\nExperts spread over all devices share them with experts on one device: add these up."))
        parts.append(
            Text("\nForward passes need additional memory: the option `max_memory=8GiB` of an expert bounds it.")
        )
    return Group(*parts)


def _bundle(bundle: Bundle) -> Text:
    lines = [
        f"Bundle {bundle.name}: {bundle.purpose}",
        f"put together for: {bundle.machine}; {bundle.install_command}",
        f"cannot answer: {bundle.unanswered}",
    ]
    return Text("\n".join(lines) + "\n")


def _downloads(downloads: Mapping[str, int | None]) -> Text:
    known = [size for size in downloads.values() if size is not None]
    unknown = [model for model, size in downloads.items() if size is None]
    text = f"\nTo download, with the first query: {format_size(sum(known), exact=False)}" if known else "\nTo download"
    return Text(text + (f"{' and' if known else ':'} {', '.join(unknown)}, of unknown size" if unknown else ""))


def _experts(entries: Sequence[RequiredModel]) -> Table:
    grid = _grid("Models")
    grid.add_column("role", overflow="fold", max_width=18)
    grid.add_column("expert, model, source", overflow="fold")
    grid.add_column("as", overflow="fold", max_width=14)
    grid.add_column("weights", no_wrap=True)
    grid.add_column("cache, at most", no_wrap=True)
    plain = [entry for entry in entries if entry.is_ready]
    for entry in [entry for entry in entries if not entry.is_ready]:
        form = [entry.dtype, entry.quantisation, f"on {entry.device}" if entry.device else ""]
        form.append(f"in {entry.budget}" if entry.budget else "")
        local = bool(entry.device)
        grid.add_row(
            Text("\n".join(entry.roles)),
            _format_entry(entry),
            Text("\n".join(filter(None, form))),
            Text(format_size(entry.weights, entry.is_exact) if local else ""),
            Text(format_size(entry.cache_bytes) if entry.cache_bytes else ""),
        )
    if plain:
        roles = "\n".join(role for entry in plain for role in entry.roles)
        names = "\n".join(entry.expert for entry in plain for _ in entry.roles)
        grid.add_row(Text(roles), Text(f"{names}\n{NO_WEIGHTS.replace('needs', 'need')}"))
    return grid


def _format_entry(entry: RequiredModel) -> Text:
    licence = entry.licence or ("unknown licence" if entry.source.startswith("hub") else "")
    if entry.gated:
        licence += ", gated: accept its terms on the hub, then `hf auth login`"
    location = entry.location + (f", {format_size(entry.download, exact=False)}" if entry.download else "")
    location += f", revision {entry.revision}" if entry.revision and entry.source == "hub" else ""
    shared = f"the same weights as {entry.shares_weights_with}" if entry.shares_weights_with else ""
    text = Text("\n".join(filter(None, [f"{entry.expert} {entry.model}".strip(), location, licence, shared])))
    if entry.problem:
        text.append(f"\n{entry.problem}", "red")
    return text


def _device_table(devices: Sequence[DeviceMemory]) -> Table:
    grid = _grid("\nIn total, shared weights counted once")
    for heading in ("device", "weights", "cache, at most", "free", "of", ""):
        grid.add_column(heading, overflow="fold")
    for device in devices:
        weights = format_size(device.weights, device.is_exact) + (" and more" if device.unknown else "")
        memory = (format_size(device.free_bytes), format_size(device.total_bytes))
        grid.add_row(*map(Text, (device.name, weights, format_size(device.cache_bytes), *memory, device.verdict)))
    return grid


def _grid(title: str) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), title=title, title_justify="left")
