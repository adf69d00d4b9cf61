"""Constrained decoding: a writer per row of a batch chooses the next token by the query's response format.

A text writer gets the raw logits of the next token and returns a token, or stops; an option lookup generates nothing
and reads the logits after its lead tokens. Rows are independent, and sampling is seeded by the query and the position:
the output does not depend on the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Path = tuple[int, ...]
"""Tokens from the root of the trie."""

MIN_BRANCH_PROBABILITY = 1e-5
"""Nodes with a smaller share of the options' probability are not read: no option changes by more."""


class OptionTrie:
    """The token sequences of all spellings of some options. spelled: pairs of an option and the tokens of one of its
    spellings, the plainest spelling first. Raises ValueError if two options have the same tokens, as words unknown to
    the tokenizer do."""

    def __init__(self, options: Sequence[str], spelled: Iterable[tuple[str, Sequence[int]]]) -> None:
        self.options = tuple(options)
        self.ends: dict[Path, str] = {}
        self.children: dict[Path, set[int]] = {}
        self.likely: set[Path] = set()
        plain: set[str] = set()
        for option, tokens in spelled:
            path = tuple(tokens)
            if option not in plain:
                plain.add(option)
                self.likely |= {path[:-1]} - {()}
            if not path:
                raise ValueError(f"no token spells {option!r}")
            if self.ends.setdefault(path, option) != option:
                raise ValueError(f"the tokens {list(path)} spell both {self.ends[path]!r} and {option!r}")
            for i, token in enumerate(path):
                self.children.setdefault(path[:i], set()).add(token)

    def lead_tokens(self, path: Path = ()) -> Path:
        """The longest inner path from a node: one pass over it reads all nodes along it. From the root, the path of a
        plain spelling with several tokens is preferred."""
        inner_paths = [end[:-1] for end in self.ends if end[: len(path)] == path and len(end) > len(path)]
        return max(inner_paths, key=lambda inner_path: (inner_path in self.likely, len(inner_path)), default=path)

    def reached(self, scored: Mapping[Path, Mapping[int, float]]) -> dict[Path, float]:
        """The probability of reaching each node, as far as its ancestors are scored. scored: by node, the conditional
        probability of each child."""
        probabilities: dict[Path, float] = {(): 1.0}
        for path in sorted(scored, key=len):
            if path in probabilities:
                probabilities |= {(*path, token): probabilities[path] * p for token, p in scored[path].items()}
        return probabilities

    def unscored_nodes(self, scored: Mapping[Path, Mapping[int, float]]) -> list[Path]:
        """The nodes that still have to be read, the shortest first."""
        reached = self.reached(scored)
        threshold = MIN_BRANCH_PROBABILITY * sum(self.option_probabilities(scored).values())
        inner = (path for path in reached if path in self.children and path not in scored)
        return sorted((path for path in inner if reached[path] > threshold), key=len)

    def option_probabilities(self, scored: Mapping[Path, Mapping[int, float]]) -> dict[str, float]:
        """The probability of each option over all spellings; the sum is at most 1."""
        reached = self.reached(scored)
        masses = dict.fromkeys(self.options, 0.0)
        for path, option in self.ends.items():
            continued = sum(scored.get(path, {}).values())
            masses[option] += reached.get(path, 0.0) * max(0.0, 1.0 - continued)
        return masses


def build_option_trie(options: Sequence[str], encode: Callable[[str], Sequence[int]]) -> OptionTrie:
    """The trie of all spellings of these options. encode: text -> tokens, without special tokens."""
    line = tuple(encode("\n"))
    spelled: dict[tuple[str, Path], None] = {}
    for option in options:
        cases = dict.fromkeys((option, option.lower(), option.upper(), option.capitalize()))
        for spelling in (lead + case for case in cases for lead in ("", " ")):
            spelled[option, tuple(encode(spelling))] = None
            # SentencePiece tokenizers add a leading space, except after a line break.
            after_line_break = tuple(encode(f"\n{spelling}"))
            if after_line_break[: len(line)] == line and len(after_line_break) > len(line):
                spelled[option, after_line_break[len(line) :]] = None
    return OptionTrie(options, spelled)


class OptionLookup:
    """Reads the nodes of a trie along `lead`, tokens that follow the prompt, in one forward pass. scored: child
    probabilities of the nodes read by any lookup of this query. top_token: the most probable token after the prompt."""

    limit = 1

    def __init__(self, trie: OptionTrie, path: Path = (), scored: dict[Path, dict[int, float]] | None = None) -> None:
        self.lead = trie.lead_tokens(path)
        self.scored = {} if scored is None else scored
        self.top_token = -1
        self.trie = trie

    def read(self, scores: Sequence[Any]) -> None:
        """scores: logits over the vocabulary, after the prompt and after each token of `lead`."""
        for end, row in enumerate(scores):
            probabilities = row.float().softmax(-1)
            if end == 0:
                self.top_token = int(probabilities.argmax())
            children = sorted(self.trie.children[self.lead[:end]])
            self.scored[self.lead[:end]] = dict(zip(children, probabilities[children].tolist(), strict=True))

    def next_lookups(self) -> list[OptionLookup]:
        """The lookups still needed, none a prefix of another."""
        lookups: list[OptionLookup] = []
        for path in self.trie.unscored_nodes(self.scored):
            if not any(path == lookup.lead[: len(path)] for lookup in lookups):
                lookups.append(OptionLookup(self.trie, path, self.scored))
        return lookups


class TextWriter:
    """Free text: the most probable token at temperature 0, else one sampled with noise from (digest, position).
    stop_tokens: tokens that end a text."""

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
        import torch

        if self._matcher.is_stopped():
            return None
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), np.uint8), bitorder="little")
        forbidden = np.ones(len(scores), bool)
        forbidden[: len(bits)] = bits[: len(scores)] == 0
        mask = torch.from_numpy(forbidden).to(scores.device)
        token = super()._choose(scores.masked_fill(mask, float("-inf")))
        if token is not None and token not in self._stop_tokens:
            self._matcher.consume_token(token)
        return token


class WriterLogitsProcessor:
    """A logits processor for `generate` that forces the token chosen by each row's writer. end: the token that ends a
    row. counts: passes and tokens are added to it."""

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
