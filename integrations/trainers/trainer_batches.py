"""Converts a diffusion trainer's rollouts to samples.

Shared by the adapters `flow_grpo`, `flow_factory`, `verl_omni` and `unirl`, and by the trainer protocols of the judge
server.

Edits are grouped by (instruction, source images), as `EditSample` does: not by the prompt alone, and not by the
trainers' own group ids, some of which depend on the prompt only.

The metadata of a row may have the key `editcritic`: a table with fields of a sample file (`reward.sample_files`) that a
reward needs and the trainer has no field for; see `integrations.row_fields`. Other metadata is ignored, and strings in
it are never read as file names.

A row that is no edit by its own content, with a NaN in a picture, an empty prompt, or more than `reward.sample_limits`
allows, has a failed score, as any other edit without one. Pixels of another scale than [0, 1] are raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ...reward import EditSample, Image
from ...reward.plain_text import one_line
from ...reward.sample_files import sample_from_json
from ...reward.sample_limits import SampleTooLarge
from ..row_fields import METADATA_FIELDS, METADATA_KEY, parse_text, table_of_row
from ..unusable_rows import UnusableRow, check_characters, excess, image_or_reason

__all__ = [
    "METADATA_FIELDS",
    "METADATA_KEY",
    "build_samples",
    "images_from_batch",
    "parse_metadata",
    "row_name",
    "sample_row",
]


_ID_KEYS = ("id", "sample_id", "uid", "unique_id", "prompt_id", "index")
_MAX_ID_CHARACTERS = 100


def images_from_batch(batch: Any) -> list[Image | str]:
    """One image per row, or the reason why it is none, as for a NaN in it: from float tensors or arrays in [0, 1], from
    uint8, or from lists of anything `Image.of` takes. Tensors N x C x H x W, arrays N x H x W x C.

    Raises PixelFormatError for another shape, type or scale, such as [-1, 1].
    """
    if hasattr(batch, "detach"):
        batch = batch.detach().cpu()
    return [image_or_reason(row) for row in batch]


def build_samples(
    prompts: Sequence[str],
    edited: Sequence[Image | str],
    sources: Sequence[Sequence[Image | str]],
    metadata: Sequence[Any] | None = None,
) -> list[EditSample | str]:
    """One edit per row, with the id of `row_name`, or the reason why it is none: an empty prompt, one that is too long,
    no source, or an image that is none. Raises ValueError if the lists differ in length, or if `editcritic` in a row's
    metadata has unknown fields.
    """
    rows = [None] * len(edited) if metadata is None else list(metadata)
    counts = {"prompts": len(prompts), "images": len(edited), "sources": len(sources), "metadata": len(rows)}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"lists of equal length are needed, got {', '.join(f'{count} {name}' for name, count in counts.items())}"
        )
    return [
        _sample_or_reason(row_name(row[-1], number), *row)
        for number, row in enumerate(zip(prompts, edited, sources, rows, strict=True))
    ]


def row_name(metadata: Any, number: int) -> str:
    """`<id>/<row>` where the trainer's metadata has an id of the rollout or its prompt, text or a whole number; else
    `edit-<row>`.
    """
    for key in _ID_KEYS if isinstance(metadata, Mapping) else ():
        value = metadata.get(key)
        if type(value) in (int, str) and (name := one_line(str(value)[:_MAX_ID_CHARACTERS])):
            return f"{name}/{number}"
    return f"edit-{number}"


def _sample_or_reason(
    name: str, prompt: Any, edited: Image | str, sources: Sequence[Image | str], metadata: Any
) -> EditSample | str:
    images: dict[str, Image] = {}
    contents = {f"source-{position}": image for position, image in enumerate(sources)} | {"edited": edited}
    for image_name, image in contents.items():
        if isinstance(image, str):
            return f"the image {image_name}: {image}"
        images[image_name] = image
    try:
        row = sample_row(
            name, prompt, [image_name for image_name in images if image_name != "edited"], "edited", metadata
        )
        sample = sample_from_json(row, pictures=images)
        check_characters(sample)
        return sample
    except UnusableRow as error:
        return str(error)
    except SampleTooLarge as error:
        return f"{name}: {error}"
    except ValidationError as error:
        if reason := excess(error):
            return f"{name}: {reason}"
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"])) or METADATA_KEY
        raise ValueError(f"{name}: {location}: {first['msg']}") from None


def sample_row(name: str, prompt: Any, sources: Sequence[str], edited: str, metadata: Any) -> dict[str, Any]:
    """An edit as in sample files, with image names and the fields of its metadata, a table or JSON text of one.

    Raises ValueError for metadata, and `UnusableRow` for an empty prompt, no source, and metadata beyond limits.
    """
    extra = table_of_row(metadata, name)
    if not isinstance(prompt, str) or not prompt.strip():
        raise UnusableRow(f"{name}: the prompt is the edit instruction and must not be empty, got {prompt!r:.80}")
    if not sources:
        raise UnusableRow(f"{name} has no source image: an edit is scored against its source")
    return {**extra, "id": name, "instruction": prompt, "sources": list(sources), "edited": edited}


def with_requirement(metadata: Any) -> Any:
    """The metadata of an Edit-R1 row: its `requirement`, which says what a right result looks like, is the sample's
    `hint`, unless `editcritic` in it has one. In this process as on the judge server.
    """
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
    """The metadata of a row, decoded if the trainer passes JSON. Raises ValueError for text that is none.

    Text beyond limits stays what it is, so that `sample_row` fails that row alone.
    """
    try:
        return parse_text(metadata, "the metadata")
    except UnusableRow:
        return metadata
