"""EdiVal-CC: consistency of everything that the instructions do not change. Paper, section 2.4 and Eq. 3.

The current image is always compared with the *base*, the image before the first turn, so that drift over turns is
measured. Protocols, default first:

| | `fixed` | `official` (released code of 27 Oct 2025) |
|---|---|---|
| size | the current image at the base's size | both at 512 x 512 (LANCZOS) |
| detection at 0.35 | a prompt for each name | all names in one prompt |
| object similarity | mean of two cosines: class token, mean patch token | likewise, registers count as patches |
| mean over | objects | boxes |
| a listed object not found | abstains | is ignored; none found: 0.0 |
| boxes of a name | by falling score | in the detector's order |
| background where no object is listed | compared | not applicable |
| a text that was added | where a reader reads it | where the detector detects "text" |
| background | cosine of the mean of patch tokens outside boxes | likewise, on a guessed grid |
| boxes cover everything | abstains | 0.0 |

With `similarity="l1"`, 1 - mean absolute difference of pixels replaces the cosines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ...boxes import Box, best_first
from ...card import Card
from ...engine.program import Abstained, Failed, Program, ask, ask_many, gather
from ...image import Image, Size
from ...queries.answers import Detections, Region, TextLine
from ...queries.kinds import Detect, Embed, Measure, ReadText
from ...queries.outcomes import Failure
from ...sample import EditSample
from ...score import Cause, Evidence, Score
from ..compose import Metric, WeightedMean, score_with_signature
from ..prompted_metric import check_choice
from ..text_matching import matching_letters
from .inspector import normalize_text
from .task_parser import pools_of, renamed_object, task_of

ConsistencyProtocol = Literal["fixed", "official"]
SimilarityMeasure = Literal["features", "l1"]

_THRESHOLD = 0.35
_OFFICIAL_SIZE: Size = (512, 512)
_NO_POOLS = (
    "the object pools are not known: give `pools`, or `boxes` of the base picture and instructions that can be read"
)


@dataclass(frozen=True)
class _ConsistencyMetric(ABC):
    """The options of the three metrics, and the signature of their scores."""

    protocol: ConsistencyProtocol = "fixed"
    similarity: SimilarityMeasure = "features"
    card: ClassVar[Card]

    def __post_init__(self) -> None:
        check_choice(self.card.name, "protocol", self.protocol, get_args(ConsistencyProtocol))
        check_choice(self.card.name, "similarity", self.similarity, get_args(SimilarityMeasure))

    def __call__(self, sample: EditSample) -> Program[Score]:
        score = yield from self._score(sample)
        return score.with_signature(self.signature)

    @property
    def signature(self) -> str:
        suffix = "" if self.similarity == "features" else f"/{self.similarity}"
        return f"{self.card.signature}/{self.protocol}{suffix}"

    @abstractmethod
    def _score(self, sample: EditSample) -> Program[Score]: ...


@dataclass(frozen=True)
class ObjectConsistency(_ConsistencyMetric):
    """Similarity of the unchanged objects, at their positions in the base image."""

    card: ClassVar[Card] = Card(
        "edival-cc-objects",
        1,
        "the objects that no instruction touches look as in the base image",
        range=(-1.0, 1.0),
        unit="similarity",
        kinds={"detector": ("detect",), "features": ("embed",), "pixels": ("measure",)},
        protocols=get_args(ConsistencyProtocol),
        source="EdiVal-Agent, section 2.4",
        failure_modes="An unchanged copy has 1.0.",
        aspect="consistency",
    )

    def _score(self, sample: EditSample) -> Program[Score]:
        pools = pools_of(sample)
        if pools is None:
            return Score.abstained(_NO_POOLS)
        if not pools.unchanged:
            return Score.not_applicable("no object is listed as unchanged")
        base, current, resize_evidence = _pair(sample, self.protocol)
        (detections,) = yield from _detect_objects((base,), pools.unchanged, self.protocol)
        visible = [(box, corners) for box in detections if (corners := box.clipped_corners(base.size)) is not None]
        seen = Evidence("unchanged objects in the base picture", base.digest, tuple(box for box, _ in visible))
        evidence = (seen, *resize_evidence)
        labels = {box.label for box, _ in visible}
        missing = [name for name in pools.unchanged if name not in labels]
        if missing and self.protocol == "fixed":
            return Score.abstained(f"not found in the base picture: {', '.join(missing)}", evidence=evidence)
        if not visible:
            return Score.of(0.0, "none of the listed objects was found in the base picture", evidence=evidence)
        pairs = [(base.crop(*corners), current.crop(*corners)) for _, corners in visible]
        similarities = yield from self._compare(pairs)
        by_object: dict[str, list[float]] = {}
        parts: dict[str, Score] = {}
        for (box, _), similarity in zip(visible, similarities, strict=True):
            values = by_object.setdefault(box.label, [])
            values.append(similarity)
            parts[box.label if len(values) == 1 else f"{box.label} ({len(values)})"] = Score.of(similarity)
        value = fmean(map(fmean, by_object.values())) if self.protocol == "fixed" else fmean(similarities)
        lowest = min(parts, key=lambda name: parts[name].value or 0.0)
        return Score.of(value, f"least alike: {lowest}", evidence=evidence, parts=parts)

    def _compare(self, pairs: Sequence[tuple[Image, Image]]) -> Program[list[float]]:
        if self.similarity == "l1":
            measurements = yield from ask_many([Measure("l1", pair) for pair in pairs])
            # Nothing is excluded, so no value is None.
            return [measurement.value for measurement in measurements if measurement.value is not None]
        regions = (Region("cls"), Region("patches" if self.protocol == "fixed" else "tokens"))
        vectors = yield from ask_many([Embed(crop, regions) for pair in pairs for crop in pair])
        return [
            (before.cosine(after, 0) + before.cosine(after, 1)) / 2
            for before, after in zip(vectors[::2], vectors[1::2], strict=True)
        ]


@dataclass(frozen=True)
class BackgroundConsistency(_ConsistencyMetric):
    """Similarity of the images outside all boxes of objects."""

    card: ClassVar[Card] = Card(
        "edival-cc-background",
        2,
        "what lies around all objects looks as in the base image",
        range=(-1.0, 1.0),
        unit="similarity",
        kinds={"detector": ("detect",), "reader.boxes": ("read_text",), "features": ("embed",), "pixels": ("measure",)},
        protocols=get_args(ConsistencyProtocol),
        source="EdiVal-Agent, section 2.4",
        failure_modes=(
            "Damage under a box is not measured, and an object of the pools at a wrong position adds a box."
        ),
        aspect="consistency",
    )

    def _score(self, sample: EditSample) -> Program[Score]:
        pools = pools_of(sample)
        if pools is None:
            return Score.abstained(_NO_POOLS)
        if not pools.background:
            return Score.not_applicable("an instruction changes the background")
        if self.protocol == "official" and not pools.all:
            return Score.not_applicable("no object is listed: the released code compares no background then")
        base, current, resize_evidence = _pair(sample, self.protocol)
        texts: tuple[str, ...] = ()
        if self.protocol == "fixed":  # added without an object; the pools call each of them "text"
            tasks = filter(None, map(task_of, sample.turns))
            texts = tuple(one.text for one in tasks if one.type == "text_change" and not one.object and one.text)
        names = tuple(name for name in pools.all if not (texts and name == "text"))
        before, after = yield from _detect_objects((base, current), names, self.protocol, _renamings(sample, names))
        after += yield from _boxes_of_texts(current, texts)
        evidence = (
            Evidence("objects in the base picture", base.digest, before),
            Evidence("objects in the current picture", current.digest, after),
            *resize_evidence,
        )
        exclude = before + after
        if self.similarity == "l1":
            measured = yield from ask(Measure("l1", (base, current), exclude))
            if measured.value is None:
                return _all_covered(base, before, evidence)
            background = Evidence("background", numbers={"share": measured.share})
            return Score.of(measured.value, evidence=(*evidence, background))
        regions = (Region(exclude=exclude, grid="true" if self.protocol == "fixed" else "guessed"),)
        a, b = yield from ask(Embed(base, regions), Embed(current, regions))
        if self.protocol == "fixed" and not (a.values.any() and b.values.any()):
            return _all_covered(base, before, evidence)
        background = Evidence("background", numbers={"patches": float(a.patches[0])})
        return Score.of(a.cosine(b, 0), evidence=(*evidence, background))


@dataclass(frozen=True)
class ContentConsistency(_ConsistencyMetric):
    """Mean of object and background consistency (Eq. 3), at least 0; one of them if the other has nothing to compare.

    `parts` has both, and both by pixels (`objects_l1`, `background_l1`), which are not part of the value. Not
    applicable if there is neither an unchanged object nor an unchanged background.
    """

    card: ClassVar[Card] = Card(
        "edival-cc",
        3,
        "objects and background that no instruction touches look as in the base image",
        kinds={"detector": ("detect",), "reader.boxes": ("read_text",), "features": ("embed",), "pixels": ("measure",)},
        protocols=get_args(ConsistencyProtocol),
        source="EdiVal-Agent, Eq. 3",
        failure_modes=(
            "An unchanged copy has 1.0: use it together with instruction following. Damage under boxes is not measured."
        ),
        aspect="consistency",
    )

    @cached_property
    def halves(self) -> Mapping[str, Metric]:
        """The metrics of objects and background."""
        return {
            "objects": ObjectConsistency(self.protocol, self.similarity),
            "background": BackgroundConsistency(self.protocol, self.similarity),
        }

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"protocol": self.protocol, "similarity": self.similarity, "halves": self.halves}

    @cached_property
    def _mean(self) -> WeightedMean:
        return WeightedMean(self.halves)

    @cached_property
    def _by_pixels(self) -> Mapping[str, Metric]:
        if self.similarity == "l1":
            return {}
        return {
            "objects_l1": ObjectConsistency(self.protocol, "l1"),
            "background_l1": BackgroundConsistency(self.protocol, "l1"),
        }

    def _score(self, sample: EditSample) -> Program[Score]:
        score, *pixel_scores = yield from gather(
            [self._mean(sample), *(score_with_signature(metric, sample) for metric in self._by_pixels.values())]
        )
        parts = {**score.parts, **dict(zip(self._by_pixels, pixel_scores, strict=True))}
        if score.status == "not_applicable":
            score = Score.not_applicable("neither an unchanged object nor an unchanged background to compare")
        # Cosines may be negative; values below 0 carry no further information.
        value = None if score.value is None else max(score.value, 0.0)
        return replace(score, value=value, parts=parts)


def _pair(sample: EditSample, protocol: ConsistencyProtocol) -> tuple[Image, Image, tuple[Evidence, ...]]:
    size = sample.base.size if protocol == "fixed" else _OFFICIAL_SIZE
    base, current = sample.base.resized(*size), sample.edited.resized(*size)
    evidence = tuple(
        Evidence(f"{name} picture resized", image.digest, text="from {} x {} to {} x {}".format(*image.size, *size))
        for name, image in (("base", sample.base), ("current", sample.edited))
        if image.size != size
    )
    return base, current, evidence


def _all_covered(base: Image, before: tuple[Box, ...], evidence: tuple[Evidence, ...]) -> Score:
    """Boxes cover the whole image: because of the edit, unless those of the base image do."""
    covered = np.zeros((base.height, base.width), np.bool_)
    for box in before:
        if corners := box.clipped_corners(base.size):
            x0, y0, x1, y1 = corners
            covered[y0:y1, x0:x1] = True
    cause: Cause = "" if covered.all() else "edit"
    return Score.abstained("boxes cover the whole picture", evidence=evidence, cause=cause)


def _detect_objects(
    images: Sequence[Image], names: tuple[str, ...], protocol: ConsistencyProtocol, renamings: Sequence[str] = ()
) -> Program[list[tuple[Box, ...]]]:
    """Boxes of these objects in each image, name by name. A detector may abstain on `renamings` only."""
    if not names:
        return [() for _ in images]
    if protocol == "official":
        joint = yield from ask_many([Detect(image, names) for image in images])
        return [detections.above(_THRESHOLD) for detections in joint]
    strict = [(at, name) for at in range(len(images)) for name in names if name not in renamings]
    lenient = [(at, name) for at in range(len(images)) for name in names if name in renamings]
    found = yield from ask_many([Detect(images[at], (name,)) for at, name in strict])
    try:
        found += yield from ask_many([Detect(images[at], (name,)) for at, name in lenient])
    except Abstained as abstention:
        none_found = Detections((), 0.0)
        found += tuple(one if isinstance(one, Detections) else none_found for one in abstention.outcomes)
    detected = dict(zip(strict + lenient, found, strict=True))
    return [
        tuple(box.with_label(name) for name in names for box in best_first(detected[at, name].above(_THRESHOLD)))
        for at in range(len(images))
    ]


def _renamings(sample: EditSample, names: Sequence[str]) -> list[str]:
    """Names that objects got with a new colour or material: they are searched under the old ones too."""
    known_names = {name.casefold() for name in names}
    new_names = {
        renamed_object(task).casefold()
        for task in filter(None, map(task_of, sample.turns))
        if task.type in ("color_alter", "material_alter") and (task.object or "").casefold() in known_names
    }
    return [name for name in names if name.casefold() in new_names]


def _boxes_of_texts(image: Image, texts: Sequence[str]) -> Program[tuple[Box, ...]]:
    """Boxes of lines that match these texts or parts of them. Other writing counts as background."""
    if not texts:
        return ()
    lines = yield from read_places(image)
    expected = [normalize_text(text) for text in texts]
    return tuple(
        line.box.with_label("text")
        for line in lines
        for letters in (normalize_text(line.text),)  # half of them, in order, tolerates misspelling
        if any(2 * matching_letters(letters, text) >= len(letters) > 0 for text in expected)
    )


_READER = "reader.boxes"
"""The role of a reader that localises what it reads. A vision-language model, which reads best, does not."""


def read_places(image: Image) -> Program[tuple[TextLine, ...]]:
    """The lines of text in an image, each with its box. Raises `Failed` for a reader that does not localise."""
    reading = yield from ask(ReadText(image), role=_READER)
    if not reading.is_localised:
        reason = (
            f"the text is needed with its places, and the reader gives none: bind one that does to {_READER}, such as "
            f"{_READER}=rapidocr"
        )
        raise Failed(reason, (Failure(reason, infrastructure=True),))
    return reading.lines


_PRESENT_THRESHOLD = 0.35
_ABSENT_THRESHOLD = 0.2


@dataclass(frozen=True)
class ObjectsPreserved:
    """At least half of the unchanged objects that the base image shows (score above 0.35) are still detected anywhere
    (above 0.2): an emptied image keeps its background, and so half of EdiVal-CC, whose queries these are. Not
    applicable without such objects."""

    card: ClassVar[Card] = Card(
        "guard-objects-preserved",
        1,
        "most of the objects that no instruction touches are still there",
        kinds={"detector": ("detect",)},
        failure_modes="Half of the objects may go, and anything the detector takes for one will do.",
        aspect="cheating",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        pools = pools_of(sample)
        if pools is None or not pools.unchanged:
            return Score.not_applicable("no object is listed as unchanged")
        base, names = sample.base, pools.unchanged
        current = sample.edited.resized(*base.size)
        detections = yield from ask_many([Detect(picture, (name,)) for picture in (base, current) for name in names])
        before, after = detections[: len(names)], detections[len(names) :]
        present = [
            (name, detected_after.max_score())
            for name, detected_before, detected_after in zip(names, before, after, strict=True)
            if detected_before.max_score() > _PRESENT_THRESHOLD
        ]
        if not present:
            return Score.not_applicable("none of the unchanged objects is found in the base picture")
        lost = [name for name, score in present if score <= _ABSENT_THRESHOLD]
        evidence = Evidence("strongest trace of what should be there", current.digest, numbers=dict(present))
        reason = f"no trace is left of {', '.join(lost)}" if lost else ""
        return Score.of(2 * len(lost) <= len(present), reason, evidence=[evidence])
