"""Complex-Edit's data as a parquet file that `datasets` reads as the published ones: `image` and `edit`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ..extras import bench
from .given import written

_FEATURES: Mapping[str, Any] = {
    "image": {"_type": "Image"},
    "edit": {
        "sequence": [
            {
                "name": {"dtype": "string", "_type": "Value"},
                "instruction": {"dtype": "string", "_type": "Value"},
            }
        ],
        "compound": [{"compound_instruction": {"dtype": "string", "_type": "Value"}}],
    },
}
"""What `datasets` is told in the file, so that it decodes the pictures."""

_GROUP = 64
"""Rows a row group: readers that look at one picture do not load them all."""


def write_parquet(place: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows of `image` (`bytes`, `path`) and `edit` (`sequence`, `compound`). Raises OSError, `InputError`."""
    arrow, parquet = bench("pyarrow"), bench("pyarrow.parquet")
    text = arrow.string()
    atomic = arrow.struct([("name", text), ("instruction", text)])
    compound = arrow.struct([("compound_instruction", text)])
    schema = arrow.schema(
        [
            ("image", arrow.struct([("bytes", arrow.binary()), ("path", text)])),
            ("edit", arrow.struct([("sequence", arrow.list_(atomic)), ("compound", arrow.list_(compound))])),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": _FEATURES}})},
    )

    def write(half: Path) -> None:
        with parquet.ParquetWriter(half, schema) as file:
            waiting = iter(rows)
            while group := [dict(row) for row in islice(waiting, _GROUP)]:
                file.write_table(arrow.Table.from_pylist(group, schema=schema))

    return written(place, write)
