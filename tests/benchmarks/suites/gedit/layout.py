"""GEdit-Bench's published layout, written small: parquet shards, and an editor's outputs; and a judge of it."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.suites.gedit.suite import TYPES
from editcritic.reward import Image
from editcritic.reward.queries import Judge, Reply

from ..tiny_suite import picture

KEYS = 4
"""Sources of each type. The first two of each are in the intersection subset."""

_WORDS = {"en": "Edit number {} of the type {}", "cn": "第{}次编辑 类型{}"}


def graded(query: Judge) -> Reply:
    """Two grades by the digest of the query."""
    number = int(query.digest[:8], 16)
    return Reply(json.dumps({"score": [number % 11, number // 11 % 11], "reasoning": "seen"}))


def key_of(kind: str, number: int) -> str:
    return f"{TYPES.index(kind):02}{number:02}aa"


def source(kind: str, number: int) -> Image:
    return picture(TYPES.index(kind), number)


def instruction(kind: str, number: int, language: str) -> str:
    return _WORDS[language].format(number, kind)


def _cell(image: Image, number: int) -> dict[str, object]:
    buffer = io.BytesIO()
    image.pil().save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": f"{number}.png"}


def row(kind: str, number: int, language: str) -> dict[str, Any]:
    return {
        "task_type": kind,
        "key": key_of(kind, number),
        "instruction": instruction(kind, number, language),
        "instruction_language": language,
        "input_image": _cell(source(kind, number), number),
        "input_image_raw": _cell(picture(1000, TYPES.index(kind), number), number),
        "Intersection_exist": number < 2,
    }


def rows(types: Sequence[str] = TYPES, keys: int = KEYS) -> list[dict[str, Any]]:
    return [row(kind, number, language) for kind in types for number in range(keys) for language in ("en", "cn")]


def parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    bench_library("pyarrow.parquet").write_table(bench_library("pyarrow").Table.from_pylist(list(rows)), path)
    return path


def halves(written: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]:
    return written[: len(written) // 2], written[len(written) // 2 :]


def on_hub(folder: Path, written: Sequence[Mapping[str, Any]] | None = None) -> Path:
    """As a clone of the repository has them after conversion: two shards of the split `train`."""
    for part, part_rows in enumerate(halves(rows() if written is None else written)):
        parquet(folder / "data" / f"train-{part:05}-of-00002.parquet", part_rows)
    return folder


def outputs(folder: Path, types: Sequence[str] = TYPES, keys: int = KEYS) -> Path:
    """An editor's outputs, with the sources beside them."""
    for kind in types:
        for language in ("en", "cn"):
            place = folder / "fullset" / kind / language
            place.mkdir(parents=True, exist_ok=True)
            for number in range(keys):
                edited = picture(2000, TYPES.index(kind), number, len(language) + ord(language[0]))
                edited.pil().save(place / f"{key_of(kind, number)}.png")
                source(kind, number).pil().save(place / f"{key_of(kind, number)}_SRCIMG.png")
    return folder
