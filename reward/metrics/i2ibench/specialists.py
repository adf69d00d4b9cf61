"""Pipelines that ask more than a judge: compared regions, models that rate the edited image, and a reader.

Hybrid similarity (equation 2): a judge names regions, a segmenter localises them, features compare them. Where the
segmenter finds nothing in one of the images, the metrics abstain; if it found the object in the source, the edit is the
cause, and the tables count the edit as the lowest value. Outside of an edited region of which nothing is there, as
after a removal, lies the whole picture (NOT M of an empty M). A cosine below 0 counts as 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ...card import Card
from ...engine.program import Program, ask, ask_many, reply_value, unparsable_reply
from ...image import Image
from ...queries.answers import Embeddings, Mask, Region
from ...queries.kinds import Embed, Judge, Rate, ReadText, Segment
from ...queries.response_formats import FreeText, Json, Reply, YesNo
from ...sample import EditSample
from ...score import Cause, Evidence, Score
from ..compose import Metric, Product
from ..edival.inspector import normalize_text
from ..prompted_metric import object_schema, reply_evidence
from .dimensions import JUDGE_KINDS, DimensionMetric, Kinds, Pipeline, judge_value, labelled_images

COMMANDS = Json.from_schema({"type": "array", "items": {"type": "string"}})
"""Segmentation commands for one source."""

_COMMAND = object_schema(source_index={"type": "integer", "minimum": 0}, segmentation_prompt={"type": "string"})
COMMANDS_BY_SOURCE = Json.from_schema({"type": "array", "items": _COMMAND})
"""Segmentation commands, each for one of several sources, which are counted from 0."""

_MARKS = " \t\r\n\"'`*\u201c\u201d\u2018\u2019"
"""Characters allowed around a command: quotes, and the asterisks of bold type."""
REGION_KINDS: Kinds = {"judge": ("judge",), "segmenter": ("segment",), "features": ("embed",)}
"""The kinds of queries, by role, of pipelines that compare segmented regions."""
_TOPICS: Mapping[str, str] = {
    "subject-identity": "segment_unchanged",
    "multi-non-edited-fidelity": "segment_preserved_multi",
    "multi-subject-consistency": "segment_details_multi",
    "multi-detail-fidelity": "segment_details_multi",
}


@dataclass(frozen=True)
class OutsideSimilarity(DimensionMetric):
    """Similarity of source and edit outside the edited region, which the judge names and the segmenter finds in the
    edit; its inverse is applied to both. Where nothing is found, the whole images are compared: our reading. Abstains
    if it is everything."""

    pipeline: ClassVar[Pipeline] = "outside"
    pipeline_kinds: ClassVar[Kinds] = REGION_KINDS
    version: ClassVar[int] = 3
    failure_modes: ClassVar[str] = (
        "An unchanged copy has 1.0. The judge is shown the edit before it says what was edited: damage that it takes "
        "for the edit costs nothing. Where the segmenter finds nothing, the whole picture is compared, and with it the "
        "edit, whether it is a removal or was only not found."
    )

    def score(self, sample: EditSample) -> Program[Score]:
        source, edited = sample.source, sample.edited
        question = self.asked(sample, "segment_edited", FreeText(), {"instruction": sample.instruction})
        reply = yield from ask(question)
        command = _command(question, reply, reply.text)
        mask = yield from ask(Segment(edited, command))
        evidence = [reply_evidence(question, reply), _segmented(edited, mask, command)]
        if mask.values.all():
            return Score.abstained("nothing lies outside of what was edited", evidence=evidence)
        a, b = yield from _embedded((source, edited.resized(*source.size)), [mask.inverted()] * 2)
        cosine = a.cosine(b, 0)
        reason = _in_words(cosine)
        if not mask.values.any():
            reason = f"nothing is what was meant by {command!r}, so the whole pictures are compared: {reason}"
        return Score.of(max(cosine, 0.0), reason, evidence=evidence)


@dataclass(frozen=True)
class RegionSimilarity(DimensionMetric):
    """Similarity of the regions to preserve between their source and the edit: the mean over those that the judge
    names, each segmented in both. Abstains if it names nothing, or nothing is found in one. Fails for an unknown
    source.

    Args:
        inverted: For multi-non-edited-fidelity only, whether the outside of each mask is compared (section 3.2.2)
            instead of the inside (appendix F.2.1). Subject Consistency and Detail Fidelity have the same command prompt
            and pipeline in appendix F, hence the same value, while the paper's tables have two.
    """

    inverted: bool = False

    pipeline: ClassVar[Pipeline] = "regions"
    pipeline_kinds: ClassVar[Kinds] = REGION_KINDS
    failure_modes: ClassVar[str] = (
        "Only what the judge names counts, and it is shown the edit before it does. A subject that is pasted in "
        "unchanged has 1.0, however badly it fits."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inverted and self.dimension != "multi-non-edited-fidelity":
            problem = "compares what is inside of masks: inverted is for multi-non-edited-fidelity"
            raise ValueError(f"{self.dimension} {problem}")

    def score(self, sample: EditSample) -> Program[Score]:
        topic, form = _TOPICS[self.dimension], COMMANDS_BY_SOURCE if self.dimension_info.multi else COMMANDS
        question = self.asked(sample, topic, form, {"instruction": sample.instruction})
        reply = yield from ask(question)
        commands_by_source = _parse_commands(question, reply, len(sample.sources))
        evidence = [reply_evidence(question, reply)]
        if not commands_by_source:
            return Score.abstained("the judge names nothing that is to stay as it was", evidence=evidence)
        images = [picture for index, _ in commands_by_source for picture in (sample.sources[index], sample.edited)]
        commands = [command for _, command in commands_by_source for _ in range(2)]
        masks = yield from ask_many([Segment(*segment_args) for segment_args in zip(images, commands, strict=True)])
        evidence += [_segmented(*evidence_args) for evidence_args in zip(images, masks, commands, strict=True)]
        if problem := self._nothing_to_compare(commands_by_source, masks):
            return Score.abstained(problem[0], evidence=evidence, cause=problem[1])
        compared = [mask.inverted() for mask in masks] if self.inverted else masks
        vectors = yield from _embedded(images, compared)
        cosines = [a.cosine(b, 0) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
        parts = {
            f"source picture {index + 1}: {command}": Score.of(max(cosine, 0.0), _in_words(cosine))
            for (index, command), cosine in zip(commands_by_source, cosines, strict=True)
        }
        least_similar = min(parts, key=lambda name: parts[name].value or 0.0)
        reason = f"least alike: {least_similar}, {parts[least_similar].reason}"
        return Score.of(fmean(max(cosine, 0.0) for cosine in cosines), reason, parts=parts, evidence=evidence)

    def _nothing_to_compare(
        self, commands: Sequence[tuple[int, str]], masks: Sequence[Mask]
    ) -> tuple[str, Cause] | None:
        """Why a region has nothing to compare, by masks of both images; cause `edit` if its source has something."""
        problems: list[tuple[str, Cause]] = []
        for (index, command), before, after in zip(commands, masks[::2], masks[1::2], strict=True):
            if problem := self._is_empty(before, command):
                problems.append((f"in source picture {index + 1} {problem}", ""))
            elif problem := self._is_empty(after, command):
                problems.append((f"in the edited picture {problem}", "edit"))
        return max(problems, key=lambda problem: problem[1], default=None)

    def _is_empty(self, mask: Mask, command: str) -> str:
        if not mask.values.any():
            return f"nothing is what was meant by {command!r}"
        return f"nothing lies outside of {command!r}" if self.inverted and mask.values.all() else ""


def _parse_commands(question: Judge, reply: Reply, sources: int) -> list[tuple[int, str]]:
    """The judge's commands: index of the source, from 0, and command. Raises `Failed`."""
    commands: dict[tuple[int, str], None] = {}
    for item in reply_value(question, reply):
        index, command = (0, item) if isinstance(item, str) else (item["source_index"], item["segmentation_prompt"])
        if index >= sources:
            raise unparsable_reply(f"{question.topic}: it names source {index}, and they are 0 to {sources - 1}", reply)
        commands[int(index), _command(question, reply, command)] = None
    return list(commands)


def _command(question: Judge, reply: Reply, text: str) -> str:
    """A segmentation command without surrounding marks. Raises `Failed` unless the text is exactly one command."""
    command = text.strip(_MARKS)
    if not re.fullmatch(r"Please segment\b.*\w[^\w\n]*", command, re.IGNORECASE):
        raise unparsable_reply(f"{question.topic}: it was to write one line that begins with Please segment", reply)
    return command


def _embedded(pictures: Sequence[Image], masks: Sequence[Mask]) -> Program[tuple[Embeddings, ...]]:
    inside = zip(pictures, masks, strict=True)
    return ask_many([Embed(picture, (Region(inside=mask),)) for picture, mask in inside])


def _segmented(picture: Image, mask: Mask, command: str) -> Evidence:
    numbers = {"share": float(mask.values.mean()), "score": float(mask.score)}
    return Evidence("segment", picture.digest, text=command, numbers=numbers)


def _in_words(cosine: float) -> str:
    return f"cosine {cosine:.3f}" + (", which counts as 0" if cosine < 0 else "")


@dataclass(frozen=True)
class SubjectExtraction(DimensionMetric):
    """The judge's probability that the number of subjects is correct, times subject consistency.

    No value if one of the two has none, unless the other is 0; `parts` has both.
    """

    pipeline: ClassVar[Pipeline] = "extraction"
    pipeline_kinds: ClassVar[Kinds] = REGION_KINDS
    failure_modes: ClassVar[str] = RegionSimilarity.failure_modes

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.consistency  # its prompts are read now

    @cached_property
    def consistency(self) -> RegionSimilarity:
        """The metric of the subjects' identity."""
        return RegionSimilarity("multi-subject-consistency", prompts=self.prompts)

    @property
    def identity_options(self) -> dict[str, Any]:
        """See `queries.identity`."""
        return {"dimension": self.dimension, "judge_only": self.judge_only, "consistency": self.consistency}

    @cached_property
    def _product(self) -> Product:
        parts: dict[str, Metric] = {"count": _SubjectCount(self), "consistency": self.consistency}
        return Product(parts, on_not_applicable="whole")

    def score(self, sample: EditSample) -> Program[Score]:
        # Subject consistency is needed here even if it is not among the sample's dimensions.
        return self._product(replace(sample, dimensions=None))


@dataclass(frozen=True)
class _SubjectCount:
    """Whether all required subjects are present, in the correct number."""

    of: SubjectExtraction

    card: ClassVar[Card] = Card(
        "i2i-multi-count", 1, "all required subjects are there, in the right number", kinds=JUDGE_KINDS
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        return judge_value(self.of.asked(sample, "count", YesNo(), {"instruction": sample.instruction}))


_SPECIALISTS: Mapping[str, tuple[str, str, tuple[float, float]]] = {
    "image-quality": ("quality", "image quality", (1.0, 5.0)),
    "aesthetic-quality": ("aesthetics", "aesthetics", (0.0, 100.0)),
}
"""Dimension -> role, rated quality, and the published range of the paper's model: Q-Insight and ArtiMuse."""


@dataclass(frozen=True)
class SpecialistRating(DimensionMetric):
    """The rating of a specialist model, normalised from its scale to 0..1.

    Args:
        scale: Lowest and highest rating. None: that of the paper's model, Q-Insight with 1 to 5 for image quality and
            ArtiMuse with 0 to 100 for aesthetics. The paper prints normalised values and does not state the range.
            Fails if a rating lies outside the scale.
    """

    scale: tuple[float, float] | None = None

    pipeline: ClassVar[Pipeline] = "specialist"
    failure_modes: ClassVar[str] = (
        "Beautifying and sharpening pay, whether they were asked for or not, and so does no edit."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale is None:
            return
        scale: tuple[float, ...] = tuple(self.scale)  # a spec may have a list
        if len(scale) != 2 or not all(map(math.isfinite, scale)) or scale[0] >= scale[1]:
            raise ValueError(f"scale must be the lowest and the highest rating, got {scale}")
        object.__setattr__(self, "scale", scale)

    @property
    def kinds(self) -> Kinds:
        return {self._specialist[0]: ("rate",)}

    @property
    def _specialist(self) -> tuple[str, str, tuple[float, float]]:
        return _SPECIALISTS[self.dimension.removeprefix("multi-")]

    def score(self, sample: EditSample) -> Program[Score]:
        role, quality, default_scale = self._specialist
        low, high = self.scale or default_scale
        rating = yield from ask(Rate(sample.edited, quality=quality), role=role)
        assert rating.value is not None  # `Rate.check` lets no other answer through
        evidence = [Evidence(f"rate {quality}", sample.edited.digest, numbers={"rating": rating.value})]
        if not low <= rating.value <= high:
            given = f"from {low:g} to {high:g}, got {rating.value:g}"
            return Score.failed(f"the {role} expert rates {given}: give its scale=(low, high)", evidence=evidence)
        value = (rating.value - low) / (high - low)
        return Score.of(value, f"{rating.value:g} of {low:g} to {high:g}", evidence=evidence)


TextContent = Literal["whole", "part"]
Letters = Literal["folded", "exact"]

_WORDS = ("style_requirement", "position_requirement", "image_observation", "reasoning")
_STYLE_SCHEMA = object_schema(
    **{name: {"type": "string"} for name in _WORDS}, score={"type": "integer", "minimum": 1, "maximum": 5}
)
STYLE = Json.from_schema(_STYLE_SCHEMA)
"""The response format for style and position."""
PRINTED_STYLE = Json.from_schema(object_schema(analysis=_STYLE_SCHEMA))
"""The same as the prompt of appendix F.1.2 asks for it."""


@dataclass(frozen=True)
class TextContentStyle(DimensionMetric):
    """Style grade (1 to 5, normalised to 0..1), times 1, 0.8, 0.5 or 0.1 depending on text accuracy (equation 5).

    Text accuracy: 1 - edit distance / length of the longer text, both without case, punctuation and white space, or
    with them where letters is `exact`, but for white space around the text: the paper does not state which.

    Args:
        content: Whether all text read in the image is compared (`whole`), or the part that is nearest to the requested
            text (`part`, for images with other writing; the paper does not specify it). With `part`, 1 - distance /
            length of the requested text.
    """

    content: TextContent = "whole"
    letters: Letters = "folded"

    choices: ClassVar[Mapping[str, Collection[object]]] = {
        "content": get_args(TextContent),
        "letters": get_args(Letters),
    }
    pipeline: ClassVar[Pipeline] = "text"
    pipeline_kinds: ClassVar[Kinds] = {"reader": ("read_text",), "judge": ("judge",)}
    failure_modes: ClassVar[str] = (
        "Looks at the text and at nothing else. By `whole`, covering other writing in the image pays; by `part`, "
        "filling it with writing."
    )

    def score(self, sample: EditSample) -> Program[Score]:
        printed = self.prompt_pack.pack_says("text_style", "analysis")
        slots = {"instruction": sample.instruction, "text": sample.target_text}
        shown = labelled_images(edited=sample.edited)
        question = self.question("i2i/text_style", shown, PRINTED_STYLE if printed else STYLE, slots)
        reading, reply = yield from ask(ReadText(sample.edited, sample.target_text), question)
        value = reply_value(question, reply)
        style = (value["analysis"] if printed else value)["score"]
        part, exact = self.content == "part", self.letters == "exact"
        accuracy = text_accuracy(reading.text, sample.target_text, part=part, exact=exact)
        boxes = tuple(line.box.with_label(line.text) for line in reading.lines)
        read = Evidence("read", sample.edited.digest, boxes, reading.text, {"right": accuracy})
        reason = f"style {style} of 5, {accuracy:.3f} of the text is right"
        evidence = [read, reply_evidence(question, reply)]
        return Score.of((style - 1) / 4 * text_accuracy_factor(accuracy), reason, evidence=evidence)


def text_accuracy_factor(accuracy: float) -> float:
    """The factor of the style grade for a text accuracy, both in [0, 1] (equation 5)."""
    return 1.0 if accuracy >= 1 else 0.8 if accuracy >= 0.8 else 0.5 if accuracy >= 0.6 else 0.1


def text_accuracy(read: str, expected: str, *, part: bool = False, exact: bool = False) -> float:
    """Text accuracy in [0, 1]; see `TextContentStyle`."""
    a, b = (text.strip() if exact else normalize_text(text) for text in (expected, read))
    longer = len(a) if part else max(len(a), len(b))
    return max(0.0, 1 - edit_distance(a, b, part=part) / longer) if longer else 1.0


def edit_distance(expected: str, read: str, *, part: bool = False) -> int:
    """Levenshtein distance; with `part`, to the nearest substring of `read`."""
    columns = np.arange(len(read) + 1)
    letters = np.array([ord(letter) for letter in read], np.int64)
    row = np.zeros_like(columns) if part else columns
    for number, letter in enumerate(expected, start=1):
        below = np.empty_like(row)
        below[0] = number
        below[1:] = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(letter)))
        row = np.minimum.accumulate(below - columns) + columns  # letters of `read` that are too many
    return int(row.min() if part else row[-1])
