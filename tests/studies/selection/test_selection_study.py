"""The study of selectors on the tiny editor: what its trials count as followed, and what its tables rest on."""

import json

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import (
    compound_trials,
    held_out_prompts,
    single_edit_trials,
)
from studies.selection.selection_report import figures, plot, seeds_table, steps_table, table
from studies.selection.selection_study import SelectionStudy, TrialResult, interval


@pytest.fixture
def study():
    """Four trials; the last two saturate. `half` keeps half of the first trial's gain and all of the others'."""
    one, best = np.array([0.2, 0.4, 0.5, 0.5]), np.array([0.6, 0.8, 0.5, 0.9])

    def rows(values, truths, share):
        return [TrialResult(value, truth, 64, 3, share) for value, truth in zip(values, truths, strict=True)]

    return SelectionStudy(
        {
            "best-of-2": rows([0.6, 0.8, 0.5, 0.9], [1.0, 1.0, 0.0, 1.0], 1.0),
            "half": rows([0.4, 0.8, None, 0.9], [0.0, 1.0, 0.5, 1.0], 0.5),
        },
        np.array([0.5, 0.5, 0.5, 0.25]),
        one,
        best,
        np.array([False, False, True, True]),
        np.array([10, 11, 11, 12]),
    )


def test_gain_kept_is_a_share_of_the_gain_of_best_of_n(study):
    assert study.reward_gain_kept("best-of-2")[0] == pytest.approx(1.0)
    assert study.reward_gain_kept("half")[0] == pytest.approx((0.2 + 0.4) / (0.4 + 0.4))
    assert study.reward_gain_kept("half", saturated=True)[0] == pytest.approx(1.0)
    low, high = study.reward_gain_kept("half")[1:]
    assert low == pytest.approx(0.5)
    assert high == pytest.approx(1.0)


def test_gain_kept_is_said_by_seed_and_over_seeds_and_prompts(study):
    """Seed 10 has one trial that does not saturate and keeps half of it, seed 11 one that keeps all, seed 12 none."""
    shares, (low, high) = study.reward_gain_kept_by_seed("half")
    assert shares == pytest.approx([0.5, 1.0])
    assert (low, high) == pytest.approx((0.5, 1.0))
    assert study.judge_calls("half") == 3
    text = "\n".join(seeds_table(study))
    assert "| half | 50.0 % | 3.0 | 50.0, 100.0 | 75.0 % | 50.0 to 100.0 |" in text


def test_prompts_of_a_seed_are_resampled_within_it():
    """Two seeds alike, each with a trial that keeps all and one that keeps nothing: from 0 to all, half on average."""
    rows = [TrialResult(value, 1.0, 64, 3, 1.0) for value in (1.0, 0.0, 1.0, 0.0)]
    study = SelectionStudy(
        {"half": rows}, np.zeros(4), np.zeros(4), np.ones(4), np.zeros(4, np.bool_), np.array([1, 1, 2, 2])
    )
    shares, interval = study.reward_gain_kept_by_seed("half")
    assert shares == [0.5, 0.5]
    assert interval == pytest.approx((0.0, 1.0))
    one_seed = SelectionStudy({"half": rows}, np.zeros(4), np.zeros(4), np.ones(4), study.saturated, np.ones(4, int))
    assert np.isnan(one_seed.reward_gain_kept_by_seed("half")[1]).all()


def test_lift_is_truth_above_that_of_one_sample(study):
    assert study.truth_gain("best-of-2")[0] == pytest.approx((0.5 + 0.5 - 0.5 + 0.75) / 4)
    assert study.evaluation_share("half") == 0.5


def test_one_trial_has_no_interval():
    mean, *bounds = interval(np.array([0.25]))
    assert mean == 0.25
    assert np.isnan(bounds).all()


def test_tables_and_figures_say_the_same(study, tmp_path):
    text = "\n".join(table(study))
    assert "| half | 50.0 % | 62.5 % |" in text
    assert "75.0 %" in text
    figures_json = json.loads(json.dumps(figures(study, {})))
    assert figures_json["selectors"]["half"]["reward_gain_kept"][0] == pytest.approx(0.75)
    plot(study, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_steps_are_compared_with_the_first_selector():
    rows = {"one": [TrialResult(0.5, 0.25, 32, 0, 1.0)] * 2, "four": [TrialResult(0.9, 1.0, 128, 0, 4.0)] * 2}
    text = "\n".join(steps_table(rows))
    assert "| four | 4.0 | 100.0 % | 100.0 % | +75.0 (+75.0 to +75.0) |" in text
    assert not list(steps_table({}))


def test_trials_know_a_perfect_edit_and_an_untouched_copy():
    for trial, prompt in zip(single_edit_trials(9, seed=5), held_out_prompts(9, seed=5), strict=True):
        perfect = render(prompt.request.apply(prompt.before))
        assert trial.sample.instruction == prompt.request.instruction
        assert trial.followed_share(perfect) == 1.0
        assert trial.followed_share(trial.sample.source) == 0.0


def test_of_a_compound_every_step_counts_alike():
    for trial in compound_trials(3, seed=5, level=4):
        assert len(trial.sample.operations) == 4
        assert trial.followed_share(trial.sample.source) <= 0.25
