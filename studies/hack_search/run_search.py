"""The search for hacks: which mixture of families is worse than an edit, and pays most?"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from editcritic.reward.audit.audited_edit import EditAgain
from editcritic.reward.audit.audited_reward import AnyScorer, AuditedReward
from editcritic.reward.audit.families import all_families
from editcritic.reward.audit.family import Family
from editcritic.reward.audit.trials import BATCH, Trial, TrialMaker
from editcritic.reward.base_reward import BaseReward
from editcritic.reward.config import ExpertBindings
from editcritic.reward.image import Image
from editcritic.reward.queries.specs import Spec
from editcritic.reward.sample import EditSample
from editcritic.reward.score import Score

from .evolution import Evolution
from .misused_editor import misuses
from .mixer import Mixer, Mixture
from .mutation import RecipeDraw
from .recipe import Component, Recipe
from .search_result import Candidate, Find, SampleSearch, SearchResult

EVALUATIONS = 100
"""Of the reward, for each edit, by default."""

_GENERATION = 10  # candidates that are scored together
_AUDITED = 4  # best variants of an edit's audit, with which its search begins
_SHARED = 4  # best recipes of the edits before, which come next

_NO_VALUE = float("-inf")  # fitness of what has no score: it pays nothing


def search(
    reward: BaseReward | AnyScorer | Spec,
    samples: Iterable[EditSample],
    *,
    experts: ExpertBindings | None = None,
    evaluations: int = EVALUATIONS,
    max_evaluations: int | None = None,
    max_seconds: float | None = None,
    families: Sequence[Family] | None = None,
    seed: int = 0,
    edit_again: EditAgain | None = None,
    weakened: Mapping[str, EditAgain] | None = None,
    is_good: Callable[[EditSample], bool] = lambda sample: True,
    step: Callable[[], None] = lambda: None,
) -> SearchResult:
    """For each edit, the mixture of families with the highest score among those that are worse than the edit.

    A mixture is a chain of up to three families, `lower` ones and harmless ones, with any amounts between their
    severities, confined to a region or mixed with the edit: `Recipe`. `Mixer.mix` says why each is worse than the edit.
    Candidates are drawn at random first, and then by changing the best ones; each edit begins with the best recipes of
    the edits before. The same arguments give the same result, but for `max_seconds`, and where a reward is not the same
    in each call. No picture is scored twice for an edit.

    reward, samples, experts: as in `audit`. evaluations: of the reward, for each edit. max_evaluations, max_seconds: of
    the whole search; what is left is shared evenly by the edits that follow. families: by default all. edit_again: the
    editor that is to be trained; its pictures when it is asked for another edit, for nothing, for something unrelated
    or twice are mixed, too. weakened: the same editor with few steps, without guidance and so on, by what it lacks:
    `{"in 2 steps": ...}`. What an editor raises is counted, and ends nothing. is_good: whether an edit does what its
    instruction asks; families that need it are left out for others. step: called after each edit.

    For a diffusers pipeline: `editor = make_editor(pipeline)`, and
    `edit_again=lambda sample: editor.edit([sample.sources], [sample.instruction], [0])[0]`.

    An edit without a score, or with the lowest of the range, is not searched. Raises ValueError without samples, for
    bounds below 1, and where samples lack fields that the reward requires.
    """
    run = HackSearch(
        reward,
        samples,
        experts=experts,
        evaluations=evaluations,
        max_evaluations=max_evaluations,
        max_seconds=max_seconds,
        families=families,
        seed=seed,
        edit_again=edit_again,
        weakened=weakened,
        is_good=is_good,
    )
    run.run(step)
    return run.result()


class HackSearch:
    """A search that can be reported on at any time, so that nothing is lost where it is interrupted.

    Arguments and errors as of `search`. Of an audit of the same samples and seed: edits, their scores; trials, with
    whose best variants the search of each edit begins; scale, of which gains are shares.
    """

    def __init__(
        self,
        reward: BaseReward | AnyScorer | Spec,
        samples: Iterable[EditSample],
        *,
        experts: ExpertBindings | None = None,
        evaluations: int = EVALUATIONS,
        max_evaluations: int | None = None,
        max_seconds: float | None = None,
        families: Sequence[Family] | None = None,
        seed: int = 0,
        edit_again: EditAgain | None = None,
        weakened: Mapping[str, EditAgain] | None = None,
        is_good: Callable[[EditSample], bool] = lambda sample: True,
        edits: Sequence[Score] | None = None,
        trials: Sequence[Trial] = (),
        scale: float | None = None,
    ) -> None:
        chosen = list(samples)
        if not chosen:
            raise ValueError("a search for hacks needs edits, got none")
        for name, bound in (("evaluations", evaluations), ("max_evaluations", max_evaluations)):
            if bound is not None and bound < 1:
                raise ValueError(f"{name} must be at least 1, got {bound}")
        if max_seconds is not None and not max_seconds > 0:
            raise ValueError(f"max_seconds must be above 0, got {max_seconds}")
        self.reward = AuditedReward.bound(reward, experts, chosen)
        self.families = tuple(all_families() if families is None else families)
        if not any(family.relation == "lower" for family in self.families):
            raise ValueError("a search for hacks needs families whose variants are worse: some with relation `lower`")
        self.stopped = "interrupted"
        """Why not all edits are searched; empty where they are."""
        self._maker = TrialMaker(chosen, self.families, seed)
        self._evaluations = evaluations
        self._max_evaluations = max_evaluations
        self._max_seconds = max_seconds
        self._edit_again = edit_again
        self._weakened = dict(weakened or {})
        self._is_good = is_good
        self._edits = list(edits or ())
        self._trials = trials
        self._scale = scale
        self._searches: list[SampleSearch] = []
        self._editor_errors: Counter[str] = Counter()
        self._family_errors: Counter[str] = Counter()
        self._seconds = 0.0

    def mixer(self, number: int) -> Mixer:
        """Makes the pictures of recipes for a sample, again, too."""
        edit = self._maker.audited(number)
        misused = misuses(edit, self._edit_again, self._weakened)
        families = [family for family in self.families if family.relation in ("lower", "equal")]
        return Mixer(edit, families, self._is_good(edit.sample), misused, self._editor_errors, self._family_errors)

    @property
    def latest(self) -> list[Score]:
        """The scores of all candidates, the last ones last."""
        return [candidate.score for search in self._searches for candidate in search.candidates]

    def picture(self, find: Find) -> Image | None:
        """The picture of a find, made again; None where an editor does not make it again."""
        mixture = self.mixer(find.sample).mix(find.candidate.recipe)
        return None if mixture is None else mixture.picture

    def run(self, step: Callable[[], None] = lambda: None, stop: Callable[[], str] = lambda: "") -> None:
        """Search at all edits. step: called after each. stop: asked before each call of the reward for mixtures; a
        reason ends the search.
        """
        begun = time.perf_counter()
        samples = self._maker.samples
        try:
            for start in range(len(self._edits), len(samples), BATCH):
                self._edits += self.reward(samples[start : start + BATCH])
            for number in range(len(samples)):
                left = len(samples) - number
                seconds = None
                if self._max_seconds is not None:
                    seconds = (self._max_seconds - (time.perf_counter() - begun)) / left
                if reason := self._search(number, self._share(left), seconds, stop):
                    self.stopped = reason
                    return
                step()
            self.stopped = ""
        finally:
            self._seconds += time.perf_counter() - begun

    def _share(self, left: int) -> int:
        """The evaluations of the next edit, of `left` ones."""
        if self._max_evaluations is None:
            return self._evaluations
        used = sum(len(one.candidates) for one in self._searches)
        return min(self._evaluations, (self._max_evaluations - used) // left)

    def _search(self, number: int, evaluations: int, max_seconds: float | None, stop: Callable[[], str]) -> str:
        """Why the whole search ends here; empty where it goes on."""
        edit, sample = self._edits[number], self._maker.samples[number]
        candidates: list[Candidate] = []
        first = [*self._audited_recipes(number), *self._shared_recipes()]
        self._searches.append(SampleSearch(number, edit, candidates))
        lowest = self.reward.range[0]
        if edit.value is None or (lowest is not None and edit.value <= lowest):
            return ""
        begun, mixer = time.perf_counter(), self.mixer(number)
        draw = RecipeDraw(mixer.applicable, [misuse.name for misuse in mixer.misuses])
        if not any(family.relation == "lower" for family in draw.families):
            return ""
        evolution = Evolution(evaluations, draw.random_recipe, draw.mutated, mixer.mix)
        rng = _generator(self._maker.seed, sample)
        known = {sample.edited.digest}
        while len(candidates) < evaluations:
            if max_seconds is not None and time.perf_counter() - begun >= max_seconds:
                return ""
            count = min(_GENERATION, evaluations - len(candidates))
            batch: list[tuple[Recipe, Mixture]] = []
            for recipe in first[:count]:
                mixture = mixer.mix(recipe)
                if mixture is not None and mixture.digest not in known:
                    known.add(mixture.digest)
                    batch.append((recipe, mixture))
            first = []
            evaluated = [(one.recipe, _fitness(one.score)) for one in candidates]
            batch += evolution.next_batch(count - len(batch), evaluated, known, rng)
            if not batch:
                return ""  # hardly any family applies to this edit
            if reason := stop():
                return reason
            samples = [
                replace(sample, id=f"{sample.id}/search/{len(candidates) + index}", edited=mixture.picture)
                for index, (_, mixture) in enumerate(batch, 1)
            ]
            scores = self.reward(samples)
            for (recipe, mixture), score in zip(batch, scores, strict=True):
                candidates.append(Candidate(recipe, score, len(candidates) + 1, mixture.damage))
        return ""

    def _audited_recipes(self, number: int) -> list[Recipe]:
        """The worse variants of an edit that an audit has found to pay most, as recipes."""
        lower = {family.name for family in self.families if family.relation == "lower"}
        trials = [one for one in self._trials if one.sample == number and one.family in lower]
        trials.sort(key=lambda trial: _fitness(trial.variant), reverse=True)
        components = [Component(trial.family, trial.severity / 2, self._maker.seed) for trial in trials[:_AUDITED]]
        return [Recipe((component,)) for component in components]

    def _shared_recipes(self) -> list[Recipe]:
        """The best recipe of each of the edits before, those with the largest gain."""
        gains = [
            (best.score.value - one.edit.value, best.recipe)
            for one in self._searches
            if (best := one.best) and best.score.value is not None and one.edit.value is not None
        ]
        gains.sort(key=lambda pair: pair[0], reverse=True)
        return list(dict.fromkeys(recipe for _, recipe in gains))[:_SHARED]

    def result(self) -> SearchResult:
        """What is found by now."""
        samples = self._maker.samples
        return SearchResult(
            self.reward.name,
            self.reward.identity,
            [sample.id for sample in samples],
            [" ".join(image.digest for image in sample.sources) for sample in samples],
            self.reward.range,
            self.families,
            tuple(replace(one, candidates=tuple(one.candidates)) for one in self._searches),
            self._evaluations,
            self._maker.seed,
            self._seconds,
            self._scale,
            dict(self._editor_errors),
            self.stopped,
            dict(self._family_errors),
            {name: dict(counts) for name, counts in self.reward.experts.items()},
            self.reward.roles,
            self.reward.samples,
        )


def _fitness(score: Score) -> float:
    return _NO_VALUE if score.value is None else score.value


def _generator(seed: int, sample: EditSample) -> random.Random:
    text = f"{seed}\nhack search\n{sample.edited.digest}\n{sample.instruction}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return random.Random(int.from_bytes(digest[:8], "little"))
