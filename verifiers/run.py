"""A run: the one place where candidates are made, scored, paid for and remembered. Selectors decide, a run carries out.

A selector is a function of a run and samples; see `best_of.BestOf` for the shortest. It is deterministic: whatever it
asks twice is known the second time, which is all there is to resuming.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Protocol

from ..reward import AnyReward, Box, Card, EditSample, Image, Reward, Score, TooManyFailures
from ..reward.pairwise import Comparison, OfPair, as_one, compared
from .budget import Budget, Cost, total
from .candidate import Candidate, Look, Match, Selection, Selections
from .editor import Editor, EditorFailed, Noise
from .journal import Journal
from .making import Made, Maker, Staged, Want
from .scoring import Scorer

APART = 1_000_000
"""How far the seeds of two steps are apart: candidates of different steps never share their noise."""


class RunStopped(RuntimeError):
    """The editor or the reward is down. `journal` holds what was made: hand it to the next run, and it goes on."""

    def __init__(self, message: str, journal: Journal) -> None:
        super().__init__(message)
        self.journal = journal


class Selector(Protocol):
    """Makes candidates for each sample and chooses among them."""

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> Sequence[Selection]: ...


def unedited(
    instruction: str,
    *sources: object,
    id: str = "edit",  # noqa: A002  (the field's name)
    boxes: Mapping[str, Sequence[Box | tuple[float, float, float, float]]] | None = None,
    **fields: Any,
) -> EditSample:
    """What is to be edited, as a sample whose edited picture is still the source.

    sources: anything `Image.of` takes. boxes: objects of the first source, name -> boxes, or pixel corners
    (x0, y0, x1, y1). fields: any other field of `EditSample`. Raises ImageError or ValueError.
    """
    pictures = tuple(Image.of(source) for source in sources)
    if not pictures:
        raise ValueError("there is no picture to edit: give at least one source")
    size = pictures[0].size
    drawn = {
        name: tuple(box if isinstance(box, Box) else Box.from_corners(*box, size=size) for box in found)
        for name, found in (boxes or {}).items()
    }
    return EditSample(id=id, instruction=instruction, sources=pictures, edited=pictures[0], boxes=drawn, **fields)


class Run:
    """Makes and scores candidates within a budget.

    ties: asked where candidates share the highest value. journal: what is known already, and where to keep what is
    made; in memory by default. seed: of the first candidate; the others follow it one by one.
    """

    def __init__(
        self,
        editor: Editor,
        reward: AnyReward,
        *,
        budget: Budget | None = None,
        ties: AnyReward | None = None,
        journal: Journal | None = None,
        seed: int = 0,
    ) -> None:
        self.editor = editor
        self.reward = reward
        self.budget = budget or Budget()
        self.journal = journal or Journal()
        self.seed = seed
        self.spent = Cost()
        self.known = Cost()
        self.ended = ""
        if self.budget.judge_calls is not None and not isinstance(reward, Reward):
            raise ValueError("what a judge on a server is asked is not counted here: limit evaluations or seconds")
        self._scorer = Scorer(reward, self.journal)
        self._ties = None if ties is None else Scorer(ties, self.journal)
        self._referee: tuple[Comparison, Scorer] | None = None
        self._others: dict[AnyReward, Scorer] = {}
        self._counting = threading.Lock()  # a batch is scored while the next one is made
        self._dearest = Cost()
        self._dearest_match = Cost()
        self._maker = Maker(editor, self.journal, self._pay)

    # -- what a selector asks for -------------------------------------------------------------------------------------

    @property
    def card(self) -> Card:
        """Of the reward."""
        return self._scorer.reward.card

    @property
    def steps(self) -> int:
        """Evaluations of a picture."""
        return self.editor.evaluations

    def noise(self, number: int, step: int = 1) -> Noise:
        """The noise of candidate `number` (from 0) at a step: the same however many candidates there are."""
        return Noise(self.seed + APART * (step - 1) + number)

    def want(self, sample: EditSample, number: int) -> Want:
        """Candidate `number` of a sample, edited and judged as it stands."""
        return Want(f"{number}", sample, sample, self.noise(number))

    def candidates(
        self, wants: Sequence[Want], also: Callable[[list[Candidate]], list[Candidate]] | None = None
    ) -> list[Candidate]:
        """Make and score these, as many as there is budget for: the others, at the end, are missing.

        also: what else is to be done with a batch that was scored; gives it back with what that cost.

        A batch is scored while the next one is made, where no budget has to be watched in between. No more than one
        is ahead: with a reward that is down, nothing is made that nobody will score.
        """
        found: list[Candidate] = []
        with ThreadPoolExecutor(1) as scoring:
            waiting: Future[list[Candidate]] | None = None
            watched = self.budget.judge_calls is not None or self.budget.seconds is not None
            start = 0
            while start < len(wants):
                if waiting is not None and watched:
                    found, waiting = found + waiting.result(), None
                room = self._room(self.steps)
                if room < 1:
                    break
                part = wants[start : start + min(self.editor.batch, room)]
                start += len(part)
                made = self._maker.whole(part)
                found += [] if waiting is None else waiting.result()
                waiting = scoring.submit(self._scored, part, made, also)
            return found + ([] if waiting is None else waiting.result())

    def rounds(self, wants: Sequence[Sequence[Want]]) -> list[list[Candidate]]:
        """The same for several samples, a candidate of each in turn, so that a budget that ends is fair to all."""
        order = [(row, want) for column in zip_longest(*wants) for row, want in enumerate(column) if want is not None]
        found: list[list[Candidate]] = [[] for _ in wants]
        for (row, _), candidate in zip(order, self.candidates([want for _, want in order]), strict=False):
            found[row].append(candidate)
        return found

    def stage(self, staged: Sequence[Staged], until: int, *, look: bool = True) -> list[Staged]:
        """Bring these to step `until`, and score what they look like there (`look`), as many as there is budget for.

        Those without budget, and those that have failed, come back as they are. Raises TypeError for an editor that
        cannot stop half-way.
        """
        self._maker.needs_steps()
        found = list(staged)
        going = [number for number, one in enumerate(found) if not one.problem and one.step < until]
        while going:
            here = found[going[0]].step
            room = self._room(until - here)
            if room < 1:
                break
            part = [number for number in going if found[number].step == here][: min(self.editor.batch, room)]
            going = [number for number in going if number not in part]
            made = self._maker.advanced([found[number] for number in part], until)
            wants = [found[number].want for number in part]
            looked = self._scores(wants, made) if look else [None] * len(made)
            for number, one, scored in zip(part, made, looked, strict=True):
                found[number] = _further(found[number], until, one, scored)
        return found

    def candidate(self, staged: Staged) -> Candidate:
        """A staged one as a candidate: made if it has come to the last step, else stopped or failed."""
        want, cost, looks = staged.want, staged.cost, staged.looks
        if staged.problem:
            sample, score, fate = None, Score.failed(staged.problem), "failed"
        elif looks and looks[-1].step == self.steps:
            sample, score, fate = want.with_picture(looks[-1].picture), looks[-1].score, "made"
        else:
            sample = want.with_picture(looks[-1].picture) if looks else None
            score, fate = Score.abstained(f"stopped after {staged.step} of {self.steps} evaluations"), "stopped"
        return Candidate(want.id, want.noise, sample, score, cost, fate, want.step, want.parent, looks)  # type: ignore[arg-type]

    def best(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], Candidate | None, str]:
        """Which one is chosen, and why; and the candidates again, those that tied with what their second look cost.

        The highest value; among equals that of `ties`; then the lowest seed. None where no candidate has a value, or
        where none has more than the lowest there is, as what a guard rejects, while others could not be judged: what is
        known to be bad is no choice beside what is not known.
        """
        found = list(candidates)
        valued = [one for one in found if one.value is not None]
        if not valued:
            return found, None, _why_none(found)
        top = max(one.value for one in valued if one.value is not None)
        unknown = [one for one in found if one.fate == "made" and one.value is None]
        if unknown and top == self.card.range[0]:
            why = f"{len(valued)} of {len(found)} candidates were rejected, and the others could not be judged"
            return found, None, f"{why}: {unknown[0].score.reason}"
        equal = [one for one in valued if one.value == top]
        others = sorted((one.value for one in valued if one.value is not None and one.value < top), reverse=True)
        why = f"the highest of {len(valued)}, {top:.4g}" + (f"; the next has {others[0]:.4g}" if others else "")
        if len(equal) == 1:
            return found, equal[0], why
        why = f"{len(equal)} of {len(valued)} have the highest value, {top:.4g}"
        if self._ties is not None:
            asked = [(number, one.sample) for number, one in enumerate(equal) if one.sample and one.tie is None]
            scored = self._ties([sample for _, sample in asked])
            for (number, _), (score, cost, known) in zip(asked, scored, strict=True):
                self._pay(cost, known)
                second = replace(equal[number], tie=score, cost=equal[number].cost + cost)
                found[found.index(equal[number])] = second
                equal[number] = second
            first = max((one.tie.value for one in equal if one.tie and one.tie.value is not None), default=None)
            if first is not None:
                equal = [one for one in equal if one.tie and one.tie.value == first]
                why += f"; {self._ties.reward.card.name} is highest for {len(equal)} of them, {first:.4g}"
        chosen = min(equal, key=lambda one: (one.noise.seed, one.id))
        return found, chosen, why + ("; the lowest seed among those" if len(equal) > 1 else "")

    def matches(
        self, pairs: Sequence[tuple[Candidate, Candidate]], comparison: Comparison | None = None
    ) -> list[Match]:
        """Compare these two by two, as many as there is budget for: the others, at the end, are missing.

        Each is a pair of candidates with pictures, of the same sample. comparison: put to the reward's experts; without
        one the scores of the two are compared, which costs nothing. Raises ValueError where the comparison asks a role
        that no expert is bound to, also for no pairs.
        """
        if comparison is None:
            return [Match(a.id, b.id, compared(a.score, b.score), Cost()) for a, b in pairs]
        compare = self._comparing(comparison)
        budget = replace(self.budget, evaluations=None)  # a match takes none, so that none need be left
        found: list[Match] = []
        while len(found) < len(pairs):
            room = budget.room(self.spent, self._dearest_match)
            if room < 1:
                self.ended = budget.lacking(self.spent, self._dearest_match)
                break
            unknown = any(not getattr(self._dearest_match, name) for name in budget.limits)
            part = pairs[len(found) :][: 1 if unknown else int(min(room, len(pairs)))]
            compared_now = compare([as_one(a.sample, b.sample) for a, b in part if a.sample and b.sample])
            for (a, b), (score, cost, known) in zip(part, compared_now, strict=True):
                self._pay(cost, known)
                self._dearest_match = _dearer(self._dearest_match, cost)
                found.append(Match(a.id, b.id, score, cost))
        return found

    def _comparing(self, comparison: Comparison) -> Scorer:
        if self._referee is None or self._referee[0] != comparison:
            ours = self._scorer.reward
            if not isinstance(ours, Reward):
                raise ValueError(
                    f"{comparison.card.name} is asked of a reward's experts, and those of {ours.card.name} are on a "
                    "server: compare by scores, or give a reward of this process"
                )
            reward = Reward(
                OfPair(comparison),
                ours.experts,
                engine=ours.engine,
                max_failed=ours.max_failed,
                on_failures=ours.on_failures,
                patience_s=ours.patience_s,
            )
            self._referee = comparison, Scorer(reward, self.journal)
        return self._referee[1]

    def second_look(self, reward: AnyReward, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Score]]:
        """What another reward says of these, and each candidate again with what that cost.

        The run's own reward has spoken already; where there is no picture, the candidate's score is all there is.
        """
        if reward not in self._others:
            self._others[reward] = Scorer(reward, self.journal)
        scorer = self._others[reward]
        own = scorer.name == self._scorer.name
        scored = iter(scorer([] if own else [one.sample for one in candidates if one.sample is not None]))
        found = []
        for one in candidates:
            score = one.score
            if not own and one.sample is not None:
                score, cost, known = next(scored)
                self._pay(cost, known)
                one = replace(one, cost=one.cost + cost)
                self._dearest = _dearer(self._dearest, one.cost)
            found.append((one, score))
        return found

    def selection(
        self, sample: EditSample, candidates: Sequence[Candidate], count: int, *, notes: tuple[str, ...] = ()
    ) -> Selection:
        """The best of these. count: how many whole candidates the selector is allowed to make of this sample."""
        found, winner, why = self.best(candidates)
        return Selection(sample, winner, why, tuple(found), self.unpruned(found, count), ended=self.ended, notes=notes)

    def unpruned(self, candidates: Sequence[Candidate], count: int) -> Cost:
        """What that many whole candidates would have cost, each scored once, by what those that were made took on
        average (their seconds with those of their previews).
        """
        made = [one for one in candidates if one.fate == "made"]
        share = count / max(len(made), 1)
        calls = sum(one.cost.judge_calls / max(len(one.looks), 1) for one in made)
        return Cost(count * self.steps, round(calls * share), total(one.cost for one in made).seconds * share)

    def check(self, samples: Sequence[EditSample], least: int | None = None) -> None:
        """Raise ValueError where samples lack what the reward needs, or the budget is too small for one candidate of
        each (or for `least` evaluations a sample), or in evaluations that the editor does not count.
        """
        if not samples:
            raise ValueError("there is nothing to edit: give at least one sample")
        ids = [sample.id for sample in samples]
        if len(set(ids)) < len(ids):
            raise ValueError("samples share an id: give each its own, for reports and journals")
        self._scorer.reward.check(samples)
        needed = len(samples) * (self.steps if least is None else least)
        limit = self.budget.evaluations
        if limit is not None and not self.steps:
            raise ValueError(f"{self.editor.id} counts no denoiser evaluations: limit judge calls or seconds instead")
        if limit is not None and limit < needed:
            raise ValueError(
                f"a budget of {limit} denoiser evaluations is too small: one candidate for each of {len(samples)} "
                f"samples takes {needed}"
            )

    # -- paying -------------------------------------------------------------------------------------------------------

    def _room(self, evaluations: int) -> int:
        """How many things that take so many evaluations there is budget for; notes why it ends there."""
        each = replace(self._dearest, evaluations=evaluations)
        room = self.budget.room(self.spent, each)
        if room < 1:
            self.ended = self.budget.lacking(self.spent, each)
        unknown = self._dearest == Cost() and self.budget.limits.keys() - {"evaluations"}
        return int(min(room, 1 if unknown else 1_000_000))

    # -- scoring ------------------------------------------------------------------------------------------------------

    def _scored(
        self,
        wants: Sequence[Want],
        made: Sequence[Made],
        also: Callable[[list[Candidate]], list[Candidate]] | None,
    ) -> list[Candidate]:
        found = []
        for want, one, scored in zip(wants, made, self._scores(wants, made), strict=True):
            score, cost = scored
            sample = None if one.picture is None else want.with_picture(one.picture)
            fate = "failed" if one.picture is None else "made"
            found.append(
                Candidate(want.id, want.noise, sample, score, one.cost + cost, fate, want.step, want.parent)  # type: ignore[arg-type]
            )
        return found if also is None else also(found)

    def _scores(self, wants: Sequence[Want], made: Sequence[Made]) -> list[tuple[Score, Cost]]:
        there = [want.with_picture(one.picture) for want, one in zip(wants, made, strict=True) if one.picture]
        scored = iter(self._scorer(there))
        found = []
        for one in made:
            score, cost, known = next(scored) if one.picture else (Score.failed(one.problem), Cost(), False)
            self._pay(cost, known)
            found.append((score, cost))
            self._dearest = _dearer(self._dearest, one.cost + cost)
        return found

    def _pay(self, cost: Cost, known: bool) -> None:
        with self._counting:
            self.spent += cost
            if known:
                self.known += cost


def select(
    selector: Selector,
    samples: Sequence[EditSample] | EditSample,
    *,
    editor: Editor,
    reward: AnyReward,
    budget: Budget | None = None,
    ties: AnyReward | None = None,
    journal: Journal | None = None,
    seed: int = 0,
) -> Selections:
    """Edit each sample and choose among the candidates; see `Run` for the arguments.

    Raises ValueError before anything is made where samples lack what the reward needs or the budget is too small;
    `RunStopped` where the editor or the reward is down.
    """
    asked = [samples] if isinstance(samples, EditSample) else list(samples)
    run = Run(editor, reward, budget=budget, ties=ties, journal=journal, seed=seed)
    run.check(asked)
    try:
        found = selector(run, asked)
    except (EditorFailed, TooManyFailures) as error:
        raise RunStopped(f"{error}; what was made is in the journal", run.journal) from error
    return Selections(tuple(found), run.known)


def _dearer(one: Cost, other: Cost) -> Cost:
    """What to expect of the next one; evaluations are known beforehand."""
    return Cost(0, max(one.judge_calls, other.judge_calls), max(one.seconds, other.seconds))


def _further(staged: Staged, until: int, made: Made, scored: tuple[Score, Cost] | None) -> Staged:
    if made.picture is None:
        return replace(staged, cost=staged.cost + made.cost, problem=made.problem)
    looks = staged.looks
    cost = staged.cost + made.cost
    if scored is not None:
        looks = (*looks, Look(until, made.picture, scored[0]))
        cost += scored[1]
    return replace(staged, step=until, cost=cost, looks=looks)


def _why_none(candidates: Sequence[Candidate]) -> str:
    if not candidates:
        return "there was no budget for a candidate"
    reasons = [one.score.reason for one in candidates if one.score.reason and one.fate != "stopped"]
    first = max(dict.fromkeys(reasons), key=reasons.count) if reasons else ""
    return f"none of {len(candidates)} candidates has a score: {first}"
