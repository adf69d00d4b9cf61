"""Adaptive best of N: what it spends, where, and when it stops."""

from typing import Any

import pytest

from editcritic.reward.queries import Failure, Measurement
from editcritic.verifiers import BestOfN, Budget, Journal, select
from editcritic.verifiers.selection import Selections
from editcritic.verifiers.selection.editor import Editor
from editcritic.verifiers.selectors import AdaptiveBestOfN

from ..numpy_editor import Painter, Plain, graded, judge, read, scenes


def run(selector: Any, count: int = 6, editor: Editor | None = None, **options: Any) -> Selections:
    return select(
        selector, scenes(count), editor=editor or Painter(), reward=options.pop("reward", graded()), **options
    )


def mean(result: Selections) -> float:
    return sum(one.value or 0.0 for one in result) / len(result)


@pytest.mark.parametrize("share", [0.2, 0.4, 1.0])
def test_it_spends_its_share_and_no_more(share):
    painter = Painter()
    result = run(AdaptiveBestOfN(16, share), editor=painter)
    allowed = int(share * 16 * 8 * 6)
    assert allowed - 8 < result.spent.nfe <= allowed
    assert painter.evaluated == result.spent.nfe
    assert all(one.winner is not None for one in result)


def test_with_everything_allowed_it_is_best_of_n():
    every = run(BestOfN(16))
    result = run(AdaptiveBestOfN(16, 1.0))
    assert [one.value for one in result] == [one.value for one in every]
    assert [one.picture for one in result] == [one.picture for one in every]


def test_evaluations_move_to_samples_that_have_nothing_good_yet():
    """One sample has the best there can be at once; what it does not need goes to the others."""
    done = scenes(2)[0]

    class Lucky(Painter):
        def _painted(self, draft):
            picture = super()._painted(draft)
            if draft.images != done.sources:
                return picture
            pixels = picture.pixels.copy()
            pixels[0, 0, :2] = 255
            return type(picture).of(pixels)

    first, second = select(AdaptiveBestOfN(8, 0.5), scenes(2), editor=Lucky(), reward=graded())
    assert first.value == 1.0
    assert first.spent.nfe == 8  # nothing can beat it
    assert second.spent.nfe == 8 * 7


def test_it_stops_where_another_picture_promises_too_little():
    result = run(AdaptiveBestOfN(16, 1.0, min_gain=0.05))
    assert 6 * 8 * 2 < result.spent.nfe < 0.7 * 16 * 8 * 6
    assert mean(result) > mean(run(BestOfN(2)))
    assert run(AdaptiveBestOfN(16, 1.0, min_gain=2.0)).spent.nfe == 6 * 8  # the first of each


def test_a_share_that_grows_never_lowers_the_mean():
    values = [mean(run(AdaptiveBestOfN(16, share), 12)) for share in (0.2, 0.4, 0.6, 1.0)]
    assert values == sorted(values)


def test_the_order_of_samples_and_the_seed_decide_nothing_else():
    samples = scenes(5)
    forward = select(AdaptiveBestOfN(8, 0.5), samples, editor=Painter(), reward=graded())
    backward = select(AdaptiveBestOfN(8, 0.5), samples[::-1], editor=Painter(batch_size=16), reward=graded())
    assert {one.sample.id: one.picture for one in forward} == {one.sample.id: one.picture for one in backward}


def test_an_editor_that_cannot_stop_is_asked_for_whole_pictures():
    result = run(AdaptiveBestOfN(8, 0.5), editor=Plain(Painter()))
    assert all(cost.nfe == 8 for one in result for cost in (part.cost for part in one.candidates))
    assert result.spent.nfe == 6 * 8 * 4


def test_of_an_editor_that_counts_no_evaluations_the_share_is_one_of_pictures():
    painter = Painter()
    uncounted = Plain(painter)
    uncounted.nfe = 0
    result = run(AdaptiveBestOfN(8, 0.5), editor=uncounted)
    assert sum(painter.calls) == sum(len(one.candidates) for one in result) == 6 * 4
    assert result.spent.nfe == 0


def test_one_candidate_of_each_is_made_whatever_the_share():
    result = run(AdaptiveBestOfN(2, 0.1))
    assert [len(one.candidates) for one in result] == [1] * 6


def test_a_budget_below_the_share_ends_it():
    result = run(AdaptiveBestOfN(16, 1.0), budget=Budget(nfe=100))
    assert result.spent.nfe <= 100
    assert all(one.winner is not None for one in result)


def test_candidates_without_a_score_are_passed_over():
    def rule(query):
        value = read(query.image, query.prompt)
        return Failure("no idea") if value > 0.7 else Measurement(value)

    result = run(AdaptiveBestOfN(16, 0.5), reward=graded(judge(rule=rule), on_failures="none"))
    assert all(one.value is None or one.value <= 0.7 for one in result)
    assert any(one.winner is not None for one in result)


def test_an_editor_that_fails_for_some_seeds_loses_those():
    result = run(AdaptiveBestOfN(8, 1.0), editor=Painter(bad_seeds=(3, 5)))
    for one in result:
        assert one.winner is not None
        assert {part.noise.seed for part in one.candidates if part.status == "failed"} == {3, 5}


def test_running_again_makes_and_asks_nothing():
    with Journal() as journal:
        first = run(AdaptiveBestOfN(16, 0.4), journal=journal)
        painter, expert = Painter(), judge()
        again = run(AdaptiveBestOfN(16, 0.4), editor=painter, reward=graded(expert), journal=journal)
    assert not painter.calls
    assert not expert.seen
    assert again.spent == again.cached_cost
    assert [one.to_json() for one in again] == [one.to_json() for one in first]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n >= 1"),
        ({"budget_fraction": 0.0}, "budget_fraction"),
        ({"budget_fraction": 1.5}, "budget_fraction"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveBestOfN(**options)
