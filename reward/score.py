"""Score: the result of a metric, with its evidence."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from types import UnionType
from typing import Any, Literal, get_args, overload

from .boxes import Box

SCHEMA = 1
"""Version of the JSON form of scores."""
Status = Literal["scored", "not_applicable", "abstained", "failed"]
Cause = Literal["", "guard", "edit", "infrastructure"]
_STATUSES: tuple[Status, ...] = get_args(Status)
_CAUSES: Mapping[str, Cause] = {"scored": "guard", "abstained": "edit", "failed": "infrastructure"}
"""The cause that a score of a status can have."""
_DOUBT = 0.5  # confidence up to which a plan is called uncertain
_FACTORS = {"following", "preservation"}  # parts of `any-edit`, whose product it is


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation that a score is based on. Digests, boxes, text, numbers; never pixels."""

    what: str
    image: str = ""
    boxes: tuple[Box, ...] = ()
    text: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data, without empty fields. A box is `[cx, cy, w, h, score, label]`."""
        boxes = [[b.cx, b.cy, b.w, b.h, b.score, b.label] for b in self.boxes]
        others = {"image": self.image, "boxes": boxes, "text": self.text, "numbers": dict(self.numbers)}
        return {"what": self.what, **{name: value for name, value in others.items() if value}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Evidence:
        """What `to_json` wrote.

        Raises:
            KeyError: For other data.
            TypeError: For other data.
            ValueError: For other data.
        """
        boxes = tuple(Box(*numbers) for numbers in data.get("boxes", ()))
        what, image, text = data["what"], data.get("image", ""), data.get("text", "")
        _require(str, what, image, text, *(box.label for box in boxes))
        numbers = data.get("numbers", {})
        _require(int | float, *numbers.values())
        return Evidence(what, image, boxes, text, numbers)


def _require(kind: type | UnionType, *values: object) -> None:
    """Raise TypeError for a value that JSON has in the place of a number or a text, ValueError for a huge integer."""
    for value in values:
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"expected {getattr(kind, '__name__', kind)}, got {value!r:.80}")
        if isinstance(value, int) and value.bit_length() > 64:  # JSON has larger ones than a float
            raise ValueError(f"a number is an integer of {value.bit_length()} bits")


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one edit. Higher is better.

    Args:
        value: A finite number, or None unless `status` is `scored`.
        status: `scored`; `not_applicable` (decidable from source and instruction alone, hence equal across a group);
            `abstained` (an expert cannot determine an answer for this edit); `failed` (an expert could not answer).
        reason: Why there is no value, or a short explanation of the value.
        parts: Scores that this one is composed of.
        credits: Scores of turns or operations, in order.
        metric: Signature of the metric, as in `edival-if@3/official`.
        cause: `guard`, of a value: a guard rejected the edit, and the value is the lowest of the range. `edit`, of an
            abstained score: the edit made it undecidable, as by removing what is compared. `infrastructure`, of a
            failed one: nothing else can be the reason (time-out, connection, crash, out of memory). Empty: unknown, or
            none.
    """

    value: float | None
    status: Status = "scored"
    reason: str = ""
    parts: Mapping[str, Score] = field(default_factory=dict)
    credits: Mapping[str, Score] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    metric: str = ""
    cause: Cause = ""

    def __post_init__(self) -> None:
        if self.status not in _STATUSES:
            raise ValueError(f"unknown status {self.status!r}: expected one of {', '.join(_STATUSES)}")
        if self.status == "scored":
            if self.value is None or not math.isfinite(self.value):
                raise ValueError(f"a scored Score needs a finite value, got {self.value}; use Score.failed(reason)")
        elif self.value is not None:
            raise ValueError(f"a Score that is {self.status} has no value, got {self.value}")
        elif not self.reason:
            raise ValueError(f"a Score that is {self.status} needs a reason")
        if self.cause and self.cause != _CAUSES.get(self.status):
            raise ValueError(
                f"a Score that is {self.status} cannot have the cause {self.cause!r}: expected "
                f"{_CAUSES.get(self.status, 'none')!r} or an empty string"
            )

    @staticmethod
    def of(
        value: float | bool,
        reason: str = "",
        *,
        evidence: Sequence[Evidence] = (),
        parts: Mapping[str, Score] | None = None,
        credits: Mapping[str, Score] | None = None,
    ) -> Score:
        """A score with a value."""
        return Score(float(value), "scored", reason, parts or {}, credits or {}, tuple(evidence))

    @staticmethod
    def not_applicable(reason: str, *, evidence: Sequence[Evidence] = ()) -> Score:
        """The metric does not apply: decidable from source and instruction alone."""
        return Score(None, "not_applicable", reason, evidence=tuple(evidence))

    @staticmethod
    def abstained(
        reason: str, *, evidence: Sequence[Evidence] = (), parts: Mapping[str, Score] | None = None, cause: Cause = ""
    ) -> Score:
        """An expert cannot determine an answer, or the edit made it undecidable (`cause="edit"`)."""
        return Score(None, "abstained", reason, parts or {}, evidence=tuple(evidence), cause=cause)

    @staticmethod
    def failed(
        reason: str, *, evidence: Sequence[Evidence] = (), parts: Mapping[str, Score] | None = None, cause: Cause = ""
    ) -> Score:
        """An expert could not answer, maybe because of the edit, as a judge that refuses; or only for reasons of
        infrastructure (`cause="infrastructure"`).
        """
        return Score(None, "failed", reason, parts or {}, evidence=tuple(evidence), cause=cause)

    @property
    def rejected(self) -> bool:
        """Whether a guard rejected the edit."""
        return self.cause == "guard"

    def __str__(self) -> str:
        """The value, the plan and the parts in lines for people."""
        return "\n".join(f"{name:<13} {text}".rstrip() for name, text in score_lines(self))

    def _repr_html_(self) -> str:
        """What a notebook shows: the lines of `str`, as a table. Whatever a judge or a file wrote is escaped."""
        return _html_rows(score_lines(self))

    def with_signature(self, metric: str) -> Score:
        """The same score with the signature of a metric."""
        return replace(self, metric=metric)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; a missing value is null, NaN never occurs."""
        others = {
            "reason": self.reason,
            "metric": self.metric,
            "cause": self.cause,
            "parts": {name: part.to_json() for name, part in self.parts.items()},
            "credits": {name: credit.to_json() for name, credit in self.credits.items()},
            "evidence": [item.to_json() for item in self.evidence],
        }
        return {"value": self.value, "status": self.status, **{name: one for name, one in others.items() if one}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Score:
        """Raises ValueError, LookupError, TypeError or AttributeError for what `to_json` does not write."""
        value, reason = data["value"], data.get("reason", "")
        metric, cause = data.get("metric", ""), data.get("cause", "")
        _require(str, data["status"], reason, metric, cause)
        _require(int | float | None, value)
        return Score(
            value,
            data["status"],
            reason,
            {name: Score.from_json(part) for name, part in data.get("parts", {}).items()},
            {name: Score.from_json(credit) for name, credit in data.get("credits", {}).items()},
            tuple(Evidence.from_json(item) for item in data.get("evidence", ())),
            metric,
            cause,
        )


@dataclass(frozen=True, slots=True)
class Scores(Sequence[Score]):
    """Scores of a batch, in the order of its samples, and their cost (`stats`).

    Args:
        reward: The signature of the reward that computed them, as in `edit-balanced@1#0123abcd`.
    """

    scores: tuple[Score, ...]
    ids: tuple[str, ...]
    stats: Mapping[str, Any] = field(default_factory=dict)
    reward: str = ""

    @property
    def values(self) -> list[float | None]:
        """One value per sample, None where there is none: the format of trainers."""
        return [score.value for score in self.scores]

    def count(self, value: Any) -> int:
        """Number of scores with this status, as in `scores.count("failed")`."""
        return sum(score.status == value for score in self.scores)

    @overload
    def __getitem__(self, index: int) -> Score: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Score]: ...
    def __getitem__(self, index: int | slice) -> Score | Sequence[Score]:
        return self.scores[index]

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Score]:
        return iter(self.scores)

    def _repr_html_(self) -> str:
        """What a notebook shows: each edit's id, value or status, and reason."""
        return _html_rows([(name, _described(one)) for name, one in zip(self.ids, self.scores, strict=True)])

    def to_jsonl(self) -> str:
        """One JSON object per line: `id` and the score, with the schema version and the reward's signature."""
        return "".join(score_line(name, score, self.reward) for name, score in zip(self.ids, self.scores, strict=True))


def without_evidence(score: Score) -> Score:
    """The score and those in it without evidence."""
    parts = {name: without_evidence(part) for name, part in score.parts.items()}
    credits = {name: without_evidence(credit) for name, credit in score.credits.items()}
    return replace(score, parts=parts, credits=credits, evidence=())


def score_line(name: str, score: Score, reward: str = "") -> str:
    """A line of a scores file: the score as JSON with its id, the schema version and the reward's signature, if any."""
    header = {"schema": SCHEMA} | ({"reward": reward} if reward else {})
    return json.dumps({**header, "id": name, **score.to_json()}, ensure_ascii=False, allow_nan=False) + "\n"


def score_lines(score: Score) -> list[tuple[str, str]]:
    """Name and text of what a score consists of. The score is first, operations are below their part. For a product
    that lacks a factor, the last line says what the others say about the whole.
    """
    if not score.parts:
        return [("score", _described(score)), *(("plan", text) for text in _plans(score)), *_operations(score)]
    lines = [("score", _value(score) if score.value is not None else f"none: {_value(score)}")]
    lines += [("plan", text) for text in dict.fromkeys(_plans(score))]
    lines += list(_parts(score))
    if (bound := upper_bound(score)) is not None and bound < 0.995:
        lines.append(("known", f"the score cannot exceed {bound:.2f}"))
    return lines


def _html_rows(rows: Sequence[tuple[str, str]]) -> str:
    cell = '<td style="text-align: left; white-space: pre-wrap">'
    lines = (f"<tr>{cell}{escape(name)}</td>{cell}{escape(text)}</td></tr>" for name, text in rows)
    return f"<table>{''.join(lines)}</table>"


def _value(score: Score) -> str:
    return score.status.replace("_", " ") if score.value is None else f"{score.value:.2f}"


def _described(score: Score) -> str:
    return f"{_value(score)}  {score.reason}".rstrip()


def _plans(score: Score) -> Iterator[str]:
    for evidence in score.evidence:
        if evidence.what == "plan":
            doubt = "" if evidence.numbers.get("confidence", 1.0) > _DOUBT else "  (uncertain)"
            yield evidence.text + doubt
    for part in score.parts.values():
        yield from _plans(part)


def _parts(score: Score) -> Iterator[tuple[str, str]]:
    for name, part in score.parts.items():
        if name == "guard":
            passed = part.value is not None and part.value > 0 and not part.rejected
            yield "guards", "passed" if passed else f"{_value(part)}  {part.reason}"
        elif name == "reward":
            yield from _parts(part)
        elif part.value is None and part.credits:  # its reason is that of an operation, which follows
            yield name, f"none: {_value(part)}"
            yield from _operations(part)
        else:
            yield name, _described(part)
            yield from _operations(part)


def _operations(score: Score) -> Iterator[tuple[str, str]]:
    yield from ((f"  {name}", _described(credit)) for name, credit in score.credits.items())


def upper_bound(score: Score) -> float | None:
    """What a product that lacks a factor is at most, in [0, 1], by its other factors; None for any other score."""
    inner = score.parts.get("reward", score)
    if score.value is not None or not inner.parts.keys() >= _FACTORS:
        return None
    return math.prod(part.value for part in inner.parts.values() if part.value is not None)
