"""Complex-Edit's options, and how its judge is asked: samples of one judgement, or one query's probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Any, ClassVar, Literal, cast, get_args

from ...card import Card
from ...engine.program import Abstained, Ask, Failed, Program, ask, unparsable_reply
from ...queries.answers import Outcome
from ...queries.kinds import Judge
from ...queries.outcomes import Abstention, Failure
from ...queries.response_formats import FreeText, Grade, Message, Reply
from ...score import Evidence, Score
from ..prompted_metric import PromptedMetric, refuse

ScoringMode = Literal["numeric", "token_probability", "expected"]
MODES: tuple[ScoringMode, ...] = get_args(ScoringMode)
Sampling = Literal["sampled", "deterministic"]

DRAWS_PER_SEED = 1000
"""Draws per seed: seed s has the DRAWS_PER_SEED draws from s * DRAWS_PER_SEED on."""


@dataclass(frozen=True)
class ComplexEditOptions(PromptedMetric):
    """The options of all metrics of Complex-Edit. mode: `numeric`: the mean of `n` integers from 0 to 10, sampled at
    temperature 1.0 (as in the paper); `token_probability`: ten times P(yes) / (P(yes) + P(no)) of one query;
    `expected`: the expectation over 0 to 10 of one query. The last two need a judge that gives probabilities, without
    reasoning; the card states the cost (its figures for token probability are our reading of rows of table 2 whose
    label is not printed). seed: selects the draws, which seeds do not share; a larger `n` adds some. max_replacements:
    of failed samples, by further draws; if more fail, so does the score. reasoning: before the grade; None: in mode
    `numeric` for following and preservation. True with `token_probability`: each of `n` samples reasons first. rubric:
    what the grades stand for; `token_probability` has none. sampling:
    `deterministic`: one query at temperature 0 (the paper's probability mass of 1e-7). paper: criteria and rubrics are
    sent as a system prompt (figure 16). Raises ValueError for an invalid option."""

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
    package: ClassVar[str] = __package__
    variant: ClassVar[str] = "mode"
    choices: ClassVar[Mapping[str, Collection[object]]] = {"mode": MODES, "sampling": get_args(Sampling)}

    def __post_init__(self) -> None:
        super().__post_init__()
        mode, draws = self.mode, self.n + self.max_replacements
        given = f"n={self.n}, max_replacements={self.max_replacements}, seed={self.seed}"
        once = "by deterministic sampling" if mode == "numeric" else f"in mode {mode}"
        of_draws = [f"{name}={value}" for name, value in self.changed_options().items() if name in _OF_DRAWS]
        problems = {
            f"needs n >= 1, max_replacements >= 0 and seed >= 0, got {given}": (
                self.n < 1 or self.max_replacements < 0 or self.seed < 0
            ),
            f"has {DRAWS_PER_SEED} draws per seed, got n + max_replacements = {draws}: lower n": draws > DRAWS_PER_SEED,
            "has no reasoning in mode expected: leave it out, or take mode numeric": (
                mode == "expected" and self.reasoning
            ),
            "has no rubric in mode token_probability: leave the option out": (
                mode == "token_probability" and not self.rubric
            ),
            f"has sampling={self.sampling} in mode numeric only: leave it out": (
                mode != "numeric" and self.sampling != "sampled"
            ),
            f"sends one query {once}, got {', '.join(of_draws)}: leave it out": self.asks_once and of_draws,
            f"has the paper's system prompt in mode numeric only, not in {mode}": self.paper and mode != "numeric",
        }
        refuse(self.card.name, problems)

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


_OF_DRAWS = ("n", "seed", "max_replacements")

MAX_GRADE = 10
"""The highest grade; the lowest is 0."""


@dataclass(frozen=True, slots=True)
class JudgeSamples:
    """Samples of one judgement: values in the order of the draws, and evidence of the draws that failed."""

    draws: tuple[int, ...]
    values: tuple[Any, ...]
    failed_draws: tuple[Evidence, ...]

    def mean_score(self, grades: Sequence[int], reasons: Sequence[str] = ()) -> Score:
        """The mean of the grades with their spread and replaced draws; of the reasons, one a draw, that of the nearest
        grade."""
        mean, low, high = fmean(grades), min(grades), max(grades)
        numbers = {"mean": mean, "std": pstdev(grades), "lowest": float(low), "highest": float(high)}
        listed = " ".join(map(str, grades))
        evidence = [Evidence("measurements", text=listed, numbers={**numbers, "n": float(len(grades))})]
        if reasons:
            nearest = min(range(len(grades)), key=lambda index: abs(grades[index] - mean))
            sample_numbers = {"draw": float(self.draws[nearest]), "grade": float(grades[nearest])}
            evidence.append(Evidence("reasoning nearest to the mean", text=reasons[nearest], numbers=sample_numbers))
        if self.failed_draws:
            replaced = Evidence("replaced", numbers={"measurements": float(len(self.failed_draws))})
            evidence += [replaced, *self.failed_draws]
        return Score.of(mean, f"mean of {len(grades)} grades from {low} to {high}", evidence=evidence)


def sample_judgements(options: ComplexEditOptions, question: Judge) -> Program[JudgeSamples]:
    """`options.n` samples of one judgement in one batch; one if deterministic. What failed is replaced by the next
    unused draw, the same for metrics that share a judgement. Raises `Failed` if too many did, else `Abstained`."""
    first = options.seed * DRAWS_PER_SEED
    num_samples, num_replacements = (1, 0) if options.asks_once else (options.n, options.max_replacements)
    draws = range(first, first + num_samples)
    values: dict[int, Any] = {}
    failed: dict[int, Failure] = {}
    while draws:
        outcomes = cast("tuple[Outcome, ...]", (yield Ask(tuple(replace(question, draw=draw) for draw in draws))))
        replaced = len(failed)
        for draw, outcome in zip(draws, outcomes, strict=True):
            value = _value(question, outcome)
            if isinstance(value, Failure):
                failed[draw] = value
            else:
                values[draw] = value
        if len(failed) > num_replacements:
            reasons = "; ".join(list(dict.fromkeys(map(_reason, failed.values())))[:3])
            most = options.max_replacements
            allowed = f"only {most} of {options.n} may be replaced (max_replacements={most})"
            what = f"{len(failed)} measurements failed, and {allowed}"
            what = "the deterministic measurement failed" if options.asks_once else what
            raise Failed(f"{question.topic}: {what}: {reasons}", tuple(failed.values()))
        for value in values.values():
            if isinstance(value, Abstention):
                raise Abstained(value.reason, outcomes)
        draws = range(first + num_samples + replaced, first + num_samples + len(failed))
    evidence = []
    for draw, failure in failed.items():
        raw_output = f", instead of an answer: {failure.raw}" if failure.raw else ""
        text = f"{_reason(failure)}{raw_output}"
        evidence.append(Evidence("measurement that failed", text=text, numbers={"draw": float(draw)}))
    return JudgeSamples(tuple(values), tuple(values.values()), tuple(evidence))


def _value(question: Judge, outcome: Outcome) -> Any:
    """The value of a reply by the query's response format; a `Failure` if it cannot be parsed."""
    if not isinstance(outcome, Reply):
        return outcome
    try:
        return question.form.reply_value(outcome)
    except ValueError as error:
        return Failure(f"the judge gave no answer: {error}", raw=outcome.text)


def _reason(failure: Failure) -> str:
    return f"{failure.reason} ({failure.expert})" if failure.expert else failure.reason


def yes_no_answer(options: ComplexEditOptions) -> str:
    """The end of a question for yes or no: the word alone, or first the reasons for it."""
    return options.prompt_pack.render("answer_reasons" if options.reasoning else "answer_yes_no")


def yes_probability(options: ComplexEditOptions, question: Judge) -> Program[Score]:
    """Ten times P(yes) / (P(yes) + P(no)); with reasoning, the mean over its samples. Raises `Failed` without
    probabilities."""
    if not options.reasoning:
        value, evidence = yield from _yes_share(question)
        return Score.of(MAX_GRADE * value, f"yes with probability {value:.3f}, times {MAX_GRADE}", evidence=[evidence])
    reasoning_form = FreeText(max_tokens=1024, temperature=1.0)
    samples = yield from sample_judgements(options, replace(question, form=reasoning_form))
    last = Message((options.prompt_pack.render("answer_yes_no"),))
    shares, probabilities = [], []
    for reasoning in samples.values:
        turns = (*question.messages, Message((reasoning,), "assistant"), last)
        share, evidence = yield from _yes_share(replace(question, messages=turns))
        shares.append(share)
        probabilities.append(evidence)
    value = fmean(shares)
    numbers = {"mean": value, "std": pstdev(shares), "lowest": min(shares), "highest": max(shares)}
    measured = Evidence("measurements", numbers={**numbers, "n": float(len(shares))})
    reason = f"yes with probability {value:.3f} after {len(shares)} reasonings, times {MAX_GRADE}"
    return Score.of(MAX_GRADE * value, reason, evidence=[measured, *probabilities, *samples.failed_draws])


def _yes_share(question: Judge) -> Program[tuple[float, Evidence]]:
    """P(yes) / (P(yes) + P(no)), with both as evidence."""
    reply = yield from ask(question)
    yes, no = (reply.probabilities.get(option) for option in ("yes", "no"))
    if yes is None or no is None or yes + no <= 0:
        raise _without_probabilities(question, "token_probability", reply)
    numbers = {"yes": yes, "no": no, **_mass(reply)}
    return yes / (yes + no), Evidence("probabilities", question.images[-1].digest, text=reply.text, numbers=numbers)


def expected_grade(question: Judge) -> Program[Score]:
    """The expected grade over the probabilities. Raises `Failed` for a judge that gives none."""
    reply = yield from ask(question)
    assert isinstance(question.form, Grade)
    total = sum(reply.probabilities.values())
    if total <= 0:
        raise _without_probabilities(question, "expected", reply)
    value = question.form.expected_value(reply) / total  # they may sum to slightly less than 1
    numbers = {**{grade: float(p) for grade, p in reply.probabilities.items()}, **_mass(reply)}
    evidence = Evidence("probabilities", question.images[-1].digest, text=reply.text, numbers=numbers)
    return Score.of(value, f"expected over the probabilities of 0 to {MAX_GRADE}", evidence=[evidence])


def _mass(reply: Reply) -> dict[str, float]:
    return {} if reply.option_mass is None else {"mass": float(reply.option_mass)}


def _without_probabilities(question: Judge, mode: str, reply: Reply) -> Failed:
    return unparsable_reply(
        f"{question.topic}: mode {mode} needs the judge's probabilities, and this judge gives none: use mode numeric, "
        "or a judge that gives them",
        reply,
    )
