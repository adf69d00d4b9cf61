"""Contact sheets: a ranking or a selection as one HTML file with images, detected boxes and evidence.

The file is self-contained (images as data URIs, no scripts, fonts or links).
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont
import PIL.ImageOps

from ...reward import Box, Card, EditSample, Evidence, Image, ImageError, Score
from ...verifiers import Candidate, Selection
from ...verifiers.selection import Cost, Selections
from .ranking import CandidateRanking, RankedCandidate, rank_group

SIDE = 640  # longer side of an image in the sheet, in pixels
_Rectangle = tuple[float, float, float, float]
_MIN_SIDE = 240
_FONT = 17
# Distinguishable with common colour vision deficiencies (Okabe and Ito), darker ones first.
_COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#b8417f", "#8a6d00", "#4b4fa8", "#8c3b00", "#00708a")


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a score: name, depth, value as text, and as `fraction` if it is in [0, 1]."""

    name: str
    depth: int
    text: str
    fraction: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class CandidateView:
    """A candidate of the sheet."""

    ranked: RankedCandidate
    picture: Image
    boxes: tuple[Box, ...]
    bars: tuple[Bar, ...]
    all_bars: tuple[Bar, ...]
    evidence: tuple[tuple[str, Evidence], ...]


@dataclass(frozen=True)
class SheetSection:
    """A group of the sheet."""

    ranking: CandidateRanking

    @property
    def source_boxes(self) -> tuple[Box, ...]:
        """The sample's boxes, else the boxes that experts detected in the source."""
        sample = self.ranking.reference_sample
        if sample.history or not sample.boxes:
            boxes_by_candidate = (
                boxes_on(sample.source, candidate.sample, candidate.score) for candidate in self.ranking.candidates
            )
            return _deduplicate_boxes(box for boxes in boxes_by_candidate for box in boxes)
        return tuple(box for boxes in sample.boxes.values() for box in boxes)

    @property
    def shown(self) -> Iterator[CandidateView]:
        for candidate in self.ranking.candidates:
            score = candidate.score
            boxes = boxes_on(candidate.sample.edited, candidate.sample, score)
            all_bars, bars = tuple(score_bars(score)), tuple(top_level_bars(score))
            yield CandidateView(candidate, candidate.sample.edited, boxes, bars, all_bars, tuple(evidence(score)))

    @property
    def colours(self) -> dict[str, str]:
        """A colour for each label, the same in all images of the group."""
        boxes = [*self.source_boxes, *(box for view in self.shown for box in view.boxes)]
        labels = dict.fromkeys(box.label for box in boxes if box.label)
        return {label: _COLOURS[number % len(_COLOURS)] for number, label in enumerate(labels)}


def write_sheet(path: Path, rankings: Sequence[CandidateRanking], card: Card) -> None:
    """Write the rankings as one HTML file; images are read one at a time. Raises OSError."""
    sections = (SheetSection(ranking) for ranking in rankings)
    render(path, "rank.html", card=card, count=len(rankings), sections=sections)


def render(path: Path, name: str, **context: Any) -> None:
    """Render a template to a file; `draw` in it is `data_uri`. Raises OSError."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    template = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    pieces = template.get_template(name).stream(draw=data_uri, **context)
    with path.open("wb") as file:
        pieces.dump(file, encoding="utf-8", errors="replace")


def score_bars(score: Score, depth: int = 0) -> Iterator[Bar]:
    """Parts and credits, each before its own parts."""
    for name, part in {**score.parts, **score.credits}.items():
        value = part.value
        share = value if value is not None and 0 <= value <= 1 else None
        text = f"{value:.3f}" if value is not None else part.status.replace("_", " ")
        yield Bar(name, depth, text, share, part.reason)
        yield from score_bars(part, depth + 1)


def top_level_bars(score: Score, depth: int = 0) -> Iterator[Bar]:
    """The bars shown initially: the outer three levels, without the parts of a score that is 1.0 throughout."""
    inner = {**score.parts, **score.credits}
    for bar, part in zip((bar for bar in score_bars(score, depth) if bar.depth == depth), inner.values(), strict=True):
        yield bar
        if depth < 2 and any(bar_.fraction != 1 for bar_ in score_bars(part)):
            yield from top_level_bars(part, depth + 1)


def evidence(score: Score, name: str = "") -> Iterator[tuple[str, Evidence]]:
    """The evidence of a score and its parts, each with the path of its part."""
    for item in score.evidence:
        yield name, item
    for part, child in (*score.parts.items(), *score.credits.items()):  # both may have one of the same name
        yield from evidence(child, f"{name} / {part}" if name else part)


def boxes_on(picture: Image, sample: EditSample, score: Score) -> tuple[Box, ...]:
    """Boxes of the evidence on this image, or on the image at the size of the source or the base."""
    sizes = {picture.size, sample.source.size, sample.base.size}
    digests = {picture.resized(*size).digest for size in sizes}
    return _deduplicate_boxes(box for _, item in evidence(score) if item.image in digests for box in item.boxes)


def _deduplicate_boxes(boxes: Iterable[Box]) -> tuple[Box, ...]:
    unique: dict[tuple[object, ...], Box] = {}
    for box in sorted(boxes, key=lambda box: -box.score):
        unique.setdefault((box.label, *(round(side, 2) for side in (box.x0, box.y0, box.x1, box.y1))), box)
    return tuple(unique.values())


def data_uri(
    picture: Image, boxes: Sequence[Box] = (), colours: Mapping[str, str] | None = None, *, side: int = SIDE
) -> str:
    """An image with boxes drawn on it, as a JPEG data URI. Empty for an unreadable image."""
    try:
        drawn = draw(picture, boxes, colours or {}, side)
    except ImageError:
        return ""
    encoded = io.BytesIO()
    drawn.save(encoded, "JPEG", quality=88, subsampling=0)
    return "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


def draw(picture: Image, boxes: Sequence[Box], colours: Mapping[str, str], side: int = SIDE) -> PIL.Image.Image:
    """The image, at most `side` pixels long, with boxes and labels; line width grows with the score. Raises
    `ImageError` for an unreadable image."""
    drawn = _downscale(picture.pil(), side)
    pen = PIL.ImageDraw.Draw(drawn)
    font = PIL.ImageFont.load_default(_FONT)
    inside = [(box, corners) for box in boxes if (corners := box.clipped_corners(drawn.size)) is not None]
    for box, (x0, y0, x1, y1) in sorted(inside, key=lambda item: bool(item[0].label)):
        colour, width = (
            (colours.get(box.label, _COLOURS[0]), 3 if box.score >= 0.5 else 2) if box.label else ("white", 1)
        )
        x1, y1 = max(x1 - 1, x0), max(y1 - 1, y0)
        pen.rectangle((x0 - 1, y0 - 1, x1 + 1, y1 + 1), outline="black" if colour == "white" else "white", width=1)
        pen.rectangle((x0, y0, x1, y1), outline=colour, width=width)
    label_boxes: list[_Rectangle] = []
    for box, corners in sorted(inside, key=lambda item: -item[0].area):
        if text := _label(box):
            label_box = _place_label(pen.textbbox((0, 0), text, font), corners, drawn.size, label_boxes)
            label_boxes.append(label_box)
            pen.rectangle(label_box, fill=colours.get(box.label, _COLOURS[0]))
            pen.text((label_box[0] + 4, label_box[1] + 1), text, fill="white", font=font)
    return drawn


def _downscale(picture: PIL.Image.Image, max_side: int) -> PIL.Image.Image:
    longest = max(picture.size)
    if longest > max_side:
        width, height = (max(1, round(length * max_side / longest)) for length in picture.size)
        return picture.resize((width, height), PIL.Image.Resampling.LANCZOS)
    factor = -(-min(_MIN_SIDE, max_side) // longest)  # an integer keeps pixels square
    return picture if factor == 1 else PIL.ImageOps.scale(picture, factor, PIL.Image.Resampling.NEAREST)


def _label(box: Box) -> str:
    """The label at a box: the score of a detected box, else the name. The legend's colours show the names of detected
    boxes. The font has Latin letters only; names in other scripts are in the legend only."""
    if not box.label:
        return ""
    if box.score < 1:
        return f"{box.score:.2f}"
    name = box.label if all(ord(letter) < 0x250 for letter in box.label) else "·"
    return name if len(name) <= 28 else f"{name[:27]}…"


def _place_label(
    text: _Rectangle, box: tuple[int, int, int, int], size: tuple[int, int], taken: Sequence[_Rectangle]
) -> _Rectangle:
    """The first free position of a label: above its box, in it, below it or further down; else above."""
    width, height = text[2] + 8, text[3] + 5
    x = max(0, min(box[0], size[0] - width))
    rows = [box[1] - height, box[1], box[3] - height, box[3], *np.arange(box[1] + height, size[1] - height, height)]
    for y in rows:
        is_free = (x >= b[2] or x + width <= b[0] or y >= b[3] or y + height <= b[1] for b in taken)
        if y >= 0 and y + height <= size[1] and all(is_free):
            return (x, y, x + width, y + height)
    y = max(0, min(box[1] - height, size[1] - height))
    return (x, y, x + width, y + height)


_NO_SCORE = float("-inf")


@dataclass(frozen=True, slots=True)
class AttemptView:
    """A candidate of the sheet. rank: by its score within its step; None without one, and if none was chosen."""

    candidate: Candidate
    rank: int | None
    reason: str
    chosen: bool
    view: CandidateView | None = None

    @property
    def value(self) -> str:
        """The value, or the status of a candidate or score without one."""
        if self.candidate.status != "made":
            return self.candidate.status
        value = self.candidate.value
        return self.candidate.score.status.replace("_", " ") if value is None else f"{value:.4f}"


@dataclass(frozen=True, slots=True)
class StepView:
    """The candidates of one step, the chosen one first. section: None if none of them has an image."""

    number: int
    instruction: str
    attempts: tuple[AttemptView, ...]
    section: SheetSection | None


def list_attempts(selection: Selection) -> list[AttemptView]:
    """All candidates, step by step, without their views."""
    return [
        attempt
        for number in _numbers(selection)
        for attempt in _attempts(selection, number, None, _ranking(selection, number))
    ]


def write_selection_sheet(path: Path, selections: Selections, card: Card, facts: Mapping[str, str]) -> None:
    """Write one self-contained HTML file. facts: additional entries by name. Raises OSError."""
    render(
        path, "selection.html", selections=selections, card=card, facts=facts, steps_of=_steps, format_cost=format_cost
    )


def format_cost(cost: Cost) -> str:
    """A cost, as in `8 NFE, 1 judge call, 0.12 s`."""
    parts = [f"{cost.nfe:,} NFE"] if cost.nfe else []
    if cost.judge_calls:
        parts.append(f"{cost.judge_calls:,} judge call{'' if cost.judge_calls == 1 else 's'}")
    return ", ".join([*parts, f"{cost.seconds:.3g} s"])


def _steps(selection: Selection) -> list[StepView]:
    views = []
    for number in _numbers(selection):
        ranking = _ranking(selection, number)
        section = None if ranking is None else SheetSection(ranking)
        candidates = [candidate for candidate in selection.candidates if candidate.step == number]
        instruction = next((candidate.sample.instruction for candidate in candidates if candidate.sample), "")
        views.append(StepView(number, instruction, tuple(_attempts(selection, number, section, ranking)), section))
    return views


def _numbers(selection: Selection) -> list[int]:
    return sorted({candidate.step for candidate in selection.candidates})


def _order(selection: Selection, number: int) -> list[Candidate]:
    """The candidates of a step in the order that breaks ties."""
    chosen = _chosen_candidates(selection)

    def key(candidate: Candidate) -> tuple[bool, float, int, str]:
        tie = (
            _NO_SCORE
            if candidate.tiebreak_score is None or candidate.tiebreak_score.value is None
            else candidate.tiebreak_score.value
        )
        return candidate.id not in chosen, -tie, candidate.noise.seed, candidate.id

    return sorted((candidate for candidate in selection.candidates if candidate.step == number), key=key)


def _chosen_candidates(selection: Selection) -> set[str]:
    return {candidate.id for candidate in (*selection.steps, selection.winner) if candidate is not None}


def _ranking(selection: Selection, number: int) -> CandidateRanking | None:
    """The candidates of a step with an image, ranked; their ids are their positions in `_order`, which breaks ties."""
    order, chosen = _order(selection, number), _chosen_candidates(selection)
    members = [
        (replace(candidate.sample, id=f"{position:06}", group=f"step {number}"), candidate.score)
        for position, candidate in enumerate(order)
        if candidate.sample is not None
    ]
    has_best = any(candidate.id in chosen for candidate in order)
    return CandidateRanking(f"step {number}", tuple(rank_group(members, has_best))) if members else None


def _attempts(
    selection: Selection, number: int, section: SheetSection | None, ranking: CandidateRanking | None
) -> list[AttemptView]:
    """The chosen candidate, then by rank, then those without a rank."""
    order, chosen = _order(selection, number), _chosen_candidates(selection)
    views = {} if section is None else {int(candidate.ranked.sample.id): candidate for candidate in section.shown}
    attempts = []
    for ranked in () if ranking is None else ranking.candidates:
        position = int(ranked.sample.id)
        candidate = order[position]
        attempts.append(AttemptView(candidate, ranked.rank, ranked.reason, candidate.id in chosen, views.get(position)))
    attempts += [
        AttemptView(candidate, None, candidate.score.reason, False) for candidate in order if candidate.sample is None
    ]
    return sorted(attempts, key=lambda candidate: not candidate.chosen)
