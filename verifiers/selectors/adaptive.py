"""Adaptive best of N: evaluations go where another picture is most likely to pay, and only as long as it pays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..reward import EditSample
from .candidate import Candidate, Selection
from .editor import StepwiseEditor
from .making import Staged
from .run import Run

_SHARED = 2.0  # values by which a sample's own mean is drawn to that of all samples
_ROUNDS = 8  # in which every sample could be served once: what one brings is known when the next begins
_NARROWEST = 0.01  # of the reward's spread: how far values can be off what was expected of them, at the least


@dataclass(frozen=True)
class Adaptive:
    """Up to `n` candidates a sample for `share` of what best-of-n takes, spent across the samples.

    One candidate of each sample is made. From then on the next one is made of whichever sample it promises the largest
    gain per evaluation over the sample's best, until the share is spent or a picture promises less than `worth` (in the
    reward's units). With a `preview`, all candidates are looked at after so many evaluations, and the most promising
    ones are finished: better where a share is small or previews are good, worse where a good picture can look bad at
    first, for then it is never finished. Of an editor that cannot stop half-way there are no previews.

    What is expected of a candidate is its preview's value, or the mean of its sample's values where there is none;
    how far off that can be is taken from all candidates finished so far, whose expectation was like it, blurred so
    that nothing is thought impossible. A value at the upper end of the reward's range cannot be beaten. With several
    samples the share moves from those that are done to those that are not: hand over as many at once as there are.

    One candidate of each sample is made whatever the share. Of an editor that counts no evaluations, as a function,
    the share is one of pictures. at_once: candidates of one sample that are finished in a round; more of them are
    faster and save less.
    """

    n: int = 16
    share: float = 0.4
    preview: int = 0
    worth: float = 0.0
    at_once: int = 1

    def __post_init__(self) -> None:
        if self.n < 1 or self.at_once < 1:
            raise ValueError(f"adaptive takes one candidate or more (n, at_once), got {self.n} and {self.at_once}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share is of what best-of-n takes, in (0, 1], got {self.share}")
        if self.preview < 0:
            raise ValueError(f"preview is a number of evaluations, or 0 for none, got {self.preview}")

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        if self.preview >= max(run.steps, 1):
            raise ValueError(f"preview must lie before the last of {run.steps} evaluations, got {self.preview}")
        whole = max(run.steps, 1)  # where nobody counts evaluations, a picture counts as one
        allowed = int(self.share * self.n * whole * len(samples))
        if run.budget.evaluations is not None:
            allowed = min(allowed, run.budget.evaluations)
        worked = [_Worked(sample) for sample in samples]
        first = self._look(run, worked, allowed) if self.preview else 0
        self._finish(run, [(one, number) for one in worked for number in one.best_looking(1)], first)
        while (left := allowed - sum(one.spent(run) for one in worked)) >= whole - first and not run.ended:
            chosen = self._most_promising(run, worked, first)
            if not chosen:
                break
            room = left // (whole - first)
            self._finish(run, chosen[: min(room, self.at_once * -(-len(worked) // _ROUNDS))], first)
        return [run.selection(one.sample, one.candidates(run), self.n) for one in worked]

    def _look(self, run: Run, worked: Sequence[_Worked], allowed: int) -> int:
        """Previews of as many candidates a sample as leave half of the share for finishing, and enough for one of them;
        the step they stand at.
        """
        if not isinstance(run.editor, StepwiseEditor):
            return 0
        each = allowed // len(worked)
        count = max(1, min(self.n, each // 2 // self.preview, (each - run.steps) // self.preview + 1))
        wants = [[run.want(one.sample, number) for number in range(count)] for one in worked]
        staged = iter(run.stage([Staged(want) for row in zip(*wants, strict=True) for want in row], self.preview))
        for number in range(count):
            for one in worked:
                one.staged[number] = next(staged)
        return self.preview

    def _finish(self, run: Run, chosen: Sequence[tuple[_Worked, int]], first: int) -> None:
        if first:
            found = run.stage([one.staged[number] for one, number in chosen], run.steps)
            for (one, number), staged in zip(chosen, found, strict=True):
                one.staged[number] = staged
                if staged.step == run.steps or staged.problem:
                    one.done[number] = run.candidate(staged)
            return
        made = run.candidates([run.want(one.sample, number) for one, number in chosen])
        for (one, number), candidate in zip(chosen, made, strict=False):
            one.done[number] = candidate

    def _most_promising(self, run: Run, worked: Sequence[_Worked], first: int) -> list[tuple[_Worked, int]]:
        """Candidates whose expected gain is worth a picture, the largest gain first, at most `at_once` a sample."""
        experience = _Experience(worked)
        low, high = run.card.range
        found: list[tuple[float, int, int]] = []
        for row, one in enumerate(worked):
            waiting = one.best_looking(self.at_once) if first else one.next_ones(self.at_once, self.n)
            best = one.best if one.best is not None else (experience.lowest if low is None else low)
            expected = np.array([experience.expected(one, number) for number in waiting])
            gains = experience.gains(expected, best, high)
            found += [(-gain, row, number) for gain, number in zip(gains, waiting, strict=True) if gain > self.worth]
        return [(worked[row], number) for _, row, number in sorted(found)]


@dataclass
class _Worked:
    """A sample, its candidates on their way and those that are done, by number."""

    sample: EditSample
    staged: dict[int, Staged] = field(default_factory=dict)
    done: dict[int, Candidate] = field(default_factory=dict)

    @property
    def values(self) -> list[float]:
        return [one.value for one in self.done.values() if one.value is not None]

    @property
    def best(self) -> float | None:
        return max(self.values, default=None)

    def spent(self, run: Run) -> int:
        """Evaluations; pictures, where the editor counts none."""
        if not run.steps:
            return len(self.done)
        going = [one.cost for number, one in self.staged.items() if number not in self.done]
        return sum(cost.evaluations for cost in (*going, *(one.cost for one in self.done.values())))

    def best_looking(self, count: int) -> list[int]:
        """Those not finished with the highest previews; one without a value comes after those that have one."""
        if not self.staged:
            return self.next_ones(count, count)
        waiting = [number for number, one in self.staged.items() if number not in self.done and not one.problem]
        return sorted(waiting, key=lambda number: (self._order(number), number))[:count]

    def _order(self, number: int) -> float:
        value = self.staged[number].value
        return np.inf if value is None else -value

    def next_ones(self, count: int, most: int) -> list[int]:
        start = len(self.done)
        return list(range(start, min(start + count, most)))

    def candidates(self, run: Run) -> list[Candidate]:
        numbers = sorted(self.staged.keys() | self.done.keys())
        return [self.done.get(number) or run.candidate(self.staged[number]) for number in numbers]


class _Experience:
    """What became of the candidates finished so far, compared with what was expected of them."""

    def __init__(self, worked: Iterable[_Worked]) -> None:
        every = list(worked)
        values = np.array([value for one in every for value in one.values])
        self.lowest = float(values.min()) if len(values) else 0.0
        self._mean = float(values.mean()) if len(values) else 0.0
        pairs = np.array(
            [
                (self.expected(one, number), candidate.value)
                for one in every
                for number, candidate in one.done.items()
                if candidate.value is not None
            ]
        ).reshape(-1, 2)
        self._expected, self._off = pairs[:, 0], pairs[:, 1] - pairs[:, 0]
        spread = float(values.std()) if len(values) else 0.0
        count = max(len(pairs), 1)
        # Silverman's rule; a lone value says nothing about a spread, so the range of a share is assumed until then.
        off = float(self._off.std()) if len(pairs) > 1 else 0.25
        self._blur = max(0.6 * off * count**-0.2, _NARROWEST * spread, 1e-6)
        self._near = max(0.5 * float(self._expected.std()) if len(pairs) > 1 else 1.0, 1e-6)

    def expected(self, one: _Worked, number: int) -> float:
        """The preview's value, or the mean of the sample's other values drawn to that of all."""
        staged = one.staged.get(number)
        if staged is not None and staged.looks and (value := staged.looks[0].score.value) is not None:
            return value
        own = [done.value for other, done in one.done.items() if other != number and done.value is not None]
        return (sum(own) + _SHARED * self._mean) / (len(own) + _SHARED)

    def gains(self, expected: NDArray[np.float64], best: float, high: float | None) -> NDArray[np.float64]:
        """The expected gain over `best` of candidates of which so much is expected; nothing lies above `high`."""
        if high is not None and best >= high:
            return np.zeros(len(expected))
        if not len(self._off):
            return np.full(len(expected), np.inf)
        weights = np.exp(-0.5 * ((expected[:, None] - self._expected) / self._near) ** 2) + 1e-3
        ahead = expected[:, None] + self._off - best
        gains = self._blur * np.logaddexp(0.0, ahead / self._blur)  # of a logistic blur, in closed form
        if high is not None:
            gains = np.minimum(gains, high - best)
        found: NDArray[np.float64] = (weights * gains).sum(axis=1) / weights.sum(axis=1)
        return found
