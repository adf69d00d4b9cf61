"""Judge drift: answers of results or of a recording stored as a golden set, and a later run compared with them.

A golden set is a JSONL file with one image per line: `id`, `case`, `editor`, `edited_digest`, and `answers`: metric or
part -> its value in each run (a number, or the status of a score without one). Several runs of the same images measure
the judge's own variance, which is the baseline of a change.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from ...reward import Score
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..run.replay import RecordingReader, replay_recording
from ..suites.bootstrap import Statistic, bootstrap_weights
from ..suites.results import ResultRow, Results, load_results, parsed_lines, require_schema, text_field
from .weighted_statistics import mean_by_case

SCHEMA = 2
AnswerValue = float | str
"""A value, or the status of a score that has none. A score that failed is no answer."""

TOLERANCE = 1e-9  # values that differ by at most this are equal


@dataclass(frozen=True, slots=True)
class GoldenRecord:
    """One image. answers: path of a score -> its value in each run."""

    id: str
    case: str
    editor: str
    edited_digest: str
    answers: Mapping[str, tuple[AnswerValue, ...]]

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """One answer that changed."""

    id: str
    editor: str
    path: str
    before: tuple[AnswerValue, ...]
    now: AnswerValue

    def __str__(self) -> str:
        before = " / ".join(dict.fromkeys(_shown(value) for value in self.before))
        name = f"{self.editor}, {self.id}" if self.editor else self.id
        return f"{name}: {self.path} was {before}, is {_shown(self.now)}"


@dataclass(frozen=True, slots=True)
class AnswerDrift:
    """Drift of one score, over the images of both runs. count: compared answers. changed: share of changed answers,
    averaged over the golden runs. baseline_disagreement: share of pairs of golden runs that differ; None with one run.
    mean: now minus before, with low and high, its 95 % interval over cases. excess: changed minus
    baseline_disagreement, with its interval; None with one run. exceeds_noise: one of the two intervals excludes 0.
    With one golden run only the mean is tested."""

    path: str
    count: int
    changed: float
    baseline_disagreement: float | None
    mean: float | None
    low: float | None
    high: float | None
    excess: float | None
    excess_low: float | None
    excess_high: float | None

    @property
    def exceeds_noise(self) -> bool:
        shifted = self.low is not None and self.high is not None and (self.low > TOLERANCE or self.high < -TOLERANCE)
        return shifted or (self.excess_low is not None and self.excess_low > TOLERANCE)


@dataclass(frozen=True)
class DriftReport:
    """Comparison with a golden set. different_outputs: images that changed. missing: images without a score. failed:
    images of which a score failed, before or now, so that no answer is compared."""

    drifts: Sequence[AnswerDrift]
    changes: Sequence[AnswerChange]
    compared: int
    different_outputs: int
    missing: int
    failed: int
    runs: int


def build_golden_set(
    runs: Sequence[Sequence[Results]], *, count: int | None = None, seed: int = 0
) -> list[GoldenRecord]:
    """A golden set of one run's results (one folder per editor), or of several runs of the same images. count: number
    of images, sampled by seed; None: all. Raises `InputError` if the runs are of different images, or if nothing was
    scored."""
    first = [(results.editor, row) for results in runs[0] for row in results.rows if is_answered(row)]
    other_runs = [{(results.editor, row.id): row for results in run for row in results.rows} for run in runs[1:]]
    if not first:
        raise InputError("these results have no scores, or they have all failed")
    if count is not None and count < len(first):
        indices = set(random.Random(seed).sample(range(len(first)), count))
        first = [entry for number, entry in enumerate(first) if number in indices]
    records = []
    for editor, row in first:
        answers: dict[str, list[AnswerValue]] = {path: [value] for path, value in row_answers(row)}
        for run in other_runs:
            other = run.get((editor, row.id))
            if other is None or other.edited != row.edited:
                problem = "is not in another run" if other is None else "is another image in another run"
                raise InputError(f"{row.id} of {editor} {problem}: runs of a golden set need the same images")
            for path, value in row_answers(other):
                answers.setdefault(path, []).append(value)
        frozen = {path: tuple(values) for path, values in answers.items()}
        records.append(GoldenRecord(row.id, row.case, editor, row.edited, frozen))
    return records


def write_golden_set(path: Path, golden: Sequence[GoldenRecord]) -> None:
    """Raises OSError."""
    lines = (json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False) for record in golden)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_golden_set(path: Path) -> list[GoldenRecord]:
    """Raises `InputError` with the number of an invalid line; OSError."""
    records = list(parsed_lines(path, "a line of a golden set", _golden_record))
    if not records:
        raise InputError(f"{path} is empty: `editcritic judge drift RESULTS -o {path}` writes one")
    return records


def _golden_record(data: Any) -> GoldenRecord:
    require_schema(data, SCHEMA)
    parsed = {name: tuple(map(_parse_answer, values)) for name, values in data["answers"].items()}
    # Sets of earlier versions have the failed ones.
    known = {name: tuple(value for value in values if value != "failed") for name, values in parsed.items()}
    answers = {name: values for name, values in known.items() if values}
    name, case, editor, edited = (text_field(data[field]) for field in ("id", "case", "editor", "edited_digest"))
    return GoldenRecord(name, case, editor, edited, answers)


def compare_with_golden_set(
    golden: Sequence[GoldenRecord], results: Sequence[Results], *, seed: int = 0
) -> DriftReport:
    """Changes since the golden set. Raises `InputError` if no image or no metric of the set is in the results."""
    rows = {(record.editor, row.id): row for record in results for row in record.rows}
    single = results[0].editor if len(results) == 1 else None
    pairs: list[tuple[GoldenRecord, ResultRow]] = []
    num_different = num_missing = 0
    for record in golden:
        row = rows.get((record.editor, record.id)) or (None if single is None else rows.get((single, record.id)))
        if row is None or row.missing_reason:
            num_missing += 1
        elif row.edited != record.edited_digest:
            num_different += 1
        else:
            pairs.append((record, row))
    if not pairs:
        raise InputError(
            f"no image of the golden set can be compared: {num_missing} have no score, {num_different} changed"
        )
    cases = {case: number for number, case in enumerate(dict.fromkeys(record.case for record, _ in pairs))}
    weights = bootstrap_weights(len(cases), BOOTSTRAP_SAMPLES, seed=seed) if len(cases) > 1 else None
    paths = dict.fromkeys(path for record, _ in pairs for path in record.answers)
    num_failed = sum(
        any(row.scores[name].status == "failed" or name not in record.answers for name in paths.keys() & row.scores)
        for record, row in pairs
    )
    drifts, changes = [], []
    current = [(record, dict(row_answers(row))) for record, row in pairs]
    for path in paths:
        both = [(record, now) for record, now in current if path in record.answers and path in now]
        if compared := [(record, record.answers[path], now[path]) for record, now in both]:
            drifts.append(_drift(path, compared, cases, weights))
            changes += [
                AnswerChange(record.id, record.editor, path, values, now)
                for record, values, now in compared
                if all(_is_different(value, now) for value in values)
            ]
    if not drifts and num_failed:
        raise InputError(f"no answer can be compared: of {num_failed} images, scores have failed before or now")
    if not drifts:
        known = dict.fromkeys(path.partition("/")[0] for path in paths)
        computed = dict.fromkeys(name for _, row in pairs for name in row.scores)
        raise InputError(
            "the results have no metric of the golden set: "
            f"it has {', '.join(known)}, the results have {', '.join(computed) or 'none'}"
        )
    runs = max(len(values) for record, _ in pairs for values in record.answers.values())
    return DriftReport(drifts, changes, len(pairs), num_different, num_missing, num_failed, runs)


def is_answered(row: ResultRow) -> bool:
    """Whether a row has any answer."""
    return not row.missing_reason and next(row_answers(row), None) is not None


def row_answers(row: ResultRow) -> Iterator[tuple[str, AnswerValue]]:
    """Path and value of every score of a row that has not failed, its parts and credits."""
    for name, score in row.scores.items():
        yield from _answers(score, name)


def _answers(score: Score, path: str) -> Iterator[tuple[str, AnswerValue]]:
    if score.status != "failed":
        yield path, score.status if score.value is None else score.value
    for children in (score.parts, score.credits):
        for name, part in children.items():
            yield from _answers(part, f"{path}/{name}")


def _drift(
    path: str,
    compared: Sequence[tuple[GoldenRecord, tuple[AnswerValue, ...], AnswerValue]],
    cases: Mapping[str, int],
    weights: Any,
) -> AnswerDrift:
    rows = [(cases[record.case], values, now) for record, values, now in compared]
    changed = [(case, fmean(_is_different(before, now) for before in values)) for case, values, now in rows]
    disagreements = [
        (case, fmean(_is_different(a, b) for a, b in combinations(values, 2)))
        for case, values, _ in rows
        if len(values) > 1
    ]
    shifts = [
        (case, now - fmean(numbers))
        for case, values, now in rows
        if isinstance(now, float) and (numbers := [answer for answer in values if isinstance(answer, float)])
    ]
    baseline = mean_by_case(disagreements, len(cases)) if disagreements else None
    mean = mean_by_case(shifts, len(cases)) if shifts else None
    excess = None if baseline is None else Statistic.difference(mean_by_case(changed, len(cases)), baseline)
    share = fmean(share for _, share in changed)
    before = None if baseline is None else baseline.value
    return AnswerDrift(path, len(compared), share, before, *_figures(mean, weights), *_figures(excess, weights))


def _figures(statistic: Statistic | None, weights: Any) -> tuple[float | None, float | None, float | None]:
    """The value and its interval."""
    if statistic is None:
        return None, None, None
    low, high = (None if weights is None else statistic.interval(weights)) or (None, None)
    return statistic.value, low, high


def _is_different(before: AnswerValue, now: AnswerValue) -> bool:
    if isinstance(before, float) and isinstance(now, float):
        return not math.isclose(before, now, rel_tol=0, abs_tol=TOLERANCE)
    return before != now


def _parse_answer(value: object) -> AnswerValue:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"an answer is a number or a status, got {value!r}")
    return value if isinstance(value, str) else float(value)


def _shown(value: AnswerValue) -> str:
    return value.replace("_", " ") if isinstance(value, str) else f"{value:.4g}"


def load_answers(paths: Sequence[Path]) -> list[Results]:
    """Results of folders, one an editor, or those of one recording, with a row a sample and its sources as the case.
    Raises `InputError`, also for a recording beside others, since it names no editor, and for one whose scores this
    version does not reproduce; `LogError` for a damaged one."""
    recordings = [path for path in paths if path.is_file()]
    if recordings and len(paths) > 1:
        raise InputError(
            f"{recordings[0]} is a recording, which names no editor: one at a time is compared, got {len(paths)} paths"
        )
    return [_recorded_results(path) if recordings else load_results(path) for path in paths]


def _recorded_results(path: Path) -> Results:
    recording = RecordingReader(path)
    try:
        samples = {sample.id: sample for sample in recording.samples()}
        rows: list[ResultRow] = []

        def add(name: str, score: Score, signature: str) -> None:
            if recording.recorded_score(name) is None:  # interrupted before it was scored
                return
            sample = samples[name]
            case = " ".join(image.digest for image in sample.sources)
            scores = {signature.partition("@")[0]: score}
            rows.append(ResultRow(name, case, {}, scores, edited=sample.edited.digest, instruction=sample.instruction))

        replay = replay_recording(None, recording, None, write=add, on_problem=lambda _: None)
    finally:
        recording.log.close()
    if replay.report.interrupted:
        raise KeyboardInterrupt
    if replay.mismatches:
        raise InputError(
            f"{path}: {len(replay.mismatches):,} of {replay.num_compared:,} scores are not the recorded ones with this "
            f"version ({replay.mismatches[0]}): compare recordings of one version"
        )
    return Results("", rows)
