"""Best-of-N, and an adaptive one that allocates NFE to the samples with the largest expected gain, which is learnt in
the run or from the prompts of a calibration (`PastPrompts`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...reward import EditSample
from ..selection.candidate import Candidate, Selection
from ..selection.generation import PartialCandidate
from ..selection.selection_run import SelectionRun
from .halving import rank_by_preview, stage_ends
from .preview_calibration import PreviewCalibration


@dataclass(frozen=True)
class BestOfN:
    """`n` candidates per sample, from consecutive seeds. A larger n never lowers the chosen value."""

    n: int = 16

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"best-of-n needs at least one candidate, got {self.n}")

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        rows = run.generate_interleaved(
            [[run.request(sample, number) for number in range(self.n)] for sample in samples]
        )
        return [
            run.make_selection(sample, candidates, self.n) for sample, candidates in zip(samples, rows, strict=True)
        ]


Gains = list[tuple[float, Mapping[int, float]]]
"""For each sample what the NFE of an image are expected to gain: by starting a new candidate, and by finishing each
paused one, by number."""

_SHRINKAGE = 2.0  # pseudo-count of the mean over all samples in the mean of one sample
_MIN_ROUNDS = 8  # rounds in which every sample could be served once, so that each uses the results of the one before
_MIN_BANDWIDTH = 0.01  # minimum kernel bandwidth for prediction errors, in standard deviations of the reward


@dataclass(frozen=True)
class AdaptiveBestOfN:
    """Up to `n` candidates per sample within `budget_fraction` of the NFE of best-of-n, allocated across samples.

    One candidate per sample is started first. The next NFE go where they are expected to gain most over the best of a
    sample, until the budget is spent or the NFE of an image are expected to gain `min_gain` at most (in the reward's
    units). The budget moves from samples that are done to the others: pass as many samples at once as possible. A value
    at the upper end of the reward's range cannot be improved.

    One candidate per sample is finished whatever the budget. With an editor that counts no NFE, such as a function, the
    budget counts images.

    Args:
        max_per_round: Candidates of one sample per round; a larger value is faster and saves less.
        calibration: Recorded by `calibrate_previews` with this editor and this reward on other prompts, or its file.
            What a candidate is expected to gain is then what it gained on past prompts like this one (see
            `PastPrompts`). Without one it is learnt in the run: the expected value of a candidate is the mean of its
            sample, and the distribution around it is estimated from the prediction errors of earlier candidates with
            similar expected values, with a kernel.
        preview_step: If not 0, a candidate pauses after this denoising step, its preview is scored, and it is finished
            when no other use of its NFE is expected to gain more, or never. This needs a calibration, which says what
            previews are worth, and a `StepwiseEditor`.

    Raises:
        ValueError: For options that do not fit each other, the calibration or the editor, and for a file that cannot be
            read.
    """

    n: int = 16
    budget_fraction: float = 0.4
    min_gain: float = 0.0
    max_per_round: int = 1
    calibration: PreviewCalibration | str | Path | None = None
    preview_step: int = 0

    def __post_init__(self) -> None:
        if self.n < 1 or self.max_per_round < 1:
            raise ValueError(f"adaptive needs n >= 1 and max_per_round >= 1, got {self.n} and {self.max_per_round}")
        if not 0 < self.budget_fraction <= 1:
            raise ValueError(f"budget_fraction is of the NFE of best-of-n, in (0, 1], got {self.budget_fraction}")
        if self.preview_step < 0:
            raise ValueError(f"preview_step is a denoising step from 1 on, or 0 for none, got {self.preview_step}")
        if self.preview_step and self.calibration is None:
            raise ValueError(
                f"preview_step={self.preview_step} needs a calibration, which says what previews are worth: record one "
                "with calibrate_previews"
            )
        _ = self._past  # a calibration that cannot be used is refused here, before anything is generated

    @cached_property
    def _recorded(self) -> PreviewCalibration | None:
        calibration = self.calibration
        if not isinstance(calibration, str | Path):
            return calibration
        try:
            return PreviewCalibration.load(calibration)
        except OSError as error:
            raise ValueError(f"cannot read the calibration {calibration}: {error.strerror}") from None

    @cached_property
    def _past(self) -> PastPrompts | None:
        return None if self._recorded is None else PastPrompts(self._recorded, self.preview_step)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        nfe = max(run.nfe_per_image, 1)  # for editors that count no NFE, an image counts as one
        pause = stage_ends(run, (self.preview_step,))[0] if self.preview_step else nfe
        estimates = self._estimates(run)
        allowed = int(self.budget_fraction * self.n * nfe * len(samples))
        if run.budget.nfe is not None:
            allowed = min(allowed, run.budget.nfe)
        max_count = self.max_per_round * -(-len(samples) // _MIN_ROUNDS)
        states = [_SampleState(sample, pause, nfe) for sample in samples]
        _advance(run, [(state, 0) for state in states])
        while not run.stop_reason:
            room = allowed - sum(state.spent + state.reserved for state in states)
            chosen = []
            for state, number in self._most_promising(estimates(states), states)[:max_count]:
                if (needed := state.needed(number)) <= room:
                    chosen.append((state, number))
                    room -= needed
            if not chosen:
                break
            _advance(run, chosen)
        _advance(run, [(state, state.best_preview) for state in states if state.reserved])
        return [run.make_selection(state.sample, state.candidates(run), self.n) for state in states]

    def _estimates(self, run: SelectionRun) -> Callable[[Sequence[_SampleState]], Gains]:
        if self._past is None or self._recorded is None:
            return functools.partial(_gains_learnt_in_run, *run.card.range)
        if (self._recorded.editor, self._past.nfe) != (run.editor.id, run.nfe_per_image):
            raise ValueError(
                f"the calibration is of {self._recorded.editor}, {self._past.nfe} steps, and the editor is "
                f"{run.editor.id}, {run.nfe_per_image} steps: calibrate this one"
            )
        if self._recorded.reward.get("identity") != run.reward.identity:
            raise ValueError(
                f"the calibration is of the reward {self._recorded.reward.get('metric')}, and this one is "
                f"{run.reward.signature}: calibrate with this one"
            )
        return _GainsLearntBefore(self._past, *run.card.range)

    def _most_promising(self, expected: Gains, states: Sequence[_SampleState]) -> list[tuple[_SampleState, int]]:
        """Candidates to start or to finish whose expected gain per image is above `min_gain`, largest first."""
        promising: list[tuple[float, int, int]] = []
        for row, (state, (new_gain, gains)) in enumerate(zip(states, expected, strict=True)):
            start = len(state.done) + len(state.paused)
            offers = [(-gain, row, number) for number, gain in gains.items()]
            offers += [(-new_gain, row, number) for number in range(start, min(start + self.max_per_round, self.n))]
            promising += sorted(offers)[: 1 if state.reserved else self.max_per_round]
        return [(states[row], number) for loss, row, number in sorted(promising) if -loss > self.min_gain]


def _advance(run: SelectionRun, candidates: Sequence[tuple[_SampleState, int]]) -> None:
    """Start candidates, up to the pause if there is one, and finish those that have paused."""
    new = [(state, number) for state, number in candidates if number not in state.paused]
    old = [(state, number) for state, number in candidates if number in state.paused]
    if new and new[0][0].pause == new[0][0].nfe:
        made = run.generate([run.request(state.sample, number) for state, number in new])
        for (state, number), candidate in zip(new, made, strict=False):
            state.done[number] = candidate
        return
    for group in (new, old):
        if not group:
            continue
        partials = [
            state.paused.get(number) or PartialCandidate(run.request(state.sample, number)) for state, number in group
        ]
        until_step = group[0][0].pause if group is new else group[0][0].nfe
        for (state, number), partial in zip(group, run.advance(partials, until_step), strict=True):
            if partial.error or partial.step == state.nfe:
                state.paused.pop(number, None)
                state.done[number] = run.to_candidate(partial)
            elif partial.step:
                state.paused[number] = partial


@dataclass
class _SampleState:
    """A sample and its candidates, by number. pause: the step they pause at; `nfe`, the last one, if they do not."""

    sample: EditSample
    pause: int
    nfe: int
    done: dict[int, Candidate] = field(default_factory=dict)
    paused: dict[int, PartialCandidate] = field(default_factory=dict)

    def candidates(self, run: SelectionRun) -> list[Candidate]:
        numbers = sorted(self.done.keys() | self.paused.keys())
        return [self.done.get(number) or run.to_candidate(self.paused[number]) for number in numbers]

    @property
    def values(self) -> list[float]:
        return [candidate.value for candidate in self.done.values() if candidate.value is not None]

    @property
    def best(self) -> float | None:
        return max(self.values, default=None)

    @property
    def seen(self) -> tuple[tuple[int, Observation], ...]:
        """What is known of each candidate, in order; nothing of those that the editor failed to make."""
        seen = {number: Observation(partial.value) for number, partial in self.paused.items()}
        for number, candidate in self.done.items():
            if candidate.status == "made":
                preview = candidate.previews[0].score.value if candidate.previews else None
                seen[number] = Observation(preview, candidate.value)
        return tuple(sorted(seen.items()))

    @property
    def spent(self) -> int:
        """NFE, or images for an editor that counts none."""
        costs = [candidate.cost for candidate in self.done.values()] + [
            partial.cost for partial in self.paused.values()
        ]
        return sum(cost.nfe or (self.nfe == 1) for cost in costs)

    @property
    def reserved(self) -> int:
        """NFE to finish a first candidate."""
        is_made = any(candidate.status == "made" for candidate in self.done.values())
        return self.nfe - self.pause if self.paused and not is_made else 0

    @property
    def best_preview(self) -> int:
        first = rank_by_preview(list(self.paused.values()), self.pause)[0]
        return next(number for number, partial in self.paused.items() if partial is first)

    def needed(self, number: int) -> int:
        """NFE that are not reserved, to start a candidate or to finish a paused one."""
        return self.nfe - self.pause - self.reserved if number in self.paused else self.pause


class _GainsLearntBefore:
    """Of past prompts. low, high: the range of the reward."""

    def __init__(self, past: PastPrompts, low: float | None, high: float | None) -> None:
        self._past, self._low, self._high = past, low, high
        self._known: dict[str, tuple[object, tuple[float, Mapping[int, float]]]] = {}  # by sample: changes with it only

    def __call__(self, states: Sequence[_SampleState]) -> Gains:
        for state in states:
            known = state.seen, tuple(state.paused)
            if state.sample.id not in self._known or self._known[state.sample.id][0] != known:
                self._known[state.sample.id] = known, self._gains(state, dict(state.seen))
        return [self._known[state.sample.id][1] for state in states]

    def _gains(self, state: _SampleState, seen: Mapping[int, Observation]) -> tuple[float, Mapping[int, float]]:
        best = state.best
        if best is None:
            best = self._past.lowest if self._low is None else self._low
        paused = {number: seen[number] for number in state.paused}
        rate, rates = self._past.gain_rates(list(seen.values()), best, self._high, paused)
        return rate * state.nfe, {number: rate * state.nfe for number, rate in rates.items()}


def _gains_learnt_in_run(low: float | None, high: float | None, states: Sequence[_SampleState]) -> Gains:
    """Of this run's candidates, without pauses. low, high: the range of the reward."""
    model = _GainModel(states)
    lowest = model.lowest if low is None else low
    bests = [lowest if state.best is None else state.best for state in states]
    return [
        (model.gain(model.expected(state, len(state.done)), best, high), {})
        for state, best in zip(states, bests, strict=True)
    ]


class _GainModel:
    """Prediction errors of the finished candidates: final minus expected value."""

    def __init__(self, states: Iterable[_SampleState]) -> None:
        samples = list(states)
        values = np.array([value for state in samples for value in state.values])
        self.lowest = float(values.min()) if len(values) else 0.0
        self._mean = float(values.mean()) if len(values) else 0.0
        done = [(state, number, one.value) for state in samples for number, one in state.done.items()]
        pairs = [(self.expected(state, number), value) for state, number, value in done if value is not None]
        self._expected, final = np.array(pairs).reshape(-1, 2).T
        self._off = final - self._expected
        spread = float(values.std()) if len(values) else 0.0
        count = max(len(pairs), 1)
        # Silverman's rule; with fewer than two errors, a standard deviation of 0.25 is assumed.
        off = float(self._off.std()) if len(pairs) > 1 else 0.25
        self._blur = max(0.6 * off * count**-0.2, _MIN_BANDWIDTH * spread, 1e-6)
        self._near = max(0.5 * float(self._expected.std()) if len(pairs) > 1 else 1.0, 1e-6)

    def expected(self, state: _SampleState, number: int) -> float:
        """The mean of the sample's other values, shrunk towards the mean of all."""
        others = [candidate.value for index, candidate in state.done.items() if index != number]
        values = [value for value in others if value is not None]
        return (sum(values) + _SHRINKAGE * self._mean) / (len(values) + _SHRINKAGE)

    def gain(self, expected: float, best: float, high: float | None) -> float:
        """The expected gain over `best` of a candidate with this expected value; `high` is the maximum value."""
        if high is not None and best >= high:
            return 0.0
        if not len(self._off):
            return math.inf
        weights = np.exp(-0.5 * ((expected - self._expected) / self._near) ** 2) + 1e-3
        gains = self._blur * np.logaddexp(0.0, (expected + self._off - best) / self._blur)  # of a logistic kernel
        if high is not None:
            gains = np.minimum(gains, high - best)
        return float((weights * gains).sum() / weights.sum())


Vector = NDArray[np.float64]

# Bandwidths are in standard deviations of the calibration's final values.
_FINAL_BANDWIDTH = 0.1  # of final values in the likelihood
_PREVIEW_BANDWIDTH = 0.35  # of previews in the likelihood
_RELATED_BANDWIDTH = 0.2  # of previews, for the final values that followed them
_MIN_IMPROVEMENT = 0.1  # less is not a gain: it is within the error of matching a prompt to past ones
_FLOOR = 0.01  # of a likelihood: any prompt may do what none of the past ones did
_TEMPERING = 0.5  # power of the likelihood, because the candidates of a prompt are not independent observations
_CELLS = 32  # of the distribution of previews
_MAX_PAIRS = 10**7  # prompts times candidates


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a candidate: its preview's value, the value of its final image, or both; None if unknown."""

    preview: float | None
    final: float | None = None


class PastPrompts:
    """Of a calibration, with previews of a step (0: without). What has no value counts as the lowest. Raises ValueError
    for a step that was not recorded, without any final value, and for more than 10 million candidates.
    """

    def __init__(self, calibration: PreviewCalibration, preview_step: int) -> None:
        if preview_step and preview_step not in calibration.steps[:-1]:
            recorded = ", ".join(map(str, calibration.steps[:-1])) or "none"
            raise ValueError(f"the calibration has no previews at step {preview_step}: it has {recorded}")
        rows = [np.array(row, float) for row in calibration.values.values() if len(row)]
        finals = np.concatenate([row[:, -1] for row in rows]) if rows else np.empty(0)
        finals = finals[np.isfinite(finals)]
        if not len(finals):
            raise ValueError("the calibration has no final values")
        self.nfe = calibration.steps[-1]
        self.lowest = float(finals.min())
        self._unit = float(finals.std()) or 1.0
        self._start = preview_step or self.nfe
        shape = len(rows), max(map(len, rows))
        if shape[0] * shape[1] > _MAX_PAIRS:
            raise ValueError(f"the calibration has {shape[0]:,} prompts and up to {shape[1]:,} candidates: too many")
        self._share = np.zeros(shape)  # of a candidate in its prompt
        self._finals = np.full(shape, -np.inf)
        self._previews = np.zeros(shape) if preview_step else None
        for number, row in enumerate(rows):
            self._share[number, : len(row)] = 1 / len(row)
            self._finals[number, : len(row)] = np.where(np.isfinite(row[:, -1]), row[:, -1], -np.inf)
            if self._previews is not None:
                self._previews[number, : len(row)] = row[:, calibration.steps.index(preview_step)]
        if self._previews is not None:
            valued = self._previews[np.isfinite(self._previews)]
            self._lowest_preview = float(valued.min()) if len(valued) else 0.0
            self._previews[~np.isfinite(self._previews)] = self._lowest_preview
            self._cells = np.unique(np.quantile(self._previews[self._share > 0], np.linspace(0, 1, _CELLS)))
            self._cell_of = np.searchsorted((self._cells[1:] + self._cells[:-1]) / 2, self._previews)

    def gain_rates(
        self, seen: Sequence[Observation], best: float, high: float | None, paused: Mapping[int, Observation]
    ) -> tuple[float, dict[int, float]]:
        """The expected gain over `best` per NFE, of a new candidate and of the paused ones, by number. seen: of the
        prompt's candidates. high: the maximum value. A new candidate is finished by the rule with the highest ratio of
        expected gain to expected NFE (its Gittins index).
        """
        posterior = self._posterior(seen)
        weights = self._share * posterior[:, None]
        gains = np.maximum(self._finals - best - _MIN_IMPROVEMENT * self._unit, 0.0)
        if high is not None:
            gains = np.minimum(gains, max(high - best, 0.0))
        if self._previews is None:
            return float((weights * gains).sum()) / self.nfe, {}
        rates = {}
        rest = self.nfe - self._start
        for number, partial in paused.items():
            related = weights * self._kernel(self._preview(partial), self._previews, _RELATED_BANDWIDTH)
            rates[number] = float((related * gains).sum() / max(related.sum(), 1e-12)) / rest
        mass = np.bincount(self._cell_of.ravel(), weights.ravel(), len(self._cells))
        gained = np.bincount(self._cell_of.ravel(), (weights * gains).ravel(), len(self._cells))
        smooth = self._kernel(self._cells[:, None], self._cells, _RELATED_BANDWIDTH)
        expected = (smooth @ gained) / np.maximum(smooth @ mass, 1e-12)
        order = np.argsort(-expected, kind="stable")
        finished = np.cumsum(mass[order])
        return float((np.cumsum((mass * expected)[order]) / (self._start + finished * rest)).max()), rates

    def _posterior(self, seen: Sequence[Observation]) -> Vector:
        """The weight of each past prompt, given what was seen of the new one; equal weights, given nothing."""
        logarithm = np.zeros(len(self._share))
        for candidate in seen:
            likelihood = self._share
            if self._previews is not None:
                likelihood = likelihood * self._kernel(self._preview(candidate), self._previews, _PREVIEW_BANDWIDTH)
            if candidate.final is not None:
                likelihood = likelihood * self._kernel(candidate.final, self._finals, _FINAL_BANDWIDTH)
            logarithm += np.log(likelihood.sum(axis=1) + _FLOOR)
        weights: Vector = np.exp(_TEMPERING * (logarithm - logarithm.max()))
        weights /= weights.sum()
        return weights

    def _preview(self, seen: Observation) -> float:
        return self._lowest_preview if seen.preview is None else seen.preview

    def _kernel(self, value: float | Vector, others: Vector, bandwidth: float) -> Vector:
        kernel: Vector = np.exp(-0.5 * ((value - others) / (bandwidth * self._unit)) ** 2)
        return kernel
