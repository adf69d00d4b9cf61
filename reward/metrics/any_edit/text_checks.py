"""Whether a text was written, or is gone: decided by what a reader sees before and after, and by the changed pixels.

A text is found word by word, so that what a reader sees in a texture, or cuts off at the rim of a crop, is no other
text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...boxes import Box
from ...edit_plan import PlannedOperation, Target
from ...engine.program import Program, ask, ask_many
from ...image import Image
from ...queries.change_map import ChangeMap
from ...queries.kinds import MapChanges, ReadText
from ...sample import EditSample
from ...score import Evidence
from ..edival.inspector import Condition, all_hold, crop_box, make_condition, normalize_text
from ..text_matching import matching_letters, similarity
from .instruction_words import GENERIC_TEXT_NAMES, TEXT_NAMES, stem, stems_of
from .preservation import HARMLESS_EXCESS, covered_patches, preservation
from .targets import LocatedTarget, around, known_boxes, referred_boxes, scaled, share_inside

_MIN_CONFIDENCE = 0.5
_SAME_WORD = 0.8
"""Similarity of two words from which on they are one, up to reading errors."""
_MAX_WORDS = 100
_AROUND = 1.5
"""Sides of what is read around a target, relative to its box: a new text may be longer than the old one."""
_MIN_AREA = 0.05
"""Of the image's sides: less shows a reader too little."""
_IN_PLACE = 0.3
"""Share of a line inside a box from which on it stands there."""
_MAX_STRAY = 4
"""Single characters beside a text that readers see in textures; more may be a text that is spelled out."""
_FRAGMENT = 3
"""Characters of a word at the rim of what was read, up to which it is the end of one that stands outside."""
_RIM = 0.01
"""Of the image's sides."""
_PLACE = 1.2
"""Sides of the place of a removed line relative to its box."""
_CHANGED = 0.25
"""Share of the patches of a removed line that must have changed."""
_GHOST = 0.5
"""Share of a removed line's letters that may be read with more contrast: texture has some."""
_MAX_CROPS = 16
"""Lines that are read again."""
_DATE = re.compile(r"\d{1,4}\W{0,2}\d{1,2}|\d{4,}")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that was read, in the frame of the whole image. at_rim: it touches the rim, and may go on."""

    text: str
    box: Box
    at_rim: bool

    @property
    def words(self) -> list[str]:
        """Normalised, without those that have neither letters nor digits."""
        return [word for word in map(normalize_text, self.text.split()) if any(map(str.isalnum, word))]


def text_written(
    source: Image, edited: Image, operation: PlannedOperation, located: LocatedTarget | None
) -> Program[Condition]:
    """Whether what is new in the text, at the target's place or anywhere, is the requested one, and the old one is
    gone. Spelling counts, case and marks do not; nor do up to four single characters, ends of cut words, and words
    where nothing changed."""
    boxes = () if located is None else located.boxes[:1]
    letters = letters_to_read(operation)
    before = yield from _read_lines(source, boxes, letters)
    after = yield from _read_lines(edited, boxes, letters)
    old = _words([operation.old_text])
    staying = _words_of(before) - old
    wanted = normalize_text(operation.text)
    new: list[tuple[str, _Line]] = []
    unseen = staying.copy()
    for line in after:
        for word in line.words:
            if unseen[word]:
                unseen[word] -= 1
            else:
                new.append((word, line))
    rest = _without_text(new, wanted, staying)
    reason = f"new in the text: {' '.join(word for word, _ in new)[:80]!r}, expected {operation.text!r}"
    nearness = similarity("".join(word for word, _ in new), wanted)
    if rest is None:
        return make_condition(False, 0.0, nearness, reason)
    extra = [(word, line) for word, line in rest if not _resembles(word, unseen)]
    stray = [word for word, line in extra if len(word) == 1 or (line.at_rim and len(word) <= _FRAGMENT)]
    extra = [(word, line) for word, line in extra if word not in stray]
    if any(not _resembles(word, old) for word, _ in extra):
        changes = yield from ask(MapChanges(source, edited))
        extra = [(word, line) for word, line in extra if _resembles(word, old) or _changed_share(line.box, changes)]
    holds = not extra and sum(map(len, stray)) <= _MAX_STRAY
    return make_condition(holds, 1.0, nearness, reason)


def _without_text(
    new: Sequence[tuple[str, _Line]], wanted: str, staying: Counter[str]
) -> list[tuple[str, _Line]] | None:
    """The new words without those of the requested text, maybe with single characters between; None without it."""
    for words in (new, [item for item in new if len(item[0]) > 1]):
        for first in range(len(words)):
            joined = ""
            for last in range(first, len(words)):
                joined += words[last][0]
                if joined == wanted:
                    used = words[first : last + 1]
                    return [item for item in new if item not in used]
                if not wanted.startswith(joined):
                    break
    for index, (word, _) in enumerate(new):
        head, found, tail = word.partition(wanted)
        if found and all(not part or staying[part] > 0 for part in (head, tail)):
            return [*new[:index], *new[index + 1 :]]
    return None


def removes_text(operation: PlannedOperation) -> bool:
    """Whether an operation takes away a text: also an object that is one, such as a watermark."""
    is_text = operation.target is not None and names_text(operation.target)
    return operation.type == "text_remove" or (operation.type == "subject_remove" and is_text)


def names_text(target: Target) -> bool:
    """Whether a target is a text, and not what carries one."""
    stems = [stem(word) for word in target.noun.casefold().split()]
    return stems[-1] in _NAMES or " ".join(stems[-2:]) in _NAMES


def text_removed(
    sample: EditSample, operation: PlannedOperation, located: LocatedTarget | None, evidence: list[Evidence]
) -> Program[Condition | None]:
    """Whether a text is no longer read at its place, whose pixels changed and show no trace of its letters; None where
    the source does not say which one is meant."""
    lines = yield from removed_lines(sample, operation, located)
    if not lines:
        return None
    boxes = () if located is None else located.boxes
    after = yield from _read_lines(sample.edited, boxes)
    places = places_of(lines)
    left = [line for line in after if any(share_inside(line.box, place) >= _IN_PLACE for place in places)]
    staying = _words_of(lines) - _words([operation.old_text]) if operation.old_text else Counter[str]()
    still_read = [word for line in left for word in line.words if len(word) > 1 and not _resembles(word, staying)]
    text = "".join(word for line in lines for word in line.words)
    read = " ".join(still_read)
    reason = f"read at its place: {read[:80]!r}" if read else f"{text[:80]!r} is no longer read"
    gone = make_condition(not still_read, 1.0, 1 - _shared_letters(text, "".join(still_read)), reason)
    evidence += [
        Evidence("text to be removed", sample.source.digest, tuple(line.box for line in lines), _joined(lines)),
        Evidence("read at its place", sample.edited.digest, tuple(line.box for line in left), _joined(left)),
    ]
    changes = yield from ask(MapChanges(sample.source, sample.edited))
    share = min(_changed_share(place, changes) for place in places)
    changed = make_condition(share >= _CHANGED, 1.0, share / _CHANGED, f"{share:.0%} of its place differs from before")
    if not (gone.holds and changed.holds):
        return all_hold([gone, changed])
    faint = yield from _faint(sample.edited, lines)
    return all_hold([gone, changed] if faint.holds else [gone, changed, faint])


def removed_lines(
    sample: EditSample, operation: PlannedOperation, located: LocatedTarget | None
) -> Program[list[_Line]]:
    """The lines of the source that an operation removes; empty where it does not say which, or none is read. Asks about
    the source alone."""
    target = operation.target
    boxes = () if located is None else located.boxes
    lines = yield from _read_lines(sample.source, boxes)
    lines = [line for line in lines if any(len(word) > 1 for word in line.words)]
    if operation.old_text:
        return _lines_with(lines, operation.old_text)
    if target is None or boxes:
        return lines
    if not names_text(target):
        return []
    head = stem(target.noun.casefold().split()[-1])
    if target.relation is not None:
        carriers = yield from known_boxes(sample.source, target.relation.of)
        if carriers:
            return [line for line in lines if any(share_inside(line.box, box) >= 0.5 for box in carriers)]
    elif target.place is not None:
        meant = referred_boxes(replace(target, quantity="all"), [line.box for line in lines])
        return [line for line in lines if line.box in meant]
    elif head in _GENERIC and target.order is None and target.size is None:
        return lines
    if head in _DATE_NAMES and (dated := [line for line in lines if _DATE.search(line.text)]):
        return dated
    return lines if _is_one_block(lines) else []


_NAMES = frozenset(" ".join(map(stem, name.split())) for name in TEXT_NAMES)
_GENERIC = stems_of(GENERIC_TEXT_NAMES)
_DATE_NAMES = stems_of(("date", "stamp", "timestamp", "datestamp", "imprint"))


def places_of(lines: Iterable[_Line]) -> list[Box]:
    """Where removed lines stood, with a margin."""
    return [scaled(line.box, _PLACE) for line in lines]


def removed_text_places(sample: EditSample, operation: PlannedOperation) -> Program[tuple[Box, ...]]:
    """Where the text that an operation without a located target removes stands in the source; empty if unknown."""
    lines = (yield from removed_lines(sample, operation, None)) if removes_text(operation) else []
    return tuple(places_of(lines))


def rewritten_places(sample: EditSample, operation: PlannedOperation, boxes: Sequence[Box]) -> Program[tuple[Box, ...]]:
    """Where the text that another one replaces stands in the source, and the new one beyond the boxes of its target."""
    places: list[Box] = []
    letters = letters_to_read(operation)
    if operation.old_text:
        lines = yield from _read_lines(sample.source, boxes, letters)
        places += places_of(_lines_with(lines, operation.old_text))
    if boxes:
        lines = yield from _read_lines(sample.edited, boxes, letters)
        places += places_of(_lines_with(lines, operation.text))
    return tuple(places)


def _lines_with(lines: list[_Line], text: str) -> list[_Line]:
    """The lines that have most of their letters, or most of the text, in common with it."""
    wanted = normalize_text(text)

    def shared(line: _Line) -> float:
        letters = "".join(line.words)
        return matching_letters(letters, wanted, least=2) / max(1, min(len(letters), len(wanted)))

    return [line for line in lines if shared(line) >= _SAME_WORD]


def _is_one_block(lines: Sequence[_Line]) -> bool:
    """Whether lines stand together: each within its height of one before."""
    if not lines:
        return False
    first, *rest = lines
    block = [first.box]

    def is_near(a: Box, b: Box) -> bool:
        reach = max(a.h, b.h)
        return max(a.x0 - b.x1, b.x0 - a.x1) <= reach and max(a.y0 - b.y1, b.y0 - a.y1) <= reach

    while near := [line for line in rest if any(is_near(line.box, box) for box in block)]:
        block += [line.box for line in near]
        rest = [line for line in rest if line not in near]
    return not rest


def _faint(edited: Image, lines: Sequence[_Line]) -> Program[Condition]:
    """Whether the letters of removed lines are not to be read even with all contrast: a ghost of a text is left."""
    shown = lines[:_MAX_CROPS]
    crops = [crop_box(edited, place).stretched() for place in places_of(shown)]
    readings = yield from ask_many([ReadText(crop) for crop in crops])
    left = [
        _shared_letters("".join(line.words), normalize_text(reading.text))
        for line, reading in zip(shown, readings, strict=True)
    ]
    most = max(left)
    reason = f"{most:.0%} of its letters are still read with more contrast"
    return make_condition(most < _GHOST, 1.0, 1 - most, reason)


def _shared_letters(text: str, read: str) -> float:
    return matching_letters(text, read, least=2) / max(1, len(text))


def words_left(before: Sequence[str], after: Sequence[str]) -> int:
    """How many words are still there, each found once; up to reading errors, of the first hundred others."""
    exact = Counter(before) & Counter(after)
    missing = list((Counter(before) - exact).elements())[:_MAX_WORDS]
    others = list((Counter(after) - exact).elements())[:_MAX_WORDS]
    left = exact.total()
    for word in missing:
        match = next((index for index, other in enumerate(others) if similarity(word, other) >= _SAME_WORD), None)
        if match is not None:
            left += 1
            del others[match]
    return left


def _resembles(word: str, others: Counter[str]) -> bool:
    """Whether a word is one of the first hundred others, up to reading errors."""
    if others[word] > 0:
        return True
    known = [other for other, count in others.items() if count > 0][:_MAX_WORDS]
    return any(similarity(word, other) >= _SAME_WORD for other in known)


def _words(texts: Iterable[str]) -> Counter[str]:
    return Counter(normalize_text(word) for text in texts for word in text.split())


def _words_of(lines: Iterable[_Line]) -> Counter[str]:
    return Counter(word for line in lines for word in line.words)


def _joined(lines: Iterable[_Line]) -> str:
    return " ".join(line.text for line in lines)


def letters_to_read(operation: PlannedOperation) -> str:
    """The texts whose letters a reader has to know: the requested one, and the one that it replaces."""
    return " ".join(text for text in (operation.text, operation.old_text) if text)


def _read_lines(image: Image, boxes: Sequence[Box], wanted: str = "") -> Program[list[_Line]]:
    """The lines in an image, or those that stand in some boxes, which are read with what is around them."""
    areas = [around(box, max(_AROUND * box.w, _MIN_AREA), max(_AROUND * box.h, _MIN_AREA)) for box in boxes]
    crops = [crop_box(image, area) for area in areas] or [image]
    readings = yield from ask_many([ReadText(crop, wanted) for crop in crops])
    lines: list[_Line] = []
    for index, reading in enumerate(readings):
        area = areas[index] if areas else Box(0.5, 0.5, 1, 1)
        for line in reading.lines:
            if line.box.score < _MIN_CONFIDENCE or not line.text.strip():
                continue
            cx, cy = area.x0 + line.box.cx * area.w, area.y0 + line.box.cy * area.h
            box = replace(line.box, cx=cx, cy=cy, w=line.box.w * area.w, h=line.box.h * area.h)
            if not boxes or not reading.is_localised or share_inside(box, boxes[index]) >= _IN_PLACE:
                at_left_or_top = box.x0 <= area.x0 + _RIM or box.y0 <= area.y0 + _RIM
                at_rim = at_left_or_top or box.x1 >= area.x1 - _RIM or box.y1 >= area.y1 - _RIM
                lines.append(_Line(line.text, box, at_rim))
    return lines


def _changed_share(box: Box, changes: ChangeMap) -> float:
    """The share of the patches in a box that differ by more than what is harmless."""
    heat = preservation(changes).heat[covered_patches([box], changes.shape)]
    return float(np.mean(heat > HARMLESS_EXCESS)) if heat.size else 0.0
