"""What past prompts say about the next candidate, by hand on small calibrations."""

from itertools import pairwise

import numpy as np
import pytest

from editcritic.verifiers.selectors.past_prompts import Observation, PastPrompts
from editcritic.verifiers.selectors.preview_calibration import PreviewCalibration

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


def test_before_anything_is_seen_all_past_prompts_count_alike():
    past = PastPrompts(recorded(HOPELESS, RARE, EASY, steps=(8,)), 0)
    rate, paused = past.gain_rates([], 0.0, None, {})
    assert rate == pytest.approx((0 + 0.25 + 1) / 3 * (1 - least(HOPELESS, RARE, EASY)) / 8)
    assert not paused


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


def test_prompts_may_have_lost_candidates():
    calibration = recorded([0, 0, 0, 1], [1, 1], steps=(8,))
    calibration = PreviewCalibration("painter", {}, (8,), {**calibration.values, "none": ()})
    rate = PastPrompts(calibration, 0).gain_rates([], 0.0, None, {})[0]
    assert rate == pytest.approx((0.25 + 1) / 2 * (1 - 0.1 * float(np.std([0, 0, 0, 1, 1, 1]))) / 8)


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
