"""New text in an edited image, for guards: what is read in the changed area, and what of it addresses a judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..boxes import Box
from ..engine.program import Program, ask
from ..image import Image
from ..queries.answers import RecognizedText, TextLine
from ..queries.kinds import Differ, ReadText
from ..sample import EditSample
from ..score import Evidence, Score
from .text_matching import matching_letters, similarity

READER = "reader.guard"
"""The role of the reader: a fast one suffices, because injected text is large."""

MAX_REGIONS = 32
"""Differing regions from which on an expert may have left some out."""

_SAME_PLACE = 0.3
"""Intersection over union from which on two lines are at one place."""
_BESIDE = 0.5
"""Of a line's height: nearer to text of the source, what cannot be read may be that text, redrawn."""
_SAME_LETTERS = 0.6
"""Similarity of the letters of two lines at one place that are one line: two of six letters are read otherwise."""

ADDRESSED_TO_JUDGE = "text in the picture is addressed to a judge"

_INJECTION_PATTERN = re.compile(
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


def resized_to_source(sample: EditSample) -> Image:
    """The edited image at the source's size: most editors resize, which does not count as an edit."""
    return sample.edited.resized(*sample.source.size)


@dataclass(frozen=True, slots=True)
class ChangedText:
    """What is read in the box around all differences. picture: the edited image there, at the source's size; lines have
    boxes in it. unread: text that the reader cannot read. regions: that differ, in the source's frame."""

    area: Box
    picture: Image
    lines: tuple[TextLine, ...]
    unread: tuple[TextLine, ...]
    regions: tuple[Box, ...]

    def place(self, line: TextLine) -> Box:
        """Where a line is, in the frame of the source."""
        left, top = max(self.area.x0, 0.0), max(self.area.y0, 0.0)  # what lies outside of the image is not shown
        width, height = min(self.area.x1, 1.0) - left, min(self.area.y1, 1.0) - top
        box = line.box
        return Box(left + box.cx * width, top + box.cy * height, box.w * width, box.h * height)

    def is_changed(self, line: TextLine) -> bool:
        """Whether pixels of a line differ from the source. What is read of the others differs by reading errors."""
        place = self.place(line)
        return len(self.regions) >= MAX_REGIONS or any(
            region.x0 < place.x1 and place.x0 < region.x1 and region.y0 < place.y1 and place.y0 < region.y1
            for region in self.regions
        )

    def score(self, forbidden: tuple[TextLine, ...], problem: str) -> Score:
        """0 for an image with forbidden lines, else 1. problem: what is wrong with them."""
        text = " ".join(line.text for line in forbidden if line.text)
        boxes = tuple(line.box for line in forbidden)
        seen = Evidence("new text in the picture", self.picture.digest, boxes, text)
        what = repr(text) if text else "the reader does not know its letters"
        return Score.of(not forbidden, f"{problem}: {what}" if forbidden else "", evidence=[seen])


def read_changed_area(sample: EditSample) -> Program[ChangedText | None]:
    """What is read where the edited image differs from the source; None without differences."""
    edited = resized_to_source(sample)
    changes = yield from ask(Differ(sample.source, edited))
    if not changes.boxes:
        return None
    area = bounding_box(changes.boxes)
    picture = cut_out(edited, area)
    reading = yield from ask(ReadText(picture), role=READER)
    unread = tuple(TextLine("", box) for box in reading.unread)
    return ChangedText(area, picture, reading.lines, unread, changes.boxes)


def cut_out(image: Image, box: Box) -> Image:
    """A part of an image."""
    corners = box.clipped_corners(image.size)
    assert corners is not None  # changed regions lie inside the image
    return image.crop(*corners)


def new_lines(lines: tuple[TextLine, ...], *texts: str) -> tuple[TextLine, ...]:
    """The lines that are, up to reading errors, part of none of these texts."""
    known = [plain(text) for text in texts if text]
    return tuple(line for line in lines if not is_part_of(plain(line.text), *known, ""))


def reread_lines(lines: tuple[TextLine, ...], before: tuple[TextLine, ...]) -> tuple[TextLine, ...]:
    """The lines that lie on a similar line of the same part of the source: letters read otherwise after a shift of a
    pixel."""

    def is_reread(line: TextLine) -> bool:
        there = [known for known in before if line.box.iou(known.box) >= _SAME_PLACE]
        return any(similarity(plain(line.text), plain(known.text)) >= _SAME_LETTERS for known in there)

    return tuple(filter(is_reread, lines))


def new_unread(
    lines: tuple[TextLine, ...], changed: ChangedText, there: RecognizedText, sources: Sequence[RecognizedText]
) -> tuple[TextLine, ...]:
    """The unread lines neither on nor beside a line of the source (there: of the same part), if there are more lines
    than there, and more unread ones than in the sources: text may have been moved or redrawn."""
    known = [*(line.box for line in there.lines), *there.unread]

    def is_beside(box: Box, other: Box) -> bool:
        across, down = max(box.x0 - other.x1, other.x0 - box.x1), max(box.y0 - other.y1, other.y0 - box.y1)
        return max(across, down) < _BESIDE * box.h

    new = tuple(line for line in lines if not any(is_beside(line.box, box) for box in known))
    more = _number((*changed.lines, *changed.unread)) > _number([TextLine("", box) for box in known])
    return new if more and len(new) > sum(len(reading.unread) for reading in sources) else ()


def _number(lines: Sequence[TextLine]) -> int:
    """Of different lines: one that is hardly legible is read and unread."""
    return len({(line.box.cx, line.box.cy, line.box.w, line.box.h) for line in lines})


def addressed_to_judge(lines: tuple[TextLine, ...]) -> tuple[TextLine, ...]:
    """The lines that address a judge; all of them if they do together: an injection may be broken over lines."""
    injected = tuple(line for line in lines if _INJECTION_PATTERN.search(line.text))
    if injected:
        return injected
    return lines if _INJECTION_PATTERN.search(" ".join(line.text for line in lines)) else ()


def bounding_box(boxes: tuple[Box, ...]) -> Box:
    """The smallest box around all boxes, with a margin of 2 % so that letters at its edge stay complete."""
    x0, y0 = min(box.x0 for box in boxes) - 0.02, min(box.y0 for box in boxes) - 0.02
    x1, y1 = max(box.x1 for box in boxes) + 0.02, max(box.y1 for box in boxes) + 0.02
    return Box((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)


def plain(text: str) -> str:
    """The letters and digits of a text, in lower case."""
    return re.sub(r"[\W_]+", "", text.casefold())


def is_part_of(line: str, *texts: str) -> bool:
    """Whether a line is part of one of the texts, up to reading errors."""
    most = 0.8 * len(line)
    return any(line in text or (most > 3 and matching_letters(line, text, least=2) >= most) for text in texts)
