"""What previews say, by hand on small tables; plans, against carrying each out."""

import json
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.installation import install_command
from editcritic.verifiers import Journal
from editcritic.verifiers.selection import SelectionStopped
from editcritic.verifiers.selectors.halving import SuccessiveHalving, _plans
from editcritic.verifiers.selectors.preview_calibration import (
    BootstrapMean,
    PreviewCalibration,
    calibrate_previews,
    spearman,
)

from ..numpy_editor import Painter, Plain, graded, judge, pick, scenes
from .test_halving import Blind, Clear


def recorded(steps, **values):
    rows = {name: tuple(map(tuple, result)) for name, result in values.items()}
    return PreviewCalibration("painter", {"metric": "graded@1"}, steps, rows)


def interval(mean: BootstrapMean | None) -> tuple[float, float]:
    assert mean is not None
    assert mean.low is not None
    assert mean.high is not None
    return mean.low, mean.high


SMALL = recorded(
    (1, 2, 4),
    # Ranks of the images: 1 2 3 4. Of previews at step 1: 2 1 4 3, at step 2: 1 2 3 4.
    a=[(0.2, 0.1, 0.1), (0.1, 0.2, 0.2), (0.9, 0.3, 0.4), (0.8, 0.4, 0.8)],
    # At step 1: 4 3 2 1, at step 2 all equal.
    b=[(0.9, 0.5, 0.0), (0.8, 0.5, 0.3), (0.7, 0.5, 0.6), (0.6, 0.5, 0.7)],
    flat=[(0.1, 0.2, 0.5), (0.2, 0.1, 0.5), (0.3, 0.1, 0.5), (0.4, 0.1, 0.5)],
)


def test_a_small_table_by_hand():
    first, second, last = (SMALL.preview_quality(step) for step in SMALL.steps)
    assert first.spearman.value == pytest.approx((0.6 - 1) / 2)
    assert second.spearman.value == pytest.approx((1 + 0) / 2)
    assert last.spearman.value == pytest.approx(1)
    assert [one.value for one in first.top_hit_rate] == [0.5, 0, 0]
    assert [one.value for one in first.regret] == pytest.approx([(0 + 0.4) / 2, (0.4 + 0.7) / 2, (0.4 + 0.7) / 2])
    assert [one.value for one in second.top_hit_rate] == [0.5, 0.5, 0.5]  # equal previews: the first two seeds of b
    assert [one.value for one in second.regret] == pytest.approx([0.4 / 2, 0.7 / 2, 0.7 / 2])
    assert [one.value for one in last.regret] == [0, 0, 0]


def test_samples_whose_pictures_are_worth_the_same_are_reported_apart():
    assert SMALL.uninformative == ["flat"]
    assert (SMALL.preview_quality(1).samples, SMALL.preview_quality(1).num_pairs) == (2, 8)
    empty = recorded((1, 2), flat=[(0.1, 0.5), (0.2, 0.5)], none=[(0.1, None), (0.2, None)], lost=[])
    assert empty.uninformative == ["flat", "none", "lost"]
    nothing = empty.preview_quality(1)
    assert (nothing.spearman, nothing.top_hit_rate, nothing.num_pairs) == (None, (None,) * 3, 0)
    assert "–" in empty.table()
    with pytest.raises(ValueError, match="cannot plan"):
        empty.plan(2)


def test_a_table_has_a_row_a_step():
    lines = SMALL.table().splitlines()
    assert "2 of 3 samples" in SMALL.table()
    assert lines[0].startswith("| step | Spearman | best in top 1/2 |")
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| 1 of 4", "| 2 of 4"]
    assert lines[2].split(" | ")[1].startswith("-0.2 [")


def test_what_has_no_value_is_not_paired_and_ranks_last():
    gaps = recorded((1, 2), a=[(None, 0.9), (0.1, 0.2), (0.2, None), (0.3, 0.4)]).preview_quality(1)
    assert (gaps.num_pairs, gaps.spearman.value) == (2, pytest.approx(1))
    assert gaps.regret[0].value == pytest.approx(0.9 - 0.4)  # kept: the last two
    gaps = recorded((1, 2), a=[(0.1, 0.9), (0.5, None), (0.2, 0.2), (0.3, 0.4)]).preview_quality(1)
    assert gaps.regret[1].value == pytest.approx(0.9 - 0.2)  # kept: one without a value, as if the worst


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_rank_correlation_is_scipys(pairs):
    stats = pytest.importorskip("scipy.stats")
    previews, finals = np.array(pairs, float).T
    if len(set(previews)) > 1 < len(set(finals)):
        assert spearman(previews, finals) == pytest.approx(stats.spearmanr(previews, finals).statistic)


def test_intervals_hold_the_mean_and_narrow_with_more_samples():
    (low, high), (lower, higher) = (interval(BootstrapMean.of([0.0, 1.0] * count)) for count in (500, 5))
    assert lower < low < 0.5 < high < higher
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / 1000**0.5, rel=0.1)
    assert (BootstrapMean.of([]), BootstrapMean.of([0.3])) == (None, BootstrapMean(0.3))


def test_it_makes_and_scores_every_step_once_and_never_again():
    painter, expert, journal = Painter(), judge(), Journal()
    result = calibrate_previews(painter, graded(expert), scenes(3), n=5, journal=journal)
    assert result.steps == tuple(range(1, 9))
    assert painter.evaluated == 3 * 5 * 8
    assert expert.seen.total() == 3 * 5 * 8
    calls = len(painter.calls)
    assert calibrate_previews(painter, graded(expert), scenes(3), n=5, journal=journal) == result
    pick(SuccessiveHalving(5, (1, 2)), 3, editor=painter, reward=graded(expert), journal=journal)
    assert (len(painter.calls), expert.seen.total()) == (calls, 120)


def test_only_the_steps_that_were_chosen_are_looked_at_and_failed_candidates_are_left_out():
    expert = judge()
    result = calibrate_previews(Painter(bad_seeds={1}), graded(expert), scenes(2), n=4, steps=(2, 5))
    assert result.steps == (2, 5, 8)
    assert expert.seen.total() == 2 * 3 * 3
    assert result.failed == 2
    assert [len(rows) for rows in result.values.values()] == [3, 3]


def test_what_cannot_be_calibrated_is_refused():
    for painter, options, error, message in (
        (Painter(), {"n": 1}, ValueError, "at least 2"),
        (Painter(), {"steps": (2, 8)}, ValueError, "before the last of 8 steps"),
        (Plain(Painter()), {}, TypeError, "not a StepwiseEditor"),
        (Painter(broken=True), {"n": 4}, SelectionStopped, "no paint"),
    ):
        with pytest.raises(error, match=message):
            calibrate_previews(painter, graded(), scenes(1), **options)  # type: ignore[arg-type]


def test_it_is_the_same_after_a_file(tmp_path):
    result = calibrate_previews(Painter(), graded(), scenes(2), n=4, steps=(2, 5), seed=3)
    result.save(tmp_path / "painter.json")
    assert PreviewCalibration.load(tmp_path / "painter.json") == result
    assert json.loads((tmp_path / "painter.json").read_text())["schema"] == 1
    assert result.reward["experts"] == {"judge": "reader"}
    assert "numpy" in (result.versions or {})
    assert [path.name for path in tmp_path.iterdir()] == ["painter.json"]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema": 1, "steps": [1]}', '{"schema": 99}'])
def test_a_file_that_is_something_else_is_refused(text, tmp_path):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(ValueError, match=r"other\.json"):
        PreviewCalibration.load(tmp_path / "other.json")


def test_a_plot_is_a_picture_and_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    SMALL.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=re.escape(install_command("bench"))):
        SMALL.plot(tmp_path / "plot.png")


@pytest.fixture(scope="module")
def painted():
    return calibrate_previews(Painter(), graded(), scenes(12), n=8)


@pytest.mark.parametrize(
    "halving",
    [
        SuccessiveHalving(8, (1, 2)),
        SuccessiveHalving(8, (3,), (1,)),
        SuccessiveHalving(5, (2, 4, 6), (4, 2, 1)),
        SuccessiveHalving(6, ()),
    ],
)
def test_a_plan_on_paper_chooses_what_it_chooses_in_truth(halving, painted):
    result = pick(halving, 12)
    assert painted.simulate(halving) == {one.sample.id: one.value for one in result}


def test_on_paper_equal_previews_go_by_seed_at_every_checkpoint():
    tied = recorded((1, 2, 3), a=[(0.2, 0.5, 0.1), (0.3, 0.5, 0.2), (0.1, 0.5, 0.9)])
    assert tied.simulate(SuccessiveHalving(3, (1, 2), (2, 1))) == {"a": 0.1}


def test_a_plan_loses_the_least_of_all_that_fit(painted):
    plan = painted.plan(8, 0.5)
    best = np.array(list(painted.simulate(SuccessiveHalving(8, ())).values()))

    def regret(halving):
        return float(np.mean(best - np.array(list(painted.simulate(halving).values()))))

    every = [SuccessiveHalving(8, (step,), (count,)) for step in range(1, 8) for count in range(1, 8)]
    every += [
        SuccessiveHalving(many, (first, second), (count, fewer))
        for many in (8, 4)
        for first in range(1, 8)
        for second in range(first + 1, 8)
        for count in range(2, many)
        for fewer in range(1, count)
    ]
    fitting = [one for one in every if one.nfe_cost(8) <= 32]
    assert plan.halving.nfe_cost(8) == plan.nfe <= 32
    assert plan.nfe_fraction == plan.nfe / 64
    assert regret(plan.halving) == pytest.approx(plan.regret)
    assert plan.regret == pytest.approx(min(map(regret, fitting)))


def test_every_plan_tried_chooses_what_it_would_choose_on_its_own():
    drawn = np.random.default_rng(0).integers(0, 3, (4, 5, 4)).astype(float)  # many ties
    drawn[0, 1, 0] = drawn[1, 2, 1] = drawn[2, 0, 3] = np.nan
    table = recorded(
        (1, 2, 3, 5), **{f"s{number}": np.where(np.isnan(rows), None, rows) for number, rows in enumerate(drawn)}
    )
    tried = list(_plans(drawn, table.steps, 2))
    assert len(tried) == 5 + 3 * 4 + 3 * 6 + 3 * 1  # best-of-1 to 5; of 5 candidates, then of 2
    for halving, chosen in tried:
        assert [None if value == -np.inf else value for value in chosen] == list(table.simulate(halving).values())


def test_what_a_plan_keeps_is_estimated_on_samples_it_was_not_chosen_on():
    drawn = np.random.default_rng(0).random((6, 8, 5))  # previews that say nothing
    plan = recorded((1, 2, 3, 4, 5), **{f"s{number}": rows for number, rows in enumerate(drawn)}).plan(8, 0.5)
    gain = (drawn[:, :, -1].max(1) - drawn[:, :, -1].mean(1)).mean()
    assert plan.retained_gain is not None
    assert plan.retained_gain < 1 - plan.regret / gain - 0.1


def test_with_perfect_previews_the_cheapest_plan_keeps_everything():
    plan = calibrate_previews(Clear(), graded(), scenes(10), n=8).plan(8, 0.5)
    assert (plan.halving, plan.regret, plan.retained_gain) == (SuccessiveHalving(8, (1,), (1,)), 0, 1)


def test_with_useless_previews_a_plan_promises_no_more_than_chance():
    result = calibrate_previews(Blind(), graded(), scenes(60), n=8, steps=(1, 2))
    plan = result.plan(8, 0.5)
    finals = np.stack([rows[:, -1] for rows in result.informative.values()])
    gain = finals.max(1) - finals.mean(1)
    by_chance = (finals[:, :4].max(1) - finals.mean(1)).sum() / gain.sum()
    assert plan.retained_gain == pytest.approx(by_chance, abs=0.15)


def test_what_was_not_recorded_or_fits_in_nothing_is_refused(painted):
    for ask, message in (
        (lambda: painted.plan(9), "no sample has 9"),
        (lambda: painted.simulate(SuccessiveHalving(9)), "starts 9"),
        (lambda: SMALL.simulate(SuccessiveHalving(4, (3,))), "not recorded"),
        (lambda: painted.plan(8, 0.1), "no plan fits"),
        (lambda: SMALL.preview_quality(3), "the steps are 1, 2, 4"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
