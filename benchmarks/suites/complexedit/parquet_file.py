"""Write Complex-Edit data as parquet with the published columns, `image` and `edit`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from ....reward.atomic_files import atomic_replacement
from ...common.optional_imports import bench_library

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
"""Metadata of the file, so that `datasets` decodes the images."""

_GROUP = 64
"""Rows per row group, so that reading one image does not load all."""


def write_parquet(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows of `image` (`bytes`, `path`) and `edit` (`sequence`, `compound`). Raises OSError, `InputError`."""
    arrow, parquet = bench_library("pyarrow"), bench_library("pyarrow.parquet")
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

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_replacement(path) as temporary, parquet.ParquetWriter(temporary, schema) as file:
        remaining = iter(rows)
        while group := [dict(row) for row in islice(remaining, _GROUP)]:
            file.write_table(arrow.Table.from_pylist(group, schema=schema))
    return path
