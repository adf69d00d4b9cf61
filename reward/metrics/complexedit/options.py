"""How Complex-Edit's judge is asked: what its metrics have in common."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ..card import Card
from ..prompts import Prompts

Mode = Literal["numeric", "token_probability", "expected"]
MODES: tuple[Mode, ...] = get_args(Mode)

DRAWS = 1000
"""Draws that belong to one seed: seed s has s * DRAWS to s * DRAWS + DRAWS - 1."""


@dataclass(frozen=True)
class Options:
    """The options of all metrics of Complex-Edit.

    mode: `numeric`: the mean of `n` integers from 0 to 10, drawn at temperature 1.0 (the paper's way).
        `token_probability`: ten times P(yes) / (P(yes) + P(no)) of one question. `expected`: the expectation over 0 to
        10 of one question. The last two take one forward pass and a judge that gives probabilities, and use no
        reasoning; what that costs, the card says (its figures for token probability are the rows of table 2 that are
        read as such: the print leaves their label open).
    n: measurements that are averaged. seed: which draws they are; no two seeds have a draw in common, and a larger `n`
        asks anew only what it has more.
    spare: so many measurements that failed are replaced by further draws; if more fail, the score does.
    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.
    """

    mode: Mode = "numeric"
    n: int = 20
    seed: int = 0
    spare: int = 2
    prompts: str | None = None
    card: ClassVar[Card]

    def check(self) -> None:
        """Raise ValueError for a value that means nothing."""
        name = self.card.name
        if self.mode not in MODES:
            raise ValueError(f"unknown mode {self.mode!r}: {name} has {', '.join(MODES)}")
        if self.n < 1 or self.spare < 0 or self.seed < 0:
            raise ValueError(
                f"{name} wants n >= 1, spare >= 0 and seed >= 0, got n={self.n}, spare={self.spare}, seed={self.seed}"
            )
        if self.n + self.spare > DRAWS:
            raise ValueError(f"{name} has {DRAWS} draws a seed, got n + spare = {self.n + self.spare}: lower n")
        measuring = [said for said in self._changed() if said.partition("=")[0] in ("n", "seed", "spare")]
        if self.mode != "numeric" and measuring:
            raise ValueError(f"{name} asks once in mode {self.mode}, got {', '.join(measuring)}: leave it out")
        Prompts(__package__, self.prompts)  # refuses a pack that is no folder

    def _changed(self) -> list[str]:
        """Options that are not the default, but for mode and prompts."""
        values = ((option.name, getattr(self, option.name), option.default) for option in fields(self))
        return [f"{name}={value}" for name, value, old in values if value != old and name not in ("mode", "prompts")]

    @cached_property
    def signature(self) -> str:
        """As in `complex-edit-if@1/numeric[n=5]`, with a prompt pack's digest."""
        return self.card.signed(self.mode, [*self._changed(), *self.words.options])

    @property
    def words(self) -> Prompts:
        """The prompts of this package, with the pack over them."""
        return Prompts(__package__, self.prompts)
