"""Golden cases: recorded answers of detector, judge and reader, with the verdict the released code reached on them.

One case a line of JSON: `id`, `task_type`, `instruction`, `detections` (picture -> phrase -> [cx, cy, w, h, score]),
`vlm` (question -> picture or phrase -> answer), `detector_calls` and `expected` (0 or 1). There are no pixels: pictures
are known by name, and the experts look the answers up.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..reward.boxes import Box
from ..reward.edival.following import InstructionFollowing
from ..reward.engine import Engine
from ..reward.expert import Expert
from ..reward.forms import Reply
from ..reward.image import Image
from ..reward.outcomes import Abstention, Failure
from ..reward.query import Detect, Detections, Judge, Outcome, Query, Reading, ReadText
from ..reward.sample import EditSample
from ..reward.score import Score

Call = tuple[str, str, float]
"""Of a detector: picture (`source` or `edited`), phrase, threshold."""

_SIZE = (512, 512)


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the file. `calls` are the detections the released code asked for, in order."""

    id: str
    instruction: str
    detections: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
    vlm: Mapping[str, Mapping[str, str]]
    calls: tuple[Call, ...]
    expected: int

    def picture(self, name: str) -> Image:
        """The source or edited image, of which nothing but the name is known."""
        return Image.unseen(hashlib.sha256(f"{self.id} {name}".encode()).hexdigest(), _SIZE)

    @property
    def sample(self) -> EditSample:
        return EditSample(self.id, self.instruction, (self.picture("source"),), self.picture("edited"))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A case that came out otherwise than expected: in its value, or in what the detector was asked."""

    case: Case
    score: Score
    calls: tuple[Call, ...]

    def __str__(self) -> str:
        if self.score.value != self.case.expected:
            got = self.score.status if self.score.value is None else f"{self.score.value:g}"
            return f"{self.case.id}: expected {self.case.expected}, got {got} ({self.score.reason})"
        return f"{self.case.id}: expected detector calls {list(self.case.calls)}, got {list(self.calls)}"


def read_cases(path: Path) -> Iterator[Case]:
    """The cases in a file. Raises ValueError for a line that is none."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                data = json.loads(line)
                calls = tuple((call["image"], call["phrase"], call["threshold"]) for call in data["detector_calls"])
                yield Case(
                    data["id"], data["instruction"], data["detections"], data["vlm"], calls, int(data["expected"])
                )
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {number}: not a golden case ({type(error).__name__}: {error})"
                ) from None


class RecordedAnswers(Expert):
    """Answers for all cases at once, by the pictures asked about; a question nobody recorded an answer to fails."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Detect, Judge, ReadText)
    batch = 256

    def __init__(self, cases: Sequence[Case]) -> None:
        self.id = "golden edival-if"
        self._cases = {case.id: case for case in cases}
        self._pictures = {case.picture(name).digest: (case, name) for case in cases for name in ("source", "edited")}

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """Tell cases apart that ask the same question without a picture: their answers differ."""
        if isinstance(query, Judge) and not query.images and sample is not None:
            return dataclasses.replace(query, slots=(*query.slots, ("case", sample.id)))
        return query

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Outcome:
        try:
            match query:
                case Detect(image, (phrase,)):
                    found, name = self._pictures[image.digest]
                    rows = found.detections[name][phrase]
                    return Detections(tuple(Box(cx, cy, w, h, score, phrase) for cx, cy, w, h, score in rows))
                case ReadText(image):
                    while image.origin is not None:  # a crop: the recorded answer is the one about it
                        image = image.origin[0]
                    found, name = self._pictures[image.digest]
                    return Reading.plain(found.vlm["read_text"][name])
                case Judge():
                    topic, slots = query.topic.removeprefix("edival/"), dict(query.slots)
                    if not query.images:
                        return Reply(self._cases[slots["case"]].vlm[topic][slots["object"]])
                    found, name = self._pictures[query.images[-1].digest]
                    return Reply(found.vlm[topic]["pair" if len(query.images) == 2 else name])
                case _:
                    return Failure(f"nothing is recorded for {query.kind} queries like this")
        except KeyError as error:
            return Failure(f"no answer is recorded for {error}")


def detector_calls(score: Score, case: Case) -> tuple[Call, ...]:
    """What the detector was asked, in order, as the evidence has it."""
    names = {case.picture(name).digest: name for name in ("source", "edited")}
    looks = (item for item in score.evidence if item.what.startswith("detect "))
    return tuple((names[item.image], item.text, item.numbers["threshold"]) for item in looks)


def replay_cases(path: Path, protocol: str) -> tuple[int, int, list[Disagreement]]:
    """How many cases come out as expected, of how many, and those that do not.

    Detector calls count for the `official` protocol alone: the others look at other things. Raises ValueError for a
    file of something else, or an unknown protocol.
    """
    metric = InstructionFollowing(protocol)
    cases = list(read_cases(path))
    recorded = RecordedAnswers(cases)
    experts = dict.fromkeys(metric.card.roles, recorded)
    disagreements = []
    with Engine() as engine:
        samples = (case.sample for case in cases)
        scores = engine.run(((metric(sample), sample) for sample in samples), experts)
        for case, score in zip(cases, scores, strict=True):
            calls = detector_calls(score, case)
            if score.value != case.expected or (protocol == "official" and calls != case.calls):
                disagreements.append(Disagreement(case, score, calls))
    return len(cases) - len(disagreements), len(cases), disagreements
