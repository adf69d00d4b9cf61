"""What a judge's noise does to advantages: the drawn groups, the judge with faults, and what is counted."""

from dataclasses import replace
from statistics import stdev

import numpy as np
import pytest

from editcritic.reward import Reward
from editcritic.reward.metrics.baselines.reward_models import EditScore
from studies.learning import judge_noise
from studies.learning.judge_noise import (
    FAILED_IS_ZERO,
    NO_SIGNAL,
    TREATMENTS,
    Faults,
    Measurement,
    SampledJudge,
    Worth,
    drawn_groups,
    main,
    measure,
    table,
    worth,
)

QUIET = Faults(lost=0.0)


def following(faults, draws, edits):
    reward = Reward(EditScore(draws=draws), {"judge": SampledJudge(faults, 7)}, on_failures="none")
    return [[each.numbers["following"] for each in score.evidence[::2]] for score in reward(edits)]


def test_advantages_are_counted_by_groups_with_signal_and_without():
    truth = np.array([[0.0, 1.0], [0.0, 0.5], [0.5, 1.0], [0.9, 0.92], [0.0, 0.0]])
    values = np.array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [2.0, -2.0], [0.0, 0.0]])
    found = worth(values, truth)
    assert (found.against, found.lost) == (1 / 3, 1 / 3)
    assert (found.idle, found.idle_weight) == (1 / 2, 8 / 12)
    deviations = np.array([-0.5, 0.5, -0.25, 0.25, -0.25, 0.25, -0.01, 0.01, 0, 0])
    assert found.correlation == pytest.approx((values.ravel() @ deviations) / np.sqrt(12 * (deviations @ deviations)))
    assert worth(0 * values, truth) == Worth(0.0, 1.0, 0.0, 0.0, 0.0)


def test_groups_are_of_one_request_and_as_good_as_their_editor():
    groups = drawn_groups(5, 3, group_size=6)
    assert [len({case.sample.group for case in group}) for group in groups] == [1] * 5
    assert all(len({case.sample.edited.digest for case in group}) == 6 for group in groups[1:])
    never, _, _, _, always = groups
    assert len({case.mode for case in never}) == 1
    assert never[0].mode
    truths = [case.truth.overall for case in always]
    assert not any(case.mode for case in always)
    assert max(truths) - min(truths) < NO_SIGNAL


def test_the_judge_has_the_faults_that_it_is_given():
    (group,) = drawn_groups(1, 4, group_size=1)
    perfect = group[0].sample.reference
    assert perfect is not None
    edits = [replace(group[0].sample, edited=perfect)]  # its grades are certain
    (quiet,) = following(QUIET, 60, edits)
    (noisy,) = following(replace(QUIET, noise=0.2), 60, edits)
    (some,) = following(replace(QUIET, zeros=0.3), 60, edits)
    assert 1 < stdev(noisy) < 2.2  # of 10, and no grade is above 10
    assert stdev(quiet) < 0.5
    assert some.count(0.0) / 60 == pytest.approx(0.3, abs=0.15)
    assert following(replace(QUIET, steady_zeros=1.0), 3, edits) == [[0.0] * 3]
    lost = Reward(EditScore(), {"judge": SampledJudge(Faults(lost=1.0), 7)}, on_failures="none")(edits)[0]
    assert (lost.status, lost.cause) == ("failed", "infrastructure")


def test_a_measurement_has_the_noise_as_a_share_of_the_scale_and_all_treatments(tmp_path):
    groups = drawn_groups(5, 5, group_size=4)
    others = [group[0] for group in drawn_groups(8, 6, group_size=1)]
    found = measure(5, "noise 0.2", 1, groups, others)
    assert 0.05 < found.std < 0.25
    assert list(found.worth) == [FAILED_IS_ZERO, *TREATMENTS]
    assert found.worth["shrink"].idle_weight < found.worth["none"].idle_weight
    again = replace(found, seed=6)
    rows = list(table([found, again]))
    assert len(rows) == 2 + len(found.worth) + 1
    value = 100 * found.worth["shrink"].lost
    assert f"| shrink | {100 * found.worth['shrink'].against:.1f} " in rows[2 + 2]
    assert f"| {value:.1f} ({value:.1f} to {value:.1f}) |" in rows[2 + 2]
    judge_noise.plot([found, again], tmp_path / "noise.png")
    assert (tmp_path / "noise.png").read_bytes().startswith(b"\x89PNG")
    assert isinstance(found, Measurement)


def test_options_that_are_none_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--groups", "0"])
    assert "at least 1" in capsys.readouterr().err
