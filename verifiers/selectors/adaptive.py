"""Adaptive best-of-N: allocates NFE to the samples with the largest expected gain of another candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...reward import EditSample
from ..selection.candidate import Candidate, Selection
from ..selection.editor import StepwiseEditor
from ..selection.generation import PartialCandidate
from ..selection.selection_run import SelectionRun

_SHRINKAGE = 2.0  # pseudo-count of the mean over all samples in the mean of one sample
_MIN_ROUNDS = 8  # rounds in which every sample could be served once, so that each uses the results of the one before
_MIN_BANDWIDTH = 0.01  # minimum kernel bandwidth for prediction errors, in standard deviations of the reward


@dataclass(frozen=True)
class AdaptiveBestOfN:
    """Up to `n` candidates per sample within `budget_fraction` of the NFE of best-of-n, allocated across samples.

    One candidate per sample is generated first. The next candidates go to the samples with the largest expected gain
    over their best, until the budget is spent or the expected gain falls below `min_gain` (in the reward's units).
    With a `preview_step`, previews of all candidates are scored after that many evaluations and the most promising
    ones are finished. This helps with small budgets or informative previews. It hurts if good images have bad previews,
    because those are never finished. Without a `StepwiseEditor` there are no previews.

    The expected value of a candidate is that of its preview, or else the mean of its sample. The distribution around it
    is estimated from the prediction errors of finished candidates with similar expected values, with a kernel. A value
    at the upper end of the reward's range cannot be improved. The budget moves from samples that are done to the
    others: pass as many samples at once as possible.

    One candidate per sample is generated whatever the budget. With an editor that counts no NFE, such as a function,
    the budget counts images. max_per_round: candidates of one sample that are finished per round; a larger value is
    faster and saves less.
    """

    n: int = 16
    budget_fraction: float = 0.4
    preview_step: int = 0
    min_gain: float = 0.0
    max_per_round: int = 1

    def __post_init__(self) -> None:
        if self.n < 1 or self.max_per_round < 1:
            raise ValueError(f"adaptive needs n >= 1 and max_per_round >= 1, got {self.n} and {self.max_per_round}")
        if not 0 < self.budget_fraction <= 1:
            raise ValueError(f"budget_fraction is of the NFE of best-of-n, in (0, 1], got {self.budget_fraction}")
        if self.preview_step < 0:
            raise ValueError(f"preview_step is a number of evaluations, or 0 for none, got {self.preview_step}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        if self.preview_step >= max(run.nfe_per_image, 1):
            raise ValueError(
                f"preview_step must lie before the last of {run.nfe_per_image} evaluations, got {self.preview_step}"
            )
        nfe = max(run.nfe_per_image, 1)  # for editors that count no NFE, an image counts as one
        allowed = int(self.budget_fraction * self.n * nfe * len(samples))
        if run.budget.nfe is not None:
            allowed = min(allowed, run.budget.nfe)
        states = [_SampleState(sample) for sample in samples]
        preview_step = self._look(run, states, allowed) if self.preview_step else 0
        self._finish(run, [(state, number) for state in states for number in state.best_looking(1)], preview_step)
        while (
            remaining := allowed - sum(state.spent(run) for state in states)
        ) >= nfe - preview_step and not run.stop_reason:
            candidates = self._most_promising(run, states, preview_step)
            if not candidates:
                break
            max_count = remaining // (nfe - preview_step)
            self._finish(
                run, candidates[: min(max_count, self.max_per_round * -(-len(states) // _MIN_ROUNDS))], preview_step
            )
        return [run.make_selection(state.sample, state.candidates(run), self.n) for state in states]

    def _look(self, run: SelectionRun, states: Sequence[_SampleState], allowed: int) -> int:
        """Preview candidates with up to half of the budget, leaving enough to finish one per sample. Returns the step
        they are at.
        """
        if not isinstance(run.editor, StepwiseEditor):
            return 0
        per_sample = allowed // len(states)
        count = max(
            1,
            min(
                self.n, per_sample // 2 // self.preview_step, (per_sample - run.nfe_per_image) // self.preview_step + 1
            ),
        )
        rows = [[run.request(state.sample, number) for number in range(count)] for state in states]
        partials = iter(
            run.advance(
                [PartialCandidate(request) for row in zip(*rows, strict=True) for request in row], self.preview_step
            )
        )
        for number in range(count):
            for state in states:
                state.staged[number] = next(partials)
        return self.preview_step

    def _finish(self, run: SelectionRun, candidates: Sequence[tuple[_SampleState, int]], preview_step: int) -> None:
        if preview_step:
            partials = run.advance([state.staged[number] for state, number in candidates], run.nfe_per_image)
            for (state, number), partial in zip(candidates, partials, strict=True):
                state.staged[number] = partial
                if partial.step == run.nfe_per_image or partial.error:
                    state.done[number] = run.to_candidate(partial)
            return
        results = run.generate([run.request(state.sample, number) for state, number in candidates])
        for (state, number), candidate in zip(candidates, results, strict=False):
            state.done[number] = candidate

    def _most_promising(
        self, run: SelectionRun, states: Sequence[_SampleState], preview_step: int
    ) -> list[tuple[_SampleState, int]]:
        """Candidates with an expected gain above `min_gain`, largest first, at most `max_per_round` per sample."""
        model = _GainModel(states)
        low, high = run.card.range
        promising: list[tuple[float, int, int]] = []
        for row, state in enumerate(states):
            numbers = (
                state.best_looking(self.max_per_round) if preview_step else state.next_ones(self.max_per_round, self.n)
            )
            best = state.best if state.best is not None else (model.lowest if low is None else low)
            expected = np.array([model.expected(state, number) for number in numbers])
            gains = model.gains(expected, best, high)
            promising += [
                (-gain, row, number) for gain, number in zip(gains, numbers, strict=True) if gain > self.min_gain
            ]
        return [(states[row], number) for _, row, number in sorted(promising)]


@dataclass
class _SampleState:
    """A sample, its unfinished and its finished candidates, by number."""

    sample: EditSample
    staged: dict[int, PartialCandidate] = field(default_factory=dict)
    done: dict[int, Candidate] = field(default_factory=dict)

    @property
    def values(self) -> list[float]:
        return [candidate.value for candidate in self.done.values() if candidate.value is not None]

    @property
    def best(self) -> float | None:
        return max(self.values, default=None)

    def spent(self, run: SelectionRun) -> int:
        """NFE, or images for an editor that counts none."""
        if not run.nfe_per_image:
            return len(self.done)
        unfinished = [partial.cost for number, partial in self.staged.items() if number not in self.done]
        return sum(cost.nfe for cost in (*unfinished, *(partial.cost for partial in self.done.values())))

    def best_looking(self, count: int) -> list[int]:
        """The unfinished candidates with the highest preview values; those without a value come last."""
        if not self.staged:
            return self.next_ones(count, count)
        numbers = [number for number, partial in self.staged.items() if number not in self.done and not partial.error]
        return sorted(numbers, key=lambda number: (self._order(number), number))[:count]

    def _order(self, number: int) -> float:
        value = self.staged[number].value
        return np.inf if value is None else -value

    def next_ones(self, count: int, limit: int) -> list[int]:
        start = len(self.done)
        return list(range(start, min(start + count, limit)))

    def candidates(self, run: SelectionRun) -> list[Candidate]:
        numbers = sorted(self.staged.keys() | self.done.keys())
        return [self.done.get(number) or run.to_candidate(self.staged[number]) for number in numbers]


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
        """The preview's value, or the mean of the sample's other values, shrunk towards the mean of all."""
        partial = state.staged.get(number)
        if partial is not None and partial.previews and (value := partial.previews[0].score.value) is not None:
            return value
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
