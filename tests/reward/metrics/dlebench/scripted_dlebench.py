"""A judge that reads its replies from a script, beside experts that need no model, and the queries they got."""

import json
from typing import Any

import numpy as np

from editcritic.reward import Box, EditSample, Expert, Image
from editcritic.reward.experts.pixel_differences import PixelDifferences
from editcritic.reward.experts.upscalers import Lanczos
from editcritic.reward.queries import Detections, Judge, Reply
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.kinds import Detect, Differ, Upscale

from ...fakes import alone

SIZE = (640, 480)
INSTRUCTION = "Change the red cup on the table to blue"


def noise(seed: int, size: tuple[int, int] = SIZE) -> Image:
    """An image every part of which is another one."""
    return Image.of(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def patched(image: Image, *areas: tuple[int, int, int, int], colour: tuple[int, int, int] = (10, 20, 250)) -> Image:
    pixels = np.array(image.pixels)
    for x0, y0, x1, y1 in areas:
        pixels[y0:y1, x0:x1] = colour
    return Image.of(pixels)


def box(x0: float, y0: float, x1: float, y1: float, size: tuple[int, int] = SIZE) -> Box:
    return Box.from_corners(x0, y0, x1, y1, size)


SOURCE = Image.of(np.full((SIZE[1], SIZE[0], 3), 128, np.uint8))
PLACE = (300, 200, 340, 230)
EDITED, REFERENCE = patched(SOURCE, PLACE), patched(SOURCE, PLACE, colour=(0, 0, 255))


class Finds(Expert):
    """A detector that returns given detections and records its queries."""

    id = "finds"
    kinds = (Detect,)

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = outcomes
        self.queries: list[Any] = []

    def __call__(self, queries: Any) -> list[Outcome]:
        self.queries += queries
        return list(self.outcomes)


def edit(**fields: Any) -> EditSample:
    options = {
        "instruction": INSTRUCTION,
        "edited": EDITED,
        "reference": REFERENCE,
        "targets": (box(*PLACE),),
        **fields,
    }
    return EditSample("s", **{"sources": (SOURCE,), **options})


def says(label: str) -> str:
    return f"<Start Thinking>hm</Start Thinking>\n<Start Final Answer>{label}</Start Final Answer>"


def calls(*wanted: Any) -> str:
    lines = "\n".join(json.dumps({"name": name, "parameters": parameters}) for name, parameters in wanted)
    return f"<Start Thinking>I have to look.</Start Thinking>\n<tool_call>\n{lines}\n</tool_call>"


ZOOM: Any = ("zoom_in_image", {"bbox_2d": [300, 200, 340, 230], "target_image": "Edited Image"})
DIFFER: Any = ("localize_differences", {"comparison_image_1": "Source Image", "comparison_image_2": "Edited Image"})
DETECT: Any = ("detect_object", {"target_image": "Edited Image", "detect_object_name": "red cup"})


class Experts:
    """Answers questions. judge: its replies in order, or a rule; `judged`: the judge's queries, `queries`: all."""

    def __init__(self, *judge: Any) -> None:
        self.replies = list(judge)
        self.queries: list[Any] = []
        self.detections: Outcome = Detections((Box.from_corners(*PLACE, SIZE, score=0.8),))

    @property
    def judged(self) -> list[Judge]:
        return [query for query in self.queries if isinstance(query, Judge)]

    def count(self, kind: type[Any]) -> int:
        return sum(isinstance(query, kind) for query in self.queries)

    def __call__(self, query: Any) -> Outcome:
        self.queries.append(query)
        match query:
            case Judge():
                reply = self.replies[0](query) if callable(self.replies[0]) else self.replies.pop(0)
                return Reply(reply) if isinstance(reply, str) else reply
            case Differ():
                return PixelDifferences()([query])[0]
            case Upscale():
                return Lanczos()([query])[0]
            case Detect():
                return self.detections
            case _:
                raise AssertionError(f"nobody asks for {query}")

    def score(self, metric: Any, sample: EditSample | None = None) -> Any:
        return alone(metric(sample or edit()), self)


def pictures(question: Judge, message: int = -1) -> list[Image]:
    return [part for part in question.messages[message].content if isinstance(part, Image)]


def same(seen: Any, expected: Any) -> bool:
    """Whether images are pixel by pixel what is expected, in this order."""
    arrays = [picture.pixels if isinstance(picture, Image) else picture for picture in expected]
    return len(seen) == len(arrays) and all(np.array_equal(a.pixels, b) for a, b in zip(seen, arrays, strict=True))
