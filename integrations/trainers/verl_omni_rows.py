"""Add the source pictures to a data set for verl-omni, where its reward functions can see them.

    python -m editcritic.integrations.trainers.verl_omni_rows train.parquet train-with-sources.parquet

`extra_info` gets the field `source_img` with the encoded pictures of `images`, by row group; nothing else is changed.
Every sample then carries its picture twice: `image_root` needs no copy. Needs pyarrow, which verl-omni requires.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...reward.atomic_files import atomic_replacement
from ...reward.plain_text import one_line
from ...reward.regular_files import open_regular


def add_sources(source: Path, target: Path) -> int:
    """Write `source` with `extra_info.source_img`; the number of rows. Raises ValueError and OSError."""
    import pyarrow
    import pyarrow.parquet

    if target.exists():
        raise FileExistsError(f"{target} exists: give another file to write")
    try:
        with open_regular(source) as stream, pyarrow.parquet.ParquetFile(stream) as rows:
            schema = _schema_with_sources(rows.schema_arrow, source)
            with atomic_replacement(target) as partial, pyarrow.parquet.ParquetWriter(partial, schema) as written:
                for group in range(rows.num_row_groups):
                    written.write_table(_with_sources(rows.read_row_group(group), schema, source, group))
            return int(rows.metadata.num_rows)
    except pyarrow.ArrowException as error:
        raise ValueError(f"cannot read {source} as parquet: {one_line(str(error))}") from None


def _schema_with_sources(schema: Any, source: Path) -> Any:
    """The schema of the file to write. That of `datasets`, if the file has one, would not know the new field."""
    import pyarrow

    missing = [name for name in ("images", "extra_info") if schema.get_field_index(name) < 0]
    if missing or not pyarrow.types.is_struct(schema.field("extra_info").type):
        raise ValueError(
            f"{source} is no data set of prepare_data.py: expected the columns images and extra_info (a table), "
            f"got {', '.join(schema.names)}"
        )
    info, images = schema.field("extra_info"), schema.field("images")
    if not pyarrow.types.is_list(images.type) or not _has_bytes(images.type.value_type):
        raise ValueError(f"{source}: images must be lists of tables with the field bytes, got {images.type}")
    fields = list(info.type)
    if any(field.name == "source_img" for field in fields):
        raise ValueError(f"{source} has extra_info.source_img already")
    whole = pyarrow.struct([*fields, pyarrow.field("source_img", images.type)])
    position = schema.get_field_index("extra_info")
    metadata = {key: value for key, value in (schema.metadata or {}).items() if key != b"huggingface"}
    return schema.set(position, info.with_type(whole)).with_metadata(metadata)


def _has_bytes(image: Any) -> bool:
    import pyarrow

    return pyarrow.types.is_struct(image) and image.get_field_index("bytes") >= 0


def _with_sources(table: Any, schema: Any, source: Path, group: int) -> Any:
    import pyarrow
    import pyarrow.compute

    images = table["images"].combine_chunks()
    counts = pyarrow.compute.fill_null(pyarrow.compute.list_value_length(images), 0).to_pylist()
    encoded = pyarrow.compute.struct_field(images.flatten(), "bytes")
    if 0 in counts or encoded.null_count:
        row = f" {counts.index(0)}" if 0 in counts else ""
        raise ValueError(f"{source}: row group {group}: row{row} has no picture with bytes in images")
    info = table["extra_info"].combine_chunks()
    if info.null_count:
        raise ValueError(f"{source}: row group {group} has rows without extra_info")
    position, whole = schema.get_field_index("extra_info"), schema.field("extra_info")
    extended = pyarrow.StructArray.from_arrays([*info.flatten(), images], fields=list(whole.type))
    return table.set_column(position, whole, extended).replace_schema_metadata(schema.metadata)


def main(
    source: Annotated[Path, typer.Argument(help="A parquet file of prepare_data.py.")],
    target: Annotated[Path, typer.Argument(help="The file to write.")],
) -> None:
    """Add the pictures of `images` to `extra_info`, as `source_img`."""
    try:
        typer.echo(f"{target}: {add_sources(source, target):,} rows with source_img")
    except (ImportError, OSError, ValueError) as error:
        hint = ": pip install pyarrow" if isinstance(error, ImportError) else ""
        typer.echo(f"error: {one_line(str(error))}{hint}", err=True)
        raise typer.Exit(2) from None


if __name__ == "__main__":
    typer.run(main)
