"""The metrics of VIEScore: the two questions about an edit, and the root of their product.

Protocols of reading the grades in a judge's reply, default first:

| | `fixed` | `official` (released code of GEdit-Bench, commit 570eba6) |
|---|---|---|
| reply | JSON of a schema; words and a code fence around it are allowed | see `released_grades` |
| keys without quotes | failed | read, if the values are bare numbers and words |
| how many grades | two | any number from one on; a single one counts for both |
| which numbers | integers from 0 to 10 | any from 0 to a million, also fractions and 85 |
| a reply that cannot be read | failed | failed, where the released code guesses |
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, reply_value, unparsable_reply
from ...image import Image
from ...queries.kinds import Judge
from ...queries.parsing import shorten
from ...queries.response_formats import FreeText, Json, Reply, ResponseFormat
from ...sample import EditSample
from ...score import Evidence, Score
from ..compose import Metric, WeightedMean
from ..prompted_metric import PromptedMetric, object_schema

VieScoreProtocol = Literal["fixed", "official"]
PROTOCOLS: tuple[VieScoreProtocol, ...] = get_args(VieScoreProtocol)

MAX_GRADE = 10
"""The highest grade; the lowest is 0."""

_MAX_TOKENS = 1400
"""Of a reply, as the released code asks GPT-4.1."""

_HIGHEST_READ = 1e6
"""In `official`. Larger numbers are no grades, and products of them may be infinite."""

_GRADES = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": MAX_GRADE},
    "minItems": 2,
    "maxItems": 2,
}
RESPONSE_FORMATS: Mapping[VieScoreProtocol, ResponseFormat] = {
    "fixed": Json.from_schema(object_schema(score=_GRADES, reasoning={"type": "string"}), max_tokens=_MAX_TOKENS),
    "official": FreeText(max_tokens=_MAX_TOKENS),
}
"""Of both questions."""

_SOURCE = (
    "VIEScore (arXiv 2312.14867), as GEdit-Bench uses it: Step1X-Edit (arXiv 2504.17761), section 4.2.1, and its "
    "released code (stepfun-ai/Step1X-Edit, GEdit-Bench)"
)
_CARD = Card(
    "viescore",
    1,
    "",
    range=(0.0, float(MAX_GRADE)),
    unit="grade 0-10",
    kinds={"judge": ("judge",)},
    requires=("sources", "edited", "instruction"),
    protocols=PROTOCOLS,
    source=f"{_SOURCE}: the lower of two grades. The question is ours.",
)


@dataclass(frozen=True)
class VieScoreOptions(PromptedMetric):
    """The options of all metrics of VIEScore. protocol: how a reply is read, `fixed` or `official`, as in the released
    code. prompts: a pack's `semantic_consistency.txt`, with the slot `{instruction}`, and `perceptual_quality.txt`."""

    protocol: VieScoreProtocol = "fixed"
    prompts: str | None = None
    card: ClassVar[Card]
    package: ClassVar[str] = __package__
    variant: ClassVar[str] = "protocol"
    choices: ClassVar[Mapping[str, Collection[object]]] = {"protocol": PROTOCOLS}
    one_picture: ClassVar[str] = "VIEScore"


@dataclass(frozen=True)
class _TwoGrades(VieScoreOptions):
    """The lower of two grades in one reply; one that is told the instruction sees both images, else the edited."""

    topic: ClassVar[str]
    grade_names: ClassVar[tuple[str, str]]

    def score(self, sample: EditSample) -> Program[Score]:
        edited = sample.edited.resized(*sample.source.size, "bicubic")
        shown: tuple[Image, ...] = (edited,)
        slots: dict[str, str] = {}
        if "instruction" in self.card.requires:
            shown, slots = (sample.source, edited), {"instruction": sample.instruction}
        question = self.question(f"viescore/{self.topic}", shown, RESPONSE_FORMATS[self.protocol], slots)
        reply = yield from ask(question)
        grades, reasoning = _read_grades(question, reply)
        named = dict(zip(self.grade_names, grades * 2 if len(grades) == 1 else grades, strict=False))
        numbers = {str(place): grade for place, grade in enumerate(grades, start=1)}
        evidence = [Evidence(f"judge {question.topic}", edited.digest, text=reasoning, numbers=numbers)]
        reason = f"the lowest of {len(grades)} grades, where two were asked for"  # or one: in protocol `official`
        if len(grades) < 3:
            one, two = f"one grade, {grades[0]:g}, counts for both", f"the lower of {grades[0]:g} and {grades[-1]:g}"
            reason = one if len(grades) == 1 else two
        if max(grades) > MAX_GRADE:
            reason += f"; the scale ends at {MAX_GRADE}"
        parts = {name: Score.of(grade) for name, grade in named.items()}
        return Score.of(min(grades), reason, evidence=evidence, parts=parts)


@dataclass(frozen=True)
class SemanticConsistency(_TwoGrades):
    """SC, from 0 to 10: the lower grade of the success of the edit and of no over-editing, by a judge that sees
    source, edit at its size, and instruction. `parts` has both. In `official` a value may exceed 10."""

    card: ClassVar[Card] = replace(
        _CARD,
        name="viescore-sc",
        summary="the instruction was carried out, and nothing else was changed",
        failure_modes=(
            "One impression of one judge: it misses small changes, and words written into the image may sway it. "
            "Eleven grades are coarse: many edits tie. An image at another size or aspect ratio is stretched to the "
            "source's first, so that wrong proportions cost little. Artifacts cost nothing here: reward it "
            "together with viescore-pq."
        ),
        aspect="following",
    )
    topic: ClassVar[str] = "semantic_consistency"
    grade_names: ClassVar[tuple[str, str]] = ("success", "no_overediting")


@dataclass(frozen=True)
class PerceptualQuality(_TwoGrades):
    """PQ, from 0 to 10: the lower grade of naturalness and of freedom from artifacts, by a judge that sees the edit
    alone, at the source's size. `parts` has both. In `official` a value may exceed 10."""

    card: ClassVar[Card] = replace(
        _CARD,
        name="viescore-pq",
        summary="the edited image looks natural and has no artifacts",
        requires=("sources", "edited"),
        failure_modes=(
            "Neither source nor instruction is looked at: a good image wins, were it an unchanged copy or another "
            "image, and what was asked to look odd costs. Reward it together with viescore-sc."
        ),
        aspect="quality",
    )
    topic: ClassVar[str] = "perceptual_quality"
    grade_names: ClassVar[tuple[str, str]] = ("naturalness", "no_artifacts")


def overall(semantic_consistency: float, perceptual_quality: float) -> float:
    """O of one edit: sqrt(SC x PQ), on the scale of both."""
    return math.sqrt(semantic_consistency * perceptual_quality)


@dataclass(frozen=True)
class VieScoreOverall(VieScoreOptions):
    """O = sqrt(SC x PQ), from 0 to 10; `parts` has both: `semantic_consistency`, `perceptual_quality`.

    Without a value of either, there is none of O, as in the released code.
    """

    card: ClassVar[Card] = replace(
        _CARD,
        name="viescore-o",
        summary="the instruction was carried out, nothing else was changed, and the edited image looks natural",
        source=(
            "VIEScore (arXiv 2312.14867), as GEdit-Bench uses it: Step1X-Edit (arXiv 2504.17761), section 4.2.1, and "
            "its released code: the root of the product of two minima, for each edit. The questions are ours."
        ),
        failure_modes=(
            "Two impressions of one judge: it misses small changes, and words written into the image may sway it. Few "
            "values are possible: many edits tie."
        ),
        aspect="overall",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.parts  # their prompts are read now

    @cached_property
    def parts(self) -> Mapping[str, Metric]:
        """The two metrics."""
        options = {option.name: getattr(self, option.name) for option in fields(VieScoreOptions)}
        return {
            "semantic_consistency": SemanticConsistency(**options),
            "perceptual_quality": PerceptualQuality(**options),
        }

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"parts": self.parts}

    @cached_property
    def _mean(self) -> WeightedMean:
        # `GeometricMean` takes values in 0..1 only; the mean of both settles what happens where one has no value.
        return WeightedMean(self.parts, on_not_applicable="whole", name=self.card.name)

    def score(self, sample: EditSample) -> Program[Score]:
        score = yield from self._mean(sample)
        if score.value is None:
            return score
        values = [part.value for part in score.parts.values() if part.value is not None]
        reason = "root of the product of SC and PQ"
        if max(values) > MAX_GRADE:  # both grades of one were, so that its reason says so, too
            reason += f", of which one is above {MAX_GRADE}, where the scale ends: as released, it counts"
        return Score.of(overall(*values), reason, parts=score.parts)


def _read_grades(question: Judge, reply: Reply) -> tuple[list[float], str]:
    """The grades of a reply, one or more, and its reasoning (in `official`, the reply). Raises `Failed`."""
    if isinstance(question.form, Json):
        value = reply_value(question, reply)
        return [float(grade) for grade in value["score"]], value["reasoning"]
    try:
        return released_grades(reply.text), reply.text
    except ValueError as error:
        raise unparsable_reply(
            f"{question.topic}: {error}; the released code would ask again, and may then take a random grade", reply
        ) from None


_DELIMITER = "||V^=^V||"
_ENTRY = re.compile(r'\s*("?)(\w+)\1:((?:[^"}:]|(?<!\w):)*)')
"""A key and a bare value, in which a word before a colon would be another key."""
_BARE = re.compile(r"-?\d+(?:\.\d+)?|(?i:true|false|null)")


def released_grades(text: str) -> list[float]:
    """The grades that the released code reads: `score` between two delimiters or in braces, a list of two integers, or
    an integer from 0 to 10; one or more numbers from 0 to a million. Raises ValueError for anything else, where it
    would ask again and may then take a random integer, or drop the sample."""
    grades = _grades_in(text)
    if not grades:
        raise ValueError(f"the list of grades is empty: {shorten(text)}")
    for grade in grades:
        if isinstance(grade, bool) or not isinstance(grade, int | float) or not 0 <= grade <= _HIGHEST_READ:
            raise ValueError(f"expected grades of 0 or more, got {shorten(repr(grade))}: {shorten(text)}")
    return [float(grade) for grade in grades]


def _grades_in(text: str) -> Sequence[Any]:
    if text.count(_DELIMITER) == 2:
        return _of_object(text[text.find(_DELIMITER) + len(_DELIMITER) : text.rfind(_DELIMITER)])
    start, end = text.find("{"), text.rfind("}")
    if start >= 0 and end >= 0:
        return _of_object(text[start : end + 1])
    listed = text[text.find("[") : text.rfind("]") + 1] if "[" in text else ""
    if re.fullmatch(r"\[[0-9]+, ?[0-9]+\]", listed):
        try:
            numbers: list[Any] = json.loads(listed)
        except ValueError as error:  # a leading zero, or thousands of digits
            raise ValueError(f"the list of grades is not JSON ({error}): {shorten(listed)}") from None
        return numbers
    try:
        grade = int(text)
    except ValueError:
        grade = -1
    if 0 <= grade <= MAX_GRADE:
        return [grade]
    raise ValueError(f"expected JSON, a list of two integers, or an integer from 0 to {MAX_GRADE}, got {shorten(text)}")


def _of_object(text: str) -> Sequence[Any]:
    line = text.strip().replace("\n", "")
    try:
        score = json.loads(line)["score"]
    except (ValueError, LookupError, TypeError, RecursionError):
        score = _of_bare_words(line)
    return score if isinstance(score, list) else [score]


def _of_bare_words(line: str) -> Any:
    """The number of `score` in `{score: 7, reasoning: all clean}`, without quotes. Raises ValueError."""
    problem = ValueError(f"expected a JSON object with score, got {shorten(line)}")
    if not (line.startswith("{") and line.endswith("}")):
        raise problem
    entries = [_ENTRY.fullmatch(entry) for entry in line[1:-1].split(",")]
    try:
        texts = [(entry[2], entry[3].strip()) for entry in entries if entry]
        values = {key: json.loads(text if _BARE.fullmatch(text) else f'"{text}"') for key, text in texts}
    except ValueError:
        raise problem from None
    score = values.get("score")
    if None in entries or isinstance(score, str | bool | None):
        raise problem
    return score
