"""What another candidate of a prompt is expected to gain, judged by the prompts of a calibration.

Each prompt of the calibration, with the previews and values of its candidates, is a hypothesis about a new prompt. What
is seen of the new prompt gives each a posterior weight, and the candidates of all are the distribution of the next one.
So a prompt on which three candidates failed is like those past prompts on which many did, some of which had a rare
success; nothing is assumed about the shape of either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .preview_calibration import PreviewCalibration

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
    """The prompts of a calibration. preview_step: of the previews that are used; 0 for none.

    A preview without a value counts as the lowest one, a final image without a value as no improvement. Raises
    ValueError for a step that was not recorded, without any final value, and for more than 10 million candidates.
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
        """The expected gain over `best` per NFE, of a new candidate and of the paused ones, by number.

        seen: of the prompt's candidates, paused ones included. high: the maximum value, if any. With previews a new
        candidate is finished only if its own is good enough; what counts is the best such rule, which has the highest
        ratio of expected gain to expected NFE (the Gittins index of the candidate).
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
