"""PixelChanges: an identical pair has no change; the source is measured once; any size works."""

import cv2
import numpy as np
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.benchmarks.demo.candidate_edits import candidates, demo_tasks
from editcritic.reward import Box, Image
from editcritic.reward.experts.pixel_changes import HARMLESS_VARIANTS, PixelChanges
from editcritic.reward.metrics.any_edit.preservation import HARMLESS_EXCESS, preservation
from editcritic.reward.queries import ChangeMap, MapChanges

EXPERT = PixelChanges()


def scene(seed: int = 0, width: int = 320, height: int = 240) -> np.ndarray:
    """Smooth texture with a few discs."""
    random = np.random.default_rng(seed)
    pixels = np.full((height, width, 3), 128.0)
    for sigma, strength in ((2, 60), (8, 300), (32, 1600)):
        pixels += strength * cv2.GaussianBlur(random.standard_normal((height, width, 3)), (0, 0), sigma)
    pixels = np.ascontiguousarray(np.clip(pixels, 0, 255).astype(np.uint8))
    for _ in range(6):
        centre = (int(random.integers(width)), int(random.integers(height)))
        cv2.circle(pixels, centre, min(width, height) // 10, random.integers(0, 256, 3).tolist(), -1, cv2.LINE_AA)
    return pixels


def changes(before: np.ndarray, after: np.ndarray, expert: PixelChanges = EXPERT) -> ChangeMap:
    query = MapChanges(Image.of(before), Image.of(after))
    (answer,) = expert([query])
    query.check(answer)
    assert isinstance(answer, ChangeMap)
    return answer


def moved(pixels: np.ndarray, zoom: float, x: float, y: float) -> np.ndarray:
    height, width = pixels.shape[:2]
    cx, cy = (width - 1) / 2, (height - 1) / 2
    warp = np.array([[zoom, 0, cx - zoom * cx + x], [0, zoom, cy - zoom * cy + y]])
    return cv2.warpAffine(pixels, warp, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)


def test_an_identical_pair_has_no_change_and_a_changed_object_stands_out_where_it_is():
    same = changes(scene(), scene())
    assert not same.features.any()
    assert not same.colour.any()
    assert (same.gain, same.aligned, same.periodicity) == (1.0, False, 0.0)
    assert same.structure == pytest.approx(1.0, abs=1e-5)
    after = scene().copy()
    cv2.rectangle(after, (200, 60), (250, 110), (250, 30, 30), -1)
    features = changes(scene(), after).features
    rows, columns = features.shape
    row, column = np.unravel_index(features.argmax(), features.shape)
    assert 60 / 240 - 1 / rows <= (row + 0.5) / rows <= 110 / 240 + 1 / rows
    assert 200 / 320 - 1 / columns <= (column + 0.5) / columns <= 250 / 320 + 1 / columns
    assert features.max() > 4


@pytest.mark.parametrize("variant", HARMLESS_VARIANTS, ids=lambda variant: variant.__name__.strip("_"))
def test_harmless_variants_stay_within_the_envelope_and_a_grid_is_periodic(variant):
    harmless = changes(scene(), variant(scene()))
    assert harmless.features.max() <= 1.0
    assert harmless.periodicity < 0.2
    after = scene().astype(int)
    after[::8] += 6
    after[:, ::8] += 6
    assert changes(scene(), np.clip(after, 0, 255).astype(np.uint8)).periodicity > 0.8


@pytest.mark.parametrize(("zoom", "x", "y"), [(1.01, 0, 0), (0.985, 2, -1), (1.0, 4, 3), (1.02, -2, 2)])
def test_small_zooms_and_shifts_are_aligned(zoom, x, y):
    change_map = changes(scene(), moved(scene(), zoom, x, y))
    assert change_map.aligned
    assert change_map.scale == pytest.approx(zoom, abs=0.002)
    assert change_map.shift == pytest.approx((x / 320, y / 320), abs=0.001)
    assert np.median(change_map.features) < 1


@pytest.mark.parametrize("zoom", [1.005, 1.0075, 1.01])
def test_a_moved_object_does_not_pull_the_alignment(zoom):
    """A bright rocket before a dark sky has the strongest edges of its picture."""
    task = next(task for task in demo_tasks() if task.name == "rocket-aside")
    good = candidates(task)["good"]
    aligned = changes(task.pixels, moved(good, zoom, 0, 0))
    assert aligned.scale == pytest.approx(zoom, abs=0.002)
    still = (changes(task.pixels, good).features < 0.1).astype(np.uint8)
    elsewhere = cv2.erode(still, np.ones((3, 3), np.uint8)).astype(bool)
    assert elsewhere.mean() > 0.4
    assert aligned.features[elsewhere].max() < HARMLESS_EXCESS


@pytest.mark.parametrize(
    ("border", "least", "most"), [(cv2.BORDER_REPLICATE, 0.0, 1.0), (cv2.BORDER_CONSTANT, 3.0, 99.0)]
)
def test_what_the_frame_shows_beyond_the_source_is_a_change(border, least, most):
    photo = cv2.resize(skimage.data.coffee(), (480, 320), interpolation=cv2.INTER_AREA)
    small = cv2.resize(photo, (468, 312), interpolation=cv2.INTER_AREA)
    edit = changes(photo, cv2.copyMakeBorder(small, 4, 4, 6, 6, border))
    assert edit.aligned
    rim = preservation(edit).heat.copy()
    assert rim[2:-2, 2:-2].max() < 1.0
    assert least <= np.median(np.concatenate([rim[0], rim[-1], rim[:, 0], rim[:, -1]])) <= most


def test_an_edit_of_more_pixels_may_be_sharper():
    photo = skimage.data.coffee()
    source = cv2.resize(photo, (300, 200), interpolation=cv2.INTER_AREA)
    sharper = np.clip(1.9 * photo.astype(np.float32) - 0.9 * cv2.GaussianBlur(photo, (0, 0), 1.5), 0, 255)
    finer = preservation(changes(source, sharper.astype(np.uint8)))
    small = cv2.resize(sharper.astype(np.uint8), (300, 200), interpolation=cv2.INTER_AREA)
    assert finer.value > 0.98
    assert preservation(changes(source, small)).drift_values["sharpness"] > finer.drift_values["sharpness"] + 0.05


def test_a_loss_of_resolution_is_told_by_degree():
    photo = cv2.resize(skimage.data.hubble_deep_field(), (1000, 872))
    sides = [(1000, 872), (700, 610), (500, 436), (250, 218)]
    lost = [changes(photo, cv2.resize(photo, side, interpolation=cv2.INTER_AREA)).detail_loss for side in sides]
    assert lost[0] == 0.0
    assert lost == sorted(lost)
    assert lost[1] > 0.2
    upscaled = cv2.resize(cv2.resize(photo, sides[3], interpolation=cv2.INTER_AREA), sides[0])
    assert changes(photo, upscaled).detail_loss == pytest.approx(lost[3], abs=0.2)
    assert changes(photo[:400, :400], photo[:400:2, :400:2]).detail_loss == 0.0  # all of a small source is compared


def test_a_large_shift_is_no_alignment_a_small_gain_is_divided_out_and_the_layout_survives_colours_and_not_a_mirror():
    assert not changes(scene(), np.roll(scene(), 60, axis=1)).aligned
    darker = changes(scene(), (scene() * 0.97 + 0.5).astype(np.uint8))
    assert darker.gain == pytest.approx(0.97, abs=0.005)
    assert np.abs(darker.colour).max() < 1
    tinted = (scene() * [0.9, 0.7, 0.5]).astype(np.uint8)
    mirrored = np.ascontiguousarray(scene()[:, ::-1])
    assert changes(scene(), tinted).structure > 0.9
    assert changes(scene(), mirrored).structure < 0.5
    assert changes(scene(), scene(1)).structure < 0.5
    larger = cv2.resize(scene(), (640, 480), interpolation=cv2.INTER_CUBIC)
    assert np.median(changes(scene(), larger).features) < 1


def test_a_source_is_measured_once_and_the_order_of_a_batch_is_irrelevant():
    expert = PixelChanges()
    queries = [MapChanges(Image.of(scene()), Image.of(scene(seed))) for seed in range(4)]
    expert(queries[:3])
    expert(queries[3:])
    assert expert.usage() == {"envelopes": 1.0}
    queries = [MapChanges(Image.of(scene(a)), Image.of(scene(b))) for a, b in ((0, 1), (1, 0), (0, 2))]
    assert PixelChanges()(queries) == PixelChanges()(queries[::-1])[::-1]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([8, 9, 13, 32, 64, 100, 257]), st.sampled_from([8, 11, 32, 64, 300]), st.integers(0, 2))
def test_small_and_flat_and_grey_images_have_finite_answers(width, height, content):
    random = np.random.default_rng(width * height)
    before = {
        0: np.full((height, width, 3), 90, np.uint8),
        1: np.repeat(random.integers(0, 256, (height, width, 1), np.uint8), 3, axis=2),
        2: random.integers(0, 256, (height, width, 3), np.uint8),
    }[content]
    changes(before, before)
    changes(before, np.zeros_like(before))
    changes(before, random.integers(0, 256, before.shape, np.uint8))


@pytest.mark.parametrize("size", [(2000, 1200), (1, 1), (2000, 3), (3, 900)])
def test_extreme_sizes_have_finite_answers(size):
    before = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    assert not changes(before, before).features.any()
    changes(before, 255 - before)


PHOTO = cv2.resize(skimage.data.astronaut(), (192, 192), interpolation=cv2.INTER_AREA)


def toned(pixels):
    return np.clip(255 * (pixels / 255) ** 0.7 * np.array([1.0, 0.95, 0.85]), 0, 255).astype(np.uint8)


def beside(before, after, kind, exclude=()):
    (found,) = PixelChanges()([MapChanges(Image.of(before), Image.of(after), (kind,), exclude)])
    assert isinstance(found, ChangeMap)
    return preservation(found)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("tone", toned),
        ("tone", lambda x: cv2.cvtColor(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)),
        ("focus", lambda x: cv2.GaussianBlur(x, (0, 0), 3)),
        ("focus", lambda x: cv2.addWeighted(x, 1.8, cv2.GaussianBlur(x, (0, 0), 1.5), -0.8, 0)),
    ],
)
def test_what_a_change_of_everything_explains_is_no_change(kind, change):
    changed = change(PHOTO)
    assert preservation(changes(PHOTO, changed)).value < 0.96
    assert beside(PHOTO, changed, kind).value > 0.95
    covered = changed.copy()
    covered[60:90, 60:90] = 128
    assert beside(PHOTO, covered, kind).value < 0.6


def test_another_kind_of_change_is_not_explained_and_it_is_fitted_outside_of_what_is_excluded():
    assert beside(PHOTO, toned(PHOTO), "focus").value < 0.6
    assert beside(PHOTO, cv2.GaussianBlur(PHOTO, (0, 0), 3), "tone").value < 0.6
    assert beside(PHOTO, 255 - PHOTO, "tone").value < 0.6  # a falling curve
    half = PHOTO.copy()
    half[:, :134] = toned(half[:, :134])
    right = Box(0.85, 0.5, 0.3, 1.0)
    fitted = beside(PHOTO, half, "tone", (right,))
    assert fitted.heat[:, :20].max() < 1.7
    assert fitted.heat[:, 24:].max() > 1.7
