"""The study of selectors: noise of its own for every prompt, what its tables rest on, and a small run."""

import numpy as np
import pytest

from editcritic.verifiers import BestOfN, SequentialEditing, select
from editcritic.verifiers.selection import StepwiseEditor
from editcritic.verifiers.selectors import SuccessiveHalving
from studies.selection import __main__ as command
from studies.selection import selection_study as studying
from studies.selection.per_prompt_noise import PerPromptNoise
from studies.selection.selection_study import (
    CALIBRATION_SEEDS,
    CalibrationSeedRun,
    SelectionSeedRun,
    SelectionStudy,
    TrialResult,
    merge_calibrations,
    plot,
    seeds_table,
    steps_table,
    table,
)
from tests.verifiers.numpy_editor import Painter, graded, scenes

NEEDS = ("torch", "diffusers")


def test_prompts_draw_other_noise_and_each_the_same_every_time():
    painter = Painter()
    one, other = scenes(2)
    editor = PerPromptNoise(painter)
    assert isinstance(editor, StepwiseEditor)
    editor.edit([one.sources, other.sources, one.sources], ["a", "a", "b"], [0, 0, 0])
    editor.edit([one.sources], ["a"], [3])
    seeds = [seed for _, seed in painter.requests]
    assert len(set(seeds)) == 4
    assert seeds[3] == seeds[0] + 3


def test_whole_pictures_and_pieces_are_the_same():
    samples = scenes(3)
    whole = select(BestOfN(6), samples, editor=PerPromptNoise(Painter()), reward=graded())
    pieces = select(SuccessiveHalving(6, (2, 5), (5, 4)), samples, editor=PerPromptNoise(Painter()), reward=graded())
    for all_of_them, some in zip(whole, pieces, strict=True):
        pictures = {one.id: one.picture for one in all_of_them.candidates}
        assert sum(one.status == "made" for one in some.candidates) == 4
        assert all(one.picture == pictures[one.id] for one in some.candidates if one.status == "made")


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


def test_tables_are_of_the_study(study, tmp_path):
    text = "\n".join(table(study))
    assert "| half | 50.0 % | 62.5 % |" in text
    assert "75.0 %" in text
    plot(study, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    rows = {"one": [TrialResult(0.5, 0.25, 32, 0, 1.0)] * 2, "four": [TrialResult(0.9, 1.0, 128, 0, 4.0)] * 2}
    assert "| four | 4.0 | 100.0 % | 100.0 % | +75.0 (+75.0 to +75.0) |" in "\n".join(steps_table(rows))
    assert not list(steps_table({}))


def test_a_seed_of_the_study_runs(monkeypatch):
    monkeypatch.setattr(studying, "MAX_CANDIDATES", 2)
    monkeypatch.setattr(studying, "COMPOUND_LEVEL", 2)
    monkeypatch.setattr(studying, "SINGLE_EDIT_SELECTORS", {"best-of-1": BestOfN(1), "best-of-2": BestOfN(2)})
    monkeypatch.setattr(studying, "COMPOUND_SELECTORS", {"sequential": SequentialEditing(1)})
    work = SelectionSeedRun(7, 2, 1)
    study, steps = work.run()
    assert study.evaluation_share("best-of-1") == 0.5
    assert study.evaluation_share("best-of-2") == 1.0
    assert (study.values("best-of-2") >= study.values("best-of-1")).all()
    assert [one.nfe for one in steps["sequential"]] == [16]


def test_previews_are_calibrated_on_other_seeds_and_used(monkeypatch):
    monkeypatch.setattr(studying, "MAX_CANDIDATES", 2)
    parts = [CalibrationSeedRun(seed, 2).run() for seed in (5, 6)]
    calibration = merge_calibrations(parts)
    assert list(calibration.values) == ["5-0", "5-1", "6-0", "6-1"]
    assert calibration.steps == (1, 8)
    study, steps = SelectionSeedRun(7, 2, 0, calibration, ("best-of-1", "adaptive 40%, previews")).run()
    assert not steps
    assert list(study.outcomes) == ["best-of-1", "adaptive 40%, previews"]
    assert list(study.seeds) == [7, 7]
    for one in study.outcomes["adaptive 40%, previews"]:
        assert one.nfe == 8  # the first of each whatever the share
        assert one.judge_calls == 2  # the preview and the image


@pytest.mark.slow
def test_the_command_prints_its_tables(tmp_path, capsys):
    command.main(["--prompts", "2", "--compounds", "0", "--seeds", "1", "--selectors", "best-of-1", "best-of-2"])
    assert "| best-of-2 |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["--first-seed", str(CALIBRATION_SEEDS.start)])
    assert "is one of the calibration's" in capsys.readouterr().err
