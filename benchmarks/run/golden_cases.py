"""Golden cases: recorded answers of detector, judge and OCR, with the verdict of the released code.

One JSON line per case: `id`, `task_type`, `instruction`, `format_instruction` (its slots in brackets; without it, the
instruction is parsed), `detections` (image -> phrase -> [cx, cy, w, h, score]), `vlm` (question -> image or phrase ->
answer), `detector_calls` and `expected` (0 or 1). There are no pixels: images are identified by name, and the experts
look the answers up.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...reward.boxes import Box
from ...reward.engine.engine import Engine
from ...reward.image import Image
from ...reward.metrics.edival.following import InstructionFollowing
from ...reward.queries.expert import Expert
from ...reward.queries.kinds import Detect, Detections, Judge, Outcome, Query, ReadText, RecognizedText
from ...reward.queries.outcomes import Abstention, Failure
from ...reward.queries.response_formats import Reply
from ...reward.sample import TASK_TYPES, EditSample, Task
from ...reward.score import Score
from ...reward.strict_json import json_lines
from ..suites.edival.reader import parse_turn

Call = tuple[str, str, float]
"""A detector call: image (`source` or `edited`), phrase, threshold."""

_SIZE = (512, 512)


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A line of the file. `calls`: the detector calls of the released code, in order."""

    id: str
    instruction: str
    detections: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
    vlm: Mapping[str, Mapping[str, str]]
    calls: tuple[Call, ...]
    expected: int
    task: Task | None = None

    def picture(self, name: str) -> Image:
        """The source or edited image, without pixels."""
        return Image.from_digest(hashlib.sha256(f"{self.id} {name}".encode()).hexdigest(), _SIZE)

    @property
    def sample(self) -> EditSample:
        pictures = (self.picture("source"),), self.picture("edited")
        return EditSample(self.id, self.instruction, *pictures, task=self.task)


def read_cases(path: Path) -> Iterator[GoldenCase]:
    """The cases in a file. Raises ValueError for an invalid line."""
    for number, data in json_lines(path):
        try:
            if isinstance(data, ValueError):
                raise data
            calls = tuple((call["image"], call["phrase"], call["threshold"]) for call in data["detector_calls"])
            yield GoldenCase(
                data["id"],
                data["instruction"],
                data["detections"],
                data["vlm"],
                calls,
                int(data["expected"]),
                parse_turn(data["task_type"], data["instruction"], form) if (form := _form(data)) else None,
            )
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: not a golden case ({type(error).__name__}: {error})") from None


def _form(data: Mapping[str, Any]) -> str:
    """The instruction with its slots in brackets; empty if the case has none."""
    form = data.get("format_instruction", "")
    if not isinstance(form, str) or (form and data["task_type"] not in TASK_TYPES):
        raise ValueError(f"expected the text of a format_instruction of a known task_type, got {form!r:.80}")
    return form


class GoldenExpert(Expert):
    """Answers queries of all cases from the recording, by image; a query without a recorded answer fails."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Detect, Judge, ReadText)
    batch = 256

    def __init__(self, cases: Sequence[GoldenCase]) -> None:
        self.id = "golden edival-if"
        self._cases = {case.id: case for case in cases}
        self._pictures = {case.picture(name).digest: (case, name) for case in cases for name in ("source", "edited")}

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Add the case id to queries without an image: equal queries of different cases have different answers."""
        if isinstance(query, Judge) and not query.images and sample is not None:
            return dataclasses.replace(query, slots=(*query.slots, ("case", sample.id)))
        return query

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Outcome:
        try:
            match query:
                case Detect(image, (phrase,)):
                    case, name = self._pictures[image.digest]
                    rows = case.detections[name][phrase]
                    return Detections(tuple(Box(cx, cy, w, h, score, phrase) for cx, cy, w, h, score in rows))
                case ReadText(image):
                    while image.origin is not None:  # a crop: the recorded answer is the one about it
                        image = image.origin[0]
                    case, name = self._pictures[image.digest]
                    return RecognizedText.without_boxes(case.vlm["read_text"][name])
                case Judge():
                    topic, slots = query.topic.removeprefix("edival/"), dict(query.slots)
                    if not query.images:
                        return Reply(self._cases[slots["case"]].vlm[topic][slots["object"]])
                    case, name = self._pictures[query.images[-1].digest]
                    return Reply(case.vlm[topic]["pair" if len(query.images) == 2 else name])
                case _:
                    return Failure(f"nothing is recorded for {query.kind} queries like this")
        except KeyError as error:
            return Failure(f"no answer is recorded for {error}", infrastructure=True)


def detector_calls(score: Score, case: GoldenCase) -> tuple[Call, ...]:
    """The detector calls in order, from the evidence."""
    names = {case.picture(name).digest: name for name in ("source", "edited")}
    detections = (item for item in score.evidence if item.what.startswith("detect "))
    return tuple((names[item.image], item.text, item.numbers["threshold"]) for item in detections)


def replay_cases(path: Path, protocol: str) -> tuple[int, int, list[str]]:
    """Number of cases that match, number of cases, and the mismatches. Detector calls are compared for the `official`
    protocol only: the others make other calls. Raises ValueError for another kind of file, or an unknown protocol."""
    metric = InstructionFollowing(protocol)
    cases = list(read_cases(path))
    recorded = GoldenExpert(cases)
    experts = dict.fromkeys(metric.card.roles, recorded)
    disagreements = []
    with Engine() as engine:
        samples = (case.sample for case in cases)
        scores = engine.run(((metric(sample), sample) for sample in samples), experts)
        for case, score in zip(cases, scores, strict=True):
            calls = detector_calls(score, case)
            if score.value != case.expected or (protocol == "official" and calls != case.calls):
                disagreements.append(_mismatch(case, score, calls))
    return len(cases) - len(disagreements), len(cases), disagreements


def _mismatch(case: GoldenCase, score: Score, calls: tuple[Call, ...]) -> str:
    if score.value != case.expected:
        got = score.status if score.value is None else f"{score.value:g}"
        return f"{case.id}: expected {case.expected}, got {got} ({score.reason})"
    return f"{case.id}: expected detector calls {list(case.calls)}, got {list(calls)}"
