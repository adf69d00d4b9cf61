"""What an instruction asks for, and the changes that it may ask for: a family that makes them has no known order then.

Kinds of changes are wide on purpose: a trial too few costs little, a violation that is none costs trust.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ..edit_plan import EditPlan, OperationType
from ..metrics.any_edit.instruction_words import split_quotes, word_set, words_of
from ..metrics.any_edit.plans import plan_of_operations, plan_of_task
from ..planners.rule_planner import RulePlanner
from ..sample import EditSample

_ENGLISH = word_set(
    "the this that these those it its his their with into from and should let make made add change turn remove "
    "delete erase replace swap put give move edit show keep wearing"
)
_SCENE: frozenset[OperationType] = frozenset({"style", "filter", "extraction", "composition", "reasoning"})
_LOOK: frozenset[OperationType] = _SCENE | {"weather", "restoration", "effect_add", "effect_remove"}
_EFFECT: frozenset[OperationType] = frozenset({"effect_add", "effect_remove", "particles_add", "particles_remove"})
_STRENGTH: frozenset[OperationType] = _EFFECT | {"filter", "light", "weather", "restoration", "reasoning"}


@dataclass(frozen=True)
class Request:
    """What a sample's instruction asks for, from its annotations, else as far as rules read it."""

    sample: EditSample

    @cached_property
    def plan(self) -> EditPlan | None:
        """The sample's plan, or that of its operations or its task, or what rules read; None where nothing does."""
        sample = self.sample
        if sample.plan is not None:
            return sample.plan
        try:
            if sample.operations:
                return plan_of_operations(sample.operations)
            if sample.task is not None:
                return plan_of_task(sample.task, sample.instruction)
        except ValueError:  # more than a plan may have
            return None
        return _read(sample.instruction)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Of the instruction, in lower case, without quoted texts."""
        return tuple(words_of(split_quotes(self.sample.instruction)[0]))

    def names(self) -> list[str]:
        """The objects, values and places that the plan names, what is new first; empty without a plan."""
        operations = self.plan.operations if self.plan else ()
        found = [(one.new and one.new.phrase, one.value, one.target and one.target.phrase) for one in operations]
        return [name for names in found for name in names if name]


@lru_cache(maxsize=1024)
def _read(instruction: str) -> EditPlan | None:
    return RulePlanner().plan(instruction)


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A kind of change. types: of operations that ask for it. phrases: beginnings of words, or of several words, in
    lower case and separated by a comma and a blank. The words of "close-up" are two.
    """

    types: frozenset[OperationType]
    phrases: str

    def may_be_in(self, request: Request) -> bool:
        """Whether a phrase is in the instruction, or its plan has an operation of one of the types. An instruction that
        has no plan, and no word that is English without doubt, may ask for anything.
        """
        text = " ".join(("", *request.words))
        if any(f" {phrase}" in text for phrase in self.phrases.split(", ")):
            return True
        if request.plan is None:
            return _ENGLISH.isdisjoint(request.words)
        return any(operation.type in self.types for operation in request.plan.operations)


COLOUR = RequestedChange(
    _LOOK | {"light"},
    "tone, toning, tint, hue, warm, cool, saturat, desaturat, vivid, vibran, colorful, colourful, coloriz, "
    "colouriz, sepia, black and white, monochrom, grayscal, greyscal, gray scale, grey scale, "
    "palette, the colors, the colours, whole, entire, everything, white balance, color balance, grading, color "
    "grad, pastel, neon, fade, fading, infrared, negative, invert, sunset, sunrise, dusk, dawn, night, evening, "
    "autumn, winter, styl, vintage, retro, look old, film, filter, effect, mood, atmospher, cinematic, swap the "
    "color, swap color, swap red, swap green, swap blue",
)
"""The looks of all colours."""
LIGHT = RequestedChange(
    _LOOK | {"light", "camera", "particles_add"},
    "bright, dark, dim, light, illuminat, expos, contrast, shadow, hdr, glow, sunlight, sunlit, sunny, sunset, "
    "sunrise, moonlight, night, day, dusk, dawn, evening, morning, twilight, fog, mist, haz, smok, storm, weather, "
    "vignett, lamp, spotlight, backlit, silhouette, fade, fading, mood, dramatic, atmospher, cinematic, styl, "
    "vintage, retro, look old, film, filter, effect, flash, snowy, snowing",
)
"""Brightness and contrast."""
DETAIL = RequestedChange(
    _LOOK | {"camera", "particles_add", "particles_remove"},
    "blur, unblur, sharp, focus, unfocus, bokeh, depth of field, grain, nois, denois, pixel, 8 bit, 16 bit, "
    "compress, jpeg, artifact, artefact, resolution, upscal, quality, low res, smooth, soft, crisp, clear, clean, "
    "detail, enhanc, restor, repair, motion, glitch, vhs, cctv, webcam, look old, vintage, retro, film, styl, "
    "filter, effect, poster, painting, sketch, drawing, cartoon, comic, anime, watercolo, mosaic, engrav, fog, "
    "mist, haz, rain, snowy, snowing, smok, dust, static, halftone, dither, frost, censor",
)
"""Sharpness, noise and texture."""
FRAMING = RequestedChange(
    _SCENE | {"crop", "reframe", "zoom", "camera"},
    "crop, zoom, closer, close up, frame, framing, border, margin, passepartout, polaroid, letterbox, "
    "wide, aspect, ratio, portrait, landscape, panoram, expand, extend, outpaint, uncrop, enlarg, "
    "shrink, resiz, collage, grid, tile, tiling, mosaic, repeat, panel, poster, postcard, cinematic, shot, view, "
    "angle, camera, perspective, vignett, styl, instagram, lines, bars, mesh, black bar",
)
"""What of the scene is in the picture, and what lies around and over it."""
ORIENTATION = RequestedChange(
    frozenset({"rotate", "camera", "reframe", "composition", "reasoning"}),
    "mirror, flip, rotat, turn around, turned around, turn the picture, turn the image, turn the photo, tilt, "
    "upside, invert, revers, straight, level, horizon, slant, skew, orient, clockwise, counterclockwise, "
    "anticlockwise, degree, angle, perspective, warp, distort, bend, bent, curv, wav, swirl, twist, fisheye, fish "
    "eye, lens, melt, stretch, squeez, ripple, reflect, handed, symmetr, facing",
)
"""Which way up and round the scene is, and how straight."""
NUMBER = RequestedChange(
    frozenset({"count_change", "duplicate", "composition", "reasoning"}),
    "copy, copies, duplicat, repeat, number, count, multipl, more, another, several, many, twin",
)
"""How many there are of something."""
TEXT = RequestedChange(
    frozenset({"text_change", "text_remove", "text_style"}),
    "text, writ, word, caption, letter, sign, label, logo, title, say, spell, slogan, quote, subtitle, watermark, "
    "poster",
)
"""Words in the picture."""
ADDITION = RequestedChange(
    frozenset(
        {"subject_add", "count_change", "duplicate", "effect_add", "particles_add", "text_change", "composition"}
    ),
    "add, insert, put, place, draw, paint a, includ, introduc, creat, give, fill, decorat, scatter, sprinkl, "
    "appear, text, writ, word, caption, letter, copy, copies, duplicat, repeat, number, count, multipl, more, "
    "another, several, many",
)
"""What may stand at other places, too, or be done to others: the place where it is asked for is not read here."""
DEGREE = RequestedChange(
    _STRENGTH | {"attribute", "expression", "camera", "zoom", "resize"},
    "slight, a bit, bit, little, subtl, somewhat, partly, partial, half, soft, gentl, faint, pale, transparen, "
    "ghost, blend, fade, fading, tint, hint, touch of, more, less, increas, decreas, reduc, enhanc, adjust, "
    "improv, bright, dark, dim, light, contrast, saturat, expos, warm, cool, glow, fog, mist, haz, smok, strong, "
    "vivid, vibran, sharp, smooth",
)
"""What there may be more or less of: half of it, and twice of it, may be what was asked for."""
SHADE = RequestedChange(frozenset({"color_alter", "material_alter"}), "color, colour, paint, dye, shade, recolo")
"""A colour, of which every shade is right, the most vivid one too."""
SURROUNDINGS = RequestedChange(
    _SCENE | {"background_change", "weather", "light", "camera", "reframe"},
    "background, backdrop, scene, setting, environment, surround, sky, landscape, extract, cut, isolat, "
    "transparen, whole, entire, everything, world, behind, teleport, season, weather, styl, beach, street, "
    "forest, indoors, outdoors",
)
"""What lies around the things that are named."""
PANELS = RequestedChange(
    frozenset({"composition", "reasoning"}),
    "collage, side, compar, split, panel, grid, diptych, triptych, sheet, both, half, inset, corner, thumbnail, "
    "screen, frame, photo of, picture of, picture in, poster, television, tv, monitor, before and after, comic",
)
"""Several pictures in one."""
SHAPES = RequestedChange(
    frozenset({"effect_add", "particles_add", "composition"}),
    "star, cross, triangle, shape, geometric, logo, sticker, icon, draw, doodle, confetti, decorat, dot, pattern, "
    "arrow, flag, kite, origami, paper",
)
"""Flat shapes."""
