"""Tables of agreement: people with a metric, and people with each other, by dimension and by label of items.

Yes and no: accuracy, PLCC, Cohen's kappa and F1 a task type (EdiVal, section 2.5 and table 13). Four levels: Spearman,
Pearson and MAE (DLEBench, section 5.3). Annotators with each other: Krippendorff's alpha (DLEBench, table 2) and how
often two say the same (EdiVal's 85.5 %).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from ..inputs import InputError
from ..suites.figures import Figure
from ..suites.tables import Table
from . import weighted
from .boxes import ALIKE, box_table
from .krippendorff import LEVELS, alpha
from .labels import ANSWERS, KINDS, OVERALL, Kind, Label, standing
from .meeting import Judged, Measure, Meeting, Pool, groups, numbered
from .pairs import averaging, pair_columns, win_ratios
from .weighted import Observed

MEANING: Mapping[str, str] = {
    "accuracy": "share of judgements whose label the metric has too",
    "PLCC": "Pearson's correlation of the metric's value with the label; of pairs, of the difference of two values",
    "SRCC": "Spearman's rank correlation of the same",
    "MAE": "mean absolute difference of value and label, both from 0 (worst) to 1 (best)",
    "kappa": "Cohen's kappa of the metric's label and people's: 0 is chance, 1 is perfect",
    "F1": "of the yes: harmonic mean of precision and recall of the metric",
    "decided": "share of judgements other than tie whose side has the higher score; equal scores count half",
    "same": "share of pairs of annotators who say the same of the same thing",
    "yes": "share of judgements that say yes or accept",
    **{f"alpha {level}": f"Krippendorff's alpha between annotators, {level}" for level in LEVELS},
    **{f"alpha {level}, metric too": f"the same with the metric as one annotator more, {level}" for level in LEVELS},
    "arithmetic": "PLCC of the overall preference with the difference of the arithmetic means",
    "geometric": "PLCC of the overall preference with the difference of the geometric means",
    "arithmetic - geometric": "the difference of the two, paired: above 0 the arithmetic mean fits people better",
    "win ratio": "a win counts 1, a tie 0.5, a loss 0, over the judgements the editor took part in",
    "Pearson": "over editors: of the metric's mean over the compared pictures with the win ratio",
    "IoU": "mean overlap of two annotators' boxes, matched greedily; boxes without a partner count 0",
    "alike": f"share of pairs of annotators whose boxes overlap by {ALIKE} or more",
}
"""What each column is, for a reader."""


def tables(
    labels: Sequence[Label],
    meeting: Meeting,
    *,
    measures: Mapping[str, Measure] | None = None,
    by: Sequence[str] = ("type",),
    pool: Pool = "each",
    raters: int = 1,
    parts: Sequence[tuple[str, ...]] = (),
) -> list[Table]:
    """Every table that these labels allow, those without intervals to be computed (`Computed.of`) included.

    measures: of dimensions; others are measured by what has their name. by: labels of items to tell apart. pool: a
    number a judgement, or one an item. raters: things that fewer have judged are left out. parts: whose arithmetic and
    geometric mean is held against the overall preference. Raises `InputError` where no label is about anything there
    is, or where a metric is not there.
    """
    counted = [label for label in standing(labels) if label.phase == "main"]
    if not counted:
        raise InputError(f"there are {len(labels)} labels, and none of them of the main phase: nothing to compare")
    found: list[Table] = []
    lost_all = 0
    for kind in KINDS:
        for dimension in dict.fromkeys(label.dimension for label in counted if label.kind == kind):
            ours = [label for label in counted if label.kind == kind and label.dimension == dimension]
            if kind == "boxes":
                found.append(box_table(dimension, ours))
                continue
            judged, lost = meeting.judged(ours)
            lost_all += lost
            few = [one for one in judged if len(one.said) < raters]
            judged = [one for one in judged if len(one.said) >= raters]
            if not judged:
                continue
            notes = _notes(judged, lost, few, raters, pool)
            measure = meeting.measure(dimension, measures or {})
            found += _of(kind, dimension, judged, measure, by, pool, notes)
            if kind == "pair":
                found += win_ratios(dimension, judged, measure)
                if dimension == OVERALL and parts:
                    found.append(averaging(judged, parts, by, pool, notes))
    if not found:
        about = f"{lost_all} are about pictures that no row of the results is of" if lost_all else "too few raters"
        raise InputError(f"no label can be compared: {about}; ids and editors must be those of the results")
    return found


def _notes(judged: Sequence[Judged], lost: int, few: Sequence[Judged], raters: int, pool: Pool) -> list[str]:
    voices = [len(one.said) for one in judged]
    people = {name for one in judged for name in one.said}
    notes = [
        f"{sum(voices)} judgements of {len(judged)} things by {len(people)} annotators",
        f"{sum(count == 1 for count in voices)} things have one judgement only",
        "one number a judgement" if pool == "each" else "one number a thing: the mean, of yes and no the majority",
    ]
    if few:
        notes.append(f"{len(few)} things with fewer than {raters} judgements are left out")
    if lost:
        notes.append(f"{lost} labels are about pictures that no row of the results is of")
    return notes


def _of(
    kind: Kind,
    dimension: str,
    judged: Sequence[Judged],
    measure: Measure | None,
    by: Sequence[str],
    pool: Pool,
    notes: Sequence[str],
) -> list[Table]:
    cases = numbered(judged)
    rows: dict[str, dict[str, Figure]] = {}
    between: dict[str, dict[str, Figure]] = {}
    for name, part in groups(judged, by):
        if measure is not None:
            rows[name] = _columns(kind, part, measure, pool, cases)
        between[name] = _between(kind, part, measure, cases)
    named = f"{dimension} ({kind})"
    slug = f"{kind}-{dimension}".replace("/", "-")
    found = []
    if measure is not None:
        title = f"{named}: people and {measure.name}"
        told = [*notes, *_told(kind, measure)]
        found.append(Table(f"agreement-{slug}", title, _first(rows), rows, digits=3, notes=told))
    title = f"{named}: annotators with each other"
    found.append(Table(f"annotators-{slug}", title, _first(between), between, digits=3, notes=notes))
    return found


def _told(kind: Kind, measure: Measure) -> list[str]:
    match kind:
        case "pair":
            tied = f"scores no further apart than {measure.tie:g} are a tie of the metric"
            return [tied, "of two editors the first by name less the second, whichever was called A"]
        case "four-level":
            return [f"the metric's level is the nearest of four from {measure.low:g} to {measure.high:g}"]
        case _:
            at = measure.low + measure.cut * (measure.high - measure.low)
            return [f"the metric says yes from {at:g} on"]


def _columns(
    kind: Kind, judged: Sequence[Judged], measure: Measure, pool: Pool, cases: Mapping[str, int]
) -> dict[str, Figure]:
    if kind == "pair":
        return pair_columns(judged, measure, pool, cases)
    voices = [(one, voice) for one in judged for voice in one.voices(pool, kind)]
    value = _observed([(one.case, measure.share(one.rows[0]), voice) for one, voice in voices], cases)
    said = _label(kind, measure)
    told = _observed([(one.case, said(one), _nearest(kind, voice)) for one, voice in voices], cases)
    found = {"accuracy": weighted.accuracy(told), "PLCC": weighted.plcc(value), "SRCC": weighted.srcc(value)}
    found |= {"MAE": weighted.mae(value), "kappa": weighted.kappa(told)}
    return found if kind == "four-level" else {**found, "F1": weighted.f1(told)}


def _label(kind: Kind, measure: Measure) -> Callable[[Judged], float | None]:
    """What the metric would have said, in the numbers of `Label.value`."""

    def said(one: Judged) -> float | None:
        if kind == "pair":
            apart = [measure.raw(row) for row in one.rows]
            if apart[0] is None or apart[1] is None:
                return None
            return float(np.sign(apart[0] - apart[1])) if abs(apart[0] - apart[1]) > measure.tie else 0.0
        share = measure.share(one.rows[0])
        if share is None:
            return None
        return round(3 * share) / 3 if kind == "four-level" else float(share >= measure.cut)

    return said


def _nearest(kind: Kind, voice: float | None) -> float | None:
    return voice if voice is None or kind != "four-level" else round(3 * voice) / 3


def _observed(rows: Sequence[tuple[str, float | None, float | None]], cases: Mapping[str, int]) -> Observed:
    return Observed.of([(cases[case], x, y) for case, x, y in rows], len(cases))


def _between(
    kind: Kind, judged: Sequence[Judged], measure: Measure | None, cases: Mapping[str, int]
) -> dict[str, Figure]:
    two = [(one.case, a, b) for one in judged for a, b in combinations(one.said.values(), 2)]
    found = {"same": weighted.accuracy(_observed(two, cases))}
    if kind in ("yes-no", "reference"):
        said = [(one.case, voice, voice) for one in judged for voice in one.said.values()]
        found["yes"] = _observed(said, cases).mean(lambda x, _: x)
    levels = LEVELS if len(ANSWERS[kind]) > 2 else LEVELS[:1]  # of two answers all three are the same
    units = [(cases[one.case], list(one.said.values())) for one in judged]
    found |= {f"alpha {level}": alpha(units, level, len(cases)) for level in levels}
    if measure is not None:
        voice = _label(kind, measure)
        more = [
            (case, values if (its := voice(one)) is None else [*values, its])
            for one, (case, values) in zip(judged, units, strict=True)
        ]
        found |= {f"alpha {level}, metric too": alpha(more, level, len(cases)) for level in levels}
    return found


def _first(rows: Mapping[str, Mapping[str, Figure]]) -> list[str]:
    return list(next(iter(rows.values())))
