"""The study of preservation: damage is visible and local, and the study separates it from harmless changes."""

from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("skimage")
pytest.importorskip("torch")

from studies.preservation.__main__ import main
from studies.preservation.damages import DAMAGES, damaged
from studies.preservation.ladders import KINDS, Rung, is_clear, ladders, summary, values_of
from studies.preservation.photographs import DEVELOPMENT, HELD_OUT, photograph
from studies.preservation.scenes import SCENES


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


@pytest.mark.slow
def test_a_short_run_separates_damage(capsys):
    main(["--photos", "development", "--limit", "1", "--steps", "150"])
    printed = capsys.readouterr().out
    auc = {row[1].strip(): row[2] for line in printed.splitlines() if len(row := line.split("|")) > 6}
    assert float(auc["preservation"].split()[0]) > max(0.97, float(auc["mean L1"].split()[0]))
    assert "| blur, sigma in pixels | 0: 1.00" in printed


def test_what_stands_where_lies_in_the_photographs_and_has_its_size():
    halves = [{scene.photo for scene in SCENES[half]} for half in ("development", "held-out")]
    assert len(halves[0] | halves[1]) == len(SCENES["development"]) + len(SCENES["held-out"])
    for scene in (*SCENES["development"], *SCENES["held-out"]):
        if scene.photo in halves[1] and find_spec(scene.photo.split("/")[0]) is None:
            continue  # no requirement of ours
        height, width = photograph(scene.photo).shape[:2]
        targets = [box for _, box in scene.targets]
        parts = [box for group in scene.large for box in group]
        boxes = [*targets, *scene.small, *parts, *scene.plain, *scene.places, *scene.lit, *scene.faces]
        assert all(0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height for x0, y0, x1, y1 in boxes), scene.photo
        shares = [sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in group) / (width * height) for group in scene.large]
        assert all(0.04 < share < 0.18 for share in shares), (scene.photo, shares)
        shares = [(x1 - x0) * (y1 - y0) / (width * height) for x0, y0, x1, y1 in scene.small]
        assert all(0.003 < share < 0.026 for share in shares), (scene.photo, shares)


def test_ladders_have_one_honest_edit_and_rising_damage_outside_of_it():
    twice = [list(ladders("development", seed=3, photos=1)) for _ in range(2)]
    for ladder, again in zip(*twice, strict=True):
        kinds = [rung.kind for rung in ladder.rungs]
        assert kinds == [kind for kind in KINDS if kind in kinds]
        assert {"encoded", "furniture", "other picture"} <= set(kinds)
        x0, y0, x1, y1 = ladder.target
        for rung, same in zip(ladder.rungs, again.rungs, strict=True):
            assert np.array_equal(rung.pixels, same.pixels)
            change = np.abs(rung.pixels.astype(int) - ladder.rungs[0].pixels)
            assert change.max() > 0 or rung.kind == "encoded"
            if rung.kind != "other picture":  # JPEG spreads a little into the blocks beside a fault
                assert change[y0:y1, x0:x1].mean() < 0.5, rung.kind


def test_a_shadow_more_striking_than_a_lost_object_is_no_clear_pair():
    pixels = photograph(DEVELOPMENT[0])
    shadow = Rung("deep shadow", pixels, area=0.03, visible=10.0)
    assert is_clear(shadow, Rung("small object", pixels, area=0.01, visible=20.0))
    assert not is_clear(shadow, Rung("small object", pixels, area=0.01, visible=8.0))
    assert not is_clear(shadow, Rung("small object", pixels, area=0.005, visible=20.0))


def test_pairs_out_of_order_and_full_bins_are_counted():
    ladder = next(ladders("development", seed=3, photos=1))
    values = values_of(ladder)
    kinds = list(values)
    assert values["encoded"] > 0.95 > values["furniture"] > values["other picture"]
    falling = {kind: 1.0 - number / 100 for number, kind in enumerate(kinds)}
    assert any(line.startswith("| all | 100.0%") for line in summary("own", [(ladder, falling)]))
    lines = list(summary("own", [(ladder, falling), (ladder, dict.fromkeys(kinds, 0.51))]))
    assert any(line.startswith("| all | 50.0%") for line in lines)
    assert any(line.endswith("from 0.50") for line in lines)
    assert len(lines) - 1 - lines.index("Out of order:") == len(ladder.pairs)
