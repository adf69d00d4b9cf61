"""Pairwise preferences against differences of scores, and win ratios.

Complex-Edit (arXiv 2504.13143), section 4.1: people compare two pictures on a metric, which is correlated with the
difference of the two scores; their overall preference says how metrics are best averaged. I2I-Bench, section 3.3 and
4.2: an editor's win ratio a dimension, and its Pearson correlation with the metric over editors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np

from ..inputs import InputError
from ..suites.figures import Figure
from ..suites.results import Row
from ..suites.tables import Table
from . import weighted
from .labels import OVERALL
from .meeting import Judged, Measure, Pool, groups, numbered
from .weighted import Observed


def pair_columns(judged: Sequence[Judged], measure: Measure, pool: Pool, cases: Mapping[str, int]) -> dict[str, Figure]:
    """Of preferences (1, 0, -1) and differences of scores, a pair each."""
    seen = _differences(judged, measure.raw, pool, cases)
    sign = np.where(np.abs(seen.x) > measure.tie, np.sign(seen.x), 0.0)
    told = replace(seen, x=sign, y=np.sign(seen.y))
    sided = seen.y != 0
    decided = Observed(np.sign(seen.x[sided]), np.sign(seen.y[sided]), seen.case[sided], seen.cases, seen.without)
    return {
        "accuracy": weighted.accuracy(told),
        "decided": decided.mean(lambda x, y: np.where(x == 0, 0.5, x == y)),
        "PLCC": weighted.plcc(seen),
        "SRCC": weighted.srcc(seen),
        "kappa": weighted.kappa(told),
    }


def averaging(
    judged: Sequence[Judged],
    parts: Sequence[tuple[str, ...]],
    by: Sequence[str],
    pool: Pool,
    notes: Sequence[str] = (),
) -> Table:
    """Which mean of these parts the overall preference goes with: PLCC of either, and their paired difference.

    parts: paths of scores, as in `Measure`. Pairs that lack a part are left out. Raises `InputError` for a part that
    is nowhere, or below 0, which has no geometric mean.
    """
    cases = numbered(judged)
    rows = {}
    for path in parts:
        if not any(row.score(*path) is not None for one in judged for row in one.rows):
            raise InputError(f"no row has a score {'/'.join(path)!r} to average")
    for name, part in groups(judged, by):
        arithmetic, geometric = (
            weighted.plcc(_differences(part, partial(_mean, parts, of), pool, cases)) for of in (fmean, _geometric)
        )
        apart = Figure.of(lambda a, b: a - b, arithmetic, geometric)
        rows[name] = {"arithmetic": arithmetic, "geometric": geometric, "arithmetic - geometric": apart}
    said = ", ".join("/".join(path) for path in parts)
    return Table(
        "averaging", f"{OVERALL} (pair): means of {said}", list(next(iter(rows.values()))), rows, digits=3, notes=notes
    )


def win_ratios(dimension: str, judged: Sequence[Judged], measure: Measure | None) -> list[Table]:
    """An editor's win ratio over its judgements; and over editors, how it goes with the mean of the metric over the
    pictures that were compared. Empty where pairs are not of two editors.
    """
    editors = sorted({editor for one in judged for editor, _ in one.on})
    if len(editors) < 2:
        return []
    cases = numbered(judged)
    rows: dict[str, dict[str, Figure]] = {}
    for editor in editors:
        won = [
            (cases[one.case], (1 + (value if one.on[0][0] == editor else -value)) / 2, 0.0)
            for one in judged
            if (one.on[0][0] == editor) != (one.on[1][0] == editor)
            for value in one.said.values()
        ]
        rows[editor] = {"win ratio": Observed.of(won, len(cases)).mean(lambda x, _: x)}
        if measure is not None:
            pictures = {
                on: (cases[row.case], measure.raw(row), 0.0)
                for one in judged
                for on, row in zip(one.on, one.rows, strict=True)
                if on[0] == editor
            }
            rows[editor][measure.name] = Observed.of(list(pictures.values()), len(cases)).mean(lambda x, _: x)
    columns = list(rows[editors[0]])
    slug = dimension.replace("/", "-")
    notes = ["a win counts 1, a tie 0.5"]
    found = [Table(f"wins-{slug}", f"{dimension}: win ratios", columns, rows, digits=3, notes=notes)]
    if measure is not None and len(editors) > 2:
        sides = ([row[column] for row in rows.values()] for column in reversed(columns))
        over = {f"{len(editors)} editors": {"Pearson": weighted.pearson_over(*sides)}}
        title = f"{dimension}: {measure.name} and win ratio, over editors"
        found.append(Table(f"wins-pearson-{slug}", title, ["Pearson"], over, digits=3))
    return found


def _mean(parts: Sequence[tuple[str, ...]], of: Callable[[Sequence[float]], float], row: Row) -> float | None:
    values = [row.value(*path) for path in parts]
    return None if None in values else of([value for value in values if value is not None])


def _geometric(values: Sequence[float]) -> float:
    if min(values) < 0:
        raise InputError(f"a geometric mean is of numbers from 0 on, got {min(values):g}")
    return float(math.prod(values) ** (1 / len(values)))


def _differences(
    judged: Sequence[Judged], of: Callable[[Row], float | None], pool: Pool, cases: Mapping[str, int]
) -> Observed:
    rows = []
    for one in judged:
        first, second = (of(row) for row in one.rows)
        apart = None if first is None or second is None else first - second
        rows += [(cases[one.case], apart, voice) for voice in one.voices(pool, "pair")]
    return Observed.of(rows, len(cases))
