"""DLEBench's published data: `data.jsonl` beside `Source_Images/` and `Reference_Images/`, with field aliases. The data
set's card names `image`, `reference_image`, `edit_operation` (the instruction) and `prompt_clean` (a caption, not used
here). The names of the other fields are not documented, so several are accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ....reward import Box
from ....reward.metrics.dlebench.tools import touched_pixels
from ....reward.strict_json import parse_json
from ...common.errors import InputError
from ...common.problems import Problems
from ..rows import Aliases, DataProblem, Row, field, lacking, object_lines, read_rows, reasons, usable

DATA_FILE, SOURCES_FOLDER, REFERENCES_FOLDER = "data.jsonl", "Source_Images", "Reference_Images"

TYPES: Mapping[str, int] = {
    "Change Material": 84,
    "Change Color": 699,
    "Change OCR": 455,
    "Change Shape": 23,
    "Removal Object": 577,
    "Replace Object": 47,
    "Change Count": 24,
}
"""Instruction type -> number of samples (paper, table 2). They sum to 1909; the text says 1889."""

_TYPE_WORDS = {
    "Change Material": ("material",),
    "Change Color": ("color", "colour"),
    "Change OCR": ("ocr", "text"),
    "Change Shape": ("shape",),
    "Removal Object": ("remov", "delet", "location"),
    "Replace Object": ("replac",),
    "Change Count": ("count", "number", "quantity", "add"),
}

FIELD_ALIASES: Aliases = {
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
"""Accepted names of each field; case, blanks and hyphens are ignored."""

BoxFormat = Literal["xyxy", "xywh"]
_NAMED_CORNERS = (
    (("x0", "y0", "x1", "y1"), "xyxy"),
    (("x1", "y1", "x2", "y2"), "xyxy"),
    (("xmin", "ymin", "xmax", "ymax"), "xyxy"),
    (("left", "top", "right", "bottom"), "xyxy"),
    (("x", "y", "w", "h"), "xywh"),
    (("x", "y", "width", "height"), "xywh"),
)


@dataclass(frozen=True, slots=True)
class DleBenchRow:
    """A line of the data. boxes: unparsed, or None. reference: path or None."""

    where: str
    name: str
    image: Path
    reference: Path | None
    instruction: str
    type: str
    boxes: Any


def data_file(data: Path) -> Path:
    """The file of lines: in the folder of the data, or the data itself."""
    return data / DATA_FILE if data.is_dir() else data


def read_lines(
    data: Path, annotations: Path | None, problems: Problems[DataProblem], *, oracle: bool
) -> list[DleBenchRow]:
    """Read the complete lines, with unique names. data: the folder, or the file in it. annotations: another JSONL file,
    whose fields are added to those of the line with the same id, reference or image. oracle: whether boxes and
    references are required. Raises `InputError` if there is no such file, or no usable line."""
    path = data_file(data)
    rows = _rows(path, problems)
    if annotations is not None:
        rows = _merge_annotations(rows, _rows(annotations, problems), annotations, problems)
    read = partial(_line, path.parent, oracle=oracle)
    lines = usable(read_rows(rows, read), problems)
    if not lines:
        raise InputError(f"{path} has no usable lines: {reasons(problems, 'it has no lines')}")
    return _unique_names(lines, problems)


def _rows(path: Path, problems: Problems[DataProblem]) -> list[tuple[str, Row]]:
    layout = f"DLEBench is a folder with {DATA_FILE}, {SOURCES_FOLDER}/ and {REFERENCES_FOLDER}/"

    def with_plain_names(row: Row, where: str) -> tuple[str, Row]:
        return where, {_plain(key): value for key, value in row.items()}

    return usable(read_rows(object_lines(path, layout), with_plain_names), problems)


def _plain(name: str) -> str:
    return "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split())


def _keys(row: Row) -> list[tuple[str, str]]:
    values = [(name, field(row, name, FIELD_ALIASES)) for name in ("id", "reference_image", "image")]
    return [(name, Path(str(value)).name) for name, value in values if value is not None]


def _merge_annotations(
    rows: list[tuple[str, Row]], annotations: list[tuple[str, Row]], path: Path, problems: Problems[DataProblem]
) -> list[tuple[str, Row]]:
    annotation_by_key: dict[tuple[str, str], Row] = {}
    for where, row in annotations:
        for key in _keys(row)[:1]:
            if key in annotation_by_key:
                message = f"another line of {path.name} has the same {key[0]} {key[1]}: keep one"
                problems.append(DataProblem(where, message))
            annotation_by_key.setdefault(key, row)
    merged: list[tuple[str, Row]] = []
    for where, row in rows:
        annotation = next((annotation_by_key[key] for key in _keys(row) if key in annotation_by_key), {})
        added = {names[0]: field(annotation, name, FIELD_ALIASES) for name, names in FIELD_ALIASES.items()}
        own = {name: value for name, value in row.items() if value not in (None, "", [])}
        merged.append((where, {**added, **own}))
    return merged


def _line(folder: Path, row: Row, where: str, *, oracle: bool) -> DleBenchRow:
    required = ["image", "edit_operation", "type", *(["reference_image", "bbox"] if oracle else [])]
    operation, instruction = row.get("edit_operation"), field(row, "edit_operation", FIELD_ALIASES)
    # `edit_operation` is the type where another field has the instruction.
    type_name = field(row, "type", FIELD_ALIASES) or (None if operation == instruction else operation)
    missing = [one for one in required if field(row, one, FIELD_ALIASES) is None and not (one == "type" and type_name)]
    if missing:
        hint = ", or mode=tools or mode=plain" if oracle and {"reference_image", "bbox"} & set(missing) else ""
        raise ValueError(f"{lacking(missing, FIELD_ALIASES)}: add it there or in a file of annotations{hint}")
    kind = parse_type(str(type_name))
    if kind is None:
        raise ValueError(f"has the type {type_name!r}: expected one of {', '.join(TYPES)}")
    image = _file(folder, SOURCES_FOLDER, str(field(row, "image", FIELD_ALIASES)))
    reference_name = field(row, "reference_image", FIELD_ALIASES)
    reference = None if reference_name is None else _file(folder, REFERENCES_FOLDER, str(reference_name))
    if not image.is_file():
        raise ValueError(f"names {image.name}, which is not in {folder / SOURCES_FOLDER}")
    if reference is not None and not reference.is_file():
        if oracle:
            raise ValueError(f"names {reference.name}, which is not in {folder / REFERENCES_FOLDER}")
        reference = None
    name = field(row, "id", FIELD_ALIASES)
    boxes = field(row, "bbox", FIELD_ALIASES)
    return DleBenchRow(
        where, "" if name is None else str(name), image, reference, str(instruction).strip(), kind, boxes
    )


def parse_type(name: str) -> str | None:
    """One of `TYPES` from a data set's name, e.g. `color` or `Remove_Object`; None if it is ambiguous or unknown.
    Question types of the construction are accepted, too (appendix 13): `location` is a removal, `object` a replacement,
    and `add_object` a count change."""
    plain = _plain(name)
    exact_matches = ["Replace Object"] if plain == "object" else [kind for kind in TYPES if _plain(kind) == plain]
    matches = exact_matches or [kind for kind, words in _TYPE_WORDS.items() if any(word in plain for word in words)]
    return matches[0] if len(matches) == 1 else None


def _file(folder: Path, subfolder: str, name: str) -> Path:
    """The path of an image: in its folder, relative to the data, or by its file name in its folder."""
    candidates = (folder / subfolder / name, folder / name)
    try:
        return next((path for path in candidates if path.is_file()), folder / subfolder / Path(name).name)
    except (OSError, ValueError):  # a name that no file can have
        return folder / subfolder / "no file name"


def _unique_names(lines: list[DleBenchRow], problems: Problems[DataProblem]) -> list[DleBenchRow]:
    """The lines with the first unique name of: id, reference stem, image stem, number."""
    candidates = [
        [line.name, line.reference.stem if line.reference else "", line.image.stem, f"{number:04}"]
        for number, line in enumerate(lines)
    ]
    counts = [Counter(column) for column in zip(*candidates, strict=True)]
    named: list[DleBenchRow] = []
    used: set[str] = set()
    for line, names in zip(lines, candidates, strict=True):
        if line.name and counts[0][line.name] > 1:
            problems.append(DataProblem(line.where, f"another line has the same id {line.name}: make it unique"))
        unused = [
            name
            for name, count in zip(names, counts, strict=True)
            if name and count[name] == 1 and name not in used and _is_file_name(name)
        ]
        used.add(unused[0])
        named.append(replace(line, name=unused[0]))
    return named


def _is_file_name(name: str) -> bool:
    return Path(name).name == name and name != ".." and name.isprintable() and len(name) <= _MAX_FILE_NAME


_MAX_FILE_NAME = 200


# -- boxes ------------------------------------------------------------------------------------------------------------


def parse_boxes(value: Any, size: tuple[int, int], corners: BoxFormat = "xyxy") -> tuple[Box, ...]:
    """Parse the boxes of a field: four numbers, an object with named ones, a list of either, or JSON of these. Numbers
    up to 1 are shares of the image's sides, larger ones pixels. corners: format of unnamed numbers. Raises
    ValueError."""
    if isinstance(value, str):
        value = parse_json(value)
    if isinstance(value, Mapping):
        plain = {_plain(str(name)): entry for name, entry in value.items()}
        for names, kind in _NAMED_CORNERS:
            if all(name in plain for name in names):
                return (_box([plain[name] for name in names], size, kind),)
        nested = field(plain, "bbox", FIELD_ALIASES)
        if nested is None:
            raise ValueError(f"a box has no {', '.join(_NAMED_CORNERS[0][0])}, got {sorted(map(str, value))}")
        return parse_boxes(nested, size, corners)
    if not isinstance(value, Sequence) or not value:
        raise ValueError(f"boxes are lists of four numbers, got {value!r}")
    if all(isinstance(element, int | float) for element in value):
        return (_box(value, size, corners),)
    return tuple(box for element in value for box in parse_boxes(element, size, corners))


def _box(numbers: Sequence[Any], size: tuple[int, int], kind: str) -> Box:
    if len(numbers) != 4:
        raise ValueError(f"a box has four numbers, got {list(numbers)}")
    try:
        x0, y0, x1, y1 = map(float, numbers)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"a box has four numbers, got {list(numbers)!r:.80}") from None
    if not all(abs(number) < 1e9 for number in (x0, y0, x1, y1)):
        raise ValueError(f"a box {list(numbers)!r:.80} lies outside of the image")
    if kind == "xywh":
        x1, y1 = x0 + x1, y0 + y1
    if not (x0 < x1 and y0 < y1):
        hint = "; boxes=xywh reads them as a corner and a size" if kind == "xyxy" else ""
        raise ValueError(f"a box {list(numbers)} has no area: x0 < x1 and y0 < y1 are expected{hint}")
    relative = max(x0, y0, x1, y1) <= 1
    box = Box.from_corners(x0, y0, x1, y1, (1, 1) if relative else size)
    if touched_pixels(box, size) is None or box.x1 > 1.01 or box.y1 > 1.01 or min(box.x0, box.y0) < -0.01:
        hint = "; boxes=xywh reads them as a corner and a size" if kind == "xyxy" else ""
        raise ValueError(f"a box {list(numbers)} lies outside of the image, {size[0]} x {size[1]}{hint}")
    return box
