"""Catalogue of the installed rewards and their cards."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...reward import Card, SpecError, build, default_experts
from ...reward.queries.expert import expert_of_role, unsuitable_experts
from ...reward.queries.kinds import Query
from ...reward.queries.specs import entry_point_names
from .terminal import plain_table


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A listed reward. card: None for a composition without its parts, and where loading fails (`problem`).
    unserved_roles: roles without an expert that needs no download and accepts their queries; partly_served_roles: those
    whose expert answers some queries only. options: as in a spec, with defaults."""

    name: str
    summary: str
    card: Card | None
    options: dict[str, Any]
    unserved_roles: tuple[str, ...] = ()
    partly_served_roles: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def availability(self) -> str:
        """Availability without a download, as text."""
        if self.unserved_roles:
            return f"no: no expert for {', '.join(self.unserved_roles)}"
        partly = "; ".join(f"{role}: {queries}" for role, queries in self.partly_served_roles.items())
        return f"partly ({partly})" if partly else "yes"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "summary": self.summary,
            "card": None if self.card is None else asdict(self.card),
            "options": {name: _plain(default) for name, default in self.options.items()},
            "is_composition": self.card is None and not self.problem,
            "available_without_download": self.card is not None and not self.unserved_roles,
            "unserved_roles": list(self.unserved_roles),
            "partially_served_roles": dict(self.partly_served_roles),
            "problem": self.problem,
        }


def list_rewards() -> Iterator[CatalogEntry]:
    """All installed rewards, by name. One that cannot be loaded is listed with its problem."""
    for name, point in entry_point_names("editcritic.rewards").items():
        try:
            yield describe(name, point)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            yield CatalogEntry(name, "", None, {}, problem=f"{type(error).__name__}: {error}")


def describe(name: str, point: EntryPoint | None = None) -> CatalogEntry:
    """One reward, by name or any other string spec. Raises `SpecError` for an unknown one, and loading errors."""
    plain, _, _ = name.partition("?")
    point = point or entry_point_names("editcritic.rewards").get(plain)
    target = point.load() if point is not None else None
    options = _options(target)
    if needed := [option for option, default in options.items() if default is inspect.Parameter.empty]:
        if "?" not in name:
            first = (inspect.getdoc(target) or "").partition("\n\n")[0]
            return CatalogEntry(name, " ".join(first.split()), None, options)
        raise SpecError(f"{plain} needs {', '.join(needed)}: set them in a TOML file, see `editcritic rewards {plain}`")
    metric = build(name)
    card = getattr(metric, "card", None)
    if not isinstance(card, Card):
        raise SpecError(f"{name} is not a metric: it has no card")
    unserved, partly = _served(card)
    return CatalogEntry(name, card.summary, card, options, unserved, partly)


def _options(target: Any) -> dict[str, Any]:
    if target is None or not callable(target) or (not inspect.isclass(target) and hasattr(target, "card")):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(target).parameters.items()}


def _served(card: Card) -> tuple[tuple[str, ...], dict[str, str]]:
    """Roles without an expert that needs no download, and roles with a partial one, with the queries it answers."""
    bound = default_experts()
    expert_by_role = {role: expert_of_role(bound, role) for role in card.roles}
    partly = {}
    for role, expert in expert_by_role.items():
        of_role = {kind.kind for kind in Query.__subclasses__() if kind.role == role.partition(".")[0]}
        kinds = [kind for kind in Query.__subclasses__() if kind.kind in card.kinds.get(role, of_role)]
        if answered := [expert.answerable[kind] for kind in kinds if expert is not None and kind in expert.answerable]:
            partly[role] = ", ".join(answered)
    unsuitable = unsuitable_experts(bound, card.kinds)
    return tuple(role for role, expert in expert_by_role.items() if expert is None or role in unsuitable), partly


def _plain(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(card := getattr(default, "card", None), Card):
        return card.name
    return default if isinstance(default, str | int | float | bool) else None


def format_range(card: Card) -> str:
    """The range of a card as text, e.g. `0 to 1`."""
    low, high = ("unbounded" if end is None else f"{end:g}" for end in card.range)
    return "unbounded" if (low, high) == ("unbounded", "unbounded") else f"{low} to {high}"


def format_roles(card: Card) -> str:
    """The roles of a card as text, each with the kinds of queries that it gets, as in `reader (read_text)`."""
    kinds = {role: f" ({', '.join(card.kinds[role])})" if role in card.kinds else "" for role in card.roles}
    return ", ".join(f"{role}{text}" for role, text in kinds.items()) or "none"


def protocols_and_modes(entry: CatalogEntry) -> tuple[str, ...]:
    """Protocols and modes, the default first, and `dense` if it has a dense form."""
    assert entry.card is not None
    return (*entry.card.protocols, *entry.card.modes, *(["dense"] if "dense" in entry.options else []))


def render_catalog(rewards: list[CatalogEntry]) -> RenderableType:
    """The list as rich tables."""
    fixed = ("name", "modes", "range")
    available = plain_table("Rewards", "name", "high means", "modes", "range", "without a download", fixed=fixed)
    title = "\nCompositions, which need parts (a TOML file)"
    parts = plain_table(title, "name", "what it does", fixed=fixed)
    broken = plain_table("\nCannot be loaded", "name", "problem", fixed=fixed)
    for entry in rewards:
        if entry.problem:
            broken.add_row(Text(entry.name), Text(entry.problem))
        elif entry.card is None:
            parts.add_row(Text(entry.name), Text(entry.summary))
        else:
            modes = "\n".join(protocols_and_modes(entry))
            available.add_row(
                *map(Text, (entry.name, entry.summary, modes, format_range(entry.card), entry.availability))
            )
    return Group(*(table for table in (available, parts, broken) if table.row_count))


def render_card(entry: CatalogEntry) -> RenderableType:
    """A card as a rich table."""
    table = plain_table(Text(entry.name, style="bold"))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("description" if entry.card is None else "high means", Text(entry.summary))
    if (card := entry.card) is not None:
        for label, text in {
            "version": card.signature,
            "range": f"{format_range(card)} ({card.unit})",
            "aspect": card.aspect,
            "roles": format_roles(card),
            "needs": ", ".join(card.requires) or "source, edited image and instruction",
            "protocols": ", ".join([f"{name} (default)" for name in card.protocols[:1]] + [*card.protocols[1:]]),
            "modes": ", ".join(card.modes),
            "no download": entry.availability,
            "source": card.source,
            "how it can be gamed": card.failure_modes,
        }.items():
            if text:
                table.add_row(label, Text(text))
    for name, default in entry.options.items():
        table.add_row("option", Text(f"{name} = {json.dumps(_plain(default))}"))
    return table
