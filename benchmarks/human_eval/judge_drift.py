"""Whether a judge still says what it said: answers kept as a golden set, and a later run held against them.

A golden set is a JSONL file, a picture a line: `id`, `case`, `editor`, `edited` (digest of the picture), and `answers`:
metric or part -> what each run said (a number, or the status of a score without one). Several runs of the same pictures
tell how much the judge wavers by itself; against that a change is measured.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ...reward import Score
from ..inputs import InputError
from ..suites.figures import DRAWS, Figure, draws
from ..suites.results import Results, Row

SCHEMA = 1
Said = float | str
"""A value, or the status of a score that has none."""

NEAR = 1e-9
"""Values no further apart are the same answer."""


@dataclass(frozen=True, slots=True)
class Golden:
    """One picture. answers: path of a score -> what each run said of it."""

    id: str
    case: str
    editor: str
    edited: str
    answers: Mapping[str, tuple[Said, ...]]

    def to_json(self) -> dict[str, Any]:
        answers = {path: list(said) for path, said in self.answers.items()}
        return {
            "schema": SCHEMA,
            "id": self.id,
            "case": self.case,
            "editor": self.editor,
            "edited": self.edited,
            "answers": answers,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One answer that is another now."""

    id: str
    editor: str
    path: str
    before: tuple[Said, ...]
    now: Said

    def __str__(self) -> str:
        was = " / ".join(dict.fromkeys(_shown(one) for one in self.before))
        name = f"{self.editor}, {self.id}" if self.editor else self.id
        return f"{name}: {self.path} was {was}, is {_shown(self.now)}"


@dataclass(frozen=True, slots=True)
class Drift:
    """Of one score, over the pictures that both have.

    count: answers compared. changed: share of them that are another now, against the golden runs one by one. wavered:
    share of pairs of golden runs that differ from each other; None with one run. mean: now less before, with low and
    high, its 95 % interval over cases. more: changed less wavered, with its interval; None with one run. beyond: more
    than the judge's own noise: one of the two intervals lies off 0. Of one golden run, the mean alone can tell.
    """

    path: str
    count: int
    changed: float
    wavered: float | None
    mean: float | None
    low: float | None
    high: float | None
    more: float | None
    more_low: float | None
    more_high: float | None

    @property
    def beyond(self) -> bool:
        shifted = self.low is not None and self.high is not None and (self.low > NEAR or self.high < -NEAR)
        return shifted or (self.more_low is not None and self.more_low > NEAR)


@dataclass(frozen=True)
class Report:
    """What became of a golden set. other: pictures that are not the same any more. lost: not in the results."""

    drifts: Sequence[Drift]
    changes: Sequence[Change]
    compared: int
    other: int
    lost: int
    runs: int
    lines: Sequence[str] = field(default=())


def golden_of(runs: Sequence[Sequence[Results]], *, count: int | None = None, seed: int = 0) -> list[Golden]:
    """A golden set of one run's results (one folder an editor), or of several runs of the same pictures.

    count: so many pictures, drawn by seed; all where None. Raises `InputError` where runs are of other pictures, and
    where nothing was judged.
    """
    first = [(results.editor, row) for results in runs[0] for row in results.rows if not row.missing]
    others = [{(results.editor, row.id): row for results in run for row in results.rows} for run in runs[1:]]
    if not first:
        raise InputError("nothing in these results was judged: there is nothing to keep")
    if count is not None and count < len(first):
        chosen = set(random.Random(seed).sample(range(len(first)), count))
        first = [one for number, one in enumerate(first) if number in chosen]
    found = []
    for editor, row in first:
        said: dict[str, list[Said]] = {path: [value] for path, value in answers_of(row)}
        for run in others:
            again = run.get((editor, row.id))
            if again is None or again.edited != row.edited:
                what = "is not in another run" if again is None else "is of another picture in another run"
                raise InputError(f"{row.id} of {editor} {what}: runs of a golden set judge the same pictures")
            for path, value in answers_of(again):
                said.setdefault(path, []).append(value)
        found.append(Golden(row.id, row.case, editor, row.edited, {path: tuple(one) for path, one in said.items()}))
    return found


def write(path: Path, golden: Sequence[Golden]) -> None:
    """Raises OSError."""
    lines = (json.dumps(one.to_json(), ensure_ascii=False, allow_nan=False) for one in golden)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[Golden]:
    """Raises `InputError` naming the line that is none; OSError."""
    found = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                data = json.loads(line)
                if data["schema"] != SCHEMA:
                    raise ValueError(f"schema {data['schema']} is not {SCHEMA}: written by another version")
                answers = {name: tuple(_said(one) for one in said) for name, said in data["answers"].items()}
                found.append(Golden(data["id"], data["case"], data["editor"], data["edited"], answers))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InputError(f"{path}:{number} is no line of a golden set: {error}") from None
    if not found:
        raise InputError(f"{path} is empty: `editcritic bench golden RESULTS -o {path}` makes one")
    return found


def held_against(golden: Sequence[Golden], results: Sequence[Results], *, seed: int = 0) -> Report:
    """What has changed since. Raises `InputError` where not one picture of the set is in the results."""
    rows = {(one.editor, row.id): row for one in results for row in one.rows}
    single = results[0].editor if len(results) == 1 else None
    pairs: list[tuple[Golden, Row]] = []
    other = lost = 0
    for one in golden:
        row = rows.get((one.editor, one.id)) or (None if single is None else rows.get((single, one.id)))
        if row is None or row.missing:
            lost += 1
        elif row.edited != one.edited:
            other += 1
        else:
            pairs.append((one, row))
    if not pairs:
        raise InputError(
            f"no picture of the golden set can be compared: {lost} were not judged, {other} are other pictures now"
        )
    cases = {case: number for number, case in enumerate(dict.fromkeys(one.case for one, _ in pairs))}
    weights = draws(len(cases), DRAWS, seed=seed) if len(cases) > 1 else None
    paths = dict.fromkeys(path for one, _ in pairs for path in one.answers)
    drifts, changes = [], []
    told = [(one, dict(answers_of(row))) for one, row in pairs]
    for path in paths:
        both = [(one, one.answers[path], now[path]) for one, now in told if path in one.answers and path in now]
        if both:
            drifts.append(_drift(path, both, cases, weights))
            changes += [
                Change(one.id, one.editor, path, said, now)
                for one, said, now in both
                if all(_differ(before, now) for before in said)
            ]
    runs = max(len(said) for one, _ in pairs for said in one.answers.values())
    return Report(drifts, changes, len(pairs), other, lost, runs)


def answers_of(row: Row) -> Iterator[tuple[str, Said]]:
    """Every score of a row, its parts and credits: where it stands, and what it is."""
    for name, score in row.scores.items():
        yield from _answers(score, name)


def _answers(score: Score, path: str) -> Iterator[tuple[str, Said]]:
    yield path, score.status if score.value is None else score.value
    for inner in (score.parts, score.credits):
        for name, part in inner.items():
            yield from _answers(part, f"{path}/{name}")


def _drift(
    path: str,
    both: Sequence[tuple[Golden, tuple[Said, ...], Said]],
    cases: Mapping[str, int],
    weights: Any,
) -> Drift:
    number = [cases[one.case] for one, _, _ in both]
    changed = [fmean(_differ(before, now) for before in said) for _, said, now in both]
    wavering = [
        (place, fmean(_differ(a, b) for a, b in combinations(said, 2)))
        for place, (_, said, _) in zip(number, both, strict=True)
        if len(said) > 1
    ]
    shift = [
        (place, now - fmean(values))
        for place, (_, said, now) in zip(number, both, strict=True)
        if isinstance(now, float) and (values := [one for one in said if isinstance(one, float)])
    ]
    now_figure = _mean(list(zip(number, changed, strict=True)), len(cases))
    was_figure = _mean(wavering, len(cases)) if wavering else None
    mean = _mean(shift, len(cases)) if shift else None
    more = None if was_figure is None else Figure.of(lambda a, b: a - b, now_figure, was_figure)
    low, high = _interval(mean, weights)
    more_low, more_high = _interval(more, weights)
    return Drift(
        path,
        len(both),
        fmean(changed),
        None if was_figure is None else was_figure.value,
        None if mean is None else mean.value,
        low,
        high,
        None if more is None else more.value,
        more_low,
        more_high,
    )


def _mean(values: Sequence[tuple[int, float]], cases: int) -> Figure:
    sums = np.bincount([place for place, _ in values], [value for _, value in values], cases).astype(np.float64)
    counts = np.bincount([place for place, _ in values], minlength=cases).astype(np.float64)
    return Figure.ratio(sums, counts)


def _interval(figure: Figure | None, weights: Any) -> tuple[float | None, float | None]:
    found = None if figure is None or weights is None else figure.interval(weights)
    return (None, None) if found is None else found


def _differ(before: Said, now: Said) -> bool:
    if isinstance(before, float) and isinstance(now, float):
        return not math.isclose(before, now, rel_tol=0, abs_tol=NEAR)
    return before != now


def _said(value: object) -> Said:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"an answer is a number or a status, got {value!r}")
    return value if isinstance(value, str) else float(value)


def _shown(said: Said) -> str:
    return said.replace("_", " ") if isinstance(said, str) else f"{said:.4g}"
