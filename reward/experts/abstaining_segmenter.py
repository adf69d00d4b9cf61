"""Stands in for a segmenter where none is bound, so that a reward that needs one for a part runs as far as it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from ..expert import Expert
from ..outcomes import Abstention
from ..query import Outcome, Query, Segment


class NoSegmenter(Expert):
    """Abstains on every `Segment`: which pixels words mean takes a model."""

    id = "no-segmenter@1"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Segment,)
    knows: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({Segment: "nothing"})

    def __call__(self, queries: Sequence[Segment]) -> list[Outcome]:
        return [Abstention(f"no segmenter is bound that could do this: {query.command}") for query in queries]
