"""The project's own set of real edits: addresses, hashes and labels; pictures and sentences are read from clones.

A row of `edits.jsonl` has `id`, `group`, `base`, `repo`, `commit`, `source` and `edited` (`path`, `sha256` of the file,
`crop`: a rectangle or null), `instruction` (`path`, `start`, `end` in bytes, `sha256` of the sentence; or `text`, where
the sentence is ours), `editor`, `operation`, `half`, and `labels`: `followed`, `preserved`, `place`, `boxes` (in pixels
of the cropped source, by name), `target` (names) and `note`. Some have `second`: `followed`, `preserved` and `place` as
another reader says.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Image, ImageError

from .clones import Clones
from .real_edit import RealEdit

ROWS = Path(__file__).with_name("edits.jsonl")
_QUOTES = "\"'`\u2018\u2019\u201c\u201d "


def repository_rows() -> list[dict[str, Any]]:
    """All rows of the set."""
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def read_edit(row: Mapping[str, Any], clones: Clones) -> RealEdit:
    """The edit of a row with its pictures and its sentence. Raises `InputError` as `Clones.read`, for a picture that is
    none, and for a sentence that is another one.
    """
    labels, second = row["labels"], row.get("second")
    try:
        source, edited = (_picture(row, row[side], clones) for side in ("source", "edited"))
    except ImageError as error:
        raise InputError(f"{row['id']}: {error}") from None
    return RealEdit(
        **{name: row[name] for name in ("id", "group", "base", "editor", "operation", "half")},
        **{name: labels[name] for name in ("followed", "preserved", "place")},
        instruction=_sentence(row, clones),
        source=source,
        edited=edited,
        boxes={name: tuple(map(tuple, boxes)) for name, boxes in (labels["boxes"] or {}).items()},
        target=tuple(labels["target"] or ()),
        second=second and (second["followed"], second["preserved"], second["place"]),
    )


def _picture(row: Mapping[str, Any], file: Mapping[str, Any], clones: Clones) -> Image:
    image = Image.from_encoded(clones.read(row["repo"], row["commit"], file["path"], file["sha256"]))
    return image if file.get("crop") is None else image.crop(*file["crop"])


def _sentence(row: Mapping[str, Any], clones: Clones) -> str:
    at = row["instruction"]
    if "text" in at:
        return str(at["text"])
    data = clones.read(row["repo"], row["commit"], at["path"])[at["start"] : at["end"]]
    try:
        sentence = sentence_of(data)
    except ValueError:
        sentence = ""
    if sha256(sentence.encode()).hexdigest() != at["sha256"]:
        raise InputError(f"{row['id']}: bytes {at['start']} to {at['end']} of {at['path']} are another sentence")
    return sentence


def sentence_of(data: bytes) -> str:
    """The sentence that bytes of a text file hold, without spaces and quotes around it, without escapes of JSON and
    HTML. Raises ValueError for what is no text.
    """
    text = data.decode("utf-8").strip().strip(_QUOTES)
    if "\\" in text:
        text = json.loads(f'"{text}"')
    return html.unescape(text).strip().strip(_QUOTES)
