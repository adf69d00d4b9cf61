"""Several rewards score the edits of a preference set, in one engine, so that they share queries.

The set is read once, in blocks of few comparisons, whose pictures are in memory together. An edit that occurs in
several comparisons is scored once by each reward.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ...reward import EditSample, Engine, Image, ImageError, Reward, Score, build, default_experts, load_experts
from ...reward.image import FileIndex
from ...reward.metrics.pairwise import PairedSampleMetric, PairwiseJudge, pack_pair
from ...reward.sample import SampleTooLarge
from ..common.errors import InputError
from ..common.inputs import spec_argument
from ..common.problems import Problems
from ..suites.human_preferences.comparison import Comparison
from ..suites.rows import DataProblem

PAIRWISE = "pairwise-judge"  # the name of the reward that sees both edits of a pair
_BLOCK = 16  # comparisons whose pictures are in memory at once


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reward says of an edit, or of a pair: a value, or None and why."""

    value: float | None
    status: str
    reason: str = ""

    @staticmethod
    def of(score: Score) -> Outcome:
        return Outcome(score.value, score.status, score.reason)


@dataclass(frozen=True)
class PreferenceReward:
    """A reward under comparison. name: in tables. pairwise: it scores pairs, packed as one sample."""

    name: str
    reward: Reward
    pairwise: bool = False


@dataclass(frozen=True)
class JudgedComparison:
    """A comparison without its pictures, with what the rewards say. case: comparisons with the same source picture.
    edits: reward -> candidate -> outcome; empty for a pairwise reward. pairs: reward -> pair -> the outcome whose value
    is above 0 where the first edit is better."""

    id: str
    group: str
    case: str
    preferences: Mapping[tuple[str, str], int]
    ratings: Mapping[str, float]
    others: Mapping[str, tuple[tuple[float, float], ...]]
    labels: Mapping[str, str]
    edits: Mapping[str, Mapping[str, Outcome]]
    pairs: Mapping[str, Mapping[tuple[str, str], Outcome]]


@dataclass
class ScoredSet:
    """What was read and scored. problems: rows that are no comparison. statuses: reward -> status -> number of edits
    (of pairs for a pairwise reward). missing_pictures: pictures that could not be read, counted once per edit."""

    comparisons: list[JudgedComparison] = field(default_factory=list)
    problems: Problems[str] = field(default_factory=Problems)
    missing_pictures: int = 0
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)


def load_rewards(
    specs: Sequence[str], experts: Sequence[str] | None, engine: Engine, **options: Any
) -> list[PreferenceReward]:
    """Rewards by name, TOML file, or as `pairwise-judge`, on one engine and with the same experts. A reward has the
    name of its card, or if several have the same, that which was given. experts: bindings as in `load_experts`, beside
    those that need no download. options: of `Reward`. Raises `SpecError` or `InputError` for a reward that cannot be
    built or is given twice."""
    if len(set(specs)) < len(specs):
        raise InputError(f"--reward {next(name for name in specs if specs.count(name) > 1)} is given twice")
    shared = load_experts(experts or (), default_experts())
    rewards: list[Reward] = []
    for name in specs:
        try:
            if name == PAIRWISE:
                metric, bound = PairedSampleMetric(PairwiseJudge()), shared
            else:
                spec = spec_argument(name)
                bound = shared
                if isinstance(spec, Mapping) and "reward" in spec:
                    if (own := spec.get("experts")) is not None:
                        bound = load_experts(experts or (), load_experts(own))
                    spec = spec["reward"]
                metric = build(spec)
            rewards.append(Reward(metric, bound, engine=engine, **options))
        except ImportError as error:
            raise InputError(f"{name} cannot be loaded: {error}; `editcritic doctor` lists what to install") from None
        except (ValueError, AttributeError) as error:
            raise InputError(f"--reward {name}: {error}") from None
    cards = Counter(reward.card.name for reward in rewards)
    return [
        PreferenceReward(spec if cards[reward.card.name] > 1 else reward.card.name, reward, pairwise=spec == PAIRWISE)
        for spec, reward in zip(specs, rewards, strict=True)
    ]


def score_comparisons(
    rows: Iterable[Comparison | DataProblem],
    rewards: Sequence[PreferenceReward],
    *,
    index: FileIndex | None = None,
    on_comparison: Callable[[], None] = lambda: None,
) -> ScoredSet:
    """Score every edit of every comparison. index: file digest -> image digest, to avoid decoding. on_comparison:
    called after each. Raises `TooManyFailures`, `InputError` for files that cannot be read."""
    scored = ScoredSet(
        statuses={reward.name: Counter() for reward in rewards}, reasons={reward.name: [] for reward in rewards}
    )
    known: dict[tuple[str, str], Outcome] = {}  # by reward, and digest of what it scored

    def valid() -> Iterator[Comparison]:
        for row in rows:
            if isinstance(row, DataProblem):
                scored.problems.append(str(row))
            else:
                yield row

    comparisons = valid()
    while block := list(islice(comparisons, _BLOCK)):
        opened = [_open(comparison, index) for comparison in block]
        outcomes = {reward.name: _score_block(reward, opened, known) for reward in rewards}
        for position, item in enumerate(opened):
            scored.missing_pictures += len(item.missing)
            judged = _judged(item, {name: values[position] for name, values in outcomes.items()}, rewards)
            for name, values in outcomes.items():
                for outcome in values[position].values():
                    scored.statuses[name][outcome.status] += 1
                    if outcome.value is None:
                        scored.reasons[name].append(outcome.reason)
            scored.comparisons.append(judged)
            on_comparison()
    return scored


@dataclass(frozen=True)
class _Opened:
    """A comparison with its pictures read. samples: candidate -> sample. missing: candidate -> why it has none."""

    comparison: Comparison
    case: str
    samples: Mapping[str, EditSample]
    missing: Mapping[str, str]


def _open(comparison: Comparison, index: FileIndex | None) -> _Opened:
    sources: list[Image] = []
    problem = ""
    for picture in comparison.sources:
        try:
            sources.append(picture.open(index))
        except ImageError as error:
            problem = f"the source: {error}"
            break
    case = comparison.group if problem else " ".join(image.digest for image in sources)
    samples, missing = {}, {}
    for name, picture in comparison.candidates.items():
        try:
            if problem:
                raise ImageError(problem)
            edited = picture.open(index)
            samples[name] = EditSample(f"{comparison.id}/{name}", comparison.instruction, tuple(sources), edited)
        except (ImageError, SampleTooLarge) as error:
            missing[name] = str(error)
    return _Opened(comparison, case, samples, missing)


def _score_block(
    reward: PreferenceReward, block: Sequence[_Opened], known: dict[tuple[str, str], Outcome]
) -> list[dict[object, Outcome]]:
    """For each comparison: candidate, or pair of candidates, -> outcome."""
    asked: list[dict[object, EditSample]] = []
    outcomes: list[dict[object, Outcome]] = []
    for item in block:
        samples: dict[object, EditSample] = {}
        failed: dict[object, str] = {}
        if reward.pairwise:
            samples, failed = _packed_pairs(item)
        else:
            samples.update(item.samples)
            failed.update(item.missing)
        asked.append(samples)
        outcomes.append({name: Outcome(None, "failed", reason) for name, reason in failed.items()})
    pending: dict[tuple[str, str], EditSample] = {}
    for samples in asked:
        for sample in samples.values():
            key = (reward.name, _content(sample))
            if key in known or key in pending:
                continue
            if lacking := reward.reward.missing_fields(sample):
                reason = f"{reward.reward.card.name} needs {', '.join(lacking)}, which the set does not have"
                known[key] = Outcome(None, "failed", reason)
            else:
                pending[key] = sample
    for key, score in zip(pending, reward.reward.stream(pending.values()), strict=True):
        known[key] = Outcome.of(score)
    for samples, named in zip(asked, outcomes, strict=True):
        named |= {name: known[reward.name, _content(sample)] for name, sample in samples.items()}
    return outcomes


def _packed_pairs(item: _Opened) -> tuple[dict[object, EditSample], dict[object, str]]:
    samples: dict[object, EditSample] = {}
    missing: dict[object, str] = {}
    for pair in item.comparison.preferences:
        reasons = [item.missing[name] for name in pair if name in item.missing]
        if reasons:
            missing[pair] = reasons[0]
        else:
            samples[pair] = pack_pair(*(item.samples[name] for name in pair))
    return samples, missing


def _content(sample: EditSample) -> str:
    """Digest of all that the set gives to score; of a pair, the first edit is in the history."""
    parts = [sample.instruction, *(image.digest for image in sample.sources), sample.edited.digest]
    parts += [turn.edited.digest for turn in sample.history]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _judged(
    item: _Opened, outcomes: Mapping[str, Mapping[object, Outcome]], rewards: Sequence[PreferenceReward]
) -> JudgedComparison:
    comparison = item.comparison
    edits: dict[str, dict[str, Outcome]] = {}
    pairs: dict[str, dict[tuple[str, str], Outcome]] = {}
    for reward in rewards:
        values = outcomes[reward.name]
        if reward.pairwise:
            edits[reward.name] = {}
            pairs[reward.name] = {pair: _preferred(values[pair]) for pair in comparison.preferences}
        else:
            edits[reward.name] = {name: values[name] for name in comparison.candidates}
            pairs[reward.name] = {(a, b): _difference(values[a], values[b]) for a, b in comparison.preferences}
    return JudgedComparison(
        comparison.id,
        comparison.group,
        item.case,
        comparison.preferences,
        comparison.ratings,
        comparison.others,
        comparison.labels,
        edits,
        pairs,
    )


def _difference(first: Outcome, second: Outcome) -> Outcome:
    """The difference of two values; without one of them, its outcome."""
    if first.value is None or second.value is None:
        return first if first.value is None else second
    return Outcome(first.value - second.value, "scored")


def _preferred(outcome: Outcome) -> Outcome:
    """A pairwise value in [0, 1] as a difference in [-1, 1]."""
    return outcome if outcome.value is None else replace(outcome, value=2 * outcome.value - 1)
