"""Families of the whole picture's looks: its colours, its light, its detail."""

from __future__ import annotations

import cv2
import numpy as np

from .. import whole_picture_changes as changes
from ..audited_edit import AuditedEdit
from ..family import Variant, worse
from ..requested_changes import COLOUR, DETAIL, FRAMING, LIGHT

_SMALL = 128  # px: single pixels are seen in smaller pictures, and little of them is too little
_TINTS = ((1, 0, -1), (-1, 0, 1), (-1, 1, -1), (1, -1, 1))  # warm, cold, green, magenta
_ORDERS = ((2, 1, 0), (1, 0, 2), (1, 2, 0))  # of channels
_PERIOD, _LEAST_PERIOD = 8 / 512, 3  # of a grid: of the longer side, and px
_SIGMA, _LEAST_SIGMA = 1.5 / 512, 0.6  # of sharpening: of the longer side, and px; less sharpens nothing
_SCALE, _QUALITY, _CAST, _GAIN = 0.5, 50, (2.5, 0.5, -2.5), 1.04  # of a turn of editing


# -- colours ----------------------------------------------------------------------------------------------------------


@worse(
    "A picture that has lost its colours has not kept those of the source.",
    {0.4: "40 % of the saturation", 0.2: "20 % of the saturation", 0.0: "grey"},
    unless_requested=(COLOUR,),
)
def desaturated(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture with little colour, or none."""
    return edit.damaged(changes.saturated(edit.after, amount))


@worse(
    "Glaring colours are not those of the source.",
    {2: "2 times the saturation", 3: "3 times the saturation", 5: "5 times the saturation"},
    unless_requested=(COLOUR,),
)
def over_saturated(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture in glaring colours."""
    return edit.damaged(changes.saturated(edit.after, amount))


@worse(
    "A tint over everything changes colours that were to stay.",
    {25: "25 grey levels", 45: "45 grey levels", 80: "80 grey levels"},
    unless_requested=(COLOUR,),
)
def colour_cast(edit: AuditedEdit, amount: float) -> Variant | None:
    """A tint over the whole edited picture."""
    red, green, blue = _TINTS[edit.random("colour-cast").integers(len(_TINTS))]
    return edit.damaged(changes.with_cast(edit.after, (red * amount, green * amount, blue * amount)))


@worse(
    "Channels in a wrong order change the colour of everything.",
    {0: "red for blue", 1: "red for green", 2: "all three"},
    unless_requested=(COLOUR,),
)
def channels_swapped(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture with red, green and blue in another order."""
    return edit.damaged(np.ascontiguousarray(edit.after[..., _ORDERS[round(amount)]]))


@worse(
    "Flat bands have replaced the shades of the source.",
    {5: "5 levels a channel", 3: "3 levels a channel", 2: "2 levels a channel"},
    unless_requested=(COLOUR, DETAIL),
)
def posterised(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture in few grey levels a channel."""
    steps = round(amount) - 1
    levels = changes.clipped(np.rint(np.arange(256) * steps / 255) * 255 / steps)
    return edit.damaged(changes.mapped(edit.after, levels))


@worse(
    "A flat field shows neither the requested change nor the scene.",
    {0.06: "6 % of the contrast", 0.03: "3 % of the contrast", 0.0: "flat"},
    damages="both",
)
def blank(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture faded to a flat field of its mean colour."""
    mean = np.array(cv2.mean(edit.after)[:3])
    levels = changes.clipped(mean + (np.arange(256.0)[:, None] - mean) * amount)
    return edit.damaged(changes.mapped(edit.after, levels))


# -- light ------------------------------------------------------------------------------------------------------------


@worse(
    "Light that was not asked for burns out what was to stay.",
    {1.5: "1.5 times as bright", 2.0: "2 times as bright", 3.0: "3 times as bright"},
    unless_requested=(LIGHT,),
)
def overexposed(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture too bright, with light parts burnt out."""
    return edit.damaged(changes.scaled(edit.after, amount))


@worse(
    "Darkness that was not asked for hides what was to stay.",
    {0.5: "50 % as bright", 0.3: "30 % as bright", 0.15: "15 % as bright"},
    unless_requested=(LIGHT,),
)
def underexposed(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture too dark."""
    return edit.damaged(changes.scaled(edit.after, amount))


@worse(
    "A veil over everything dulls what was to stay.",
    {0.5: "50 % of the contrast", 0.3: "30 % of the contrast", 0.15: "15 % of the contrast"},
    unless_requested=(LIGHT,),
)
def low_contrast(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture as through a veil of grey."""
    return edit.damaged(changes.contrasted(edit.after, amount))


@worse(
    "Shadow that was not asked for hides what lies near the rim.",
    {0.85: "corners at 15 %", 1.3: "black corners", 2.0: "black rim"},
    needs_good_edit=True,  # what should have gone may lie near the rim
    unless_requested=(FRAMING, LIGHT),
)
def vignette(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture dark towards its corners."""
    y, x = (np.linspace(-1, 1, side, dtype=np.float32) ** 2 for side in edit.after.shape[:2])
    light = np.clip(1 - amount * (y[:, None] + x) / 2, 0, 1)
    return edit.damaged(cv2.multiply(edit.after, cv2.merge([light] * 3), dtype=cv2.CV_8U))


# -- detail -----------------------------------------------------------------------------------------------------------


@worse(
    "A blurred picture has lost detail that the edit has.",
    {0.003: "1.5 of 512 px", 0.008: "4 of 512 px", 0.02: "10 of 512 px"},
    unless_requested=(DETAIL,),
)
def blurred(edit: AuditedEdit, amount: float) -> Variant | None:
    """A Gaussian blur of the whole edited picture."""
    return edit.damaged(cv2.GaussianBlur(edit.after, (0, 0), amount * max(_SMALL, *edit.after.shape[:2])))


@worse(
    "Halos and grain were neither in the source nor asked for.",
    {3: "3 times the detail more", 5: "5 times the detail more", 9: "9 times the detail more"},
    unless_requested=(DETAIL,),
)
def over_sharpened(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture sharpened until edges have halos."""
    sigma = max(_LEAST_SIGMA, _SIGMA * max(edit.after.shape[:2]))
    return edit.damaged(changes.sharpened(edit.after, amount, sigma))


@worse(
    "Noise that a person sees at once was neither in the source nor asked for.",
    {20: "20 grey levels", 35: "35 grey levels", 60: "60 grey levels"},
    unless_requested=(DETAIL,),
)
def noisy(edit: AuditedEdit, amount: float) -> Variant | None:
    """Visible noise over the whole edited picture."""
    noise = edit.random("noisy").standard_normal(edit.after.shape, np.float32)  # float32: half the time of float64
    return edit.damaged(cv2.addWeighted(edit.after, 1.0, noise, amount, 0.0, dtype=cv2.CV_8U))


@worse(
    "Lines over everything were neither in the source nor asked for.",
    {20: "20 grey levels", 40: "40 grey levels", 80: "80 grey levels"},
    unless_requested=(DETAIL, FRAMING),
)
def grid(edit: AuditedEdit, amount: float) -> Variant | None:
    """Fine lines over the whole edited picture."""
    period = max(_LEAST_PERIOD, round(_PERIOD * max(edit.after.shape[:2])))
    strength = amount if edit.after.mean() < 128 else -amount  # where there is room
    return edit.damaged(changes.gridded(edit.after, strength, period))


@worse(
    "Coarse squares have replaced the detail of the source.",
    {6 / 512: "squares of 6 of 512 px", 12 / 512: "squares of 12 of 512 px", 24 / 512: "squares of 24 of 512 px"},
    unless_requested=(DETAIL,),
)
def pixelated(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture in coarse squares."""
    height, width = edit.after.shape[:2]
    side = max(2.0, amount * max(_SMALL, width, height))
    size = (max(1, round(width / side)), max(1, round(height / side)))
    small = cv2.resize(edit.after, size, interpolation=cv2.INTER_AREA)
    return edit.damaged(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


@worse(
    "Blocks and rings of compression were not in the source.",
    {12: "JPEG 12", 7: "JPEG 7", 3: "JPEG 3"},
    unless_requested=(DETAIL,),
)
def compressed(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture as a JPEG of bad quality."""
    return edit.damaged(changes.jpeg(edit.after, round(amount)))


@worse(
    "Every turn loses detail and shifts colours, until a person sees it.",
    {5: "5 turns", 7: "7 turns", 10: "10 turns"},
    unless_requested=(COLOUR, DETAIL),
)
def round_trips(edit: AuditedEdit, amount: float) -> Variant | None:
    """The edited picture after many turns of scaling, tinting and saving, as a chain of editors leaves it."""
    height, width = edit.after.shape[:2]
    small = (max(1, round(_SCALE * width)), max(1, round(_SCALE * height)))
    drifted = edit.after
    for _ in range(round(amount)):
        half = cv2.resize(drifted, small, interpolation=cv2.INTER_LINEAR)
        saved = changes.jpeg(np.asarray(half, np.uint8), _QUALITY)  # at half the size: in a quarter of the time
        tinted = changes.contrasted(changes.with_cast(saved, _CAST), _GAIN)
        drifted = np.asarray(cv2.resize(tinted, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)
    return edit.damaged(drifted)
