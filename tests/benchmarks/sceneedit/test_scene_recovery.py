"""The scene graph found in the pixels is the one that was drawn, also under what learned editors do to pictures."""

import random
from collections.abc import Callable
from dataclasses import replace

import cv2
import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.reidentify import reidentify
from editcritic.benchmarks.sceneedit.render import covered, draw, render
from editcritic.benchmarks.sceneedit.scene import Backdrop, Light, Scene, Thing, written_size
from editcritic.benchmarks.sceneedit.words import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS
from editcritic.reward import Image

LIGHT_PAPER = ("yellow", "orange", "pink")
EDITS = ("nothing", "recolour", "remove", "add", "move", "replace", "material", "count", "text", "background")


# -- scenes and edits -------------------------------------------------------------------------------------------------


def placed(chance: random.Random, scene: Scene, thing: Thing) -> Thing | None:
    """The thing at a free place, where it covers at most a fifth of another (mostly nothing); None if there is none."""
    most = 0.2 if chance.random() < 0.2 else 0.0
    for _ in range(200):
        x = chance.uniform(thing.w / 2 + 0.01, 0.99 - thing.w / 2)
        y = chance.uniform(thing.h / 2 + 0.01, 0.99 - thing.h / 2)
        one = thing.at(x, y)
        together = scene.with_thing(one)
        if not most and not all(apart(one, other) for other in scene.things if other.id != one.id):
            continue
        if all(covered(together, other.id) <= most for other in together.things):
            return one
    return None


def apart(one: Thing, other: Thing) -> bool:
    return abs(one.x - other.x) > (one.w + other.w) / 2 or abs(one.y - other.y) > (one.h + other.h) / 2


def a_thing(chance: random.Random, scene: Scene, number: int) -> Thing:
    size = chance.uniform(0.28, 0.34) if scene.size < 64 else chance.uniform(0.18, 0.32)
    shape = chance.choice([shape for shape in SHAPES if shape not in {thing.shape for thing in scene.things}])
    colour = chance.choice([colour for colour in COLOURS if colour not in {thing.colour for thing in scene.things}])
    material = chance.choice(MATERIALS) if chance.random() < 0.3 else ""
    return Thing(number, shape, colour, 0.5, 0.5, size, size, material)


def written(scene: Scene, number: int, colour: str, text: str) -> Thing:
    w, h = written_size(text, scene.grain / scene.size)
    if not colour:
        return Thing(
            number, TEXT, "", 0.5, 0.5, w, h, text=text, ink="light" if scene.backdrop.kind == "night" else "dark"
        )
    margin = 4 * scene.grain / scene.size
    ink = "dark" if colour in LIGHT_PAPER else "light"
    return Thing(number, SIGN, colour, 0.5, 0.5, w + margin, h + margin, text=text, ink=ink)


def a_scene(chance: random.Random, size: int) -> Scene:
    light = Light(chance.uniform(0.85, 1.15), chance.uniform(0, 0.12), chance.random())
    backdrop = Backdrop(chance.choice(BACKDROPS), chance.randrange(1000))
    scene = Scene((), backdrop, light, size, max(1, size // 64), chance.uniform(1, 3), chance.randrange(10**6))
    if chance.random() < 0.4:
        scene = put_in(chance, scene, written(scene, 1, chance.choice(COLOURS), chance.choice(TEXTS)))
    kinds = chance.randint(2, 3) if size < 64 else chance.randint(3, 5)
    for _ in range(kinds - len(scene.things)):
        scene = put_in(chance, scene, a_thing(chance, scene, scene.next_id))
    return scene


def put_in(chance: random.Random, scene: Scene, thing: Thing) -> Scene:
    one = placed(chance, scene, thing)
    return scene if one is None else scene.with_thing(one)


def edited(chance: random.Random, scene: Scene, kind: str) -> Scene:
    """The scene after an edit of some kind; itself where there is nothing to edit."""
    plain = [thing for thing in scene.things if thing.shape in SHAPES]
    if kind == "add":
        return put_in(chance, scene, a_thing(chance, scene, scene.next_id))
    if kind == "background":
        others = [one for one in BACKDROPS if one != scene.backdrop.kind]
        return replace(scene, backdrop=Backdrop(chance.choice(others), chance.randrange(1000)))
    if kind == "text":
        signs = [thing for thing in scene.things if thing.shape == SIGN]
        if not signs:
            return put_in(chance, scene, written(scene, scene.next_id, "", chance.choice(TEXTS)))
        said = signs[0].text
        texts = [text for text in TEXTS if len(text) == len(said) and text != said]
        return scene.with_thing(replace(signs[0], text=chance.choice(texts)))
    if kind == "nothing" or not plain:
        return scene
    thing = chance.choice(plain)
    if kind == "recolour":
        free = [colour for colour in COLOURS if colour not in {one.colour for one in scene.things}]
        return scene.with_thing(replace(thing, colour=chance.choice(free)))
    if kind == "remove":
        return scene.without([thing.id])
    if kind == "move":
        moved = placed(chance, scene, thing)
        return scene if moved is None else scene.with_thing(moved)
    if kind == "material":
        return scene.with_thing(
            replace(thing, material=chance.choice([one for one in ("", *MATERIALS) if one != thing.material]))
        )
    if kind == "count":
        return put_in(chance, scene, replace(thing, id=scene.next_id))
    assert kind == "replace", kind
    other = a_thing(chance, scene, scene.next_id)
    return scene.without([thing.id]).with_thing(replace(other, x=thing.x, y=thing.y, w=thing.w, h=thing.h))


def disturbed(chance: random.Random, scene: Scene) -> tuple[Scene, Image]:
    """As learned editors draw it: a little out of place, greyish, blurred, brighter or darker, noisy."""

    def by() -> float:
        return chance.uniform(-1, 1) / scene.size

    scene = replace(
        scene,
        things=tuple(thing.at(thing.x + by(), thing.y + by()) for thing in scene.things),
        light=replace(scene.light, gain=scene.light.gain * chance.uniform(0.9, 1.1)),
    )
    grey = chance.uniform(0, 0.15)
    picture = draw(scene, noise=False) * (1 - grey) + 128 * grey
    if (sigma := chance.uniform(0, 0.7)) > 0.1:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma), np.float64)
    picture = picture + np.random.default_rng(scene.noise_seed).normal(0, chance.uniform(1, 8), picture.shape)
    return scene, Image.of(np.rint(np.clip(picture, 0, 255)).astype(np.uint8))


def a_case(seed: int, size: int, *, harsh: bool) -> tuple[str, Scene, tuple[Scene, Scene], Image]:
    """Kind, the true scene, the guesses (before, asked for), and the picture. Every other one does not do as asked."""
    chance = random.Random(seed)
    before = a_scene(chance, size)
    kind = EDITS[seed % len(EDITS)]
    true = edited(chance, before, kind)
    asked = true if (seed // len(EDITS)) % 2 == 0 else edited(chance, before, chance.choice(EDITS))
    true = replace(true, noise_seed=seed + 1)
    shown, picture = disturbed(chance, true) if harsh else (true, render(true))
    return kind, shown, (before, asked), picture


def wrong(found: Scene, true: Scene, what: Callable[[Thing], object]) -> list[str]:
    """What one scene has that the other lacks: things that are not in the same place or differ in `what`."""
    left, bad = list(found.things), []
    for thing in true.things:
        near = [
            one
            for one in left
            if abs(one.x - thing.x) <= 0.04 and abs(one.y - thing.y) <= 0.04 and what(one) == what(thing)
        ]
        if near:
            left.remove(near[0])
        else:
            bad.append(f"missed {thing.name} {thing.text} #{thing.id}")
    return [*bad, *(f"invented {one.name} {one.text} #{one.id}" for one in left)]


def kind_of(thing: Thing) -> object:
    return thing.shape, thing.colour if thing.shape != TEXT else ""


# -- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "harsh", "least"), [(64, False, 0.95), (64, True, 0.9), (32, False, 0.9), (32, True, 0.85)]
)
def test_the_scene_is_found_again_whatever_was_edited_and_however_it_was_drawn(
    size: int, harsh: bool, least: float
) -> None:
    right = 0
    for seed in range(1000, 1040):
        _, true, guesses, picture = a_case(seed, size, harsh=harsh)
        found = reidentify(picture, *guesses)
        right += not wrong(found.scene, true, kind_of) and found.scene.backdrop.kind == true.backdrop.kind
    assert right >= least * 40


@pytest.mark.parametrize(("harsh", "least"), [(False, 0.95), (True, 0.9)])
def test_materials_and_texts_are_found_too(harsh: bool, least: float) -> None:
    right = 0
    for seed in (*range(2006, 2206, 10), *range(2008, 2208, 10)):  # material and text edits
        _, true, guesses, picture = a_case(seed, 64, harsh=harsh)
        found = reidentify(picture, *guesses)
        right += not wrong(found.scene, true, lambda thing: (kind_of(thing), thing.material, thing.text))
    assert right >= least * 40


PLAIN = Scene(
    (
        Thing(1, "circle", "red", 0.25, 0.25, 0.25, 0.25),
        Thing(2, "square", "blue", 0.72, 0.3, 0.2, 0.2, material="wood"),
        Thing(7, "star", "yellow", 0.3, 0.72, 0.26, 0.26),
    ),
    Backdrop("grass", 5),
)


def test_what_is_as_it_was_has_its_very_place_and_size() -> None:
    found = reidentify(render(PLAIN), PLAIN)
    assert found.scene.things == PLAIN.things
    assert found.scene.backdrop == PLAIN.backdrop
    assert not found.new
    assert not found.doubtful
    assert min(found.fits.values()) > 0.9
    assert found.backdrop > 0.8


def test_the_same_picture_is_found_to_be_the_same_twice() -> None:
    _, _, guesses, picture = a_case(33, 64, harsh=True)
    assert reidentify(picture, *guesses) == reidentify(picture, *guesses)


def test_a_thing_keeps_its_id_across_the_whole_picture() -> None:
    moved = PLAIN.with_thing(PLAIN.things[0].at(0.8, 0.8))
    thing = reidentify(render(moved), PLAIN).scene.get(1)
    assert thing is not None
    assert (thing.x, thing.y) == pytest.approx((0.8, 0.8), abs=0.02)


def test_what_is_gone_is_absent_and_surely_so() -> None:
    found = reidentify(render(PLAIN.without([2])), PLAIN)
    assert found.scene.get(2) is None
    assert found.fits[2] > 0.8
    assert {thing.id for thing in found.scene.things} == {1, 7}


def test_what_nobody_guessed_gets_a_new_id() -> None:
    more = PLAIN.with_thing(Thing(8, "heart", "purple", 0.75, 0.75, 0.22, 0.22))
    found = reidentify(render(more), PLAIN)
    assert found.new == (8,)
    assert [found.scene.called("purple heart")[0].id] == [8]


def test_another_backdrop_than_anybody_guessed_is_told_by_its_colour() -> None:
    other = replace(PLAIN, backdrop=Backdrop("night", 9))
    found = reidentify(render(other), PLAIN)
    assert found.scene.backdrop.kind == "night"
    assert found.scene.things == PLAIN.things


def test_drift_grows_with_the_drift_of_the_backdrop() -> None:
    def drift(by: float) -> float:
        drawn = replace(PLAIN, backdrop=replace(PLAIN.backdrop, drift=by, drift_seed=3))
        return reidentify(render(drawn), PLAIN).scene.backdrop.drift

    assert drift(0.0) == 0.0
    assert 0.15 < drift(0.3) < drift(0.6) < 0.85


@pytest.mark.parametrize("opacity", [0.25, 0.5])
def test_a_ghost_is_there_with_its_colour_and_opacity(opacity: float) -> None:
    ghost = PLAIN.with_thing(replace(PLAIN.things[0], opacity=opacity))
    thing = reidentify(render(ghost), PLAIN).scene.get(1)
    assert thing is not None
    assert thing.like == PLAIN.things[0].like
    assert thing.opacity == pytest.approx(opacity, abs=0.12)


def test_what_moved_and_left_a_ghost_is_there_twice() -> None:
    moved = PLAIN.with_thing(PLAIN.things[0].at(0.8, 0.8))
    drawn = moved.with_thing(replace(PLAIN.things[0], id=8, opacity=0.4))
    found = reidentify(render(drawn), PLAIN, moved)
    assert len(found.scene.called("red circle")) == 2
    assert len(found.new) == 1


def test_another_gain_of_the_light_is_told() -> None:
    brighter = replace(PLAIN, light=Light(1.2))
    assert reidentify(render(brighter), PLAIN).scene.light.gain == pytest.approx(1.2, abs=0.03)


def test_a_text_that_moved_is_read_as_a_whole() -> None:
    w, h = written_size("STOP", 1 / 64)
    text = Thing(8, TEXT, "", 0.6, 0.92, w, h, text="STOP")
    moved = PLAIN.with_thing(text.at(0.75, 0.92))
    found = reidentify(render(moved), PLAIN, PLAIN.with_thing(text))
    assert [(one.id, one.text) for one in found.scene.called(TEXT)] == [(8, "STOP")]


def test_a_smear_is_nothing_anybody_could_name() -> None:
    pixels = render(PLAIN).pixels.copy()
    pixels[:32, :32] = cv2.GaussianBlur(np.asarray(pixels[:32, :32]), (0, 0), 7)
    found = reidentify(Image.of(pixels), PLAIN)
    assert found.scene.get(1) is None or 1 in found.doubtful


def test_errors_say_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match="at least one scene graph"):
        reidentify(render(PLAIN))
    with pytest.raises(ValueError, match="differ in size or grain"):
        reidentify(render(PLAIN), PLAIN, replace(PLAIN, size=32))
    with pytest.raises(ValueError, match="32 x 32, the guesses 64"):
        reidentify(render(replace(PLAIN, size=32)), PLAIN)


def test_whatever_an_editor_makes_of_a_scene_is_looked_at() -> None:
    """Black is no pigment, and nothing is divided by its brightness."""
    chance = np.random.default_rng(0)
    scene = a_scene(random.Random(3), 32)
    drawn = draw(scene)
    spotted, striped = drawn.copy(), drawn.copy()
    spotted[chance.random((32, 32)) < 0.3] = 0
    striped[::2] = 0
    flat = [np.full((32, 32, 3), level) for level in (0, 1, 128, 255)]
    noise = [chance.normal(128, sigma, (32, 32, 3)) for sigma in (30, 300)]
    torn = [np.where(chance.random((8, 8, 1)).repeat(4, 0).repeat(4, 1) < 0.4, 0, drawn) for _ in range(20)]
    for picture in [*flat, *noise, spotted, striped, *torn]:
        with np.errstate(all="raise"):
            found = reidentify(Image.of(np.clip(picture, 0, 255).astype(np.uint8)), scene)
        assert set(found.fits) >= {thing.id for thing in scene.things}
