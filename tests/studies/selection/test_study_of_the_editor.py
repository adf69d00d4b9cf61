"""The study of selectors on the tiny editor, from end to end."""

from editcritic.verifiers import BestOfN, SequentialEditing
from studies.selection import selection_study as studying
from studies.selection.selection_study import (
    CALIBRATION_SEEDS,
    FIRST_REPORTED_SEED,
    CalibrationSeedRun,
    SelectionSeedRun,
    merge_calibrations,
)

NEEDS = ("torch", "diffusers")


def test_a_seed_of_the_study_runs_and_goes_on_from_its_journal(monkeypatch, tmp_path):
    monkeypatch.setattr(studying, "MAX_CANDIDATES", 2)
    monkeypatch.setattr(studying, "COMPOUND_LEVEL", 2)
    monkeypatch.setattr(studying, "SINGLE_EDIT_SELECTORS", {"best-of-1": BestOfN(1), "best-of-2": BestOfN(2)})
    monkeypatch.setattr(studying, "COMPOUND_SELECTORS", {"sequential": SequentialEditing(1)})
    work = SelectionSeedRun(7, 2, 1, tmp_path)
    study, steps = work.run()
    assert study.evaluation_share("best-of-1") == 0.5
    assert study.evaluation_share("best-of-2") == 1.0
    assert (study.values("best-of-2") >= study.values("best-of-1")).all()
    assert [one.nfe for one in steps["sequential"]] == [16]
    again, _ = work.run()
    assert again.outcomes == study.outcomes


def test_previews_are_calibrated_on_other_seeds_and_used(monkeypatch, tmp_path):
    monkeypatch.setattr(studying, "MAX_CANDIDATES", 2)
    parts = [CalibrationSeedRun(seed, 2, tmp_path).run() for seed in (5, 6)]
    calibration = merge_calibrations(parts)
    assert list(calibration.values) == ["5-0", "5-1", "6-0", "6-1"]
    assert calibration.steps == (1, 8)
    study, steps = SelectionSeedRun(7, 2, 0, tmp_path, calibration, ("best-of-1", "adaptive 40%, previews")).run()
    assert not steps
    assert list(study.outcomes) == ["best-of-1", "adaptive 40%, previews"]
    assert list(study.seeds) == [7, 7]
    for one in study.outcomes["adaptive 40%, previews"]:
        assert one.nfe == 8  # the first of each whatever the share
        assert one.judge_calls == 2  # the preview and the image


def test_no_seed_of_the_calibration_is_reported():
    assert CALIBRATION_SEEDS.start >= FIRST_REPORTED_SEED + 3  # three are reported by default
