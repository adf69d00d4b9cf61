"""Who decides what a model writes next, a writer for each row of a batch: by an answer form, not by the model's habits.

A writer is shown the model's raw scores of the next token and names the token, or stops. Rows know nothing of each
other, and chance comes from the question and the place in the text: what is written does not depend on the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .options import Path, Trie


class Writer(Protocol):
    """Writes up to `limit` tokens after the prompt and `lead`."""

    lead: Path
    limit: int

    def next(self, scores: Any) -> int | None:
        """The next token. scores: of every token of the vocabulary, before softmax. None: nothing more."""

    def further(self) -> Sequence[Writer]:
        """Who has to continue the prompt as well before it is known what was to be found out."""


class OptionsWriter:
    """Looks into the nodes of a trie from `lead` on, down the most probable of those that go on.

    known: of the nodes looked into, by any writer of this question, the probability of each child. wanted: the most
    probable token after `lead`.
    """

    def __init__(self, trie: Trie, lead: Path = (), known: dict[Path, dict[int, float]] | None = None) -> None:
        self.lead = lead
        self.limit = trie.depth - len(lead)
        self.known = {} if known is None else known
        self.wanted = -1
        self._trie = trie
        self._path = lead

    def next(self, scores: Any) -> int | None:
        probabilities = scores.float().softmax(-1)
        if self._path == self.lead:
            self.wanted = int(probabilities.argmax())
        children = sorted(self._trie.children[self._path])
        found = dict(zip(children, probabilities[children].tolist(), strict=True))
        self.known[self._path] = found
        onwards = [token for token in children if self._trie.inner((*self._path, token))]
        if not onwards:
            return None
        token = max(onwards, key=found.__getitem__)
        self._path = (*self._path, token)
        return token

    def further(self) -> list[OptionsWriter]:
        return [OptionsWriter(self._trie, path, self.known) for path in self._trie.unknown(self.known)]

    def masses(self) -> dict[str, float]:
        """The probability of each option, once nothing further has to be looked into."""
        return self._trie.masses(self.known)


class WordsWriter:
    """Free text: the most probable token at temperature 0, else one drawn with noise from (digest, place).

    ends: tokens that end a text.
    """

    lead: Path = ()

    def __init__(self, digest: str, temperature: float, limit: int, ends: Collection[int]) -> None:
        self.limit = limit
        self.tokens: list[int] = []
        self._digest = digest
        self._temperature = temperature
        self._ends = frozenset(ends)

    def next(self, scores: Any) -> int | None:
        token = self._chosen(scores) if len(self.tokens) < self.limit else None
        if token is None or token in self._ends:
            return None
        self.tokens.append(token)
        return token

    def further(self) -> Sequence[Writer]:
        return ()

    def _chosen(self, scores: Any) -> int | None:
        if self._temperature == 0:
            return int(scores.argmax())
        if scores.device.type == "mps":  # it has no float64
            scores = scores.cpu()
        up_to = (scores.double() / self._temperature).softmax(-1).cumsum(-1)
        below = up_to <= uniform(self._digest, len(self.tokens)) * up_to[-1]
        return int(below.sum())


class JsonWriter(WordsWriter):
    """JSON of a schema: among the tokens that a matcher of `llguidance` allows."""

    def __init__(self, matcher: Any, digest: str, temperature: float, limit: int, ends: Collection[int]) -> None:
        super().__init__(digest, temperature, limit, ends)
        self._matcher = matcher

    def _chosen(self, scores: Any) -> int | None:
        if self._matcher.is_stopped():
            return None
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), np.uint8), bitorder="little")
        forbidden = np.ones(len(scores), bool)
        forbidden[: len(bits)] = bits[: len(scores)] == 0
        token = super()._chosen(scores.masked_fill(_like(scores, forbidden), float("-inf")))
        if token is not None and token not in self._ends:
            self._matcher.consume_token(token)
        return token


class Told:
    """A logits processor for `generate` that lets each row's writer name the next token.

    end: the token that ends a row. counts: passes and tokens are added to it.
    """

    def __init__(self, writers: Sequence[Writer], end: int, counts: dict[str, int]) -> None:
        self._writers: list[Writer | None] = list(writers)
        self._end = end
        self._counts = counts

    def __call__(self, _: Any, scores: Any) -> Any:
        self._counts["forward_passes"] += 1
        if scores.isnan().any():
            raise ArithmeticError("the model's scores are not numbers: try dtype='bfloat16' or 'float32'")
        told = scores.new_full(scores.shape, float("-inf"))
        for i, writer in enumerate(self._writers):
            token = None if writer is None else writer.next(scores[i])
            if token is None:
                self._writers[i] = None
            else:
                self._counts["generated_tokens"] += 1
            told[i, self._end if token is None else token] = 0.0
        return told


def _like(scores: Any, flags: Any) -> Any:
    import torch

    return torch.from_numpy(flags).to(scores.device)


def uniform(digest: str, place: int) -> float:
    """A number in [0, 1) that depends on nothing else."""
    drawn = hashlib.sha256(f"{digest} {place}".encode()).digest()
    return (int.from_bytes(drawn[:7], "big") >> 3) / 2**53


def drawn(probabilities: Mapping[str, float], temperature: float, digest: str) -> str:
    """The most probable option at temperature 0, else one drawn."""
    options, weights = list(probabilities), np.array(list(probabilities.values()))
    if temperature == 0:
        return options[int(weights.argmax())]
    up_to = np.cumsum((weights / weights.max()) ** (1 / temperature))
    return options[int((up_to <= uniform(digest, 0) * up_to[-1]).sum())]
