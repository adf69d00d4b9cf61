"""Constrained decoding: a writer per row of a batch chooses the next token by the query's response format.

A text writer gets the raw logits of the next token and returns a token, or stops; an option lookup generates nothing
and reads the logits after its lead tokens. Rows are independent, and sampling is seeded by the query and the position:
the output does not depend on the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from .option_trie import OptionTrie, Path


class OptionLookup:
    """Reads the nodes of a trie along `lead`, tokens that follow the prompt, in one forward pass.

    scored: child probabilities of the nodes read by any lookup of this query. top_token: the most probable token after
    the prompt.
    """

    limit = 1

    def __init__(self, trie: OptionTrie, path: Path = (), scored: dict[Path, dict[int, float]] | None = None) -> None:
        self.lead = trie.lead_tokens(path)
        self.scored = {} if scored is None else scored
        self.top_token = -1
        self._trie = trie

    def read(self, scores: Sequence[Any]) -> None:
        """scores: logits over the vocabulary, after the prompt and after each token of `lead`."""
        for end, row in enumerate(scores):
            probabilities = row.float().softmax(-1)
            if end == 0:
                self.top_token = int(probabilities.argmax())
            children = sorted(self._trie.children[self.lead[:end]])
            self.scored[self.lead[:end]] = dict(zip(children, probabilities[children].tolist(), strict=True))

    def next_lookups(self) -> list[OptionLookup]:
        """The lookups still needed, none a prefix of another."""
        lookups: list[OptionLookup] = []
        for path in self._trie.unscored_nodes(self.scored):
            if not any(path == lookup.lead[: len(path)] for lookup in lookups):
                lookups.append(OptionLookup(self._trie, path, self.scored))
        return lookups

    def masses(self) -> dict[str, float]:
        """The probability of each option, once no lookups are left."""
        return self._trie.option_probabilities(self.scored)


class TextWriter:
    """Free text: the most probable token at temperature 0, else one sampled with noise from (digest, position).

    stop_tokens: tokens that end a text.
    """

    lead: Path = ()

    def __init__(self, digest: str, temperature: float, limit: int, stop_tokens: Collection[int]) -> None:
        self.limit = limit
        self.tokens: list[int] = []
        self._digest = digest
        self._temperature = temperature
        self._stop_tokens = frozenset(stop_tokens)

    def next(self, scores: Any) -> int | None:
        token = self._choose(scores) if len(self.tokens) < self.limit else None
        if token is None or token in self._stop_tokens:
            return None
        self.tokens.append(token)
        return token

    def _choose(self, scores: Any) -> int | None:
        if self._temperature == 0:
            return int(scores.argmax())
        if scores.device.type == "mps":  # it has no float64
            scores = scores.cpu()
        cumulative = (scores.double() / self._temperature).softmax(-1).cumsum(-1)
        is_below = cumulative <= digest_uniform(self._digest, len(self.tokens)) * cumulative[-1]
        return int(is_below.sum())


class JsonWriter(TextWriter):
    """JSON of a schema: tokens restricted to those that an `llguidance` matcher allows."""

    def __init__(self, matcher: Any, digest: str, temperature: float, limit: int, stop_tokens: Collection[int]) -> None:
        super().__init__(digest, temperature, limit, stop_tokens)
        self._matcher = matcher

    def _choose(self, scores: Any) -> int | None:
        if self._matcher.is_stopped():
            return None
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), np.uint8), bitorder="little")
        forbidden = np.ones(len(scores), bool)
        forbidden[: len(bits)] = bits[: len(scores)] == 0
        token = super()._choose(scores.masked_fill(_like(scores, forbidden), float("-inf")))
        if token is not None and token not in self._stop_tokens:
            self._matcher.consume_token(token)
        return token


class WriterLogitsProcessor:
    """A logits processor for `generate` that forces the token chosen by each row's writer.

    end: the token that ends a row. counts: passes and tokens are added to it.
    """

    def __init__(self, writers: Sequence[TextWriter], end: int, counts: dict[str, int]) -> None:
        self._writers: list[TextWriter | None] = list(writers)
        self._end = end
        self._counts = counts

    def __call__(self, _: Any, scores: Any) -> Any:
        self._counts["forward_passes"] += 1
        check_logits(scores)
        forced = scores.new_full(scores.shape, float("-inf"))
        for i, writer in enumerate(self._writers):
            token = None if writer is None else writer.next(scores[i])
            if token is None:
                self._writers[i] = None
            else:
                self._counts["generated_tokens"] += 1
            forced[i, self._end if token is None else token] = 0.0
        return forced


def check_logits(scores: Any) -> None:
    """Raise ArithmeticError if logits are NaN."""
    if scores.isnan().any():
        raise ArithmeticError("the model's scores are not numbers: try dtype='bfloat16' or 'float32'")


def _like(scores: Any, flags: Any) -> Any:
    import torch

    return torch.from_numpy(flags).to(scores.device)


def digest_uniform(digest: str, position: int) -> float:
    """A uniform number in [0, 1) determined by digest and position."""
    digest_bytes = hashlib.sha256(f"{digest} {position}".encode()).digest()
    return (int.from_bytes(digest_bytes[:7], "big") >> 3) / 2**53


def sample_option(probabilities: Mapping[str, float], temperature: float, digest: str) -> str:
    """The most probable option at temperature 0, else a sampled one."""
    options, weights = list(probabilities), np.array(list(probabilities.values()))
    if temperature == 0:
        return options[int(weights.argmax())]
    cumulative = np.cumsum((weights / weights.max()) ** (1 / temperature))
    return options[int((cumulative <= digest_uniform(digest, 0) * cumulative[-1]).sum())]
