"""Reward-hacking monitors of a judge server, in a thread of their own: scoring never waits for them."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Mapping

from ....reward import EditSample, Reward, Score
from ....reward.training.step_monitor import CollectedStep, StepMonitor

_CLOSE_S = 10.0


class RewardMonitors:
    """One `StepMonitor` per monitored reward.

    A complete step waits until the one before it is observed; steps that are complete meanwhile are dropped, and
    counted in `StepMonitor.dropped`. So the images of at most three steps are in memory for each reward.

    by_name: the monitors. Raises ValueError for the name of no reward.
    """

    def __init__(self, rewards: Mapping[str, Reward], monitors: Mapping[str, StepMonitor]) -> None:
        if unknown := [name for name in monitors if name not in rewards]:
            raise ValueError(f"no reward {unknown[0]!r:.80} to monitor: served are {', '.join(sorted(rewards))}")
        self.by_name = dict(monitors)
        self._monitors = {rewards[name]: monitor for name, monitor in monitors.items()}
        self._steps: queue.Queue[tuple[StepMonitor, CollectedStep] | None] = queue.Queue(max(1, len(monitors)))
        self._thread: threading.Thread | None = None

    def add(self, reward: Reward, sample: EditSample, score: Score) -> None:
        """Add a scored edit, from one thread. Takes microseconds."""
        monitor = self._monitors.get(reward)
        if monitor is None or (step := monitor.collect(sample, score)) is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._observe, name="editcritic-monitor", daemon=True)
            self._thread.start()
        try:
            self._steps.put_nowait((monitor, step))
        except queue.Full:
            monitor.drop(step)

    def close(self) -> None:
        """End the thread once it has observed what waits, within 10 s."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._steps.put(None, timeout=_CLOSE_S / 2)
            self._thread.join(_CLOSE_S / 2)

    def _observe(self) -> None:
        while (item := self._steps.get()) is not None:
            monitor, step = item
            monitor.observe(step)
            del monitor, step, item  # their images
