"""The study of preservation: damage is visible and local, and the study separates it from harmless changes."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("skimage")
pytest.importorskip("torch")

from editcritic.benchmarks.studies.preservation.__main__ import main
from editcritic.benchmarks.studies.preservation.damages import DAMAGES, HARMLESS, damaged
from editcritic.benchmarks.studies.preservation.photographs import DEVELOPMENT, HELD_OUT, photograph


def test_no_photograph_is_in_both_halves():
    assert not set(DEVELOPMENT) & set(HELD_OUT)
    assert all(max(photograph(name).shape) <= 512 for name in (*DEVELOPMENT, *HELD_OUT))


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_visible_and_local(name):
    before = photograph(DEVELOPMENT[1])
    after = damaged(name, before, 0.015, np.random.default_rng(0))
    assert after is not None
    assert after.shape == before.shape
    changed = np.abs(after.astype(int) - before).max(axis=2) > 8
    assert 0 < changed.mean() < 0.03


def test_harmless_changes_are_small():
    before = photograph(DEVELOPMENT[1])
    for change in HARMLESS.values():
        after = change(before, np.random.default_rng(0))
        assert after.shape == before.shape
        assert after.dtype == np.uint8


@pytest.mark.slow
def test_a_short_run_separates_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    main(["--out", str(tmp_path), "--photos", "development", "--limit", "1", "--steps", "150"])
    report = json.loads((tmp_path / "preservation.json").read_text(encoding="utf-8"))["development"]
    measures = report["measures"]
    assert measures["preservation"]["auc"][0] > 0.97
    assert measures["preservation"]["auc"][0] > measures["mean L1"]["auc"][0]
    assert report["drift"]["blur, sigma in pixels"]["0"] == 1.0
    assert "## development" in capsys.readouterr().out
