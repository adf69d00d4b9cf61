"""What a person with a retouching program does, as functions on pixels.

Pictures are H x W x 3 uint8 RGB; covers are H x W float32 in [0, 1], 1 where the tool works. Nothing is changed in
place, a pixel whose cover is 0 keeps its value to the bit, and whatever is random is drawn from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import cv2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
from numpy.typing import NDArray

from .photographs import Corners, Pixels, Polygon

PixelMask = NDArray[np.float32]
Offset = tuple[int, int]  # right and down, in pixels
Colour = tuple[int, int, int]  # RGB, 0 to 255
_FINE = 4  # polygons are drawn this much larger and averaged down: a smooth edge of one pixel


def polygon_mask(polygons: Iterable[Polygon], size: tuple[int, int]) -> PixelMask:
    """Of the insides of polygons in a picture of `size` (width, height)."""
    width, height = size
    large = PIL.Image.new("L", (width * _FINE, height * _FINE))
    draw = PIL.ImageDraw.Draw(large)
    for polygon in polygons:
        draw.polygon([(x * _FINE, y * _FINE) for x, y in polygon], fill=255)
    small = large.resize(size, PIL.Image.Resampling.BOX)
    return np.asarray(small, np.float32) / np.float32(255)


def rectangle_mask(box: Corners, size: tuple[int, int], margin: int = 0) -> PixelMask:
    """Of a box, `margin` px wider on each side, with a hard edge."""
    area = np.zeros((size[1], size[0]), np.float32)
    x0, y0, x1, y1 = box
    area[max(y0 - margin, 0) : y1 + margin, max(x0 - margin, 0) : x1 + margin] = 1
    return area


def dilate(area: PixelMask, by: int) -> PixelMask:
    """The cover, `by` px wider all round."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * by + 1, 2 * by + 1))
    return np.asarray(cv2.dilate(area, kernel), np.float32)


def feather(area: PixelMask, sigma: float) -> PixelMask:
    """The cover with a wide soft edge."""
    return np.asarray(cv2.GaussianBlur(area, (0, 0), sigma), np.float32)


def shift(array: NDArray[np.float32], by: Offset) -> NDArray[np.float32]:
    """The array moved right and down; what moves in from outside is 0."""
    move = np.array([[1, 0, by[0]], [0, 1, by[1]]], np.float32)
    size = (array.shape[1], array.shape[0])
    return np.asarray(cv2.warpAffine(array, move, size, flags=cv2.INTER_NEAREST), np.float32)


def blend(under: Pixels, over: NDArray[np.floating] | Pixels, area: PixelMask) -> Pixels:
    """`over` where the cover is 1, `under` where it is 0, and the mixture between."""
    mixed = under.astype(np.float32) + area[:, :, None] * (over - under.astype(np.float32))
    return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)


_ITERATIONS = 8  # repetitions of a donor offset that is smaller than the hole


def inpaint(pixels: Pixels, area: PixelMask, donor: Offset | None = None, apart: PixelMask | None = None) -> Pixels:
    """Fill the covered area to match its surroundings. Without a donor: the smoothest surface through the rim, with the
    grain of the surroundings on it. With one: the texture of the place `donor` px away (repeated, where that place is
    covered too), made to fit the rim. `apart` covers areas that stay but are not used as surroundings: a neighbour, or
    a light whose glow would spread."""
    hole = (area > 0) if apart is None else (area > 0) | (apart > 0)
    plain = pixels.astype(np.float32)
    if donor is None:
        return blend(pixels, _solve_laplace(plain, hole) + _grain(pixels, hole), area)
    back = (-donor[0], -donor[1])
    texture, covered = plain, area[:, :, None] > 0
    for _ in range(_ITERATIONS):
        texture = np.where(covered, shift(texture, back), plain)
    # The texture continues beyond the rim. Its difference there is spread smoothly over the inside: Poisson cloning.
    texture = np.where(covered, texture, shift(texture, back))
    return blend(pixels, texture + _solve_laplace(plain - texture, hole), area)


def _solve_laplace(values: NDArray[np.float32], hole: NDArray[np.bool_], reach: int = 3) -> NDArray[np.float32]:
    """Solution of Laplace's equation over the hole, coarse to fine; wider horizontally, because scenes are level."""
    height, width = hole.shape
    if min(height, width) <= 2 or not hole.any():
        outside = values[~hole] if not hole.all() else values.reshape(-1, values.shape[2])
        return np.where(hole[:, :, None], outside.mean(axis=0, dtype=np.float32), values)
    size = ((width + 1) // 2, (height + 1) // 2)
    weight = np.asarray(cv2.resize((~hole).astype(np.float32), size, interpolation=cv2.INTER_AREA), np.float32)
    sums = np.asarray(cv2.resize(values * ~hole[:, :, None], size, interpolation=cv2.INTER_AREA), np.float32)
    means = np.divide(sums, np.maximum(weight, 1e-6)[:, :, None], dtype=np.float32)
    coarse = _solve_laplace(means, weight < 1e-6, reach=7)
    film = np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
    film = np.where(hole[:, :, None], film, values)
    for _ in range(24):
        blurred = np.asarray(cv2.blur(film, (reach, 3), borderType=cv2.BORDER_REFLECT), np.float32)
        film = np.where(hole[:, :, None], blurred, values)
    return film


def _grain(pixels: Pixels, hole: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Noise with the strength of the finest detail within 12 px around the hole."""
    fine = pixels.astype(np.float32) - np.asarray(cv2.GaussianBlur(pixels, (0, 0), 1.2), np.float32)
    ring = (dilate(hole.astype(np.float32), 12) > 0) & ~(dilate(hole.astype(np.float32), 3) > 0)
    strength = 1.48 * float(np.median(np.abs(fine[ring].mean(axis=1))))  # of a normal distribution, by its median
    noise = np.random.default_rng(0).normal(0, 1, hole.shape).astype(np.float32)
    soft = np.asarray(cv2.GaussianBlur(noise, (0, 0), 0.7), np.float32)
    return (soft * (strength / float(soft.std())))[:, :, None]


def fill_with_mean(pixels: Pixels, area: PixelMask) -> Pixels:
    """Fill the covered area with the mean colour of its rim: a deliberately bad fill."""
    rim = (dilate(area, 5) > 0) & (area == 0)
    return blend(pixels, np.broadcast_to(pixels[rim].mean(axis=0), pixels.shape), area)


def recolour(pixels: Pixels, area: PixelMask, colour: Colour, tolerance: float) -> Pixels:
    """Give the covered area another colour and keep its shading. Only pixels whose hue lies within `tolerance` degrees
    of the usual one there take part, so that chrome and print on the object stay as they are."""
    lab = _lab(pixels)
    target = _lab(np.array([[colour]], np.uint8))[0, 0]
    chroma = np.hypot(lab[:, :, 1], lab[:, :, 2])
    inside = (area > 0.5) & (chroma > 12)
    usual = np.median(lab[inside], axis=0)
    away = np.abs(np.angle(np.exp(1j * (_hue(lab) - _hue(usual)))))
    similar = np.clip((math.radians(tolerance) - away) / math.radians(12), 0, 1) * np.clip((chroma - 4) / 8, 0, 1)
    saturation = np.clip(chroma / math.hypot(usual[1], usual[2]), 0, 1.15)
    painted = lab.copy()
    painted[:, :, 0] = np.clip(lab[:, :, 0] * (1 + 0.6 * (target[0] / usual[0] - 1)), 0, 100)
    painted[:, :, 1:] = target[1:] * saturation[:, :, None]
    return blend(pixels, _rgb(painted), (area * similar).astype(np.float32))


def _lab(pixels: Pixels) -> NDArray[np.float32]:
    return np.asarray(cv2.cvtColor(pixels.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2LAB), np.float32)


def _rgb(lab: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), np.float32) * np.float32(255)


def _hue(lab: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.arctan2(lab[..., 2], lab[..., 1])


def paste(pixels: Pixels, piece: Pixels, area: PixelMask, by: Offset, scale: float = 1.0) -> Pixels:
    """Paste the covered part of `piece` into the image, moved by `by` and scaled about its centre."""
    rows, columns = np.nonzero(area)
    x, y = (columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2
    move = np.array([[scale, 0, x * (1 - scale) + by[0]], [0, scale, y * (1 - scale) + by[1]]], np.float32)
    size = (pixels.shape[1], pixels.shape[0])
    # Shrinking without the blur would alias.
    sharp = piece if scale >= 1 else np.asarray(cv2.GaussianBlur(piece, (0, 0), 0.4 / scale), np.uint8)
    moved = np.asarray(cv2.warpAffine(sharp, move, size, flags=cv2.INTER_LINEAR), np.float32)
    return blend(pixels, moved, np.asarray(cv2.warpAffine(area, move, size, flags=cv2.INTER_LINEAR), np.float32))


def text_masks(
    text: str,
    centre: tuple[float, float],
    height: float,
    size: tuple[int, int],
    *,
    rim: float = 0.0,
    angle: float = 0.0,
) -> tuple[PixelMask, PixelMask]:
    """Covers of a text's letters, and of letters and rim together. height: of a capital letter, in pixels. rim: width
    of the outline around the letters, in pixels. angle: degrees, counter-clockwise."""
    font = PIL.ImageFont.load_default(round(height * _FINE / 0.73))  # capitals of Pillow's own font are 0.73 em high
    middle = (centre[0] * _FINE, centre[1] * _FINE)
    masks = []
    for width in (0, round(rim * _FINE)):
        large = PIL.Image.new("L", (size[0] * _FINE, size[1] * _FINE))
        PIL.ImageDraw.Draw(large).text(middle, text, fill=255, font=font, anchor="mm", stroke_width=width)
        rotated = large.rotate(angle, PIL.Image.Resampling.BILINEAR, center=middle)
        masks.append(np.asarray(rotated.resize(size, PIL.Image.Resampling.BOX), np.float32) / np.float32(255))
    return masks[0], masks[1]


def draw_text(
    pixels: Pixels,
    text: str,
    centre: tuple[float, float],
    height: float,
    *,
    ink: Colour = (255, 255, 255),
    edge: Colour = (20, 20, 30),
    rim: float = 0.0,
    angle: float = 0.0,
) -> Pixels:
    """Write a text in one colour with a rim in another."""
    letters, both = text_masks(text, centre, height, (pixels.shape[1], pixels.shape[0]), rim=rim, angle=angle)
    rimmed = blend(pixels, np.broadcast_to(np.array(edge, np.float32), pixels.shape), both)
    return blend(rimmed, np.broadcast_to(np.array(ink, np.float32), pixels.shape), letters)
