"""The recovered scene graph equals the rendered one, also under the artefacts of learned editors."""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import random_scene_request
from editcritic.benchmarks.sceneedit.render import render, render_float
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject, text_extent
from editcritic.benchmarks.sceneedit.scene_recovery import recover_scene
from editcritic.benchmarks.sceneedit.scene_requests import random_request
from editcritic.benchmarks.sceneedit.vocabulary import TEXT
from editcritic.reward import Image
from editcritic.reward.sample import TASK_TYPES, TaskType

# -- scenes and edits -------------------------------------------------------------------------------------------------


def disturbed(rng: random.Random, scene: Scene) -> tuple[Scene, Image]:
    """Rendered as by a learned editor: slightly shifted, greyish, blurred, brighter or darker, noisy."""

    def by() -> float:
        return rng.uniform(-1, 1) / scene.size

    scene = replace(
        scene,
        objects=tuple(obj.moved_to(obj.x + by(), obj.y + by()) for obj in scene.objects),
        light=replace(scene.light, gain=scene.light.gain * rng.uniform(0.9, 1.1)),
    )
    grey = rng.uniform(0, 0.15)
    picture = render_float(scene, noise=False) * (1 - grey) + 128 * grey
    if (sigma := rng.uniform(0, 0.7)) > 0.1:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.float64)
    picture = picture + np.random.default_rng(scene.noise_seed).normal(0, rng.uniform(1, 8), picture.shape)
    return scene, Image.of(np.rint(np.clip(picture, 0, 255)).astype(np.uint8))


def a_case(number: int, size: int, kind: TaskType, *, harsh: bool) -> tuple[Scene, tuple[Scene, Scene], Image]:
    """True scene, guesses (before, requested), and image. Every other edit does not follow the request."""
    rng, config = random.Random(f"recovery {number} {kind}"), SceneConfig.for_size(size)
    before, request = random_scene_request(rng, config, kind)
    true, requested = request.apply(before), request.apply(before)
    while number % 2 and requested == true:
        other = random_request(rng, before, config, rng.choice(TASK_TYPES))
        requested = requested if other is None else other.apply(before)
    true = replace(true, noise_seed=number + 1)
    shown, picture = disturbed(rng, true) if harsh else (true, render(true))
    return shown, (before, requested), picture


def wrong(recovered: Scene, true: Scene, key: Callable[[SceneObject], object]) -> list[str]:
    """Differences of two scenes: objects that are not at the same place or differ in `key`."""
    remaining, bad = list(recovered.objects), []
    for obj in true.objects:
        near = [
            candidate
            for candidate in remaining
            if abs(candidate.x - obj.x) <= 0.04 and abs(candidate.y - obj.y) <= 0.04 and key(candidate) == key(obj)
        ]
        if near:
            remaining.remove(near[0])
        else:
            bad.append(f"missed {obj.name} {obj.text} #{obj.id}")
    return [*bad, *(f"invented {candidate.name} {candidate.text} #{candidate.id}" for candidate in remaining)]


def kind_of(obj: SceneObject) -> object:
    return obj.shape, obj.colour if obj.shape != TEXT else ""


# -- recovery --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "harsh", "least"), [(64, False, 0.95), (64, True, 0.9), (32, False, 0.9), (32, True, 0.85)]
)
def test_the_scene_is_found_again_whatever_was_edited_and_however_it_was_drawn(
    size: int, harsh: bool, least: float
) -> None:
    correct = []
    for kind, number in itertools.product(TASK_TYPES, range(4)):  # each edit, asked for and not
        true, guesses, picture = a_case(number, size, kind, harsh=harsh)
        found = recover_scene(picture, *guesses).scene
        correct.append(not wrong(found, true, kind_of) and found.backdrop.kind == true.backdrop.kind)
    assert np.mean(correct) >= least


@pytest.mark.parametrize(("harsh", "least"), [(False, 0.95), (True, 0.9)])
def test_materials_and_texts_are_found_too(harsh: bool, least: float) -> None:
    correct = []
    kinds: tuple[TaskType, ...] = ("material_alter", "text_change")
    for kind, number in itertools.product(kinds, range(10)):
        true, guesses, picture = a_case(number, 64, kind, harsh=harsh)
        found = recover_scene(picture, *guesses).scene
        correct.append(not wrong(found, true, lambda obj: (kind_of(obj), obj.material, obj.text)))
    assert np.mean(correct) >= least


PLAIN = Scene(
    (
        SceneObject(1, "circle", "red", 0.25, 0.25, 0.25, 0.25),
        SceneObject(2, "square", "blue", 0.72, 0.3, 0.2, 0.2, material="wood"),
        SceneObject(7, "star", "yellow", 0.3, 0.72, 0.26, 0.26),
    ),
    Backdrop("grass", 5),
)


def test_what_is_as_it_was_has_its_very_place_and_size() -> None:
    recovered = recover_scene(render(PLAIN), PLAIN)
    assert recovered.scene.objects == PLAIN.objects
    assert recovered.scene.backdrop == PLAIN.backdrop
    assert not recovered.new_ids
    assert not recovered.uncertain_ids
    assert min(recovered.fit_by_id.values()) > 0.9
    assert recovered.backdrop_fit > 0.8


def test_a_thing_keeps_its_id_across_the_whole_picture() -> None:
    moved = PLAIN.with_object(PLAIN.objects[0].moved_to(0.8, 0.8))
    obj: Any = recover_scene(render(moved), PLAIN).scene.object_by_id(1)
    assert (obj.x, obj.y) == pytest.approx((0.8, 0.8), abs=0.02)


def test_what_nobody_guessed_gets_a_new_id() -> None:
    more = PLAIN.with_object(SceneObject(8, "heart", "purple", 0.75, 0.75, 0.22, 0.22))
    recovered = recover_scene(render(more), PLAIN)
    assert recovered.new_ids == (8,)
    assert [recovered.scene.named("purple heart")[0].id] == [8]


def test_another_backdrop_than_anybody_guessed_is_told_by_its_colour() -> None:
    other = replace(PLAIN, backdrop=Backdrop("night", 9))
    recovered = recover_scene(render(other), PLAIN)
    assert recovered.scene.backdrop.kind == "night"
    assert recovered.scene.objects == PLAIN.objects


def test_drift_grows_with_the_drift_of_the_backdrop() -> None:
    def drift(by: float) -> float:
        drawn = replace(PLAIN, backdrop=replace(PLAIN.backdrop, drift=by, drift_seed=3))
        return recover_scene(render(drawn), PLAIN).scene.backdrop.drift

    assert drift(0.0) == 0.0
    assert 0.15 < drift(0.3) < drift(0.6) < 0.85


@pytest.mark.parametrize("opacity", [0.25, 0.5])
def test_a_ghost_is_there_with_its_colour_and_opacity(opacity: float) -> None:
    ghost = PLAIN.with_object(replace(PLAIN.objects[0], opacity=opacity))
    obj: Any = recover_scene(render(ghost), PLAIN).scene.object_by_id(1)
    assert obj.appearance == PLAIN.objects[0].appearance
    assert obj.opacity == pytest.approx(opacity, abs=0.12)


def test_what_moved_and_left_a_ghost_is_there_twice() -> None:
    moved = PLAIN.with_object(PLAIN.objects[0].moved_to(0.8, 0.8))
    drawn = moved.with_object(replace(PLAIN.objects[0], id=8, opacity=0.4))
    recovered = recover_scene(render(drawn), PLAIN, moved)
    assert len(recovered.scene.named("red circle")) == 2
    assert len(recovered.new_ids) == 1


def test_a_text_that_moved_is_read_as_a_whole() -> None:
    w, h = text_extent("STOP", 1 / 64)
    text = SceneObject(8, TEXT, "", 0.6, 0.92, w, h, text="STOP")
    moved = PLAIN.with_object(text.moved_to(0.75, 0.92))
    recovered = recover_scene(render(moved), PLAIN, PLAIN.with_object(text))
    assert [(one.id, one.text) for one in recovered.scene.named(TEXT)] == [(8, "STOP")]


def test_a_smear_is_nothing_anybody_could_name() -> None:
    pixels = render(PLAIN).pixels.copy()
    pixels[:32, :32] = cv2.GaussianBlur(np.asarray(pixels[:32, :32]), (0, 0), 7)
    recovered = recover_scene(Image.of(pixels), PLAIN)
    assert recovered.scene.object_by_id(1) is None or 1 in recovered.uncertain_ids


def test_errors_say_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match="at least one scene graph"):
        recover_scene(render(PLAIN))
    with pytest.raises(ValueError, match="differ in size or grain"):
        recover_scene(render(PLAIN), PLAIN, replace(PLAIN, size=32))
    with pytest.raises(ValueError, match="32 x 32, the guesses 64"):
        recover_scene(render(replace(PLAIN, size=32)), PLAIN)


def test_whatever_an_editor_makes_of_a_scene_is_looked_at() -> None:
    """Black is no pigment, and nothing is divided by its brightness."""
    rng = np.random.default_rng(0)
    scene = random_scene(random.Random(3), SceneConfig.for_size(32))
    drawn = render_float(scene)
    spotted, striped = drawn.copy(), drawn.copy()
    spotted[rng.random((32, 32)) < 0.3] = 0
    striped[::2] = 0
    flat = [np.full((32, 32, 3), level) for level in (0, 1, 128, 255)]
    noise = [rng.normal(128, sigma, (32, 32, 3)) for sigma in (30, 300)]
    torn = [np.where(rng.random((8, 8, 1)).repeat(4, 0).repeat(4, 1) < 0.4, 0, drawn) for _ in range(20)]
    for picture in [*flat, *noise, spotted, striped, *torn]:
        with np.errstate(all="raise"):
            recovered = recover_scene(Image.of(np.clip(picture, 0, 255).astype(np.uint8)), scene)
        assert set(recovered.fit_by_id) >= {obj.id for obj in scene.objects}
