"""PixelFeatures: what can be said of pictures by their pixels alone. Nothing to download, a few milliseconds a picture.

It compares appearance, not meaning: an object drawn anew in another pose is another object to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from ..expert import Expert
from ..image import Image, Pixels
from ..outcomes import Abstention, Failure
from ..pooling import Tokens, covered_shares, free_pixels, vectors
from ..query import Embed, Measure, Measured, Outcome, Vectors
from ..remembered import Remembered

Plane = NDArray[np.float32]

_REC709 = np.array([[0.2126, 0.7152, 0.0722]], np.float32) / 255


class PixelFeatures(Expert):
    """Answers `Embed` with patch statistics and `Measure` with pixel arithmetic.

    limit_bytes: how much memory the token maps of recent pictures may take (0.4 MB each).

    **Features.** A picture is brought to 448 x 448 and cut into 14 x 14 patches; each is described by 13 numbers: mean
    luminance and chroma, chroma contrast, and at three scales the strength, direction and directedness of gradients.
    Tokens are random Fourier features (Rahimi and Recht, 2007) of these numbers and, except for the class token, of the
    patch's place: the cosine of two tokens falls from 1 towards 0 with the distance of what they describe, slowly
    enough to tell strong drifts apart. The mean of patch tokens stands for the *distribution* of looks over places; of
    a region inside of a mask, over places relative to the mask's middle, so that what has moved looks as it did.
    Scales are set so that JPEG at quality 60, weak noise and resampling cost a few hundredths at most; a tint, blur or
    sharpening that is plain to see costs more, and more the stronger it is. Abstains on pictures under 4 pixels a side.

    **Measures.** See `Measure`; luminance is Rec. 709. `ssim` uses a Gaussian window (11 x 11, sigma 1.5, population
    covariance) and averages over all pixels, reflected at the rim; pictures smaller than the window, and pairs of
    different sizes, are abstained on.
    """

    kinds = (Embed, Measure)
    id = "pixel-features@1 448px 14x14 float32 cv2"

    def __init__(self, limit_bytes: int = 128 * 2**20) -> None:
        self.limit_bytes = limit_bytes
        self._maps: Remembered[Tokens] = Remembered(limit_bytes, lambda tokens: int(tokens.nbytes))

    def __call__(self, queries: Sequence[Embed | Measure]) -> list[Outcome]:
        embeds = [query for query in queries if isinstance(query, Embed) and min(query.image.size) >= _LEAST]
        maps = self._maps.of({query.image.digest: query.image for query in embeds}, _token_maps)
        outcomes: list[Outcome] = []
        for query in queries:
            if isinstance(query, Measure):
                outcomes.append(_measure(query))
            elif query.image.digest in maps:
                outcomes.append(_centred(vectors(maps[query.image.digest], 0, (_GRID, _GRID), query), query))
            else:
                width, height = query.image.size
                outcomes.append(Abstention(f"a picture of {width} x {height} pixels is too small for patch statistics"))
        return outcomes


# -- features ---------------------------------------------------------------------------------------------------------

_SIDE = 448
_GRID = 14
_LEAST = 4
_SCALES = 3
_STATISTICS = 4 + 3 * _SCALES
_CELLS = 2
_FREQUENCIES = 256

# A difference of one unit is plain to see. Gradients below the floor are noise and rounding.
_LUMINANCE, _CHROMA, _LOG_CONTRAST, _DIRECTEDNESS = 0.08, 0.04, 0.5, 0.4
_FLOOR = 0.03

_LUMA_CHROMA = (
    np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32) / 255
)


def _frequencies() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For patches ((statistics + 2 places) x n) and for the whole picture ((statistics of all cells) x n).

    Of every three frequencies two are lowered, which gives the similarity its long tail; places keep theirs, so that
    the mean over patches cannot be dominated by what all patches share.
    """
    # numpy promises that RandomState's numbers never change; its newer generators may.
    random = np.random.RandomState(0)
    lowered = np.resize([0.25, 0.5, 1.0], _FREQUENCIES)
    patches = random.standard_normal((_STATISTICS + 2, _FREQUENCIES))
    patches[:_STATISTICS] *= lowered
    whole = random.standard_normal((_CELLS * _CELLS * _STATISTICS, _FREQUENCIES)) * lowered / _CELLS
    return patches.astype(np.float32), whole.astype(np.float32)


_OF_PATCHES, _OF_WHOLE = _frequencies()
_PLACES = np.stack(np.divmod(np.arange(_GRID * _GRID), _GRID), axis=1).astype(np.float32)


def _token_maps(images: Sequence[Image]) -> list[Tokens]:
    return [_tokens(image.pixels) for image in images]


def _tokens(pixels: Pixels) -> Tokens:
    """One token for the whole picture, then 196 for its patches: 197 x 512, each of the same length."""
    statistics = _statistics(pixels)
    block = _GRID // _CELLS
    cells = statistics.reshape(_CELLS, block, _CELLS, block, _STATISTICS).mean((1, 3))
    patches = np.concatenate([statistics.reshape(-1, _STATISTICS), _PLACES], axis=1)
    phases = np.concatenate([cells.reshape(1, -1) @ _OF_WHOLE, patches @ _OF_PATCHES])
    return np.concatenate([np.cos(phases), np.sin(phases)], axis=1)


def _centred(found: Vectors, query: Embed) -> Vectors:
    """The vectors, those inside of masks with places counted from the mask's middle.

    A token holds cosines and sines of phases that are linear in the place: another origin turns all of them, and hence
    their mean, by the same angles.
    """
    values = found.values.copy()
    for row, region in zip(values, query.regions, strict=True):
        if region.inside is not None and row.any():
            covered = covered_shares(region.inside.values, (_GRID, _GRID)).ravel()
            turn = (covered @ _PLACES / covered.sum()) @ _OF_PATCHES[_STATISTICS:]
            cosines, sines = row[:_FREQUENCIES].copy(), row[_FREQUENCIES:].copy()
            row[:_FREQUENCIES] = cosines * np.cos(turn) + sines * np.sin(turn)
            row[_FREQUENCIES:] = sines * np.cos(turn) - cosines * np.sin(turn)
    return Vectors(values, found.patches)


def _statistics(pixels: Pixels) -> NDArray[np.float32]:
    """14 x 14 x 13, in units of what is plain to see."""
    fitted, colours = (_SCRATCH.like(name, (_SIDE, _SIDE, 3)) for name in ("fitted", "colours"))
    np.copyto(fitted, _fitted(pixels))
    cv2.transform(fitted, _LUMA_CHROMA, dst=colours)
    mean = _per_patch(colours)
    squares = fitted
    cv2.multiply(colours, colours, dst=squares)
    chroma_variance = (_per_patch(squares) - mean * mean)[:, :, 1:].sum(2)
    found = [
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
        found += [
            _log_amplitude(energy, _FLOOR) / _LOG_CONTRAST,
            (tensor[:, :, 0] - tensor[:, :, 1]) / unit,
            2 * tensor[:, :, 2] / unit,
        ]
    return np.stack(found, axis=2)


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
    """Arrays to work in, kept from picture to picture: fresh memory of this size costs as much as the work itself."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, tuple[int, ...]], Plane] = {}

    def like(self, name: str, shape: tuple[int, ...]) -> Plane:
        if (name, shape) not in self._kept:
            self._kept[name, shape] = np.empty(shape, np.float32)
        return self._kept[name, shape]


_SCRATCH = _Scratch()


def _fitted(pixels: Pixels) -> Pixels:
    """448 x 448: first shrunk by averaging, then enlarged linearly, where a side needs it."""
    height, width = pixels.shape[:2]
    small = cv2.resize(pixels, (min(width, _SIDE), min(height, _SIDE)), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR), np.uint8)


def _per_patch(plane: Plane) -> Plane:
    return np.asarray(cv2.resize(plane, (_GRID, _GRID), interpolation=cv2.INTER_AREA), np.float32)


def _log_amplitude(energy: Plane, floor: float) -> Plane:
    return np.log(energy + floor**2) / 2


# -- measures ---------------------------------------------------------------------------------------------------------

_WINDOW = 11


def _measure(query: Measure) -> Outcome:
    pictures = query.pictures
    wanted = 1 if query.quantity in _OF_ONE else 2
    if len(pictures) != wanted:
        return Failure(f"{query.quantity} is of {wanted} picture(s), got {len(pictures)}")
    size = pictures[0].size
    if pictures[-1].size != size:
        sizes = " and ".join(f"{image.width} x {image.height}" for image in pictures)
        return Abstention(f"{query.quantity} compares pictures of one size, got {sizes}: bring them to one size first")
    if query.quantity == "ssim" and min(size) < _WINDOW:
        return Abstention(f"ssim needs at least {_WINDOW} pixels a side, got {size[0]} x {size[1]}")
    free = free_pixels(query.exclude, size)
    used = int(np.count_nonzero(free))
    if not used:
        return Measured(None, 0.0)
    if query.quantity in _OF_ONE:
        value = _OF_ONE[query.quantity](pictures[0].pixels, free)
    else:
        value = _OF_PAIRS[query.quantity](pictures[0].pixels, pictures[1].pixels, free)
    return Measured(float(value), used / free.size)


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


def _luma99(a: Pixels, free: NDArray[np.bool_]) -> float:
    return float(np.quantile(_luminance(a)[free], 0.99))


def _luma999(a: Pixels, free: NDArray[np.bool_]) -> float:
    return float(np.quantile(_luminance(a)[free], 0.999))


def _luminance(pixels: Pixels) -> Plane:
    """H x W in [0, 1]."""
    return np.asarray(cv2.transform(pixels.astype(np.float32), _REC709), np.float32)


_OF_ONE: dict[str, Callable[[Pixels, NDArray[np.bool_]], float]] = {
    "spread": _spread,
    "sharpness": _sharpness,
    "luma99": _luma99,
    "luma999": _luma999,
}
_OF_PAIRS: dict[str, Callable[[Pixels, Pixels, NDArray[np.bool_]], float]] = {
    "l1": _l1,
    "ssim": _ssim,
}
