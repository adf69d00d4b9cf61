"""The same judge at another time: a golden set, and what has changed since."""

import json

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.judge_drift import (
    build_golden_set,
    compare_with_golden_set,
    read_golden_set,
    write_golden_set,
)

from . import label_files
from .label_files import results, row


def run_of(*values, edited="picture"):
    return results("one", [row(f"{n}", edited=edited, following=value) for n, value in enumerate(values)])


def golden_of(*values, runs=1):
    return build_golden_set([[run_of(*values)]] * runs)


def test_a_golden_set_is_read_as_it_was_written(tmp_path):
    scored = results("one", [row("a", following={"text": 1.0, "place": 0.0}), row("b", following="nothing found")])
    golden = build_golden_set([[scored]])
    assert golden[0].answers == {"following": (0.5,), "following/text": (1.0,), "following/place": (0.0,)}
    assert golden[1].answers == {"following": ("abstained",)}
    write_golden_set(tmp_path / "golden.jsonl", golden)
    assert read_golden_set(tmp_path / "golden.jsonl") == golden


def test_a_judge_that_says_the_same_has_not_drifted():
    (drift,) = compare_with_golden_set(golden_of(*[1.0, 0.0] * 20), [run_of(*[1.0, 0.0] * 20)]).drifts
    assert (drift.changed, drift.mean, drift.exceeds_noise) == (0.0, 0.0, False)


def test_which_answers_changed_is_said():
    report = compare_with_golden_set(golden_of(1.0, 0.0, "no box"), [run_of(1.0, 1.0, 0.5)])
    changes = ["one, 1: following was 0, is 1", "one, 2: following was abstained, is 0.5"]
    assert [str(change) for change in report.changes] == changes
    # The mean is that of the two that have a value both times.
    assert (report.drifts[0].changed, report.drifts[0].mean) == pytest.approx((2 / 3, 0.5))


def test_a_judge_that_wavers_as_it_always_has_is_within_its_noise_and_one_that_moved_is_not():
    chance = np.random.default_rng(0)
    runs = [run_of(*(chance.random(60) < 0.5).astype(float)) for _ in range(4)]
    golden = build_golden_set([[run] for run in runs[:3]])
    (drift,) = compare_with_golden_set(golden, [runs[3]]).drifts
    assert drift.baseline_disagreement == pytest.approx(0.5, abs=0.1)
    assert not drift.exceeds_noise
    (moved,) = compare_with_golden_set(golden, [run_of(*[1.0] * 60)]).drifts
    assert moved.exceeds_noise
    assert (moved.low or 0) > 0.3


def test_a_steady_judge_that_errs_both_ways_now_is_beyond_its_noise_though_its_mean_stays():
    flipped = run_of(*[0.0, 1.0] * 10, *[1.0, 0.0] * 10)
    (drift,) = compare_with_golden_set(golden_of(*[1.0, 0.0] * 20, runs=2), [flipped]).drifts
    assert (drift.mean, drift.baseline_disagreement, drift.excess, drift.exceeds_noise) == (0.0, 0.0, 0.5, True)


def test_other_pictures_lost_ones_and_failures_are_counted_and_not_compared():
    golden = golden_of(1.0, 1.0, 1.0)
    rows = [row("0", following=1.0), row("1", edited="another", following=0.0)]
    report = compare_with_golden_set(golden, [results("one", rows)])
    assert (report.compared, report.different_outputs, report.missing) == (1, 1, 1)
    report = compare_with_golden_set(golden_of(1.0, 0.0, 1.0), [run_of(None, 0.0, 1.0)])
    assert (report.failed, report.drifts[0].count, report.drifts[0].changed) == (1, 2, 0.0)
    assert [record.id for record in golden_of(None, 0.0, 1.0)] == ["1", "2"]


def test_a_judge_that_nothing_can_be_compared_with_has_not_stayed_as_it_was():
    others = results("one", [row(f"{n}", consistency=1.0) for n in range(3)])
    for now, says in (
        (run_of(1.0, 1.0, 1.0, edited="another"), "3 changed"),
        (run_of(None, None, None), "of 3 images, scores have failed"),
        (others, "it has following, the results have consistency"),
    ):
        with pytest.raises(InputError, match=says):
            compare_with_golden_set(golden_of(1.0, 1.0, 1.0), [now])


def test_a_golden_set_has_answers_and_its_runs_are_of_the_same_pictures():
    with pytest.raises(InputError, match="all failed"):
        golden_of(None, None)
    with pytest.raises(InputError, match="is another image"):
        build_golden_set([[run_of(1.0)], [run_of(1.0, edited="another")]])


def test_golden_and_drift_as_commands(editcritic, tmp_path):
    before = label_files.write(tmp_path / "before", run_of(*[1.0, 0.0] * 10))
    now = label_files.write(tmp_path / "now", run_of(*[1.0] * 20))
    path = tmp_path / "golden.jsonl"
    made = editcritic("judge", "drift", before, "--repeat-results", before, "-o", path)
    assert made.stdout.startswith("20 images, 2 runs")
    assert editcritic("judge", "drift", before, "--golden", path).exit_code == 0
    ran = editcritic("judge", "drift", now, "--golden", path)
    assert (ran.exit_code, "one, 1: following was 0, is 1" in ran.stdout) == (1, True)
    document = json.loads(editcritic("judge", "drift", now, "--golden", path, "--json").stdout)
    assert document["drift"][0]["exceeds_noise"] is True
    path.write_text("{}\n")
    assert "golden.jsonl:1" in editcritic("judge", "drift", now, "--golden", path).stderr
    ran = editcritic("judge", "drift", before, "--num-images", 5, "-o", path, "--json")
    assert json.loads(ran.stdout)["images"] == 5
    for wrong in ((), ("--golden", path, "-o", path), ("--golden", path, "--num-images", 5)):
        assert editcritic("judge", "drift", before, *wrong).exit_code == 2
