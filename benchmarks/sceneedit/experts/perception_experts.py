"""SceneEdit's experts beside the judge: what they perceive, in the form of the answers to each kind of query."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ....reward import Box, Expert, Image
from ....reward.experts.pixel_changes import PixelChanges
from ....reward.queries import (
    Abstention,
    Detect,
    Detections,
    MapChanges,
    Measurement,
    Rate,
    RateRegion,
    ReadText,
    RecognizedText,
    RegionRating,
    Remains,
)
from ....reward.queries.answers import Embeddings, Mask, Outcome, TextLine
from ....reward.queries.kinds import Embed, EmbedText, Segment
from ..vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT
from .edit_comparison import EditComparisonCache
from .instruction_parser import ObjectName, UnanswerableError, find_name, find_names, parse_name
from .object_segments import DetectedObject
from .perception import PerceptionCache, opacity_weight, quality, visibility, visual_quality

_OTHER_COLOUR, _OTHER_MATERIAL = 0.63, 0.84
"""Factors of a score where colour or material differs: the shape weighs most, as with real detectors."""
_MAX_SCORE = 0.97


class PerceptiveExpert(Expert):
    """Answers one query at a time, from perceptions that all experts of the process share."""

    def __init__(self) -> None:
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    @abstractmethod
    def _answer(self, query: Any) -> Outcome:
        """The answer to one query."""


class SceneDetector(PerceptiveExpert):
    """Finds objects by name: `red circle`, `yellow sign`, `text`.

    A score rates shape, colour and material, in that order of weight: an object in another colour than the query's
    still has about 0.55, another shape less than 0.2. Each phrase gets boxes of all objects, near misses too; `text`
    gets the boxes of lines of text. Abstains on phrases that are no names.
    """

    kinds = (Detect,)
    id = "scene-detector@1"

    def _answer(self, query: Detect) -> Detections | Abstention:
        boxes: list[Box] = []
        for phrase in query.phrases:
            name = parse_name(phrase)
            if isinstance(name, str):
                return Abstention(f"a scene detector cannot look for that: {name}")
            if name.kind == TEXT:
                boxes += self._perception.perceive(query.image).locate_text(phrase)
            else:
                objects = self._perception.objects(query.image)
                matches = [
                    Box(obj.box.cx, obj.box.cy, obj.box.w, obj.box.h, name_score(obj, name), phrase) for obj in objects
                ]
                boxes += sorted(matches, key=lambda box: -box.score)
        return Detections(tuple(boxes), min_score=0.0)


def name_score(obj: DetectedObject, name: ObjectName) -> float:
    """How well an object matches a name, in [0, 1]."""
    colour = obj.colours[name.colour] if name.colour else 1.0
    material = obj.materials[name.material] if name.material else 1.0
    factor = (_OTHER_COLOUR + (1 - _OTHER_COLOUR) * colour) * (_OTHER_MATERIAL + (1 - _OTHER_MATERIAL) * material)
    return _MAX_SCORE * obj.shapes[name.kind] * factor * visibility(obj)


_FOUND = 0.4  # score from which on an object matches the command
_AS_GOOD = 0.85  # share of the best score from which on another object matches too: one of several equal copies
_BEHIND = re.compile(r"\W*(?:please\s+)?(?:segment\s+)?(?:the\s+)?(?:background|backdrop)\W*", re.IGNORECASE)
_SEVERAL = re.compile(r"please\ssegment\s(?P<names>.*\w)\W*", re.IGNORECASE)
_JOINT = re.compile(r"\s?(?:,|\band\b)\s?")


class SceneSegmenter(PerceptiveExpert):
    """Answers `Segment` with the pixels of the objects that match the command's name best.

    The command is a bare name or a sentence with one name in it; `Please segment` may be followed by several names,
    joined by `and` or commas, for the union of their pixels; `the background` is everything behind all objects. The
    mask is empty where nothing matches; the score is that of the name that matches worst. Abstains on commands without
    a name, and on other sentences with several.
    """

    kinds = (Segment,)
    id = "scene-segmenter@2"

    def _answer(self, query: Segment) -> Mask | Abstention:
        command = " ".join(query.command.split())
        several = _SEVERAL.fullmatch(command)
        commands = [part for part in _JOINT.split(several["names"]) if part] if several else [command]
        masks = []
        for part in commands:
            if _BEHIND.fullmatch(part):
                masks.append(self._behind(query.image))
                continue
            name = find_name(part)
            if isinstance(name, str):
                return Abstention(f"a scene segmenter cannot follow this command: {name}")
            masks.append(self._mask(query.image, name))
        return Mask(np.logical_or.reduce([mask.values for mask in masks]), min(mask.score for mask in masks))

    def _mask(self, image: Image, name: ObjectName) -> Mask:
        if name.kind == TEXT:
            return self._text(image)
        objects = self._perception.objects(image)
        scores = [name_score(obj, name) for obj in objects]
        best = max(scores, default=0.0)
        mask = np.zeros((image.height, image.width), np.bool_)
        for obj, score in zip(objects, scores, strict=True):
            if best > _FOUND and score >= _AS_GOOD * best:
                mask |= _at_size(obj.mask, image)
        return Mask(mask, best)

    def _text(self, image: Image) -> Mask:
        """Lines of text, by their boxes."""
        values = np.zeros((image.height, image.width), np.bool_)
        boxes = self._perception.perceive(image).locate_text()
        for box in boxes:
            corners = box.clipped_corners(image.size)
            if corners and box.score > _FOUND:
                values[corners[1] : corners[3], corners[0] : corners[2]] = True
        return Mask(values, max((box.score for box in boxes), default=0.0))

    def _behind(self, image: Image) -> Mask:
        masks = [_at_size(obj.mask, image) for obj in self._perception.objects(image)]
        return Mask(~np.logical_or.reduce([*masks, self._text(image).values]), 1.0)


def _at_size(mask: NDArray[np.bool_], image: Image) -> NDArray[np.bool_]:
    return np.asarray(cv2.resize(mask.astype(np.uint8), image.size, interpolation=cv2.INTER_NEAREST) > 0)


class SceneReader(PerceptiveExpert):
    """Answers `ReadText`. Boxes surround the ink; their scores are confidences in (0, 1).

    An image without text gives an empty `RecognizedText`, not an abstention. Limits: see `letter_reader.read_lines`.
    """

    id = "scene-reader@1"
    kinds = (ReadText,)

    def _answer(self, query: ReadText) -> RecognizedText:
        size = query.image.size
        return RecognizedText(
            tuple(
                TextLine(text, Box.from_corners(*corners, size, score=confidence))
                for text, corners, confidence in self._perception.perceive(query.image).text_lines
            )
        )


_SAME_PLACE = 0.7  # IoU of the boxes from which on an object stands where one stood before


class SceneChanges(PixelChanges):
    """Answers `MapChanges` and `Remains` as `PixelChanges` does, and `RateRegion` from the objects of the scene.

    Scenes are drawn: a flat area with a hard outline belongs to them, so that seams and detail say nothing. A new
    object that shows what is behind it does not: the value is that of the faintest new object in the box.
    """

    id = "scene-changes@1"

    def __init__(self) -> None:
        super().__init__()
        self._perception = PerceptionCache.shared()

    def __call__(self, queries: Sequence[MapChanges | Remains | RateRegion]) -> list[Outcome]:
        measured = iter(super().__call__([query for query in queries if not isinstance(query, RateRegion)]))
        return [self._rating(query) if isinstance(query, RateRegion) else next(measured) for query in queries]

    def _rating(self, query: RateRegion) -> RegionRating:
        before = self._perception.objects(query.before)
        new = [
            obj
            for obj in self._perception.objects(query.after)
            if abs(obj.box.cx - query.box.cx) <= query.box.w / 2
            and abs(obj.box.cy - query.box.cy) <= query.box.h / 2
            and not any(obj.box.iou(old.box) >= _SAME_PLACE for old in before)
        ]
        faintest = min((opacity_weight(obj) for obj in new), default=1.0)
        return RegionRating(faintest, {"source": 1 - faintest})


_KINDS = (*SHAPES, SIGN)
_SURFACES = ("", *MATERIALS)
_SURFACE = 0.5  # weight of materials, relative to 1 for shapes and colours


class SceneJointEmbedding(PerceptiveExpert):
    """Answers `Embed` (the class token) and `EmbedText`: it stands in for CLIP.

    A vector counts coloured shapes, materials and backdrops: of an image by their probabilities, of a text once per
    name. Places and letters do not count. Abstains on other regions, and on texts without a known name.
    """

    kinds = (Embed, EmbedText)
    id = "scene-bag@1"

    def _answer(self, query: Embed | EmbedText) -> Embeddings | Abstention:
        if isinstance(query, EmbedText):
            vector, count = _embed_names(query.text), 1
            if not vector.any():
                return Abstention(f"a scene bag knows nothing of what is named in {query.text!r:.80}")
        elif any(region.pool != "cls" or region.exclude or region.inside for region in query.regions):
            return Abstention("a scene bag has no patches: ask for the class token of the whole picture")
        else:
            vector, count = self._embed_image(query.image), len(query.regions)
        return Embeddings(np.stack([vector] * count).astype(np.float32), np.ones(count, np.int64))

    def _embed_image(self, image: Image) -> NDArray[np.float64]:
        perceived = self._perception.perceive(image)
        objects, surfaces = np.zeros((len(_KINDS), len(COLOURS))), np.zeros(len(_SURFACES))
        for obj in perceived.objects:
            kinds = np.array([obj.shapes.get(kind, 0.0) for kind in _KINDS]) * visibility(obj)
            objects += np.outer(kinds, [obj.colours[colour] for colour in COLOURS])
            surfaces += kinds.max() * np.array([obj.materials[material] for material in _SURFACES])
        backdrop = np.array([perceived.backdrop_probabilities[kind] for kind in BACKDROPS])
        return np.concatenate([objects.ravel(), _SURFACE * surfaces, backdrop])


def _embed_names(text: str) -> NDArray[np.float64]:
    objects, surfaces = np.zeros((len(_KINDS), len(COLOURS))), np.zeros(len(_SURFACES))
    for name in find_names(text):
        if name.kind in _KINDS:
            colours = [COLOURS.index(name.colour)] if name.colour else range(len(COLOURS))
            objects[_KINDS.index(name.kind), colours] += 1 / len(colours)
            surfaces[_SURFACES.index(name.material)] += 1
    backdrop = np.array([float(kind in text.casefold()) for kind in BACKDROPS])
    return np.concatenate([objects.ravel(), _SURFACE * surfaces, backdrop])


class ScenePreference(PerceptiveExpert):
    """Answers `Rate` for any prompt: it ignores content and beauty.

    `preference`: `quality`. On the scales of the raters it stands in for: `visual_quality` as `image quality` from 1 to
    5 and as `aesthetics` from 0 to 100. Abstains on other qualities.
    """

    id = "scene-preference@2"
    kinds = (Rate,)

    def _answer(self, query: Rate) -> Measurement | Abstention:
        match query.quality:
            case "preference":
                return Measurement(quality(query.image.pixels))
            case "image quality":
                return Measurement(1 + 4 * visual_quality(query.image.pixels))
            case "aesthetics":
                return Measurement(100 * visual_quality(query.image.pixels))
            case other:
                return Abstention(
                    f"a scene preference cannot rate {other!r}: it knows preference, image quality, aesthetics"
                )


class SceneEditPreference(PerceptiveExpert):
    """Answers `Rate` about edits, from 0 to 4: it stands in for EditReward.

    `instruction following`: the credit of the prompt's requests. `visual quality`: `perception.visual_quality`.
    `preference`: the mean of both. Abstains on other qualities, without sources, and on prompts with unknown words.
    """

    id = "scene-edit-preference@1"
    kinds = (Rate,)

    def __init__(self) -> None:
        super().__init__()
        self._comparisons = EditComparisonCache(self._perception)

    def _answer(self, query: Rate) -> Measurement | Abstention:
        if not query.sources:
            return Abstention("an edit is rated beside its sources")
        try:
            followed = self._comparisons.get(query.sources, query.image, query.prompt).credit
        except UnanswerableError as error:
            return Abstention(str(error))
        shares = {"instruction following": followed, "visual quality": visual_quality(query.image.pixels)}
        shares["preference"] = sum(shares.values()) / 2
        if query.quality not in shares:
            return Abstention(f"edits are not rated by {query.quality!r} here: there are {', '.join(shares)}")
        return Measurement(4 * shares[query.quality])
