"""A photograph, an edit of it, and experts that say what they are told to say about both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest
import skimage.data

from editcritic.reward import Box, EditPlan, EditSample, Engine, Expert, Image, Score, default_experts
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.queries import Abstention, Detect, Detections, Judge, ReadText, Reply, Segment
from editcritic.reward.queries.answers import Outcome, RecognizedText
from editcritic.reward.queries.kinds import Query

PIXELS = cv2.resize(skimage.data.coffee(), (300, 200), interpolation=cv2.INTER_AREA)
PHOTO = Image.of(PIXELS)
_INSIDE = np.zeros(PIXELS.shape[:2], np.uint8)
cv2.ellipse(_INSIDE, (138, 115), (100, 80), 0, 0, 360, 1, -1)  # the saucer ...
cv2.ellipse(_INSIDE, (146, 68), (60, 66), 0, 0, 360, 0, -1)  # ... without the cup
BLUE = PIXELS.copy()
BLUE[_INSIDE == 1] = BLUE[_INSIDE == 1][:, ::-1]


def painted(box: Box, colour: Sequence[int] = (30, 60, 220), pixels: Any = PIXELS) -> Image:
    """The photograph with one area in a colour."""
    changed = pixels.copy()
    x0, y0, x1, y1 = box.corners((300, 200))
    changed[y0:y1, x0:x1] = colour
    return Image.of(changed)


def edit(instruction: str, source: Any, edited: Any, boxes: Mapping[str, Any] | None = None, **fields: Any) -> Any:
    """A sample of pixels, with boxes as corners in pixels: those of one box, or a list of them."""
    size = (source.shape[1], source.shape[0])
    listed = {name: known if isinstance(known, list) else [known] for name, known in (boxes or {}).items()}
    named = {name: tuple(Box.from_corners(a, b, c, d, size) for a, b, c, d in known) for name, known in listed.items()}
    pictures = (Image.of(np.ascontiguousarray(one)) for one in (source, edited))
    return EditSample("s", instruction, (next(pictures),), next(pictures), boxes=named, **fields)


def worth(score: Score) -> float:
    """The value of a score that has one."""
    assert score.value is not None, score.reason
    return score.value


@pytest.fixture(scope="session")
def experts() -> dict[str, Expert]:
    return default_experts()


@dataclass
class Witness(Expert):
    """Detector, judge and reader of one edit. `queries` are those that it got.

    source, edited: phrase -> boxes (cx, cy, w, h, score). answers: text in a question -> probabilities of yes about the
    source and about the edited image; no to everything else. differences: the reply to that question. unknown: phrases
    to abstain on.
    """

    original: Image = PHOTO
    source: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)
    edited: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)
    answers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    differences: str = '{"differences": []}'
    text: tuple[str, str] = ("", "")
    unknown: tuple[str, ...] = ()
    queries: list[Query[Any]] = field(default_factory=list)
    id: str = "witness"

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Detect, Judge, ReadText, Segment)

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        self.queries += queries
        return [self._answer(query) for query in queries]

    def topics(self) -> list[str]:
        """Of the judge's queries, in order."""
        return [query.topic for query in self.queries if isinstance(query, Judge)]

    def _answer(self, query: Query[Any]) -> Outcome:
        match query:
            case Detect(image, (phrase,)):
                if phrase in self.unknown:
                    return Abstention(f"cannot look for {phrase}")
                boxes = (self.source if self.is_source(image) else self.edited).get(phrase, ())
                return Detections(tuple(Box(cx, cy, w, h, p, phrase) for cx, cy, w, h, p in boxes), min_score=0.05)
            case Judge(topic="any-edit/differences"):
                return Reply(self.differences)
            case Judge(slots=slots, images=images):
                words = " ".join(value for _, value in slots)
                for part, (before, after) in self.answers.items():
                    if part in words:
                        p = before if self.is_source(images[-1]) else after
                        return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})
                return Reply("no", {"yes": 0.0, "no": 1.0})
            case Segment():
                return Abstention("cannot segment")
            case ReadText(image):
                return RecognizedText.without_boxes(self.text[0 if self.is_source(image) else 1])
            case _:
                raise AssertionError(f"nobody asks {query.kind} of it")

    def is_source(self, image: Image) -> bool:
        while image.origin is not None:
            image = image.origin[0]
        return image == self.original


Scored = Callable[..., Score]


@pytest.fixture(scope="session")
def scored() -> Scored:
    """The score of a metric: `scored(metric, plan, edited, witness, **fields of the sample)`."""
    pixel_experts = {"changes": PixelChanges(), "pixels": PixelFeatures(), "matcher": Annotated()}

    def run(metric: Any, plan: EditPlan, edited: Image, witness: Expert, **fields: Any) -> Score:
        words = " and ".join(operation.words for operation in plan.operations)
        options = {"instruction": words, "sources": (PHOTO,), **fields}
        sample = EditSample("s", edited=edited, plan=plan, **options)
        with Engine() as engine:
            experts = {**dict.fromkeys(metric.card.roles, witness), **pixel_experts}
            return engine.submit(metric(sample), experts, sample).result(timeout=60)

    return run
