"""Adaptive best of N: what it spends, where, and when it stops."""

from functools import cache
from typing import Any

import pytest

from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers import BestOfN, Budget, Journal, select
from editcritic.verifiers.selection import Selections
from editcritic.verifiers.selection.editor import Editor
from editcritic.verifiers.selectors import AdaptiveBestOfN, PreviewCalibration, calibrate_previews

from ..numpy_editor import Painter, Plain, gated, graded, judge, read, same_cost, scenes


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
    assert same_cost(again.spent, again.cached_cost)
    assert [one.to_json() for one in again] == [one.to_json() for one in first]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n >= 1"),
        ({"budget_fraction": 0.0}, "budget_fraction"),
        ({"budget_fraction": 1.5}, "budget_fraction"),
        ({"preview_step": -1}, "denoising step from 1 on"),
        ({"preview_step": 2}, "needs a calibration"),
        ({"calibration": "no such file"}, "cannot read the calibration no such file"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveBestOfN(**options)


# -- with a calibration -----------------------------------------------------------------------------------------------


@cache
def past(levels: int = 65536) -> PreviewCalibration:
    """Of other scenes than those of `run`: the first twelve."""
    return calibrate_previews(Painter(levels=levels), graded(), scenes(40)[12:], n=16, steps=(2, 4))


def with_previews(share: float, n: int = 16, **options: Any) -> AdaptiveBestOfN:
    return AdaptiveBestOfN(n, share, **{"calibration": past(), "preview_step": 4, **options})


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_previews_are_paid_from_the_share(share):
    painter = Painter()
    result = run(with_previews(share), 12, editor=painter)
    assert painter.evaluated == result.spent.nfe <= int(share * 16 * 8 * 12)
    stopped = [part for one in result for part in one.candidates if part.status == "stopped"]
    assert {part.cost.nfe for part in stopped} == {4}
    assert all(one.winner is not None and one.winner.status == "made" for one in result)
    assert result.spent.judge_calls == sum(max(len(part.previews), 1) for one in result for part in one.candidates)


def test_previews_choose_better_images_with_the_same_evaluations():
    plain, calibrated = run(AdaptiveBestOfN(16, 0.25), 12), run(with_previews(0.25), 12)
    assert calibrated.spent.nfe <= 0.25 * 16 * 8 * 12
    assert mean(calibrated) > mean(plain) + 0.01


def test_the_winner_is_the_best_finished_candidate():
    for one in run(with_previews(0.4), 12):
        finished = [part for part in one.candidates if part.status == "made"]
        assert one.value == max(part.value for part in finished if part.value is not None)
        assert [part.id for part in one.candidates] == [f"{number}" for number in range(len(one.candidates))]


def test_a_calibration_without_previews_serves_any_editor():
    plain = Plain(Painter())
    known = calibrate_previews(Painter(), graded(), scenes(40)[12:], n=16, steps=())
    known = PreviewCalibration(plain.id, known.reward, known.steps, known.values)
    result = run(AdaptiveBestOfN(16, 0.3, calibration=known), 12, editor=plain)
    assert result.spent.nfe <= 0.3 * 16 * 8 * 12
    assert mean(result) > mean(run(BestOfN(4), 12))


def test_one_image_of_each_is_finished_whatever_the_share_and_the_budget():
    result = run(with_previews(0.01))
    assert [sum(part.status == "made" for part in one.candidates) for one in result] == [1] * 6
    limited = run(with_previews(1.0), budget=Budget(nfe=6 * 8 + 11))
    assert limited.spent.nfe <= 6 * 8 + 11
    assert all(one.winner is not None for one in limited)


def test_a_gain_below_the_least_one_ends_it_with_previews_too():
    few = run(with_previews(1.0, min_gain=0.05), 12)
    assert 12 * 8 < few.spent.nfe < run(with_previews(1.0), 12).spent.nfe


def test_the_order_of_samples_decides_nothing_with_previews():
    samples = scenes(6)
    forward = select(with_previews(0.3), samples, editor=Painter(), reward=graded())
    backward = select(with_previews(0.3), samples[::-1], editor=Painter(batch_size=16), reward=graded())
    assert {one.sample.id: one.picture for one in forward} == {one.sample.id: one.picture for one in backward}


def test_failures_and_missing_scores_are_passed_over_with_previews():
    def rule(query):
        value = read(query.image, query.prompt)
        return Abstention("no idea") if value > 0.7 else Measurement(value)

    broken = graded(judge(rule=rule), on_failures="none")
    known = PreviewCalibration(past().editor, {"identity": broken.identity}, past().steps, past().values)
    result = run(with_previews(0.5, calibration=known), editor=Painter(bad_seeds=(1, 3)), reward=broken)
    assert all(one.winner is not None and one.value is not None and one.value <= 0.7 for one in result)
    failed = [part.noise.seed for one in result for part in one.candidates if part.status == "failed"]
    assert set(failed) == {1, 3}


def test_a_rejected_image_wins_only_where_all_finished_ones_were_rejected():
    def rejects(picture):
        return read(picture, "second") < 0.5

    guarded = gated(rejects)
    known = calibrate_previews(Painter(), guarded, scenes(40)[12:], n=8, steps=(4,))
    result = run(AdaptiveBestOfN(8, 0.5, calibration=known, preview_step=4), reward=guarded)
    finished = [[part for part in one.candidates if part.status == "made"] for one in result]
    unrejected = [any(not rejects(part.picture) for part in parts) for parts in finished]
    assert sum(unrejected) >= 5
    assert [one.picture is not None and not rejects(one.picture) for one in result] == unrejected


def test_a_run_with_previews_continues_from_its_journal():
    with Journal() as journal:
        first = run(with_previews(0.3), journal=journal)
        painter, expert = Painter(), judge()
        again = run(with_previews(0.3), editor=painter, reward=graded(expert), journal=journal)
    assert not painter.calls
    assert not expert.seen
    assert [one.to_json() for one in again] == [one.to_json() for one in first]


def test_a_calibration_is_given_as_a_file_too(tmp_path):
    past().save(tmp_path / "calibration.json")
    from_file = run(with_previews(0.3, calibration=f"{tmp_path / 'calibration.json'}"))
    assert [one.to_json()["value"] for one in from_file] == [one.value for one in run(with_previews(0.3))]
    (tmp_path / "calibration.json").write_text('{"schema": 1}')
    with pytest.raises(ValueError, match="is not a calibration"):
        with_previews(0.3, calibration=tmp_path / "calibration.json")


def test_a_calibration_of_something_else_is_refused():
    with pytest.raises(ValueError, match="no previews at step 3: it has 2, 4"):
        with_previews(0.3, preview_step=3)
    with pytest.raises(ValueError, match="calibrate this one"):
        run(with_previews(0.3), editor=Painter(levels=4))
    with pytest.raises(ValueError, match="calibrate with this one"):
        run(with_previews(0.3), reward=graded(None, "second"))
    plain = Plain(Painter())
    known = PreviewCalibration(plain.id, past().reward, past().steps, past().values)
    with pytest.raises(TypeError, match="not a StepwiseEditor"):
        run(with_previews(0.3, calibration=known), editor=plain)
