"""PixelFeatures: image features and measures from pixels only. No download, a few milliseconds per image.

They compare appearance, not meaning: an object redrawn in another pose is a different object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ..image import Image, Pixels
from ..lru_cache import FeatureCache
from ..queries.answers import Embeddings, Measurement, Outcome
from ..queries.expert import Expert
from ..queries.kinds import Embed, Measure
from ..queries.outcomes import Abstention, Failure
from .loading.pooling import Tokens, covered_shares, free_pixels, pool_query
from .matching.appearance import AppearanceChange, appearance_change, typical_chroma

Plane = NDArray[np.float32]

_REC709 = np.array([[0.2126, 0.7152, 0.0722]], np.float32) / 255


class PixelFeatures(Expert):
    """Answers `Embed` with patch statistics and `Measure` with pixel arithmetic.

    **Features.** An image is resized to 448 x 448 and split into 14 x 14 patches; each is described by 13 numbers: mean
    luminance and chroma, chroma contrast, and at three scales the strength, direction and directedness of gradients.
    Tokens are random Fourier features (Rahimi and Recht, 2007) of these numbers and, except for the class token, of the
    patch's position: the cosine of two tokens falls from 1 towards 0 with the distance of their inputs, slowly enough
    to distinguish strong drifts. The mean of patch tokens represents the *distribution* of appearance over positions;
    for a region inside a mask, over positions relative to the mask's centre, so that a moved object keeps its features.
    Scales are set so that JPEG at quality 60, weak noise and resampling cost a few hundredths at most; a visible tint,
    blur or sharpening costs more, increasing with its strength. Abstains on images under 4 pixels a side.

    **Measures.** See `Measure`; luminance is Rec. 709. `ssim` uses a Gaussian window (11 x 11, sigma 1.5, population
    covariance) and averages over all pixels, reflected at the border. Abstains on images smaller than the window and on
    pairs of different sizes.

    Args:
        cache_bytes: For the token maps of recent images (0.4 MB each).
    """

    kinds = (Embed, Measure)
    id = "pixel-features@1 448px 14x14 float32 cv2"

    def __init__(self, cache_bytes: int = 128 * 2**20) -> None:
        self.cache_bytes = cache_bytes
        self._maps: FeatureCache[Tokens] = FeatureCache(cache_bytes, lambda tokens: int(tokens.nbytes))

    def __call__(self, queries: Sequence[Embed | Measure]) -> list[Outcome]:
        embeds = [query for query in queries if isinstance(query, Embed) and min(query.image.size) >= _MIN_SIDE]
        maps = self._maps.get_or_compute({query.image.digest: query.image for query in embeds}, _token_maps)
        outcomes: list[Outcome] = []
        for query in queries:
            if isinstance(query, Measure):
                outcomes.append(_measure(query))
            elif query.image.digest in maps:
                outcomes.append(_centred(pool_query(maps[query.image.digest], 0, (_GRID, _GRID), query), query))
            else:
                width, height = query.image.size
                outcomes.append(Abstention(f"an image of {width} x {height} pixels is too small for patch statistics"))
        return outcomes


_SIDE = 448
_GRID = 14
_MIN_SIDE = 4
_SCALES = 3
_STATISTICS = 4 + 3 * _SCALES
_CELLS = 2
_FREQUENCIES = 256

# A difference of one unit is clearly visible. Gradients below the floor are noise and rounding.
_LUMINANCE, _CHROMA, _LOG_CONTRAST, _DIRECTEDNESS = 0.08, 0.04, 0.5, 0.4
_FLOOR = 0.03

_LUMA_CHROMA = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32)
_LUMA_CHROMA /= 255


def _frequencies() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For patches ((statistics + 2 positions) x n) and for the whole image ((statistics of all cells) x n). Two of
    every three frequencies are lowered, which gives the similarity a long tail; those of positions are not, so that the
    common part of all patches cannot dominate their mean."""
    # numpy guarantees RandomState's stream; that of its newer generators may change.
    random = np.random.RandomState(0)
    lowered = np.resize([0.25, 0.5, 1.0], _FREQUENCIES)
    patches = random.standard_normal((_STATISTICS + 2, _FREQUENCIES))
    patches[:_STATISTICS] *= lowered
    whole = random.standard_normal((_CELLS * _CELLS * _STATISTICS, _FREQUENCIES)) * lowered / _CELLS
    return patches.astype(np.float32), whole.astype(np.float32)


_PATCH_FREQUENCIES, _IMAGE_FREQUENCIES = _frequencies()
_POSITIONS = np.stack(np.divmod(np.arange(_GRID * _GRID), _GRID), axis=1).astype(np.float32)


def _token_maps(images: Sequence[Image]) -> list[Tokens]:
    return [_tokens(image.pixels) for image in images]


def _tokens(pixels: Pixels) -> Tokens:
    """One token for the whole image, then 196 for its patches: 197 x 512, each of the same length."""
    statistics = _statistics(pixels)
    block = _GRID // _CELLS
    cells = statistics.reshape(_CELLS, block, _CELLS, block, _STATISTICS).mean((1, 3))
    patches = np.concatenate([statistics.reshape(-1, _STATISTICS), _POSITIONS], axis=1)
    phases = np.concatenate([cells.reshape(1, -1) @ _IMAGE_FREQUENCIES, patches @ _PATCH_FREQUENCIES])
    return np.concatenate([np.cos(phases), np.sin(phases)], axis=1)


def _centred(embeddings: Embeddings, query: Embed) -> Embeddings:
    """The vectors, with positions inside masks relative to the mask's centre. A token holds cosines and sines of phases
    that are linear in the position: another origin rotates all of them, and hence their mean, by the same angles."""
    values = embeddings.values.copy()
    for row, region in zip(values, query.regions, strict=True):
        if region.inside is not None and row.any():
            coverage = covered_shares(region.inside.values, (_GRID, _GRID)).ravel()
            phase = (coverage @ _POSITIONS / coverage.sum()) @ _PATCH_FREQUENCIES[_STATISTICS:]
            cosines, sines = row[:_FREQUENCIES].copy(), row[_FREQUENCIES:].copy()
            row[:_FREQUENCIES] = cosines * np.cos(phase) + sines * np.sin(phase)
            row[_FREQUENCIES:] = sines * np.cos(phase) - cosines * np.sin(phase)
    return Embeddings(values, embeddings.patches)


def _statistics(pixels: Pixels) -> NDArray[np.float32]:
    """14 x 14 x 13, in units of visible differences."""
    resized, colours = (_SCRATCH.like(name, (_SIDE, _SIDE, 3)) for name in ("fitted", "colours"))
    np.copyto(resized, _resized(pixels))
    cv2.transform(resized, _LUMA_CHROMA, dst=colours)
    mean = _per_patch(colours)
    squares = resized
    cv2.multiply(colours, colours, dst=squares)
    chroma_variance = (_per_patch(squares) - mean * mean)[:, :, 1:].sum(2)
    statistics = [
        mean[:, :, 0] / _LUMINANCE,
        mean[:, :, 1] / _CHROMA,
        mean[:, :, 2] / _CHROMA,
        _log_amplitude(np.maximum(chroma_variance, 0), _FLOOR / 2) / _LOG_CONTRAST,
    ]
    luminance = _SCRATCH.like("luminance", (_SIDE, _SIDE))
    cv2.extractChannel(colours, 0, dst=luminance)
    for scale in range(_SCALES):
        if scale:
            luminance = np.asarray(cv2.pyrDown(luminance), np.float32)
        tensor = _per_patch(_tensor(luminance))
        energy = tensor[:, :, 0] + tensor[:, :, 1]
        unit = (energy + _FLOOR**2) * _DIRECTEDNESS
        statistics += [
            _log_amplitude(energy, _FLOOR) / _LOG_CONTRAST,
            (tensor[:, :, 0] - tensor[:, :, 1]) / unit,
            2 * tensor[:, :, 2] / unit,
        ]
    return np.stack(statistics, axis=2)


def _tensor(luminance: Plane) -> Plane:
    """H x W x 3: the products of the gradient with itself."""
    across, down, both = (_SCRATCH.like(name, luminance.shape) for name in ("across", "down", "both"))
    products = _SCRATCH.like("products", (*luminance.shape, 3))
    cv2.Sobel(luminance, cv2.CV_32F, 1, 0, dst=across, scale=1 / 8)
    cv2.Sobel(luminance, cv2.CV_32F, 0, 1, dst=down, scale=1 / 8)
    cv2.multiply(across, down, dst=both)
    cv2.multiply(across, across, dst=across)
    cv2.multiply(down, down, dst=down)
    cv2.merge([across, down, both], dst=products)
    return products


class _Scratch(threading.local):
    """Reusable buffers: allocating memory of this size costs as much as the computation."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, tuple[int, ...]], Plane] = {}

    def like(self, name: str, shape: tuple[int, ...]) -> Plane:
        if (name, shape) not in self._buffers:
            self._buffers[name, shape] = np.empty(shape, np.float32)
        return self._buffers[name, shape]


_SCRATCH = _Scratch()


def _resized(pixels: Pixels) -> Pixels:
    """448 x 448: larger sides are averaged down, smaller ones enlarged linearly."""
    height, width = pixels.shape[:2]
    small = cv2.resize(pixels, (min(width, _SIDE), min(height, _SIDE)), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR), np.uint8)


def _per_patch(plane: Plane) -> Plane:
    return np.asarray(cv2.resize(plane, (_GRID, _GRID), interpolation=cv2.INTER_AREA), np.float32)


def _log_amplitude(energy: Plane, floor: float) -> Plane:
    return np.log(energy + floor**2) / 2


_WINDOW = 11


def _measure(query: Measure) -> Outcome:
    images = query.pictures
    expected = 1 if query.quantity in _SINGLE_MEASURES else 2
    if len(images) != expected:
        return Failure(f"{query.quantity} is of {expected} image(s), got {len(images)}")
    size = images[0].size
    if images[-1].size != size:
        sizes = " and ".join(f"{image.width} x {image.height}" for image in images)
        return Abstention(f"{query.quantity} compares images of one size, got {sizes}: resize them to one size first")
    if query.quantity == "ssim" and min(size) < _WINDOW:
        return Abstention(f"ssim needs at least {_WINDOW} pixels a side, got {size[0]} x {size[1]}")
    pixels = [image.pixels for image in images]  # first: a mask of the size that a broken file claims may be huge
    free = free_pixels(query.exclude, size)
    used = int(np.count_nonzero(free))
    if not used:
        return Measurement(None, 0.0)
    if query.quantity in _SINGLE_MEASURES:
        value = _SINGLE_MEASURES[query.quantity](pixels[0], free)
    else:
        value = _PAIR_MEASURES[query.quantity](pixels[0], pixels[1], free)
    return Measurement(float(value), used / free.size)


def _l1(a: Pixels, b: Pixels, free: NDArray[np.bool_]) -> float:
    return 1.0 - float(cv2.absdiff(a, b)[free].mean(dtype=np.float64)) / 255


def _ssim(a: Pixels, b: Pixels, free: NDArray[np.bool_]) -> float:
    """Wang et al., 2004; constants for luminance in [0, 1]."""
    x, y = _luminance(a).astype(np.float64), _luminance(b).astype(np.float64)
    mean_x, mean_y = _window(x), _window(y)
    var_x, var_y = _window(x * x) - mean_x**2, _window(y * y) - mean_y**2
    shared = _window(x * y) - mean_x * mean_y
    c1, c2 = 0.01**2, 0.03**2
    similar = (2 * mean_x * mean_y + c1) * (2 * shared + c2)
    similar /= (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return float(similar[free].mean())


def _window(plane: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(cv2.GaussianBlur(plane, (_WINDOW, _WINDOW), 1.5, borderType=cv2.BORDER_REFLECT), np.float64)


def _spread(a: Pixels, free: NDArray[np.bool_]) -> float:
    return float(_luminance(a)[free].std(dtype=np.float64))


def _sharpness(a: Pixels, free: NDArray[np.bool_]) -> float:
    return float(np.abs(cv2.Laplacian(_luminance(a), cv2.CV_32F))[free].mean(dtype=np.float64))


def _bright(share: float, luminance: Callable[[Pixels], Plane]) -> Callable[[Pixels, NDArray[np.bool_]], float]:
    return lambda a, free: float(np.quantile(luminance(a)[free], share))


def _luminance(pixels: Pixels) -> Plane:
    """H x W in [0, 1]."""
    return np.asarray(cv2.transform(pixels.astype(np.float32), _REC709), np.float32)


def _linear_luminance(pixels: Pixels) -> Plane:
    """H x W in [0, 1]: relative luminance, the same weights on linear light (IEC 61966-2-1)."""
    encoded = np.arange(256, dtype=np.float32) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return np.asarray(cv2.transform((255 * linear).astype(np.float32)[pixels], _REC709), np.float32)


def _of_look(quantity: str) -> Callable[[Pixels, Pixels, NDArray[np.bool_]], float]:
    return lambda a, b, free: float(getattr(appearance_change(a, b, free), quantity))


_SINGLE_MEASURES: dict[str, Callable[[Pixels, NDArray[np.bool_]], float]] = {
    "spread": _spread,
    "sharpness": _sharpness,
    "luma99": _bright(0.99, _luminance),
    "luma999": _bright(0.999, _luminance),
    "linear_luma99": _bright(0.99, _linear_luminance),
    "linear_luma999": _bright(0.999, _linear_luminance),
    "chroma": typical_chroma,
}
_PAIR_MEASURES: dict[str, Callable[[Pixels, Pixels, NDArray[np.bool_]], float]] = {
    "l1": _l1,
    "ssim": _ssim,
    **{quantity: _of_look(quantity) for quantity in AppearanceChange._fields},
}
