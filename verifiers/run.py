"""A run: the one place where candidates are made, scored, paid for and remembered. Selectors decide, a run carries out.

A selector is a function of a run and samples; see `best_of.BestOf` for the shortest. It is deterministic: whatever it
asks twice is known the second time, which is all there is to resuming.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

from ..reward import Asks, Card, EditSample, Engine, Image, Metric, Reward, Score, SpecError, TooManyFailures, spec_of
from ..reward.asking import Ask, Gather
from ..reward.files import sample_to_json
from ..reward.pairwise import Comparison, OfPair, as_one, compared
from .budget import Budget, Cost, total
from .candidate import Candidate, Look, Match, Selection, Selections
from .editor import Draft, Editor, EditorFailed, Noise, StepwiseEditor
from .journal import Journal

T = TypeVar("T")

APART = 1_000_000
"""How far the seeds of two steps are apart: candidates of different steps never share their noise."""

_HOPELESS = 3  # pictures in a row, each asked for alone, after which an editor that has made none is given up


class RunStopped(RuntimeError):
    """The editor or the reward is down. `journal` holds what was made: hand it to the next run, and it goes on."""

    def __init__(self, message: str, journal: Journal) -> None:
        super().__init__(message)
        self.journal = journal


class Selector(Protocol):
    """Makes candidates for each sample and chooses among them."""

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> Sequence[Selection]: ...


@dataclass(frozen=True, slots=True)
class Want:
    """A candidate that is to be made.

    asked: what the editor is told (instruction, sources, earlier turns). judged: what the reward is told; the picture
    is put into it. Both are samples whose `edited` is of no account, as `unedited` makes them.
    """

    id: str
    asked: EditSample
    judged: EditSample
    noise: Noise
    step: int = 1
    parent: str = ""

    def with_picture(self, picture: Image) -> EditSample:
        """The sample as the reward sees it."""
        return replace(self.judged, id=f"{self.judged.id}/{self.id}", group=self.judged.group, edited=picture)


@dataclass(frozen=True, slots=True)
class Staged:
    """A candidate on its way: `step` evaluations are done (counted from the start of the denoising), and paid by
    `cost`. problem: why the editor failed, where it did.
    """

    want: Want
    step: int = 0
    cost: Cost = field(default_factory=Cost)
    looks: tuple[Look, ...] = ()
    problem: str = ""

    @property
    def value(self) -> float | None:
        """What its last preview was worth; None without one, or where it has no value."""
        return self.looks[-1].score.value if self.looks and not self.problem else None


@dataclass(frozen=True, slots=True)
class _Made:
    picture: Image | None
    cost: Cost
    problem: str = ""
    known: bool = False


def unedited(instruction: str, *sources: object, id: str = "edit", **fields: Any) -> EditSample:  # noqa: A002  (the field's name)
    """What is to be edited, as a sample whose edited picture is still the source.

    sources: anything `Image.of` takes. fields: any other field of `EditSample`. Raises ImageError or ValueError.
    """
    pictures = tuple(Image.of(source) for source in sources)
    if not pictures:
        raise ValueError("there is no picture to edit: give at least one source")
    return EditSample(id=id, instruction=instruction, sources=pictures, edited=pictures[0], **fields)


class Run:
    """Makes and scores candidates within a budget.

    ties: asked where candidates share the highest value. journal: what is known already, and where to keep what is
    made; in memory by default. seed: of the first candidate; the others follow it one by one.
    """

    def __init__(
        self,
        editor: Editor,
        reward: Reward,
        *,
        budget: Budget | None = None,
        ties: Reward | None = None,
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
        self._scorer = _Scorer(reward, self.journal)
        self._ties = None if ties is None else _Scorer(ties, self.journal)
        self._referee: tuple[Comparison, _Scorer] | None = None
        self._others: dict[Reward, _Scorer] = {}
        self._counting = threading.Lock()  # a batch is scored while the next one is made
        self._dearest = Cost()
        self._dearest_match = Cost()
        self._has_made = False
        self._in_vain = 0

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
                made = self._make(part)
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
        self._needs_steps()
        found = list(staged)
        going = [number for number, one in enumerate(found) if not one.problem and one.step < until]
        while going:
            here = found[going[0]].step
            room = self._room(until - here)
            if room < 1:
                break
            part = [number for number in going if found[number].step == here][: min(self.editor.batch, room)]
            going = [number for number in going if number not in part]
            made = self._advance([found[number] for number in part], until)
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

        The highest value; among equals that of `ties`; then the lowest seed. None where no candidate has a value.
        """
        found = list(candidates)
        valued = [one for one in found if one.value is not None]
        if not valued:
            return found, None, _why_none(found)
        top = max(one.value for one in valued if one.value is not None)
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

    def _comparing(self, comparison: Comparison) -> _Scorer:
        if self._referee is None or self._referee[0] != comparison:
            ours = self._scorer.reward
            reward = Reward(
                OfPair(comparison),
                ours.experts,
                engine=ours.engine,
                max_failed=ours.max_failed,
                on_failures=ours.on_failures,
                patience_s=ours.patience_s,
            )
            self._referee = comparison, _Scorer(reward, self.journal)
        return self._referee[1]

    def second_look(self, reward: Reward, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Score]]:
        """What another reward says of these, and each candidate again with what that cost.

        The run's own reward has spoken already; where there is no picture, the candidate's score is all there is.
        """
        if reward not in self._others:
            self._others[reward] = _Scorer(reward, self.journal)
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

    # -- making -------------------------------------------------------------------------------------------------------

    def _room(self, evaluations: int) -> int:
        """How many things that take so many evaluations there is budget for; notes why it ends there."""
        each = replace(self._dearest, evaluations=evaluations)
        room = self.budget.room(self.spent, each)
        if room < 1:
            self.ended = self.budget.lacking(self.spent, each)
        unknown = self._dearest == Cost() and self.budget.limits.keys() - {"evaluations"}
        return int(min(room, 1 if unknown else 1_000_000))

    def _make(self, wants: Sequence[Want]) -> list[_Made]:
        keys = [self._key(want, self.steps) for want in wants]
        plain = [number for number, want in enumerate(wants) if want.noise.parent is None]
        found = self._all(keys, plain, lambda numbers: self._edit([wants[n] for n in numbers]), self.steps)
        other = [number for number in range(len(wants)) if number not in found]
        if other:
            self._needs_steps()
        for start in sorted({wants[number].noise.start for number in other}):
            part = [number for number in other if wants[number].noise.start == start]
            staged = [Staged(wants[number], start) for number in part]
            found |= dict(zip(part, self._advance(staged, self.steps), strict=True))
        return [found[number] for number in range(len(wants))]

    def _needs_steps(self) -> None:
        if not isinstance(self.editor, StepwiseEditor):
            raise TypeError(f"{self.editor.id} cannot stop half-way: use a selector that makes whole pictures")

    def _edit(self, wants: Sequence[Want]) -> list[tuple[Image, Any]]:
        pictures = self.editor.edit(
            [want.asked.sources for want in wants],
            [want.asked.instruction for want in wants],
            [want.noise.seed for want in wants],
            history=[want.asked.earlier for want in wants],
        )
        return [(picture, None) for picture in _as_many(pictures, wants, self.editor)]

    def _advance(self, staged: Sequence[Staged], until: int) -> list[_Made]:
        keys = [self._key(one.want, until) for one in staged]
        found = self._all(
            keys, range(len(staged)), lambda numbers: self._drafts([staged[n] for n in numbers], until),
            until - staged[0].step,
        )  # fmt: skip
        return [found[number] for number in range(len(staged))]

    def _drafts(self, staged: Sequence[Staged], until: int) -> list[tuple[Image, Any]]:
        assert isinstance(self.editor, StepwiseEditor)
        drafts = [self._draft(one.want, one.step) for one in staged]
        advanced = _as_many(self.editor.advance(drafts, until), staged, self.editor)
        return [(picture, draft.arrays if until < self.steps else None) for draft, picture in advanced]

    def _draft(self, want: Want, step: int) -> Draft:
        """The draft at a step it has been at. What a journal has lost is made again, and not charged again."""
        assert isinstance(self.editor, StepwiseEditor)
        asked, noise = want.asked, want.noise
        arrays = self.journal.draft(self._key(want, step))
        if arrays is not None:
            return Draft(asked.sources, asked.instruction, noise, step, arrays, asked.earlier)
        if noise.parent is not None and not noise.radius:
            parent = self._draft(replace(want, noise=noise.parent), noise.seen)
            draft = self.editor.back([parent], noise.back, [noise.seed])[0]
        else:
            draft = self.editor.begin([asked.sources], [asked.instruction], [noise], history=[asked.earlier])[0]
        if draft.step < step:
            draft = self.editor.advance([draft], step)[0][0]
        return draft

    def _all(
        self,
        keys: Sequence[str],
        numbers: Sequence[int],
        make: Callable[[Sequence[int]], list[tuple[Image, Any]]],
        evaluations: int,
    ) -> dict[int, _Made]:
        """Those of `numbers`, by number: known, or made and kept, or failed."""
        found: dict[int, _Made] = {}
        for number in numbers:
            known = self.journal.made(keys[number])
            if known is not None:  # perhaps made in other pieces, by another selector: charged as it would be here
                cost = Cost(evaluations, 0, known[1].seconds)
                found[number] = _Made(known[0], cost, known=True)
                self._pay(cost, known=True)
                self._has_made = True
        waiting = [[number for number in numbers if number not in found]]
        while waiting:
            part = waiting.pop()
            if not part:
                continue
            began = time.perf_counter()
            try:
                made = make(part)
            except Exception as error:  # the editor is somebody else's: whatever it raises is a failed candidate
                if len(part) > 1:  # one picture may have spoilt the batch, or it was too large
                    half = len(part) // 2
                    waiting += [part[half:], part[:half]]
                    continue
                problem = f"the editor failed: {type(error).__name__}: {error}"
                found[part[0]] = _Made(None, Cost(evaluations, 0, time.perf_counter() - began), problem)
                self._pay(found[part[0]].cost, known=False)
                self._in_vain += 1
                if not self._has_made and self._in_vain >= _HOPELESS:
                    raise EditorFailed(problem) from error
                continue
            self._has_made = True
            each = Cost(evaluations, 0, (time.perf_counter() - began) / len(part))
            for number, (picture, arrays) in zip(part, made, strict=True):
                self.journal.keep_made(keys[number], picture, each, arrays)
                found[number] = _Made(picture, each)
                self._pay(each, known=False)
        return found

    def _key(self, want: Want, step: int) -> str:
        asked = want.asked
        earlier = [
            [turn.instruction, turn.edited.digest, [one.digest for one in turn.sources]] for turn in asked.earlier
        ]
        sources = [image.digest for image in asked.sources]
        return _digest(["made", self.editor.id, sources, asked.instruction, earlier, want.noise.describe(), step])

    # -- scoring ------------------------------------------------------------------------------------------------------

    def _scored(
        self,
        wants: Sequence[Want],
        made: Sequence[_Made],
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

    def _scores(self, wants: Sequence[Want], made: Sequence[_Made]) -> list[tuple[Score, Cost]]:
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
    reward: Reward,
    budget: Budget | None = None,
    ties: Reward | None = None,
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


class _Scorer:
    """A reward that remembers what it has said, and counts what a judge was asked."""

    def __init__(self, reward: Reward, journal: Journal) -> None:
        self._counted = _Counted(reward.metric)
        engine = reward.engine
        if engine.log is None and journal.log is not None:
            engine = Engine(window=engine.window, log=journal.log)  # answers that were paid for outlive the process
        self.reward = Reward(
            self._counted,
            reward.experts,
            engine=engine,
            max_failed=reward.max_failed,
            on_failures=reward.on_failures,
            patience_s=reward.patience_s,
        )
        self._journal = journal
        try:
            metric: Any = spec_of(reward.metric)
        except SpecError:  # one that only its author can build
            metric = reward.card.signature
        self.name = _digest([metric, sorted((role, expert.id) for role, expert in reward.experts.items())])

    def __call__(self, samples: Sequence[EditSample]) -> list[tuple[Score, Cost, bool]]:
        """Score, cost, and whether it was known, a sample each."""
        keys = [self._key(sample) for sample in samples]
        known = {key: found for key in dict.fromkeys(keys) if (found := self._journal.scored(key)) is not None}
        new = {key: sample for key, sample in zip(keys, samples, strict=True) if key not in known}
        fresh = dict(zip(new, self._stream(new), strict=True))
        return [(*(known.get(key) or fresh[key]), key in known) for key in keys]

    def _stream(self, new: dict[str, EditSample]) -> Iterator[tuple[Score, Cost]]:
        began = time.perf_counter()
        for (key, sample), score in zip(new.items(), self.reward.stream(new.values()), strict=True):
            now = time.perf_counter()
            cost = Cost(0, self._counted.calls.pop(sample.id, 0), now - began)
            began = now
            self._journal.keep_scored(key, score, cost)
            yield score, cost

    def _key(self, sample: EditSample) -> str:
        said = {name: value for name, value in sample_to_json(sample).items() if name not in ("id", "group")}
        return _digest(["scored", self.name, said])


class _Counted:
    """A metric, and by sample id how many questions it put to a judge: what it costs where nothing is shared."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self.calls: dict[str, int] = {}

    @property
    def card(self) -> Card:
        return self._metric.card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return self._count(self._metric(sample), sample.id)

    def _count(self, program: Asks[Score], name: str) -> Asks[Score]:
        answer = None
        while True:
            try:
                asked = program.send(answer)
            except StopIteration as done:
                found: Score = done.value
                return found
            if isinstance(asked, Gather):
                asked = Gather(tuple(self._count(inner, name) for inner in asked.programs))
            else:
                assert isinstance(asked, Ask)
                roles = (asked.role or query.role for query in asked.queries)
                self.calls[name] = self.calls.get(name, 0) + sum(role.partition(".")[0] == "judge" for role in roles)
            answer = yield asked


def _dearer(one: Cost, other: Cost) -> Cost:
    """What to expect of the next one; evaluations are known beforehand."""
    return Cost(0, max(one.judge_calls, other.judge_calls), max(one.seconds, other.seconds))


def _further(staged: Staged, until: int, made: _Made, scored: tuple[Score, Cost] | None) -> Staged:
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


def _as_many(made: Sequence[T], asked: Sequence[Any], editor: Editor) -> Sequence[T]:
    if len(made) != len(asked):
        raise ValueError(f"{editor.id} was asked for {len(asked)} pictures and made {len(made)}")
    return made


def _digest(said: Any) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()
