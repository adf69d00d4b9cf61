"""Card: a metric's description, which compositions check and the command line prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Aspect = Literal["following", "consistency", "overall", "quality", "cheating", ""]
"""The aspect of an edit that a metric measures; empty for none of these."""

ValueRange = tuple[float | None, float | None]
"""Lowest and highest value; None: unbounded."""


@dataclass(frozen=True, slots=True)
class Card:
    """name, version: make up a score's signature. summary: what 1.0 (or more) means, in a line.

    range: of the value. roles: experts that it queries. requires: required sample fields. protocols: named variants
    of the computation, default first (option `protocol`). modes: named variants of the queries (option `mode`).
    source: paper and section. failure_modes: how an editor could score high without a good edit.
    aspect: the aspect of an edit that it measures; the validity report compares the metric with this ground truth.
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

    @property
    def signature(self) -> str:
        return f"{self.name}@{self.version}"

    def signature_with(self, protocol: str = "", options: Iterable[str] = ()) -> str:
        """The signature of a protocol or mode with its non-default options, as in `edival-if@2/paper[dense]`."""
        option_list = ", ".join(options)
        return self.signature + (f"/{protocol}" if protocol else "") + (f"[{option_list}]" if option_list else "")

    @property
    def is_unit_range(self) -> bool:
        """Whether values lie in [0, 1]."""
        low, high = self.range
        return low is not None and high is not None and low >= 0 and high <= 1
