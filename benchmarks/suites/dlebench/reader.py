"""DLEBench's data as published, `data.jsonl` beside `Source_Images/` and `Reference_Images/`, by whatever field names.

The data set's card names `image`, `reference_image`, `edit_operation` (the instruction) and `prompt_clean` (a caption,
which nobody needs here). The names of the other fields are not in what we could read, so that several are understood.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from ....reward import Box
from ....reward.dlebench.crops import pixels_of
from ...inputs import InputError
from ..suite import Problem

DATA, SOURCES, REFERENCES = "data.jsonl", "Source_Images", "Reference_Images"

TYPES: Mapping[str, int] = MappingProxyType(
    {
        "Change Material": 84,
        "Change Color": 699,
        "Change OCR": 455,
        "Change Shape": 23,
        "Removal Object": 577,
        "Replace Object": 47,
        "Change Count": 24,
    }
)
"""Instruction type -> how many samples have it (paper, table 2). They add up to 1909, and the text says 1889."""

_WORDS = MappingProxyType(
    {
        "Change Material": ("material",),
        "Change Color": ("color", "colour"),
        "Change OCR": ("ocr", "text"),
        "Change Shape": ("shape",),
        "Removal Object": ("remov", "delet", "location"),
        "Replace Object": ("replac",),
        "Change Count": ("count", "number", "quantity", "add"),
    }
)

SPELLINGS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "id": ("id", "sample_id", "uid", "index"),
        "image": ("image", "source_image", "source", "input_image", "image_path"),
        "reference_image": ("reference_image", "reference", "ref_image", "target_image", "reference_path"),
        "edit_operation": ("edit_instruction", "instruction", "editing_instruction", "edit_prompt", "edit_operation"),
        "type": (
            *("type", "instruction_type", "edit_type", "editing_type", "task_type", "operation_type", "category"),
            *("q_type", "edit_ops"),
        ),
        "bbox": (
            *("bbox", "bboxes", "box", "boxes", "bbox_2d", "target_bbox", "target_bboxes", "target_box"),
            *("target_boxes", "targets", "bounding_box", "bounding_boxes"),
        ),
    }
)
"""What a field may be called; case, blanks and hyphens do not matter."""

Corners = Literal["xyxy", "xywh"]
_NAMED = (
    (("x0", "y0", "x1", "y1"), "xyxy"),
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("x", "y", "w", "h"), "xywh"),
    (("x", "y", "width", "height"), "xywh"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the data. boxes: as they are written, None without any. reference: None without one."""

    where: str
    name: str
    image: Path
    reference: Path | None
    instruction: str
    type: str
    boxes: Any


def read_lines(data: Path, annotations: Path | None, problems: list[Problem], *, oracle: bool) -> list[Line]:
    """The lines that say all that is needed, each with a name of its own.

    data: the folder, or the file in it. annotations: another JSONL file, whose fields are added to those of the line
    with the same id, reference or image. oracle: whether boxes and references are needed. Raises `InputError` where
    there is no such file, or no line that can be used.
    """
    path = data / DATA if data.is_dir() else data
    rows = _rows(path, problems)
    if annotations is not None:
        rows = _annotated(rows, _rows(annotations, problems), annotations, problems)
    found = [line for where, row in rows if (line := _line(path.parent, where, row, problems, oracle=oracle))]
    if not found:
        told = "; ".join(map(str, problems[:3])) or "it has no lines"
        raise InputError(f"nothing in {path} can be used: {told}")
    return _named(found, problems)


def _rows(path: Path, problems: list[Problem]) -> list[tuple[str, dict[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        layout = f"a folder with {DATA}, {SOURCES}/ and {REFERENCES}/"
        raise InputError(f"{path} cannot be read ({error}): DLEBench is {layout}") from None
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                problems.append(Problem(where, f"is not JSON ({error}): one object a line is expected"))
                continue
            if isinstance(row, dict):
                found.append((where, {_plain(key): value for key, value in row.items()}))
            else:
                problems.append(Problem(where, f"is {type(row).__name__}: one object a line is expected"))
    return found


def _plain(name: str) -> str:
    return "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split())


def _of(row: Mapping[str, Any], field: str) -> Any:
    """What the row has under any of the field's names; None, or an empty text, is nothing."""
    return next((row[name] for name in SPELLINGS[field] if row.get(name) not in (None, "", [])), None)


def _keys(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a line can be known by, the surest first."""
    found = [(field, _of(row, field)) for field in ("id", "reference_image", "image")]
    return [(field, Path(str(value)).name) for field, value in found if value is not None]


def _annotated(
    rows: list[tuple[str, dict[str, Any]]],
    more: list[tuple[str, dict[str, Any]]],
    path: Path,
    problems: list[Problem],
) -> list[tuple[str, dict[str, Any]]]:
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for where, row in more:
        for key in _keys(row)[:1]:
            if key in known:
                problems.append(Problem(where, f"another line of {path.name} has the {key[0]} {key[1]} too: give one"))
            known.setdefault(key, row)
    found = []
    for where, row in rows:
        also = next((known[key] for key in _keys(row) if key in known), {})
        fresh = {field: _of(also, field) for field in SPELLINGS if _of(also, field) is not None}
        found.append((where, {**{SPELLINGS[field][0]: value for field, value in fresh.items()}, **_without(row)}))
    return found


def _without(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value not in (None, "", [])}


def _line(folder: Path, where: str, row: Mapping[str, Any], problems: list[Problem], *, oracle: bool) -> Line | None:
    needed = ["image", "edit_operation", "type", *(["reference_image", "bbox"] if oracle else [])]
    said_kind = _of(row, "type") or _operation(row)
    missing = [field for field in needed if _of(row, field) is None and not (field == "type" and said_kind)]
    if missing:
        said = "; ".join(f"{field} (accepted: {', '.join(SPELLINGS[field])})" for field in missing)
        hint = ", or mode=tools or mode=plain" if oracle and {"reference_image", "bbox"} & set(missing) else ""
        problems.append(Problem(where, f"lacks {said}: add it there or in a file of annotations{hint}"))
        return None
    kind = type_of(str(said_kind))
    if kind is None:
        problems.append(Problem(where, f"has the type {said_kind!r}: expected one of {', '.join(TYPES)}"))
        return None
    image = _file(folder, SOURCES, str(_of(row, "image")))
    said = _of(row, "reference_image")
    reference = None if said is None else _file(folder, REFERENCES, str(said))
    for wanted, path in ((SOURCES, image), (REFERENCES, reference)):
        if path is not None and not path.is_file():
            if wanted == REFERENCES and not oracle:
                reference = None
                continue
            problems.append(Problem(where, f"names {path.name}, which is not in {folder / wanted}"))
            return None
    name = _of(row, "id")
    instruction = str(_of(row, "edit_operation")).strip()
    return Line(where, "" if name is None else str(name), image, reference, instruction, kind, _of(row, "bbox"))


def _operation(row: Mapping[str, Any]) -> Any:
    """What `edit_operation` says, where another field has the instruction."""
    said = row.get("edit_operation")
    return None if said == _of(row, "edit_operation") else said


def type_of(said: str) -> str | None:
    """One of `TYPES` by what a data set calls it, as in `color` or `Remove_Object`; None where that is not clear.

    The questions that samples are made of are named, too (appendix 13): `location` asks for a removal, `object` for a
    replacement, and what is added (`add_object`) changes a count.
    """
    plain = _plain(said)
    exact = ["Replace Object"] if plain == "object" else [kind for kind in TYPES if _plain(kind) == plain]
    found = exact or [kind for kind, words in _WORDS.items() if any(word in plain for word in words)]
    return found[0] if len(found) == 1 else None


def _file(folder: Path, kind: str, said: str) -> Path:
    """Where a picture is: in its folder, by its path from the data, or by its bare name in its folder."""
    places = (folder / kind / said, folder / said)
    return next((place for place in places if place.is_file()), folder / kind / Path(said).name)


def _named(lines: list[Line], problems: list[Problem]) -> list[Line]:
    """Each with the first name that no other has: its id, its reference's, its image's, its number."""
    tried = [
        [line.name, line.reference.stem if line.reference else "", line.image.stem, f"{number:04}"]
        for number, line in enumerate(lines)
    ]
    counts = [Counter(column) for column in zip(*tried, strict=True)]
    found: list[Line] = []
    taken: set[str] = set()
    for line, names in zip(lines, tried, strict=True):
        if line.name and counts[0][line.name] > 1:
            problems.append(Problem(line.where, f"another line has the id {line.name} too: make it unique"))
        free = [
            name
            for name, count in zip(names, counts, strict=True)
            if name and count[name] == 1 and name not in taken and Path(name).name == name
        ]
        taken.add(free[0])
        found.append(replace(line, name=free[0]))
    return found


# -- boxes ------------------------------------------------------------------------------------------------------------


def boxes_of(said: Any, size: tuple[int, int], corners: Corners = "xyxy") -> tuple[Box, ...]:
    """The boxes that a field holds: four numbers, an object with named ones, or a list of either, or JSON of these.

    Numbers up to 1 are shares of the picture's sides, larger ones pixels. corners: what four numbers without names are.
    Raises ValueError with what is wrong.
    """
    if isinstance(said, str):
        said = json.loads(said)
    if isinstance(said, Mapping):
        plain = {_plain(str(key)): value for key, value in said.items()}
        for names, kind in _NAMED:
            if all(name in plain for name in names):
                return (_box([plain[name] for name in names], size, kind),)
        inner = _of(plain, "bbox")
        if inner is None:
            raise ValueError(f"a box has no {', '.join(_NAMED[0][0])}, got {sorted(map(str, said))}")
        return boxes_of(inner, size, corners)
    if not isinstance(said, Sequence) or not said:
        raise ValueError(f"boxes are lists of four numbers, got {said!r}")
    if all(isinstance(one, int | float) for one in said):
        return (_box(said, size, corners),)
    return tuple(box for one in said for box in boxes_of(one, size, corners))


def _box(numbers: Sequence[Any], size: tuple[int, int], kind: str) -> Box:
    if len(numbers) != 4:
        raise ValueError(f"a box has four numbers, got {list(numbers)}")
    x0, y0, x1, y1 = map(float, numbers)
    if kind == "xywh":
        x1, y1 = x0 + x1, y0 + y1
    if not (x0 < x1 and y0 < y1):
        hint = "; boxes=xywh reads them as a corner and a size" if kind == "xyxy" else ""
        raise ValueError(f"a box {list(numbers)} has no area: x0 < x1 and y0 < y1 are expected{hint}")
    shares = max(x0, y0, x1, y1) <= 1
    box = Box.from_corners(x0, y0, x1, y1, (1, 1) if shares else size)
    if pixels_of(box, size) is None or box.x1 > 1.01 or box.y1 > 1.01 or min(box.x0, box.y0) < -0.01:
        hint = "; boxes=xywh reads them as a corner and a size" if kind == "xyxy" else ""
        raise ValueError(f"a box {list(numbers)} lies outside of the picture, {size[0]} x {size[1]}{hint}")
    return box
