"""Advantages: relative to the group, without unscored rows, corrected for the judge's noise."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Operation, Reward, Score
from editcritic.reward.metrics import all_guards
from editcritic.reward.metrics.compose import Gate
from editcritic.reward.metrics.operations import PerOperation
from editcritic.reward.training.advantages import Advantages, advantages, credit_advantages, training_values

from ..fakes import Fake, Rated, Says, picture, sample

# Sixteenths are exact in binary: shifting and doubling them is, too.
SIXTEENTHS = st.integers(-64, 64).map(lambda number: number / 16)
ROWS = st.lists(st.tuples(st.none() | SIXTEENTHS, st.sampled_from("abcd")), max_size=40)
OPTIONS = st.fixed_dictionaries(
    {
        "judge_std": st.sampled_from([0.0, 0.1, 0.5, 2.0]),
        "scale_rewards": st.sampled_from(["group", "batch", "none"]),
        "noise_correction": st.sampled_from(["shrink", "floor"]),
    }
)
REFUSED = Score.failed("the judge refused")
DOWN = Score.failed("no answer within 600 s", cause="infrastructure")
DARK = Score.abstained("too dark to tell")
NO_TEXT = Score.not_applicable("no text in it")
ROOT = math.sqrt(0.5)
VALUED_GROUP = st.lists(st.floats(0, 1).map(lambda value: round(value, 3)), min_size=2, max_size=8)


def of(rows: Sequence[tuple[float | None, str]], **options: Any) -> Advantages:
    return advantages([value for value, _ in rows], [group for _, group in rows], **options)


def same(left: Advantages, right: Advantages) -> None:
    np.testing.assert_allclose(left.values, right.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(left.informative, right.informative)


@pytest.mark.parametrize(
    ("scores", "groups", "options", "expected"),
    [
        ([1.0, 10.0, 3.0, 30.0, 2.0], "ababa", {}, [-1.0, -ROOT, 1.0, ROOT, 0.0]),
        ([Score.of(0.0), DOWN, Score.of(1.0)], "aaa", {}, [-ROOT, 0.0, ROOT]),
        ([0.1 + 0.2, 0.3, 0.15 + 0.15], "aaa", {}, [0.0, 0.0, 0.0]),  # sums in another order are no spread
        ([1.0, 3.0, 10.0, 30.0], "aabb", {"scale_rewards": "none"}, [-1.0, 1.0, -10.0, 10.0]),
        # Sums of squares 2 and 8, over one degree of freedom each: the variance is 5, wherever the groups lie.
        ([1.0, 3.0, 1.0, 5.0], "aabb", {"scale_rewards": "batch"}, np.array([-1, 1, -2, 2]) / math.sqrt(5)),
        ([1.0, 3.0, 101.0, 105.0], "aabb", {"scale_rewards": "batch"}, np.array([-1, 1, -2, 2]) / math.sqrt(5)),
        # A variance of which half is noise is divided by twice the noise; undivided, the edits' own share is left.
        ([0.0, 2.0], "aa", {"judge_std": 1.0}, [-0.5, 0.5]),
        ([0.0, 2.0], "aa", {"judge_std": 1.0, "scale_rewards": "none"}, [-0.5, 0.5]),
        ([0.0] * 9 + [1.0], "a" * 10, {"max_abs": 0.5}, [-1 / math.sqrt(10)] * 9 + [0.5]),
    ],
)
def test_an_edit_is_compared_with_its_group(scores, groups, options, expected):
    np.testing.assert_allclose(advantages(scores, [*groups], **options).values, expected)


@pytest.mark.parametrize(
    ("unknown", "options", "counts_as"),
    [
        *((unknown, {}, 0.2) for unknown in (DARK, REFUSED)),
        *((unknown, {"lowest": 0.0}, 0.0) for unknown in (DARK, REFUSED)),
        *((unknown, {"abstained": "exclude"}, None) for unknown in (DARK, REFUSED)),
        *((unknown, {"lowest": 0.0}, None) for unknown in (DOWN, NO_TEXT, None)),
    ],
)
def test_an_abstention_counts_as_the_lowest_value_and_what_the_edit_did_not_cause_never_enters(
    unknown, options, counts_as
):
    groups = [*"aaabb"]
    result = advantages([Score.of(0.2), unknown, Score.of(0.8), 0.0, 1.0], groups, **options)
    values = [0.2, counts_as, 0.8, 0.0, 1.0]
    np.testing.assert_array_equal(result.values, advantages(values, groups).values)
    assert result.scored.tolist() == [value is not None for value in values]
    assert (result.abstained, result.unscored) == ((0.2, 0.0) if unknown in (DARK, REFUSED) else (0.0, 0.2))
    assert result.metrics["reward"] == pytest.approx(np.mean([value for value in values if value is not None]))


def test_metrics_are_of_groups_and_noise():
    result = advantages([1.0, 10.0, 3.0, 30.0, 2.0], [*"ababa"])
    assert result.std == pytest.approx((1.0 + math.sqrt(200)) / 2)
    assert advantages([0.0, 2.0], [*"aa"], judge_std=9.0).noise_variance_share == 1.0
    assert advantages([0.0, 2.0], [*"aa"], judge_std=1.0).noise_variance_share == pytest.approx(0.5)
    nothing = advantages([], [])
    assert nothing.values.shape == (0,)
    assert set(nothing.metrics.values()) == {0.0}
    result = advantages([DARK, DARK, DOWN], ["a"] * 3)
    assert not result.scored.any()
    assert "reward" not in result.metrics
    assert training_values([DARK, DOWN, 0.5], ["a", "b", "c"], lowest=0.0) == [0.0, None, 0.5]
    assert training_values([DARK, DOWN, 0.5], ["a", "b", "c"]) == [None, None, 0.5]


@given(VALUED_GROUP, st.data(), OPTIONS.map(lambda options: {**options, "judge_std": 0.0}))
def test_abstaining_never_raises_the_advantage_of_an_edit(values, data, options):
    index = data.draw(st.integers(0, len(values) - 1))
    scores = [Score.of(value) for value in values]
    spoiled = [*scores[:index], data.draw(st.sampled_from([DARK, REFUSED])), *scores[index + 1 :]]
    groups = ["a"] * len(values)
    before, after = (advantages(row, groups, lowest=0.0, **options).values[index] for row in (scores, spoiled))
    assert after <= before + 1e-9


@given(ROWS, OPTIONS)
def test_means_missing_rows_degenerate_groups_and_noise(rows, options):
    result = of(rows, **options)
    for name in "abcd":
        indices = [index for index, (value, group) in enumerate(rows) if group == name and value is not None]
        assert abs(result.values[indices].sum()) < 1e-9 * (1 + np.abs(result.values[indices]).sum())
    missing = np.array([value is None for value, _ in rows], bool)
    assert (result.values[missing] == 0).all()
    assert (result.scored == ~missing).all()
    assert not result.informative[missing].any()
    kept = of([row for row in rows if row[0] is not None], **options)
    np.testing.assert_allclose(result.values[~missing], kept.values, atol=1e-12)
    spread = {name: {v for v, g in rows if g == name and v is not None} for _, name in rows}
    for index, (_, group) in enumerate(rows):
        if len(spread[group]) < 2:
            assert result.values[index] == 0.0
    expected = sum(len(values) < 2 for values in spread.values()) / len(spread) if spread else 0.0
    assert result.degenerate_groups == pytest.approx(expected)
    noisy, quiet = of(rows, **options), of(rows, **{**options, "judge_std": 0.0})
    assert (np.abs(noisy.values) <= np.abs(quiet.values) + 1e-12).all()
    assert (noisy.values * quiet.values >= 0).all()


@given(ROWS, OPTIONS, st.dictionaries(st.sampled_from("abcd"), st.integers(-9, 9), min_size=4))
def test_what_is_added_to_all_of_a_group_changes_nothing(rows, options, shifts):
    same(of(rows, **options), of([(None if v is None else v + shifts[g], g) for v, g in rows], **options))


def noisy_scores(
    signal: float, noise: float, groups: int = 400, of_each: int = 8
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    random = np.random.default_rng(0)
    truth = signal * random.standard_normal((groups, of_each))
    scores = truth + noise * random.standard_normal(truth.shape)
    return truth.ravel(), scores.ravel(), [f"{number // of_each}" for number in range(truth.size)]


def rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


def test_groups_in_which_only_the_judge_wavers_lose_their_weight():
    _, scores, groups = noisy_scores(0.0, 0.1)
    plain = advantages(scores.tolist(), groups)
    floor = advantages(scores.tolist(), groups, judge_std=0.1, noise_correction="floor")
    shrunk = advantages(scores.tolist(), groups, judge_std=0.1)
    assert rms(plain.values) == pytest.approx(math.sqrt(7 / 8))
    assert rms(floor.values) > 0.8
    assert rms(shrunk.values) < 0.35
    assert (floor.lost, floor.noise_variance_share) == (0.0, shrunk.noise_variance_share)
    assert shrunk.lost > 0.5
    assert shrunk.noise_variance_share > 0.95


@pytest.mark.parametrize("signal", [0.05, 0.1, 0.3])
def test_shrinking_comes_nearer_to_what_a_judge_without_noise_would_say(signal):
    truth, scores, groups = noisy_scores(signal, 0.1)
    expected = truth - np.repeat(truth.reshape(-1, 8).mean(1), 8)
    errors = {
        name: rms(result.values - expected / signal)
        for name, result in {
            "plain": advantages(scores.tolist(), groups),
            "floor": advantages(scores.tolist(), groups, judge_std=0.1, noise_correction="floor"),
            "shrink": advantages(scores.tolist(), groups, judge_std=0.1),
        }.items()
    }
    assert errors["shrink"] < errors["plain"]
    assert errors["shrink"] < errors["floor"]


def credited(*values: float | None) -> Score:
    credits = {
        f"operation {number}": Score.failed("down", cause="infrastructure") if value is None else Score.of(value)
        for number, value in enumerate(values, start=1)
    }
    scored = [value for value in values if value is not None]
    mean = sum(scored) / len(scored)
    if len(scored) == len(values):
        return Score.of(mean, credits=credits)
    return Score(None, "failed", "x", {}, credits, cause="infrastructure")


def test_each_operation_has_an_advantage_of_its_own():
    scores = [credited(1.0, 0.0), credited(0.0, 1.0), credited(1.0, 1.0), credited(0.0, 0.0)]
    result = credit_advantages(scores, ["a"] * 4, scale_rewards="none")
    assert list(result) == ["operation 1", "operation 2"]
    assert result["operation 1"].values.tolist() == [0.5, -0.5, 0.5, -0.5]
    assert result["operation 2"].values.tolist() == [-0.5, 0.5, 0.5, -0.5]
    scores = [credited(1.0, 0.0), credited(0.0, 1.0), credited(1.0), credited(0.0)]
    second = credit_advantages(scores, ["two", "two", "one", "one"], scale_rewards="none")["operation 2"]
    assert second.values.tolist() == [-0.5, 0.5, 0.0, 0.0]
    assert second.scored.tolist() == [True, True, False, False]
    assert (second.unscored, second.degenerate_groups) == (0.0, 0.0)
    scores = [credited(1.0, None), credited(0.0, 1.0), credited(0.0, 0.0)]
    result = credit_advantages(scores, ["a"] * 3, scale_rewards="none")
    np.testing.assert_allclose(result["operation 1"].values, [2 / 3, -1 / 3, -1 / 3])
    assert result["operation 2"].values.tolist() == [0.0, 0.5, -0.5]


def test_a_cheat_that_a_guard_rejects_is_worse_off_than_an_honest_failure():
    operations = tuple(Operation(f"step {number}") for number in (1, 2))
    # The copy is rejected by a guard before the reward, so its operations get no credits.
    samples = [
        sample(name, operations=operations, edited=picture(edited))
        for name, edited in (("copy", 0), ("one", 1), ("two", 2))
    ]
    guarded = Gate(all_guards(), PerOperation(Rated()))
    experts = {**Reward(Says(Score.of(1.0))).experts, "preference": Fake()}
    scores = Reward(guarded, experts)(samples)
    assert (scores[0].value, dict(scores[0].credits)) == (0.0, {})
    assert len(scores[1].credits) == 2
    for result in credit_advantages(scores, [edit.group for edit in samples]).values():
        assert result.values[0] < 0


@pytest.mark.parametrize(
    ("scores", "options", "says"),
    [
        ([0.0, 1.0], {"judge_std": -0.1}, "judge_std is a standard deviation"),
        ([0.0, 1.0], {"judge_std": math.nan}, "judge_std is a standard deviation"),
        ([0.0, 1.0], {"scale_rewards": "std"}, "scale_rewards is one of group, batch, none, got 'std'"),
        ([0.0, 1.0], {"noise_correction": "ignore"}, "noise_correction is one of shrink, floor"),
        ([0.0, 1.0], {"max_abs": 0.0}, "max_abs is a positive number"),
        ([0.0, math.nan], {}, "None for a row without one"),
        ([0.0, math.inf], {}, "None for a row without one"),
        ([0.0], {}, "1 scores and 2 groups"),
    ],
)
def test_what_means_nothing_is_refused(scores, options, says):
    with pytest.raises(ValueError, match=says):
        advantages(scores, ["a", "a"], **options)
    with pytest.raises(ValueError, match="1 scores and 2 groups"):
        credit_advantages([credited(1.0)], ["a", "b"])


@given(ROWS, OPTIONS, st.sampled_from([2.0**-20, 0.25, 3.0, 1024.0]))
def test_the_unit_of_scores_does_not_matter_once_it_is_divided_by(rows, options, unit):
    scaled = {**options, "judge_std": options["judge_std"] * unit}
    plain, scaled_result = of(rows, **options), of([(None if v is None else v * unit, g) for v, g in rows], **scaled)
    np.testing.assert_allclose(
        plain.values * (unit if options["scale_rewards"] == "none" else 1), scaled_result.values, atol=1e-9 * unit
    )
    assert plain.noise_variance_share == pytest.approx(scaled_result.noise_variance_share)


@given(ROWS, OPTIONS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, options, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    original, shuffled = of(rows, **options), of([rows[index] for index in order], **options)
    np.testing.assert_allclose(original.values[order], shuffled.values, atol=1e-12)
    for name, number in original.metrics.items():
        assert number == pytest.approx(shuffled.metrics[name])


@given(ROWS, st.sampled_from([0.1, 0.5, 2.0]), st.sampled_from(["group", "batch"]))
def test_shrinking_divides_by_twice_the_noise_at_least(rows, noise, scale):
    result, apart = of(rows, judge_std=noise, scale_rewards=scale), of(rows, scale_rewards="none")
    assert (np.abs(result.values) <= np.abs(apart.values) / (2 * noise) + 1e-12).all()
