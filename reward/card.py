"""Card: a metric's description, which compositions check and the command line prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf, isinf
from typing import Literal

Aspect = Literal["following", "consistency", "overall", "quality", "cheating", ""]
"""The aspect of an edit that a metric measures; empty for none of these."""
ValueRange = tuple[float | None, float | None]
"""Lowest and highest value; None: unbounded."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a metric measures, asks and requires, and how it can be gamed.

    Args:
        name: Make up a score's signature.
        version: Make up a score's signature.
        summary: What 1.0 (or more) means, in a line.
        range: Of the value.
        roles: Experts that it queries; by default those of `kinds`.
        requires: Required sample fields.
        protocols: Named variants of the computation, default first (option `protocol`).
        modes: Named variants of the queries (option `mode`).
        source: Paper and section.
        failure_modes: How an editor could score high without a good edit.
        aspect: The aspect of an edit that it measures; the validity report compares the metric with this ground truth.
        kinds: Role -> the kinds of queries that it sends there (`Query.kind`), in any protocol; a reward refuses
            experts that do not accept them, and checks nothing for a role without an entry.
        parts: Names that parts of its scores have, at any depth, such as `following`, which adapters to trainers log
            only if it is among them.

    Raises:
        ValueError: For kinds of a role that is none of `roles`, and for a text in place of a tuple of kinds.
    """

    name: str
    version: int
    summary: str
    range: ValueRange = (0.0, 1.0)
    unit: str = "share"
    roles: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    source: str = ""
    failure_modes: str = ""
    aspect: Aspect = ""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given: Mapping[str, object] = self.kinds
        if texts := [role for role, names in given.items() if isinstance(names, str)]:
            raise ValueError(
                f"the card of {self.name} has the text {self.kinds[texts[0]]!r} as kinds of queries for {texts[0]}: "
                "give a tuple of texts"
            )
        kinds = {role: tuple(names) for role, names in self.kinds.items()}  # as JSON has them: lists
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "roles", tuple(self.roles) or tuple(kinds))
        if unknown := [role for role in kinds if role not in self.roles]:
            raise ValueError(
                f"the card of {self.name} has kinds of queries for {', '.join(unknown)}, and its roles are "
                f"{', '.join(self.roles)}: name a role in both, or leave out `roles`"
            )

    @property
    def signature(self) -> str:
        """Name and version, as in `edival-if@3`."""
        return f"{self.name}@{self.version}"

    def signature_with(self, protocol: str = "", options: Iterable[str] = ()) -> str:
        """The signature of a protocol or mode with its non-default options, as in `edival-if@3/paper[dense]`."""
        option_list = ", ".join(options)
        return self.signature + (f"/{protocol}" if protocol else "") + (f"[{option_list}]" if option_list else "")

    def has_in_range(self, value: float) -> bool:
        """Whether a value lies in the range, but for rounding."""
        low, high = (-inf if self.range[0] is None else self.range[0], inf if self.range[1] is None else self.range[1])
        room = 1e-6 * (1.0 if isinf(high - low) else high - low)
        return low - room <= value <= high + room

    @property
    def is_unit_range(self) -> bool:
        """Whether values lie in [0, 1]."""
        low, high = self.range
        return low is not None and high is not None and low >= 0 and high <= 1

    def with_kinds(self, kinds: Mapping[str, tuple[str, ...]]) -> Card:
        """The card of a variant that sends these queries, and no others."""
        return replace(self, roles=(), kinds=kinds)


def joint_kinds(cards: Iterable[Card]) -> dict[str, tuple[str, ...]]:
    """Role -> the kinds of queries that any of these cards has for it."""
    kinds: dict[str, tuple[str, ...]] = {}
    for card in cards:
        for role, names in card.kinds.items():
            kinds[role] = tuple(dict.fromkeys((*kinds.get(role, ()), *names)))
    return kinds
