"""The table of `editcritic doctor --experts`, for a terminal of at least 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...reward.experts.loading.model_registry import Bundle
from .device_memory import DeviceMemory, format_size
from .load_plan import NO_WEIGHTS, LoadPlan, LoadPlanEntry


def render_load_plan(plan: LoadPlan) -> RenderableType:
    """The load plan as tables."""
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


def _experts(entries: Sequence[LoadPlanEntry]) -> Table:
    grid = _grid("Load plan")
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


def _format_entry(entry: LoadPlanEntry) -> Text:
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
