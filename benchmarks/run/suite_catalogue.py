"""Catalogue of the installed suites: what each needs, as it says itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ...reward.queries.specs import entry_point_names
from ..common.reward_catalogue import describe
from ..common.terminal import plain_table
from ..suites.suite import SuiteInfo
from .suite_loading import SUITES


@dataclass(frozen=True, slots=True)
class SuiteEntry:
    """A listed suite. info: None where loading fails (`problem`). roles: of the experts that its metrics query."""

    name: str
    info: SuiteInfo | None
    roles: tuple[str, ...] = ()
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        info = {} if self.info is None else asdict(self.info)
        return {"name": self.name, **info, "roles": list(self.roles), "problem": self.problem}


def list_suites() -> Iterator[SuiteEntry]:
    """All installed suites, by name. One that cannot be loaded is listed with its problem."""
    for name, point in entry_point_names(SUITES).items():
        try:
            info: SuiteInfo = point.load().info
            cards = [card for metric in info.metrics if (card := describe(metric).card) is not None]
            yield SuiteEntry(name, info, tuple(dict.fromkeys(role for card in cards for role in card.roles)))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            yield SuiteEntry(name, None, problem=f"{type(error).__name__}: {error}")


def render_suites(suites: list[SuiteEntry]) -> RenderableType:
    """The list as a rich table, a row each."""
    table = plain_table("Suites", "name", "data", "outputs", "experts", fixed=("name",))
    broken = plain_table("\nCannot be loaded", "name", "problem", fixed=("name",))
    for entry in suites:
        if entry.info is None:
            broken.add_row(Text(entry.name), Text(entry.problem))
        else:
            texts = (entry.name, entry.info.data or "none", entry.info.outputs, ", ".join(entry.roles) or "none")
            table.add_row(*map(Text, texts))
    return Group(*(one for one in (table, broken) if one.row_count))
