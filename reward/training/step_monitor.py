"""The reward-hacking monitor for who sees calls and not steps: adapters to trainers, and the judge server.

    monitor = StepMonitor(64, heldout=Reward.of("guards", on_failures="none"), state="monitor.json")
    ...
    monitor.add(samples, scores)  # of each call, from any thread

Scored edits are collected over calls; each `step_samples` of them are a step, which a `RewardHackingMonitor` observes.
Alarms are logged as warnings of the logger `editcritic.monitor`, once each, with what to do.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..atomic_files import write_atomically
from ..base_reward import BaseReward
from ..card import Card
from ..forks import ForkSafeLock
from ..regular_files import read_regular, require_no_link
from ..sample import EditSample
from ..score import Score, Scores
from ..strict_json import parse_json
from .alarm import Alarm
from .audit_probe import AuditProbe, FailurePauses, is_gain
from .reward_hacking_monitor import GroupReservoir, RewardHackingMonitor

SCHEMA = 1
"""Version of the JSON form of a state."""
MIN_STEP_SAMPLES = 8
SHOWN = (
    "reward", "heldout", "rejected", "heldout_rejected", "diversity", "unscored", "abstained", "degenerate",
    "agreement", "difference", "edge_density", "saturation",
)  # fmt: skip
"""Numbers whose history is kept, and those of hacks."""
_MAX_POINTS = 1024  # of the history; with more, every other one is dropped
_MAX_KEPT_BYTES = 256 * 2**20  # of a step's images
_MAX_STATE_BYTES = 16 * 2**20
_MAX_STATE_VALUES = 10**6
Scorer = Callable[[Sequence[EditSample]], Sequence[Score]]
log = logging.getLogger("editcritic.monitor")


@dataclass(frozen=True, slots=True)
class CollectedStep:
    """A step's rows, and those of them whose images are kept. groups, scores: of all rows. kept: row and sample."""

    number: int
    groups: tuple[str, ...]
    scores: tuple[Score, ...]
    kept: tuple[tuple[int, EditSample], ...]


class StepMonitor:
    """See the module. Thread-safe. Nothing in it raises for what a step contains, or for a held-out reward that fails.

    step_samples: best the number of edits that this process scores in a step of the trainer; alarms count in such
    steps. monitor: default: `RewardHackingMonitor()`. At most its `max_images` edits of a step, and at most 256 MiB of
    images, are kept and looked at, in groups.

    heldout: a reward that is not trained on; it scores the kept images of each step, in the call that completes a step.
    A call of it that raises, or scores nothing, is logged, and it is left out for 1, 2, 4, ... up to 64 steps. It
    should neither wait nor retry for long: `on_failures="none"`, and `deadline_s` for a `RemoteReward`.

    probe: an `AuditProbe` of the trained reward; measures on the kept images of some steps, in the same call, what
    hacks would gain. With fewer kept images it has fewer groups.

    state: file with all of it, written after each step, so that a restarted trainer has the same baseline; rows of the
    step in progress are not in it. One file per process. name: of the trained reward; a state of another one is
    refused. Pickled, it takes a copy of its state along; rows of the step in progress are left behind.

    alarms: all so far, oldest first. latest: numbers of the last observed step, by name (see
    `RewardHackingMonitor.observe`), and what hacks would gain, of the last step that was probed. history: (step,
    numbers of `SHOWN` and gains of hacks), oldest first, over the whole run in at most 1024 points. steps: number of
    complete steps; dropped: those that were not observed. heldout_failures, probe_failures: calls of the held-out
    reward, and probes, that failed.

    Raises ValueError for invalid options, for a state that is none, or of another reward or step size.
    """

    def __init__(
        self,
        step_samples: int,
        *,
        heldout: Scorer | None = None,
        probe: AuditProbe | None = None,
        monitor: RewardHackingMonitor | None = None,
        state: str | os.PathLike[str] = "",
        name: str = "",
    ) -> None:
        if step_samples < MIN_STEP_SAMPLES:
            raise ValueError(
                f"a monitored step has at least {MIN_STEP_SAMPLES} samples, got {step_samples}: give the number of "
                "edits that are scored in a step of the trainer"
            )
        self.step_samples = step_samples
        self.heldout = heldout
        self.probe = probe
        self.monitor = monitor or RewardHackingMonitor()
        self.name = name
        self.latest: dict[str, float] = {}
        self.history: list[tuple[int, dict[str, float]]] = []
        self.steps = self.dropped = 0
        self._stride = 1  # of the history, in steps
        self._heldout_pauses = FailurePauses()
        self._state = Path(state) if os.fspath(state) else None
        self._state_failed = False
        self._begin()
        if self._state is not None:
            self._load(self._state)

    def _begin(self) -> None:
        self._collecting, self._observing = ForkSafeLock(), ForkSafeLock()
        self._clear()

    def _clear(self) -> None:
        self._groups: list[str] = []
        self._scores: list[Score] = []
        self._kept: GroupReservoir[tuple[int, EditSample]] = GroupReservoir(self.monitor.max_images)
        self._kept_bytes = 0

    def __getstate__(self) -> dict[str, Any]:
        left = ("_collecting", "_observing", "_groups", "_scores", "_kept", "_kept_bytes")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    @property
    def alarms(self) -> Sequence[Alarm]:
        return self.monitor.alarms

    @property
    def heldout_failures(self) -> int:
        return self._heldout_pauses.failures

    @property
    def probe_failures(self) -> int:
        return 0 if self.probe is None else self.probe.failures

    def add(self, samples: Sequence[EditSample], scores: Sequence[Score]) -> None:
        """Add scored edits, and observe the steps that they complete."""
        for sample, score in zip(samples, scores, strict=True):
            if (step := self.collect(sample, score)) is not None:
                self.observe(step)

    def collect(self, sample: EditSample, score: Score) -> CollectedStep | None:
        """Add a scored edit; returns the step that it completes, for `observe`. Takes microseconds."""
        with self._collecting:
            if (added := image_bytes(sample)) + self._kept_bytes <= _MAX_KEPT_BYTES:
                dropped = self._kept.add(sample.group, (len(self._groups), sample))
                self._kept_bytes += added - (0 if dropped is None else image_bytes(dropped[1]))
            self._groups.append(sample.group)
            self._scores.append(score)
            if len(self._groups) < self.step_samples:
                return None
            step = CollectedStep(self.steps, tuple(self._groups), tuple(self._scores), tuple(self._kept.items()))
            self.steps += 1
            self._clear()
            return step

    def drop(self, step: CollectedStep) -> None:
        """Count a step that nobody has time to observe."""
        with self._collecting:
            self.dropped += 1

    def observe(self, step: CollectedStep) -> None:
        """Score a step by the held-out reward, probe it, look at its images, log new alarms, and write the state.

        About 15 ms per image, and what the held-out reward and the probe take.
        """
        with self._observing:
            heldout = self._score_heldout(step)
            known = len(self.monitor.alarms)
            samples = [sample for _, sample in step.kept]
            scores = [step.scores[row] for row, _ in step.kept]
            gains = None if self.probe is None else self.probe(step.number, samples, scores)
            try:
                numbers = self.monitor.observe(step.number, samples, step.scores, heldout, step.groups)
                if gains is not None:
                    numbers |= self.monitor.observe_hacks(step.number, gains)
            except Exception:
                log.exception("step %d was not observed", step.number)
                self.drop(step)
                return
            probed = {} if gains is not None else {name: self.latest[name] for name in self.latest if is_gain(name)}
            self.latest = probed | numbers
            self._remember(step.number, numbers)
            for alarm in self.monitor.alarms[known:]:
                log.warning("%s", describe_alarm(alarm, self))
            self._save()

    def _score_heldout(self, step: CollectedStep) -> list[Score | None] | None:
        """Scores of all rows, None for rows whose images are not kept; None without any."""
        if self.heldout is None or not step.kept or not self._heldout_pauses.is_turn():
            return None
        rows, samples = zip(*step.kept, strict=True)
        scores: Sequence[Score] = ()
        try:
            scores = self.heldout(samples)
            if len(scores) != len(samples):
                raise ValueError(f"{len(scores)} scores for {len(samples)} edits")
            values = [score for score in scores if score.value is not None]
            problem = "" if values else f"no edit has a score: {scores[0].reason}"
        except Exception as error:  # noqa: BLE001  (training goes on without it)
            values, problem = [], f"{type(error).__name__}: {error}"
        if problem:
            log.warning(
                "the held-out reward did not score step %d, and is left out for %d: %.300s",
                step.number,
                self._heldout_pauses.failed(),
                problem,
            )
            return None
        self._heldout_pauses.succeeded()
        by_row = dict(zip(rows, scores, strict=True))
        return [by_row.get(row) for row in range(len(step.groups))]

    def _remember(self, number: int, numbers: Mapping[str, float]) -> None:
        if number % self._stride:
            return
        shown = [*SHOWN, *(name for name in numbers if is_gain(name))]
        self.history.append((number, {name: numbers[name] for name in shown if name in numbers}))
        if len(self.history) > _MAX_POINTS:
            self._stride *= 2
            self.history = [point for point in self.history if point[0] % self._stride == 0]

    # -- state --------------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All but the rows of the step in progress, as plain JSON."""
        return {
            "schema": SCHEMA,
            "reward": self.name,
            "step_samples": self.step_samples,
            "steps": self.steps,
            "dropped": self.dropped,
            "stride": self._stride,
            "history": [[number, numbers] for number, numbers in self.history],
            "latest": self.latest,
            "monitor": self.monitor.to_json(),
        }

    def _save(self) -> None:
        if self._state is None:
            return
        try:
            require_no_link(self._state)
            write_atomically(self._state, json.dumps(self.to_json(), allow_nan=False))
            self._state_failed = False
        except (OSError, ValueError) as error:
            if not self._state_failed:  # told once, until it works again
                log.warning("the monitor's state is not kept in %s: %s", self._state, error)
            self._state_failed = True

    def _load(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent} for the monitor's state: make it")
        try:
            require_no_link(path)
            data = parse_json(read_regular(path, _MAX_STATE_BYTES), max_values=_MAX_STATE_VALUES)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is no state of a monitor ({error}): give another file, or remove it") from None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"{path} is no state of a monitor of this version: give another file, or remove it")
        for key, own in (("reward", self.name), ("step_samples", self.step_samples)):
            if data.get(key) != own:
                raise ValueError(
                    f"{path} is the state of a monitor with {key} {data.get(key)!r:.80}, and this one has {own!r:.80}: "
                    "its baseline does not hold here; give another file"
                )
        try:
            self.monitor = RewardHackingMonitor.from_json(data["monitor"])
            self.steps, self.dropped, self._stride = int(data["steps"]), int(data["dropped"]), int(data["stride"])
            self.history = [(int(number), _numbers(numbers)) for number, numbers in data["history"]]
            self.latest = _numbers(data["latest"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is a damaged state of a monitor ({error}): remove it") from None
        self._clear()


def image_bytes(sample: EditSample) -> int:
    """Of all images of a sample and of its earlier turns, decoded; one that is there twice counts twice."""
    images = [image for turn in sample.turns for image in (*turn.sources, turn.edited, turn.mask, turn.reference)]
    return sum(3 * image.width * image.height for image in images if image is not None)


def _numbers(data: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in data.items()}


def describe_alarm(alarm: Alarm, monitor: StepMonitor) -> str:
    """An alarm in words: what, since when, and what to do."""
    name = f" of {monitor.name}" if monitor.name else ""
    return (
        f"reward hacking? {alarm.name}{name}, since about step {alarm.began(monitor.monitor.patience)} of "
        f"{monitor.step_samples} edits: "
        f"{alarm.message}. What to do: {alarm.action}."
    )


class MonitoredReward(BaseReward):
    """The same scores and errors as `reward`; a `StepMonitor` has seen them.

    Args:
        step_samples: See `StepMonitor`, which is `self.monitor`. Picklable if the rewards are.
        heldout: See `step_samples`.
        probe: See `step_samples`.
        monitor: See `step_samples`.
        state: See `step_samples`.
    """

    def __init__(
        self,
        reward: BaseReward,
        *,
        step_samples: int,
        heldout: Scorer | None = None,
        probe: AuditProbe | None = None,
        monitor: RewardHackingMonitor | None = None,
        state: str | os.PathLike[str] = "",
    ) -> None:
        self.reward = reward
        name = reward.__name__ if os.fspath(state) else ""  # a server is asked for it, which may not run yet
        self.monitor = StepMonitor(step_samples, heldout=heldout, probe=probe, monitor=monitor, state=state, name=name)

    @property
    def alarms(self) -> Sequence[Alarm]:
        """All so far, oldest first."""
        return self.monitor.alarms

    @property
    def latest(self) -> dict[str, float]:
        """Numbers of the last observed step, by name, to log."""
        return self.monitor.latest

    @property
    def card(self) -> Card:
        return self.reward.card

    @property
    def spec(self) -> dict[str, Any]:
        """That of the reward, without the monitor."""
        return self.reward.spec

    @property
    def expert_ids(self) -> dict[str, str]:
        return self.reward.expert_ids

    @property
    def identity(self) -> str:
        return self.reward.identity

    @property
    def on_failures(self) -> str:
        """That of the reward; empty if it has none."""
        return str(getattr(self.reward, "on_failures", ""))

    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        batch = list(samples)
        scores = self.reward(batch)
        self.monitor.add(batch, scores)
        return scores

    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        in_flight: deque[EditSample] = deque()

        def noted() -> Iterator[EditSample]:
            for sample in samples:
                in_flight.append(sample)
                yield sample

        for score in self.reward.stream(noted()):
            self.monitor.add([in_flight.popleft()], [score])
            yield score

    def without_failure_limit(self) -> BaseReward:
        """That of the reward, which no monitor watches: a sample that is asked again is no other edit."""
        return self.reward.without_failure_limit()

    def waiting(self, outage_timeout_s: float) -> MonitoredReward:
        waiting = copy.copy(self)  # with the same monitor
        waiting.reward = self.reward.waiting(outage_timeout_s)
        return waiting

    def offload(self) -> None:
        self.reward.offload()
        if isinstance(self.monitor.heldout, BaseReward):
            self.monitor.heldout.offload()
