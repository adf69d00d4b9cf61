"""Compares a model that lies here with scores that are published of it: does it answer here as it did there?

References are TOML files in `references`: where the numbers stand, and for each picture what was asked and answered.
Nothing is downloaded: what is missing is told, and where it is to be had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..reward import Box, Detect, Detections, Embed, Expert, ExpertDown, Failure, Image, Measured, Rate, Region, Vectors
from ..reward.models.local import LocalExpert
from ..reward.query import EmbedText, Query
from .digests import sha256
from .inputs import PICTURES, InputError
from .reference import Item, Reference, read
from .weights_here import look, offline
from .would_load import bound, known_as, within


@dataclass(frozen=True, slots=True)
class Row:
    """One number, or the furthest of several. verdict: `agrees`, `differs` or `failed`."""

    picture: str
    asked: str
    expected: str
    got: str
    difference: float | None
    allowed: float
    verdict: str


@dataclass(frozen=True)
class Checked:
    """All of a reference."""

    reference: Reference
    expert: str
    rows: tuple[Row, ...]

    @property
    def exit_code(self) -> int:
        """1 where something is not as published."""
        return int(any(row.verdict != "agrees" for row in self.rows))

    def to_json(self) -> dict[str, Any]:
        said = {name: getattr(self.reference, name) for name in ("model", "source", "note")}
        return {**said, "expert": self.expert, "rows": [asdict(row) for row in self.rows]}


def check(name: str, pictures: Path, experts: Sequence[str] = ()) -> Checked:
    """Ask what the reference asks. experts: who is asked instead of the reference's own expert, one.

    Raises `InputError` for what is missing or means nothing.
    """
    reference = read(name)
    wanted = bound(experts or [f"checked={reference.expert}"])
    if len({id(one) for one in wanted.values()}) != 1:
        raise InputError(f"--check compares one expert, got {len(wanted)}: {', '.join(wanted)}")
    expert = next(iter(wanted.values()))
    found, missing = _pictures(reference, pictures)
    missing += _weights(expert)
    if missing:
        raise InputError("; ".join(missing))
    queries = [_query(item, found) for item in reference.item]
    with offline():
        try:
            outcomes = _answers(expert, [each for some in queries for each in some])
            said = expert.id
        except ExpertDown as error:
            raise InputError(f"{reference.model} cannot be asked: {error}") from None
    answered = iter(outcomes)
    rows = [
        row
        for item, some in zip(reference.item, queries, strict=True)
        for row in _compared(item, [next(answered) for _ in some], found[item.picture])
    ]
    return Checked(reference, said, tuple(rows))


# -- what is here -----------------------------------------------------------------------------------------------------


def _pictures(reference: Reference, folder: Path) -> tuple[dict[str, Image], list[str]]:
    """Pictures by name, and what is missing."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}")
    found: dict[str, Image] = {}
    missing: dict[str, str] = {}
    for item in reference.item:
        for name in (item.picture, *item.sources):
            if name in found or name in missing:
                continue
            at = _picture(folder, name)
            where = item.where or (f"{reference.pictures.rstrip('/')}/{name}" if reference.pictures else "")
            if at is None:
                missing[name] = f"{name}{f' from {where}' if where else ''}"
            elif item.sha256 and name == item.picture and sha256(at) != item.sha256:
                raise InputError(f"{at} is another picture than the one that was scored: its sha256 is {sha256(at)}")
            else:
                found[name] = Image.of(at)
    told = f"pictures are missing in {folder}: {', '.join(missing.values())}"
    return found, [told] if missing else []


def _picture(folder: Path, name: str) -> Path | None:
    """By its name, or by that in another format, which decoders may read a little differently."""
    place = folder / name
    others = (place.with_suffix(suffix) for suffix in sorted(PICTURES))
    return next((one for one in (place, *others) if one.is_file()), None)


def _weights(expert: Expert) -> list[str]:
    expert, _ = within(expert)
    if not isinstance(expert, LocalExpert):
        return []
    with offline():
        found = look(expert.name, expert.revision, expert.weights_file)
    if found.here:
        return []
    if found.source in ("folder", "file", "nowhere"):
        why = found.problem or f"{found.path} lacks {', '.join(found.lacking)}"
        return [f"weights are missing: {why}"]
    known = known_as(expert.name)
    file = "" if expert.weights_file == "config.json" else f" {expert.weights_file}"
    terms = f" ({known.licence}{', gated: accept its terms there first' if known.gated else ''})" if known else ""
    return [f"weights of {expert.name} are not here: hf download {expert.name}{file}{terms}"]


# -- asking -----------------------------------------------------------------------------------------------------------


def _query(item: Item, pictures: Mapping[str, Image]) -> list[Query[Any]]:
    image = pictures[item.picture]
    match item.ask:
        case "rate":
            return [Rate(image, item.prompt, item.quality, tuple(pictures[name] for name in item.sources))]
        case "detect":
            return [Detect(image, item.phrases)]
        case "nearness":
            return [Embed(image, (Region("cls"),)), EmbedText(item.text)]
        case "features":
            return [Embed(image, (Region("cls"),))]


def _answers(expert: Expert, queries: Sequence[Query[Any]]) -> list[Any]:
    """In their order. Experts are asked one kind at a time, and no more at once than they take."""
    unknown = {type(query) for query in queries} - set(expert.kinds)
    if unknown:
        names = ", ".join(sorted(kind.kind for kind in unknown))
        raise ExpertDown(f"{type(expert).__name__} does not answer {names}")
    expert.load()
    answers: dict[int, Any] = {}
    for kind in dict.fromkeys(map(type, queries)):
        places = [place for place, query in enumerate(queries) if type(query) is kind]
        for start in range(0, len(places), expert.batch):
            some = places[start : start + expert.batch]
            answers |= dict(zip(some, expert([queries[place] for place in some]), strict=True))
    return [answers[place] for place in range(len(queries))]


def _compared(item: Item, outcomes: Sequence[Any], image: Image) -> list[Row]:
    asked = {"rate": item.quality, "detect": _label(item), "nearness": item.text, "features": "first features"}[
        item.ask
    ]
    bad = next((one for one in outcomes if not isinstance(one, Measured | Detections | Vectors)), None)
    if bad is not None:
        why = bad.reason if isinstance(bad, Failure) else getattr(bad, "reason", repr(bad))
        return [Row(item.picture, asked, _numbers(item), why, None, item.tolerance, "failed")]
    match item.ask:
        case "rate":
            return [_row(item, asked, outcomes[0].value)]
        case "nearness":
            one, other = (outcome.values[0].astype(float) for outcome in outcomes)
            return [_row(item, asked, float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other))))]
        case "features":
            return [_several(item, asked, outcomes[0].values[0][: len(item.values)])]
        case "detect":
            return _boxes(item, outcomes[0], image)


def _row(item: Item, asked: str, got: float) -> Row:
    assert item.value is not None
    apart = abs(got - item.value)
    verdict = "agrees" if apart <= item.tolerance else "differs"
    return Row(item.picture, asked, f"{item.value:.4g}", f"{got:.4g}", apart, item.tolerance, verdict)


def _several(item: Item, asked: str, got: Any) -> Row:
    apart = float(np.abs(np.array(item.values) - got).max()) if len(got) == len(item.values) else float("inf")
    verdict = "agrees" if apart <= item.tolerance else "differs"
    shown = ", ".join(f"{number:.4g}" for number in got)
    return Row(item.picture, asked, _numbers(item), shown, apart, item.tolerance, verdict)


def _boxes(item: Item, found: Detections, image: Image) -> list[Row]:
    """Of the box that lies nearest to the published one, or of the surest where no place is published."""
    label = _label(item)
    of_label = [box for box in found.boxes if box.label == label]
    if not of_label:
        return [Row(item.picture, label, _numbers(item), "no box", None, item.tolerance, "failed")]
    if item.box is None:
        return [_row(item, label, max(box.score for box in of_label))]
    wanted = np.array(item.box)
    apart, box = min(((_apart(wanted, box, image), box) for box in of_label), key=lambda pair: pair[0])
    verdict = "agrees" if apart <= item.box_tolerance else "differs"
    expected, got = (", ".join(f"{side:.0f}" for side in sides) for sides in (wanted, _corners(box, image)))
    place = Row(item.picture, f"{label}: box", expected, got, apart, item.box_tolerance, verdict)
    return [_row(item, label, box.score), place]


def _apart(wanted: Any, box: Box, image: Image) -> float:
    return float(np.abs(wanted - _corners(box, image)).max())


def _corners(box: Box, image: Image) -> Any:
    """Left, top, right, bottom in pixels; not cut at the picture's edges."""
    width, height = image.size
    return np.array([box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height])


def _label(item: Item) -> str:
    return item.label or (item.phrases[0] if item.phrases else "")


def _numbers(item: Item) -> str:
    return ", ".join(f"{number:.4g}" for number in (item.values or (item.value,)) if number is not None)


def table(checked: Checked) -> RenderableType:
    """For a terminal of 80 columns or more."""
    grid = Table(box=None, pad_edge=False, title=f"{checked.reference.model} by {checked.expert}", title_justify="left")
    for heading in ("picture", "asked", "expected", "got", "off by", "allowed", ""):
        grid.add_column(heading, overflow="fold")
    for row in checked.rows:
        off = "" if row.difference is None else f"{row.difference:.3g}"
        style = {"agrees": "green", "differs": "red", "failed": "red"}[row.verdict]
        grid.add_row(
            *map(Text, (row.picture, row.asked, row.expected, row.got, off, f"{row.allowed:.2g}")),
            Text(row.verdict, style),
        )
    said = [f"\nPublished: {checked.reference.source}"]
    if checked.reference.note:
        said.append(checked.reference.note)
    return Group(grid, *map(Text, said))
