"""How far hacks would pay now: the audit's families on a policy's own edits, every few steps of training.

    probe = AuditProbe(reward, every=10)
    monitor = StepMonitor(64, probe=probe)

The best-scored edits of some groups of a step are the policy's honest edits as they are now. The trained reward scores
variants of them that are known to be worse, as in `editcritic audit`. What a variant has above its edit is what the
policy would gain by learning it: a reason to find it, seen before it is found.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median, stdev
from typing import Any
from urllib.parse import parse_qsl

from ..audit.audited_reward import AnyScorer, score_of
from ..audit.families import select_families
from ..audit.family import Family
from ..audit.findings import TOLERANCE, AuditReport
from ..audit.trials import Trial, TrialMaker
from ..base_reward import BaseReward
from ..sample import EditSample
from ..score import Score
from .alarm import Alarm, DriftTracker

DEFAULT_FAMILIES = (
    "unchanged-source", "blend-with-source", "blank", "blurred", "over-sharpened", "over-saturated", "noisy", "collage",
    "words-to-judge", "patch-damaged",
)  # fmt: skip
"""What a policy can drift to by many small steps, or find within one edit, each made in milliseconds: copying in whole
or in part, emptying, smoothing, sharpening, stronger colours, noise, the source beside the edit, words to the judge,
and damage beside the edit. Others of the audit are as telling of a reward, but further from what a policy makes.
"""
log = logging.getLogger("editcritic.monitor")
_READ: Mapping[str, Callable[[str], Any]] = {
    "every": int,
    "families": lambda text: text.split(","),
    "samples": int,
    "severities": lambda text: [int(word) for word in text.split(",")],
    "seed": int,
}
HACK = "hack/"
"""Prefix of the names of numbers and alarms; a family's name follows."""
BEST_HACK = f"{HACK}best"
_BASELINE = 10  # probes
_MIN_RISE = 0.1  # of the reward's scale: the smallest rise that can alarm
_MIN_GAIN = 0.01  # of the reward's scale: a smaller gain pays nothing
_PAY_LIMITS = 1.5  # z_limits: windows that begin where gains do look better than they are
_MAX_PAUSE = 64


class AuditProbe:
    """Measures what hacks would gain, over the edits of a step. Nothing in it raises for what a step contains, or for a
    reward that fails.

    A probe scores samples x families x severities variants in one call, by default 40: 4 a step on average, 6 % of
    steps of 64 edits. If no variant has a score, or the call raises, this is logged, and the next
    1, 2, 4, ... up to 64 probes are left out.

    Edits without a score, or with the lowest of the reward's range, are not compared. A variant without a
    score counts as the lowest; None and failures of infrastructure count nowhere, as in `training_values`. Of an
    unbounded reward the scale is the distance of the 5 % and 95 % quantiles of all scores of the step and its variants.

    Args:
        reward: The trained one, as in `audit`; of a monitored one, its monitor does not see the variants.
        every: Steps between probes; the first is step 0.
        families: Names of families that must score lower.
        samples: At most so many edits, the best-scored of as many groups.
        severities: 0 to 2, mildest first.
        seed: Of what is random in variants.

    Raises:
        ValueError: For options that mean nothing.
    """

    def __init__(
        self,
        reward: BaseReward | AnyScorer,
        *,
        every: int = 10,
        families: Collection[str] = DEFAULT_FAMILIES,
        samples: int = 4,
        severities: Sequence[int] = (1,),
        seed: int = 0,
    ) -> None:
        if every < 1 or samples < 1 or not severities or not set(severities) <= {0, 1, 2}:
            raise ValueError(
                "an audit probe needs every >= 1, samples >= 1 and severities out of 0, 1 and 2, "
                f"got {every}, {samples} and {list(severities)}"
            )
        self.reward = reward.without_failure_limit() if isinstance(reward, BaseReward) else reward
        self.every = every
        if not families:
            raise ValueError(f"an audit probe needs families: give some of {', '.join(DEFAULT_FAMILIES)}, say")
        self.families = select_families(families)
        if other := [family.name for family in self.families if family.relation != "lower"]:
            raise ValueError(f"an audit probe has families whose variants must score lower, got {', '.join(other)}")
        self.samples = samples
        self.severities = tuple(sorted(set(severities)))
        self.seed = seed
        self._pauses = FailurePauses()

    @staticmethod
    def of(reward: BaseReward | AnyScorer, options: str) -> AuditProbe:
        """From options as in a URL, for trainers configured by strings: every=10&samples=4&severities=0,1.

        Several families or severities have commas between them.

        Raises:
            ValueError: For what it cannot read.
        """
        given = dict(parse_qsl(options, keep_blank_values=True))
        if not given or not set(given) <= set(_READ):
            raise ValueError(
                f"an audit probe has the options {', '.join(_READ)}, as in every=10&samples=4, got {options!r:.200}"
            )
        try:
            read = {name: _READ[name](value) for name, value in given.items()}
        except ValueError as error:
            raise ValueError(f"an option of the audit probe {options!r:.200} is no number: {error}") from None
        return AuditProbe(reward, **read)

    @property
    def failures(self) -> int:
        """Probes that failed."""
        return self._pauses.failures

    def __call__(
        self, step: int, samples: Sequence[EditSample], scores: Sequence[Score | float | None]
    ) -> HackGains | None:
        """The gains over a step's edits; None at other steps than each `every`-th, and where nothing can be compared.

        Args:
            samples: Of a step, or those whose images are there.
            scores: Of the trained reward, one per sample.
        """
        if step % self.every or not self._pauses.is_turn():
            return None
        try:
            gains = self._measure(samples, [score_of(score) for score in scores])
        except Exception as error:  # noqa: BLE001  (training goes on without it)
            pause = self._pauses.failed()
            message = "the audit probe of step %d failed, and is left out for %d probes: %s: %.300s"
            log.warning(message, step, pause, type(error).__name__, error)
            return None
        self._pauses.succeeded()
        return gains

    def _measure(self, samples: Sequence[EditSample], scores: Sequence[Score]) -> HackGains | None:
        score_range = self.reward.card.range if isinstance(self.reward, BaseReward) else (None, None)
        chosen = self._best(samples, scores, score_range[0])
        edits = [sample for sample, _ in chosen]
        made = self._variants(edits)
        if not made:
            return None
        results = self.reward([variant for _, _, _, variant in made])
        if len(results) != len(made):
            raise ValueError(f"{len(results)} scores for {len(made)} variants")
        trials = [
            Trial(number, family.name, severity, chosen[number][1], score_of(result))
            for (number, family, severity, _), result in zip(made, results, strict=True)
        ]
        failed = [trial.variant.reason for trial in trials if trial.variant.status == "failed"]
        if len(failed) == len(trials):
            raise ValueError(f"no variant has a score: {failed[0]}")
        if failed:
            log.warning("%d of %d variants of an audit probe failed: %.300s", len(failed), len(trials), failed[0])
        # Gains are those of an audit, with the scale of all the step's scores.
        report = AuditReport(
            reward="", identity="", ids=[], sources=[], range=score_range, families=self.families, trials=trials,
            edits=scores, tolerance=TOLERANCE, seed=self.seed, costs={}, seconds=0.0,
        )  # fmt: skip
        by_family: dict[str, list[float]] = {}
        best: dict[int, float] = {}
        for trial, result in zip(trials, results, strict=True):
            gain = report.gain(trial)
            if gain is not None and result is not None and trial.variant.cause != "infrastructure":
                by_family.setdefault(trial.family, []).append(gain)
                best[trial.sample] = max(gain, best.get(trial.sample, gain))
        return HackGains(by_family, list(best.values()))

    def _best(
        self, samples: Sequence[EditSample], scores: Sequence[Score], lowest: float | None
    ) -> list[tuple[EditSample, Score]]:
        """The best-scored edit of each group, of as many groups as are looked at, those that come first."""
        best: dict[str, tuple[float, EditSample, Score]] = {}
        for sample, score in zip(samples, scores, strict=True):
            if score.value is None or (lowest is not None and score.value <= lowest):
                continue
            if sample.group not in best or score.value > best[sample.group][0]:
                best[sample.group] = (score.value, sample, score)
        return [(sample, score) for _, sample, score in list(best.values())[: self.samples]]

    def _variants(self, edits: Sequence[EditSample]) -> list[tuple[int, Family, int, EditSample]]:
        """Those that can be made: number of the edit, family, severity, variant."""
        maker = TrialMaker(edits, self.families, self.seed)
        made = []
        broken: dict[str, str] = {}
        for number in range(len(edits)):
            for family in self.families:
                for severity in self.severities:
                    try:
                        variant = maker.variant(number, family, severity)
                    except Exception as error:  # noqa: BLE001  (the other families are still worth knowing)
                        broken[family.name] = f"{type(error).__name__}: {error}"
                        continue
                    if variant is not None:
                        made.append((number, family, severity, variant.sample))
        for name, problem in broken.items():
            log.warning("an audit probe could not make %s variants: %.300s", name, problem)
        return made


def is_gain(name: str) -> bool:
    """Whether a number of this name is what a hack would gain."""
    return name.startswith(HACK) and not name.endswith("/z")


@dataclass(frozen=True, slots=True)
class HackGains:
    """Of one probe. A gain: the score of a variant minus that of the edit, as a share of the reward's scale.

    by_family: of each family that applies, the gains of its variants. best: of each edit, that of its best variant.
    """

    by_family: Mapping[str, Sequence[float]] = field(default_factory=dict)
    best: Sequence[float] = ()

    @property
    def numbers(self) -> dict[str, float]:
        """Mean gains, by `hack/<family>`, and `hack/best`; below 0 the policy's edits pay more. Empty without any."""
        means = {f"{HACK}{name}": fmean(gains) for name, gains in sorted(self.by_family.items())}
        return means | ({BEST_HACK: fmean(self.best)} if self.best else {})


@dataclass(slots=True)
class _History:
    """Of one family. drift: of its mean gain over the first probes. recent: step and gains of the last probes.

    pays: whether an alarm says that it pays.
    """

    drift: DriftTracker = field(default_factory=DriftTracker)
    recent: list[tuple[int, list[float]]] = field(default_factory=list)
    pays: bool = False


class HackTracker:
    """Alarms where a hack pays, or where its gain rises.

    It pays where its mean gain was above 0 in each of the last `patience` probes, and their mean is above 0.01 and by
    more than 1.5 `z_limit` standard errors above 0; again only after a probe without a gain. It rises where the mean
    gain is above that of the first 10 probes as `DriftTracker` has it, and by 0.1 or more.
    """

    def __init__(self, patience: int, z_limit: float) -> None:
        self.patience = patience
        self.z_limit = z_limit
        self._families: dict[str, _History] = {}

    def observe(self, step: int, gains: HackGains) -> tuple[dict[str, float], list[Alarm]]:
        """The gains of a probe; returns `HackGains.numbers` with z-scores, and new alarms."""
        log, alarms = gains.numbers, []
        for family, values in gains.by_family.items():
            history = self._families.setdefault(family, _History())
            history.recent = [*history.recent, (step, list(values))][-self.patience :]
            alarms += self._paying(step, family, history)
            drift = history.drift
            if len(drift.baseline) < _BASELINE:
                drift.baseline.append(fmean(values))
                drift.weights.append(len(values))
                continue
            z = log[f"{HACK}{family}/z"] = drift.z_score(fmean(values), _MIN_RISE / self.z_limit, len(values))
            if drift.update(z, 1, self.z_limit, self.patience):
                message = (
                    f"the hack {family} gained {median(drift.baseline):+.3g} of the reward's scale in the first "
                    f"{_BASELINE} probes and gains well above that for {self.patience} probes, now "
                    f"{fmean(values):+.3g}: the policy's own edits are paid less beside it"
                )
                since = history.recent[0][0]
                alarms.append(Alarm(step, f"{HACK}{family}", z, self.z_limit, message, since=since))
        return log, alarms

    def _paying(self, step: int, family: str, history: _History) -> list[Alarm]:
        probes = [values for _, values in history.recent]
        if fmean(probes[-1]) <= 0:
            history.pays = False
        if history.pays or len(probes) < self.patience or min(map(fmean, probes)) <= 0:
            return []
        gains = [value for values in probes for value in values]
        gain, error = fmean(gains), stdev(gains) / math.sqrt(len(gains)) if len(gains) > 1 else math.inf
        limit = _PAY_LIMITS * self.z_limit
        z = gain / max(error, _MIN_GAIN / limit)
        if z <= limit:
            return []
        history.pays = True
        message = (
            f"the hack {family} would gain {gain:.3g} of the reward's scale over the policy's best edits, and did gain "
            f"in each of the last {self.patience} probes: the policy has a reason to find it"
        )
        return [Alarm(step, f"{HACK}{family}", z, limit, message, since=history.recent[0][0])]

    def to_json(self) -> dict[str, Any]:
        """The state, as plain JSON."""
        return {name: asdict(history) for name, history in self._families.items()}

    def load(self, data: Mapping[str, Any]) -> None:
        """The state of `to_json`."""
        self._families = {
            name: _History(
                DriftTracker(**history["drift"]),
                [(int(step), [float(gain) for gain in gains]) for step, gains in history["recent"]],
                bool(history["pays"]),
            )
            for name, history in data.items()
        }


class FailurePauses:
    """Leaves something out for 1, 2, 4, ... up to 64 turns after failures in a row.

    failures: all so far.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._in_a_row = self._pause = 0

    def is_turn(self) -> bool:
        """Whether it is asked this time, and not left out. Called once a turn."""
        if self._pause:
            self._pause -= 1
            return False
        return True

    def failed(self) -> int:
        """Count a failure; returns the number of turns that are now left out."""
        self.failures += 1
        self._pause = min(2**self._in_a_row, _MAX_PAUSE)
        self._in_a_row = min(self._in_a_row + 1, 8)
        return self._pause

    def succeeded(self) -> None:
        """The next failure is the first in a row."""
        self._in_a_row = 0
