"""The probability of each of a few words, from a model's next-token probabilities.

A word may be spelled in several ways (`yes`, ` Yes`) and in several tokens (`10` after `1`); the sequences of tokens
form a trie. What a model gives to a node that ends a word and may go on is split: what goes on belongs to the longer
words, the rest to the word that ends there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

Path = tuple[int, ...]
"""Tokens from the root of the trie."""

NEGLIGIBLE = 1e-5
"""Nodes that are reached with a smaller share of the options' probability are not looked into: no option changes by
more."""


class Trie:
    """The sequences of tokens that spell some options.

    spelled: pairs of an option and the tokens of one of its spellings, of each option the plainest first. Raises
    ValueError where two options are spelled with the same tokens, as are words that the tokenizer does not know.
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

    def onwards(self, path: Path = ()) -> Path:
        """The longest path that goes on, from a node on: read after the prompt, it tells of all nodes along it at once.

        From the root it is one of an option as it is spelled plainly, where there is one of several tokens.
        """
        ways = [end[:-1] for end in self.ends if end[: len(path)] == path and len(end) > len(path)]
        return max(ways, key=lambda way: (way in self.likely, len(way)), default=path)

    def inner(self, path: Path) -> bool:
        """Whether it goes on after these tokens."""
        return path in self.children

    def reached(self, known: Mapping[Path, Mapping[int, float]]) -> dict[Path, float]:
        """The probability of reaching each node of which enough is known.

        known: of nodes, the probability of each child once one is there.
        """
        found: dict[Path, float] = {(): 1.0}
        for path in sorted(known, key=len):
            if path in found:
                found |= {(*path, token): found[path] * p for token, p in known[path].items()}
        return found

    def unknown(self, known: Mapping[Path, Mapping[int, float]]) -> list[Path]:
        """The nodes that still have to be looked into, the shortest first."""
        found = self.reached(known)
        least = NEGLIGIBLE * sum(self.masses(known).values())
        wanted = [path for path, p in found.items() if self.inner(path) and path not in known and p > least]
        return sorted(wanted, key=len)

    def masses(self, known: Mapping[Path, Mapping[int, float]]) -> dict[str, float]:
        """The probability of each option, of any spelling. They sum to 1 at most."""
        found = self.reached(known)
        masses = dict.fromkeys(self.options, 0.0)
        for path, option in self.ends.items():
            goes_on = sum(known.get(path, {}).values())
            masses[option] += found.get(path, 0.0) * max(0.0, 1.0 - goes_on)
        return masses


def trie_of(options: Sequence[str], encode: Callable[[str], Sequence[int]]) -> Trie:
    """The trie of all spellings of these options. encode: text -> tokens, without marks of beginning and end."""
    line = tuple(encode("\n"))
    spelled: dict[tuple[str, Path], None] = {}
    for option in options:
        for spelling in _spellings(option):
            spelled[option, tuple(encode(spelling))] = None
            # Tokenizers of the SentencePiece kind put a space before everything but what follows a line break.
            after = tuple(encode(f"\n{spelling}"))
            if after[: len(line)] == line and len(after) > len(line):
                spelled[option, after[len(line) :]] = None
    return Trie(options, spelled)


def _spellings(option: str) -> list[str]:
    ways = dict.fromkeys((option, option.lower(), option.upper(), option.capitalize()))
    return [lead + way for way in ways for lead in ("", " ")]
