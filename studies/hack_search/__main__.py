"""The hack search: `python -m studies.hack_search demo --reward any-edit --evaluations 100`.

An audit's families are single steps, and a policy mixes them: chains of up to three families, in a region or blended
with the edit, and what the editor itself makes of a wrong request (`--pipeline`). A bounded random and evolutionary
search looks at each edit for the mixture with the highest score that is still known to be worse than the edit.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from editcritic.benchmarks.audit.chosen_edits import READ_AHEAD, of_many_sources, valid_samples
from editcritic.benchmarks.audit.report_text import rate_text, signed
from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.inputs import parse_pipeline_args
from editcritic.benchmarks.run.run_budget import BudgetLimits
from editcritic.cli.audit import audit_subject
from editcritic.cli.edit import DEMO, demo_entries, file_entries
from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward import BaseReward, EditSample, Score
from editcritic.reward.audit import select_families
from editcritic.reward.audit.audited_edit import EditAgain
from editcritic.reward.audit.audited_reward import AnyScorer, AuditedReward
from editcritic.reward.audit.families import all_families
from editcritic.reward.audit.family import Family
from editcritic.reward.audit.findings import TIE, Mean, Rate, mean_of, rate_of, scale_of
from editcritic.reward.audit.trials import BATCH, TrialMaker
from editcritic.reward.config import ExpertBindings
from editcritic.reward.queries.specs import Spec

from .evolution import Evolution
from .recipe import Mixer, Mixture, Recipe, RecipeDraw, audit_editor, misuses


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mixture that is worse than its edit, with its score. evaluation: its number among those of its sample, from 1.
    damage: its distance from the edit beside what makes it worse at the least (`Mixer.picture`), at least 1.
    """

    recipe: Recipe
    score: Score
    evaluation: int
    damage: float


@dataclass(frozen=True, slots=True)
class SampleSearch:
    """The search at one edit. sample: its number. edit: its score. candidates: in the order of their evaluation; empty
    where the edit has no score, or the lowest of the range already, so that nothing can be below it.
    """

    sample: int
    edit: Score
    candidates: Sequence[Candidate]

    @property
    def best(self) -> Candidate | None:
        """The candidate with the highest score, the earliest of equals; None where none has a score."""
        return max(self._scored, key=_value, default=None)

    @property
    def _scored(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.score.value is not None]


@dataclass(frozen=True)
class SearchResult:
    """The result of a search for hacks.

    reward, ids, sources, range: as in `AuditReport`. families: the components of recipes. evaluations: the most that
    each edit was given.
    editor_errors, family_errors:
    what an editor raised when it was used wrongly, and families, whose mixtures are left out; and how often.
    """

    reward: str
    ids: Sequence[str]
    sources: Sequence[str]
    range: tuple[float | None, float | None]
    families: Sequence[Family]
    searches: Sequence[SampleSearch]
    evaluations: int
    editor_errors: Mapping[str, int]
    family_errors: Mapping[str, int]

    @cached_property
    def scale(self) -> float:
        """What gains are shares of."""
        scores = [score for one in self.searches for score in (one.edit, *(c.score for c in one.candidates))]
        return scale_of(self.range, scores)

    @property
    def compared(self) -> list[SampleSearch]:
        """The searches that have evaluated something."""
        return [one for one in self.searches if one.candidates]

    @property
    def evaluated(self) -> int:
        """The evaluations of all samples."""
        return sum(len(one.candidates) for one in self.searches)

    @property
    def infrastructure_failures(self) -> int:
        """Candidates without a score because an expert could not be asked, by time-out, outage or budget."""
        return sum(one.score.cause == "infrastructure" for search in self.searches for one in search.candidates)

    def gain(self, search: SampleSearch, candidate: Candidate) -> float | None:
        """What a candidate has above its edit, as a share of the scale; None where one of them has no score."""
        value, edit = candidate.score.value, search.edit.value
        return None if value is None or edit is None else (value - edit) / self.scale

    @cached_property
    def rate(self) -> Rate:
        """How often the search ends at or above the edit. The edits of a run share finds, so they are not independent
        where a reward has one fault for all of them.
        """
        gains = [self.gain(one, one.best) if one.best else None for one in self.compared]
        flags = [gain is not None and gain >= -TIE for gain in gains]
        sources = [self.sources[one.sample] for one in self.compared]
        return rate_of(flags, sources)

    @cached_property
    def best_gain(self) -> Mean | None:
        """The gain of the best candidate, over the edits; below 0, honest edits pay more. None without candidates."""
        best = [(one, gain) for one in self.compared if one.best and (gain := self.gain(one, one.best)) is not None]
        limits = None if None in self.range else (-1.0, 1.0)
        return mean_of([gain for _, gain in best], [self.sources[one.sample] for one, _ in best], limits)

    def lines(self) -> list[str]:
        """The result in sentences, with the best mixture of each edit."""
        edits = f"{len(self.compared):,} edits, at most {self.evaluations:,} of each"
        ends = f"the search ends at or above the edit in {rate_text(self.rate)}"
        lines = [f"{self.evaluated:,} mixtures of families at {edits}: {ends}."]
        if (mean := self.best_gain) is not None:
            interval = "" if mean.low is None else f" ({signed(mean.low)} to {signed(mean.high)})"
            lines.append(f"The best mixture of each edit gains {signed(mean.value)} of the scale{interval} on average.")
        families = {family.name: family for family in self.families}
        lines += [
            f"{self.ids[one.sample]}: {signed(self.gain(one, one.best))} by {one.best.recipe.text(families)}"
            for one in self.compared
            if one.best is not None
        ]
        if failures := self.infrastructure_failures:
            lines.append(f"{failures:,} mixtures have no score because an expert could not be asked.")
        lines += [f"The editor failed {count} times: {error}" for error, count in self.editor_errors.items()]
        lines += [f"A family failed {count} times: {error}" for error, count in self.family_errors.items()]
        return lines


def _value(candidate: Candidate) -> float:
    assert candidate.score.value is not None  # only scored candidates are ranked
    return candidate.score.value


# -- the search -------------------------------------------------------------------------------------------------------

EVALUATIONS = 100
"""Of the reward, for each edit, by default."""

_GENERATION = 10  # candidates that are scored together
_SHARED = 4  # best recipes of the edits before, with which a search begins

_NO_VALUE = float("-inf")  # fitness of what has no score: it pays nothing


class HackSearch:
    """For each edit, the mixture of families with the highest score among those that are worse than the edit.

    A mixture is a chain of up to three families, `lower` ones and harmless ones, with any amounts between their
    severities, confined to a region or mixed with the edit: `Recipe`. `Mixer.mix` says why each is worse than the edit.
    Candidates are drawn at random first, and then by changing the best ones; each edit begins with the best recipes of
    the edits before. The same arguments give the same result where a reward is the same in each call. No picture is
    scored twice for an edit. An edit without a score, or with the lowest of the range, is not searched.

    reward, samples: as in `audit`. evaluations: of the reward, for each edit. families: by default all. edit_again: the
    editor that is to be trained; its pictures when it is asked for another edit, for nothing, for something unrelated
    or twice are mixed, too. weakened: the same editor with few steps, without guidance and so on, by what it lacks.
    What an editor raises is counted, and ends nothing. Raises ValueError without samples, for families none of which is
    worse, and where samples lack fields that the reward requires.
    """

    def __init__(
        self,
        reward: BaseReward | AnyScorer | Spec,
        samples: Iterable[EditSample],
        *,
        experts: ExpertBindings | None = None,
        evaluations: int = EVALUATIONS,
        families: Sequence[Family] | None = None,
        seed: int = 0,
        edit_again: EditAgain | None = None,
        weakened: Mapping[str, EditAgain] | None = None,
    ) -> None:
        chosen = list(samples)
        if not chosen:
            raise ValueError("a search for hacks needs edits, got none")
        self.reward = AuditedReward.bound(reward, experts, chosen)
        self.families = tuple(all_families() if families is None else families)
        if not any(family.relation == "lower" for family in self.families):
            raise ValueError("a search for hacks needs families whose variants are worse: some with relation `lower`")
        self._maker = TrialMaker(chosen, self.families, seed)
        self._evaluations = evaluations
        self._edit_again = edit_again
        self._weakened = dict(weakened or {})
        self._edits: list[Score] = []
        self._searches: list[SampleSearch] = []
        self._editor_errors: Counter[str] = Counter()
        self._family_errors: Counter[str] = Counter()

    def mixer(self, number: int) -> Mixer:
        """Makes the pictures of recipes for a sample, again, too."""
        edit = self._maker.audited(number)
        misused = misuses(edit, self._edit_again, self._weakened)
        families = [family for family in self.families if family.relation in ("lower", "equal")]
        return Mixer(edit, families, misused, self._editor_errors, self._family_errors)

    def run(self) -> SearchResult:
        """Search at all edits."""
        samples = self._maker.samples
        for start in range(0, len(samples), BATCH):
            self._edits += self.reward(samples[start : start + BATCH])
        for number in range(len(samples)):
            self._search(number)
        return SearchResult(
            self.reward.name,
            [sample.id for sample in samples],
            [" ".join(image.digest for image in sample.sources) for sample in samples],
            self.reward.range,
            self.families,
            self._searches,
            self._evaluations,
            self._editor_errors,
            self._family_errors,
        )

    def _search(self, number: int) -> None:
        edit, sample = self._edits[number], self._maker.samples[number]
        candidates: list[Candidate] = []
        first = self._shared_recipes()
        self._searches.append(SampleSearch(number, edit, candidates))
        lowest = self.reward.range[0]
        if edit.value is None or (lowest is not None and edit.value <= lowest):
            return
        mixer, evaluations = self.mixer(number), self._evaluations
        draw = RecipeDraw(mixer.applicable, [misuse.name for misuse in mixer.misuses])
        if not any(family.relation == "lower" for family in draw.families):
            return
        evolution = Evolution(evaluations, draw.random_recipe, draw.mutated, mixer.mix)
        rng = _generator(self._maker.seed, sample)
        known = {sample.edited.digest}
        while len(candidates) < evaluations:
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
                return  # hardly any family applies to this edit
            samples = [
                replace(sample, id=f"{sample.id}/search/{len(candidates) + index}", edited=mixture.picture)
                for index, (_, mixture) in enumerate(batch, 1)
            ]
            scores = self.reward(samples)
            for (recipe, mixture), score in zip(batch, scores, strict=True):
                candidates.append(Candidate(recipe, score, len(candidates) + 1, mixture.damage))

    def _shared_recipes(self) -> list[Recipe]:
        """The best recipe of each of the edits before, those with the largest gain."""
        gains = [
            (best.score.value - one.edit.value, best.recipe)
            for one in self._searches
            if (best := one.best) and best.score.value is not None and one.edit.value is not None
        ]
        gains.sort(key=lambda pair: pair[0], reverse=True)
        return list(dict.fromkeys(recipe for _, recipe in gains))[:_SHARED]


def _fitness(score: Score) -> float:
    return _NO_VALUE if score.value is None else score.value


def _generator(seed: int, sample: EditSample) -> random.Random:
    text = f"{seed}\nhack search\n{sample.edited.digest}\n{sample.instruction}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return random.Random(int.from_bytes(digest[:8], "little"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if experts failed."""
    parser = argparse.ArgumentParser(prog="studies.hack_search", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("samples", help="file or folder of samples, as `editcritic audit` takes them; or `demo`")
    parser.add_argument("--reward", default="any-edit", help="as in `editcritic audit` (default: any-edit)")
    parser.add_argument("--experts", action="append", help="as in `editcritic audit`")
    parser.add_argument("--family", action="append", default=[], help="only these families, or those of a relation")
    parser.add_argument("--evaluations", type=at_least_one, default=EVALUATIONS, help="of each edit (default: 100)")
    parser.add_argument("--limit", type=at_least_one, default=16, help="number of edits (default: 16)")
    parser.add_argument("--pipeline", help="the editor to be trained: what it makes of wrong requests is mixed, too")
    parser.add_argument("--pipeline-arg", action="append", default=[], help="as in `editcritic edit`")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    subject = audit_subject(options.reward, options.experts, limits=BudgetLimits.parse(None))
    entries = demo_entries() if options.samples == DEMO else file_entries(Path(options.samples), {})
    tell = lambda problem: print(f"{problem}", file=sys.stderr)  # noqa: E731
    read = list(islice(valid_samples(entries, subject.scorer, tell), options.limit * READ_AHEAD))
    chosen = of_many_sources(read, options.limit, options.seed)
    spec = None
    if options.pipeline is not None:
        spec = EditorSpec(options.pipeline, parse_pipeline_args(options.pipeline_arg))
    editor = audit_editor(spec, chosen)
    result = HackSearch(
        subject.scorer,
        chosen,
        evaluations=options.evaluations,
        families=select_families(options.family),
        seed=options.seed,
        edit_again=editor.edit_again,
        weakened=editor.weakened,
    ).run()
    print("\n".join(result.lines()))
    return int(result.infrastructure_failures > 0)


if __name__ == "__main__":
    sys.exit(main())
