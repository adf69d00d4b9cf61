"""What a batch looks like: told in shares, against the sources, whatever the sizes and however few are looked at."""

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward.appearance import appearance, difference, looks

from .fakes import picture, sample

GREY = Image.of(np.full((8, 8, 3), 128, np.uint8))


def test_what_a_picture_looks_like_is_told_in_shares():
    pixels = np.zeros((10, 10, 3), np.uint8)
    pixels[:, 5:] = (255, 0, 0)
    found = looks(Image.of(pixels))
    assert found["edge_density"] == pytest.approx(0.1)  # the one column before the step
    assert found["saturation"] == pytest.approx(0.5)
    assert found["exposure_1"] == 0.0
    assert found["exposure_50"] == pytest.approx(0.1063)
    assert found["exposure_99"] == pytest.approx(0.2126)
    assert difference(Image.of(pixels), Image.of(np.zeros((10, 10, 3), np.uint8))) == pytest.approx(1 / 6)


def test_edges_count_down_as_well_as_across():
    pixels = np.zeros((8, 10, 3), np.uint8)
    pixels[4:] = 255
    assert looks(Image.of(pixels))["edge_density"] == looks(Image.of(np.rot90(pixels)))["edge_density"] == 1 / 8


def test_a_batch_is_compared_with_its_sources_at_their_size():
    one = sample(sources=(picture(0, 16, 16),), edited=picture(0, 16, 16).resized(64, 48))
    found = appearance([one])
    assert found.changes["exposure_50"] == pytest.approx(0.0, abs=0.05)
    assert found.means["difference"] < 0.1
    assert appearance([]).means == {}


def test_a_copy_counts_as_a_grey_level():
    copy = sample(edited=picture(0))
    assert appearance([copy]).changes == {
        **dict.fromkeys(looks(GREY), 0.0),
        "difference": pytest.approx(np.log(1 / 255)),
    }


def test_a_few_new_backdrops_among_many_pictures_do_not_move_a_batch():
    still = [sample(f"{number}", edited=picture(0)) for number in range(12)]
    new = [sample(f"new {number}", edited=GREY) for number in range(4)]
    assert appearance(still + new).changes["saturation"] == 0.0
    assert appearance(still + new).means["saturation"] < appearance(still).means["saturation"]


def test_large_batches_are_looked_at_in_part_and_evenly():
    batch = [sample(f"{number}", edited=picture(number // 50)) for number in range(100)]
    half = appearance(batch, pictures=4).means
    assert half["difference"] == pytest.approx(appearance(batch).means["difference"])
