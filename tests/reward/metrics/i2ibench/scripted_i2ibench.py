"""A small world for I2I-Bench: two sources, an edit, and experts that say by topic and image what they are told.

What they are not told they make up of the question's digest, the same each time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from editcritic.reward import EditSample, Engine, Image, Score
from editcritic.reward.config import build
from editcritic.reward.metrics import Metric
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.queries import Abstention, Failure, Judge, Mask, Measurement, RecognizedText, Reply
from editcritic.reward.queries.kinds import Embed, Embeddings, Query, Rate, ReadText, Segment

from ...fakes import Fake, picture

FIRST, SECOND, THIRD = picture(1, 12, 8), picture(2, 8, 10), picture(3, 6, 6)
EDITED = picture(9, 10, 8)
QUESTIONS = [f"Is thing {number} right?" for number in range(1, 7)]
STYLE = {"style_requirement": "red", "position_requirement": "sign", "image_observation": "red", "reasoning": "so"}

# What the judge says where it is not told otherwise.
SAYS: Mapping[str, Any] = {
    "blending": "good",
    "artifacts": "fair",
    "following": "excellent",
    "success": "yes",
    "knowledge": "no",
    "answer": "yes",
    "count": "yes",
    "level": "poor",
    "segment_edited": "Please segment the cup",
    "segment_unchanged": ["Please segment the table", "Please segment the wall"],
    "segment_preserved_multi": [{"source_index": 1, "segmentation_prompt": "Please segment the cat"}],
    "segment_details_multi": [
        {"source_index": 0, "segmentation_prompt": "Please segment the scarf"},
        {"source_index": 1, "segmentation_prompt": "Please segment the paw"},
    ],
    "text_style": {**STYLE, "score": 4},
}


def single(name: str = "one", **fields: Any) -> EditSample:
    return _sample(name, (FIRST,), fields)


def several(name: str = "two", **fields: Any) -> EditSample:
    return _sample(name, (FIRST, SECOND), fields)


def _sample(name: str, sources: tuple[Image, ...], fields: Mapping[str, Any]) -> EditSample:
    options = {
        "instruction": "make the cup blue",
        "edited": EDITED,
        "target_text": "OPEN",
        "hint": "blue as the sky",
        **fields,
    }
    return EditSample(id=name, **{"sources": sources, **options})


def sample_for(dimension: str, **fields: Any) -> EditSample:
    return several(**fields) if DIMENSIONS[dimension].multi else single(**fields)


def of(dimension: str, **options: Any) -> Any:
    """The metric of a dimension, by name."""
    return build(f"i2i-{dimension}", **options)


def mask(*filled: tuple[slice, slice], of: Image = EDITED) -> Mask:
    """A mask of an image's size with these rows and columns in it."""
    values = np.zeros((of.height, of.width), bool)
    for rows, columns in filled:
        values[rows, columns] = True
    return Mask(values)


LEFT = (slice(None), slice(0, 4))


class World:
    """Experts for every role of I2I-Bench. `queries`: those that it got, as (role, query), each once.

    says: by topic, what the judge says (text, JSON, a Reply, a Failure, or a function of the question). masks: of
    (image, command) or of a command. vectors: of (image, mask). read: of an image. ratings: by role, of an image.
    """

    def __init__(
        self,
        says: Mapping[str, Any] | None = None,
        masks: Mapping[Any, Mask | Abstention] | None = None,
        vectors: Callable[[Image, Mask], Sequence[float]] | None = None,
        read: Callable[[Image], str] = lambda image: "open",
        ratings: Mapping[str, Callable[[Image], float]] | None = None,
    ) -> None:
        self.says = {**SAYS, **(says or {})}
        self.masks = masks or {}
        self.vectors = vectors
        self.read = read
        self.ratings = {"quality": lambda image: 4.0, "aesthetics": lambda image: 60.0, **(ratings or {})}
        self.queries: list[tuple[str, Any]] = []
        roles = ("judge", "segmenter", "features", "reader", "quality", "aesthetics")
        self.experts = {role: Fake(self._rule(role), name=role) for role in roles}

    def score(self, metric: Metric, *samples: EditSample) -> list[Score]:
        with Engine() as engine:
            futures = [engine.submit(score_with_signature(metric, sample), self.experts, sample) for sample in samples]
            return [future.result(60) for future in futures]

    @property
    def seen(self) -> Counter[str]:
        """How often each question reached an expert."""
        return sum((expert.seen for expert in self.experts.values()), Counter())

    @property
    def judged(self) -> list[Any]:
        return [query for _, query in self.queries if isinstance(query, Judge)]

    def _rule(self, role: str) -> Callable[[Any], Any]:
        def answer(query: Any) -> Any:
            self.queries.append((role, query))
            return self._answer(role, query)

        return answer

    def _answer(self, role: str, query: Any) -> Any:
        match query:
            case Judge():
                return self._say(query)
            case Segment(image, command):
                made_up = _random(query).random((image.height, image.width)) < 0.5
                made_up[0, 0], made_up[-1, -1] = True, False
                return self.masks.get((image, command)) or self.masks.get(command) or Mask(made_up)
            case Embed(image, (region,)):
                inside = region.inside
                values = self.vectors(image, inside) if self.vectors and inside else _random(query).random(4) + 0.1
                return Embeddings(np.array([values], np.float32), np.array([1]))
            case ReadText(image):
                return RecognizedText.without_boxes(self.read(image))
            case Rate(image):
                return Measurement(self.ratings[role](image))
            case _:
                raise AssertionError(f"nobody asks {query!r}")

    def _say(self, query: Judge) -> Reply | Failure:
        topic = query.topic.removeprefix("i2i/")
        words = {"questions": QUESTIONS} if topic.startswith("questions_") else self.says[topic]
        if topic.startswith("questions_") and topic in self.says:
            words = self.says[topic]
        if callable(words):
            words = words(query)
        if isinstance(words, Reply | Failure):
            return words
        return Reply(words if isinstance(words, str) else json.dumps(words))


def _random(query: Query[Any]) -> np.random.Generator:
    return np.random.default_rng(int(query.digest[:8], 16))
