"""The images of a training step, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...reward import EditSample, Score
from ...reward.training.hack_gains import HackGains
from .trajectories import Trajectory


@dataclass(slots=True)
class RolloutBatch:
    """The images of one process in a step. calls: trajectories with the indices in `samples` of their rows.

    failures: index in `samples` -> the reason why there is no image, as for pixels of NaN; its `edited` is the source.
    """

    step: int
    samples: list[EditSample]
    calls: list[tuple[Trajectory, list[int]]]
    seconds: float
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[EditSample | str]:
        """What is scored: the samples, or the reason why there is no image."""
        return [self.failures.get(row, sample) for row, sample in enumerate(self.samples)]

    @property
    def nonfinite(self) -> dict[int, str]:
        """Of `failures`, those whose latents are NaN or infinite: they take no part in training. Where only the pixels
        are, the autoencoder has failed on latents that the editor can learn to avoid.
        """
        return {rows[index]: reason for call, rows in self.calls for index, reason in call.nonfinite.items()}

    @property
    def made(self) -> list[int]:
        """The indices in `samples` of those that have an image."""
        return [row for row in range(len(self.samples)) if row not in self.failures]


@dataclass(slots=True)
class BatchScores:
    """The scores of a batch, and what hacks would gain over its images, in steps that are probed."""

    scores: Sequence[Score]
    heldout: Sequence[Score] | None
    gains: HackGains | None
    seconds: float
