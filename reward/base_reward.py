"""AnyReward: whatever scores samples as a `Reward` does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from .card import Card
from .sample import EditSample
from .score import Score, Scores


class AnyReward(ABC):
    """A `Reward` of this process, or the client of one in another (`integrations.serving.RemoteReward`).

    What trainers, verifiers and pipelines ask of a reward, and all that they may ask.
    """

    @property
    @abstractmethod
    def card(self) -> Card:
        """Of its metric."""

    @property
    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """A plain table `Reward.of` builds the same reward of: for servers, workers and result files."""

    @property
    @abstractmethod
    def expert_ids(self) -> dict[str, str]:
        """Of its experts, by role: with the card all that its scores depend on."""

    @property
    def __name__(self) -> str:  # trainers log callables under it
        return self.card.name

    @abstractmethod
    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        """Score a batch. Results are in the order of the samples.

        Raises ValueError where samples lack fields the metric requires, naming them, before anything is asked;
        `TooManyFailures` by `on_failures`.
        """

    @abstractmethod
    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        """Scores one by one, in order; samples are taken as there is room, so that any number of them fits."""

    @abstractmethod
    def offload(self) -> None:
        """Let the experts of this process give back the accelerator's memory."""

    def check(self, samples: Iterable[EditSample]) -> None:
        """Raise ValueError if a sample lacks what the metric's card requires."""
        for sample in samples:
            if missing := self.missing(sample):
                raise ValueError(f"{self.card.name} needs {', '.join(missing)}, and sample {sample.id!r} has none")

    def missing(self, sample: EditSample) -> list[str]:
        """Fields this sample lacks."""
        return [name for name in self.card.requires if getattr(sample, name) in (None, "", (), {})]
