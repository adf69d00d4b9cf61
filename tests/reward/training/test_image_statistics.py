"""Image statistics of a batch: fractions, relative to the sources, for any sizes and subsets."""

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward.training.image_statistics import batch_statistics, image_statistics, mean_absolute_difference

from ..fakes import picture, sample

GREY = Image.of(np.full((8, 8, 3), 128, np.uint8))


def test_what_a_picture_looks_like_is_told_in_shares():
    pixels = np.zeros((10, 10, 3), np.uint8)
    pixels[:, 5:] = (255, 0, 0)
    statistics = image_statistics(Image.of(pixels))
    assert statistics["edge_density"] == pytest.approx(0.1)  # the one column before the step
    assert statistics["saturation"] == pytest.approx(0.5)
    assert statistics["exposure_1"] == 0.0
    assert statistics["exposure_50"] == pytest.approx(0.1063)
    assert statistics["exposure_99"] == pytest.approx(0.2126)
    assert mean_absolute_difference(Image.of(pixels), Image.of(np.zeros((10, 10, 3), np.uint8))) == pytest.approx(1 / 6)
    pixels = np.zeros((8, 10, 3), np.uint8)
    pixels[4:] = 255
    assert (
        image_statistics(Image.of(pixels))["edge_density"]
        == image_statistics(Image.of(np.rot90(pixels)))["edge_density"]
        == 1 / 8
    )


def test_a_batch_is_compared_with_its_sources():
    edit = sample(sources=(picture(0, 16, 16),), edited=picture(0, 16, 16).resized(64, 48))
    statistics = batch_statistics([edit])
    assert statistics.relative_to_source["exposure_50"] == pytest.approx(0.0, abs=0.05)
    assert statistics.means["difference"] < 0.1
    assert batch_statistics([]).means == {}
    copy = sample(edited=picture(0))
    assert batch_statistics([copy]).relative_to_source == {
        **dict.fromkeys(image_statistics(GREY), 0.0),
        "difference": pytest.approx(np.log(1 / 255)),
    }
    still = [sample(f"{number}", edited=picture(0)) for number in range(12)]
    new = [sample(f"new {number}", edited=GREY) for number in range(4)]
    assert batch_statistics(still + new).relative_to_source["saturation"] == 0.0
    assert batch_statistics(still + new).means["saturation"] < batch_statistics(still).means["saturation"]
    batch = [sample(f"{number}", edited=picture(number // 50)) for number in range(100)]
    half = batch_statistics(batch, max_images=4).means
    assert half["difference"] == pytest.approx(batch_statistics(batch).means["difference"])
