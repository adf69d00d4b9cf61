"""Updates that would make the weights NaN: skipped on all processes alike, and after three in a row the run ends."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

MAX_SKIPPED = 3
"""In a row: with these the run ends."""

log = logging.getLogger("editcritic.trainers")


class UpdateGuard:
    """Decides whether the optimizer makes a step. All processes call it together and decide the same.

    weights: by name, the same on all processes.
    """

    def __init__(self, accelerator: Accelerator, weights: Mapping[str, torch.nn.Parameter]) -> None:
        self._accelerator = accelerator
        self._weights = weights
        self._in_a_row = 0

    def skips(self, norm: float, place: str, losses: Sequence[str]) -> bool:
        """Whether the gradient, or the loss of a row of any process, is NaN or infinite. norm: of the gradient of all
        processes, not yet clipped. place: step and mini-batch. losses: the rows of this process whose loss is.

        Raises FloatingPointError as `skip`.
        """
        is_bad = torch.tensor(float(bool(losses) or not math.isfinite(norm)), device=self._accelerator.device)
        if not float(self._accelerator.reduce(is_bad, "sum")):
            self._in_a_row = 0
            return False
        rows: list[str] = gather_object(list(losses))
        names = [
            name
            for name, weight in self._weights.items()
            if weight.grad is not None and not bool(torch.isfinite(weight.grad).all())
        ]
        reasons = [f"the loss of {shortened(rows)}"] if rows else []
        if names:
            reasons.append(f"the gradient of {len(names)} of {len(self._weights)} parameters, first {names[0]}")
        self.skip(place, f"NaN or infinite is {' and '.join(reasons) or 'the norm of the gradient'}")
        return True

    def skip(self, place: str, reason: str) -> None:
        """Count an update that is not made. Raises FloatingPointError after three in a row."""
        self._in_a_row += 1
        if self._in_a_row >= MAX_SKIPPED:
            raise FloatingPointError(
                f"NaN: {self._in_a_row} updates in a row were skipped, the last in {place}: {reason}. The weights are "
                "finite, as before these updates. Train with a lower learning rate, or with the pipeline in float32"
            )
        if self._accelerator.is_main_process:
            log.warning("the update in %s is skipped: %s", place, reason)


def shortened(items: Sequence[str]) -> str:
    """For messages."""
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return "; ".join(items[:3]) + more
