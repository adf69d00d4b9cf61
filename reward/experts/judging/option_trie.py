"""The probability of each of a few options, from a model's next-token probabilities.

An option may have several spellings (`yes`, ` Yes`) and several tokens (`10` after `1`); the token sequences form a
trie. The probability of a node that ends an option and has children is split: the children's share belongs to the
longer options, the rest to the option that ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

Path = tuple[int, ...]
"""Tokens from the root of the trie."""

MIN_BRANCH_PROBABILITY = 1e-5
"""Nodes with a smaller share of the options' probability are not read: no option changes by more."""


class OptionTrie:
    """The token sequences of all spellings of some options.

    spelled: pairs of an option and the tokens of one of its spellings, the plainest spelling first. Raises ValueError
    if two options have the same tokens, as words unknown to the tokenizer do.
    """

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
        """The longest inner path from a node: one pass over it reads all nodes along it.

        From the root, the path of a plain spelling with several tokens is preferred.
        """
        inner_paths = [end[:-1] for end in self.ends if end[: len(path)] == path and len(end) > len(path)]
        return max(inner_paths, key=lambda inner_path: (inner_path in self.likely, len(inner_path)), default=path)

    def inner(self, path: Path) -> bool:
        """Whether the node of these tokens has children."""
        return path in self.children

    def reached(self, scored: Mapping[Path, Mapping[int, float]]) -> dict[Path, float]:
        """The probability of reaching each node, as far as its ancestors are scored.

        scored: by node, the conditional probability of each child.
        """
        probabilities: dict[Path, float] = {(): 1.0}
        for path in sorted(scored, key=len):
            if path in probabilities:
                probabilities |= {(*path, token): probabilities[path] * p for token, p in scored[path].items()}
        return probabilities

    def unscored_nodes(self, scored: Mapping[Path, Mapping[int, float]]) -> list[Path]:
        """The nodes that still have to be read, the shortest first."""
        reached = self.reached(scored)
        threshold = MIN_BRANCH_PROBABILITY * sum(self.option_probabilities(scored).values())
        nodes = [
            path
            for path, probability in reached.items()
            if self.inner(path) and path not in scored and probability > threshold
        ]
        return sorted(nodes, key=len)

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
        for spelling in _spellings(option):
            spelled[option, tuple(encode(spelling))] = None
            # SentencePiece tokenizers add a leading space, except after a line break.
            after_line_break = tuple(encode(f"\n{spelling}"))
            if after_line_break[: len(line)] == line and len(after_line_break) > len(line):
                spelled[option, after_line_break[len(line) :]] = None
    return OptionTrie(options, spelled)


def _spellings(option: str) -> list[str]:
    cases = dict.fromkeys((option, option.lower(), option.upper(), option.capitalize()))
    return [lead + case for case in cases for lead in ("", " ")]
