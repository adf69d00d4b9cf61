"""BaseReward: the interface shared by local and remote rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from .card import Card
from .queries.identity import signature_with_identity
from .sample import EditSample
from .score import Score, Scores


class BaseReward(ABC):
    """A `Reward` in this process, or the client of one in another process (`integrations.serving.RemoteReward`).

    Trainers, verifiers and pipelines use this interface only.
    """

    @property
    @abstractmethod
    def card(self) -> Card:
        """The card of its metric."""

    @property
    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """A plain table from which `Reward.of` builds the same reward: for servers, workers and result files."""

    @property
    @abstractmethod
    def expert_ids(self) -> dict[str, str]:
        """Expert ids by role."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Digest of all that the scores depend on (see `queries.identity`), 64 hex digits. Rewards with equal
        identities give equal scores.
        """

    @property
    def signature(self) -> str:
        """The card's signature and the first digits of the identity, as in `edit-balanced@1#0123abcd`."""
        return signature_with_identity(self.card.signature, self.identity)

    @property
    def known_signature(self) -> str:
        """The same; without digits where the id of an expert cannot be determined, as of one that is down."""
        try:
            return self.signature
        except Exception:  # noqa: BLE001  (such an expert fails its queries, and not what describes the reward)
            return self.card.signature

    @property
    def __name__(self) -> str:  # trainers log callables under this name
        return self.card.name

    @abstractmethod
    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        """Score a batch. Results are in the order of the samples. Raises ValueError, before any query, where samples
        lack fields that the metric requires, and names them; `TooManyFailures` by `on_failures`.
        """

    @abstractmethod
    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        """Yield scores in order. Samples are consumed lazily, so their number is unbounded."""

    @abstractmethod
    def offload(self) -> None:
        """Offload the weights of this process's experts to the CPU."""

    def without_failure_limit(self) -> BaseReward:
        """This reward with on_failures="none", whose failures count nowhere: for asking failed samples again, which
        would look like an outage else. Itself where it has no limit.
        """
        return self

    def waiting(self, outage_timeout_s: float) -> BaseReward:
        """This reward with on_failures="wait", for so many seconds. Itself where it has no such option."""
        return self

    def validate(self, samples: Iterable[EditSample]) -> None:
        """Raise ValueError if a sample lacks a field that the metric's card requires."""
        require_fields(self.card, samples)

    def missing_fields(self, sample: EditSample) -> list[str]:
        """Required fields that this sample lacks."""
        return missing_fields(self.card, sample)


def require_fields(card: Card, samples: Iterable[EditSample]) -> None:
    """Raise ValueError if a sample lacks a field that the card requires."""
    for sample in samples:
        if missing := missing_fields(card, sample):
            raise ValueError(f"{card.name} needs {', '.join(missing)}, and sample {sample.id!r} has none")


def missing_fields(card: Card, sample: EditSample) -> list[str]:
    """Fields that the card requires and the sample lacks."""
    return [name for name in card.requires if getattr(sample, name) in (None, "", (), {})]
