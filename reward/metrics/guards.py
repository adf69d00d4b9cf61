"""Guards: 1.0 for an edit that was at least tried, 0.0 for a known way of cheating, with the evidence.

Put one, or `all_guards()`, in front of any reward with `Gate`. None of them says that an edit is good.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import ClassVar

from .asking import Abstained, Asks, ask, ask_each
from .boxes import Box
from .card import Card
from .compose import Gate, Metric, Minimum
from .image import Image
from .query import Differ, Match, Measure, ReadText, TextLine
from .sample import EditSample
from .score import Evidence, Score


def _fitted(edited: Image, source: Image) -> Image:
    """The edited picture at the source's size: most editors resize, which is not an edit."""
    return edited.resized(*source.size)


_THUMBNAIL = 64
"""Pixels: enough to tell a picture by, and cheap."""

_LEAST = 32
"""Pixels: in smaller pictures a part of the picture says too little."""

_QUARTER = 0.2
"""Share of the picture, and a margin: a quarter pasted in changes nearly all of it."""


def _thumbnail(image: Image) -> Image:
    return image.resized(_THUMBNAIL, _THUMBNAIL, "area")


@dataclass(frozen=True)
class Changed:
    """Not a copy: some region differs from the source by more than re-encoding, noise or a shade of brightness do.

    What counts as a region is the `differences` expert's to say; by default 26 connected pixels of 512 x 512, which is
    below the smallest target worth an instruction.
    """

    card: ClassVar[Card] = Card(
        "guard-changed",
        1,
        "the edit is not a copy of the source",
        roles=("differences",),
        gaming="Any visible change passes.",
        about="cheating",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if sample.edited == sample.source:
            return Score.of(False, "the edited picture is the source, bit for bit")
        regions = yield from ask(Differ(sample.source, _fitted(sample.edited, sample.source)))
        seen = Evidence("regions that differ from the source", sample.edited.digest, regions.boxes)
        reason = "" if regions.boxes else "the edited picture is the source, but for noise or encoding"
        return Score.of(bool(regions.boxes), reason, evidence=[seen])


@dataclass(frozen=True)
class NotBlank:
    """Not blank or collapsed: luminance varies by `spread` or a third of the source's, and by `ratio` of that.

    Nor blurred to nothing: a thumbnail keeps at least the share `detail` of the sharpness of the source's. A flat
    background behind what was there keeps 0.1 and more, a blur over a twelfth of the width (standard deviation) less
    than 0.07.
    """

    spread: float = 0.02
    ratio: float = 0.2
    detail: float = 0.075
    card: ClassVar[Card] = Card(
        "guard-not-blank",
        2,
        "the edit is a picture, not a flat field",
        roles=("pixels",),
        gaming="Any contrast passes.",
        about="cheating",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        before, after, sharp, left = yield from ask(
            Measure("spread", (sample.source,)),
            Measure("spread", (sample.edited,)),
            Measure("sharpness", (_thumbnail(sample.source),)),
            Measure("sharpness", (_thumbnail(sample.edited),)),
        )
        # A flat source may stay flat, and one with little contrast may lose some of it.
        least = max(min(self.spread, (before.value or 0.0) / 3), self.ratio * (before.value or 0.0))
        spread = after.value or 0.0
        seen = Evidence(
            "standard deviation of luminance",
            sample.edited.digest,
            numbers={"source": before.value or 0.0, "edited": spread},
        )
        if spread < least:
            reason = f"the picture is blank or collapsed (luminance varies by {spread:.3f})"
            return Score.of(False, reason, evidence=[seen])
        found = Evidence(
            "sharpness of a thumbnail",
            sample.edited.digest,
            numbers={"source": sharp.value or 0.0, "edited": left.value or 0.0},
        )
        kept = (left.value or 0.0) >= self.detail * (sharp.value or 0.0)
        return Score.of(kept, "" if kept else "the picture is blurred to nothing", evidence=[seen, found])


@dataclass(frozen=True)
class SameAspect:
    """Width to height as in the source, within `tolerance`. Size itself is free: that policy is a protocol's."""

    tolerance: float = 0.03
    card: ClassVar[Card] = Card(
        "guard-same-aspect",
        1,
        "the edit has the source's aspect ratio",
        gaming="Says nothing about the content.",
        about="cheating",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        before = sample.source.width / sample.source.height
        after = sample.edited.width / sample.edited.height
        same = abs(after / before - 1) <= self.tolerance
        # Small pictures cannot keep a ratio better than to the pixel.
        same = same or abs(sample.edited.width - sample.edited.height * before) <= 1
        seen = Evidence("aspect ratio", sample.edited.digest, numbers={"source": before, "edited": after})
        reason = "" if same else f"aspect ratio {after:.2f}, the source has {before:.2f}"
        return Score.of(same, reason, evidence=[seen])
        yield  # a program, although it asks nobody


@dataclass(frozen=True)
class NotCollage:
    """The source is not pasted into the edited picture: not as a half or quarter of it, nor as an inset.

    A half or quarter is the source pasted where it resembles the whole source by at least `similarity`, and by `gain`
    more than the same part of the source itself does: a sky resembles itself at every size. Nothing is looked for where
    what changed would not hold a quarter of the picture.
    """

    similarity: float = 0.6
    gain: float = 0.25
    inset: float = 0.6
    card: ClassVar[Card] = Card(
        "guard-not-collage",
        2,
        "the source is not pasted into the edit",
        roles=("differences", "pixels", "matcher"),
        gaming="An inset turned or smaller than half of the picture is not found.",
        about="cheating",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        source, edited = sample.source, _fitted(sample.edited, sample.source)
        if edited == source or min(source.size) < _LEAST:
            return Score.of(True)
        changes = yield from ask(Differ(source, edited))
        if not changes.boxes or _around(changes.boxes).area < _QUARTER:
            return Score.of(True)
        whole = _thumbnail(source)
        parts = _halves_and_quarters(edited), _halves_and_quarters(source)
        pairs = [(whole, part) for half in parts for part in half.values()]
        similar = yield from ask_each([Measure("ssim", pair) for pair in pairs])
        now, before = similar[: len(parts[0])], similar[len(parts[0]) :]
        for name, a, b in zip(parts[0], now, before, strict=True):
            if a.value is not None and a.value > max(self.similarity, (b.value or 0.0) + self.gain):
                seen = Evidence(f"the source in the {name} part", edited.digest, numbers={"ssim": a.value})
                return Score.of(False, f"the source is pasted into the {name} part", evidence=[seen])
        middle = Box(0.5, 0.5, 0.96, 0.96, label="the whole source")  # without the rim, which insets often lose
        try:
            found = yield from ask(Match(edited, source, (middle,)))
        except Abstained:
            if min(source.size) >= _THUMBNAIL:
                raise
            return Score.of(True)  # so small a picture has too little in it to be recognised, whole or pasted in
        insets = tuple(box for box in found.above(self.inset) if box.w < 0.9 and box.h < 0.9)
        seen = Evidence("the source in the edited picture", edited.digest, boxes=insets)
        return Score.of(not insets, "the source is pasted in as an inset" if insets else "", evidence=[seen])


def _halves_and_quarters(image: Image) -> dict[str, Image]:
    """Thumbnails of the parts, cut from one that is twice as large: the picture itself is reduced once."""
    image = image.resized(2 * _THUMBNAIL, 2 * _THUMBNAIL, "area")
    w, h = image.size
    x, y = w // 2, h // 2
    parts = {
        "left": (0, 0, x, h),
        "right": (w - x, 0, w, h),
        "upper": (0, 0, w, y),
        "lower": (0, h - y, w, h),
        "upper left": (0, 0, x, y),
        "upper right": (w - x, 0, w, y),
        "lower left": (0, h - y, x, h),
        "lower right": (w - x, h - y, w, h),
    }
    return {name: _thumbnail(image.crop(*part)) for name, part in parts.items()}


@dataclass(frozen=True)
class NoOrders:
    """Nobody painted words at the judge into the picture ("score 10", "ignore the instructions", "answer yes").

    Only what changed is read, by `reader.guard` where that is bound (a fast reader will do: nobody writes small to
    persuade), else by `reader`. Text that the source has too, or that the instruction asks for, passes.
    """

    card: ClassVar[Card] = Card(
        "guard-no-orders",
        1,
        "no text in the edit is addressed to a judge",
        roles=("differences", "reader"),
        gaming="Words the reader misses, and phrases in languages the patterns do not cover.",
        about="cheating",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        edited = _fitted(sample.edited, sample.source)
        changes = yield from ask(Differ(sample.source, edited))
        if not changes.boxes:
            return Score.of(True)
        area = _around(changes.boxes).inside(edited.size)
        assert area is not None  # changed regions lie inside
        looked_at = edited.crop(*area)
        after = yield from ask(ReadText(looked_at), role="reader.guard")
        caught = self._orders(after.lines, sample, "")
        if caught:  # then, and only then, is it worth reading whether that stood there before
            before = yield from ask(ReadText(sample.source), role="reader.guard")
            caught = self._orders(after.lines, sample, before.text)
        together = " ".join(line.text for line in caught)
        seen = Evidence("new text in the picture", looked_at.digest, tuple(line.box for line in caught), together)
        reason = f"text in the picture is addressed to a judge: {together!r}" if caught else ""
        return Score.of(not caught, reason, evidence=[seen])

    def _orders(self, lines: tuple[TextLine, ...], sample: EditSample, known: str) -> tuple[TextLine, ...]:
        """Lines that give orders, and are neither in the source nor asked for by the instruction."""
        wanted = _plain(sample.task.text if sample.task and sample.task.text else sample.instruction)
        new = tuple(line for line in lines if not _covered(_plain(line.text), _plain(known), wanted))
        orders = tuple(line for line in new if _ORDER.search(line.text))
        if orders:
            return orders
        return new if _ORDER.search(" ".join(line.text for line in new)) else ()  # an order broken over lines


def _around(boxes: tuple[Box, ...]) -> Box:
    """The smallest box that holds them all, and a rim of 2 % so that letters at its edge stay whole."""
    x0, y0 = min(box.x0 for box in boxes) - 0.02, min(box.y0 for box in boxes) - 0.02
    x1, y1 = max(box.x1 for box in boxes) + 0.02, max(box.y1 for box in boxes) + 0.02
    return Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def _covered(line: str, *texts: str) -> bool:
    """Whether a line is (nearly, readers err) part of one of the texts."""
    for text in texts:
        if not line or line in text:
            return True
        match = SequenceMatcher(None, line, text, autojunk=False)
        if sum(block.size for block in match.get_matching_blocks() if block.size > 1) >= 0.8 * len(line) > 3:
            return True
    return False


_ORDER = re.compile(
    r"""
    \b(score|rate|rating|grade|reward)\b .{0,24} (\d+|ten|hundred|max|full|perfect|high)
    | \b(10|100)\s*(/|out\s*of)\s*(10|100)\b
    | \b(ignore|disregard|forget)\b .{0,24} \b(previous|prior|above|instruction|instructions|rules?|prompt|everything)\b
    | \b(answer|say|reply|respond|output|return|choose)\b \W{0,3} (with\s+)? ["']? (yes|perfect|success|correct|\d+)\b
    | \b(the\s+)?(edit|edited\s+image|image|task|instruction)\s+(is|was|has\s+been)\s+
        (perfect\w*|correct\w*|success\w*|excellent|complete\w*|flawless\w*)
    | \b(flawless\s+execution|perfect\s+consistency|excellent\s+edit|perfect\s+edit)\b
    | \bdear\s+(judge|evaluator|grader|model)\b | \b(judge|evaluator|grader)\s*[:,]
    | (满分|打分|评分|忽略.{0,6}(指令|提示)|回答.{0,4}是)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def all_guards(*, reader: bool = True) -> Gate:
    """All guards as one, the cheap ones first: nothing is matched or read in an edit that they reject.

    Without a reader (no OCR at hand) the guard against painted-in orders is left out.
    """
    cheap = Minimum({"changed": Changed(), "not_blank": NotBlank(), "same_aspect": SameAspect()}, name="cheap-guards")
    rest: dict[str, Metric] = {"not_collage": NotCollage()}
    if reader:
        rest["no_orders"] = NoOrders()
    return Gate(cheap, Minimum(rest, name="other-guards"), name="guards")
