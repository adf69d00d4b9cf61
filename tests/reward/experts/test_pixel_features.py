"""PixelFeatures on photographs: similarity falls as content drifts; measures equal their definitions."""

import tracemalloc
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
import skimage.metrics
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, Image, ImageError
from editcritic.reward.experts import pixel_features
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.queries import Abstention, Embed, Failure, Mask, Measure, Region

from .pictures import PHOTOS, jpeg, noisy, rounded

EXPERT: Any = PixelFeatures()  # outcomes have many types; tests know which
BOTH = (Region("cls"), Region("patches"))


def similarity(a, b, regions=BOTH):
    """As EdiVal-CC compares crops."""
    x, y = EXPERT([Embed(Image.of(a), regions), Embed(Image.of(b), regions)])
    return float(np.mean([x.cosine(y, row) for row in range(len(regions))]))


def blur(pixels, sigma):
    return cv2.GaussianBlur(pixels, (0, 0), sigma)


def sharpened(pixels, amount):
    return rounded(pixels + amount * (pixels.astype(float) - blur(pixels, 2).astype(float)))


def shifted(pixels, by):
    matrix = np.array([[1, 0, by], [0, 1, by]], np.float32)
    return cv2.warpAffine(pixels, matrix, pixels.shape[1::-1], flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)


def resampled(pixels, factor):
    small = cv2.resize(pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    return cv2.resize(small, pixels.shape[1::-1], interpolation=cv2.INTER_CUBIC)


DRIFTS: dict[str, Any] = {
    "tint": (lambda p, s: rounded(p * np.array([1 + s, 1, 1 - s])), (0.02, 0.05, 0.1, 0.2, 0.4), 0.1),
    "darker": (lambda p, s: rounded(p * (1 - s)), (0.03, 0.08, 0.2, 0.4), 0.2),
    "blur": (blur, (1, 2, 4, 8), 4),
    "sharpened": (sharpened, (0.5, 1, 2, 4), 3),
    "noisy": (noisy, (4, 10, 20, 40), 20),
    "shifted": (shifted, (2, 6, 12, 24), None),
}
"""Each with its strengths, and one that is plain to see."""


def views(pixels):
    """The photograph, and crops as large as objects are."""
    return {"whole": pixels, "160 px": pixels[100:260, 150:310], "60 px": pixels[150:210, 180:240]}


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize(
    ("change", "strength"), [(jpeg, 60), (noisy, 3), (shifted, 1), (shifted, 2), (resampled, 0.75)]
)
def test_what_keeps_the_content_costs_little(photo, change, strength):
    pictures = zip(views(PHOTOS[photo]).items(), views(change(PHOTOS[photo], strength)).values(), strict=True)
    for (name, before), after in pictures:
        # Two pixels are a thirtieth of the smallest crop.
        threshold = 0.985 if name == "whole" else 0.90 if (change, strength) == (shifted, 2) else 0.95
        assert similarity(before, after) > threshold, name


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize("name", DRIFTS)
def test_similarity_falls_with_the_strength_of_a_drift_and_more_than_with_what_keeps_the_content(photo, name):
    drift, strengths, plain = DRIFTS[name]
    kept, drifted = views(jpeg(PHOTOS[photo], 60)), [views(drift(PHOTOS[photo], strength)) for strength in strengths]
    for view, before in views(PHOTOS[photo]).items():
        if view != "60 px":
            similarities = [similarity(before, after[view]) for after in drifted]
            assert similarities == sorted(similarities, reverse=True), view
            assert 1 - similarities[-1] > 5 * (1 - similarities[0]), view
        if plain:
            seen = similarity(before, views(drift(PHOTOS[photo], plain))[view])
            assert 1 - seen > 2 * (1 - similarity(before, kept[view])), view
            assert seen < 0.95 or view != "whole"  # a crop may hold nothing that could be blurred


def test_a_copy_is_exactly_alike_and_other_and_turned_content_is_far_away():
    for one in PHOTOS:
        for name, view in views(PHOTOS[one]).items():
            assert similarity(view, view.copy()) == pytest.approx(1.0, abs=1e-6)
            others = [views(PHOTOS[other])[name] for other in PHOTOS if one < other and name != "60 px"]
            assert all(similarity(view, other) < 0.5 for other in others)
    cat = PHOTOS["chelsea"]
    assert max(similarity(cat, cat[:, ::-1]), similarity(cat, cat[::-1])) < 0.8


@given(st.tuples(*[st.integers(0, 255)] * 3), st.tuples(*[st.integers(0, 255)] * 3))
def test_flat_pictures_have_a_direction_of_their_own(one, other):
    a, b = (np.full((32, 32, 3), colour, np.uint8) for colour in (one, other))
    x, y = EXPERT([Embed(Image.of(a), BOTH), Embed(Image.of(b), BOTH)])
    assert np.isfinite(x.values).all()
    assert (np.linalg.norm(x.values, axis=1) > 0.1).all()
    distance = max(abs(p - q) for p, q in zip(one, other, strict=True))
    assert (x.cosine(y, 0) > 0.9) if distance <= 4 else (x.cosine(y, 0) < 1.0)


def test_what_is_excluded_does_not_count():
    before = cv2.resize(PHOTOS["coffee"], (448, 448))
    after = before.copy()
    after[64:192, 96:256] = after[64:192, 96:256, ::-1] // 2
    box = Box.from_corners(64, 32, 287, 223, (448, 448))  # the damage and a patch around it
    assert similarity(before, after, (Region(exclude=(box,)),)) > 0.999
    assert similarity(before, after, (Region(exclude=()),)) < 0.95

    def inside(pixels, x, y):
        values = np.zeros(pixels.shape[:2], bool)
        values[y : y + 128, x : x + 128] = True
        return Embed(Image.of(pixels), (Region(inside=Mask(values)),))

    coffee, cat = (cv2.resize(PHOTOS[name], (448, 448)) for name in ("coffee", "chelsea"))
    before, after, wrong = (np.full((448, 448, 3), grey, np.uint8) for grey in (120, 90, 90))
    before[32:160, 32:160] = coffee[64:192, 64:192]
    after[192:320, 256:384] = coffee[64:192, 64:192]
    wrong[192:320, 256:384] = cat[64:192, 64:192]
    places = [inside(pixels, 32, 32) for pixels in (before, after)]
    was, left, now, other = EXPERT(places + [inside(pixels, 256, 192) for pixels in (after, wrong)])
    assert was.cosine(now, 0) > 0.95
    assert max(was.cosine(other, 0), was.cosine(left, 0)) < 0.8


@pytest.mark.parametrize(("height", "width"), [(4, 4), (5, 900), (900, 5), (447, 449), (3, 50)])
def test_any_shape_has_features_but_for_one_too_small_for_statistics(height, width):
    picture = Image.of(np.random.default_rng(0).integers(0, 255, (height, width, 3)).astype(np.uint8))
    first, second = EXPERT([Embed(picture, BOTH), Embed(Image.of(PHOTOS["coffee"][:50, :50]), BOTH)])
    if height > 3:
        assert np.isfinite(first.values).all()
    else:
        assert first == Abstention("an image of 50 x 3 pixels is too small for patch statistics")
    assert second.values.shape == (2, 512)


@pytest.mark.parametrize(
    ("cache_bytes", "computed"), [(2**30, [1, 2, 3]), (2 * 197 * 512 * 4, [1, 2, 3, 2]), (1, [1, 2, 1, 3, 1, 2])]
)
def test_as_many_pictures_as_there_is_room_for_are_computed_once(monkeypatch, cache_bytes, computed):
    levels: list[int] = []
    compute = pixel_features._token_maps

    def noting(images):
        levels.extend(int(image.pixels[0, 0, 0]) for image in images)
        return compute(images)

    monkeypatch.setattr(pixel_features, "_token_maps", noting)
    expert: Any = PixelFeatures(cache_bytes=cache_bytes)
    flat = {level: Embed(Image.of(np.full((8, 8, 3), level, np.uint8)), BOTH) for level in (1, 2, 3)}
    answers = [expert([flat[level]])[0].values.tolist() for level in (1, 2, 1, 3, 1, 2)]
    assert levels == computed
    assert answers[0] == answers[2] == answers[4] != answers[1] == answers[5]


def measure(quantity, *pictures, exclude=()):
    return EXPERT([Measure(quantity, tuple(Image.of(picture) for picture in pictures), exclude)])[0]


def luminance(pixels):
    return pixels.astype(float) @ [0.2126, 0.7152, 0.0722] / 255


@pytest.mark.parametrize("photo", PHOTOS)
def test_measures_are_what_they_say(photo):
    a = PHOTOS[photo]
    b = sharpened(a, 1)
    y = luminance(a)
    p = np.pad(y, 1, mode="reflect")
    laplacian = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * y
    stored = a / 255
    light = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
    expected = {"spread": y.std(), "sharpness": np.abs(laplacian).mean()}
    expected |= {f"luma{digits}": np.quantile(y, float(f"0.{digits}")) for digits in ("99", "999")}
    expected |= {f"linear_luma{digits}": np.quantile(light, float(f"0.{digits}")) for digits in ("99", "999")}
    assert measure("l1", a, b).value == pytest.approx(1 - np.abs(a.astype(float) - b).mean() / 255)
    assert {quantity: measure(quantity, a).value for quantity in expected} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("change", [jpeg, noisy, blur])
def test_ssim_is_that_of_scikit_image(change):
    a = PHOTOS["coffee"]
    b = change(a, 10)
    options = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 1.0, "full": True}
    _, everywhere = skimage.metrics.structural_similarity(luminance(a), luminance(b), **options)
    assert measure("ssim", a, b).value == pytest.approx(everywhere.mean(), abs=1e-5)
    box = Box.from_corners(100, 50, 299, 149, (600, 400))
    free = np.ones((400, 600), bool)
    free[50:150, 100:300] = False
    measured = measure("ssim", a, b, exclude=(box,))
    assert measured.value == pytest.approx(everywhere[free].mean(), abs=1e-5)
    assert measured.share == pytest.approx(free.mean())


def test_what_cannot_be_measured_is_said_and_a_broken_file_costs_no_mask_of_the_size_that_it_claims(tmp_path):
    photo = PHOTOS["coffee"]
    assert measure("ssim", photo, photo).value == pytest.approx(1.0)
    sizes = "images of one size, got 600 x 400 and 600 x 399"
    assert measure("l1", photo, photo[:-1]) == Abstention(f"l1 compares {sizes}: resize them to one size first")
    assert isinstance(measure("ssim", photo[:10, :50], photo[:10, :50]), Abstention)
    for quantity, count in (("l1", 1), ("l1", 3), ("spread", 2)):
        assert isinstance(measure(quantity, *[photo] * count), Failure)
    (tmp_path / "huge.png").write_bytes(b"PNG?")
    picture = Image((40_000, 40_000), digest="0" * 64, path=tmp_path / "huge.png")
    tracemalloc.start()
    try:
        with pytest.raises(ImageError):
            EXPERT([Measure("spread", (picture,))])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**30  # what reads a file reserves half of it; the mask would be 1.6 GB


@pytest.mark.parametrize("quantity", ["l1", "ssim", "spread", "sharpness", "luma99", "linear_luma99"])
def test_what_is_excluded_is_not_measured(quantity):
    pictures = [PHOTOS["coffee"]] * (2 if quantity in ("l1", "ssim") else 1)
    measured = measure(quantity, *pictures, exclude=(Box(0.5, 0.5, 1, 1),))
    assert (measured.value, measured.share) == (None, 0.0)
    if quantity == "l1":
        covered = PHOTOS["coffee"].copy()
        covered[50:150, 100:300] = 0
        box = Box.from_corners(100, 50, 299, 149, (600, 400))
        assert measure("l1", pictures[0], covered, exclude=(box,)).value == 1.0
        assert measure("l1", pictures[0], covered).value < 0.97


LOOKS: dict[Any, Any] = {
    "lightness": (lambda x: 1.2 * x, lambda x: 0.8 * x),
    "contrast": (lambda x: x.mean() + 1.3 * (x - x.mean()), lambda x: x.mean() + 0.7 * (x - x.mean())),
    "saturation": (lambda x: grey(x) + 1.5 * (x - grey(x)), lambda x: grey(x) + 0.5 * (x - grey(x))),
    "warmth": (lambda x: x * (1.1, 1, 0.85), lambda x: x * (0.9, 1, 1.15)),
    "tint": (lambda x: x * (1.1, 0.9, 1.1), lambda x: x * (0.9, 1.1, 0.9)),
    "detail": (lambda x: x + 0.8 * (x - cv2.GaussianBlur(x, (0, 0), 1.5)), lambda x: cv2.GaussianBlur(x, (0, 0), 1.5)),
}


def grey(pixels):
    return (pixels @ (0.299, 0.587, 0.114))[:, :, None]


def looks(before, after, exclude=()):
    pair = (Image.of(before), Image.of(after))
    answers = EXPERT([Measure(quantity, pair, exclude) for quantity in LOOKS])
    return {quantity: answer.value for quantity, answer in zip(LOOKS, answers, strict=True)}


@pytest.mark.parametrize("quantity", LOOKS)
@pytest.mark.parametrize("name", ["astronaut", "chelsea"])
def test_a_look_is_measured_beside_the_others(name, quantity):
    photo = cv2.resize(PHOTOS[name], (256, 192), interpolation=cv2.INTER_AREA)
    more, less = (looks(photo, rounded(change(photo.astype(np.float64)))) for change in LOOKS[quantity])
    least = 0.2 if quantity == "detail" else 1.0
    assert more[quantity] > least
    assert less[quantity] < -least
    if quantity != "detail":  # of another unit
        others = {name: abs(value) for name, value in more.items() if name not in (quantity, "detail")}
        assert max(others.values()) < more[quantity]


def test_a_look_is_that_of_most_pixels_and_not_of_a_painted_part_and_chroma_the_distance_from_grey():
    photo = cv2.resize(PHOTOS["coffee"], (256, 192), interpolation=cv2.INTER_AREA)
    covered = photo.copy()
    covered[:90, :100] = 128
    assert all(abs(value) < 0.2 for value in looks(photo, covered).values())
    right = Box(0.75, 0.5, 0.5, 1.0)
    half = photo.copy()
    half[:, 128:] = rounded(half[:, 128:] * 1.3)
    assert looks(photo, half, (right,))["lightness"] == pytest.approx(0, abs=0.1)
    assert abs(looks(photo, noisy(photo, 12))["detail"]) < 0.05  # noise is no detail
    photo = PHOTOS["coffee"]
    coloured, plain = EXPERT([Measure("chroma", (Image.of(one),)) for one in (photo, rounded(grey(photo) + 0 * photo))])
    assert coloured.value > 20
    assert plain.value < 0.5
