"""The table of `editcritic doctor --experts`, for a terminal of 80 columns or more."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .room import Device, size_of
from .would_load import Entry, WouldLoad


def table(found: WouldLoad) -> RenderableType:
    """For a terminal of 80 columns or more."""
    parts: list[RenderableType] = [_experts(found.entries)]
    if found.devices:
        parts.append(_together(found.devices))
        if len(found.devices) > 1 and any("," in one.name for one in found.devices):
            parts.append(Text("\nWhat is spread over all devices shares them with what is on one: add these up."))
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
