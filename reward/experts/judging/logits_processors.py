"""Who decides what a model writes next, a writer for each row of a batch: by an answer form, not by the model's habits.

A writer of words is shown the model's raw scores of the next token and names the token, or stops; a look at options
names none, its tokens stand already. Rows know nothing of each other, and chance comes from the question and the place
in the text: what is written does not depend on the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .options import Path, Trie


class OptionsLook:
    """Looks into the nodes of a trie along `lead`, tokens that stand after the prompt: one pass tells of all of them.

    known: of the nodes looked into, by any look of this question, the probability of each child. wanted: the most
    probable token after the prompt.
    """

    limit = 1

    def __init__(self, trie: Trie, path: Path = (), known: dict[Path, dict[int, float]] | None = None) -> None:
        self.lead = trie.onwards(path)
        self.known = {} if known is None else known
        self.wanted = -1
        self._trie = trie

    def read(self, scores: Sequence[Any]) -> None:
        """scores: of every token of the vocabulary, before softmax, after the prompt and after each token of `lead`."""
        for end, row in enumerate(scores):
            probabilities = row.float().softmax(-1)
            if end == 0:
                self.wanted = int(probabilities.argmax())
            children = sorted(self._trie.children[self.lead[:end]])
            self.known[self.lead[:end]] = dict(zip(children, probabilities[children].tolist(), strict=True))

    def further(self) -> list[OptionsLook]:
        """The looks that are still wanting, none on the way of another."""
        looks: list[OptionsLook] = []
        for path in self._trie.unknown(self.known):
            if not any(path == look.lead[: len(path)] for look in looks):
                looks.append(OptionsLook(self._trie, path, self.known))
        return looks

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

    def __init__(self, writers: Sequence[WordsWriter], end: int, counts: dict[str, int]) -> None:
        self._writers: list[WordsWriter | None] = list(writers)
        self._end = end
        self._counts = counts

    def __call__(self, _: Any, scores: Any) -> Any:
        self._counts["forward_passes"] += 1
        check(scores)
        told = scores.new_full(scores.shape, float("-inf"))
        for i, writer in enumerate(self._writers):
            token = None if writer is None else writer.next(scores[i])
            if token is None:
                self._writers[i] = None
            else:
                self._counts["generated_tokens"] += 1
            told[i, self._end if token is None else token] = 0.0
        return told


def check(scores: Any) -> None:
    """Raise ArithmeticError where a model's scores are not numbers."""
    if scores.isnan().any():
        raise ArithmeticError("the model's scores are not numbers: try dtype='bfloat16' or 'float32'")


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
