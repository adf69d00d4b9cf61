"""Photographs with good edits, and small families whose effect on a reward is known exactly."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from editcritic.benchmarks.demo.candidate_edits import good_edits
from editcritic.reward import EditSample, Score
from editcritic.reward.audit import AuditReport, Family, Severity, Trial, Variant
from editcritic.reward.audit.audited_edit import AuditedEdit
from editcritic.reward.audit.family import Damages, Relation

AMOUNTS = (10.0, 20.0, 40.0)


@cache
def photographs(side: int = 160) -> tuple[EditSample, ...]:
    """The demo's edits, smaller; two of its sources have two edits each."""
    return tuple(
        replace(
            sample,
            sources=(sample.source.resized(side, side * sample.source.height // sample.source.width),),
            edited=sample.edited.resized(side, side * sample.edited.height // sample.edited.width),
        )
        for sample in good_edits()
    )


def brightness(samples: Sequence[EditSample]) -> list[float]:
    """The mean grey level of each edited picture."""
    return [float(sample.edited.pixels.mean(dtype=np.float64)) for sample in samples]


def darker(relation: Relation, name: str = "darker", damages: Damages = "preservation") -> Family:
    """Darker by `AMOUNTS` grey levels, with no clipping: the pictures are brightened first."""

    def vary(edit: AuditedEdit, amount: float) -> Variant:
        return edit.picture(np.maximum(edit.after.astype(np.float64) - amount, 0))

    severities = (Severity(AMOUNTS[0], "a"), Severity(AMOUNTS[1], "b"), Severity(AMOUNTS[2], "c"))
    return Family(name, relation, "A test.", severities, vary, damages=damages if relation == "lower" else "")


def scripted_report(
    edits: Sequence[float | None],
    variants: dict[str, Sequence[Sequence[Score | float | None]]],
    families: Sequence[Family],
    **fields: Any,
) -> AuditReport:
    """A report on given scores. variants: of each family, for each edit, the scores of its severities."""
    scores = [_score(value) for value in edits]
    trials = [
        Trial(number, name, severity, scores[number], _score(value))
        for name, rows in variants.items()
        for number, row in enumerate(rows)
        for severity, value in enumerate(row)
    ]
    options: dict[str, Any] = {
        "ids": [str(number) for number in range(len(scores))],
        "sources": [str(number) for number in range(len(scores))],
        "range": (0.0, 1.0),
        **fields,
    }
    return AuditReport(
        "scripted",
        "",
        families=families,
        trials=trials,
        edits=scores,
        tolerance=0.05,
        seed=0,
        costs={},
        seconds=0.0,
        **options,
    )


def _score(value: Score | float | None) -> Score:
    if isinstance(value, Score):
        return value
    return Score.failed("scripted") if value is None else Score.of(value)
