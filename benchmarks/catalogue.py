"""What rewards are installed, ours and others', and what their cards say."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..reward import Card, SpecError, build, no_download
from ..reward.spec import names


@dataclass(frozen=True, slots=True)
class Listed:
    """A reward as it is listed.

    card: None for a composition, which has one only with its parts, and for one that cannot be loaded (`problem`).
    unserved: roles it asks that the experts without a download do not fill. options: as in a spec, with defaults.
    """

    name: str
    summary: str
    card: Card | None
    options: dict[str, Any]
    unserved: tuple[str, ...] = ()
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "summary": self.summary,
            "card": None if self.card is None else asdict(self.card),
            "options": {name: _plain(default) for name, default in self.options.items()},
            "needs_parts": self.card is None and not self.problem,
            "no_download": self.card is not None and not self.unserved,
            "unserved_roles": list(self.unserved),
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
    return Listed(name, card.summary, card, options, _unserved(card))


def _options(target: Any) -> dict[str, Any]:
    if target is None or not callable(target) or (not inspect.isclass(target) and hasattr(target, "card")):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(target).parameters.items()}


def _unserved(card: Card) -> tuple[str, ...]:
    bound = no_download()
    return tuple(role for role in card.roles if role not in bound and role.partition(".")[0] not in bound)


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


def ways_of(one: Listed) -> str:
    """The protocols and modes it comes in, default first, and whether it has a dense form."""
    assert one.card is not None
    dense = ("dense",) if "dense" in one.options else ()
    return "; ".join(", ".join(ways) for ways in (one.card.protocols, one.card.modes, dense) if ways)


def table(rewards: list[Listed]) -> RenderableType:
    """The list, for a person."""
    ready = Table(box=None, pad_edge=False, title="Rewards", title_justify="left")
    for column in ("name", "1.0 means", "ways", "range", "asks", "without a download"):
        ready.add_column(column, no_wrap=column == "name", overflow="fold")
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
            serves = "yes" if not one.unserved else f"no: nobody for {', '.join(one.unserved)}"
            roles = ", ".join(one.card.roles) or "nobody"
            ready.add_row(*map(Text, (one.name, one.summary, ways_of(one), range_of(one.card), roles, serves)))
    return Group(*(found for found in (ready, parts, broken) if found.row_count))


def card_of(one: Listed) -> RenderableType:
    """A card, for a person."""
    table = Table(box=None, pad_edge=False, show_header=False, title=Text(one.name, style="bold"), title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("what" if one.card is None else "1.0 means", Text(one.summary))
    if (card := one.card) is not None:
        serves = "yes" if not one.unserved else f"no: bind an expert to {', '.join(one.unserved)}"
        for label, text in {
            "version": card.signature,
            "range": f"{range_of(card)} ({card.unit})",
            "speaks about": card.about,
            "asks": ", ".join(card.roles) or "nobody",
            "needs": ", ".join(card.requires) or "source, edited picture and instruction",
            "protocols": ", ".join(card.protocols),
            "modes": ", ".join(card.modes),
            "no download": serves,
            "source": card.source,
            "gaming": card.gaming,
        }.items():
            if text:
                table.add_row(label, Text(text))
    for name, default in one.options.items():
        table.add_row("option", Text(f"{name} = {json.dumps(_plain(default))}"))
    return table
