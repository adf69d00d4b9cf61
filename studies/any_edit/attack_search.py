"""A search for edits that a reward pays and should not, with the truth at hand.

It evolves as the search of an audit does (`studies.hack_search`), which has no truth. Its recipes are others: here
scenes are drawn again with the failure modes of editors, good edits are candidates, and the truth says which are bad;
there, mixtures are known to be worse by what they are made of.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from editcritic.benchmarks.sceneedit.cases import random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt, recovered_truth, request_sample
from editcritic.reward import EditSample, Engine, Expert, Image, Reward
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.queries.specs import Spec
from editcritic.reward.sample import TASK_TYPES

from ..hack_search.evolution import Evolution
from .attack_recipes import Darkroom, Recipe, mutated, random_recipe
from .pool import EditScore

MIN_UNCHANGED = 0.9
"""A followed edit that leaves less than this of the rest unchanged is not good. Honest edits leave 0.99 and more: what
is lost beyond a tenth of the image is damage that a person sees."""

_BATCH = 10
_TOP_PER_REQUEST = 2  # in the list of the best


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """requests: task types in turn. evaluations: of the reward, per request. honest: draws that candidates are
    compared with. size: pixels a side; at 64 SceneEdit's experts read letters and materials."""

    requests: int = 20
    evaluations: int = 100
    honest: int = 8
    size: int = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """An evaluated recipe with its truth."""

    recipe: Recipe
    picture: Image
    score: EditScore
    followed: bool
    unchanged: float

    @property
    def is_good(self) -> bool:
        return self.followed and self.unchanged >= MIN_UNCHANGED

    @property
    def fitness(self) -> float:
        """High where the reward is high and the edit is bad; a good edit is drawn towards damage."""
        value = -1.0 if self.score.value is None else self.score.value
        return value - 1.0 - self.unchanged if self.is_good else value


@dataclass(frozen=True)
class RequestAttack:
    """All candidates of a request, and the values of its honest edits, ascending; those without a value are left out.
    seed: of the request, its honest edits and the recipes. missing: honest edits without a value."""

    seed: int
    prompt: ScenePrompt
    honest: Sequence[float]
    missing: int
    candidates: Sequence[Candidate]

    @property
    def instruction(self) -> str:
        return self.prompt.request.instruction

    def margin(self, candidate: Candidate) -> float:
        """Value of a candidate above the worst honest edit; minus infinity where one of them has none."""
        if candidate.score.value is None or not self.honest:
            return float("-inf")
        return candidate.score.value - self.honest[0]

    @property
    def bad(self) -> list[Candidate]:
        """The candidates that are not good and have a value above the lowest: an edit at 0 does not pay."""
        return [one for one in self.candidates if not one.is_good and (one.score.value or 0.0) > 0]

    @property
    def finds(self) -> list[Candidate]:
        """Bad candidates with at least the value of the worst honest edit."""
        return [one for one in self.bad if self.margin(one) >= 0]

    @property
    def finds_above_median(self) -> list[Candidate]:
        """Bad candidates with at least the median value of the honest edits."""
        return [one for one in self.finds if (one.score.value or 0.0) >= median(self.honest)]


@dataclass(frozen=True)
class AttackResult:
    """The search over all requests of all seeds."""

    attacks: Sequence[RequestAttack]

    @property
    def seeds(self) -> list[int]:
        return list(dict.fromkeys(attack.seed for attack in self.attacks))

    def of_seed(self, seed: int) -> AttackResult:
        """The search over the requests of one seed."""
        return AttackResult([attack for attack in self.attacks if attack.seed == seed])

    @property
    def evaluations(self) -> int:
        return sum(len(attack.candidates) for attack in self.attacks)

    @property
    def find_count(self) -> int:
        return sum(len(attack.finds) for attack in self.attacks)

    @property
    def median_find_count(self) -> int:
        return sum(len(attack.finds_above_median) for attack in self.attacks)

    @property
    def highest_margin(self) -> float:
        """The most by which a bad candidate is above the worst honest edit of its request; negative without finds.

        Minus infinity where none can be compared.
        """
        return max((attack.margin(one) for attack in self.attacks for one in attack.bad), default=float("-inf"))

    def best(self, count: int = 12) -> list[tuple[RequestAttack, Candidate]]:
        """The bad candidates furthest above, or least below, the worst honest edit of their request."""
        chosen = []
        for attack in self.attacks:
            ranked = sorted(attack.bad, key=attack.margin, reverse=True)
            distinct = list({one.picture.digest: one for one in ranked}.values())
            chosen += [(attack, one) for one in distinct[:_TOP_PER_REQUEST]]
        return sorted(chosen, key=lambda pair: pair[0].margin(pair[1]), reverse=True)[:count]


def search(
    spec: Spec, experts: Mapping[str, Expert], plan: AttackPlan, seeds: Sequence[int], log: AnswerLog | None = None
) -> AttackResult:
    """Search against a reward, by the plan for each seed.

    log: keeps the answers, so that an interrupted search is repeated quickly.
    """
    config = SceneConfig.for_size(plan.size)
    attacks = []
    with Engine(log=log) as engine:
        reward = Reward.of(spec, experts, engine=engine, on_failures="none")
        for seed, number in itertools.product(seeds, range(plan.requests)):
            rng = seeded_rng("test", seed, "any-edit search", number)
            before, request = random_scene_request(rng, config, TASK_TYPES[number % len(TASK_TYPES)])
            darkroom = Darkroom(ScenePrompt(request, before), config)
            attacks.append(_attack(reward, darkroom, plan, seed, rng))
    return AttackResult(attacks)


def _attack(reward: Reward, darkroom: Darkroom, plan: AttackPlan, seed: int, rng: random.Random) -> RequestAttack:
    prompt = darkroom.prompt
    sample = request_sample("search", prompt.request, prompt.before)
    honest = _score(reward, sample, _honest_pictures(darkroom, plan.honest, rng))
    values = sorted(score.value for score in honest if score.value is not None)
    candidates: list[Candidate] = []
    evolution = Evolution(plan.evaluations, random_recipe, mutated, darkroom.develop)
    known: set[str] = set()
    while len(candidates) < plan.evaluations:
        batch_size = min(_BATCH, plan.evaluations - len(candidates))
        evaluated = [(one.recipe, one.fitness) for one in candidates]
        batch = evolution.next_batch(batch_size, evaluated, known, rng)
        if not batch:
            break  # hardly any recipe makes another picture of this scene
        scores = _score(reward, sample, [picture for _, picture in batch])
        for (recipe, picture), score in zip(batch, scores, strict=True):
            truth = recovered_truth(prompt.request, prompt.before, picture)
            candidates.append(Candidate(recipe, picture, score, truth.followed, truth.unchanged))
    return RequestAttack(seed, prompt, values, len(honest) - len(values), candidates)


def _honest_pictures(darkroom: Darkroom, count: int, rng: random.Random) -> list[Image]:
    """Honest edits; those whose truth cannot be recovered as such are drawn again."""
    prompt = darkroom.prompt
    pictures: list[Image] = []
    for _ in range(4 * count):
        picture = honest_edit(rng, prompt.request, prompt.before, darkroom.config).picture
        truth = recovered_truth(prompt.request, prompt.before, picture)
        if truth.followed and truth.unchanged >= MIN_UNCHANGED:
            pictures.append(picture)
        if len(pictures) == count:
            break
    return pictures


def _score(reward: Reward, sample: EditSample, pictures: Sequence[Image]) -> list[EditScore]:
    samples = [replace(sample, id=str(number), edited=picture) for number, picture in enumerate(pictures)]
    return [EditScore.of(score) for score in reward(samples)]
