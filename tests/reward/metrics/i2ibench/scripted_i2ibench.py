"""A small world for I2I-Bench: two sources, an edit, and experts that say by topic and image what they are told.

What they are not told they make up of the question's digest, the same each time.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from editcritic.reward import EditSample, Engine, Score, build
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.queries import Failure, Judge, Mask, Measurement, RecognizedText, Reply
from editcritic.reward.queries.answers import Embeddings
from editcritic.reward.queries.kinds import Embed, Rate, ReadText, Segment

from ...fakes import Fake, picture

FIRST, SECOND = picture(1, 12, 8), picture(2, 8, 10)
EDITED = picture(9, 10, 8)
QUESTIONS = [f"Is thing {number} right?" for number in range(1, 7)]
STYLE = {"style_requirement": "red", "position_requirement": "sign", "image_observation": "red", "reasoning": "so"}
ROLES = ("judge", "segmenter", "features", "reader", "quality", "aesthetics")

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
    options = {"instruction": "make the cup blue", "target_text": "OPEN", "hint": "blue as the sky", **fields}
    return EditSample(id=name, **{"sources": (FIRST,), "edited": EDITED, **options})


def several(name: str = "two", **fields: Any) -> EditSample:
    return single(name, sources=(FIRST, SECOND), **fields)


def sample_for(dimension: str, **fields: Any) -> EditSample:
    return several(**fields) if DIMENSIONS[dimension].multi else single(**fields)


def of(dimension: str, **options: Any) -> Any:
    """The metric of a dimension, by name."""
    return build(f"i2i-{dimension}", **options)


class World:
    """Experts for every role of I2I-Bench. `queries`: those that they got, as (role, query), each once.

    says: by topic, what the judge says (text, JSON, a Reply, a Failure, or a function of the question). masks: of
    (image, command) or of a command. vectors: of (image, mask). read: of an image. ratings: by role, of an image.
    """

    def __init__(self, says: Any = None, masks: Any = None, vectors: Any = None, read: Any = None, ratings: Any = None):
        self.says = {**SAYS, **(says or {})}
        self.masks, self.vectors, self.read = masks or {}, vectors, read or (lambda image: "open")
        self.ratings = {"quality": lambda image: 4.0, "aesthetics": lambda image: 60.0, **(ratings or {})}
        self.queries: list[tuple[str, Any]] = []
        self.experts = {role: Fake(self._rule(role), name=role) for role in ROLES}

    def score(self, metric: Any, *samples: EditSample) -> list[Score]:
        with Engine() as engine:
            futures = [engine.submit(score_with_signature(metric, sample), self.experts, sample) for sample in samples]
            return [future.result(60) for future in futures]

    @property
    def seen(self) -> Counter[str]:
        """How often each question reached an expert."""
        return sum((expert.seen for expert in self.experts.values()), Counter())

    @property
    def judged(self) -> list[Any]:
        return self.of_kind(Judge)

    def of_kind(self, kind: type[Any]) -> list[Any]:
        return [query for _, query in self.queries if isinstance(query, kind)]

    def _rule(self, role: str) -> Callable[[Any], Any]:
        def answer(query: Any) -> Any:
            self.queries.append((role, query))
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

        return answer

    def _say(self, query: Judge) -> Any:
        topic = query.topic.removeprefix("i2i/")
        words = self.says.get(topic, {"questions": QUESTIONS} if topic.startswith("questions_") else None)
        words = words(query) if callable(words) else words
        if isinstance(words, Reply | Failure):
            return words
        return Reply(words if isinstance(words, str) else json.dumps(words))


def _random(query: Any) -> np.random.Generator:
    return np.random.default_rng(int(query.digest[:8], 16))
