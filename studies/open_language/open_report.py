"""The study's figures as Markdown and JSON, and its bars."""

from __future__ import annotations

from collections.abc import Iterator

from editcritic.benchmarks.common.markdown import table_lines

from ..validity.validity_run import ReleaseCheck
from .best_of_n import BestOfStudy
from .open_cases import FLAWS, REQUEST_KINDS
from .study import OpenStudy

MIN_SCORED, MIN_RIGHT = 0.95, 0.95
_MAX_EXAMPLES = 12


def checks(study: OpenStudy) -> list[ReleaseCheck]:
    """The bars."""
    bars = (
        ("share of cases with a score", study.scored, MIN_SCORED),
        ("share of those with the truth's verdict", study.right, MIN_RIGHT),
        ("pairs of one source in the right order", study.ordered, MIN_RIGHT),
    )
    return [ReleaseCheck(name, figure.value, bar, False, f"95 % interval {figure.text}") for name, figure, bar in bars]


def markdown(study: OpenStudy, best_of: BestOfStudy | None) -> str:
    """Tables: bars, by kind of request, by flaw, reasons of missing scores, wrong verdicts."""
    return "\n".join([*_lines(study), *(() if best_of is None else _best_of_lines(best_of))])


def _lines(study: OpenStudy) -> Iterator[str]:
    requests = len({row.request for row in study.rows})
    yield f"{len(study.rows)} edits of {requests} sources, each with one sentence and nothing else."
    yield ""
    rows = [
        (one.name, _number(one.measured), f">= {one.threshold}", "yes" if one.passed else "no", one.note)
        for one in checks(study)
    ]
    yield from table_lines(("bar", "measured", "at least", "met", ""), rows)
    yield ""
    yield f"Sentences with a plan: {study.plans_read.text}; plans that say what was meant: {study.plans_same.text}."
    yield ""
    columns = ("kind of request", "edits", "plan read", "plan right", "scored", "right", "in order")
    yield from table_lines(columns, [_row(kind, study.of_kind(kind)) for kind in REQUEST_KINDS])
    yield ""
    flaw_columns = ("flaw", "edits", "followed", "scored", "right", "below the honest edit")
    yield from table_lines(flaw_columns, [_flaw_row(flaw, study) for flaw in ("", *FLAWS)])
    reasons = study.missing_reasons()
    if reasons:
        yield ""
        yield from table_lines(
            ("why there is no score", "edits"), [(reason, str(count)) for reason, count in reasons.most_common()]
        )
    for title, sentences in (
        (
            "Wrong verdicts",
            [
                f"{row.id} ({row.kind}, {row.flaw or 'honest'}): {row.sentence} {row.following.reason[:200]}"
                for row in study.wrong_cases()
            ],
        ),
        (
            "Wrong order",
            [
                f"{honest.id} ({honest.kind}, {flawed.flaw}): {honest.sentence} "
                f"{honest.reward.value:.3f}, {flawed.reward.value:.3f}"
                for honest, flawed in study.inversions()
            ],
        ),
    ):
        yield ""
        yield f"{title}: {len(sentences)}."
        yield from (f"- {sentence}" for sentence in sentences[:_MAX_EXAMPLES])


def _row(kind: str, study: OpenStudy) -> tuple[str, ...]:
    figures = (study.plans_read, study.plans_same, study.scored, study.right, study.ordered)
    return (kind, str(len(study.rows)), *(_number(figure.value) for figure in figures))


def _flaw_row(flaw: str, study: OpenStudy) -> tuple[str, ...]:
    alone, paired = study.only(flaw), study.of_flaw(flaw)
    followed = sum(row.truth.followed for row in alone.rows)
    order = "" if not flaw else _number(paired.ordered.value)
    return (
        flaw or "none: honest",
        str(len(alone.rows)),
        str(followed),
        _number(alone.scored.value),
        _number(alone.right.value),
        order,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _best_of_lines(study: BestOfStudy) -> Iterator[str]:
    yield ""
    columns = (
        "reward",
        "truly followed, one sample",
        f"best of {study.candidates}",
        "gain (95 %)",
        "trials without a choice",
    )
    rows = []
    for name in study.chosen:
        gain, low, high = (100 * value for value in study.gain(name))
        rows.append(
            (
                name,
                f"{100 * study.single.mean():.1f} %",
                f"{100 * study.chosen[name].mean():.1f} %",
                f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
                str(study.undecided[name]),
            )
        )
    yield from table_lines(columns, rows)
