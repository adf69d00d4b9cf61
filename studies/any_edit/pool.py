"""The pool: outputs of five editors for the same prompts, each with its truth; and the rewards' agreement with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.human_eval.weighted_statistics import PairedObservations, srcc
from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.experts.expert_noise import NoisyExpert
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt, recovered_truth
from editcritic.benchmarks.suites.bootstrap import Numbers, Statistic, bootstrap_weights
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import EditSample, Engine, Expert, Image, Reward, Score
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.queries import Abstention
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.kinds import Query
from editcritic.reward.queries.specs import Spec
from editcritic.reward.score import Status
from studies.five_editors import check_folder, make_outputs
from studies.validity.oracle import Oracle

EDIT_BALANCED, ANY_EDIT = "edit-balanced", "any-edit"
REWARDS: Mapping[str, Spec] = {
    EDIT_BALANCED: "edit-balanced?prompt_injection_guard=false",
    ANY_EDIT: "any-edit?text_guard=false",
}
"""Rewards on images of 32 px, whose letters cannot be read: the guards against text are off."""
FOLLOWING_METRIC = "any-edit-following"
"""F alone: behind the guards it has no value for a rejected edit."""

Setting = Literal["given", "pixels"]
SETTINGS: tuple[Setting, ...] = get_args(Setting)
"""given: detector, judge and reader know the scene graph (`validity/oracle.py`), so that only a reward's rules are
measured. pixels: SceneEdit's experts, which err: at 32 px in one of eight verdicts."""

_FOLLOWING_NAMES = ("following",)
_PRESERVATION_NAMES = ("preservation", "consistency")
_PERFECT_ROLES = ("detector", "judge", "reader")


@dataclass(frozen=True, slots=True)
class EditScore:
    """A score with its parts. value, following, preservation: None where there is none, as behind a guard."""

    value: float | None
    status: Status
    rejected: bool
    following: float | None
    preservation: float | None
    reason: str

    @staticmethod
    def of(score: Score) -> EditScore:
        return EditScore(
            score.value,
            score.status,
            score.rejected,
            _part(score, _FOLLOWING_NAMES),
            _part(score, _PRESERVATION_NAMES),
            score.reason,
        )


def _part(score: Score, names: Sequence[str]) -> float | None:
    """The value of the first part of one of these names, breadth first."""
    level = [score]
    while level:
        for parent in level:
            for name in names:
                if name in parent.parts:
                    return parent.parts[name].value
        level = [part for parent in level for part in parent.parts.values()]
    return None


def score_edits(
    spec: Spec, samples: Iterable[EditSample], experts: Mapping[str, Expert], log: AnswerLog | None = None
) -> list[EditScore]:
    """The score of each sample. log: keeps the answers, so that an interrupted run continues."""
    with Engine(log=log) as engine:
        reward = Reward.of(spec, experts, engine=engine, on_failures="none")
        return [EditScore.of(score) for score in reward(list(samples))]


def statuses(scores: Iterable[EditScore]) -> dict[str, int]:
    """Number of scores by status; `rejected` are those scored 0 by a guard, and not among the `scored`."""
    counts = Counter("rejected" if score.rejected else score.status for score in scores)
    return {name: counts[name] for name in ("scored", "rejected", "abstained", "failed", "not_applicable")}


# -- experts ----------------------------------------------------------------------------------------------------------


class OracleFirst(Expert):
    """The oracle's answer, or that of a SceneEdit expert where the oracle abstains (another topic, no scene graph)."""

    def __init__(self, oracle: Oracle, other: Expert) -> None:
        self._oracle, self._other = oracle, other
        self.id = f"{oracle.id} else {other.id}"
        self.kinds = other.kinds  # type: ignore[misc]  # depends on the wrapped expert
        self.batch, self.concurrency, self.deadline_s = other.batch, other.concurrency, other.deadline_s

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        outcomes = self._oracle(queries)
        missing = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, Abstention)]
        others = self._other([queries[index] for index in missing]) if missing else []
        for index, outcome in zip(missing, others, strict=True):
            outcomes[index] = outcome
        return outcomes


def experts_for(setting: Setting, cases: Iterable[Case]) -> dict[str, Expert]:
    """The experts of a setting, by role. cases: whose scene graphs the oracle knows."""
    experts = scene_experts()
    if setting == "pixels":
        return experts
    oracle = Oracle(cases)
    return experts | {role: OracleFirst(oracle, experts[role]) for role in _PERFECT_ROLES}


def with_wrong_answers(experts: Mapping[str, Expert], level: float, seed: int) -> dict[str, Expert]:
    """A judge that flips this share of its answers, and a detector that misses this share of the objects."""
    if not level:
        return dict(experts)
    judge = NoisyExpert(experts["judge"], flips=level, seed=seed)
    detector = NoisyExpert(experts["detector"], misses=level, seed=seed)
    return {**experts, "judge": judge, "detector": detector}


@dataclass(frozen=True, slots=True)
class PoolEdit:
    """An output of an editor. prompt: seed and item, shared by the outputs of one source and instruction.

    case: its sample, its scenes (`after` is recovered from the pixels), and the truth. unchanged: the share, in [0, 1],
    of pixels outside of the target that are as in the source (`recovered_truth`).
    """

    editor: str
    prompt: str
    case: Case
    unchanged: float

    @property
    def followed(self) -> bool:
        return self.case.truth.followed

    @property
    def worth(self) -> float:
        """The truth that a score is compared with: followed times unchanged, in [0, 1]."""
        return float(self.followed) * self.unchanged


def load_pool(seed: int, prompts: int, out: Path) -> list[PoolEdit]:
    """The pool of one seed, editor by editor. out: its folder, as `five_editors` makes it; what is there is reused.

    Raises `InputError` for a folder of other prompts, and without diffusers if outputs are missing.
    """
    check_folder(out, prompts, seed)
    suite = SceneEdit(prompts=prompts, seed=seed)
    edits = []
    for editor, folder in make_outputs(suite, out).items():
        for item in suite.items:
            path, prompt = suite.find_output(folder, item), prompt_of(item.sample)
            assert path is not None  # made above
            assert prompt is not None  # every item of the suite has one
            edits.append(_pool_edit(seed, editor, item, prompt, Image.of(path)))
    return edits


def _pool_edit(seed: int, editor: str, item: SuiteItem, prompt: ScenePrompt, edited: Image) -> PoolEdit:
    truth = recovered_truth(prompt.request, prompt.before, edited)
    sample = replace(item.sample, id=f"{seed}/{editor}/{item.id}", edited=edited, metadata={})
    ground = GroundTruth(truth.followed, None, truth.unchanged)
    case = Case(sample, ground, prompt.request.task.type, before=prompt.before, after=truth.recovered)
    return PoolEdit(editor, f"{seed}/{item.id}", case, truth.unchanged)


def editors_of(edits: Sequence[PoolEdit]) -> list[str]:
    """The editors, in order."""
    return list(dict.fromkeys(edit.editor for edit in edits))


MARGINS = (0.0, 0.02)
"""Pairs count if their truths differ by more than this. At 0 even one pixel of 1,024 counts; 0.02 is beyond what the
rendering noise of two honest edits differs by. The bars are at 0."""

Interval = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Figure:
    """A statistic with its 95 % interval over prompts, and the number of observations behind it."""

    value: float | None
    interval: Interval = None
    count: int = 0

    @staticmethod
    def of(statistic: Statistic) -> Figure:
        weights = bootstrap_weights(statistic.cases)
        return Figure(statistic.value, statistic.interval(weights), statistic.count)

    @property
    def text(self) -> str:
        """As in `0.914 (0.905 to 0.922)`."""
        if self.value is None:
            return "undefined"
        return f"{self.value:.3f}" + (f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})" if self.interval else "")


@dataclass(frozen=True)
class PoolScores:
    """The scores of a reward on a pool, edit by edit."""

    edits: Sequence[PoolEdit]
    scores: Sequence[EditScore]

    def values(self) -> list[float]:
        """The reward's values; 0 without one, the lowest, so that it never pays."""
        return [score.value or 0.0 for score in self.scores]

    def with_true_following(self) -> list[float]:
        """True following times the reward's preservation: what is lost is its fault. Without a part: 0."""
        return [
            0.0 if score.preservation is None else float(edit.followed) * score.preservation
            for edit, score in zip(self.edits, self.scores, strict=True)
        ]

    def with_true_preservation(self) -> list[float]:
        """The verdict of the reward's following times the true unchanged share: what is lost is the verdict's fault."""
        return [
            0.0 if score.following is None else float(score.following >= 0.5) * edit.unchanged
            for edit, score in zip(self.edits, self.scores, strict=True)
        ]

    def spearman(self, values: Sequence[float]) -> Statistic:
        """Spearman of these values with followed x unchanged."""
        rows = zip(self._prompt_numbers, values, (edit.worth for edit in self.edits), strict=True)
        return srcc(PairedObservations.of(list(rows), len(self.prompts)))

    def pair_order(
        self, values: Sequence[float], *, followed_only: bool = False, margin: float = MARGINS[0]
    ) -> Statistic:
        """Share of pairs of one source, two editors, in the right order; a tie counts half. Truths must differ.

        followed_only: both edits are followed, so that the unchanged share alone decides.
        """
        by_prompt: dict[int, list[int]] = {}
        for index, number in enumerate(self._prompt_numbers):
            by_prompt.setdefault(number, []).append(index)
        right: list[float] = []
        prompts: list[int] = []
        for number, indices in by_prompt.items():
            for first, second in combinations(indices, 2):
                a, b, x, y = self.edits[first], self.edits[second], values[first], values[second]
                if abs(a.worth - b.worth) <= margin or (followed_only and not (a.followed and b.followed)):
                    continue
                right.append(0.5 if x == y else float((x > y) == (a.worth > b.worth)))
                prompts.append(number)
        return Statistic.mean(right, prompts, len(self.prompts))

    def editor_tau(self, values: Sequence[float]) -> Statistic:
        """Kendall's tau of the editors' mean values with their mean truths."""
        editors = editors_of(self.edits)
        means = [self._editor_mean(editor, values) for editor in editors]
        truths = [self._editor_mean(editor, [edit.worth for edit in self.edits]) for editor in editors]
        pairs = list(combinations(range(len(editors)), 2))

        def tau(*columns: Numbers) -> Numbers:
            x, y = columns[: len(editors)], columns[len(editors) :]
            signs = [np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i, j in pairs]
            taus: Numbers = np.mean(signs, axis=0)
            return taus

        return Statistic.combine(tau, *means, *truths, monotone=False)

    def editor_means(self, values: Sequence[float]) -> dict[str, float | None]:
        """Editor -> mean value."""
        return {editor: self._editor_mean(editor, values).value for editor in editors_of(self.edits)}

    def inversions(self, values: Sequence[float]) -> list[tuple[str, str]]:
        """Pairs of editors (worse, better) by the truth that the mean values put the other way round."""
        means = self.editor_means(values)
        truths = self.editor_means([edit.worth for edit in self.edits])
        inverted = []
        for pair in combinations(means, 2):
            worse, better = sorted(pair, key=lambda editor: truths[editor] or 0.0)
            if (means[worse] or 0.0) > (means[better] or 0.0):
                inverted.append((worse, better))
        return inverted

    def _editor_mean(self, editor: str, values: Sequence[float]) -> Statistic:
        rows = [
            (value, number)
            for edit, value, number in zip(self.edits, values, self._prompt_numbers, strict=True)
            if edit.editor == editor
        ]
        return Statistic.mean([value for value, _ in rows], [number for _, number in rows], len(self.prompts))

    @property
    def prompts(self) -> list[str]:
        """The prompts, in order."""
        return list(dict.fromkeys(edit.prompt for edit in self.edits))

    @property
    def _prompt_numbers(self) -> list[int]:
        numbers = {prompt: number for number, prompt in enumerate(self.prompts)}
        return [numbers[edit.prompt] for edit in self.edits]

    def of_seed(self, seed: int) -> PoolScores:
        """The edits of one seed."""
        chosen = [index for index, edit in enumerate(self.edits) if edit.prompt.startswith(f"{seed}/")]
        return PoolScores([self.edits[index] for index in chosen], [self.scores[index] for index in chosen])


@dataclass(frozen=True)
class RewardAgreement:
    """A reward in a setting. figures: by title. by_seed: the main figures of each seed: Spearman, pairs, followed
    pairs."""

    reward: str
    setting: Setting
    statuses: Mapping[str, int]
    figures: Mapping[str, Figure]
    editor_means: Mapping[str, float | None]
    inversions: Sequence[tuple[str, str]]
    by_seed: Mapping[int, tuple[float | None, float | None, float | None]]

    @staticmethod
    def of(reward: str, setting: Setting, scores: PoolScores, seeds: Sequence[int]) -> RewardAgreement:
        """All figures of these scores."""
        values = scores.values()
        figures = {"Spearman": scores.spearman(values)}
        for margin in MARGINS:
            figures[f"pairs, margin {margin:g}"] = scores.pair_order(values, margin=margin)
            followed = scores.pair_order(values, followed_only=True, margin=margin)
            figures[f"pairs, both followed, margin {margin:g}"] = followed
        figures["Spearman with true F"] = scores.spearman(scores.with_true_following())
        figures["Spearman with true S, F a verdict"] = scores.spearman(scores.with_true_preservation())
        figures["Kendall's tau of the editors"] = scores.editor_tau(values)
        return RewardAgreement(
            reward,
            setting,
            statuses(scores.scores),
            {title: Figure.of(statistic) for title, statistic in figures.items()},
            scores.editor_means(values),
            scores.inversions(values),
            {seed: _main_figures(scores.of_seed(seed)) for seed in seeds},
        )


def _main_figures(scores: PoolScores) -> tuple[float | None, float | None, float | None]:
    values = scores.values()
    pairs, followed = scores.pair_order(values), scores.pair_order(values, followed_only=True)
    return scores.spearman(values).value, pairs.value, followed.value


def compare_rewards(pools: Mapping[int, Sequence[PoolEdit]], logs: Mapping[int, AnswerLog]) -> list[RewardAgreement]:
    """Every reward in every setting, all seeds together. logs: keep the answers, by seed."""
    agreements = []
    for setting in SETTINGS:
        experts = {seed: experts_for(setting, [edit.case for edit in pool]) for seed, pool in pools.items()}
        for name, spec in REWARDS.items():
            echo(f"{name}, experts: {setting}")
            edits: list[PoolEdit] = []
            scores: list[EditScore] = []
            for seed, pool in pools.items():
                edits += pool
                scores += score_edits(spec, [edit.case.sample for edit in pool], experts[seed], logs[seed])
            agreements.append(RewardAgreement.of(name, setting, PoolScores(edits, scores), list(pools)))
    return agreements
