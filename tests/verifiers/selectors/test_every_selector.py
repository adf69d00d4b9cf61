"""What every selector promises: of journals, order, budgets, failures and missing values, and what it refuses."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import Image, Reward
from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers import BestOfN, Budget, Journal, select
from editcritic.verifiers.selection import Selection, Selections, SelectionStopped, Selector
from editcritic.verifiers.selectors.best_of_n import AdaptiveBestOfN
from editcritic.verifiers.selectors.fk_steering import FKSteering
from editcritic.verifiers.selectors.halving import SuccessiveHalving
from editcritic.verifiers.selectors.noise_search import SearchOverPaths, ZeroOrderSearch
from editcritic.verifiers.selectors.retry import RetryUntilAccepted
from editcritic.verifiers.selectors.sequential import BeamSearch, MultiTurnEditing, SequentialEditing
from editcritic.verifiers.selectors.tournament import KnockoutTournament, RoundRobinTournament

from ..numpy_editor import Painter, Plain, gated, graded, judge, pick, read, same_cost, without_time
from .test_sequential import compounds
from .test_tournament import JUDGE, honest, referee

SEARCHES: list[Selector] = [
    SuccessiveHalving(8, (1, 3)),
    FKSteering(8),
    ZeroOrderSearch(2, 3, num_starts=2),
    SearchOverPaths(3, 2, (2, 4)),
]
SELECTORS: list[Selector] = [
    *SEARCHES,
    BestOfN(6),
    AdaptiveBestOfN(6),
    RetryUntilAccepted(0.7, 4),
    KnockoutTournament(6),
    RoundRobinTournament(5),
    BeamSearch(2, 4),
    SequentialEditing(4),
    MultiTurnEditing(4),
]
ON_FINAL_IMAGES = (BestOfN, KnockoutTournament, RoundRobinTournament)
"""Selectors whose candidates do not depend on scores."""


def name_of(selector: Selector) -> str:
    return type(selector).__name__


each_search = pytest.mark.parametrize("selector", SEARCHES, ids=name_of)
each_selector = pytest.mark.parametrize("selector", SELECTORS, ids=name_of)


def picked(selector: Selector, samples: int = 2, **options: Any) -> Selections:
    return select(selector, compounds(samples), **{"editor": Painter(), "reward": graded(), **options})


@pytest.mark.parametrize(
    "selector", [*SELECTORS, KnockoutTournament(5, JUDGE), RoundRobinTournament(4, JUDGE)], ids=name_of
)
def test_a_second_run_with_the_same_journal_makes_and_asks_nothing(selector: Selector, tmp_path: Any) -> None:
    with Journal(tmp_path) as journal:
        first = picked(selector, reward=graded(referee(honest)), journal=journal)
    painter, expert = Painter(), referee(honest)
    with Journal(tmp_path) as journal:
        again = picked(selector, editor=painter, reward=graded(expert), journal=journal)
    assert (painter.calls, expert.calls) == ([], [])
    assert [one.to_json() for one in again] == [one.to_json() for one in first]
    assert same_cost(again.cached_cost, again.spent)
    assert same_cost(again.spent, first.spent)


@each_selector
def test_the_order_of_samples_and_the_size_of_batches_change_nothing(selector: Selector) -> None:
    one = pick(selector, compounds(4), editor=Painter(batch_size=3), seed=5)
    other = pick(selector, compounds(4)[::-1], editor=Painter(batch_size=16), seed=5)
    for some, same in zip(one, reversed(list(other)), strict=True):
        assert without_time(some.to_json()) == without_time(same.to_json())


@pytest.mark.parametrize("limits", [{}, {"nfe": 77}, {"judge_calls": 23}, {"judge_calls": 3}, {"seconds": 1e9}])
@each_selector
def test_what_is_spent_is_what_was_done_and_never_more_than_the_budget(selector: Selector, limits: Any) -> None:
    painter, expert = Painter(batch_size=3), judge()
    result = picked(selector, editor=painter, reward=graded(expert), budget=Budget(**limits))
    assert result.spent.nfe == painter.evaluated
    assert result.spent.judge_calls == expert.seen.total()
    assert all(getattr(result.spent, name) <= limit for name, limit in limits.items())
    for one in result:
        assert len({candidate.id for candidate in one.candidates}) == len(one.candidates)
        values = [candidate.value for candidate in one.candidates if candidate.value is not None]
        if selector in SEARCHES or isinstance(selector, BestOfN | AdaptiveBestOfN):
            assert one.value == max(values)


@each_search
def test_a_budget_of_two_whole_images_makes_one_of_each(selector: Selector) -> None:
    result = picked(selector, budget=Budget(nfe=16))
    assert all(one.winner is not None for one in result)
    assert result.spent.nfe <= 16


@each_search
def test_what_fails_in_the_middle_loses_nothing_that_was_made(selector: Selector) -> None:
    journal, whole = Journal(), picked(selector)
    down = graded(judge(rule=lambda query: Failure("down")), max_failure_rate=0.1)
    with pytest.raises(SelectionStopped, match="down"):
        picked(selector, editor=Painter(batch_size=1), reward=down, journal=journal)
    result = picked(selector, editor=Painter(batch_size=1), journal=journal)
    assert [one.picture for one in result] == [one.picture for one in whole]
    assert result.cached_cost.nfe > 0


@each_search
def test_a_search_needs_an_editor_that_can_stop(selector: Selector) -> None:
    with pytest.raises(TypeError, match=r"not a StepwiseEditor|use BestOfN"):
        picked(selector, editor=Plain(Painter()))


def without(hidden: Any, how: str) -> Reward:
    """The reward of the worth of images, of which the hidden ones have none, or are rejected."""
    if how == "rejected":
        return gated(hidden)
    answer = Abstention("cannot tell") if how == "abstained" else Failure("no answer")

    def rule(query: Any) -> Any:
        return answer if hidden(query.image) else Measurement(read(query.image, query.prompt))

    return graded(judge(rule=rule), on_failures="none")


def chosen_images(selection: Selection) -> list[Image]:
    candidates = [*selection.steps, *([] if selection.winner is None else [selection.winner])]
    return [candidate.picture for candidate in candidates if candidate.picture is not None]


@pytest.mark.parametrize("how", ["abstained", "failed", "rejected"])
@each_selector
@settings(max_examples=8, deadline=None)  # each is a run or two
@given(seed=st.integers(0, 1000), below=st.floats(0.1, 1.0), salt=st.integers(0, 7))
def test_no_bad_candidate_is_chosen_for_having_no_value_or_a_rejection(selector, how, seed, below, salt):
    def hidden(picture: Image) -> bool:
        return read(picture) < below and bool(int(picture.digest[salt], 16) & 1)

    (one,) = picked(selector, 1, reward=without(hidden, how), seed=seed)
    images = chosen_images(one)
    others = [
        candidate
        for candidate in one.candidates
        if candidate.value is not None and candidate.picture is not None and not hidden(candidate.picture)
    ]
    if how != "rejected" or (others and one.winner is not None and not one.steps):
        assert not [picture for picture in images if hidden(picture)]
    if isinstance(selector, ON_FINAL_IMAGES):
        (best,) = chosen_images(picked(selector, 1, seed=seed)[0])
        if not hidden(best):
            assert images == [best]


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (BestOfN, {"n": 0}, "got 0"),
    (AdaptiveBestOfN, {"n": 0}, "n >= 1"),
    (AdaptiveBestOfN, {"budget_fraction": 0.0}, "budget_fraction"),
    (AdaptiveBestOfN, {"budget_fraction": 1.5}, "budget_fraction"),
    (AdaptiveBestOfN, {"preview_step": -1}, "denoising step from 1 on"),
    (AdaptiveBestOfN, {"preview_step": 2}, "needs a calibration"),
    (AdaptiveBestOfN, {"calibration": "no such file"}, "cannot read the calibration no such file"),
    (FKSteering, {"n": 0}, "got"),
    (FKSteering, {"checkpoints": ()}, "got"),
    (FKSteering, {"checkpoints": (2, 2)}, "got"),
    (FKSteering, {"renoise_steps": 2}, "got"),
    (FKSteering, {"reward_scale": 0}, "got"),
    (FKSteering, {"reward_scale": math.inf}, "got"),
    (FKSteering, {"potential": "sum"}, "got"),
    (FKSteering, {"ess_threshold": 1.5}, "got"),
    (SuccessiveHalving, {"n": 0}, "at least one candidate"),
    (SuccessiveHalving, {"checkpoints": (2, 2)}, "increasing"),
    (SuccessiveHalving, {"checkpoints": (0, 2)}, "from 1"),
    (SuccessiveHalving, {"keep": (8,)}, "each of 2 checkpoints"),
    (SuccessiveHalving, {"keep": (8, 0.25)}, "not both"),
    (SuccessiveHalving, {"keep": (4, 8)}, "must decrease"),
    (SuccessiveHalving, {"keep": (4, 4)}, "must decrease"),
    (SuccessiveHalving, {"keep": (17, 8)}, "from 16"),
    (SuccessiveHalving, {"keep": (1.5, 0.5)}, "from 1"),
    (SuccessiveHalving, {"keep": (4, 0)}, "above 0"),
    (ZeroOrderSearch, {"neighbours": 0}, "got"),
    (ZeroOrderSearch, {"rounds": 0}, "got"),
    (ZeroOrderSearch, {"radius": 0.0}, "got"),
    (ZeroOrderSearch, {"radius": 1.5}, "got"),
    (ZeroOrderSearch, {"num_starts": 0}, "got"),
    (SearchOverPaths, {"num_paths": 0}, "got"),
    (SearchOverPaths, {"branching_factor": 0}, "got"),
    (SearchOverPaths, {"checkpoints": ()}, "got"),
    (SearchOverPaths, {"checkpoints": (3, 2)}, "got"),
    (SearchOverPaths, {"renoise_steps": 2}, "got"),
    (SearchOverPaths, {"renoise_steps": -1}, "got"),
    (RetryUntilAccepted, {"verifier": 0.5, "max_attempts": 0}, "got 0"),
    (BeamSearch, {"width": 5, "n": 4}, "from 1 to its 4 candidates per step, got 5"),
    (BeamSearch, {"width": 0}, "got 0"),
    (SequentialEditing, {"n": 0}, "at least one candidate per step, got 0"),
    (KnockoutTournament, {"n": 0}, "at least one candidate, got 0"),
    (RoundRobinTournament, {"n": 0}, "at least one candidate, got 0"),
    (KnockoutTournament, {"n": 4, "comparison": "pairwise-judge"}, "got 'pairwise-judge'"),
    (RoundRobinTournament, {"n": 4, "comparison": "pairwise-judge"}, "got 'pairwise-judge'"),
]


@pytest.mark.parametrize(("selector", "options", "message"), REFUSED)
def test_settings_that_make_no_sense_are_refused(selector: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        selector(**options)


def test_a_search_beyond_the_last_step_is_refused_before_anything_is_made() -> None:
    painter = Painter(nfe=4)
    with pytest.raises(ValueError, match="last of 4 steps"):
        pick(SuccessiveHalving(8, (2, 4)), editor=painter)
    assert painter.evaluated == 0
