"""PixelChanges: what an edit changed, in units of what is harmless, and whether it belongs there. From pixels only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ..image import Pixels
from ..lru_cache import FeatureCache
from ..queries.answers import Measurement, Outcome
from ..queries.change_map import BANDS, ChangeMap
from ..queries.expert import Expert
from ..queries.kinds import MapChanges, Query, RateRegion, Remains
from .loading.pooling import free_pixels
from .matching import patch_descriptors as descriptors
from .matching.alignment import Alignment, align, displaced
from .matching.appearance import in_one_focus, with_tone_of
from .matching.patch_descriptors import PatchDescriptors, Plane, describe, to_lab
from .matching.remains import CutOut, cut_out, kept_around, standing_share, unchanged_share
from .region_rating import rate_region

_CELLS = 32  # on the longer side
_CELL_SIDES = (8, 16)  # pixels at which a patch is compared: small images are enlarged to the former

_FEATURE_FLOORS = np.repeat(np.array([0.05, 0.15], np.float32), BANDS)
"""Distance of features (gradients, chroma) that is harmless everywhere, beside the envelope."""

_MAX_GAIN = 0.04
_DARK = 8  # grey levels: ratios of darker pixels are noise


class PixelChanges(Expert):
    """Answers `MapChanges`, `Remains` and `RateRegion`. Deterministic; on one core about 50 ms an edit at 512 px,
    300 ms once a source, and 50 ms for each place that is rated.

    The edited image is resized to the source, both to a longer side of 256 or 512 px, that is 32 patches. It is aligned
    by an affine transform of up to 3.5 % scale and 12/512 shift, if that lowers the difference of most patches, and its
    gain of up to 4 % is divided out. What its frame shows beyond the source is compared with the source's border. An
    edited image of more pixels than the source is first made no sharper than it, and of fine structure the source's own
    resolution counts, up to 1024 px. Features of a patch are the gradients of luminance, by direction and at three
    scales, and those of chroma; their distance is divided by the *envelope*: the largest distance that one of six
    harmless variants of the source has there (smoothed like by the autoencoder of a diffusion editor, JPEG, resized and
    back, shifted, brightened, with its own noise again).

    What remains of an object is told by its own pixels (`matching.remains`), in the edited image aligned in the same
    way. Where little of what surrounds the object is at its place, the image is looked for as a whole: mirrored,
    cropped, turned.

    Args:
        cache_bytes: For what is computed of recent sources (2 to 5 MB each).
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (MapChanges, Remains, RateRegion)
    batch = 16
    id = "pixel-changes@4 32 patches float32 cv2"

    def __init__(self, cache_bytes: int = 64 * 2**20) -> None:
        self.cache_bytes = cache_bytes
        self._sources: FeatureCache[_Source] = FeatureCache(cache_bytes, lambda source: source.nbytes)

    def __call__(self, queries: Sequence[MapChanges | Remains | RateRegion]) -> list[Outcome]:
        """A ChangeMap, a Measurement or a RegionRating each; for any sizes, since edits are resized to their source."""
        plain = {query.before.digest: query.before for query in queries if _is_of_source(query)}
        sources = self._sources.get_or_compute(plain, lambda images: [_source(image.pixels) for image in images])
        return [_answer(query, sources.get(query.before.digest)) for query in queries]

    def usage(self) -> Mapping[str, float]:
        """envelopes: how many sources were measured."""
        return {"envelopes": float(self._sources.computed)}


@dataclass(frozen=True, slots=True)
class _Source:
    """What is computed once a source. grid: rows and columns. feature_envelope: rows x columns x 2 bands."""

    pixels: Plane
    grey: Plane
    patches: PatchDescriptors
    layout: Plane
    spectra: Plane | None
    detail: Plane | None
    feature_envelope: Plane
    colour_envelope: Plane

    @property
    def grid(self) -> tuple[int, int]:
        rows, columns = self.colour_envelope.shape
        return rows, columns

    @property
    def nbytes(self) -> int:
        planes = (self.pixels, self.grey, self.layout, self.feature_envelope, self.colour_envelope)
        further = [plane for plane in (self.spectra, self.detail) if plane is not None]
        return sum(int(plane.nbytes) for plane in (*planes, *further)) + self.patches.nbytes


def _source(pixels: Pixels) -> _Source:
    grid, size = _grid_and_size(pixels.shape[1], pixels.shape[0])
    fitted = _fitted(pixels, size)
    lab = to_lab(fitted)
    patches = describe(lab, grid)
    features = np.zeros((*grid, 2 * BANDS), np.float32)
    colours = np.zeros(grid, np.float32)
    for variant in HARMLESS_VARIANTS:
        varied = describe(to_lab(_fitted(variant(pixels), size)), grid)
        features = np.maximum(features, patches.feature_distances(varied))
        colours = np.maximum(colours, np.linalg.norm(varied.colour - patches.colour, axis=2))
    # What a decoder cannot draw in luminance it may draw in chroma: stripes, letters, hair.
    features[:, :, BANDS:] = np.maximum(features[:, :, BANDS:], features[:, :, :BANDS])
    spread = np.ones((3, 3), np.uint8)
    return _Source(
        fitted,
        _grey(fitted),
        patches,
        descriptors.layout(lab),
        descriptors.log_spectra(_grey(pixels)),
        _detail(pixels, grid),
        np.asarray(cv2.dilate(features, spread), np.float32),
        np.asarray(cv2.dilate(colours, spread), np.float32),
    )


def _is_of_source(query: MapChanges | Remains | RateRegion) -> bool:
    """Whether what is kept of a source answers it."""
    return isinstance(query, Remains) or (isinstance(query, MapChanges) and not query.beside)


def _answer(query: MapChanges | Remains | RateRegion, source: _Source | None) -> Outcome:
    """source: what is kept of it, for queries that it answers."""
    if isinstance(query, RateRegion):
        return rate_region(query.before, query.after, query.box, query.change)
    if isinstance(query, MapChanges) and query.beside:
        return _change_beside(query)
    assert source is not None
    after = query.after.resized(*query.before.size).pixels
    if isinstance(query, Remains):
        return _remains(source, after, query)
    area, source_area = (image.width * image.height for image in (query.after, query.before))
    return _change_map(source, after, is_finer=area > _FINER * source_area)


def _change_beside(query: MapChanges) -> ChangeMap:
    """The map of changes to what the source becomes by a change of tone or focus; its envelope is that of the result.
    Compared at the smaller size of the two, at most: what a smaller edit lacks in detail is no change of focus."""
    size = min(query.before.size, query.after.size)
    before, after = (image.resized(*size, "area").pixels for image in (query.before, query.after))
    free = free_pixels(query.exclude, size)
    if "focus" in query.beside:
        before, after = in_one_focus(before, after, free)
    if "tone" in query.beside:
        before = with_tone_of(before, after, free)
    return _change_map(_source(before), after)


def _change_map(source: _Source, after: Pixels, *, is_finer: bool = False) -> ChangeMap:
    """after: the edited image at the source's size. is_finer: whether it has more pixels, so that it may be sharper."""
    height, width = source.grey.shape
    edited = _fitted(after, (width, height))
    if is_finer:
        edited = descriptors.no_sharper(edited, source.pixels, source.grid)
    lost = 0.0
    if source.detail is not None and (detail := _detail(after, source.grid)) is not None:
        lost = max(0.0, -descriptors.typical_gain(source.detail, detail))
    alignment, comparison = _aligned(source, edited)
    after_lab = to_lab(edited)
    spectrum = None if source.spectra is None else descriptors.log_spectra(_grey(after))
    return ChangeMap(
        comparison.features,
        comparison.colour,
        source.colour_envelope,
        source.patches.amplitude,
        describe(after_lab, source.grid).amplitude,
        gain=comparison.gain,
        aligned=alignment is not None,
        scale=1.0 if alignment is None else alignment.scale,
        shift=(0.0, 0.0) if alignment is None else alignment.shift,
        periodicity=descriptors.periodic_excess(source.spectra, spectrum),
        structure=descriptors.layout_agreement(source.layout, descriptors.layout(after_lab)),
        detail_loss=lost,
    )


def _aligned(source: _Source, edited: Plane) -> tuple[Alignment | None, _Comparison]:
    """The transform between a source and an edited image of its size, if there is one that helps, and what differs."""
    alignment = None if np.array_equal(source.pixels, edited) else align(source.grey, _grey(edited))
    comparison = _compared(source, edited, None)
    if alignment is None:
        return None, comparison
    # An alignment has to help most patches: one that fits a changed region moves all others.
    aligned = _compared(source, *alignment.apply(edited))
    if np.median(aligned.features) < np.median(comparison.features):
        return alignment, _with_frame(source, edited, alignment, aligned)
    return None, comparison


def _with_frame(source: _Source, edited: Plane, alignment: Alignment, aligned: _Comparison) -> _Comparison:
    """With what the edited image's frame shows beyond the source, compared with the source's border drawn out."""
    expected, cover = alignment.drawn_out(source.pixels)
    if cover.min() > 1 - _SEEN:
        return aligned
    framed = expected + (1 - cover)[:, :, None] * (edited / np.float32(aligned.gain) - expected)
    before, after = (describe(to_lab(picture), source.grid) for picture in (expected, framed))
    colour = after.colour - before.colour
    is_more = np.linalg.norm(colour, axis=2) > np.linalg.norm(aligned.colour, axis=2)
    share = cv2.resize(1 - cover, source.grid[::-1], interpolation=cv2.INTER_AREA)  # of a patch: a seam is narrow
    features = np.maximum(aligned.features, share * _in_envelopes(source, before, after))
    return _Comparison(features, np.where(is_more[:, :, None], colour, aligned.colour), aligned.gain)


_SEEN = 0.05  # share of a pixel from which on what is beyond the source is looked at


def _remains(source: _Source, after: Pixels, query: Remains) -> Measurement:
    """after: the edited image at the source's size."""
    height, width = source.grey.shape
    edited = _fitted(after, (width, height))
    alignment, _ = _aligned(source, edited)
    visible = np.ones(source.grey.shape, bool)
    if alignment is not None:
        edited, outside = alignment.apply(edited)
        visible = ~outside
    boxes = [(box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height) for box in query.boxes]
    around = kept_around(source.pixels, edited, boxes, visible)
    if query.unchanged:  # where it was, whatever is around it: another background
        shown_cuts = [cut for box in boxes if _shows(visible, cut := cut_out(source.pixels, box))]
        shares = [unchanged_share(cut, edited) for cut in shown_cuts]
        return Measurement(min((share for share in shares if share is not None), default=None), around)
    if around < _CLEARLY_IN_PLACE:
        for candidate, shown in displaced(source.pixels, edited):
            kept = kept_around(source.pixels, candidate, boxes, shown)
            if kept > around and shown.mean() >= _LEAST_SHOWN:
                edited, visible, around = candidate, shown, kept
    if around < _IN_PLACE:
        return Measurement(None, around)
    cuts = [cut_out(source.pixels, box) for box in boxes]
    if any(not _shows(visible, cut) for cut in cuts):
        return Measurement(None, around)
    return Measurement(max(standing_share(cut, edited) for cut in cuts), around)


_IN_PLACE, _CLEARLY_IN_PLACE = 0.35, 0.75
"""Share of the structure around an object from which on it is where it was, and from which on nobody looks elsewhere:
other pictures have 0.3 and less, mirrored symmetric ones up to 0.6, pictures that an editor drew anew 0.85 and more."""
_LEAST_SHOWN = 0.2  # share of the source that a displaced image has to show


def _shows(visible: NDArray[np.bool_], cut: CutOut) -> bool:
    x0, y0, x1, y1 = cut.corners
    return bool(visible[y0:y1, x0:x1].mean() >= 0.5)


class _Comparison(NamedTuple):
    """features: in units of the envelope. colour: differences in L*a*b*. gain: divided out of both."""

    features: Plane
    colour: Plane
    gain: float


def _compared(source: _Source, edited: Plane, outside: NDArray[np.bool_] | None) -> _Comparison:
    """outside: pixels that the edited image does not reach, which count as unchanged."""
    measured = source.grey > _DARK if outside is None else (source.grey > _DARK) & ~outside
    ratio = float(np.median(_grey(edited)[measured] / source.grey[measured])) if measured.any() else 1.0
    # A larger change of brightness is none that an editor makes by accident (another background has any), and a part of
    # it must not be divided out: the gain falls back to 1 as the ratio rises to twice the limit.
    excess = max(0.0, abs(ratio - 1) - _MAX_GAIN)
    gain = 1 + float(np.sign(ratio - 1)) * max(0.0, min(abs(ratio - 1), _MAX_GAIN) - excess)
    edited = edited / np.float32(gain)
    if outside is not None:
        edited[outside] = source.pixels[outside]
    patches = describe(to_lab(edited), source.grid)
    return _Comparison(_in_envelopes(source, source.patches, patches), patches.colour - source.patches.colour, gain)


def _in_envelopes(source: _Source, before: PatchDescriptors, after: PatchDescriptors) -> Plane:
    """rows x columns: distance of features in units of the envelope."""
    ratios = before.feature_distances(after) / (source.feature_envelope + _FEATURE_FLOORS)
    # Nearly the largest, and smoother: several that are exceeded a little are damage too.
    return np.asarray(np.sqrt(np.sqrt((ratios**4).mean(axis=2))), np.float32)


def _grid_and_size(width: int, height: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(rows, columns), and (width, height) at which images of this size are compared."""
    longer = max(width, height)
    rows, columns = (max(1, round(_CELLS * side / longer)) for side in (height, width))
    cell = _CELL_SIDES[longer > _CELLS * _CELL_SIDES[0]]
    return (rows, columns), (columns * cell, rows * cell)


_FINER = 1.1  # pixels of an edited image, in those of its source, from which on it has another resolution
_DETAIL_SIDES = (640, 1024)
"""Pixels of the longer side from which on a source has detail beyond what is compared, and at which that is measured:
editors answer in a megapixel."""


def _detail(pixels: Pixels, grid: tuple[int, int]) -> Plane | None:
    """rows x columns: fine structure at the source's own resolution; None for small sources."""
    least, most = _DETAIL_SIDES
    if max(pixels.shape[:2]) < least:
        return None
    return descriptors.fine_structure(_fitted(pixels, descriptors.size_within(pixels, most)), grid)


def _fitted(pixels: Pixels, size: tuple[int, int]) -> Plane:
    """At a size (width, height): averaged where smaller, else interpolated."""
    smaller = size[0] <= pixels.shape[1] and size[1] <= pixels.shape[0]
    resized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)
    return np.asarray(resized, np.float32)


def _grey(pixels: Pixels | Plane) -> Plane:
    return np.asarray(cv2.cvtColor(pixels.astype(np.float32), cv2.COLOR_RGB2GRAY), np.float32)


def _smoothed(pixels: Pixels) -> Pixels:
    """Loses the detail that an autoencoder with 8 x 8 pixels a latent loses: mostly weak texture."""
    return np.asarray(cv2.bilateralFilter(cv2.GaussianBlur(pixels, (0, 0), 0.7), 5, 20, 2), np.uint8)


def _compressed(pixels: Pixels) -> Pixels:
    _, data = cv2.imencode(".jpg", np.ascontiguousarray(pixels[:, :, ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 75])
    return np.asarray(np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))[:, :, ::-1], np.uint8)


def _resized_and_back(pixels: Pixels) -> Pixels:
    height, width = pixels.shape[:2]
    small = cv2.resize(pixels, (max(1, round(width * 0.6)), max(1, round(height * 0.6))), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def _shifted(pixels: Pixels) -> Pixels:
    """By three quarters of a pixel, or as much of the image as that is at 512: what alignment leaves."""
    height, width = pixels.shape[:2]
    shift = min(0.75, 0.75 * max(height, width) / 512)
    warp = np.array([[1, 0, shift], [0, 1, shift]])
    flags, border = cv2.INTER_LINEAR, cv2.BORDER_REPLICATE
    return np.asarray(cv2.warpAffine(pixels, warp, (width, height), flags=flags, borderMode=border), np.uint8)


def _brightened(pixels: Pixels) -> Pixels:
    return np.asarray(cv2.convertScaleAbs(pixels, alpha=1.03), np.uint8)


def _with_noise(pixels: Pixels) -> Pixels:
    """With noise as strong as its own: rendered or photographed once more."""
    # numpy guarantees RandomState's stream; that of its newer generators may change.
    noise = np.random.RandomState(0).standard_normal(pixels.shape) * _noise_level(pixels)
    return np.clip(pixels + noise + 0.5, 0, 255).astype(np.uint8)


def _noise_level(pixels: Pixels) -> float:
    """Standard deviation of noise in grey levels (Immerkaer, 1996), where an image has least of it, from 2 to 4."""
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32) / 6
    response = np.abs(cv2.filter2D(_grey(pixels), -1, kernel, borderType=cv2.BORDER_REFLECT))
    return float(np.clip(np.quantile(cv2.blur(response, (7, 7)), 0.25) * np.sqrt(np.pi / 2) * 1.5, 2.0, 4.0))


HARMLESS_VARIANTS: tuple[Callable[[Pixels], Pixels], ...] = (
    *(_smoothed, _compressed, _resized_and_back, _shifted, _brightened, _with_noise),
)
"""Each returns an image of the same size that shows the same."""
