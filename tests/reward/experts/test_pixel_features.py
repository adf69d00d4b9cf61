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
from editcritic.reward.experts import pixel_features as pixels
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.queries import Abstention, Embed, Failure, Mask, Measure, Region

EXPERT: Any = PixelFeatures()  # outcomes have many types; tests know which
PHOTOS = {name: getattr(skimage.data, name)() for name in ("astronaut", "coffee", "chelsea", "rocket")}
BOTH = (Region("cls"), Region("patches"))


def similarity(a, b, regions=BOTH):
    """As EdiVal-CC compares crops."""
    x, y = EXPERT([Embed(Image.of(a), regions), Embed(Image.of(b), regions)])
    return float(np.mean([x.cosine(y, row) for row in range(len(regions))]))


def rounded(pixels):
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def jpeg(pixels, quality):
    return cv2.imdecode(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR)


def noise(pixels, deviation):
    return rounded(pixels + np.random.default_rng(0).normal(0, deviation, pixels.shape))


def tint(pixels, strength):
    return rounded(pixels * np.array([1 + strength, 1, 1 - strength]))


def darker(pixels, strength):
    return rounded(pixels * (1 - strength))


def blur(pixels, sigma):
    return cv2.GaussianBlur(pixels, (0, 0), sigma)


def sharpened(pixels, amount):
    return rounded(pixels + amount * (pixels.astype(float) - cv2.GaussianBlur(pixels, (0, 0), 2).astype(float)))


def shifted(pixels, by):
    matrix = np.array([[1, 0, by], [0, 1, by]], np.float32)
    return cv2.warpAffine(pixels, matrix, pixels.shape[1::-1], flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)


def resampled(pixels, factor):
    height, width = pixels.shape[:2]
    small = cv2.resize(pixels, (int(width * factor), int(height * factor)), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def views(pixels):
    """The photograph, and crops as large as objects are."""
    return {"whole": pixels, "160 px": pixels[100:260, 150:310], "60 px": pixels[150:210, 180:240]}


@pytest.mark.parametrize("photo", PHOTOS)
def test_a_copy_is_exactly_alike(photo):
    for view in views(PHOTOS[photo]).values():
        assert similarity(view, view.copy()) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize(
    ("change", "strength"), [(jpeg, 60), (noise, 3), (shifted, 1), (shifted, 2), (resampled, 0.75)]
)
def test_what_keeps_the_content_costs_little(photo, change, strength):
    pictures = zip(views(PHOTOS[photo]).items(), views(change(PHOTOS[photo], strength)).values(), strict=True)
    for (name, before), after in pictures:
        # Two pixels are a thirtieth of the smallest crop.
        threshold = 0.985 if name == "whole" else 0.90 if (change, strength) == (shifted, 2) else 0.95
        assert similarity(before, after) > threshold, name


DRIFTS = {
    tint: (0.02, 0.05, 0.1, 0.2, 0.4),
    darker: (0.03, 0.08, 0.2, 0.4),
    blur: (1, 2, 4, 8),
    sharpened: (0.5, 1, 2, 4),
    noise: (4, 10, 20, 40),
    shifted: (2, 6, 12, 24),
}


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize("drift", DRIFTS)
def test_similarity_falls_with_the_strength_of_a_drift(photo, drift):
    for name in ("whole", "160 px"):
        before = views(PHOTOS[photo])[name]
        similarities = [similarity(before, views(drift(PHOTOS[photo], strength))[name]) for strength in DRIFTS[drift]]
        assert similarities == sorted(similarities, reverse=True), name
        assert 1 - similarities[-1] > 5 * (1 - similarities[0]), name


@pytest.mark.parametrize("photo", PHOTOS)
@pytest.mark.parametrize(("drift", "strength"), [(tint, 0.1), (darker, 0.2), (blur, 4), (sharpened, 3), (noise, 20)])
def test_a_drift_that_is_plain_to_see_costs_more_than_what_keeps_the_content(photo, drift, strength):
    for name, before in views(PHOTOS[photo]).items():
        plain = similarity(before, views(drift(PHOTOS[photo], strength))[name])
        kept = similarity(before, views(jpeg(PHOTOS[photo], 60))[name])
        assert 1 - plain > 2 * (1 - kept), name
        assert plain < 0.95 or name != "whole"  # a crop may hold nothing that could be blurred


def test_other_content_is_far_away():
    for name in ("whole", "160 px"):
        for one in PHOTOS:
            for other in PHOTOS:
                if one < other:
                    assert similarity(views(PHOTOS[one])[name], views(PHOTOS[other])[name]) < 0.5


def test_turned_and_mirrored_content_is_other_content():
    cat = PHOTOS["chelsea"]
    assert similarity(cat, cat[:, ::-1]) < 0.8
    assert similarity(cat, cat[::-1]) < 0.8


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


def inside(pixels, x, y, side):
    """The pixels in a square of an image."""
    values = np.zeros(pixels.shape[:2], bool)
    values[y : y + side, x : x + side] = True
    return Embed(Image.of(pixels), (Region(inside=Mask(values)),))


def test_what_has_moved_looks_as_it_did_and_what_took_its_place_does_not():
    coffee, cat = (cv2.resize(PHOTOS[name], (448, 448)) for name in ("coffee", "chelsea"))
    before, after, wrong = (np.full((448, 448, 3), grey, np.uint8) for grey in (120, 90, 90))
    before[32:160, 32:160] = coffee[64:192, 64:192]
    after[192:320, 256:384] = coffee[64:192, 64:192]
    wrong[192:320, 256:384] = cat[64:192, 64:192]
    was, left = EXPERT([inside(pixels, 32, 32, 128) for pixels in (before, after)])
    now, other = EXPERT([inside(pixels, 256, 192, 128) for pixels in (after, wrong)])
    assert was.cosine(now, 0) > 0.95
    assert was.cosine(other, 0) < 0.8
    assert was.cosine(left, 0) < 0.8


def test_a_mask_in_one_place_sees_what_moves_inside_of_it():
    photo = cv2.resize(PHOTOS["astronaut"], (448, 448))
    still, rolled = EXPERT([inside(photo, 64, 64, 320), inside(np.roll(photo, 64, 1), 64, 64, 320)])
    assert still.cosine(rolled, 0) < 0.9


def test_a_picture_too_small_for_statistics_is_abstained_on():
    small, good = Image.of(PHOTOS["coffee"][:3, :50]), Image.of(PHOTOS["coffee"][:50, :50])
    first, second = EXPERT([Embed(small, BOTH), Embed(good, BOTH)])
    assert first == Abstention("an image of 50 x 3 pixels is too small for patch statistics")
    assert second.values.shape == (2, 512)


def test_any_shape_has_features():
    for height, width in ((4, 4), (5, 900), (900, 5), (447, 449)):
        picture = Image.of(np.random.default_rng(0).integers(0, 255, (height, width, 3)).astype(np.uint8))
        assert np.isfinite(EXPERT([Embed(picture, BOTH)])[0].values).all()


def looked_at(monkeypatch):
    """Records the images whose features are computed."""
    computed: list[Image] = []
    compute = pixels._token_maps

    def noting(images):
        computed.extend(images)
        return compute(images)

    monkeypatch.setattr(pixels, "_token_maps", noting)
    return computed


def flat(value):
    return Image.of(np.full((8, 8, 3), value, np.uint8))


def vectors(expert, *values):
    return expert([Embed(flat(value), BOTH) for value in values])


def test_a_picture_is_computed_once_in_a_batch_and_in_later_ones(monkeypatch):
    computed, expert = looked_at(monkeypatch), PixelFeatures()
    one, two, again = vectors(expert, 10, 200, 10)
    (later,) = vectors(expert, 200)
    assert computed == [flat(10), flat(200)]
    assert one.values.tolist() == again.values.tolist() != two.values.tolist() == later.values.tolist()


def test_the_least_recently_used_features_go_first(monkeypatch):
    computed, expert = looked_at(monkeypatch), PixelFeatures(cache_bytes=2 * 197 * 512 * 4)  # room for two
    for value in (1, 2, 1, 3, 1, 2):
        vectors(expert, value)
    assert computed == [flat(value) for value in (1, 2, 3, 2)]


def test_a_batch_larger_than_the_limit_is_answered(monkeypatch):
    computed = looked_at(monkeypatch)
    answers = vectors(PixelFeatures(cache_bytes=1), *range(5))
    assert len(answers) == len(computed) == 5
    assert {answer.values.shape for answer in answers} == {(2, 512)}


# -- measures ---------------------------------------------------------------------------------------------------------


def measure(quantity, *pictures, exclude=()):
    return EXPERT([Measure(quantity, tuple(Image.of(picture) for picture in pictures), exclude)])[0]


def luminance(pixels):
    return pixels.astype(float) @ [0.2126, 0.7152, 0.0722] / 255


@pytest.mark.parametrize("photo", PHOTOS)
def test_measures_are_what_they_say(photo):
    a = PHOTOS[photo]
    b = sharpened(a, 1)
    y = luminance(a)
    assert measure("l1", a, b).value == pytest.approx(1 - np.abs(a.astype(float) - b).mean() / 255)
    assert measure("spread", a).value == pytest.approx(y.std(), abs=1e-6)
    p = np.pad(y, 1, mode="reflect")
    laplacian = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * y
    assert measure("sharpness", a).value == pytest.approx(np.abs(laplacian).mean(), abs=1e-6)
    assert measure("luma99", a).value == pytest.approx(np.quantile(y, 0.99), abs=1e-6)
    assert measure("luma999", a).value == pytest.approx(np.quantile(y, 0.999), abs=1e-6)
    stored = a / 255
    light = np.where(stored <= 0.04045, stored / 12.92, ((stored + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
    assert measure("linear_luma99", a).value == pytest.approx(np.quantile(light, 0.99), abs=1e-6)
    assert measure("linear_luma999", a).value == pytest.approx(np.quantile(light, 0.999), abs=1e-6)


@pytest.mark.parametrize("change", [jpeg, noise, blur])
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


def test_ssim_of_a_picture_with_itself_is_one():
    assert measure("ssim", PHOTOS["coffee"], PHOTOS["coffee"]).value == pytest.approx(1.0)


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


def test_a_look_is_that_of_most_pixels_and_not_of_a_painted_part():
    photo = cv2.resize(PHOTOS["coffee"], (256, 192), interpolation=cv2.INTER_AREA)
    covered = photo.copy()
    covered[:90, :100] = 128
    assert all(abs(value) < 0.2 for value in looks(photo, covered).values())
    right = Box(0.75, 0.5, 0.5, 1.0)
    half = photo.copy()
    half[:, 128:] = rounded(half[:, 128:] * 1.3)
    assert looks(photo, half, (right,))["lightness"] == pytest.approx(0, abs=0.1)


def test_noise_is_no_detail():
    photo = cv2.resize(PHOTOS["coffee"], (256, 192), interpolation=cv2.INTER_AREA)
    assert abs(looks(photo, noise(photo, 12))["detail"]) < 0.05


def test_chroma_is_the_distance_from_grey():
    photo = PHOTOS["coffee"]
    coloured, plain = EXPERT([Measure("chroma", (Image.of(one),)) for one in (photo, rounded(grey(photo) + 0 * photo))])
    assert coloured.value > 20
    assert plain.value < 0.5


def test_where_everything_is_excluded_nothing_is_measured():
    everything = (Box(0.5, 0.5, 1, 1),)
    counts = {"l1": 2, "ssim": 2, "spread": 1, "sharpness": 1, "luma99": 1, "linear_luma99": 1}
    for quantity, count in counts.items():
        measured = measure(quantity, *[PHOTOS["coffee"]] * count, exclude=everything)
        assert measured.value is None
        assert measured.share == 0.0


def test_excluded_differences_do_not_count():
    a = PHOTOS["coffee"]
    b = a.copy()
    b[50:150, 100:300] = 0
    box = Box.from_corners(100, 50, 299, 149, (600, 400))
    assert measure("l1", a, b, exclude=(box,)).value == 1.0
    assert measure("l1", a, b).value < 0.97


def test_pairs_of_two_sizes_are_abstained_on():
    outcome = measure("l1", PHOTOS["coffee"], PHOTOS["coffee"][:-1])
    assert outcome == Abstention(
        "l1 compares images of one size, got 600 x 400 and 600 x 399: resize them to one size first"
    )


def test_ssim_abstains_below_its_window():
    assert isinstance(measure("ssim", *[PHOTOS["coffee"][:10, :50]] * 2), Abstention)


@pytest.mark.parametrize(("quantity", "count"), [("l1", 1), ("l1", 3), ("spread", 2)])
def test_a_wrong_number_of_pictures_is_a_failure(quantity, count):
    assert isinstance(measure(quantity, *[PHOTOS["coffee"]] * count), Failure)


def test_a_broken_file_costs_no_mask_of_the_size_that_it_claims(tmp_path):
    path = tmp_path / "huge.png"
    path.write_bytes(b"PNG?")
    picture = Image((40_000, 40_000), digest="0" * 64, path=path)
    tracemalloc.start()
    try:
        with pytest.raises(ImageError):
            EXPERT([Measure("spread", (picture,))])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**30  # what reads a file reserves half of it; the mask would be 1.6 GB
