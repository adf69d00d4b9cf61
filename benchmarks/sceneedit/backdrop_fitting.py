"""Estimates backdrop, light and drift of an image from the pixels that no object covers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from .render import BACKDROP_RGB, Plane, coverage, render_backdrop
from .scene_graph import Backdrop, Scene
from .vocabulary import BACKDROPS

BLURS = (0.0, 0.4, 0.6, 0.8)
"""Blurs that are tried, sigma in pixels."""
_UNCHANGED_DRIFT = 0.12  # drift below this is what blur, noise and grey do to a backdrop that has not drifted
_REDRAWN = 0.3  # a relief that follows the guessed one less than this is another one
_GLARE_NOISE = 5.0  # grey levels, taken for the noise where the backdrop is white all over
_DRIFT_SPAN = 44.0  # grey levels that the renderer tints a backdrop by at full drift


@dataclass(frozen=True, slots=True)
class BackdropFit:
    """What lies behind the objects.

    backdrop: the kind that fits, with how far it has drifted. pixels: size x size x 3, in grey levels, lit. light:
    size x size, brightness for objects. noise_sigma: standard deviation of the residual, in grey levels. blur_sigma:
    sigma in pixels. fit: in [0, 1], 0 for a residual of 40 grey levels.
    """

    backdrop: Backdrop
    pixels: Plane
    light: Plane
    noise_sigma: float
    blur_sigma: float
    fit: float


def fit_backdrop(pixels: Plane, guesses: Sequence[Scene]) -> BackdropFit:
    """Light each guessed backdrop by least squares on the free pixels; the smallest residual wins."""
    size, grain = guesses[0].size, guesses[0].grain
    free, gain = _free(guesses), guesses[0].light.gain

    def lit_by(backdrop: Backdrop, blur: float) -> _LitBackdrop:
        return _LitBackdrop(pixels, blurred(render_backdrop(backdrop, size, grain), blur), free, gain)

    backdrop = min(dict.fromkeys(guess.backdrop for guess in guesses), key=lambda one: lit_by(one, BLURS[1]).cost)
    lit, blur = min(((lit_by(backdrop, blur), blur) for blur in BLURS), key=lambda one: one[0].cost)
    flat = blurred(render_backdrop(backdrop, size, grain), blur)
    drift, slope = _drift(pixels, flat, lit, free)
    kind = _kind(pixels, free, gain, backdrop.kind, follows=slope > _REDRAWN)
    if kind != backdrop.kind:  # the seed of its texture is unknown
        backdrop, drift, blur = Backdrop(kind), 0.0, 0.0
        lit = _LitBackdrop(
            pixels, np.broadcast_to(np.asarray(BACKDROP_RGB[kind], np.float64), pixels.shape), free, gain
        )
    glare = bool((pixels[lit.used].min(axis=1) > 253.5).mean() > 0.5)  # white hides texture, noise and drift
    if drift >= _UNCHANGED_DRIFT and not glare:
        backdrop = replace(backdrop, drift=round(float(min(1.0, drift)), 3))
    residual_map = np.where(lit.used[..., None], pixels - lit.plane, 0.0)
    weight = cv2.GaussianBlur(lit.used.astype(np.float64), (0, 0), size / 10) + 0.02
    plane = np.clip(lit.plane + cv2.GaussianBlur(residual_map, (0, 0), size / 10) / weight[..., None], 0, 255)
    residual = (pixels - plane)[lit.used]
    sigma = max(_GLARE_NOISE if glare else 1.0, float(1.4826 * np.median(np.abs(residual))))
    return BackdropFit(
        backdrop, plane, lit.light, sigma, blur, float(np.clip(1 - np.sqrt(np.mean(residual**2)) / 40, 0, 1))
    )


def blurred(plane: Plane, sigma: float) -> Plane:
    """Size x size (x 3) under a Gaussian blur, sigma in pixels; 0 leaves it alone."""
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma)) if sigma else plane


class _LitBackdrop:
    """A backdrop under the light that fits best: per channel a gain and a slope across and down."""

    def __init__(self, pixels: Plane, flat: Plane, free: NDArray[np.bool_], expected: float) -> None:
        size = pixels.shape[0]
        y, x = (np.mgrid[0:size, 0:size] + 0.5) / size - 0.5
        basis = np.stack([np.ones_like(x), x, y], axis=-1)
        used, gains, away = free, np.empty((3, 3)), np.empty((size, size))
        for _ in range(3):
            gains = np.stack([_solve(flat[..., c][used, None] * basis[used], pixels[..., c][used]) for c in range(3)])
            self.plane = np.clip(flat * (basis @ gains.T), 0, 255)
            away = np.abs(pixels - self.plane).max(axis=2)
            self.used = used = free & (away < max(12.0, 3.5 * float(np.median(away[free]))))
        middle = gains[:, 0]
        self.tint = float(np.abs(middle / max(float(middle.mean()), 1e-3) - 1).max())
        light = basis @ gains.mean(axis=0)
        self.light = np.clip(light, 0.5, 1.8)
        # Another gain than that of the guesses means another backdrop, however well it fits.
        odd = 60.0 * max(0.0, abs(float(np.log(max(middle.mean(), 0.05) / expected))) - 0.15)
        self.cost = float(np.sqrt(np.minimum(away[free], 80.0) ** 2 @ np.ones(int(free.sum())) / free.sum()))
        self.cost += odd + 40.0 * self.tint


def _solve(a: Plane, b: Plane) -> Plane:
    fair = b < 253.5  # clipped values carry no hue
    if fair.sum() > 60:
        a, b = a[fair], b[fair]
    return np.asarray(np.linalg.solve(a.T @ a + 1e-3 * np.eye(3), a.T @ b))


def _free(guesses: Sequence[Scene]) -> NDArray[np.bool_]:
    size, grain = guesses[0].size, guesses[0].grain
    covered = np.zeros((size, size), np.uint8)
    for obj in {obj for guess in guesses for obj in guess.objects}:
        covered |= (coverage(obj, size, grain) > 0).astype(np.uint8)
    free = cv2.dilate(covered, np.ones((5, 5), np.uint8)) == 0
    return free if free.mean() > 0.05 else np.ones_like(free)


def _drift(pixels: Plane, flat: Plane, lit: _LitBackdrop, free: NDArray[np.bool_]) -> tuple[float, float]:
    """How far the backdrop has drifted, and how closely its relief follows the guessed one (1 for the same)."""
    used = lit.used
    colour, observed = flat[used].mean(axis=0), (pixels / lit.light[..., None])[used].mean(axis=0)
    along = colour / np.linalg.norm(colour)
    across = observed - colour - along * ((observed - colour) @ along)
    by_tint = float(np.linalg.norm(across)) * np.sqrt(1.5) / _DRIFT_SPAN
    y, x = np.nonzero(used)
    trend = np.stack([np.ones(len(x)), x, y], axis=1) / pixels.shape[0]  # light may have that too
    both = np.stack([flat.mean(axis=2)[used], (pixels / lit.light[..., None]).mean(axis=2)[used]], axis=1)
    relief, image_relief = (both - trend @ np.linalg.lstsq(trend, both, rcond=None)[0]).T
    slope = float(relief @ image_relief / max(relief @ relief, 1e-9))
    return (by_tint + float(np.clip(1 - slope, 0, 1))) / 2, slope


def _kind(pixels: Plane, free: NDArray[np.bool_], light: float, guessed: str, *, follows: bool) -> str:
    """The backdrop whose colour is nearest; the guessed one where it is almost as near, or where its relief is seen."""
    observed = np.median(pixels[free], axis=0) / light

    def far(kind: str) -> float:
        colour = np.asarray(BACKDROP_RGB[kind], np.float64)
        gain = float(np.clip(observed @ colour / (colour @ colour), 0.88, 1.12))
        return float(np.linalg.norm(observed - gain * colour))

    nearest = min(BACKDROPS, key=far)
    beyond = far(guessed) > (_DRIFT_SPAN if follows else 12.0)
    return nearest if beyond and far(nearest) < 0.6 * far(guessed) and far(nearest) < 25 else guessed
