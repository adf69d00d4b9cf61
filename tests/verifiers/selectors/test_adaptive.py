"""Adaptive best of N: what it spends, where, and when it stops."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from editcritic.reward.queries import Abstention, Measurement
from editcritic.verifiers import BestOfN, Budget, Journal, select
from editcritic.verifiers.selection import Selections
from editcritic.verifiers.selectors import AdaptiveBestOfN, PreviewCalibration, calibrate_previews
from editcritic.verifiers.selectors.best_of_n import Observation, PastPrompts
from tests.verifiers.numpy_editor import Painter, Plain, gated, graded, judge, pick, read, scenes


def run(selector: Any, count: int = 6, **options: Any) -> Selections:
    return pick(selector, count, **options)


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
    assert [one.picture for one in run(AdaptiveBestOfN(16, 1.0))] == [one.picture for one in run(BestOfN(16))]


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

    first, second = pick(AdaptiveBestOfN(8, 0.5), 2, editor=Lucky())
    assert first.value == 1.0
    assert first.spent.nfe == 8  # nothing can beat it
    assert second.spent.nfe == 8 * 7


def test_it_stops_where_another_picture_promises_too_little():
    result = run(AdaptiveBestOfN(16, 1.0, min_gain=0.05))
    assert 6 * 8 * 2 < result.spent.nfe < 0.7 * 16 * 8 * 6
    assert mean(result) > mean(run(BestOfN(2)))
    assert run(AdaptiveBestOfN(16, 1.0, min_gain=2.0)).spent.nfe == 6 * 8  # the first of each


@pytest.mark.parametrize("nfe", [8, 0])
def test_an_editor_that_cannot_stop_or_counts_no_evaluations_is_asked_for_whole_pictures(nfe):
    painter = Painter()
    plain = Plain(painter)
    plain.nfe = nfe
    result = run(AdaptiveBestOfN(8, 0.5), editor=plain)
    assert all(part.cost.nfe == nfe for one in result for part in one.candidates)
    assert sum(painter.calls) == sum(len(one.candidates) for one in result) == 6 * 4
    assert result.spent.nfe == nfe * 6 * 4


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


def test_neither_order_nor_a_journal_change_a_run_with_previews():
    with Journal() as journal:
        first = run(with_previews(0.3), journal=journal)
        painter, expert = Painter(), judge()
        again = run(with_previews(0.3), editor=painter, reward=graded(expert), journal=journal)
    assert not painter.calls
    assert not expert.seen
    assert [one.to_json() for one in again] == [one.to_json() for one in first]
    backward = select(with_previews(0.3), scenes(6)[::-1], editor=Painter(batch_size=16), reward=graded())
    assert {one.sample.id: one.picture for one in first} == {one.sample.id: one.picture for one in backward}


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


HOPELESS, RARE, EASY = [0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]


def recorded(*prompts, previews=None, steps=(1, 8)):
    """A calibration with these final values, and these previews at step 1 (default: the final values)."""
    rows = [
        tuple(zip(first, final, strict=True)) if len(steps) == 2 else tuple((value,) for value in final)
        for first, final in zip(previews or prompts, prompts, strict=True)
    ]
    return PreviewCalibration("painter", {}, steps, {str(number): row for number, row in enumerate(rows)})


def least(*prompts):
    """What an improvement must exceed: a tenth of a standard deviation."""
    return 0.1 * float(np.std(prompts))


def test_failures_make_another_failure_more_likely_and_never_certain():
    past = PastPrompts(recorded(HOPELESS, RARE, EASY, steps=(8,)), 0)
    rates = [past.gain_rates([Observation(None, 0.0)] * count, 0.0, None, {})[0] for count in range(12)]
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert rates[-1] > 0


def test_what_cannot_be_improved_gains_nothing():
    past = PastPrompts(recorded(HOPELESS, RARE, EASY, steps=(8,)), 0)
    assert past.gain_rates([], 1.0, None, {})[0] == 0
    assert past.gain_rates([], 0.4, 0.4, {})[0] == 0
    near = 1 - least(HOPELESS, RARE, EASY) / 2
    assert past.gain_rates([], near, None, {})[0] == 0  # within the error of matching prompts


def test_with_previews_a_candidate_is_worth_what_the_best_rule_of_finishing_it_gains():
    """Previews that tell all: a quarter is finished, at 7 evaluations, and each of them gains."""
    past = PastPrompts(recorded(RARE), 1)
    gain = 1 - least(RARE)
    rate, paused = past.gain_rates([], 0.0, None, {3: Observation(1.0), 5: Observation(0.0)})
    assert rate == pytest.approx(0.25 * gain / (1 + 0.25 * 7))
    assert paused[3] == pytest.approx(gain / 7)
    assert paused[5] == pytest.approx(0, abs=1e-9)


def test_previews_that_say_nothing_are_no_reason_to_stop():
    """All previews are equal: every candidate that starts is finished, and costs 8."""
    past = PastPrompts(recorded(RARE, previews=[[0.5] * 4]), 1)
    rate, paused = past.gain_rates([], 0.0, None, {0: Observation(0.5)})
    assert rate == pytest.approx(0.25 * (1 - least(RARE)) / 8)
    assert paused[0] == pytest.approx(0.25 * (1 - least(RARE)) / 7)


def test_a_prompt_is_judged_by_past_prompts_like_it():
    """Low previews hide good images on one past prompt, and bad ones on the other; what was finished tells which."""
    past = PastPrompts(recorded([1, 1, 1, 0], [0, 0, 0, 0], previews=[[0.1] * 4, [0.1] * 4]), 1)

    def rate(final):
        seen = [Observation(0.1, final)] * 2 + [Observation(0.1)]
        return past.gain_rates(seen, 0.0, None, {2: seen[-1]})[1][2]

    assert rate(1.0) > 2 * rate(0.0) > 0


def test_scores_that_are_missing_pay_nothing():
    nothing = float("nan")
    past = PastPrompts(recorded([nothing, 1, 0, 0], previews=[[0.9, 1, 0, nothing]]), 1)
    rates = past.gain_rates([], 0.0, None, {0: Observation(None), 1: Observation(0.0), 2: Observation(1.0)})[1]
    assert rates[0] == rates[1] < rates[2]
    finished = PastPrompts(recorded([nothing, 1, 0, 0], steps=(8,)), 0).gain_rates([], 0.0, None, {})[0]
    assert finished == pytest.approx(0.25 * (1 - 0.1 * float(np.std([1, 0, 0]))) / 8)


def test_calibrations_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="no previews at step 2: it has 1"):
        PastPrompts(recorded(RARE), 2)
    with pytest.raises(ValueError, match="no previews at step 8"):
        PastPrompts(recorded(RARE), 8)
    with pytest.raises(ValueError, match="no final values"):
        PastPrompts(recorded([float("nan")] * 3), 1)
    long, short = ((0.5, 0.5),) * 10_000, ((0.5, 0.5),)
    with pytest.raises(ValueError, match="too many"):
        PastPrompts(PreviewCalibration("e", {}, (1, 8), {"long": long, **{f"{n}": short for n in range(1000)}}), 1)


def test_before_anything_is_seen_all_past_prompts_count_alike():
    past = PastPrompts(recorded(HOPELESS, RARE, EASY, steps=(8,)), 0)
    expected: Any = pytest.approx((0 + 0.25 + 1) / 3 * (1 - least(HOPELESS, RARE, EASY)) / 8)
    assert past.gain_rates([], 0.0, None, {}) == (expected, {})


def test_prompts_may_have_lost_candidates():
    calibration = recorded([0, 0, 0, 1], [1, 1], steps=(8,))
    calibration = PreviewCalibration("painter", {}, (8,), {**calibration.values, "none": ()})
    rate = PastPrompts(calibration, 0).gain_rates([], 0.0, None, {})[0]
    assert rate == pytest.approx((0.25 + 1) / 2 * (1 - 0.1 * float(np.std([0, 0, 0, 1, 1, 1]))) / 8)
