"""Agreement so far, while people label: between annotators, and with scores where there are some. Names no editor."""

from __future__ import annotations

from collections.abc import Sequence

from ..common.errors import InputError
from ..suites.human_labels import Label
from ..suites.tables import ComputedTable, Table
from .agreement_tables import agreement_tables
from .label_matching import LabelMetric, ScoreLookup
from .question_pools import QuestionPool
from .score_loading import load_score_source

_BETWEEN, _WITH_SCORES = "annotators-", "agreement-"
"""Beginnings of the names of tables. Others tell how the editors do, which annotators must not know."""


def agreement_between(labels: Sequence[Label], pool: QuestionPool) -> list[ComputedTable]:
    """Between annotators, by kind and dimension. Raises `InputError` as long as there is nothing to compare."""
    lookup = ScoreLookup(pool.unscored_results())
    return _computed(agreement_tables(labels, lookup, group_by=()), _BETWEEN)


def score_lookup(sources: Sequence[str]) -> ScoreLookup:
    """The scores that labels are compared with; see `load_score_source`. Raises `InputError`, OSError."""
    return load_score_source(sources, ())[0].lookup


def agreement_with(labels: Sequence[Label], lookup: ScoreLookup, metric: str | None = None) -> list[ComputedTable]:
    """With the scores of a metric, or a part of one as in `name/part`; None: of the dimension's name.

    Raises `InputError` as long as there is nothing to compare, and for values outside 0 to 1.
    """
    metrics = {}
    if metric is not None:
        metrics = {label.dimension: LabelMetric(tuple(metric.split("/"))) for label in labels}
    tables = _computed(agreement_tables(labels, lookup, metrics=metrics, group_by=()), _WITH_SCORES)
    if not tables:
        raise InputError("no score has the name of a dimension of the labels: choose the scores to compare with")
    return tables


def _computed(tables: Sequence[Table], beginning: str) -> list[ComputedTable]:
    return [ComputedTable.compute(table, None) for table in tables if table.name.startswith(beginning)]
