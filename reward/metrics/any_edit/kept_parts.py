"""What a plan names as staying, part by part: objects, individuals and text, each found in the source and compared at
its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from ...boxes import Box
from ...edit_plan import Kept
from ...engine.program import Abstained, Program, ask, ask_many, reply_value
from ...image import Image
from ...queries.change_map import ChangeMap
from ...queries.kinds import Detect, Embed, Judge, MapChanges, ReadText, Region, Remains, Segment
from ...queries.prompts import Prompts
from ...queries.response_formats import Message, YesNo
from ...sample import EditSample
from ...score import Evidence, Score
from ..edival.conditions import normalize_text
from ..edival.inspector import crop_box
from .preservation import covered_patches, drift_share, layout_left, preservation
from .referring import same_object
from .regions import EditRegion
from .target_location import LocatedTarget
from .text_checks import words_left

Faces = Literal["judge", "embedder"]
FACE_EMBEDDER = "features.face"
"""The role of an expert that embeds faces; `features`, which stands in for it, need not tell people apart."""

_ANEW = 0.9
"""Share of an object that is as it was (`Remains.unchanged`) when an editor draws it before another background."""
_FILLED, _MIN_OBJECT_PATCHES = 0.95, 4
"""Share of a patch that an object fills, for it to show nothing else; number of such patches that are enough."""
_RECOLOURED = (2.5, 25.0)
"""Mean distance in CIE L*a*b* up to which an object has its colours, and from which on it has others. 2.3 is just
noticeable side by side; another background lights an object a little differently."""
_FOUND, _LOST = 0.35, 0.2
"""Detector scores from which on an object is there, and up to which no trace of it is left."""
_SAME_FACE, _OTHER_FACE = 0.6, 0.2
"""Cosines of face embeddings from which on two faces are one person's, and up to which they are not."""
_MIN_CONFIDENCE = 0.5


def kept_score(
    sample: EditSample,
    kept: Kept,
    located: LocatedTarget | None,
    changes: ChangeMap,
    region: EditRegion,
    *,
    same_look: bool,
    faces: Faces,
    prompts: Prompts,
) -> Program[Score]:
    """How much of something has stayed, in [0, 1]; not applicable where the source does not show it.

    region: where the plan lets the image change, which is not compared. same_look: its pixels should stay as they are;
    else (another style or light) only the object should.
    """
    if kept.aspect == "text":
        return (yield from _text(sample, () if located is None else located.boxes))
    if located is None:
        return Score.not_applicable(f"{kept.aspect} of the whole image is compared with all of it")
    if not located.boxes:
        return Score.not_applicable(f"{located.target.words!r} is not found in the source")
    if kept.aspect == "identity":
        return (yield from _identity(sample, located, faces, prompts))
    if not region.whole:
        return _in_place(sample, located, changes, region.boxes)
    looks = yield from (_colours if same_look else _layouts)(sample, located, changes)
    if located.target.boxes:  # nobody detects what was annotated in another style; what is gone has other looks too
        return looks
    present = yield from _presence(sample, located)
    return present if looks.value is None else min(present, looks, key=lambda score: score.value or 0.0)


def _in_place(sample: EditSample, located: LocatedTarget, changes: ChangeMap, exempt: Sequence[Box]) -> Score:
    """How much of the boxes of an object is as it was. Sharpness, noise and grids of so small a part are chance."""
    measured = preservation(changes, exempt, within=located.boxes)
    if not measured.compared:
        return Score.not_applicable(f"{located.target.words!r} is where the plan changes the image")
    value = measured.local
    for name in ("cast", "exposure", "contrast"):
        value *= drift_share(name, measured.drift_values[name])
    numbers = {"excess": measured.excess, "lost": measured.lost}
    evidence = Evidence(f"{located.target.words} at its place", sample.edited.digest, located.boxes, numbers=numbers)
    return Score.of(value, f"{located.target.words}: {1 - measured.lost:.0%} as it was", evidence=[evidence])


def _colours(sample: EditSample, located: LocatedTarget, changes: ChangeMap) -> Program[Score]:
    """How much of an object before another background has its colours.

    Of the patches that a segmenter finds to show nothing but the object; without a segmenter, or of an object thinner
    than a patch, of the pixels of its boxes that are unlike what is around them. Not applicable to boxes that hold
    nothing of the image.
    """
    boxes = tuple(box for box in located.boxes if box.clipped_corners(sample.source.size) is not None)
    if not boxes:
        return Score.not_applicable(f"{located.target.words!r} is outside of the image")
    is_object = yield from _object_patches(sample, located, changes.shape)
    if is_object.sum() < _MIN_OBJECT_PATCHES:
        kept = yield from ask(Remains(sample.source, sample.edited, boxes, unchanged=True))
        if kept.value is None:
            return Score.not_applicable(f"nothing of {located.target.words!r} is told from what is around it")
        value = min(1.0, kept.value / _ANEW)
        return Score.of(value, f"{located.target.words}: {kept.value:.0%} of it is as it was")
    distance = np.linalg.norm(changes.colour, axis=2)[is_object]
    value = 1 - float(np.mean(np.interp(distance, _RECOLOURED, (0.0, 1.0))))
    return Score.of(value, f"{located.target.words}: its colours changed by {distance.mean():.1f} in CIE L*a*b*")


def _layouts(sample: EditSample, located: LocatedTarget, changes: ChangeMap) -> Program[Score]:
    """How much of the layout of an object is left in another style or light, at its place."""
    crops = [
        (crop_box(sample.source, box), crop_box(sample.edited, box))
        for box in located.boxes
        if box.clipped_corners(sample.source.size) is not None
    ]
    if not crops:
        return Score.not_applicable(f"{located.target.words!r} is outside of the image")
    maps = yield from ask_many([MapChanges(before, after) for before, after in crops])
    least = min(one.structure for one in maps)
    return Score.of(layout_left(least), f"{located.target.words}: agreement of layouts {least:.2f}")


def _object_patches(sample: EditSample, located: LocatedTarget, shape: tuple[int, int]) -> Program[NDArray[np.bool_]]:
    """rows x columns: the patches, inside its boxes, that the object fills in the source."""
    try:
        mask = yield from ask(Segment(sample.source, located.target.words))
    except Abstained:  # about the source alone: the same for every edit of the group
        return np.zeros(shape, np.bool_)
    share = cv2.resize(mask.values.astype(np.float32), shape[::-1], interpolation=cv2.INTER_AREA)
    return (share > _FILLED) & covered_patches(located.boxes, shape)


def _presence(sample: EditSample, located: LocatedTarget) -> Program[Score]:
    """Whether a detector finds each of the objects at its place."""
    detections = yield from ask(Detect(sample.edited, (located.target.phrase,)))
    scores = [
        max((box.score for box in detections.boxes if same_object(box, [old]) is not None), default=0.0)
        for old in located.boxes
    ]
    value = sum(_rise(score, _LOST, _FOUND) for score in scores) / len(scores)
    evidence = Evidence(f"{located.target.phrase} in the edited image", sample.edited.digest, detections.boxes)
    return Score.of(value, f"{located.target.words}: found with {min(scores):.2f}", evidence=[evidence])


def _identity(sample: EditSample, located: LocatedTarget, faces: Faces, prompts: Prompts) -> Program[Score]:
    """Whether the crops show the same individual: the lowest over all of them."""
    pairs = [(crop_box(sample.source, box), crop_box(sample.edited, box)) for box in located.boxes]
    if faces == "embedder":
        region = (Region("cls"),)
        vectors = yield from ask_many([Embed(crop, region) for pair in pairs for crop in pair], role=FACE_EMBEDDER)
        cosines = [before.cosine(after, 0) for before, after in zip(vectors[::2], vectors[1::2], strict=True)]
        value = min(_rise(cosine, _OTHER_FACE, _SAME_FACE) for cosine in cosines)
        return Score.of(value, f"{located.target.words}: similarity {min(cosines):.2f}")
    slots = {"object": located.target.words}
    queries = [_identity_query(pair, slots, prompts) for pair in pairs]
    replies = yield from ask_many(queries)
    values = [float(reply_value(query, reply)) for query, reply in zip(queries, replies, strict=True)]
    return Score.of(min(values), f"{located.target.words}: the same, by a judge ({min(values):.2f})")


def _identity_query(pair: tuple[Image, Image], slots: dict[str, str], prompts: Prompts) -> Judge:
    prompt = prompts.render("identity", **slots)
    return Judge((Message((*pair, prompt)),), YesNo(), "any-edit/identity", tuple(slots.items()))


def _text(sample: EditSample, boxes: Sequence[Box]) -> Program[Score]:
    """The share of the source's words that are still read, in these boxes or anywhere."""
    source, edited = (
        [crop_box(image, box) for box in boxes] if boxes else [image] for image in (sample.source, sample.edited)
    )
    readings = yield from ask_many([ReadText(image) for image in (*source, *edited)])
    before, after = (
        [
            normalize_text(word)
            for reading in part
            for line in reading.lines
            if line.box.score >= _MIN_CONFIDENCE
            for word in line.text.split()
        ]
        for part in (readings[: len(source)], readings[len(source) :])
    )
    words = [word for word in before if len(word) > 1]
    if not words:
        return Score.not_applicable("no text is read in the source")
    left = words_left(words, after)
    return Score.of(left / len(words), f"{left} of {len(words)} words are still read")


def _rise(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)
