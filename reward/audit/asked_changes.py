"""Changes of a whole picture that an instruction itself may ask for: a family that makes them has no known order then.

Kinds of changes are wide on purpose: a trial too few costs little, a violation that is none costs trust.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..edit_plan import OperationType
from .request import Request


@dataclass(frozen=True, slots=True)
class AskedChange:
    """A kind of change. types: of operations that ask for it. phrases: beginnings of words, or of several words, in
    lower case and separated by a comma and a blank.
    """

    types: frozenset[OperationType]
    phrases: str

    def may_be_asked_by(self, request: Request) -> bool:
        """Whether a phrase is in the instruction, or its plan has an operation of one of the types.

        An instruction with other than ASCII characters that has no plan may ask for anything. Other languages in ASCII
        characters are read as if they were English: give their samples plans.
        """
        text = " ".join(("", *request.words))
        if any(f" {phrase}" in text for phrase in self.phrases.split(", ")):
            return True
        if request.plan is None:
            return not request.sample.instruction.isascii()
        return any(operation.type in self.types for operation in request.plan.operations)


COLOUR = AskedChange(
    frozenset(
        {
            "filter",
            "style",
            "light",
            "weather",
            "restoration",
            "effect_add",
            "effect_remove",
            "extraction",
            "composition",
            "reasoning",
        }
    ),
    "tone, toning, tint, hue, warm, cool, saturat, desaturat, vivid, vibran, colorful, colourful, coloriz, "
    "colouriz, sepia, black and white, black-and-white, b&w, monochrom, grayscal, greyscal, gray scale, grey scale, "
    "palette, the colors, the colours, whole, entire, everything, white balance, color balance, grading, color "
    "grad, pastel, neon, fade, fading, infrared, negative, invert, sunset, sunrise, dusk, dawn, night, evening, "
    "autumn, winter, styl, vintage, retro, look old, film, filter, effect, mood, atmospher, cinematic, swap the "
    "color, swap color, swap red, swap green, swap blue",
)
"""The looks of all colours."""

LIGHT = AskedChange(
    frozenset(
        {
            "filter",
            "style",
            "light",
            "weather",
            "camera",
            "restoration",
            "effect_add",
            "effect_remove",
            "particles_add",
            "extraction",
            "composition",
            "reasoning",
        }
    ),
    "bright, dark, dim, light, illuminat, expos, contrast, shadow, hdr, glow, sunlight, sunlit, sunny, sunset, "
    "sunrise, moonlight, night, day, dusk, dawn, evening, morning, twilight, fog, mist, haz, smok, storm, weather, "
    "vignett, lamp, spotlight, backlit, silhouette, fade, fading, mood, dramatic, atmospher, cinematic, styl, "
    "vintage, retro, look old, film, filter, effect, flash, snowy, snowing",
)
"""Brightness and contrast."""

DETAIL = AskedChange(
    frozenset(
        {
            "filter",
            "style",
            "weather",
            "camera",
            "restoration",
            "effect_add",
            "effect_remove",
            "particles_add",
            "particles_remove",
            "extraction",
            "composition",
            "reasoning",
        }
    ),
    "blur, unblur, sharp, focus, unfocus, bokeh, depth of field, grain, nois, denois, pixel, 8-bit, 8 bit, 16-bit, "
    "compress, jpeg, artifact, artefact, resolution, upscal, quality, low-res, smooth, soft, crisp, clear, clean, "
    "detail, enhanc, restor, repair, motion, glitch, vhs, cctv, webcam, look old, vintage, retro, film, styl, "
    "filter, effect, poster, painting, sketch, drawing, cartoon, comic, anime, watercolo, mosaic, engrav, fog, "
    "mist, haz, rain, snowy, snowing, smok, dust, static, halftone, dither, frost, censor",
)
"""Sharpness, noise and texture."""

FRAMING = AskedChange(
    frozenset({"crop", "reframe", "zoom", "camera", "extraction", "composition", "style", "filter", "reasoning"}),
    "crop, zoom, closer, close-up, close up, frame, framing, border, margin, passepartout, polaroid, letterbox, "
    "widescreen, wide, aspect, ratio, portrait, landscape, panoram, expand, extend, outpaint, uncrop, enlarg, "
    "shrink, resiz, collage, grid, tile, tiling, mosaic, repeat, panel, poster, postcard, cinematic, shot, view, "
    "angle, camera, perspective, vignett, styl, instagram, lines, bars, mesh, black bar",
)
"""What of the scene is in the picture, and what lies around and over it."""

ORIENTATION = AskedChange(
    frozenset({"rotate", "camera", "reframe", "composition", "reasoning"}),
    "mirror, flip, rotat, turn around, turned around, turn the picture, turn the image, turn the photo, tilt, "
    "upside, invert, revers, straight, level, horizon, slant, skew, orient, clockwise, counterclockwise, "
    "anticlockwise, degree, angle, perspective, warp, distort, bend, bent, curv, wav, swirl, twist, fisheye, fish- "
    "eye, lens, melt, stretch, squeez, ripple, reflect, handed, symmetr, facing",
)
"""Which way up and round the scene is, and how straight."""

NUMBER = AskedChange(
    frozenset({"count_change", "duplicate", "composition", "reasoning"}),
    "copy, copies, duplicat, repeat, number, count, multipl, more, another, several, many, twin",
)
"""How many there are of something."""
