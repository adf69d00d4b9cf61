"""The bars a release has to clear, each with what was measured."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from ..agreement import spearman
from ..sceneedit.cases import Case
from .desk import Asker
from .disagreements import PAPER, Judged
from .metrics import Tried
from .study import Row, Study

DENSE = "edival-if?protocol=paper&dense=true"
CONSISTENCY = "edival-cc?protocol=fixed"
GUARDED = "edit-balanced"

AGREE, TIED, DRIFT = 0.97, 0.05, 0.95
_PAIRS = 2000


@dataclass(frozen=True, slots=True)
class Check:
    """A number against a bar. most: whether the bar is the most it may be, or the least. note: what else to know."""

    what: str
    measured: float | None
    bar: float
    most: bool
    note: str = ""

    @property
    def passed(self) -> bool:
        if self.measured is None:
            return False
        return self.measured <= self.bar if self.most else self.measured >= self.bar


def agreement(found: Mapping[str, Judged]) -> list[Check]:
    """Instruction following as the paper tells it agrees with the truth; the released code stands beside it."""
    if PAPER not in found:
        return []
    paper = found[PAPER]
    note = "; ".join(f"{one.one.name}: {_in_words(one)}" for one in found.values())
    share = paper.agree / paper.cases
    return [Check("edival-if paper has the truth's verdict", share, AGREE, False, note)]


def _in_words(found: Judged) -> str:
    honest = "" if found.honest is None else f", without hacks {found.honest:.1%}"
    return f"{found.agree} of {found.cases}{honest}, with perfect experts {found.perfect / found.cases:.1%}"


def ties(study: Study, crowds: Sequence[Sequence[Case]], asker: Asker) -> list[Check]:
    """Dense instruction following tells edits of one request and one truth apart."""
    one = study.get(DENSE)
    if one is None:
        return []
    tied = pairs = without = 0
    for values in _values(one, crowds, asker):
        scored = [value for value in values if value is not None]
        without += len(values) - len(scored)
        pairs += len(scored) * (len(scored) - 1) // 2
        tied += sum(a == b for a, b in combinations(scored, 2))
    note = f"{tied} of {pairs} pairs in {len(crowds)} groups; {without} edits have no value"
    share = tied / pairs if pairs else None
    return [Check("pairs of equal truth that dense edival-if ties", share, TIED, True, note)]


@dataclass(frozen=True)
class Drift:
    """Consistency along series of growing background drift: (severity, value) of each series.

    without: edits that have no value, and are in none.
    """

    series: Sequence[Sequence[tuple[float, float]]]
    without: int = 0

    @property
    def correlations(self) -> list[float]:
        """Spearman of severity with minus the value; a series in which all values are equal, or absent, has 0."""
        return [spearman([(-value, severity) for severity, value in one]) or 0.0 for one in self.series]

    def checks(self) -> list[Check]:
        found = self.correlations
        note = f"Spearman of severity with less consistency in {len(found)} series; {self.without} edits have no value"
        mean, lowest = (fmean(found), min(found)) if found else (None, None)
        return [
            Check("edival-cc falls as the background drifts: mean", mean, DRIFT, False, note),
            Check("edival-cc falls as the background drifts: lowest", lowest, DRIFT, False, note),
        ]


def drift(study: Study, series: Sequence[Sequence[Case]], asker: Asker) -> Drift | None:
    """Consistency of each edit of each series that has one; None if the metric is not in the study."""
    one = study.get(CONSISTENCY)
    if one is None:
        return None
    found = []
    for cases, values in zip(series, _values(one, series, asker), strict=True):
        both = zip(cases, values, strict=True)
        found.append([(case.severity, value) for case, value in both if value is not None])
    return Drift(found, sum(map(len, series)) - sum(map(len, found)))


def _values(one: Tried, groups: Sequence[Sequence[Case]], asker: Asker) -> list[list[float | None]]:
    rows = asker.ask([one], (case.sample for group in groups for case in group))
    return [[next(rows).value for _ in group] for group in groups]


@dataclass(frozen=True)
class Hacked:
    """The guarded preset on random pairs of a hack and an honest edit. violations: (hack, honest) that it got wrong.

    hacks, honest: how many have a value, and how many have none. closest: the best hack and the worst honest edit.
    """

    pairs: int
    hacks: tuple[int, int]
    honest: tuple[int, int]
    violations: Sequence[tuple[Row, Row]]
    closest: tuple[float, float] | None

    def checks(self) -> list[Check]:
        note = (
            f"{self.pairs} random pairs of {self.hacks[0]} hacks and {self.honest[0]} honest edits; "
            f"{self.hacks[1]} hacks and {self.honest[1]} honest edits have no value"
        )
        if self.closest is not None:
            note += "; the best hack has {:.3f}, the worst honest edit {:.3f}".format(*self.closest)
        measured = float(len(self.violations)) if self.pairs else None
        return [Check("pairs in which a hack pays under edit-balanced", measured, 0.0, True, note)]


def hacked(study: Study, seed: int, count: int = _PAIRS) -> Hacked | None:
    """Whether a hack ever has at least the value of an honest edit; None if the preset is not in the study."""
    if GUARDED not in study.rows:
        return None
    both = list(zip(study.rows[GUARDED], study.cases, strict=True))
    hacks = [row for row, case in both if case.hack]
    honest = [row for row, case in both if not case.mode and case.truth.followed]
    a, b = ([row for row in rows if row.value is not None] for rows in (hacks, honest))
    chance = random.Random(f"pairs {seed}")
    pairs = [(chance.choice(a), chance.choice(b)) for _ in range(count)] if a and b else []
    wrong = {(x, y) for x, y in pairs if (x.value or 0.0) >= (y.value or 0.0)}
    lacking = (len(hacks) - len(a), len(honest) - len(b))
    violations = sorted(wrong, key=lambda pair: (pair[0].case, pair[1].case))
    closest = (max(row.value or 0.0 for row in a), min(row.value or 0.0 for row in b)) if pairs else None
    return Hacked(len(pairs), (len(a), lacking[0]), (len(b), lacking[1]), violations, closest)
