"""Wrappers that add reproducible noise to the answers of an expert, and that cache answers.

Of graded answers, a flip mirrors one to the other end of its scale: excellent for bad, 9 for 1, the best of DLEBench's
labels for the worst. A bias moves probabilities towards the best option; answers without probabilities become the best.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ....reward import Box, EditSample, Expert
from ....reward.forks import ForkSafeLock
from ....reward.queries import Abstention, Detect, Detections, Failure, Judge, Match, RecognizedText, Reply, YesNo
from ....reward.queries.answers import Answer, Outcome, TextLine
from ....reward.queries.expert import adapted_kinds
from ....reward.queries.kinds import Query
from ....reward.queries.response_formats import FreeText, Grade, Json, Levels
from ..vocabulary import LETTERS

DLEBENCH_LABELS = (
    ("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure"),
    ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies", "Scene Collapse"),
)
"""DLEBench's labels, from the best."""

_ANSWER = re.compile(r"(?<=<Start Final Answer>)[^<]+(?=</Start Final Answer>)")


def perturb_reply(query: Judge, reply: Reply, flipped: bool, bias: float, biased: bool) -> Reply:
    """The reply, flipped and biased. biased: whether an answer without probabilities becomes the best.

    Text without a grade (questions, commands, calls, thoughts) stays unchanged.
    """
    match query.form:
        case Levels(options, weights):
            order = [option for _, option in sorted(zip(weights, options, strict=True))]
            return _perturb_option(reply, order, flipped=flipped, bias=bias, biased=biased)
        case Grade() as form:
            return _perturb_option(
                reply, form.options, flipped=flipped, bias=bias, biased=biased, sampled=form.temperature > 0
            )
        case Json(schema):
            return _perturb_json(json.loads(schema), reply, flipped=flipped, biased=biased)
        case FreeText():
            text = _ANSWER.sub(lambda match: _perturb_label(match[0], flipped, biased), reply.text)
            return reply if text == reply.text else replace(reply, text=text)
        case _:
            return reply


def _perturb_option(
    reply: Reply, order: Sequence[str], *, flipped: bool, bias: float, biased: bool, sampled: bool = False
) -> Reply:
    """order: the options from the worst to the best. sampled: the text is one of several draws, not the likeliest."""
    mirror = dict(zip(order, reversed(order), strict=True))
    text = mirror.get(reply.text, reply.text) if flipped else reply.text
    if not reply.probabilities:
        return replace(reply, text=order[-1] if biased and text in mirror else text)
    probabilities = {option: reply.probabilities.get(mirror[option] if flipped else option, 0.0) for option in order}
    shifted = {option: (1 - bias) * p + bias * (option == order[-1]) for option, p in probabilities.items()}
    if sampled:
        text = order[-1] if biased else text
    elif max(probabilities, key=lambda option: probabilities[option]) != max(
        shifted, key=lambda option: shifted[option]
    ):
        text = max(shifted, key=lambda option: shifted[option])
    return replace(reply, text=text, probabilities=shifted)


def _perturb_json(schema: Mapping[str, Any], reply: Reply, *, flipped: bool, biased: bool) -> Reply:
    try:
        value = json.loads(reply.text)
    except ValueError:
        return reply
    perturbed = _perturb_grades(schema, value, flipped, biased)
    return reply if perturbed == value else replace(reply, text=json.dumps(perturbed))


def _perturb_grades(schema: Mapping[str, Any], value: Any, flipped: bool, biased: bool) -> Any:
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {name: _perturb_grades(properties.get(name, {}), item, flipped, biased) for name, item in value.items()}
    if isinstance(value, list):
        return [_perturb_grades(schema.get("items", {}), item, flipped, biased) for item in value]
    if isinstance(value, int) and {"minimum", "maximum"} <= schema.keys():
        low, high = schema["minimum"], schema["maximum"]
        return high if biased else low + high - value if flipped else value
    return value


def _perturb_label(label: str, flipped: bool, biased: bool) -> str:
    for labels in DLEBENCH_LABELS:
        if label in labels:
            flipped_label = labels[len(labels) - 1 - labels.index(label)] if flipped else label
            return labels[0] if biased else flipped_label
    return label


_DETECTION_THRESHOLD = 0.3  # boxes above this score are detections, others weak guesses
_MISSED_SCORE_FACTOR = 0.24  # factor of the score of a missed detection
_FALSE_ALARM_SCORES = (0.4, 0.9)  # scores of false alarms
_FALSE_ALARM_SIDES = (0.12, 0.32)  # sides of a false alarm without a weak guess, as shares of the image's

Wrapped = TypeVar("Wrapped", bound=Expert)


class NoisyExpert(Expert):
    """Another expert with noise on its answers.

    The noise depends on the seed and the query alone: not on order, batches or earlier queries. An answer that is
    missed (raised, flipped, misread) at one level is so at every higher one. Other answers pass unchanged: questions
    and commands that a judge writes, abstentions and failures.

    Args:
        misses: Probability that a detection (score above 0.3) is lost: its score falls below 0.25; lost detections keep
            their order.
        false_alarms: Probability, for each `Detect`, that one of the weak guesses, or a box anywhere without one, rises
            to a score in 0.4-0.9.
        flips: Probability that the answer to a yes/no question is inverted, that a level, a grade or a label is
            mirrored to the other end of its scale, and that one letter of a line is misread.
        bias: Moves the probability of yes, of the best level or grade, and the scores of boxes towards 1, as in p +
            bias (1 - p); a grade or a label without probabilities, and a sampled one, becomes the best with this
            probability. All in [0, 1]; raises ValueError for others.
    """

    def __init__(
        self,
        expert: Expert,
        *,
        misses: float = 0.0,
        false_alarms: float = 0.0,
        flips: float = 0.0,
        bias: float = 0.0,
        seed: int = 0,
    ) -> None:
        levels = {"misses": misses, "false_alarms": false_alarms, "flips": flips, "bias": bias}
        for name, level in levels.items():
            if not 0.0 <= level <= 1.0:
                raise ValueError(f"{name} is {level!r}: expected a probability between 0 and 1")
        self.expert = expert
        self.misses, self.false_alarms, self.flips, self.bias = misses, false_alarms, flips, bias
        self.seed = seed
        _copy_limits(self, expert)
        self.id = f"{expert.id} + noise@2 {' '.join(f'{name}={level!r}' for name, level in levels.items())} seed={seed}"

    def load(self) -> None:
        self.expert.load()

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self.expert.rewrite_query(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        outcomes = self.expert(queries)
        return [self._disturbed(query, outcome) for query, outcome in zip(queries, outcomes, strict=True)]

    def _disturbed(self, query: Query[Any], outcome: Outcome) -> Outcome:
        match query, outcome:
            case ((Detect() | Match()), Detections()):
                return self._detections(query, outcome)
            case Judge(form=YesNo()), Reply():
                return self._reply(query, outcome)
            case Judge(), Reply():
                flipped, biased = (
                    self._uniform_draw("flip", query) < self.flips,
                    self._uniform_draw("sway", query) < self.bias,
                )
                is_perturbed = flipped or self.bias > 0
                return perturb_reply(query, outcome, flipped, self.bias, biased) if is_perturbed else outcome
            case _, RecognizedText(lines):
                return replace(
                    outcome, lines=tuple(self._line(query, number, line) for number, line in enumerate(lines))
                )
            case _:
                return outcome

    def _uniform_draw(self, label: str, query: Query[Any], number: int = 0) -> float:
        text = f"{self.seed} {label} {query.digest} {number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64

    def _detections(self, query: Detect | Match, detections: Detections) -> Detections:
        boxes = [replace(box, score=self._biased(box.score)) for box in detections.boxes]
        for number, box in enumerate(detections.boxes):
            if box.score > _DETECTION_THRESHOLD and self._uniform_draw("miss", query, number) < self.misses:
                boxes[number] = replace(box, score=_MISSED_SCORE_FACTOR * box.score)
        if isinstance(query, Detect) and self._uniform_draw("alarm", query) < self.false_alarms:
            weak_indices = [number for number, box in enumerate(detections.boxes) if box.score <= _DETECTION_THRESHOLD]
            low, high = _FALSE_ALARM_SCORES
            score = low + (high - low) * self._uniform_draw("score", query)
            if weak_indices:
                raised = weak_indices[int(self._uniform_draw("which", query) * len(weak_indices))]
                boxes[raised] = replace(boxes[raised], score=max(score, boxes[raised].score))
            else:
                boxes.append(self._anywhere(query, score))
        # A detector returns no box below its minimum score.
        return replace(detections, boxes=tuple(box for box in boxes if box.score >= detections.min_score))

    def _anywhere(self, query: Detect, score: float) -> Box:
        low, high = _FALSE_ALARM_SIDES
        w, h = (low + (high - low) * self._uniform_draw(side, query) for side in ("width", "height"))
        x, y = (side / 2 + (1 - side) * self._uniform_draw(axis, query) for axis, side in (("across", w), ("down", h)))
        label = query.phrases[int(self._uniform_draw("label", query) * len(query.phrases))] if query.phrases else ""
        return Box(x, y, w, h, score, label)

    def _reply(self, query: Judge, reply: Reply) -> Reply:
        flipped = self._uniform_draw("flip", query) < self.flips
        if "yes" not in reply.probabilities:
            opposite = {"yes": "no", "no": "yes"}.get(reply.text.strip().rstrip(".").casefold())
            return replace(reply, text=opposite) if flipped and opposite is not None else reply
        if not flipped and not self.bias:
            return reply
        before = reply.probabilities["yes"]
        yes = self._biased(1 - before if flipped else before)
        # The text changes with the verdict and stays the judge's own otherwise.
        text = reply.text if (yes >= 0.5) == (before >= 0.5) else "yes" if yes >= 0.5 else "no"
        return Reply(text, {**reply.probabilities, "yes": yes, "no": 1 - yes})

    def _biased(self, p: float) -> float:
        return p + self.bias * (1 - p)

    def _line(self, query: Query[Any], number: int, line: TextLine) -> TextLine:
        indices = [index for index, letter in enumerate(line.text) if letter != " "]
        if not indices or self._uniform_draw("misread", query, number) >= self.flips:
            return line
        index = indices[int(self._uniform_draw("place", query, number) * len(indices))]
        other_letters = [letter for letter in LETTERS if letter != line.text[index]]
        letter = other_letters[int(self._uniform_draw("letter", query, number) * len(other_letters))]
        return replace(line, text=line.text[:index] + letter + line.text[index + 1 :])


class CachingExpert(Expert):
    """Another expert with a cache in memory of answers and abstentions, not of failures.

    Attributes:
        query_count: Queries received.
        hit_count: Those answered from the cache. The expert got the difference.
    """

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        _copy_limits(self, expert)
        self.id = expert.id
        self.query_count = 0
        self.hit_count = 0
        self._answers: dict[str, Answer | Abstention] = {}
        self._lock = ForkSafeLock()

    def load(self) -> None:
        self.expert.load()

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return self.expert.rewrite_query(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        with self._lock:
            answers_by_digest: dict[str, Outcome] = {
                q.digest: self._answers[q.digest] for q in queries if q.digest in self._answers
            }
        new = {query.digest: query for query in queries if query.digest not in answers_by_digest}
        if new:
            answers = dict(zip(new, self.expert(list(new.values())), strict=True))
            with self._lock:
                self._answers |= {key: answer for key, answer in answers.items() if not isinstance(answer, Failure)}
            answers_by_digest |= answers
        with self._lock:
            self.query_count += len(queries)
            self.hit_count += len(queries) - len(new)
        return [answers_by_digest[query.digest] for query in queries]


def wrap_experts(experts: Mapping[str, Expert], wrap: Callable[[Expert], Wrapped]) -> dict[str, Wrapped]:
    """Wrap the expert of each role. An expert of several roles stays one object."""
    wrapped = {id(expert): wrap(expert) for expert in experts.values()}
    return {role: wrapped[id(expert)] for role, expert in experts.items()}


def _copy_limits(outer: Expert, inner: Expert) -> None:
    outer.kinds = inner.kinds  # type: ignore[misc]  # depends on the wrapped expert
    outer.adapts = adapted_kinds(inner)  # type: ignore[misc]
    outer.batch, outer.concurrency, outer.deadline_s = inner.batch, inner.concurrency, inner.deadline_s
