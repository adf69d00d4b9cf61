"""Hybrid similarity (equation 2): a judge says what to look at, a segmenter where it is, features how alike it is.

Where a segmenter finds nothing in one of the pictures, the metrics here abstain: what was not found has no features to
compare, and whether it is gone or was not recognised nobody knows. A cosine below 0 counts as 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Any, ClassVar

from ..asking import Asks, ask, ask_each, unreadable, value_of
from ..forms import FreeText, Json, Reply
from ..image import Image
from ..query import Embed, Judge, Mask, Region, Segment
from ..sample import EditSample
from ..score import Evidence, Score
from .dimension import DimensionMetric, said, shown
from .table import Pipeline

COMMANDS = Json.of({"type": "array", "items": {"type": "string"}})
"""Commands about one source."""

COMMANDS_BY_SOURCE = Json.of(
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "source_index": {"type": "integer", "minimum": 0},
                "segmentation_prompt": {"type": "string"},
            },
            "required": ["source_index", "segmentation_prompt"],
            "additionalProperties": False,
        },
    }
)
"""Commands, each about one of several sources, which are counted from 0."""

_MARKS = " \t\r\n\"'`*\u201c\u201d\u2018\u2019"
"""What may stand around a command: quotes, and the stars of bold type."""
_ROLES = ("judge", "segmenter", "features")
_TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "subject-identity": "segment_unchanged",
        "multi-non-edited-fidelity": "segment_preserved_multi",
        "multi-subject-consistency": "segment_details_multi",
        "multi-detail-fidelity": "segment_details_multi",
    }
)


@dataclass(frozen=True)
class OutsideSimilarity(DimensionMetric):
    """How alike source and edited picture are outside of what was edited, as the judge and the segmenter find it.

    The judge's command speaks of the edited picture alone. Its mask there, inverted, is laid over both pictures, the
    edited one brought to the source's size. Abstains where the mask is empty, as of an object that was removed, and
    where nothing lies outside of it.
    """

    pipeline: ClassVar[Pipeline] = "outside"
    gaming: ClassVar[str] = (
        "An unchanged copy has 1.0, or none. The judge is shown the edit before it says what was edited: damage that "
        "it takes for the edit costs nothing."
    )

    @property
    def roles(self) -> tuple[str, ...]:
        return _ROLES

    def score(self, sample: EditSample) -> Asks[Score]:
        source, edited = sample.source, sample.edited
        question = self.judge(
            "segment_edited", FreeText(), shown(sample.sources, edited), instruction=sample.instruction
        )
        reply = yield from ask(question)
        command = _command(question, reply, reply.text)
        mask = yield from ask(Segment(edited, command))
        evidence = [said(question, reply), _found(edited, mask, command)]
        if not mask.values.any():
            return Score.abstained(f"nothing in the edited picture is what was meant by {command!r}", evidence=evidence)
        if mask.values.all():
            return Score.abstained("nothing lies outside of what was edited", evidence=evidence)
        outside = mask.inverted()
        cosine = yield from _cosine(source, outside, edited.resized(*source.size), outside)
        return Score.of(max(cosine, 0.0), _in_words(cosine), evidence=evidence)


@dataclass(frozen=True)
class RegionSimilarity(DimensionMetric):
    """How alike what is to stay as it was looks in its source and in the edited picture: the mean over its regions.

    The judge names the regions, for several sources with the source of each, by commands. Each is segmented in its
    source and in the edited picture by itself. What is named twice counts once. Abstains where the judge names nothing,
    and where the segmenter does not find something in one of the two pictures. Fails where a source is named that there
    is not.

    inverted: for multi-non-edited-fidelity only, whether what lies outside of each mask is compared (section 3.2.2)
    instead of what lies inside (appendix F.2.1). Subject Consistency and Detail Fidelity have one command prompt and
    one pipeline in appendix F, hence one value, while the paper's tables have two.
    """

    inverted: bool = False

    pipeline: ClassVar[Pipeline] = "regions"
    gaming: ClassVar[str] = (
        "Only what the judge names counts, and it is shown the edit before it does. A subject that is pasted in "
        "unchanged has 1.0, however badly it fits."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inverted and self.dimension != "multi-non-edited-fidelity":
            raise ValueError(
                f"{self.dimension} compares what is inside of masks: inverted is for multi-non-edited-fidelity"
            )

    @property
    def roles(self) -> tuple[str, ...]:
        return _ROLES

    def score(self, sample: EditSample) -> Asks[Score]:
        topic, form = _TOPICS[self.dimension], COMMANDS_BY_SOURCE if self.known.multi else COMMANDS
        question = self.judge(topic, form, shown(sample.sources, sample.edited), instruction=sample.instruction)
        reply = yield from ask(question)
        named = _named(question, reply, len(sample.sources))
        evidence = [said(question, reply)]
        if not named:
            return Score.abstained("the judge names nothing that is to stay as it was", evidence=evidence)
        places = [picture for index, _ in named for picture in (sample.sources[index], sample.edited)]
        commands = [command for _, command in named for _ in range(2)]
        masks = yield from ask_each([Segment(*asked) for asked in zip(places, commands, strict=True)])
        evidence += [_found(*found) for found in zip(places, masks, commands, strict=True)]
        for place, (mask, command) in enumerate(zip(masks, commands, strict=True)):
            where = "the edited picture" if place % 2 else f"source picture {named[place // 2][0] + 1}"
            if not mask.values.any():
                return Score.abstained(f"in {where} nothing is what was meant by {command!r}", evidence=evidence)
            if self.inverted and mask.values.all():
                return Score.abstained(f"in {where} nothing lies outside of {command!r}", evidence=evidence)
        compared = [mask.inverted() for mask in masks] if self.inverted else masks
        vectors = yield from _embedded(places, compared)
        cosines = [a.cosine(b, 0) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
        parts = {
            f"source picture {index + 1}: {command}": Score.of(max(cosine, 0.0), _in_words(cosine))
            for (index, command), cosine in zip(named, cosines, strict=True)
        }
        least = min(parts, key=lambda name: parts[name].value or 0.0)
        why = f"least alike: {least}, {parts[least].reason}"
        return Score.of(fmean(max(cosine, 0.0) for cosine in cosines), why, parts=parts, evidence=evidence)


def _named(question: Judge, reply: Reply, sources: int) -> list[tuple[int, str]]:
    """What a judge names: number of the source, from 0, and command. Raises `Failed`."""
    named: dict[tuple[int, str], None] = {}
    for item in value_of(question, reply):
        index, command = (0, item) if isinstance(item, str) else (item["source_index"], item["segmentation_prompt"])
        if index >= sources:
            raise unreadable(f"{question.topic}: it names source {index}, and they are 0 to {sources - 1}", reply)
        named[int(index), _command(question, reply, command)] = None
    return list(named)


def _command(question: Judge, reply: Reply, text: str) -> str:
    """A segmentation command, without marks around it. Raises `Failed` where the text is none, or more than one."""
    command = text.strip(_MARKS)
    if not re.fullmatch(r"Please segment\b[^\n]*\w[^\n]*", command, re.IGNORECASE):
        raise unreadable(f"{question.topic}: it was to write one line that begins with Please segment", reply)
    return command


def _cosine(before: Image, there: Mask, after: Image, here: Mask) -> Asks[float]:
    a, b = yield from _embedded((before, after), (there, here))
    return float(a.cosine(b, 0))


def _embedded(pictures: Sequence[Image], masks: Sequence[Mask]) -> Asks[tuple[Any, ...]]:
    """Features inside a mask of each picture."""
    regions = zip(pictures, masks, strict=True)
    return (yield from ask_each([Embed(picture, (Region(inside=mask),)) for picture, mask in regions]))


def _found(picture: Image, mask: Mask, command: str) -> Evidence:
    numbers = {"share": float(mask.values.mean()), "score": float(mask.score)}
    return Evidence("segment", picture.digest, text=command, numbers=numbers)


def _in_words(cosine: float) -> str:
    return f"cosine {cosine:.3f}" + (", which counts as 0" if cosine < 0 else "")
