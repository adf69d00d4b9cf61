"""Where two pictures differ: noise is no difference, and in small pictures a texture is one."""

import numpy as np
import pytest
from skimage import data

from editcritic.reward import Detections, Image
from editcritic.reward.experts.differences import Differences
from editcritic.reward.outcomes import Abstention
from editcritic.reward.query import Differ


def regions(before, after):
    (found,) = Differences()([Differ(Image.of(before), Image.of(after))])
    assert isinstance(found, Detections)
    return found.boxes


def noisy(picture, sigma, seed=0):
    noise = np.random.default_rng(seed).normal(0, sigma, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


def lines(side, period):
    """A green square on grey, plain and with lines of the same mean."""
    plain = np.full((side, side, 3), 150, np.uint8)
    part = slice(side // 4, side // 2)
    plain[part, part] = (36, 148, 56)
    lined = plain.copy()
    bright = np.where(np.arange(side) % period < period // 2, 1.2, 0.8)[:, None, None]
    lined[part, part] = (plain * bright)[part, part].astype(np.uint8)
    return plain, lined


@pytest.mark.parametrize("side", [32, 64, 128])
def test_in_small_pictures_lines_of_four_pixels_are_seen(side):
    plain, lined = lines(side, 4)
    (box,) = regions(plain, lined)
    assert box.cx == pytest.approx(0.375, abs=0.1)
    assert box.w == pytest.approx(0.25, abs=0.15)


def test_in_large_pictures_they_are_finer_than_what_encoding_does():
    assert regions(*lines(512, 4)) == ()


@pytest.mark.parametrize("side", [32, 64, 128, 512])
@pytest.mark.parametrize("sigma", [2, 5, 8])
def test_noise_is_no_difference(side, sigma):
    plain, _ = lines(side, 4)
    assert all(regions(plain, noisy(plain, sigma, seed)) == () for seed in range(5))


def test_a_change_in_a_photograph_is_boxed_and_the_strongest_scored_higher():
    before = data.chelsea()
    weak, strong = before.copy(), before.copy()
    weak[40:80, 60:100] = (weak[40:80, 60:100] * 0.6).astype(np.uint8)
    strong[40:80, 60:100] = 255 - strong[40:80, 60:100]
    (faint,), (clear,) = regions(before, weak), regions(before, strong)
    assert faint.inside((before.shape[1], before.shape[0])) == pytest.approx((60, 40, 100, 80), abs=4)
    assert clear.score > faint.score > 0


def test_pictures_of_two_sizes_are_abstained_on():
    pair = Differ(Image.of(np.zeros((8, 8, 3), np.uint8)), Image.of(np.zeros((8, 9, 3), np.uint8)))
    (outcome,) = Differences()([pair])
    assert isinstance(outcome, Abstention)
