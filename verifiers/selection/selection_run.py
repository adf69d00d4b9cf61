"""A selection run: generates and scores candidates, accounts for their cost and journals them. Selectors decide, and
are deterministic, so that a resumed run finds its requests in the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Protocol

from ...reward import BaseReward, Box, Card, EditSample, Image, Reward, Score, TooManyFailures
from ...reward.boxes import boxes_of_corners
from ...reward.metrics.pairwise import PairedSampleMetric, PairwiseMetric, compare_scores, pack_pair
from .candidate import (
    Budget,
    Candidate,
    CandidateStatus,
    Cost,
    Preview,
    Selection,
    Selections,
    TournamentMatch,
    contenders,
    sum_costs,
)
from .editor import Editor, EditorError, NoiseSpec
from .generation import CandidateGenerator, CandidateRequest, GeneratedImage, PartialCandidate
from .journal import Journal
from .scoring import JournaledScorer

STEP_SEED_STRIDE = 1_000_000
"""Distance between the seeds of two steps, so that candidates of different steps never share their noise."""


class SelectionStopped(RuntimeError):
    """The editor or the reward is down. Pass `journal` to the next run to resume."""

    def __init__(self, message: str, journal: Journal) -> None:
        super().__init__(message)
        self.journal = journal


class Selector(Protocol):
    """Generates candidates for each sample and chooses among them."""

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> Sequence[Selection]: ...


def edit_request(
    instruction: str,
    *sources: object,
    id: str = "edit",  # noqa: A002  (the field's name)
    boxes: Mapping[str, Sequence[Box | tuple[float, float, float, float]]] | None = None,
    **fields: Any,
) -> EditSample:
    """An edit request, as a sample whose `edited` is the source.

    Raises ImageError or ValueError.

    Args:
        sources: Anything `Image.of` takes.
        boxes: Objects of the first source, name -> boxes, or pixel corners (x0, y0, x1, y1).
        fields: Any other field of `EditSample`.
    """
    images = tuple(Image.of(source) for source in sources)
    if not images:
        raise ValueError("there is no image to edit: give at least one source")
    size = images[0].size
    named_boxes = {
        name: tuple(entry if isinstance(entry, Box) else boxes_of_corners(name, [entry], size)[0] for entry in entries)
        for name, entries in (boxes or {}).items()
    }
    return EditSample(id=id, instruction=instruction, sources=images, edited=images[0], boxes=named_boxes, **fields)


class SelectionRun:
    """Generates and scores candidates within a budget.

    Args:
        tiebreak_reward: Scores candidates that share the highest value.
        journal: Cache of images and scores; in memory by default.
        seed: Of the first candidate; the seeds of the others follow it.
    """

    def __init__(
        self,
        editor: Editor,
        reward: BaseReward,
        *,
        budget: Budget | None = None,
        tiebreak_reward: BaseReward | None = None,
        journal: Journal | None = None,
        seed: int = 0,
    ) -> None:
        self.editor = editor
        self.reward = reward
        self.budget = budget or Budget()
        self.journal = journal or Journal()
        self.seed = seed
        self.spent = Cost()
        self.cached_cost = Cost()
        self.stop_reason = ""
        if self.budget.judge_calls is not None and not isinstance(reward, Reward):
            raise ValueError("judge calls of a reward on a server cannot be counted: limit nfe or seconds")
        self._scorer = JournaledScorer(reward, self.journal)
        self._tiebreak_scorer = None if tiebreak_reward is None else JournaledScorer(tiebreak_reward, self.journal)
        self._comparison_scorer: tuple[PairwiseMetric, JournaledScorer] | None = None
        self._others: dict[BaseReward, JournaledScorer] = {}
        self._cost_lock = threading.Lock()  # a batch is scored while the next one is made
        self._max_candidate_cost = Cost()
        self._max_match_cost = Cost()
        self._generator = CandidateGenerator(editor, self.journal, self._charge)

    # -- for selectors ------------------------------------------------------------------------------------------------

    @property
    def card(self) -> Card:
        """The card of the reward."""
        return self._scorer.reward.card

    @property
    def nfe_per_image(self) -> int:
        """Denoiser evaluations per image."""
        return self.editor.nfe

    def candidate_noise(self, number: int, step: int = 1) -> NoiseSpec:
        """The noise of candidate `number` (from 0) at a step, independent of the number of candidates."""
        return NoiseSpec(self.seed + STEP_SEED_STRIDE * (step - 1) + number)

    def request(self, sample: EditSample, number: int) -> CandidateRequest:
        """Candidate `number` of a sample, which is both the editor's input and the reward's."""
        return CandidateRequest(f"{number}", sample, sample, self.candidate_noise(number))

    def generate(
        self,
        requests: Sequence[CandidateRequest],
        postprocess: Callable[[list[Candidate]], list[Candidate]] | None = None,
    ) -> list[Candidate]:
        """Generate and score candidates, in order, as many as the budget allows; the rest are missing.

        A batch is scored while the next one is generated, unless judge calls or seconds are limited. Generation is at
        most one batch ahead, so that little is wasted if the reward is down.

        Args:
            postprocess: Applied to each scored batch; returns it with updated costs.
        """
        candidates: list[Candidate] = []
        with ThreadPoolExecutor(1) as scoring:
            pending: Future[list[Candidate]] | None = None
            limited = self.budget.judge_calls is not None or self.budget.seconds is not None
            start = 0
            while start < len(requests):
                if pending is not None and limited:
                    candidates, pending = candidates + pending.result(), None
                room = self._remaining(self.nfe_per_image)
                if room < 1:
                    break
                batch = requests[start : start + min(self.editor.batch_size, room)]
                start += len(batch)
                images = self._generator.generate(batch)
                candidates += [] if pending is None else pending.result()
                pending = scoring.submit(self._to_candidates, batch, images, postprocess)
            return candidates + ([] if pending is None else pending.result())

    def generate_interleaved(self, rows: Sequence[Sequence[CandidateRequest]]) -> list[list[Candidate]]:
        """`generate` for several samples, round-robin, so that a budget that runs out treats all samples alike."""
        ordered = [
            (row, request) for column in zip_longest(*rows) for row, request in enumerate(column) if request is not None
        ]
        candidates: list[list[Candidate]] = [[] for _ in rows]
        for (row, _), candidate in zip(ordered, self.generate([request for _, request in ordered]), strict=False):
            candidates[row].append(candidate)
        return candidates

    def advance(
        self, partials: Sequence[PartialCandidate], until_step: int, *, score_preview: bool = True
    ) -> list[PartialCandidate]:
        """Advance candidates to step `until_step`, as many as the budget allows, and score their previews unless
        `score_preview` is False.

        Candidates beyond the budget and failed ones are returned unchanged.

        Raises:
            TypeError: For an editor that is not a `StepwiseEditor`.
        """
        self._generator.require_stepwise()
        results = list(partials)
        active = [number for number, partial in enumerate(results) if not partial.error and partial.step < until_step]
        while active:
            step = results[active[0]].step
            room = self._remaining(until_step - step)
            if room < 1:
                break
            batch = [number for number in active if results[number].step == step][: min(self.editor.batch_size, room)]
            active = [number for number in active if number not in batch]
            images = self._generator.advance([results[number] for number in batch], until_step)
            requests = [results[number].request for number in batch]
            scores = self._score_images(requests, images) if score_preview else [None] * len(images)
            for number, image, score in zip(batch, images, scores, strict=True):
                results[number] = _advance(results[number], until_step, image, score)
        return results

    def to_candidate(self, partial: PartialCandidate) -> Candidate:
        """A partial candidate as a candidate: `made` if it reached the last step, else `stopped` or `failed`."""
        request, cost, previews = partial.request, partial.cost, partial.previews
        if partial.error:
            sample, score, status = None, Score.failed(partial.error), "failed"
        elif previews and previews[-1].step == self.nfe_per_image:
            sample, score, status = request.with_image(previews[-1].picture), previews[-1].score, "made"
        else:
            sample = request.with_image(previews[-1].picture) if previews else None
            score = Score.abstained(f"stopped after {partial.step} of {self.nfe_per_image} evaluations")
            status = "stopped"
        return Candidate(request.id, request.noise, sample, score, cost, status, request.step, request.parent, previews)  # type: ignore[arg-type]

    def contenders(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], str]:
        """The candidates that can be chosen; without any, the reason.

        Those that a guard rejected can be chosen only if no other has a value. None can be if no candidate has a value,
        or if all values are rejections or the lowest of the reward's range while other candidates have no value: a
        known bad edit is not preferred to an unknown one.
        """
        made = [candidate for candidate in candidates if candidate.status == "made"]
        indices, reason = contenders([candidate.score for candidate in made], self.card.range[0])
        return [made[index] for index in indices], reason if indices or reason else _no_score_reason(candidates)

    def choose(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], Candidate | None, str]:
        """The candidates, the chosen one and the reason; tied candidates are returned with the cost of the tiebreak.

        Among the contenders the highest value wins, then the highest value of the tiebreak reward, then the lowest
        seed. The choice is None if there are no contenders.
        """
        updated = list(candidates)
        valued, reason = self.contenders(updated)
        if not valued:
            return updated, None, reason
        top = max(candidate.value for candidate in valued if candidate.value is not None)
        tied = [candidate for candidate in valued if candidate.value == top]
        lower = [value for candidate in valued if (value := candidate.value) is not None and value < top]
        reason = f"the highest of {len(valued)}, {top:.4g}" + (f"; the next has {max(lower):.4g}" if lower else "")
        if len(tied) == 1:
            return updated, tied[0], reason
        reason = f"{len(tied)} of {len(valued)} have the highest value, {top:.4g}"
        if self._tiebreak_scorer is not None:
            pending = [
                (number, candidate.sample)
                for number, candidate in enumerate(tied)
                if candidate.sample and candidate.tiebreak_score is None
            ]
            scored = self._tiebreak_scorer([sample for _, sample in pending])
            for (number, _), (score, cost, cached) in zip(pending, scored, strict=True):
                self._charge(cost, cached)
                rescored = replace(tied[number], tiebreak_score=score, cost=tied[number].cost + cost)
                updated[updated.index(tied[number])] = rescored
                tied[number] = rescored
            scores = [candidate.tiebreak_score for candidate in tied if candidate.tiebreak_score]
            if values := [score.value for score in scores if score.value is not None]:
                best_tiebreak = max(values)
                tied = [one for one in tied if one.tiebreak_score and one.tiebreak_score.value == best_tiebreak]
                name = self._tiebreak_scorer.reward.card.name
                reason += f"; {name} is highest for {len(tied)} of them, {best_tiebreak:.4g}"
        chosen = min(tied, key=lambda candidate: (candidate.noise.seed, candidate.id))
        return updated, chosen, reason + ("; the lowest seed among those" if len(tied) > 1 else "")

    def compare(
        self, pairs: Sequence[tuple[Candidate, Candidate]], comparison: PairwiseMetric | None = None
    ) -> list[TournamentMatch]:
        """Compare pairs of candidates, in order, as many as the budget allows; the rest are missing.

        A pair has two candidates with images, of the same sample.

        Args:
            comparison: Answered by the reward's experts; None compares the two scores at no cost.

        Raises:
            ValueError: If the comparison needs a role without an expert, even for no pairs.
        """
        if comparison is None:
            return [TournamentMatch(a.id, b.id, compare_scores(a.score, b.score), Cost()) for a, b in pairs]
        compare = self._scorer_for(comparison)
        budget = replace(self.budget, nfe=None)  # a match takes no NFE, so none need to be left
        matches: list[TournamentMatch] = []
        while len(matches) < len(pairs):
            room = budget.remaining(self.spent, self._max_match_cost)
            if room < 1:
                self.stop_reason = budget.exhausted_reason(self.spent, self._max_match_cost)
                break
            unknown = any(not getattr(self._max_match_cost, name) for name in budget.limits)
            batch = pairs[len(matches) :][: 1 if unknown else int(min(room, len(pairs)))]
            scored = compare([pack_pair(a.sample, b.sample) for a, b in batch if a.sample and b.sample])
            for (a, b), (score, cost, cached) in zip(batch, scored, strict=True):
                self._charge(cost, cached)
                self._max_match_cost = _max_cost(self._max_match_cost, cost)
                matches.append(TournamentMatch(a.id, b.id, score, cost))
        return matches

    def _scorer_for(self, comparison: PairwiseMetric) -> JournaledScorer:
        if self._comparison_scorer is None or self._comparison_scorer[0] != comparison:
            own = self._scorer.reward
            if not isinstance(own, Reward):
                raise ValueError(
                    f"{comparison.card.name} needs the reward's experts, and those of {own.card.name} are on a "
                    "server: compare by scores, or give a reward of this process"
                )
            reward = Reward(
                PairedSampleMetric(comparison),
                own.experts,
                engine=own.engine,
                max_failure_rate=own.max_failure_rate,
                on_failures=own.on_failures,
                outage_timeout_s=own.outage_timeout_s,
            )
            self._comparison_scorer = comparison, JournaledScorer(reward, self.journal)
        return self._comparison_scorer[1]

    def rescore(self, reward: BaseReward, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Score]]:
        """Score candidates by another reward; returns each candidate with the added cost, and the new score.

        For the run's own reward, and for candidates without an image, the existing score is returned.
        """
        if reward not in self._others:
            self._others[reward] = JournaledScorer(reward, self.journal)
        scorer = self._others[reward]
        is_own = scorer.identity == self._scorer.identity
        samples = [candidate.sample for candidate in candidates if candidate.sample is not None]
        scored = iter(scorer([] if is_own else samples))
        rescored = []
        for candidate in candidates:
            score = candidate.score
            if not is_own and candidate.sample is not None:
                score, cost, cached = next(scored)
                self._charge(cost, cached)
                candidate = replace(candidate, cost=candidate.cost + cost)
                self._max_candidate_cost = _max_cost(self._max_candidate_cost, candidate.cost)
            rescored.append((candidate, score))
        return rescored

    def make_selection(
        self, sample: EditSample, candidates: Sequence[Candidate], max_candidates: int, *, notes: tuple[str, ...] = ()
    ) -> Selection:
        """The selection of the best candidate.

        Args:
            max_candidates: Finished candidates that the selector may make.
        """
        updated, winner, reason = self.choose(candidates)
        cost = self.full_cost(updated, max_candidates)
        return Selection(sample, winner, reason, tuple(updated), cost, stop_reason=self.stop_reason, notes=notes)

    def full_cost(self, candidates: Sequence[Candidate], max_candidates: int) -> Cost:
        """The cost of `max_candidates` finished candidates, each scored once, extrapolated from the average finished
        one (seconds include previews).
        """
        finished = [candidate for candidate in candidates if candidate.status == "made"]
        share = max_candidates / max(len(finished), 1)
        calls = sum(candidate.cost.judge_calls / max(len(candidate.previews), 1) for candidate in finished)
        return Cost(
            max_candidates * self.nfe_per_image,
            round(calls * share),
            sum_costs(candidate.cost for candidate in finished).seconds * share,
        )

    def check(self, samples: Sequence[EditSample], min_nfe: int | None = None) -> None:
        """Raise ValueError if samples lack fields that the reward requires, if the budget is too small for one
        candidate per sample (or for `min_nfe` per sample), or if it limits NFE that the editor does not count.
        """
        if not samples:
            raise ValueError("no samples to edit: give at least one")
        ids = [sample.id for sample in samples]
        if len(set(ids)) < len(ids):
            raise ValueError("samples share an id: give each a unique one, for reports and journals")
        self._scorer.reward.validate(samples)
        needed = len(samples) * (self.nfe_per_image if min_nfe is None else min_nfe)
        limit = self.budget.nfe
        if limit is not None and not self.nfe_per_image:
            raise ValueError(f"{self.editor.id} does not count NFE: limit judge calls or seconds instead")
        if limit is not None and limit < needed:
            raise ValueError(
                f"a budget of {limit} NFE is too small: one candidate for each of {len(samples)} samples takes {needed}"
            )

    # -- budget -------------------------------------------------------------------------------------------------------

    def _remaining(self, nfe: int) -> int:
        """How many more units of `nfe` evaluations the budget allows; records the stop reason if none."""
        unit_cost = replace(self._max_candidate_cost, nfe=nfe)
        room = self.budget.remaining(self.spent, unit_cost)
        if room < 1:
            self.stop_reason = self.budget.exhausted_reason(self.spent, unit_cost)
        unknown = self._max_candidate_cost == Cost() and self.budget.limits.keys() - {"nfe"}
        return int(min(room, 1 if unknown else 1_000_000))

    # -- scoring ------------------------------------------------------------------------------------------------------

    def _to_candidates(
        self,
        requests: Sequence[CandidateRequest],
        images: Sequence[GeneratedImage],
        postprocess: Callable[[list[Candidate]], list[Candidate]] | None,
    ) -> list[Candidate]:
        candidates = []
        for request, image, result in zip(requests, images, self._score_images(requests, images), strict=True):
            score, cost = result
            sample = None if image.picture is None else request.with_image(image.picture)
            status: CandidateStatus = "failed" if image.picture is None else "made"
            candidates.append(
                Candidate(
                    request.id, request.noise, sample, score, image.cost + cost, status, request.step, request.parent
                )
            )
        return candidates if postprocess is None else postprocess(candidates)

    def _score_images(
        self, requests: Sequence[CandidateRequest], images: Sequence[GeneratedImage]
    ) -> list[tuple[Score, Cost]]:
        samples = [
            request.with_image(image.picture) for request, image in zip(requests, images, strict=True) if image.picture
        ]
        scored = iter(self._scorer(samples))
        results = []
        for image in images:
            score, cost, cached = next(scored) if image.picture else (Score.failed(image.error), Cost(), False)
            self._charge(cost, cached)
            results.append((score, cost))
            self._max_candidate_cost = _max_cost(self._max_candidate_cost, image.cost + cost)
        return results

    def _charge(self, cost: Cost, cached: bool) -> None:
        with self._cost_lock:
            self.spent += cost
            if cached:
                self.cached_cost += cost


def select(
    selector: Selector,
    samples: Sequence[EditSample] | EditSample,
    *,
    editor: Editor,
    reward: BaseReward,
    budget: Budget | None = None,
    tiebreak_reward: BaseReward | None = None,
    journal: Journal | None = None,
    seed: int = 0,
) -> Selections:
    """Edit each sample and choose among the candidates; see `SelectionRun` for the arguments.

    Raises ValueError before generation if samples lack fields that the reward requires or the budget is too small;
    `SelectionStopped` if the editor or the reward is down.
    """
    batch = [samples] if isinstance(samples, EditSample) else list(samples)
    run = SelectionRun(editor, reward, budget=budget, tiebreak_reward=tiebreak_reward, journal=journal, seed=seed)
    run.check(batch)
    try:
        selections = selector(run, batch)
    except (EditorError, TooManyFailures) as error:
        raise SelectionStopped(f"{error}; the journal holds what was generated", run.journal) from error
    return Selections(tuple(selections), run.cached_cost)


def _max_cost(first: Cost, second: Cost) -> Cost:
    """The estimate for the next candidate; NFE are known beforehand."""
    return Cost(0, max(first.judge_calls, second.judge_calls), max(first.seconds, second.seconds))


def _advance(
    partial: PartialCandidate, until_step: int, image: GeneratedImage, scored: tuple[Score, Cost] | None
) -> PartialCandidate:
    if image.picture is None:
        return replace(partial, cost=partial.cost + image.cost, error=image.error)
    previews = partial.previews
    cost = partial.cost + image.cost
    if scored is not None:
        previews = (*previews, Preview(until_step, image.picture, scored[0]))
        cost += scored[1]
    return replace(partial, step=until_step, cost=cost, previews=previews)


def _no_score_reason(candidates: Sequence[Candidate]) -> str:
    if not candidates:
        return "the budget allows no candidate"
    reasons = [
        candidate.score.reason for candidate in candidates if candidate.score.reason and candidate.status != "stopped"
    ]
    most_common = max(dict.fromkeys(reasons), key=reasons.count) if reasons else ""
    return f"none of {len(candidates)} candidates has a score: {most_common}"
