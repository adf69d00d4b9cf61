"""Adaptive best-of-N: allocates NFE to the samples with the largest expected gain of another candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...reward import EditSample
from ..selection.candidate import Candidate, Selection
from ..selection.selection_run import SelectionRun

_SHRINKAGE = 2.0  # pseudo-count of the mean over all samples in the mean of one sample
_MIN_ROUNDS = 8  # rounds in which every sample could be served once, so that each uses the results of the one before
_MIN_BANDWIDTH = 0.01  # minimum kernel bandwidth for prediction errors, in standard deviations of the reward


@dataclass(frozen=True)
class AdaptiveBestOfN:
    """Up to `n` candidates per sample within `budget_fraction` of the NFE of best-of-n, allocated across samples.

    One candidate per sample is generated first. The next candidates go to the samples with the largest expected gain
    over their best, until the budget is spent or the expected gain falls below `min_gain` (in the reward's units).

    The expected value of a candidate is the mean of its sample. The distribution around it is estimated from the
    prediction errors of earlier candidates with similar expected values, with a kernel. A value at the upper end of the
    reward's range cannot be improved. The budget moves from samples that are done to the others: pass as many samples
    at once as possible.

    One candidate per sample is generated whatever the budget. With an editor that counts no NFE, such as a function,
    the budget counts images. max_per_round: candidates of one sample per round; a larger value is faster and saves
    less.
    """

    n: int = 16
    budget_fraction: float = 0.4
    min_gain: float = 0.0
    max_per_round: int = 1

    def __post_init__(self) -> None:
        if self.n < 1 or self.max_per_round < 1:
            raise ValueError(f"adaptive needs n >= 1 and max_per_round >= 1, got {self.n} and {self.max_per_round}")
        if not 0 < self.budget_fraction <= 1:
            raise ValueError(f"budget_fraction is of the NFE of best-of-n, in (0, 1], got {self.budget_fraction}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        nfe = max(run.nfe_per_image, 1)  # for editors that count no NFE, an image counts as one
        allowed = int(self.budget_fraction * self.n * nfe * len(samples))
        if run.budget.nfe is not None:
            allowed = min(allowed, run.budget.nfe)
        states = [_SampleState(sample) for sample in samples]
        _generate(run, [(state, 0) for state in states])
        while (remaining := allowed - sum(state.spent(run) for state in states)) >= nfe and not run.stop_reason:
            candidates = self._most_promising(run, states)
            if not candidates:
                break
            max_count = min(remaining // nfe, self.max_per_round * -(-len(states) // _MIN_ROUNDS))
            _generate(run, candidates[:max_count])
        return [run.make_selection(state.sample, state.candidates, self.n) for state in states]

    def _most_promising(self, run: SelectionRun, states: Sequence[_SampleState]) -> list[tuple[_SampleState, int]]:
        """Candidates with an expected gain above `min_gain`, largest first, at most `max_per_round` per sample."""
        model = _GainModel(states)
        low, high = run.card.range
        promising: list[tuple[float, int, int]] = []
        for row, state in enumerate(states):
            start = len(state.done)
            numbers = range(start, min(start + self.max_per_round, self.n))
            best = state.best if state.best is not None else (model.lowest if low is None else low)
            expected = np.array([model.expected(state, number) for number in numbers])
            gains = model.gains(expected, best, high)
            promising += [
                (-gain, row, number) for gain, number in zip(gains, numbers, strict=True) if gain > self.min_gain
            ]
        return [(states[row], number) for _, row, number in sorted(promising)]


def _generate(run: SelectionRun, candidates: Sequence[tuple[_SampleState, int]]) -> None:
    results = run.generate([run.request(state.sample, number) for state, number in candidates])
    for (state, number), candidate in zip(candidates, results, strict=False):
        state.done[number] = candidate


@dataclass
class _SampleState:
    """A sample and its candidates, by number."""

    sample: EditSample
    done: dict[int, Candidate] = field(default_factory=dict)

    @property
    def candidates(self) -> list[Candidate]:
        return [self.done[number] for number in sorted(self.done)]

    @property
    def values(self) -> list[float]:
        return [candidate.value for candidate in self.done.values() if candidate.value is not None]

    @property
    def best(self) -> float | None:
        return max(self.values, default=None)

    def spent(self, run: SelectionRun) -> int:
        """NFE, or images for an editor that counts none."""
        return sum(candidate.cost.nfe for candidate in self.done.values()) if run.nfe_per_image else len(self.done)


class _GainModel:
    """Prediction errors of the finished candidates: final minus expected value."""

    def __init__(self, states: Iterable[_SampleState]) -> None:
        samples = list(states)
        values = np.array([value for state in samples for value in state.values])
        self.lowest = float(values.min()) if len(values) else 0.0
        self._mean = float(values.mean()) if len(values) else 0.0
        pairs = np.array(
            [
                (self.expected(state, number), candidate.value)
                for state in samples
                for number, candidate in state.done.items()
                if candidate.value is not None
            ]
        ).reshape(-1, 2)
        self._expected, self._off = pairs[:, 0], pairs[:, 1] - pairs[:, 0]
        spread = float(values.std()) if len(values) else 0.0
        count = max(len(pairs), 1)
        # Silverman's rule; with fewer than two errors, a standard deviation of 0.25 is assumed.
        off = float(self._off.std()) if len(pairs) > 1 else 0.25
        self._blur = max(0.6 * off * count**-0.2, _MIN_BANDWIDTH * spread, 1e-6)
        self._near = max(0.5 * float(self._expected.std()) if len(pairs) > 1 else 1.0, 1e-6)

    def expected(self, state: _SampleState, number: int) -> float:
        """The mean of the sample's other values, shrunk towards the mean of all."""
        values = [
            candidate.value
            for index, candidate in state.done.items()
            if index != number and candidate.value is not None
        ]
        return (sum(values) + _SHRINKAGE * self._mean) / (len(values) + _SHRINKAGE)

    def gains(self, expected: NDArray[np.float64], best: float, high: float | None) -> NDArray[np.float64]:
        """The expected gain over `best` of candidates with these expected values; `high` is the maximum value."""
        if high is not None and best >= high:
            return np.zeros(len(expected))
        if not len(self._off):
            return np.full(len(expected), np.inf)
        weights = np.exp(-0.5 * ((expected[:, None] - self._expected) / self._near) ** 2) + 1e-3
        lead = expected[:, None] + self._off - best
        gains = self._blur * np.logaddexp(0.0, lead / self._blur)  # of a logistic kernel, in closed form
        if high is not None:
            gains = np.minimum(gains, high - best)
        means: NDArray[np.float64] = (weights * gains).sum(axis=1) / weights.sum(axis=1)
        return means
