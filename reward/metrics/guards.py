"""Guards against reward hacking: 0.0 for a known exploit, with evidence, else 1.0.

Put one, or `all_guards()`, in front of any reward with `Gate`. A guard does not measure the quality of an edit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ..boxes import Box
from ..card import Card
from ..engine.program import Abstained, Program, ask, ask_many
from ..image import Image
from ..queries.kinds import Differ, Match, Measure, ReadText
from ..sample import EditSample
from ..score import Evidence, Score
from . import new_text
from .compose import Gate, Metric, Minimum

_THUMBNAIL = 64
"""Pixels: enough to recognise an image, and cheap."""

_MIN_SIDE = 32
"""Pixels: parts of smaller images carry too little information."""

_MIN_CHANGED_AREA = 0.2
"""Share of the image: less than a pasted quarter, which changes nearly all of its area."""


def _thumbnail(image: Image) -> Image:
    return image.resized(_THUMBNAIL, _THUMBNAIL, "area")


@dataclass(frozen=True)
class NotACopy:
    """Not a copy: a region differs from the source by more than re-encoding, noise or a small brightness change.

    The `differences` expert defines a region; by default 26 connected pixels of 512 x 512, which is below the smallest
    useful target of an instruction.
    """

    card: ClassVar[Card] = Card(
        "guard-not-a-copy",
        1,
        "the edit is not a copy of the source",
        kinds={"differences": ("differ",)},
        failure_modes="Any visible change passes.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        if sample.edited == sample.source:
            return Score.of(False, "the edited picture is the source, bit for bit")
        regions = yield from ask(Differ(sample.source, new_text.resized_to_source(sample)))
        evidence = Evidence("regions that differ from the source", sample.edited.digest, regions.boxes)
        reason = "" if regions.boxes else "the edited picture is the source, but for noise or encoding"
        return Score.of(bool(regions.boxes), reason, evidence=[evidence])


@dataclass(frozen=True)
class NotBlank:
    """Not blank, collapsed or blurred: luminance must vary by `spread` (or a third of the source's, if lower) and by
    `min_contrast_ratio` of the source's, and a thumbnail keep `min_sharpness_ratio` of its sharpness: an object on a
    flat background keeps 0.1 and more, a blur by a twelfth of the width less than 0.07."""

    spread: float = 0.02
    min_contrast_ratio: float = 0.2
    min_sharpness_ratio: float = 0.075
    card: ClassVar[Card] = Card(
        "guard-not-blank",
        2,
        "the edit is an image, not a flat field",
        kinds={"pixels": ("measure",)},
        failure_modes="Any contrast passes.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        before, after, sharp_source, sharp_edited = yield from ask(
            Measure("spread", (sample.source,)),
            Measure("spread", (sample.edited,)),
            Measure("sharpness", (_thumbnail(sample.source),)),
            Measure("sharpness", (_thumbnail(sample.edited),)),
        )
        # A flat source may stay flat, and a source with low contrast may lose some of it.
        threshold = max(min(self.spread, (before.value or 0.0) / 3), self.min_contrast_ratio * (before.value or 0.0))
        spread = after.value or 0.0
        numbers = {"source": before.value or 0.0, "edited": spread}
        contrast = Evidence("standard deviation of luminance", sample.edited.digest, numbers=numbers)
        if spread < threshold:
            reason = f"the picture is blank or collapsed (luminance varies by {spread:.3f})"
            return Score.of(False, reason, evidence=[contrast])
        numbers = {"source": sharp_source.value or 0.0, "edited": sharp_edited.value or 0.0}
        sharpness = Evidence("sharpness of a thumbnail", sample.edited.digest, numbers=numbers)
        is_sharp = numbers["edited"] >= self.min_sharpness_ratio * numbers["source"]
        reason = "" if is_sharp else "the picture is blurred to nothing"
        return Score.of(is_sharp, reason, evidence=[contrast, sharpness])


@dataclass(frozen=True)
class SameAspect:
    """The aspect ratio of the source, within `tolerance`. The size is free: it is up to the protocol of a benchmark."""

    tolerance: float = 0.03
    card: ClassVar[Card] = Card(
        "guard-same-aspect",
        1,
        "the edit has the source's aspect ratio",
        failure_modes="Says nothing about the content.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        before = sample.source.width / sample.source.height
        after = sample.edited.width / sample.edited.height
        same = abs(after / before - 1) <= self.tolerance
        # Small images keep a ratio to the pixel only.
        same = same or abs(sample.edited.width - sample.edited.height * before) <= 1
        evidence = Evidence("aspect ratio", sample.edited.digest, numbers={"source": before, "edited": after})
        reason = "" if same else f"aspect ratio {after:.2f}, the source has {before:.2f}"
        return Score.of(same, reason, evidence=[evidence])
        yield  # makes this a program, although it has no queries


@dataclass(frozen=True)
class NotCollage:
    """The source is not pasted into the edited image as a half, a quarter or an inset. A part counts if its similarity
    to the whole source is at least `similarity`, and `min_similarity_gain` above that of the same part of the source:
    a sky resembles itself. An inset is found by a matcher with `min_inset_score`, and shows all of the source with
    `min_inset_similarity`: insets have 0.9 and more, a person drawn a little smaller less."""

    similarity: float = 0.6
    min_similarity_gain: float = 0.25
    min_inset_score: float = 0.6
    min_inset_similarity: float = 0.85
    card: ClassVar[Card] = Card(
        "guard-not-collage",
        3,
        "the source is not pasted into the edit",
        kinds={"differences": ("differ",), "pixels": ("measure",), "matcher": ("match",)},
        failure_modes="An inset turned or smaller than half of the image is not found.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        source, edited = sample.source, new_text.resized_to_source(sample)
        if edited == source or min(source.size) < _MIN_SIDE:
            return Score.of(True)
        changes = yield from ask(Differ(source, edited))
        if not changes.boxes or new_text.bounding_box(changes.boxes).area < _MIN_CHANGED_AREA:
            return Score.of(True)
        thumbnail = _thumbnail(source)
        parts = _halves_and_quarters(edited), _halves_and_quarters(source)
        pairs = [(thumbnail, part) for half in parts for part in half.values()]
        similar = yield from ask_many([Measure("ssim", pair) for pair in pairs])
        now, before = similar[: len(parts[0])], similar[len(parts[0]) :]
        for name, a, b in zip(parts[0], now, before, strict=True):
            if a.value is not None and a.value > max(self.similarity, (b.value or 0.0) + self.min_similarity_gain):
                seen = Evidence(f"the source in the {name} part", edited.digest, numbers={"ssim": a.value})
                return Score.of(False, f"the source is pasted into the {name} part", evidence=[seen])
        middle = Box(0.5, 0.5, 0.96, 0.96, label="the whole source")  # without the border, which insets often lack
        try:
            matches = yield from ask(Match(edited, source, (middle,)))
        except Abstained:
            if min(source.size) >= _THUMBNAIL:
                raise
            return Score.of(True)  # too small to be recognised
        found = tuple(box for box in matches.above(self.min_inset_score) if box.w < 0.9 and box.h < 0.9)
        whole = [replace(box, w=box.w / middle.w, h=box.h / middle.h) for box in found]
        shown = [_thumbnail(new_text.cut_out(edited, box)) for box in whole]
        alike = yield from ask_many([Measure("ssim", (thumbnail, part)) for part in shown])
        insets = tuple(
            box for box, one in zip(found, alike, strict=True) if (one.value or 0.0) >= self.min_inset_similarity
        )
        seen = Evidence("the source in the edited picture", edited.digest, boxes=insets)
        return Score.of(not insets, "the source is pasted in as an inset" if insets else "", evidence=[seen])


def _halves_and_quarters(image: Image) -> dict[str, Image]:
    """Thumbnails of the parts, cut from one thumbnail of twice the size, so that the image is downscaled once."""
    image = image.resized(2 * _THUMBNAIL, 2 * _THUMBNAIL, "area")
    w, h = image.size
    x, y = w // 2, h // 2
    parts = {"left": (0, 0, x, h), "right": (w - x, 0, w, h), "upper": (0, 0, w, y), "lower": (0, h - y, w, h)}
    parts |= {"upper left": (0, 0, x, y), "upper right": (w - x, 0, w, y)}
    parts |= {"lower left": (0, h - y, x, h), "lower right": (w - x, h - y, w, h)}
    return {name: _thumbnail(image.crop(*part)) for name, part in parts.items()}


@dataclass(frozen=True)
class NoPromptInjection:
    """No prompt injection in the image ("score 10", "ignore the instructions", "answer yes").

    Only the changed area is read, by `reader.guard` if bound (a fast reader suffices, because injected text is large),
    else by `reader`. Text that is in the source, or that the instruction requests, passes.
    """

    card: ClassVar[Card] = Card(
        "guard-prompt-injection",
        1,
        "no text in the edit is addressed to a judge",
        kinds={"differences": ("differ",), "reader.guard": ("read_text",)},
        failure_modes="Words the reader misses, and phrases in languages the patterns do not cover.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        changed = yield from new_text.read_changed_area(sample)
        if changed is None:
            return Score.of(True)
        requested = sample.task.text if sample.task and sample.task.text else sample.instruction
        injected = new_text.addressed_to_judge(new_text.new_lines(changed.lines, requested))
        if injected:  # only then the source has to be read
            before = yield from ask(ReadText(sample.source), role=new_text.READER)
            injected = new_text.addressed_to_judge(new_text.new_lines(changed.lines, requested, before.text))
        return changed.score(injected, new_text.ADDRESSED_TO_JUDGE)


def all_guards(
    *, prompt_injection_guard: bool = True, aspect_guard: Metric | None = None, copy_guard: Metric | None = None
) -> Gate:
    """All guards as one metric. The cheap ones run first; the others are skipped for an edit that these reject.

    Args:
        prompt_injection_guard: Whether to include `NoPromptInjection`, which needs an OCR reader.
        aspect_guard: In place of `SameAspect`.
        copy_guard: In place of `NotACopy`.
    """
    cheap = Minimum(
        {"not_a_copy": copy_guard or NotACopy(), "not_blank": NotBlank(), "same_aspect": aspect_guard or SameAspect()},
        name="cheap-guards",
    )
    rest: dict[str, Metric] = {"not_collage": NotCollage()}
    if prompt_injection_guard:
        rest["no_prompt_injection"] = NoPromptInjection()
    return Gate(cheap, Minimum(rest, name="other-guards"), name="guards")
