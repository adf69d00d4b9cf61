"""Default segmenter: abstains, so that the other parts of a reward are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from ..queries.answers import Outcome
from ..queries.expert import Expert
from ..queries.kinds import Query, Segment
from ..queries.outcomes import Abstention


class AbstainingSegmenter(Expert):
    """Abstains on every `Segment`, which needs a model."""

    id = "no-segmenter@1"
    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Segment,)
    answerable: ClassVar[Mapping[type[Query[Any]], str]] = MappingProxyType({Segment: "nothing"})

    def __call__(self, queries: Sequence[Segment]) -> list[Outcome]:
        return [Abstention(f"no segmenter is bound that could do this: {query.command}") for query in queries]
