"""Live alarms against reward hacking: what a policy does besides raising its reward, watched while it trains.

    watch = Watch()
    for step in range(steps):
        ...
        trainer.log(watch.step(step, samples, scores, heldout=heldout_reward(samples)))
        for alarm in watch.alarms: ...

The first steps are the baseline: what is normal for this policy, these prompts and this batch size. Later steps are
compared with it. A policy that is hacked from the start looks normal, so begin with one that is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median, pstdev, stdev
from types import MappingProxyType
from typing import Any

from .advantages import advantages
from .appearance import appearance
from .drift import Course, agreement
from .sample import EditSample
from .score import Score

SCHEMA = 1
"""Version of the JSON form of a watch."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched. what: in words. side: 1 where only a rise alarms, -1 where only a fall does, 0 for both.

    least: the smallest drift that can alarm, however steady the number was: in its own units, of `difference` as a
    natural logarithm. rises, falls: what that may mean.
    """

    what: str
    least: float
    side: int = 0
    rises: str = ""
    falls: str = ""


_BLURRED, _SHARPENED = "pictures are blurred, or empty", "pictures are sharpened, or full of noise"
_COPIED, _REDRAWN = "the source is copied", "more of the picture is changed than it was"
_UNJUDGED = "pictures are made that cannot be judged, or an expert is down"
_ALIKE = "the policy has lost its variety, or has nothing left to learn from this reward"
_DISAGREES = "the held-out reward puts the edits of a group in another order"

WATCHED: Mapping[str, Watched] = {
    "edge_density": Watched("edge density beyond the source's", 0.02, 0, _SHARPENED, _BLURRED),
    "saturation": Watched("saturation beyond the source's", 0.02, 0, "colours are exaggerated", "colours fade"),
    "exposure_1": Watched("the 1 % quantile of luminance beyond the source's", 0.03, 0, "haze", "crushed shadows"),
    "exposure_50": Watched(
        "median luminance beyond the source's", 0.03, 0, "pictures get lighter", "pictures get darker"
    ),
    "exposure_99": Watched("the 99 % quantile of luminance beyond the source's", 0.03, 0, "blown lights", "haze"),
    "difference": Watched("the difference to the source", 0.5, 0, _REDRAWN, _COPIED),
    "unscored": Watched("the share of edits without a score", 0.15, 1, _UNJUDGED),
    "degenerate": Watched("the share of groups that teach nothing", 0.2, 1, _ALIKE),
    "agreement": Watched("agreement with the held-out reward (Kendall's tau)", 0.2, -1, "", _DISAGREES),
}
"""By name; besides, there is `divergence`."""

Means = tuple[float, float, float, float]
"""Of a step: the means of the trained and the held-out reward, and their standard deviations over samples."""

Pair = tuple[float | None, float | None]
"""Of an edit: the trained and the held-out reward."""

_DIVERGED = 0.25  # standard deviations over samples: the smallest divergence that can alarm
_FOLLOWS = 0.25  # of the rise of the trained reward: a held-out one that rises by less does not follow
_TINY = 1e-9
_EQUAL: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Alarm:
    """step: when. name: of what is watched (`WATCHED`), or `divergence`. value: robust z-score, beyond limit.

    words: what has happened, by how much, and what it may mean.
    """

    step: int
    name: str
    value: float
    limit: float
    words: str


class Watch:
    """Fed once per training step; raises an alarm where something drifts from its baseline and stays there.

    A step's number is compared with the median of the first `baseline` steps that have one, in units of how far these
    are apart (`drift.spread`). It alarms when that z-score is beyond `limit` on the same side for `patience` steps in a
    row, and the drift is not too small to matter (`WATCHED`); again only after it was back within half the limit. False
    alarms are rare where steps vary by chance; a shorter baseline, and numbers that
    hang on the step before, make them frequent.

    alarms: all so far, oldest first. pictures: so many are looked at in a step (see `appearance`).

    What a step's prompts are like varies far more than a policy does. `probe` is for the same prompts, begun from the
    same noise time and again: differences are taken pair by pair, so that a small rise or fall is seen early.

    What is watched: `looks` of edited pictures against their sources; the shares of unscored rows and of degenerate
    groups; and with a held-out reward, which nothing is trained on, two things more. `agreement`: Kendall's tau-b with
    the trained reward, over pairs within a group. `divergence`: the trained reward minus the held-out one, each in
    standard deviations over samples, rises, while over the last 2 `patience` steps the held-out one has risen less than
    a quarter as far. Both rising is learning; that only the trained one rises is what overoptimisation looks like (Gao
    et al. 2023, arXiv 2210.10760, section 3). Of several processes, one watches what all have gathered, or each watches
    its own.
    """

    def __init__(self, *, baseline: int = 20, patience: int = 5, limit: float = 3.0, pictures: int = 32) -> None:
        if baseline < 5 or patience < 1 or pictures < 1 or not limit > 0:
            raise ValueError(
                "a watch takes baseline >= 5, patience >= 1, limit > 0 and pictures >= 1, "
                f"got {baseline}, {patience}, {limit} and {pictures}"
            )
        self.baseline = baseline
        self.patience = patience
        self.limit = limit
        self.pictures = pictures
        self.alarms: list[Alarm] = []
        self._courses: dict[str, Course] = {}
        self._first: list[Means] = []
        self._last: list[Means] = []
        self._probed: list[Pair] = []

    def step(
        self,
        step: int,
        samples: Sequence[EditSample],
        scores: Sequence[Score | float | None],
        heldout: Sequence[Score | float | None] | None = None,
    ) -> dict[str, float]:
        """Look at a step's batch; gives back what is worth logging, by name.

        scores: of the trained reward, one a sample. heldout: of the held-out one on the same samples, None for those it
        was not asked about, or in steps without. Numbers that are not known are missing: `reward` where nothing is
        scored, z-scores (`edge_density/z`) until the baseline is complete. `alarms` counts those so far.

        Raises ValueError for lists of other lengths, and ImageError for pictures that cannot be read.
        """
        if len(scores) != len(samples) or (heldout is not None and len(heldout) != len(samples)):
            raise ValueError(
                f"each sample has a score of each reward, None included: got {len(samples)} samples, "
                f"{len(scores)} scores" + ("" if heldout is None else f" and {len(heldout)} held-out scores")
            )
        log: dict[str, float] = {}
        if samples:
            trained, groups = _values(scores), [sample.group for sample in samples]
            looked, shares = appearance(samples, self.pictures), advantages(trained, groups)
            counted = {"unscored": shares.unscored, "degenerate": shares.degenerate}
            log |= {**looked.means, **counted, **self.note(step, {**looked.changes, **counted})}
            if known := [value for value in trained if value is not None]:
                log["reward"] = fmean(known)
            rows = zip(trained, [] if heldout is None else _values(heldout), groups, strict=False)
            both = [(one, two, group) for one, two, group in rows if one is not None and two is not None]
            if both:
                log |= self._compared(step, both)
        return {**log, "alarms": float(len(self.alarms))}

    def note(self, step: int, numbers: Mapping[str, float], weights: Mapping[str, float] = _EQUAL) -> dict[str, float]:
        """What `step` does with numbers it has measured, for those who measure elsewhere; gives back z-scores.

        numbers: by their names in `WATCHED`: the changes of `appearance`, shares, agreement. weights: what they rest
        on, where that differs from step to step.
        """
        log: dict[str, float] = {}
        for name, value in numbers.items():
            course, watched = self._courses.setdefault(name, Course()), WATCHED[name]
            weight = weights.get(name, 1.0)
            if len(course.first) < self.baseline:
                course.first.append(value)
                course.weights.append(weight)
                continue
            z = log[f"{name}/z"] = course.z(value, watched.least / self.limit, weight)
            if course.sustained(z, watched.side, self.limit, self.patience):
                was, now = (math.exp(one) if name == "difference" else one for one in (median(course.first), value))
                side, means = ("above", watched.rises) if z > 0 else ("below", watched.falls)
                words = (
                    f"{watched.what} was {was:.3g} in the first {self.baseline} steps and has been well {side} that "
                    f"for {self.patience} steps, now {now:.3g}: {means}"
                )
                self.alarms.append(Alarm(step, name, z, self.limit, words))
        return log

    def _compared(self, step: int, both: Sequence[tuple[float, float, str]]) -> dict[str, float]:
        """The trained and the held-out reward on the same samples."""
        one, two = [row[0] for row in both], [row[1] for row in both]
        means = (fmean(one), fmean(two), pstdev(one), pstdev(two))
        log = {"heldout": means[1]}
        tau, pairs = agreement(both)
        if tau is not None:
            log |= {"agreement": tau, **self.note(step, {"agreement": tau}, {"agreement": pairs})}
        self._last = [*self._last, means][-2 * self.patience :]
        if len(self._first) < self.baseline:
            self._first.append(means)
            return log
        # Both share how hard the edits of a step are, so that their difference varies far less than either does.
        units = [max(median(row[place] for row in self._first), _TINY) for place in (2, 3)]
        was, now = ([fmean(row[place] for row in rows) for place in (0, 1)] for rows in (self._first, self._last))
        rise, heldout_rise = ((b - a) / unit for a, b, unit in zip(was, now, units, strict=True))
        course = self._courses.setdefault("divergence", Course())
        course.first = [row[0] / units[0] - row[1] / units[1] for row in self._first]
        course.weights = [1.0] * len(course.first)
        z = course.z(means[0] / units[0] - means[1] / units[1], _DIVERGED / self.limit)
        if course.sustained(z if heldout_rise < _FOLLOWS * rise else 0.0, 1, self.limit, self.patience):
            words = (
                f"the trained reward has risen from {was[0]:.3g} to {now[0]:.3g} while the held-out one went from "
                f"{was[1]:.3g} to {now[1]:.3g}: the policy pleases its judge alone"
            )
            self.alarms.append(Alarm(step, "divergence", z, self.limit, words))
        return {**log, "reward/rise": rise, "heldout/rise": heldout_rise, "divergence/z": z}

    def probe(
        self,
        step: int,
        scores: Sequence[Score | float | None],
        heldout: Sequence[Score | float | None],
    ) -> dict[str, float]:
        """Look at edits of the same prompts from the same noise, in the same order each time, by both rewards.

        The first call is what later ones are compared with. It alarms, once each: `probe/heldout`, where the held-out
        reward has fallen by more than `limit` standard errors of the mean difference; `probe/divergence`, where the
        trained one has risen by more than that, and the held-out one by less than a quarter as far, each in standard
        deviations over edits at first. Gives back the means, and from the second call on z-scores and how many alarms
        there are.

        Raises ValueError for no edits, for another number of them than before, and for lists of other lengths.
        """
        if not scores:
            raise ValueError("a probe without edits says nothing: give some, best 100 or more")
        pairs = list(zip(_values(scores), _values(heldout), strict=True))
        if self._probed and len(pairs) != len(self._probed):
            raise ValueError(f"a probe has the same edits each time: there were {len(self._probed)}, got {len(pairs)}")
        names = ("reward", "heldout")
        means = _both_means(pairs)
        log = {f"probe/{name}": mean for name, mean in zip(names, means, strict=True) if mean is not None}
        if not self._probed:
            self._probed = pairs
            return log
        rises: list[tuple[float, float]] = []  # in standard deviations over edits, and in standard errors
        for place, name in enumerate(names):
            both = [(was[place], now[place]) for was, now in zip(self._probed, pairs, strict=True)]
            found = [(was, now) for was, now in both if was is not None and now is not None]
            if len(found) < 2:
                return log
            rise, z = _risen(found)
            rises.append((rise, z))
            log[f"probe/{name}/z"] = z
        (rise, z), (heldout_rise, heldout_z) = rises
        first = _both_means(self._probed)
        told = (
            f"on the same prompts from the same noise the trained reward went from {first[0]:.3g} to "
            f"{log['probe/reward']:.3g} and the held-out one from {first[1]:.3g} to {log['probe/heldout']:.3g}"
        )
        heard = {alarm.name for alarm in self.alarms}
        if heldout_z < -self.limit and "probe/heldout" not in heard:
            self.alarms.append(Alarm(step, "probe/heldout", heldout_z, self.limit, f"{told}: edits have become worse"))
        if z > self.limit and heldout_rise < _FOLLOWS * rise and "probe/divergence" not in heard:
            words = f"{told}: the policy pleases its judge alone"
            self.alarms.append(Alarm(step, "probe/divergence", z, self.limit, words))
        return {**log, "alarms": float(len(self.alarms))}

    # -- to go on another day -----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All it knows, as plain JSON: a trainer keeps it in its checkpoint."""
        options = {name: getattr(self, name) for name in ("baseline", "patience", "limit", "pictures")}
        return {
            "schema": SCHEMA,
            "options": options,
            "courses": {name: asdict(course) for name, course in self._courses.items()},
            "rewards": {"first": self._first, "last": self._last},
            "probed": self._probed,
            "alarms": [asdict(alarm) for alarm in self.alarms],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Watch:
        """The watch that `to_json` described: it goes on as if it had never stopped. Raises ValueError for another
        schema."""
        if data.get("schema") != SCHEMA:
            raise ValueError(f"this watch has schema {data.get('schema')}, expected {SCHEMA}: begin a new one")
        watch = Watch(**data["options"])
        watch._courses = {name: Course(**course) for name, course in data["courses"].items()}
        watch._first, watch._last = ([_means(row) for row in data["rewards"][name]] for name in ("first", "last"))
        watch._probed = [(one, two) for one, two in data.get("probed", ())]
        watch.alarms = [Alarm(**alarm) for alarm in data["alarms"]]
        return watch


def _means(row: Sequence[float]) -> Means:
    a, b, c, d = row
    return a, b, c, d


def _both_means(pairs: Sequence[Pair]) -> list[float | None]:
    """Of the trained and of the held-out reward, over edits that have one."""
    known = ([one for one in column if one is not None] for column in zip(*pairs, strict=True))
    return [fmean(values) if values else None for values in known]


def _risen(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How far a number has risen, pair by pair: in its standard deviations at first, and in standard errors."""
    apart = [now - was for was, now in pairs]
    error = stdev(apart) / math.sqrt(len(apart))
    mean = fmean(apart)
    return mean / max(pstdev([was for was, _ in pairs]), _TINY), mean / max(error, _TINY)


def _values(scores: Sequence[Score | float | None]) -> list[float | None]:
    return [score.value if isinstance(score, Score) else score for score in scores]
