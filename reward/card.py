"""Card: what a metric is, in a form that compositions check, the command line prints and a reader can trust."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

About = Literal["following", "consistency", "overall", "quality", "cheating", ""]
"""What of an edit a metric speaks about; empty for none of these."""

Range = tuple[float | None, float | None]
"""Lowest and highest value; None where there is no bound."""


@dataclass(frozen=True, slots=True)
class Card:
    """name, version: make up a score's signature. summary: what 1.0 (or more) means, in a line.

    range: of the value. roles: whom it asks. requires: sample fields it cannot do without. protocols: the named ways
    of computing it, default first (option `protocol`). modes: likewise the ways of asking (option `mode`). source:
    paper and section. gaming: how an editor could win without a good edit.
    about: what of an edit it speaks about; the validity report compares it with that.
    """

    name: str
    version: int
    summary: str
    range: Range = (0.0, 1.0)
    unit: str = "share"
    roles: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    source: str = ""
    gaming: str = ""
    about: About = ""

    @property
    def signature(self) -> str:
        return f"{self.name}@{self.version}"

    def signed(self, way: str = "", options: Iterable[str] = ()) -> str:
        """The signature of one way (a protocol or mode) with options that are not the default.

        As in `edival-if@1/paper[dense]`.
        """
        said = ", ".join(options)
        return self.signature + (f"/{way}" if way else "") + (f"[{said}]" if said else "")

    @property
    def is_share(self) -> bool:
        """Whether values lie in [0, 1]."""
        low, high = self.range
        return low is not None and high is not None and low >= 0 and high <= 1
