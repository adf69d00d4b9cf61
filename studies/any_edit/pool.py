"""The pool: outputs of five editors for the same prompts, each with its truth; and scores with their parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.experts.expert_noise import NoisyExpert
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from editcritic.benchmarks.sceneedit.tiny_editor.recovered_truth import recovered_truth
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import EditSample, Engine, Expert, Image, Reward, Score
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.queries import Abstention
from editcritic.reward.queries.kinds import Outcome, Query
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
