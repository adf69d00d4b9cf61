"""The options that all metrics of Complex-Edit share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...queries.prompts import Prompts

ScoringMode = Literal["numeric", "token_probability", "expected"]
MODES: tuple[ScoringMode, ...] = get_args(ScoringMode)
Sampling = Literal["sampled", "deterministic"]

DRAWS_PER_SEED = 1000
"""Draws per seed: seed s has the DRAWS_PER_SEED draws from s * DRAWS_PER_SEED on."""


@dataclass(frozen=True)
class ComplexEditOptions:
    """The options of all metrics of Complex-Edit.

    mode: `numeric`: the mean of `n` integers from 0 to 10, sampled at temperature 1.0 (as in the paper).
        `token_probability`: ten times P(yes) / (P(yes) + P(no)) of one query. `expected`: the expectation over 0 to 10
        of one query. The last two take one forward pass of a judge that gives probabilities, without reasoning; the
        card states the cost in correlation (its figures for token probability are our reading of rows of table 2 whose
        label is not printed).
    n: samples that are averaged. seed: selects the draws; seeds share no draws, and a larger `n` adds draws to those of
        a smaller one.
    max_replacements: failed samples that are replaced by further draws; if more fail, the score fails.

    The cells of tables 1 and 2; the defaults are the paper's choice:

    reasoning: before the grade. None: in mode `numeric` for following and preservation, not for quality; not in other
        modes. True with `token_probability`: each of `n` samples reasons first, and is then asked for yes or no.
    rubric: with what the grades of the scale stand for. Mode `token_probability` has none.
    sampling: `deterministic`: one query at temperature 0 instead of `n` samples (the paper's probability mass of 1e-7).

    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.
    paper: criteria and rubrics are sent as a system prompt (figure 16), and the rest is
        the user's message.

    Raises ValueError for an invalid option.
    """

    mode: ScoringMode = "numeric"
    n: int = 20
    seed: int = 0
    max_replacements: int = 2
    prompts: str | None = None
    paper: bool = False
    reasoning: bool | None = None
    rubric: bool = True
    sampling: Sampling = "sampled"
    card: ClassVar[Card]

    def __post_init__(self) -> None:
        name = self.card.name
        if self.mode not in MODES:
            raise ValueError(f"unknown mode {self.mode!r}: {name} has {', '.join(MODES)}")
        if self.n < 1 or self.max_replacements < 0 or self.seed < 0:
            raise ValueError(
                f"{name} needs n >= 1, max_replacements >= 0 and seed >= 0, got n={self.n}, "
                f"max_replacements={self.max_replacements}, seed={self.seed}"
            )
        if self.n + self.max_replacements > DRAWS_PER_SEED:
            raise ValueError(
                f"{name} has {DRAWS_PER_SEED} draws per seed, got n + max_replacements = "
                f"{self.n + self.max_replacements}: lower n"
            )
        if self.sampling not in get_args(Sampling):
            raise ValueError(f"unknown sampling {self.sampling!r}: {name} has {', '.join(get_args(Sampling))}")
        if self.mode == "expected" and self.reasoning:
            raise ValueError(f"{name} has no reasoning in mode expected: leave it out, or take mode numeric")
        if self.mode == "token_probability" and not self.rubric:
            raise ValueError(f"{name} has no rubric in mode token_probability: leave the option out")
        if self.mode != "numeric" and self.sampling != "sampled":
            raise ValueError(f"{name} has sampling={self.sampling} in mode numeric only: leave it out")
        sampling_options = [
            option
            for option in self._non_default_options()
            if option.partition("=")[0] in ("n", "seed", "max_replacements")
        ]
        if self.asks_once and sampling_options:
            how = "by deterministic sampling" if self.mode == "numeric" else f"in mode {self.mode}"
            raise ValueError(f"{name} sends one query {how}, got {', '.join(sampling_options)}: leave it out")
        if self.paper and self.mode != "numeric":
            raise ValueError(f"{name} has the paper's system prompt in mode numeric only, not in {self.mode}")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @property
    def asks_once(self) -> bool:
        """Whether one query is sent, and nothing averaged."""
        if self.mode == "numeric":
            return self.sampling == "deterministic"
        return not (self.mode == "token_probability" and self.reasoning)

    @property
    def temperature(self) -> float:
        """Of grades in mode `numeric`: the released code's 1.0, or 0."""
        return 0.0 if self.sampling == "deterministic" else 1.0

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(__package__, self.prompts)

    def _non_default_options(self) -> list[str]:
        """Options with non-default values, except mode and prompts."""
        values = ((option.name, getattr(self, option.name), option.default) for option in fields(self))
        return [
            f"{name}={value}" for name, value, default in values if value != default and name not in ("mode", "prompts")
        ]

    @cached_property
    def signature(self) -> str:
        """As in `complex-edit-if@2/numeric[n=5]`, with a prompt pack's digest."""
        return self.card.signature_with(self.mode, [*self._non_default_options(), *self.prompt_pack.options])
