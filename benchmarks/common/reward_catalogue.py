"""What rewards are installed, ours and others', and what their cards say."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..reward import Card, SpecError, build, no_download
from ..reward.query import Query
from ..reward.spec import names


@dataclass(frozen=True, slots=True)
class Listed:
    """A reward as it is listed.

    card: None for a composition, which has one only with its parts, and for one that cannot be loaded (`problem`).
    unserved: roles it asks that the experts without a download do not fill; partly: those that they fill for some
    questions only, and what for. options: as in a spec, with defaults.
    """

    name: str
    summary: str
    card: Card | None
    options: dict[str, Any]
    unserved: tuple[str, ...] = ()
    partly: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @property
    def reach(self) -> str:
        """How far it gets without a download, in words."""
        if self.unserved:
            return f"no: nobody for {', '.join(self.unserved)}"
        known = "; ".join(f"{role}: {what}" for role, what in self.partly.items())
        return f"partly ({known})" if known else "yes"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "summary": self.summary,
            "card": None if self.card is None else asdict(self.card),
            "options": {name: _plain(default) for name, default in self.options.items()},
            "needs_parts": self.card is None and not self.problem,
            "no_download": self.card is not None and not self.unserved,
            "unserved_roles": list(self.unserved),
            "partly_served_roles": dict(self.partly),
            "problem": self.problem,
        }


def listed() -> Iterator[Listed]:
    """Every installed reward, by name. One that cannot be loaded is listed with the problem."""
    for name, point in names("editcritic.rewards").items():
        try:
            yield describe(name, point)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            yield Listed(name, "", None, {}, problem=f"{type(error).__name__}: {error}")


def describe(name: str, point: EntryPoint | None = None) -> Listed:
    """One reward, by name or any other string spec. Raises `SpecError` for an unknown one, and what loading raises."""
    plain, _, _ = name.partition("?")
    point = point or names("editcritic.rewards").get(plain)
    target = point.load() if point is not None else None
    options = _options(target)
    if needed := [option for option, default in options.items() if default is inspect.Parameter.empty]:
        if "?" not in name:
            first = (inspect.getdoc(target) or "").partition("\n\n")[0]
            return Listed(name, " ".join(first.split()), None, options)
        raise SpecError(
            f"{plain} needs {', '.join(needed)}: write them into a TOML file, see `editcritic rewards {plain}`"
        )
    metric = build(name)
    card = getattr(metric, "card", None)
    if not isinstance(card, Card):
        raise SpecError(f"{name} is not a metric: it has no card")
    unserved, partly = _served(card)
    return Listed(name, card.summary, card, options, unserved, partly)


def _options(target: Any) -> dict[str, Any]:
    if target is None or not callable(target) or (not inspect.isclass(target) and hasattr(target, "card")):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(target).parameters.items()}


def _served(card: Card) -> tuple[tuple[str, ...], dict[str, str]]:
    """Of the roles it asks, those that nobody fills without a download, and those filled in part, with what for."""
    bound = no_download()
    filled = {role: bound.get(role) or bound.get(role.partition(".")[0]) for role in card.roles}
    partly = {}
    for role, expert in filled.items():
        kinds = [kind for kind in Query.__subclasses__() if kind.role == role.partition(".")[0]]
        if known := [expert.knows[kind] for kind in kinds if expert is not None and kind in expert.knows]:
            partly[role] = ", ".join(known)
    return tuple(role for role, expert in filled.items() if expert is None), partly


def _plain(default: Any) -> Any:
    """A default as JSON: metrics by their names, what is made anew for each object as null."""
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(card := getattr(default, "card", None), Card):
        return card.name
    return default if isinstance(default, str | int | float | bool) else None


def range_of(card: Card) -> str:
    """In words, as in `0 to 1`."""
    low, high = ("unbounded" if end is None else f"{end:g}" for end in card.range)
    return "unbounded" if (low, high) == ("unbounded", "unbounded") else f"{low} to {high}"


def ways_of(one: Listed) -> tuple[str, ...]:
    """The protocols and modes it comes in, the default first, and whether it has a dense form."""
    assert one.card is not None
    return (*one.card.protocols, *one.card.modes, *(["dense"] if "dense" in one.options else []))


def table(rewards: list[Listed]) -> RenderableType:
    """The list, for a person."""
    ready = Table(box=None, pad_edge=False, title="Rewards", title_justify="left")
    for column in ("name", "high means", "ways", "range", "without a download"):
        ready.add_column(column, no_wrap=column in ("name", "ways", "range"), overflow="fold")
    parts = Table(
        box=None, pad_edge=False, title="\nCompositions, which need parts (a TOML file)", title_justify="left"
    )
    parts.add_column("name", no_wrap=True)
    parts.add_column("what it does", overflow="fold")
    broken = Table(box=None, pad_edge=False, title="\nCannot be loaded", title_justify="left")
    for one in rewards:
        if one.problem:
            broken.add_row(Text(one.name), Text(one.problem))
        elif one.card is None:
            parts.add_row(Text(one.name), Text(one.summary))
        else:
            ways = "\n".join(ways_of(one))
            ready.add_row(*map(Text, (one.name, one.summary, ways, range_of(one.card), one.reach)))
    return Group(*(found for found in (ready, parts, broken) if found.row_count))


def card_of(one: Listed) -> RenderableType:
    """A card, for a person."""
    table = Table(box=None, pad_edge=False, show_header=False, title=Text(one.name, style="bold"), title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("what" if one.card is None else "high means", Text(one.summary))
    if (card := one.card) is not None:
        for label, text in {
            "version": card.signature,
            "range": f"{range_of(card)} ({card.unit})",
            "speaks about": card.about,
            "asks": ", ".join(card.roles) or "nobody",
            "needs": ", ".join(card.requires) or "source, edited picture and instruction",
            "protocols": ", ".join(card.protocols),
            "modes": ", ".join(card.modes),
            "no download": one.reach,
            "source": card.source,
            "gaming": card.gaming,
        }.items():
            if text:
                table.add_row(label, Text(text))
    for name, default in one.options.items():
        table.add_row("option", Text(f"{name} = {json.dumps(_plain(default))}"))
    return table
