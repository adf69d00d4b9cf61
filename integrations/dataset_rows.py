"""The edit of a row: of a data set's columns, or of a trainer's rollout with its prompt, pictures and metadata.

A row that is no edit by its own content, such as one with a picture of NaN or an empty prompt, fails alone: in a batch
it is the reason, a string, in place of its image or sample. What is wrong with a whole batch or data set is raised.
Edits are grouped as `EditSample` does it, not by the trainers' own ids. Strings in metadata are never read as file
names."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, Final

from pydantic import ValidationError

from ..reward import EditSample, Image, ImageError, Score
from ..reward.edit_plan import plan_from_json, plan_to_json
from ..reward.encoded_images import check_size
from ..reward.experts.judging.chat_completions import content_texts
from ..reward.image import PixelFormatError
from ..reward.plain_text import check_text, one_line
from ..reward.regular_files import MAX_LINE_BYTES
from ..reward.sample import SampleTooLarge
from ..reward.sample_files import sample_from_json, sample_problem
from ..reward.strict_json import MAX_DEPTH, UnsafeJSON, parse_json

METADATA_KEY: Final = "editcritic"
"""Where a row has its table of fields."""

TEXT_FIELDS: Final = ("target_text", "hint")
"""Fields that are texts: they are never read as JSON."""

METADATA_FIELDS: Final = (
    "task", "pools", "boxes", "fractions", "operations", "plan", "targets", "target_fractions", "target_text", "hint",
    "dimensions", "metadata",
)  # fmt: skip

MAX_VALUES: Final = 100_000
"""Values and keys of a row's fields, about. The limits of samples are lower and are told in their own words."""


class UnusableRow(ValueError):
    """A row that is no edit by its own content. Raised by a `to_sample`, it fails that row alone."""


def table_of_row(row: Any, owner: str) -> dict[str, Any]:
    """The table `editcritic` of a row, or of JSON text that names it. Raises ValueError and `UnusableRow`."""
    if isinstance(row, str):
        row = parse_text(row, f"{owner}: the metadata") if METADATA_KEY in row else None
    table = row.get(METADATA_KEY) if isinstance(row, Mapping) else None
    return read_fields(table, f"{owner}: `{METADATA_KEY}` in the metadata")


def read_fields(table: Any, owner: str) -> dict[str, Any]:
    """The fields that are there, as plain JSON values. Raises ValueError, `UnusableRow`; owner: whose table it is."""
    if isinstance(table, str):
        table = parse_text(table, owner)
    if is_absent(table):
        return {}
    if not isinstance(table, Mapping):
        raise ValueError(f"{owner} must be a table, got {type(table).__name__}")
    given = {name: value for name, value in table.items() if not is_absent(value)}
    if unknown := sorted(str(name) for name in given if name not in METADATA_FIELDS):
        raise ValueError(f"{owner} has the unknown field {unknown[0]!r:.80}: known are {', '.join(METADATA_FIELDS)}")
    fields = {name: read_field(name, value, owner) for name, value in given.items()}
    return {name: value for name, value in fields.items() if value is not None}


def read_field(name: str, value: Any, owner: str) -> Any:
    """A field of `METADATA_FIELDS`, None where absent. Raises ValueError, `UnusableRow`; owner: whose field it is."""
    owner = f"{owner}: `{name}`"
    if name in TEXT_FIELDS:
        return None if is_absent(value) else value
    plain = _plain(parse_text(value, owner), owner)
    if is_absent(plain):
        return None
    if name in ("boxes", "fractions"):
        return _named_boxes(plain, owner)
    if name == "operations" and isinstance(plain, list):
        return [{"instruction": item} if isinstance(item, str) else item for item in plain]
    return plain


def parse_text(value: Any, owner: str) -> Any:
    """Text as JSON, None for empty text, other values as they are. Raises ValueError, `UnusableRow` beyond limits."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    if len(value) > MAX_LINE_BYTES:
        raise UnusableRow(f"{owner} is a text of {len(value):,} characters, and at most {MAX_LINE_BYTES:,} are read")
    try:
        return parse_json(value, max_values=MAX_VALUES)
    except UnsafeJSON as error:
        raise UnusableRow(f"{owner}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{owner} is a text, {value!r:.80}, and should be a table, a list or JSON: {error}") from None


def _named_boxes(value: Any, owner: str) -> Any:
    """Boxes by the names of their objects. An object without boxes is one that other rows have."""
    if isinstance(value, list):
        if not all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value):
            raise ValueError(
                f"{owner} is a list without names: give the boxes of each object under its name, as "
                f'{{"cup": [[x0, y0, x1, y1]]}}; boxes of what is to be edited go into `targets`'
            )
        value = dict(value)  # a map of Arrow
    if not isinstance(value, Mapping):
        return value
    boxes = {name: parse_text(items, f"{owner}: {name!r:.80}") for name, items in value.items()}
    return {name: items for name, items in boxes.items() if items is not None and items != []}


def _plain(value: Any, owner: str) -> Any:
    """Tables, lists, arrays and tensors as dicts and lists, without the entries of tables that are None."""
    left = MAX_VALUES

    def plain(item: Any, depth: int) -> Any:
        nonlocal left
        if isinstance(shape := getattr(item, "shape", None), tuple) and hasattr(item, "tolist"):
            left -= math.prod(shape)
            item = item.tolist() if left >= 0 else None  # a number, or nested lists, in which arrays may follow
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise UnusableRow(
                f"{owner} has more than {MAX_VALUES:,} values, or is nested deeper than {MAX_DEPTH} levels"
            )
        if isinstance(item, Mapping):
            return {name: plain(inner, depth + 1) for name, inner in item.items() if inner is not None}
        return [plain(inner, depth + 1) for inner in item] if isinstance(item, list | tuple) else item

    return plain(value, 0)


def is_absent(value: Any) -> bool:
    """Whether a value is None, or what pandas has in its place: a NaN, its `NA` or its `NaT`."""
    if isinstance(value, Real):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


DatasetRow = Mapping[str, Any]
"""One completion: `prompt`, `completion`, `completion_ids`, and the item of every column of the dataset."""

SOURCE_COLUMNS = ("source", "sources", "image", "images")

_ID_KEYS = ("id", "sample_id", "uid", "unique_id", "prompt_id", "index")
_MAX_ID_CHARACTERS = 100
_EXCESS = frozenset({"too_long", "string_too_long", "less_than_equal", "string_unicode"})
"""What pydantic calls it."""


# -- pictures ----------------------------------------------------------------------------------------------------------


def stored_picture(value: Any) -> Any:
    """The bytes or the path of an undecoded image of `datasets`, and other values as they are."""
    if not isinstance(value, Mapping):
        return value
    return value["bytes"] if value.get("bytes") is not None else value.get("path")


def to_image(value: Any) -> Image:
    """Anything `Image.of` takes, or an undecoded image of `datasets`. Raises ImageError."""
    image = Image.of(stored_picture(value))
    try:
        check_size(image.size)  # arrays and tensors may have any shape
    except ImageError as error:
        raise ImageError(f"the picture {error}") from None
    return image


def image_or_reason(value: object) -> Image | str:
    """As `to_image`, or the reason why it is none. Raises `PixelFormatError`."""
    try:
        return to_image(value)
    except PixelFormatError:
        raise
    except ImageError as error:
        return str(error)


def images_from_batch(batch: Any) -> list[Image | str]:
    """One image per row, or the reason why it is none: of tensors N x C x H x W, arrays N x H x W x C (uint8, or floats
    in [0, 1]), or a list of anything `Image.of` takes. Raises PixelFormatError for another shape, type or scale."""
    if hasattr(batch, "detach"):
        batch = batch.detach().cpu()
    return [image_or_reason(row) for row in batch]


# -- rows of a data set ------------------------------------------------------------------------------------------------


def sample_from_row(row: DatasetRow) -> EditSample:
    """The requested edit, from the columns of a row; those that are None, or what pandas has in its place, are absent.

    Judged by `instruction`. The sources are the first that is present of `source`, `sources`, `image` and `images` (TRL
    passes the last two to the policy). `edited`: if a completion is neither an image nor an instruction. `id`, `group`,
    `mask`, `reference`, and the fields of `METADATA_FIELDS`, as columns (but `metadata`) or in a table `editcritic`.
    Images are anything `Image.of` takes, or the undecoded images of `datasets`.
    Raises ValueError naming missing columns or an invalid field, ImageError, `SampleTooLarge`, and `UnusableRow` for
    what is empty or nested too deeply."""
    columns = {name: value for name, value in row.items() if not is_absent(value)}
    column = next((name for name in SOURCE_COLUMNS if name in columns), "")
    pictures = _listed(columns.get(column))
    if not pictures or not str(columns.get("instruction", "")).strip():
        is_empty = "instruction" in row and any(name in row for name in SOURCE_COLUMNS)
        raise (UnusableRow if is_empty else ValueError)(
            f"rows have the columns {', '.join(sorted(columns))}, and an edit needs `instruction` and an image in "
            "`source`, `sources`, `image` or `images`: add them to the dataset, or pass to_sample="
        )
    owner = f"the row {str(columns.get('id', columns['instruction']))!r:.80}"
    fields = _fields(columns, owner)
    images = {str(number): to_image(one) for number, one in enumerate(pictures)}
    fields["sources"] = sources = list(images)
    images |= {name: to_image(columns[name]) for name in ("mask", "reference", "edited") if name in columns}
    fields |= {name: name for name in ("mask", "reference") if name in columns}
    fields |= {name: str(columns[name]) for name in ("id", "group") if name in columns}
    fields["instruction"] = columns["instruction"]
    fields["edited"] = "edited" if "edited" in columns else sources[0]
    return _sample({"id": "edit", **fields}, images, owner)


def _listed(value: Any) -> list[Any]:
    """The pictures of a column: of a list, which pandas has as an array of objects, or the one that it is."""
    if isinstance(value, list | tuple) or str(getattr(value, "dtype", "")) == "object":
        return list(value)
    return [] if value is None else [value]


def _fields(columns: DatasetRow, owner: str) -> dict[str, Any]:
    """The fields of a row, from its columns and its table. Raises ValueError, `SampleTooLarge` and `UnusableRow`."""
    names = [name for name in METADATA_FIELDS if name in columns and name != "metadata"]
    fields = {name: read_field(name, columns[name], owner) for name in names}
    fields = {name: value for name, value in fields.items() if value is not None}
    table = read_fields(columns.get(METADATA_KEY), f"{owner}: `{METADATA_KEY}`")
    if twice := sorted(table.keys() & fields.keys()):
        raise ValueError(f"{owner} has `{twice[0]}` as a column and in `{METADATA_KEY}`: give it once")
    fields |= table
    return fields | {name: str(fields[name]) for name in TEXT_FIELDS if name in fields}


def _sample(fields: dict[str, Any], images: Mapping[str, Image], owner: str) -> EditSample:
    """Of fields as in sample files. Raises ValueError; `SampleTooLarge` and `UnusableRow` for that row alone."""
    try:
        if "plan" in fields:
            fields["plan"] = plan_from_json(fields["plan"])
    except ValidationError as error:
        hint = "give an EditPlan as `plan_to_json` writes it, as a table or as JSON text, or nothing; "
        raise _refusal(error, f"{owner}: `plan`", f"no plan: {hint}") from None
    try:
        sample = sample_from_json(fields, pictures=images)
    except SampleTooLarge as error:
        raise SampleTooLarge(f"{owner}: {error}") from None
    except ValidationError as error:
        raise _refusal(error, owner) from None
    _check_characters(sample)
    return sample


def _refusal(error: ValidationError, owner: str, hint: str = "") -> ValueError:
    """`SampleTooLarge` for more than `reward.sample` allows, and for what is no character."""
    for item in error.errors(include_url=False, include_input=False):
        if isinstance(cause := item.get("ctx", {}).get("error"), SampleTooLarge):
            return SampleTooLarge(f"{owner}: {cause}")
        if item["type"] in _EXCESS:
            return SampleTooLarge(one_line(f"{owner}: {'.'.join(map(str, item['loc']))}: {item['msg']}"))
    return ValueError(f"{owner}: {hint}{sample_problem(error)}")


def _check_characters(sample: EditSample) -> None:
    """Raise `UnusableRow` for a lone surrogate in a sample, which no judge can be sent and no log can hold."""
    texts = [sample.id, sample.instruction, sample.group, sample.hint, sample.target_text, *sample.boxes]
    texts += [operation.instruction for operation in sample.operations]
    if sample.plan is not None:
        texts.append(json.dumps(plan_to_json(sample.plan), ensure_ascii=False))
    try:
        for text in texts:
            check_text(text)
    except ValueError as error:
        raise UnusableRow(str(error)) from None


def sample_or_reason(to_sample: Callable[[Mapping[str, Any]], EditSample], row: Mapping[str, Any]) -> EditSample | str:
    """The sample of a row, or why it is none: `UnusableRow`, `SampleTooLarge`, `ImageError`, or a lone surrogate."""
    try:
        sample = to_sample(row)
        _check_characters(sample)
    except PixelFormatError:
        raise
    except (UnusableRow, SampleTooLarge, ImageError) as error:
        return str(error)
    return sample


# -- rollouts of a trainer ---------------------------------------------------------------------------------------------


def build_samples(
    prompts: Sequence[str],
    edited: Sequence[Image | str],
    sources: Sequence[Sequence[Image | str]],
    metadata: Sequence[Any] | None = None,
) -> list[EditSample | str]:
    """One edit per row, or the reason why it is none. Raises ValueError for other lengths and unknown fields."""
    rows = [None] * len(edited) if metadata is None else list(metadata)
    counts = {"prompts": len(prompts), "images": len(edited), "sources": len(sources), "metadata": len(rows)}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"lists of equal length are needed, got {', '.join(f'{count} {name}' for name, count in counts.items())}"
        )
    return [
        _rollout_or_reason(row_name(row[-1], number), *row)
        for number, row in enumerate(zip(prompts, edited, sources, rows, strict=True))
    ]


def row_name(metadata: Any, number: int) -> str:
    """`<id>/<row>` where the trainer's metadata has an id of the rollout or its prompt; else `edit-<row>`."""
    for key in _ID_KEYS if isinstance(metadata, Mapping) else ():
        value = metadata.get(key)
        if type(value) in (int, str) and (name := one_line(str(value)[:_MAX_ID_CHARACTERS])):
            return f"{name}/{number}"
    return f"edit-{number}"


def _rollout_or_reason(
    name: str, prompt: Any, edited: Image | str, sources: Sequence[Image | str], metadata: Any
) -> EditSample | str:
    images: dict[str, Image] = {}
    for image_name, image in [*((f"source-{number}", one) for number, one in enumerate(sources)), ("edited", edited)]:
        if isinstance(image, str):
            return f"the image {image_name}: {image}"
        images[image_name] = image
    try:
        return _sample(sample_row(name, prompt, list(images)[:-1], "edited", metadata), images, name)
    except (UnusableRow, SampleTooLarge) as error:
        return str(error)


def sample_row(name: str, prompt: Any, sources: Sequence[str], edited: str, metadata: Any) -> dict[str, Any]:
    """As in sample files, with image names. Raises ValueError, and `UnusableRow` for that row alone."""
    extra = table_of_row(metadata, name)
    if not isinstance(prompt, str) or not prompt.strip():
        raise UnusableRow(f"{name}: the prompt is the edit instruction and must not be empty, got {prompt!r:.80}")
    if not sources:
        raise UnusableRow(f"{name} has no source image: an edit is scored against its source")
    return {**extra, "id": name, "instruction": prompt, "sources": list(sources), "edited": edited}


def with_requirement(metadata: Any) -> Any:
    """The metadata of an Edit-R1 row: its `requirement` is the sample's `hint`, unless `editcritic` in it has one."""
    requirement = metadata.get("requirement") if isinstance(metadata, Mapping) else None
    if not isinstance(requirement, str) or not requirement:
        return metadata
    try:
        given = parse_text(metadata.get(METADATA_KEY), METADATA_KEY) or {}
    except ValueError:  # `sample_row` names the row
        return metadata
    if not isinstance(given, Mapping) or given.get("hint") is not None:
        return metadata
    return {**metadata, METADATA_KEY: {**given, "hint": requirement}}


def parse_metadata(metadata: Any) -> Any:
    """Decoded if the trainer passes JSON. Raises ValueError; text beyond limits stays: `sample_row` fails its row."""
    try:
        return parse_text(metadata, "the metadata")
    except UnusableRow:
        return metadata


def score_usable(
    scorer: Callable[[Sequence[EditSample]], Sequence[Score]], rows: Sequence[EditSample | str]
) -> list[Score]:
    """One score per row, failed where it is a reason; all samples in one call. Raises ValueError for another number."""
    samples = [row for row in rows if isinstance(row, EditSample)]
    scores = list(scorer(samples)) if samples else []
    if len(scores) != len(samples):
        name = getattr(scorer, "__name__", type(scorer).__name__)
        raise ValueError(f"{name} returned {len(scores)} scores for {len(samples)} edits")
    scores_left = iter(scores)
    return [next(scores_left) if isinstance(row, EditSample) else Score.failed(row) for row in rows]


# -- completions of a policy -------------------------------------------------------------------------------------------


def completion_text(completion: Any) -> str:
    """The text, or that of a conversation's last message that is no tool's. Raises TypeError for other things."""
    if isinstance(completion, str):
        return completion
    messages = [message for message in completion or () if message.get("role") != "tool"]
    return "\n".join(filter(None, content_texts(messages[-1].get("content")))) if messages else ""


def split_instructions(text: str) -> list[str]:
    """One instruction per line, without list markers. Lines without a word are dropped."""
    lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in text.splitlines())
    return [line for line in lines if re.search(r"\w", line)]
