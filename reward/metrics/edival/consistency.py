"""EdiVal-CC: is everything that the instructions leave alone still as it was? Paper, section 2.4 and Eq. 3.

The current picture is always compared with the *base*, the picture before the first turn, so that drift over turns
shows. Protocols, default first:

| | `fixed` | `official` (released code of 27 Oct 2025) |
|---|---|---|
| size | the current picture at the base's | both at 512 x 512 (LANCZOS) |
| detection at 0.35 | a prompt for each name | all names in one prompt |
| object similarity | mean of two cosines: class token, mean patch token | likewise, registers count as patches |
| mean over | objects | boxes |
| a listed object not found | abstains | counts for nothing; none found: 0.0 |
| a text that was added | where a reader reads it | where the detector sees "text" |
| background | cosine of the mean of patch tokens that boxes leave free | likewise, on a guessed grid |
| boxes cover everything | abstains | 0.0 |

With `similarity="l1"`, 1 - mean absolute difference of pixels takes the place of the cosines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from statistics import fmean
from typing import ClassVar, Literal, get_args

from ..asking import Abstained, Asks, ask, ask_each, gather
from ..boxes import Box
from ..card import Card
from ..compose import Metric, WeightedMean, signed
from ..image import Image, Size
from ..query import Detect, Detections, Embed, Measure, ReadText, Region
from ..sample import EditSample
from ..score import Evidence, Score
from .degree import normalised
from .instructions import task_of
from .pools import pools_of, renamed

Protocol = Literal["fixed", "official"]
Similarity = Literal["features", "l1"]

_THRESHOLD = 0.35
_OFFICIAL_SIZE: Size = (512, 512)
_NO_POOLS = (
    "the object pools are not known: give `pools`, or `boxes` of the base picture and instructions that can be read"
)


@dataclass(frozen=True)
class ObjectConsistency:
    """How alike the unchanged objects are, at the places where they are in the base picture."""

    protocol: Protocol = "fixed"
    similarity: Similarity = "features"
    card: ClassVar[Card] = Card(
        "edival-cc-objects",
        1,
        "the objects that no instruction touches look as in the base picture",
        range=(-1.0, 1.0),
        unit="similarity",
        roles=("detector", "features", "pixels"),
        protocols=get_args(Protocol),
        source="EdiVal-Agent, section 2.4",
        gaming="An unchanged copy has 1.0.",
        about="consistency",
    )

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        score = yield from self._score(sample)
        return score.by(_signature(self))

    def _score(self, sample: EditSample) -> Asks[Score]:
        pools = pools_of(sample)
        if pools is None:
            return Score.abstained(_NO_POOLS)
        if not pools.unchanged:
            return Score.not_applicable("no object is listed as unchanged")
        base, now, said = _pair(sample, self.protocol)
        (found,) = yield from _find((base,), pools.unchanged, self.protocol)
        placed = [(box, corners) for box in found if (corners := box.inside(base.size)) is not None]
        seen = Evidence("unchanged objects in the base picture", base.digest, tuple(box for box, _ in placed))
        labels = {box.label for box, _ in placed}
        missing = [name for name in pools.unchanged if name not in labels]
        if missing and self.protocol == "fixed":
            return Score.abstained(f"not found in the base picture: {', '.join(missing)}", evidence=(seen, *said))
        if not placed:
            return Score.of(0.0, "none of the listed objects was found in the base picture", evidence=(seen, *said))
        pairs = [(base.crop(*corners), now.crop(*corners)) for _, corners in placed]
        alike = yield from self._compare(pairs)
        of_object: dict[str, list[float]] = {}
        for (box, _), value in zip(placed, alike, strict=True):
            of_object.setdefault(box.label, []).append(value)
        parts = {
            name if place == 0 else f"{name} ({place + 1})": Score.of(value)
            for name, values in of_object.items()
            for place, value in enumerate(values)
        }
        value = fmean(map(fmean, of_object.values())) if self.protocol == "fixed" else fmean(alike)
        lowest = min(parts, key=lambda name: parts[name].value or 0.0)
        return Score.of(value, f"least alike: {lowest}", evidence=(seen, *said), parts=parts)

    def _compare(self, pairs: Sequence[tuple[Image, Image]]) -> Asks[list[float]]:
        if self.similarity == "l1":
            measured = yield from ask_each([Measure("l1", pair) for pair in pairs])
            return [found.value for found in measured if found.value is not None]  # nothing is excluded: none is None
        regions = (Region("cls"), Region("patches" if self.protocol == "fixed" else "tokens"))
        vectors = yield from ask_each([Embed(crop, regions) for pair in pairs for crop in pair])
        return [
            (before.cosine(after, 0) + before.cosine(after, 1)) / 2
            for before, after in zip(vectors[::2], vectors[1::2], strict=True)
        ]


@dataclass(frozen=True)
class BackgroundConsistency:
    """How alike the pictures are where no object has ever been."""

    protocol: Protocol = "fixed"
    similarity: Similarity = "features"
    card: ClassVar[Card] = Card(
        "edival-cc-background",
        1,
        "what lies around all objects looks as in the base picture",
        range=(-1.0, 1.0),
        unit="similarity",
        roles=("detector", "reader", "features", "pixels"),
        protocols=get_args(Protocol),
        source="EdiVal-Agent, section 2.4",
        gaming="Damage under a box is not seen, and an object of the pools that appears out of place brings a box.",
        about="consistency",
    )

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        score = yield from self._score(sample)
        return score.by(_signature(self))

    def _score(self, sample: EditSample) -> Asks[Score]:
        pools = pools_of(sample)
        if pools is None:
            return Score.abstained(_NO_POOLS)
        if not pools.background:
            return Score.not_applicable("an instruction changes the background")
        base, now, said = _pair(sample, self.protocol)
        texts = _added_texts(sample) if self.protocol == "fixed" else ()
        names = tuple(name for name in pools.all if not (texts and name == "text"))
        before, after = yield from _find((base, now), names, self.protocol, _renamings(sample, names))
        after += yield from _written(now, texts)
        evidence = (
            Evidence("objects in the base picture", base.digest, before),
            Evidence("objects in the current picture", now.digest, after),
            *said,
        )
        exclude = before + after
        if self.similarity == "l1":
            measured = yield from ask(Measure("l1", (base, now), exclude))
            if measured.value is None:
                return Score.abstained("boxes cover the whole picture", evidence=evidence)
            free = Evidence("background", numbers={"share": measured.share})
            return Score.of(measured.value, evidence=(*evidence, free))
        regions = (Region(exclude=exclude, grid="true" if self.protocol == "fixed" else "guessed"),)
        a, b = yield from ask(Embed(base, regions), Embed(now, regions))
        if self.protocol == "fixed" and not (a.values.any() and b.values.any()):
            return Score.abstained("boxes cover the whole picture", evidence=evidence)
        free = Evidence("background", numbers={"patches": float(a.patches[0])})
        return Score.of(a.cosine(b, 0), evidence=(*evidence, free))


@dataclass(frozen=True)
class ContentConsistency:
    """Mean of object and background consistency (Eq. 3), at least 0; one alone where the other has nothing to compare.

    `parts` holds both, and beside them both by pixels (`objects_l1`, `background_l1`), which do not enter the value.
    Abstains where neither an unchanged object nor an unchanged background is left.
    """

    protocol: Protocol = "fixed"
    similarity: Similarity = "features"
    card: ClassVar[Card] = Card(
        "edival-cc",
        1,
        "objects and background that no instruction touches look as in the base picture",
        roles=("detector", "reader", "features", "pixels"),
        protocols=get_args(Protocol),
        source="EdiVal-Agent, Eq. 3",
        gaming="An unchanged copy has 1.0: use it together with instruction following. Damage under boxes is not seen.",
        about="consistency",
    )

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, sample: EditSample) -> Asks[Score]:
        halves = WeightedMean(
            {
                "objects": ObjectConsistency(self.protocol, self.similarity),
                "background": BackgroundConsistency(self.protocol, self.similarity),
            }
        )
        beside: dict[str, Metric] = {}
        if self.similarity != "l1":
            beside["objects_l1"] = ObjectConsistency(self.protocol, "l1")
            beside["background_l1"] = BackgroundConsistency(self.protocol, "l1")
        score, *others = yield from gather([halves(sample), *(signed(metric, sample) for metric in beside.values())])
        parts = {**score.parts, **dict(zip(beside, others, strict=True))}
        if score.status == "not_applicable":
            score = Score.abstained("neither an unchanged object nor an unchanged background to compare")
        # Cosines may be negative, and where nothing is alike any more it does not matter by how much.
        value = None if score.value is None else max(score.value, 0.0)
        return replace(score, value=value, parts=parts).by(_signature(self))


# -- what they share --------------------------------------------------------------------------------------------------

_Any = ObjectConsistency | BackgroundConsistency | ContentConsistency


def _check(metric: _Any) -> None:
    for option, known in (("protocol", get_args(Protocol)), ("similarity", get_args(Similarity))):
        value = getattr(metric, option)
        if value not in known:
            raise ValueError(f"{metric.card.name} has no {option} {value!r}: there are {', '.join(known)}")


def _signature(metric: _Any) -> str:
    by = "" if metric.similarity == "features" else f"/{metric.similarity}"
    return f"{metric.card.signature}/{metric.protocol}{by}"


def _pair(sample: EditSample, protocol: Protocol) -> tuple[Image, Image, tuple[Evidence, ...]]:
    """The base picture and the current one, of one size, and what was done to make them so."""
    size = sample.base.size if protocol == "fixed" else _OFFICIAL_SIZE
    base, now = sample.base.resized(*size), sample.edited.resized(*size)
    said = tuple(
        Evidence(f"{name} picture resized", image.digest, text="from {} x {} to {} x {}".format(*image.size, *size))
        for name, image in (("base", sample.base), ("current", sample.edited))
        if image.size != size
    )
    return base, now, said


def _find(
    images: Sequence[Image], names: tuple[str, ...], protocol: Protocol, renamings: Sequence[str] = ()
) -> Asks[list[tuple[Box, ...]]]:
    """Boxes of these objects in each picture, name by name. A detector may abstain on `renamings`, and on no others."""
    if not names:
        return [() for _ in images]
    if protocol == "official":
        joint = yield from ask_each([Detect(image, names) for image in images])
        return [found.above(_THRESHOLD) for found in joint]
    strict = [(image, name) for image in images for name in names if name not in renamings]
    lenient = [(image, name) for image in images for name in names if name in renamings]
    found = yield from ask_each([Detect(image, (name,)) for image, name in strict])
    found += yield from _find_if_known([Detect(image, (name,)) for image, name in lenient])
    boxes: list[tuple[Box, ...]] = []
    for image in images:
        here = {name: each for (where, name), each in zip(strict + lenient, found, strict=True) if where is image}
        boxes.append(tuple(box.labelled(name) for name in names for box in here[name].above(_THRESHOLD)))
    return boxes


def _find_if_known(queries: Sequence[Detect]) -> Asks[tuple[Detections, ...]]:
    try:
        found = yield from ask_each(queries)
    except Abstained as unknown:
        nowhere = Detections((), 0.0)
        return tuple(found if isinstance(found, Detections) else nowhere for found in unknown.outcomes)
    return found


def _renamings(sample: EditSample, names: Sequence[str]) -> list[str]:
    """Those of the names that objects among them were given with a new colour or material.

    Such an object is looked for under its old name too, so a detector that knows only objects of the base picture can
    do without the new one.
    """
    tasks = (task_of(turn) for turn in sample.turns)
    known = {name.casefold() for name in names}
    later = {
        renamed(task).casefold()
        for task in tasks
        if task is not None
        and task.type in ("color_alter", "material_alter")
        and (task.object or "").casefold() in known
    }
    return [name for name in names if name.casefold() in later]


def _added_texts(sample: EditSample) -> tuple[str, ...]:
    """Texts that the turns so far added somewhere on the picture; the pools call each of them "text"."""
    tasks = (task_of(turn) for turn in sample.turns)
    return tuple(
        task.text for task in tasks if task is not None and task.type == "text_change" and not task.object and task.text
    )


def _written(image: Image, texts: Sequence[str]) -> Asks[tuple[Box, ...]]:
    """Lines that a reader takes for (part of) these texts. Other writing is background, and not to be there."""
    if not texts:
        return ()
    reading = yield from ask(ReadText(image))
    wanted = [normalised(text) for text in texts]
    return tuple(
        line.box.labelled("text")
        for line in reading.lines
        if any(_resembles(normalised(line.text), text) for text in wanted)
    )


def _resembles(line: str, text: str) -> bool:
    """Whether half of the line's letters stand in the text in this order: readers, and editors, misspell."""
    blocks = SequenceMatcher(None, line, text, autojunk=False).get_matching_blocks()
    return 2 * sum(block.size for block in blocks) >= len(line) > 0
