"""What is drawn is what the scene graph says, to the bit."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.benchmarks.sceneedit.render import (
    INK_RGB,
    OBJECT_RGB,
    coverage,
    occluded_share,
    render,
    render_backdrop,
    render_float,
    texture,
    visibility_map,
)
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject
from editcritic.benchmarks.sceneedit.vocabulary import COLOURS, LETTERS, MATERIALS, SHAPES, SIGN, TEXT

BLANK = Scene((), Backdrop("snow", 2), noise=0.0)
ALL = Scene(
    (
        *(
            SceneObject(
                i, shape, COLOURS[i], 0.15 + 0.23 * (i % 4), 0.2 + 0.28 * (i // 4), 0.2, 0.2, ("", *MATERIALS)[i % 5]
            )
            for i, shape in enumerate(SHAPES)
        ),
        SceneObject(8, SIGN, "red", 0.3, 0.85, 0.3, 0.15, text="OPEN", ink="light"),
        SceneObject(9, TEXT, "", 0.75, 0.85, 0.17, 0.08, text="HOT"),
    ),
    Backdrop("brick wall", 4, 0.4, 6),
    Light(1.1, 0.1, 0.3),
)


def one(shape: str, size: float = 0.5, **more: object) -> SceneObject:
    return replace(SceneObject(1, shape, "red", 0.5, 0.5, size, size), **more)  # type: ignore[arg-type]


# -- seeds ------------------------------------------------------------------------------------------------------------


def test_noise_is_a_function_of_its_seed_and_as_strong_as_said() -> None:
    noisy = replace(ALL, noise=2.5)
    assert render(noisy) == render(noisy)
    assert render(noisy) != render(replace(noisy, noise_seed=1))
    rest = render_float(noisy) - render_float(noisy, noise=False)
    assert rest.std() == pytest.approx(2.5, rel=0.05)
    np.testing.assert_array_equal(render_float(replace(noisy, noise=0.0)), render_float(noisy, noise=False))


def test_drawing_leaves_what_it_keeps_for_the_next_time_alone() -> None:
    before = hashlib.sha256(render_backdrop(ALL.backdrop, 64, 1).tobytes()).hexdigest()
    first = render(ALL)
    render_backdrop(ALL.backdrop, 64, 1)[:] = 0
    assert hashlib.sha256(render_backdrop(ALL.backdrop, 64, 1).tobytes()).hexdigest() == before
    assert render(ALL) == first


# -- outlines ---------------------------------------------------------------------------------------------------------

UPRIGHT = ("circle", "square", "diamond", "cross", "ring")


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_symmetric_where_they_should_be(shape: str) -> None:
    alpha = coverage(one(shape), 64, 1)
    np.testing.assert_allclose(alpha, alpha[:, ::-1], atol=1e-12)
    if shape in UPRIGHT:
        np.testing.assert_allclose(alpha, alpha[::-1], atol=1e-12)
        np.testing.assert_allclose(alpha, alpha.T, atol=1e-12)
    else:
        assert np.abs(alpha - alpha[::-1]).max() == 1.0


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_fill_their_boxes_and_stay_inside(shape: str) -> None:
    alpha = coverage(one(shape), 256, 1)  # from 64 to 192
    assert alpha[:64].max() == alpha[192:].max() == alpha[:, :64].max() == alpha[:, 192:].max() == 0
    for side in (alpha[64:68], alpha[188:192], alpha[:, 64:68], alpha[:, 188:192]):
        assert side.max() > 0.2


@pytest.mark.parametrize(
    ("shape", "share"), [("circle", np.pi / 4), ("square", 1), ("triangle", 1 / 2), ("diamond", 1 / 2), ("ring", 0.589)]
)
@pytest.mark.parametrize("long", [0.08, 0.1, 0.3])
def test_areas_are_right_for_small_targets_too(shape: str, share: float, long: float) -> None:
    area = float(coverage(one(shape, long), 128, 2).sum()) / (long * 128) ** 2
    assert area == pytest.approx(share, rel=0.06)  # outlines are drawn to a quarter of a pixel


@given(st.floats(-0.3, 1.3), st.floats(-0.3, 1.3), st.sampled_from(SHAPES))
@settings(max_examples=60, deadline=None)
def test_what_sticks_out_of_the_picture_is_cut_off(x: float, y: float, shape: str) -> None:
    alpha = coverage(one(shape, 0.4).moved_to(x, y), 32, 1)
    assert alpha.shape == (32, 32)
    assert alpha.min() >= 0
    assert alpha.max() <= 1


# -- one on another ---------------------------------------------------------------------------------------------------


def test_later_things_lie_on_earlier_ones() -> None:
    low, high = (
        SceneObject(1, "square", "red", 0.5, 0.5, 0.5, 0.5),
        SceneObject(2, "square", "blue", 0.5, 0.5, 0.25, 0.25),
    )
    picture = render_float(replace(BLANK, objects=(low, high)), noise=False)
    np.testing.assert_allclose(picture[32, 32], OBJECT_RGB["blue"])
    np.testing.assert_allclose(picture[20, 20], OBJECT_RGB["red"])
    hidden = render_float(replace(BLANK, objects=(high, low)), noise=False)
    np.testing.assert_allclose(hidden[32, 32], OBJECT_RGB["red"])


def test_what_can_be_seen_of_a_thing_is_what_others_leave() -> None:
    low, high = (
        SceneObject(1, "square", "red", 0.5, 0.5, 0.5, 0.5),
        SceneObject(2, "square", "blue", 0.5, 0.375, 0.5, 0.25),
    )
    scene = replace(BLANK, objects=(low, high))
    assert occluded_share(scene, 1) == pytest.approx(0.5)
    assert occluded_share(scene, 2) == 0.0
    expected = np.zeros((64, 64))
    expected[32:48, 16:48] = 1
    np.testing.assert_allclose(visibility_map(scene, 1), expected)
    ghost = scene.with_object(replace(high, opacity=0.4))
    assert occluded_share(ghost, 1) == pytest.approx(0.2)
    assert visibility_map(ghost, 2).max() == pytest.approx(0.4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0.2, 0.8), st.floats(0.2, 0.8), st.sampled_from(SHAPES)), min_size=1, max_size=5))
def test_nothing_is_seen_twice(places: list[tuple[float, float, str]]) -> None:
    objects = tuple(SceneObject(i, shape, "red", x, y, 0.4, 0.4) for i, (x, y, shape) in enumerate(places))
    scene = replace(BLANK, objects=objects)
    seen = sum((visibility_map(scene, obj.id) for obj in objects), np.zeros((64, 64)))
    assert seen.max() <= 1 + 1e-9
    assert occluded_share(scene, objects[-1].id) == pytest.approx(0.0)


def test_opacity_mixes_with_what_lies_behind() -> None:
    behind = render_backdrop(BLANK.backdrop, 64, 1)[32, 32]
    half = render_float(replace(BLANK, objects=(one("square", opacity=0.5),)), noise=False)[32, 32]
    np.testing.assert_allclose(half, (behind + OBJECT_RGB["red"]) / 2)


# -- letters ----------------------------------------------------------------------------------------------------------


def test_every_letter_is_drawn_as_it_is_written_and_as_large_as_its_grain() -> None:
    for letter, rows in LETTERS.items():
        ink = coverage(SceneObject(1, TEXT, "", 0.5, 0.5, 0.1, 0.1, text=letter), 64, 2)
        y, x = np.nonzero(ink)
        drawn = ink[y.min() : y.max() + 1, x.min() : x.max() + 1]
        np.testing.assert_array_equal(drawn, np.kron([[dot == "#" for dot in row] for row in rows], np.ones((2, 2))))


def test_letters_on_a_plate_are_ink_and_the_rest_is_plate() -> None:
    sign = SceneObject(1, SIGN, "blue", 0.5, 0.5, 0.4, 0.2, text="HI", ink="light")
    picture = render_float(replace(BLANK, objects=(sign,)), noise=False)
    inside = picture[coverage(sign, 64, 1) == 1]
    light = np.isclose(inside, INK_RGB["light"]).all(axis=1)
    assert light.sum() == sum(row.count("#") for letter in "HI" for row in LETTERS[letter])
    assert np.isclose(inside[~light], OBJECT_RGB["blue"]).all()


# -- surfaces and light -----------------------------------------------------------------------------------------------


def test_light_scales_everything_and_tilts_to_one_side() -> None:
    scene = replace(ALL, light=Light())
    np.testing.assert_allclose(
        render_float(replace(scene, light=Light(1.2)), noise=False), 1.2 * render_float(scene, noise=False), rtol=1e-12
    )
    flat = render_float(scene, noise=False).sum(axis=2)
    across = render_float(replace(scene, light=Light(tilt=0.1)), noise=False).sum(axis=2) / flat
    np.testing.assert_allclose(across[:, -1], 1 + 0.2 * (0.5 - 0.5 / 64))
    np.testing.assert_allclose(across.mean(), 1.0)
    down = render_float(replace(scene, light=Light(tilt=0.1, angle=0.25)), noise=False).sum(axis=2) / flat
    np.testing.assert_allclose(down, across.T)


def test_drift_draws_the_backdrop_anew_by_as_much_as_said() -> None:
    away = [
        np.abs(render_backdrop(Backdrop("sand", 1, by, 2), 64, 1) - render_backdrop(Backdrop("sand", 1), 64, 1)).mean()
        for by in (0.0, 0.2, 0.6, 1.0)
    ]
    assert away[0] == 0
    assert away == sorted(away)
    assert away[2] == pytest.approx(3 * away[1], rel=0.2)


@pytest.mark.parametrize("material", MATERIALS)
@pytest.mark.parametrize("grain", [1, 2])
def test_materials_have_their_own_patterns(material: str, grain: int) -> None:
    plane = texture(material, 5, 64, grain)
    assert plane.std() > 0.1
    assert 0.8 < plane.mean() < 1
    others = [texture(other, 5, 64, grain) for other in ("", *MATERIALS) if other != material]
    assert all(np.abs(plane - other).mean() > 0.05 for other in others)
