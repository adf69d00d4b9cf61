"""Reward-hacking monitors of a judge server, and their page: curves over steps, and alarms in words. No scripts."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ....reward import EditSample, Reward, Score
from ....reward.training.audit_probe import BEST_HACK, HACK, is_gain
from ....reward.training.step_monitor import CollectedStep, StepMonitor

_CLOSE_S = 10.0


class RewardMonitors:
    """One `StepMonitor` per reward, in a thread. While one step is observed and one waits, complete ones are dropped
    and counted: images of three steps are in memory at most. Raises ValueError for the name of no reward."""

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


PAGE_HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}

_MAX_ALARMS = 50  # shown, the latest
_WIDTH, _HEIGHT = 560.0, 150.0  # of the plotted area, in units of the SVG

_CHARTS: tuple[tuple[str, tuple[str, ...], tuple[float | None, float | None]], ...] = (
    ("Trained and held-out reward", ("reward", "heldout"), (None, None)),
    ("Rejected and unscored edits", ("rejected", "heldout_rejected", "unscored", "abstained"), (0.0, 1.0)),
    ("Diversity within groups", ("diversity",), (0.0, None)),
    ("Difference to the source", ("difference",), (0.0, None)),
    ("Edges and saturation", ("edge_density", "saturation"), (0.0, None)),
    ("Agreement and degenerate groups", ("agreement", "degenerate"), (None, 1.0)),
)
"""Title, quantities, and the ends of the vertical axis; None: that of the values."""

_ALARMS_OF: Mapping[str, tuple[str, ...]] = {"reward": ("divergence",)}
"""Alarms of no quantity, by the first quantity of the chart that shows them."""

_LABELS: Mapping[str, str] = {
    "reward": "trained reward",
    "heldout": "held-out reward",
    "rejected": "rejected by a guard",
    "heldout_rejected": "rejected by a guard of the held-out reward",
    "unscored": "not scored",
    "abstained": "judged by nobody",
    "agreement": "agreement (Kendall's tau)",
    "degenerate": "degenerate groups",
    "edge_density": "edge density",
    BEST_HACK: "best hack of each edit",
}

_SHOWN_HACKS = 2  # as curves, beside the best hack of each edit


@dataclass(frozen=True)
class _Curve:
    """paths: of SVG, one per run of steps that have the number. latest: as text. style: class of the line."""

    label: str
    paths: list[str]
    dots: list[tuple[float, float]]
    latest: str
    style: str


@dataclass(frozen=True)
class _Chart:
    """alarms: positions and names. baseline: where the first steps end, else 0. zero: position of 0 where marked."""

    title: str
    curves: list[_Curve]
    low: str
    high: str
    first: int
    last: int
    baseline: float
    alarms: list[tuple[float, str]]
    zero: float | None = None


@dataclass(frozen=True)
class _Hack:
    """What a hack would gain at the first and the latest probe, and at most, as shares of the reward's scale."""

    name: str
    first: float
    latest: float
    highest: float


def monitor_page(monitors: Mapping[str, StepMonitor]) -> str:
    """HTML of all monitors, by the names of their rewards. Names and messages are escaped."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_name("monitor_page.html").read_text(encoding="utf-8"))
    return template.render(
        monitors=[_view(name, monitor) for name, monitor in monitors.items()],
        width=_WIDTH,
        height=_HEIGHT,
        now=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )


def _view(name: str, monitor: StepMonitor) -> dict[str, Any]:
    history, alarms = list(monitor.history), list(monitor.alarms)
    patience = monitor.monitor.patience
    num_observed = monitor.steps - monitor.dropped
    return {
        "name": name,
        "monitor": monitor,
        "charts": [
            chart for title, names, limits in _CHARTS if (chart := _chart(title, names, limits, monitor, history))
        ]
        + _hacks_chart(monitor, history),
        "hacks": _hacks(history),
        "alarms": [{"alarm": alarm, "since": alarm.began(patience)} for alarm in reversed(alarms[-_MAX_ALARMS:])],
        "num_alarms": len(alarms),
        "remaining": max(0, monitor.monitor.baseline - num_observed),
        "latest": sorted(monitor.latest.items()),
    }


def _hacks(history: Sequence[tuple[int, Mapping[str, float]]]) -> list[_Hack]:
    gains: dict[str, list[float]] = {}
    for _, numbers in history:
        for name in filter(is_gain, numbers):
            gains.setdefault(name, []).append(numbers[name])
    hacks = [
        _Hack(_LABELS.get(name, name.removeprefix(HACK)), values[0], values[-1], max(values))
        for name, values in gains.items()
    ]
    return sorted(hacks, key=lambda hack: -hack.latest)


def _hacks_chart(monitor: StepMonitor, history: Sequence[tuple[int, Mapping[str, float]]]) -> list[_Chart]:
    """The best hack of each edit, and the hacks that gain most, over the steps that were probed; none without any."""
    probed = [point for point in history if BEST_HACK in point[1]]
    if not probed:
        return []
    latest = {name: value for name, value in probed[-1][1].items() if is_gain(name) and name != BEST_HACK}
    names = (BEST_HACK, *sorted(latest, key=lambda name: -latest[name])[:_SHOWN_HACKS])
    values = [0.0, *(numbers[name] for _, numbers in probed for name in names if name in numbers)]
    low, high = min(values), max(values)
    chart = _chart("Gain of hacks over the policy's best edits; above 0 they pay", names, (low, high), monitor, probed)
    if chart is None:
        return []
    zero = _HEIGHT * high / (high - low) if high - low >= 1e-9 else _HEIGHT / 2
    return [replace(chart, baseline=0.0, zero=zero)]


def _chart(
    title: str,
    names: Sequence[str],
    limits: tuple[float | None, float | None],
    monitor: StepMonitor,
    history: Sequence[tuple[int, Mapping[str, float]]],
) -> _Chart | None:
    shown = [name for name in names if any(name in numbers for _, numbers in history)]
    if not shown:
        return None
    values = [numbers[name] for _, numbers in history for name in shown if name in numbers]
    low = min(values) if limits[0] is None else limits[0]
    high = max(values) if limits[1] is None else limits[1]
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    first, last = history[0][0], history[-1][0]

    def x(step: float) -> float:
        return _WIDTH * (step - first) / max(1, last - first)

    def y(value: float) -> float:
        return _HEIGHT * (high - value) / (high - low)

    curves = []
    for number, name in enumerate(shown):
        runs: list[list[tuple[float, float]]] = [[]]
        for step, numbers in history:
            if name in numbers:
                runs[-1].append((x(step), y(numbers[name])))
            elif runs[-1]:
                runs.append([])
        latest = next(numbers[name] for _, numbers in reversed(history) if name in numbers)
        curves.append(
            _Curve(
                _LABELS.get(name, name),
                [" ".join(f"{a:.1f},{b:.1f}" for a, b in run) for run in runs if len(run) > 1],
                [run[0] for run in runs if len(run) == 1],
                f"{latest:.3g}",
                f"line{number}",
            )
        )
    raised = [alarm for alarm in list(monitor.alarms) if first <= alarm.step <= last]
    own = [(x(alarm.step), alarm.name) for alarm in raised if _is_of(alarm.name, names)]
    ends = first + monitor.monitor.baseline if first < monitor.monitor.baseline else first
    return _Chart(title, curves, f"{low:.3g}", f"{high:.3g}", first, last, min(_WIDTH, x(ends)), own)


def _is_of(alarm: str, names: Sequence[str]) -> bool:
    """Whether a chart of these quantities shows an alarm; that of hacks shows all of theirs."""
    return alarm in (*names, *_ALARMS_OF.get(names[0], ())) or (names[0] == BEST_HACK and alarm.startswith(HACK))
