"""Pooling of token maps equals a plain loop implementation."""

import numpy as np
import PIL.Image
import PIL.ImageDraw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, Image
from editcritic.reward.experts.loading.pooling import free_pixels, free_shares, guess_grid, pool_query, pool_region
from editcritic.reward.queries import Embed, Mask, Region

fractions = st.floats(-0.2, 1.2)
boxes = st.builds(Box, fractions, fractions, st.floats(0, 0.9), st.floats(0, 0.9))
sizes = st.tuples(st.integers(1, 700), st.integers(1, 700))


def tokens(registers=4, rows=14, columns=14, d=6, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(1 + registers + rows * columns, d)).astype(np.float32)


def shares_by_pil(exclude, size, grid):
    """As in the released code: PIL draws and resizes the mask, loops average it."""
    mask = PIL.Image.new("L", size, 1)
    for box in exclude:
        PIL.ImageDraw.Draw(mask).rectangle(box.corners(size), fill=0)
    free = np.asarray(mask.resize((224, 224), PIL.Image.Resampling.NEAREST), float)
    rows, columns = grid
    edges = [[(k * 224 // n, -(-(k + 1) * 224 // n)) for k in range(n)] for n in (rows, columns)]
    return np.array([[free[a:b, c:d].mean() for c, d in edges[1]] for a, b in edges[0]])


@given(st.lists(boxes, max_size=4), sizes, st.sampled_from([(14, 14), (10, 20), (7, 7), (16, 32)]))
def test_masks_are_what_pil_makes_of_them(exclude, size, grid):
    assert free_shares(exclude, size, grid) == pytest.approx(shares_by_pil(exclude, size, grid))


@given(st.lists(boxes, max_size=4), sizes, st.booleans(), st.integers(0, 6))
def test_excluding_equals_a_plain_loop(exclude, size, guessed, registers):
    token_map = tokens(registers)
    region = Region(exclude=tuple(exclude), grid="guessed" if guessed else "true")
    vector, patches = pool_region(token_map, registers, (14, 14), region, size)
    used = token_map[1:] if guessed else token_map[1 + registers :]
    shares = shares_by_pil(exclude, size, guess_grid(len(used)) if guessed else (14, 14)).ravel()
    total, weight = np.zeros(6), 0.0
    for share, token in zip(shares, used, strict=True):
        if share >= 0.5:
            total += share * token.astype(float) / np.linalg.norm(token)
            weight += share
    assert patches == sum(share > 0 for share in shares)
    assert vector == pytest.approx(total / weight if weight else total, abs=1e-6)


def test_pools_differ_in_the_tokens_they_take_and_those_that_do_not_fit_are_refused():
    token_map = tokens()
    for region, expected in (
        (Region("cls"), token_map[0]),
        (Region("patches"), token_map[5:].mean(0)),
        (Region("tokens"), token_map[1:].mean(0)),
    ):
        assert pool_region(token_map, 4, (14, 14), region, (9, 9))[0] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="14 x 14 patches"):
        pool_region(tokens(registers=4), 0, (14, 14), Region("cls"), (9, 9))
    almost_all = Box.from_corners(0, 0, 511, 502, (512, 512))  # 4 of 16 mask pixels remain at the bottom
    vector, patches = pool_region(tokens(), 4, (14, 14), Region(exclude=(almost_all,)), (512, 512))
    assert patches == 14
    assert not vector.any()


@given(st.permutations(range(196)))
def test_the_order_of_patches_does_not_matter_to_their_mean(order):
    token_map = tokens()
    shuffled = np.concatenate([token_map[:5], token_map[5:][list(order)]])
    for region in (Region("patches"), Region("tokens"), Region(exclude=())):
        before, after = (pool_region(each, 4, (14, 14), region, (9, 9))[0] for each in (token_map, shuffled))
        assert after == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("grid", ["true", "guessed"])
def test_nothing_left_is_a_zero_vector_of_no_patches(grid):
    region = Region(exclude=(Box(0.5, 0.5, 1, 1),), grid=grid)
    vector, patches = pool_region(tokens(), 4, (14, 14), region, (512, 512))
    assert patches == 0
    assert not vector.any()


def test_the_guessed_grid_is_the_most_nearly_square_and_a_box_covers_both_of_its_corners():
    assert list(map(guess_grid, (196, 200, 197, 1))) == [(14, 14), (10, 20), (1, 197), (1, 1)]
    free = free_pixels([Box.from_corners(10, 20, 12, 23, (40, 30))], (40, 30))
    assert np.argwhere(~free).tolist() == [[y, x] for y in range(20, 24) for x in range(10, 13)]


def test_a_query_gets_a_vector_for_each_of_its_regions_in_order():
    token_map = tokens(0, 2, 2, 4, seed=2)
    image = Image.of(np.full((8, 8, 3), 2, np.uint8))
    answer = pool_query(token_map, 0, (2, 2), Embed(image, (Region("patches"), Region("cls"))))
    assert answer.values.shape == (2, 4)
    assert answer.values[1].tolist() == token_map[0].tolist()
    assert answer.values[0] == pytest.approx(token_map[1:].mean(0))
    assert answer.patches.tolist() == [4, 4]
    assert pool_query(token_map, 0, (2, 2), Embed(image, ())).values.shape == (0, 4)


def test_inside_of_a_mask_equals_a_plain_loop():
    token_map = tokens(registers=2)
    values = np.zeros((224, 224), bool)
    values[20:90, 100:131] = True
    expected = np.zeros(6)
    covered = 0
    for row in range(14):
        for column in range(14):
            share = values[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16].mean()
            vector = token_map[3 + row * 14 + column]
            expected += share * vector / np.linalg.norm(vector)
            covered += share > 0
    vector, patches = pool_region(token_map, 2, (14, 14), Region(inside=Mask(values)), (999, 5))
    assert vector == pytest.approx(expected / (values.sum() / 256), rel=1e-5)
    assert patches == covered


def test_an_empty_mask_leaves_nothing_and_one_of_everything_the_mean_direction():
    vector, patches = pool_region(tokens(), 4, (14, 14), Region(inside=Mask(np.zeros((50, 70), bool))), (70, 50))
    assert not vector.any()
    assert patches == 0
    token_map = tokens()
    directions = token_map[5:] / np.linalg.norm(token_map[5:], axis=1, keepdims=True)
    vector, patches = pool_region(token_map, 4, (14, 14), Region(inside=Mask(np.ones((50, 70), bool))), (70, 50))
    assert vector == pytest.approx(directions.mean(axis=0), rel=1e-4)
    assert patches == 196
