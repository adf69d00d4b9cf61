"""Monitor for reward hacking during training: alarms on drift of image statistics and of a held-out reward.

    monitor = RewardHackingMonitor()
    for step in range(steps):
        ...
        trainer.log(monitor.observe(step, samples, scores, heldout=heldout_reward(samples)))
        for alarm in monitor.alarms: ...

The first steps are the baseline for this policy, these prompts and this batch size. Later steps are compared with it.
A policy that hacks the reward from the start looks normal, so start with one that does not.

Trainers that call a reward, and know nothing of a monitor, have one by `StepMonitor`, which divides the scored edits
into steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median, pstdev, stdev
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from ..sample import EditSample
from ..score import Score
from .advantages import advantages, without_score
from .alarm import LOGARITHMIC, MONITORED, Alarm, DriftTracker, robust_std, within_group_kendall_tau
from .audit_probe import HackGains, HackTracker
from .image_statistics import batch_statistics, log_diversity, within_group_diversity

SCHEMA = 4
"""Version of the JSON form of a monitor."""
_READ_SCHEMAS = (2, 3, SCHEMA)  # earlier ones have fewer numbers, whose baseline then begins
RewardMoments = tuple[float, float, float, float]
"""Of a step: means of the trained and the held-out reward, and their standard deviations over samples."""
RewardPair = tuple[float | None, float | None]
"""Of an edit: the trained and the held-out reward."""
_MIN_DIVERGENCE = 0.25  # standard deviations over samples: the smallest divergence that can alarm
_MIN_HELDOUT_RISE = 0.25  # of the rise of the trained reward: a smaller rise of the held-out one counts as none
_EPSILON = 1e-9
_EQUAL_WEIGHTS: Mapping[str, float] = MappingProxyType({})
_MIN_SHOWN_RISE = 0.25  # standard deviations over samples: a smaller rise of the reward is not told with an alarm
T = TypeVar("T")


class RewardHackingMonitor:
    """Observes each training step; raises an alarm where a number drifts from its baseline and stays there.

    A step's number is compared with the median of the first `baseline` steps that have one, in units of their
    `robust_std`. It alarms when this z-score is beyond `z_limit` on the same side for `patience` consecutive steps and
    the drift is at least `min_drift` (`MONITORED`); again only after a return within half the limit. False alarms are
    rare where steps vary independently; a shorter baseline, or correlated steps, make them frequent.

    Prompts vary between steps far more than a policy does. `observe_probe` takes edits of fixed prompts from fixed
    noise: paired differences detect a small rise or fall early. `observe_hacks` takes what an `AuditProbe` measures:
    how far hacks would pay that the policy has not found yet.

    Monitored: `image_statistics` of edited images relative to their sources; the difference between edited images of a
    group (`diversity`, see `within_group_diversity`); the fractions of unscored and of abstained rows (see
    `without_score`), of degenerate groups and, where scores are `Score`s, of scored edits that a guard of the reward
    rejected. An alarm says whether the trained reward has risen meanwhile. With a held-out reward, which is not trained
    on, three more: the fraction that its guards reject; `agreement`: Kendall's tau-b with the trained reward, over
    pairs within a group. `divergence`: the trained reward minus the held-out one, each in
    standard deviations over samples, rises, while over the last 2 `patience` steps the held-out one has risen less than
    a quarter as much. If both rise, the policy learns; if only the trained one rises, this indicates overoptimisation
    (Gao et al. 2023, arXiv 2210.10760, section 3). With several processes, one monitors the gathered batch, or each its
    own.

    Args:
        max_images: Number of images used per step (see `batch_statistics`).

    Attributes:
        alarms: All so far, oldest first.
    """

    def __init__(self, *, baseline: int = 20, patience: int = 5, z_limit: float = 3.0, max_images: int = 32) -> None:
        if baseline < 5 or patience < 1 or max_images < 1 or not z_limit > 0:
            raise ValueError(
                "a monitor needs baseline >= 5, patience >= 1, z_limit > 0 and max_images >= 1, "
                f"got {baseline}, {patience}, {z_limit} and {max_images}"
            )
        self.baseline = baseline
        self.patience = patience
        self.z_limit = z_limit
        self.max_images = max_images
        self.alarms: list[Alarm] = []
        self._trackers: dict[str, DriftTracker] = {}
        self._baseline_moments: list[RewardMoments] = []
        self._recent_moments: list[RewardMoments] = []
        self._baseline_rewards: list[tuple[float, float]] = []  # of a step: mean and standard deviation
        self._recent_rewards: list[float] = []
        self._first_probe: list[RewardPair] = []
        self._hacks = HackTracker(patience, z_limit)

    def observe(
        self,
        step: int,
        samples: Sequence[EditSample],
        scores: Sequence[Score | float | None],
        heldout: Sequence[Score | float | None] | None = None,
        groups: Sequence[str] | None = None,
    ) -> dict[str, float]:
        """Observe a step's batch; returns numbers to log, by name.

        Args:
            scores: Of the trained reward, one per sample.
            heldout: Of the held-out reward on the same samples, None for samples or steps without one.
            groups: Of all rows, as scores and heldout, where samples are only those whose images are in memory. Unknown
                numbers are omitted: `reward` where no sample is scored, z-scores (`edge_density/z`) until the baseline
                is complete. `alarms` is the number of alarms so far.

        Raises:
            ValueError: For lists of other lengths.
            ImageError: For images that cannot be read.
        """
        groups = [sample.group for sample in samples] if groups is None else groups
        if len(scores) != len(groups) or (heldout is not None and len(heldout) != len(groups)):
            raise ValueError(
                f"each sample needs a score (or None) of each reward: got {len(groups)} samples, "
                f"{len(scores)} scores" + ("" if heldout is None else f" and {len(heldout)} held-out scores")
            )
        log: dict[str, float] = {}
        if groups:
            trained = _values(scores)
            numbers = {name: fmean(rows) for name, rows in without_score(scores).items()}
            numbers["degenerate"] = advantages(trained, groups).degenerate_groups
            rejections = _rejections("rejected", scores) | _rejections("heldout_rejected", heldout or ())
            numbers |= {name: fmean(flags) for name, flags in rejections.items()}
            if values := [value for value in trained if value is not None]:
                mean, std = fmean(values), pstdev(values)
                log["reward"] = mean
                if len(self._baseline_rewards) < self.baseline:
                    self._baseline_rewards.append((mean, std))
                self._recent_rewards = [*self._recent_rewards, mean][-self.patience :]
            statistics = batch_statistics(samples, self.max_images)
            log |= {**statistics.means, **numbers}
            monitored = {**statistics.relative_to_source, **numbers}
            compared = GroupReservoir[EditSample](self.max_images)
            for sample in samples:
                compared.add(sample.group, sample)
            if diversity := within_group_diversity(compared.items()):
                log["diversity"], monitored["diversity"] = fmean(diversity), log_diversity(diversity)
            log |= self.update(step, monitored, {name: len(flags) for name, flags in rejections.items()})
            rows = zip(trained, [] if heldout is None else _values(heldout), groups, strict=False)
            complete = [(x, y, group) for x, y, group in rows if x is not None and y is not None]
            if complete:
                log |= self._compare_rewards(step, complete)
        return {**log, "alarms": float(len(self.alarms))}

    def _risen_meanwhile(self) -> str:
        """For messages: how the trained reward has risen, if it has."""
        if len(self._baseline_rewards) < self.baseline:
            return ""
        means = [mean for mean, _ in self._baseline_rewards]
        before, now = median(means), fmean(self._recent_rewards)
        unit = max(median(std for _, std in self._baseline_rewards), _EPSILON)
        if now - before < max(_MIN_SHOWN_RISE * unit, robust_std(means)):
            return ""
        return f"; meanwhile the trained reward has risen from {before:.3g} to {now:.3g}"

    def update(
        self, step: int, numbers: Mapping[str, float], weights: Mapping[str, float] = _EQUAL_WEIGHTS
    ) -> dict[str, float]:
        """Like `observe`, for numbers that were measured elsewhere; returns z-scores.

        Args:
            numbers: By their names in `MONITORED`: `relative_to_source` of `batch_statistics`, fractions, agreement.
            weights: The amount of data behind each number, where it differs between steps.
        """
        log: dict[str, float] = {}
        for name, value in numbers.items():
            tracker, quantity = self._trackers.setdefault(name, DriftTracker()), MONITORED[name]
            weight = weights.get(name, 1.0)
            if len(tracker.baseline) < self.baseline:
                tracker.baseline.append(value)
                tracker.weights.append(weight)
                continue
            z = log[f"{name}/z"] = tracker.z_score(value, quantity.min_drift / self.z_limit, weight)
            if tracker.update(z, quantity.side, self.z_limit, self.patience):
                before, now = (
                    math.exp(number) if name in LOGARITHMIC else number for number in (median(tracker.baseline), value)
                )
                side, meaning = ("above", quantity.rise_meaning) if z > 0 else ("below", quantity.fall_meaning)
                message = (
                    f"{quantity.description} was {before:.3g} in the first {self.baseline} steps and has been well "
                    f"{side} that for {self.patience} steps, now {now:.3g}: {meaning}{self._risen_meanwhile()}"
                )
                self.alarms.append(Alarm(step, name, z, self.z_limit, message))
        return log

    def _compare_rewards(self, step: int, rows: Sequence[tuple[float, float, str]]) -> dict[str, float]:
        """rows: the trained and the held-out reward of a sample, and its group."""
        trained, heldout = [row[0] for row in rows], [row[1] for row in rows]
        moments = (fmean(trained), fmean(heldout), pstdev(trained), pstdev(heldout))
        log = {"heldout": moments[1]}
        tau, num_pairs = within_group_kendall_tau(rows)
        if tau is not None:
            log |= {"agreement": tau, **self.update(step, {"agreement": tau}, {"agreement": num_pairs})}
        self._recent_moments = [*self._recent_moments, moments][-2 * self.patience :]
        if len(self._baseline_moments) < self.baseline:
            self._baseline_moments.append(moments)
            return log
        # Both rewards share the difficulty of a step's edits: their difference varies far less than either.
        units = [max(median(row[column] for row in self._baseline_moments), _EPSILON) for column in (2, 3)]
        before, now = (
            [fmean(row[column] for row in moment_rows) for column in (0, 1)]
            for moment_rows in (self._baseline_moments, self._recent_moments)
        )
        rise, heldout_rise = ((b - a) / unit for a, b, unit in zip(before, now, units, strict=True))
        tracker = self._trackers.setdefault("divergence", DriftTracker())
        tracker.baseline = [row[0] / units[0] - row[1] / units[1] for row in self._baseline_moments]
        tracker.weights = [1.0] * len(tracker.baseline)
        z = tracker.z_score(moments[0] / units[0] - moments[1] / units[1], _MIN_DIVERGENCE / self.z_limit)
        if tracker.update(z if heldout_rise < _MIN_HELDOUT_RISE * rise else 0.0, 1, self.z_limit, self.patience):
            message = (
                f"the trained reward has risen from {before[0]:.3g} to {now[0]:.3g} while the held-out one went from "
                f"{before[1]:.3g} to {now[1]:.3g}: the policy overoptimises the trained reward"
            )
            self.alarms.append(Alarm(step, "divergence", z, self.z_limit, message))
        return {**log, "reward/rise": rise, "heldout/rise": heldout_rise, "divergence/z": z}

    def observe_probe(
        self, step: int, scores: Sequence[Score | float | None], heldout: Sequence[Score | float | None]
    ) -> dict[str, float]:
        """Observe edits of fixed prompts from fixed noise, in the same order each time, by both rewards.

        The first call is the baseline. Alarms, once each: `probe/heldout`, where the held-out reward has fallen by more
        than `z_limit` standard errors of the mean difference; `probe/divergence`, where the trained one has risen by
        more than that, and the held-out one by less than a quarter as much, each in standard deviations over the
        baseline's edits.

        Returns:
            The means, and from the second call on z-scores and the number of alarms.

        Raises:
            ValueError: For no edits, for another number of edits than before, and for lists of other lengths.
        """
        if not scores:
            raise ValueError("a probe needs edits: give some, best 100 or more")
        pairs = list(zip(_values(scores), _values(heldout), strict=True))
        if self._first_probe and len(pairs) != len(self._first_probe):
            raise ValueError(
                f"a probe needs the same edits each time: there were {len(self._first_probe)}, got {len(pairs)}"
            )
        names = ("reward", "heldout")
        means = _mean_rewards(pairs)
        log = {f"probe/{name}": mean for name, mean in zip(names, means, strict=True) if mean is not None}
        if not self._first_probe:
            self._first_probe = pairs
            return log
        rises: list[tuple[float, float]] = []  # in standard deviations over edits, and in standard errors
        for column, name in enumerate(names):
            changes = [(before[column], now[column]) for before, now in zip(self._first_probe, pairs, strict=True)]
            complete = [(before, now) for before, now in changes if before is not None and now is not None]
            if len(complete) < 2:
                return log
            rise, z = _paired_change(complete)
            rises.append((rise, z))
            log[f"probe/{name}/z"] = z
        (rise, z), (heldout_rise, heldout_z) = rises
        first = _mean_rewards(self._first_probe)
        change = (
            f"on the same prompts from the same noise the trained reward went from {first[0]:.3g} to "
            f"{log['probe/reward']:.3g} and the held-out one from {first[1]:.3g} to {log['probe/heldout']:.3g}"
        )
        raised = {alarm.name for alarm in self.alarms}
        if heldout_z < -self.z_limit and "probe/heldout" not in raised:
            self.alarms.append(
                Alarm(step, "probe/heldout", heldout_z, self.z_limit, f"{change}: edits have become worse")
            )
        if z > self.z_limit and heldout_rise < _MIN_HELDOUT_RISE * rise and "probe/divergence" not in raised:
            message = f"{change}: the policy overoptimises the trained reward"
            self.alarms.append(Alarm(step, "probe/divergence", z, self.z_limit, message))
        return {**log, "alarms": float(len(self.alarms))}

    def observe_hacks(self, step: int, gains: HackGains) -> dict[str, float]:
        """Observe what hacks would gain over a step's edits, as `AuditProbe` measures it.

        Alarms: `hack/<family>`, where a hack pays from now on, or gains more than before (see `HackTracker`).

        Returns:
            Mean gains as shares of the reward's scale, by `hack/<family>` and `hack/best`, z-scores once the baseline
            is complete, and the number of alarms.
        """
        log, alarms = self._hacks.observe(step, gains)
        self.alarms += alarms
        return {**log, "alarms": float(len(self.alarms))}

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The full state, as plain JSON, for a trainer's checkpoint."""
        options = {name: getattr(self, name) for name in ("baseline", "patience", "z_limit", "max_images")}
        return {
            "schema": SCHEMA,
            "options": options,
            "trackers": {name: asdict(tracker) for name, tracker in self._trackers.items()},
            "reward_moments": {"baseline": self._baseline_moments, "recent": self._recent_moments},
            "rewards": {"baseline": self._baseline_rewards, "recent": self._recent_rewards},
            "first_probe": self._first_probe,
            "hacks": self._hacks.to_json(),
            "alarms": [asdict(alarm) for alarm in self.alarms],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RewardHackingMonitor:
        """Restore the monitor from `to_json`, also that of schemas 2 and 3.

        Raises:
            ValueError: For another schema.
        """
        if data.get("schema") not in _READ_SCHEMAS:
            raise ValueError(f"this monitor has schema {data.get('schema')}, expected {SCHEMA}: start a new one")
        monitor = RewardHackingMonitor(**data["options"])
        monitor._trackers = {name: DriftTracker(**tracker) for name, tracker in data["trackers"].items()}
        monitor._baseline_moments, monitor._recent_moments = (
            [(a, b, c, d) for a, b, c, d in data["reward_moments"][name]] for name in ("baseline", "recent")
        )
        rewards = data.get("rewards", {"baseline": (), "recent": ()})
        monitor._baseline_rewards = [(mean, std) for mean, std in rewards["baseline"]]
        monitor._recent_rewards = list(rewards["recent"])
        monitor._first_probe = [(trained, heldout) for trained, heldout in data["first_probe"]]
        monitor._hacks.load(data.get("hacks", {}))
        monitor.alarms = [Alarm(**alarm) for alarm in data["alarms"]]
        return monitor


def _mean_rewards(pairs: Sequence[RewardPair]) -> list[float | None]:
    columns = ([value for value in column if value is not None] for column in zip(*pairs, strict=True))
    return [fmean(values) if values else None for values in columns]


def _paired_change(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean paired difference: in standard deviations of the first values, and in standard errors."""
    differences = [now - before for before, now in pairs]
    error = stdev(differences) / math.sqrt(len(differences))
    mean = fmean(differences)
    return mean / max(pstdev([before for before, _ in pairs]), _EPSILON), mean / max(error, _EPSILON)


def _values(scores: Sequence[Score | float | None]) -> list[float | None]:
    return [score.value if isinstance(score, Score) else score for score in scores]


def _rejections(name: str, scores: Sequence[Score | float | None]) -> dict[str, list[bool]]:
    """Whether a guard rejected the edit, for each that is scored; nothing where numbers do not say."""
    scored = [score for score in scores if isinstance(score, Score) and score.value is not None]
    return {name: [is_rejected(score) for score in scored]} if scored else {}


def is_rejected(score: Score) -> bool:
    """Whether a guard of the reward, or of one of its parts, rejected the edit."""
    return score.rejected or any(is_rejected(part) for part in score.parts.values())


class GroupReservoir(Generic[T]):
    """At most `capacity` items of those that were added: of at most capacity / 2 groups, those that came first, and of
    each of them about as many. So groups have pairs to compare, in whatever order their items come.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._groups: dict[str, list[T]] = {}
        self._size = 0

    def add(self, group: str, item: T) -> T | None:
        """Add an item; it, or the last one of the largest group, is dropped and returned if there are too many."""
        members = self._groups.get(group)
        if members is None:
            if len(self._groups) >= max(1, self.capacity // 2):
                return item
            members = self._groups[group] = []
        members.append(item)
        self._size += 1
        if self._size > self.capacity:
            self._size -= 1
            return max(self._groups.values(), key=len).pop()
        return None

    def items(self) -> list[T]:
        """Those kept, group by group."""
        return [item for members in self._groups.values() for item in members]
