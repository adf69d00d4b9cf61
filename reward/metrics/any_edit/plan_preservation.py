"""PlanPreservation: how much of what a plan does not change has stayed, in units of what is harmless."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import ClassVar, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from ...boxes import Box
from ...card import Card
from ...edit_plan import EditPlan, Kept, OperationType, Target
from ...engine.program import Abstained, Program, ask, ask_many, gather
from ...queries.answers import Region
from ...queries.change_map import ChangeMap
from ...queries.kinds import Beside, Detect, Embed, MapChanges, ReadText, Remains, Segment
from ...queries.prompts import Prompts
from ...sample import EditSample
from ...score import Evidence, Score
from ..compose import without_value
from ..edival.inspector import crop_box, normalize_text
from .frames import in_one_frame
from .pixel_edits import core_of, look_edit, staying_boxes
from .plan_of_sample import PLANNED_KINDS, PlannedMetric
from .preservation import (
    DRIFT_LIMITS,
    MAX_EXEMPT_SHARE,
    Preservation,
    covered_patches,
    detail_left,
    drift_share,
    layout_left,
    preservation,
)
from .questions import probabilities, yes_no
from .regions import EditRegion, attached_changes, edit_region
from .targets import LocatedTarget, locate_targets, same_object, scaled, share_inside
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
    """How much of something has stayed, in [0, 1]; not applicable where the source does not show it. region: where the
    image may change. same_look: its pixels should stay; else (another style or light) only the object should."""
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
    drift = (drift_share(name, measured.drift_values[name]) for name in ("cast", "exposure", "contrast"))
    value = math.prod(drift, start=measured.local)
    numbers = {"excess": measured.excess, "lost": measured.lost}
    evidence = Evidence(f"{located.target.words} at its place", sample.edited.digest, located.boxes, numbers=numbers)
    return Score.of(value, f"{located.target.words}: {1 - measured.lost:.0%} as it was", evidence=[evidence])


def _colours(sample: EditSample, located: LocatedTarget, changes: ChangeMap) -> Program[Score]:
    """How much of an object before another background has its colours, in patches or, if it is thin, in pixels."""
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
    detections = yield from ask(Detect(sample.edited, (located.target.phrase,)))
    scores = [
        max((box.score for box in detections.boxes if same_object(box, [old]) is not None), default=0.0)
        for old in located.boxes
    ]
    value = sum(_rise(score, _LOST, _FOUND) for score in scores) / len(scores)
    evidence = Evidence(f"{located.target.phrase} in the edited image", sample.edited.digest, detections.boxes)
    return Score.of(value, f"{located.target.words}: found with {min(scores):.2f}", evidence=[evidence])


def _identity(sample: EditSample, located: LocatedTarget, faces: Faces, prompts: Prompts) -> Program[Score]:
    pairs = [(crop_box(sample.source, box), crop_box(sample.edited, box)) for box in located.boxes]
    if faces == "embedder":
        region = (Region("cls"),)
        vectors = yield from ask_many([Embed(crop, region) for pair in pairs for crop in pair], role=FACE_EMBEDDER)
        cosines = [before.cosine(after, 0) for before, after in zip(vectors[::2], vectors[1::2], strict=True)]
        value = min(_rise(cosine, _OTHER_FACE, _SAME_FACE) for cosine in cosines)
        return Score.of(value, f"{located.target.words}: similarity {min(cosines):.2f}")
    slots = {"object": located.target.words}
    queries = [yes_no("identity", pair, prompts.render("identity", **slots), slots) for pair in pairs]
    values = yield from probabilities(queries)
    return Score.of(min(values), f"{located.target.words}: the same, by a judge ({min(values):.2f})")


def _text(sample: EditSample, boxes: Sequence[Box]) -> Program[Score]:
    source, edited = (
        [crop_box(image, box) for box in boxes] if boxes else [image] for image in (sample.source, sample.edited)
    )
    readings = yield from ask_many([ReadText(image) for image in (*source, *edited)])
    parts = readings[: len(source)], readings[len(source) :]
    before, after = (
        [normalize_text(word) for line in lines if line.box.score >= _MIN_CONFIDENCE for word in line.text.split()]
        for lines in ([line for one in part for line in one.lines] for part in parts)
    )
    words = [word for word in before if len(word) > 1]
    if not words:
        return Score.not_applicable("no text is read in the source")
    left = words_left(words, after)
    return Score.of(left / len(words), f"{left} of {len(words)} words are still read")


def _rise(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)


_NEW_LOOK: frozenset[OperationType] = frozenset(
    {"style", "light", "weather", "filter", "effect_add", "effect_remove", "particles_add", "restoration"}
)
"""Types after which every pixel may look different, while things stay where they are."""
_SAME_LAYOUT: frozenset[OperationType] = _NEW_LOOK | {"particles_remove", "background_change"}
"""Types of the whole image that move nothing. Another background has a layout of its own: the agreement counts only
where the plan names nothing that stays before it."""


@dataclass(frozen=True)
class PlanPreservation(PlannedMetric):
    """How much of what the sample's plan does not change has stayed, in [0, 1], in the frame that was asked for. Where
    objects may change: everything outside of their regions, times the mean of what the plan names as staying. Where a
    tone or focus does that pixels decide: beside what it explains, times the structure left. Where all may change
    otherwise: the mean of what is named or annotated, times the agreement of layouts if nothing may move; not
    applicable with neither.

    Args:
        faces: Who compares individuals: `judge`, or the `embedder` bound to the role `features.face`.
    """

    base_card: ClassVar[Card] = Card(
        name="any-edit-preservation",
        version=4,
        summary="everything that the instruction does not mention is as it was",
        kinds={**PLANNED_KINDS, "segmenter": ("segment",)},
        requires=("sources", "edited", "instruction"),
        source="docs/metrics.md",
        failure_modes=(
            "A copy has 1. What stands inside the region of the edit may change at will. Of edits of the whole image "
            "only what the plan names as staying and what is annotated is compared, and the layout. Without a "
            "segmenter, an object before another background is compared where it is unlike what is around it: the rest "
            "of it is free."
        ),
        aspect="consistency",
    )

    faces: Faces = "judge"
    choices: ClassVar[Mapping[str, Collection[object]]] = {"faces": get_args(Faces)}

    @cached_property
    def card(self) -> Card:
        embedder = {} if self.faces == "judge" else {FACE_EMBEDDER: ("embed",)}
        return self.base_card.with_kinds({**self.base_card.kinds, **embedder})

    def score(self, sample: EditSample) -> Program[Score]:
        framed = yield from in_one_frame(sample)
        sample, plan = framed.sample, framed.plan
        asked = yield from _looks(sample, plan)
        plain = yield from ask(MapChanges(sample.source, sample.edited))
        changes = plain
        if asked.beside:
            changes = yield from ask(MapChanges(sample.source, sample.edited, asked.beside, asked.stays))
        others = [
            operation
            for index, operation in enumerate(plan.operations)
            if index not in framed.verdicts and index not in asked.indices
        ]
        region = yield from edit_region(sample, others, changes)
        if framed.outside:
            region = replace(region, boxes=(*region.boxes, *framed.outside))
        kept_plan = plan
        if region.whole:
            kept_plan = replace(plan, keep=(*plan.keep, *_annotated_objects(sample, plan)))
        if asked.stays:  # the middles of their boxes are compared below: around them is what was to change
            kept_plan = replace(plan, keep=tuple(kept for kept in plan.keep if kept.aspect != "object"))
        parts = yield from self._kept_parts(sample, kept_plan, plain if asked.stays else changes, region)
        if (missing := without_value(parts)) is not None:
            return missing
        if (covering := _covered_objects(sample, plan, region)) is not None:
            parts["not covered"] = covering
        types = {operation.type for operation in others}
        kept = [score.value for score in parts.values() if score.value is not None]
        factors = [fmean(kept)] if kept else []
        evidence: list[Evidence] = []
        if "tone" in asked.beside:
            factors.append(detail_left(plain))
        if not region.whole:
            shown = tuple(scaled(box, _GROWN) for box in asked.stays)
            most = MAX_EXEMPT_SHARE if not shown else 1.0
            attached = attached_changes(changes, region.leaving)
            measured = preservation(changes, (*region.boxes, *shown), attached=attached, max_exempt_share=most)
            if asked.stays:  # they are compared with the source as it was, the background with what it was to become
                stayed = preservation(plain, region.boxes, within=[core_of(box) for box in asked.stays])
                factors.append(stayed.value)
            factors.append(measured.value)
            evidence.append(_map_evidence(sample, region, measured))
            reason = _reason(measured, region)
        elif types <= _NEW_LOOK or (types <= _SAME_LAYOUT and not kept):
            factors.append(layout_left(changes.structure))
            reason = f"agreement of layouts {changes.structure:.2f}"
        else:
            reason = ""
        if not factors:
            return Score.not_applicable("the whole image may change, and the plan names nothing that stays")
        factors.append(framed.remaining)
        least = min(parts.items(), key=lambda part: 1.0 if part[1].value is None else part[1].value, default=None)
        of_least = "" if least is None else f"{least[0]}: {least[1].reason}"
        reason = "; ".join(filter(None, (framed.reshaped, reason, of_least)))
        return Score.of(min(1.0, math.prod(factors)), reason, parts=parts, evidence=evidence)

    def _kept_parts(
        self, sample: EditSample, plan: EditPlan, changes: ChangeMap, region: EditRegion
    ) -> Program[dict[str, Score]]:
        located: dict[Target, LocatedTarget] = {}
        for target in dict.fromkeys(kept.target for kept in plan.keep if kept.target is not None):
            try:
                located |= yield from locate_targets(sample.source, [target])
            except Abstained:  # about the source alone: no detector knows the words, for any edit of the group
                located[target] = LocatedTarget(target, ())
        same_look = not any(operation.type in _NEW_LOOK for operation in plan.operations)
        programs = [
            kept_score(
                sample,
                kept,
                located.get(kept.target) if kept.target else None,
                changes,
                region,
                same_look=same_look,
                faces=self.faces,
                prompts=self.prompt_pack,
            )
            for kept in plan.keep
        ]
        scores = yield from gather(programs)
        return {
            f"kept {number}: {kept.target.words if kept.target is not None else kept.aspect}": score
            for number, (kept, score) in enumerate(zip(plan.keep, scores, strict=True), 1)
        }


@dataclass(frozen=True, slots=True)
class _Looks:
    """What operations ask of the look of everything, or of a background behind `stays`. beside: `MapChanges`."""

    indices: frozenset[int] = frozenset()
    beside: tuple[Beside, ...] = ()
    stays: tuple[Box, ...] = ()


def _looks(sample: EditSample, plan: EditPlan) -> Program[_Looks]:
    edits = {index: edit for index, operation in enumerate(plan.operations) if (edit := look_edit(operation))}
    of_all = {index: edit for index, edit in edits.items() if edit.place == "whole"}
    of_background = {index: edit for index, edit in edits.items() if edit.place == "background"}
    stays: tuple[Box, ...] = ()
    if of_background and not of_all:
        stays = yield from staying_boxes(sample, plan)
    if stays:
        of_all = of_background
    return _Looks(frozenset(of_all), tuple(sorted({edit.explains for edit in of_all.values()})), stays)


_GROWN = 1.3
"""Sides of what is not compared with another background, in those of the box before it: a blur mixes both there."""
_BURIED = 0.5
"""Share of the box of an annotated object that something added covers when the object is lost."""


def _annotated_objects(sample: EditSample, plan: EditPlan) -> list[Kept]:
    """The annotated objects that the plan does not speak of: they stay before another background, in another style."""
    if sample.history:
        return []
    targets = [target for operation in plan.operations for target in operation.targets]
    targets += [kept.target for kept in plan.keep if kept.target is not None]
    named = {name.casefold() for target in targets for name in (target.noun, target.phrase)} | {"background"}
    return [
        Kept("object", Target(name, boxes=tuple(boxes)))
        for name, boxes in sample.boxes.items()
        if boxes and name.casefold() not in named
    ]


def _covered_objects(sample: EditSample, plan: EditPlan, region: EditRegion) -> Score | None:
    """Share of annotated objects, but those of the plan, that nothing added stands on: the map cannot charge these."""
    if sample.history or not region.added:
        return None
    mentioned = {target.phrase.casefold() for operation in plan.operations for target in operation.targets}
    # Of a text that is rewritten the plan has the new words, and the instruction the old ones.
    is_rewritten = any(operation.type == "text_change" for operation in plan.operations)
    sentence = sample.instruction.casefold() if is_rewritten else ""
    objects = {
        name: boxes
        for name, boxes in sample.boxes.items()
        if name.casefold() not in mentioned and name.casefold() not in sentence
    }
    if not objects:
        return None
    buried = [
        name
        for name, boxes in objects.items()
        if any(share_inside(box, added) >= _BURIED for box in boxes for added in region.added)
    ]
    reason = f"something added covers {', '.join(buried)}" if buried else "nothing is covered"
    return Score.of(1 - len(buried) / len(objects), reason)


def _map_evidence(sample: EditSample, region: EditRegion, measured: Preservation) -> Evidence:
    numbers = {"excess": measured.excess, "lost": measured.lost, "exempt": measured.exempt_share}
    numbers |= {f"drift {name}": value for name, value in measured.drift_values.items()}
    worst = () if measured.worst is None else (measured.worst.with_label("most changed"),)
    allowed = (box.with_label("guessed" if box in region.guessed else "may change") for box in region.boxes)
    boxes = (*allowed, *worst)
    return Evidence("change outside of the edit", sample.edited.digest, boxes, "; ".join(region.notes), numbers)


_DRIFT_WORDS: Mapping[str, str] = {
    "cast": "colours",
    "exposure": "brightness",
    "contrast": "contrast",
    "sharpness": "sharpness",
    "noise": "noise",
    "detail": "detail",
    "grid": "a regular pattern",
    "geometry": "position or size",
}


def _reason(measured: Preservation, region: EditRegion) -> str:
    damage = f"{measured.lost:.1%} of what should have stayed is damaged"
    drifted = [
        f"{_DRIFT_WORDS[name]} ({name} {value:.2f}, harmless up to {DRIFT_LIMITS[name][0]:g})"
        for name, value in measured.drift_values.items()
        if value > DRIFT_LIMITS[name][0]
    ]
    texts = [damage if measured.damage else "the rest is as it was"]
    texts += [f"the whole picture changed in {', '.join(drifted)}"] if drifted else []
    return "; ".join([*texts, *region.notes])
