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
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Image, ImageError
from editcritic.reward.plain_text import check_text
from editcritic.reward.strict_json import json_lines

from .clones import Clones, WrongFile
from .real_edit import FOLLOWED, HALVES, OPERATIONS, PRESERVED, STATES, Corners, Half, Labels, Operation, RealEdit
from .row_values import MAX_TEXT, boxes_of, choice_of, corners_of, path_of, target_of, text_of

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_QUOTES = "\"'`\u2018\u2019\u201c\u201d "


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture's file. digest: SHA-256 of its bytes. crop: in pixels of the upright picture; None: all of it."""

    path: str
    digest: str
    crop: Corners | None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in a text file. start, end: bytes. digest: SHA-256 of the sentence in UTF-8."""

    path: str
    start: int
    end: int
    digest: str


@dataclass(frozen=True, slots=True)
class EditRow:
    """A row, checked; nothing that it names is read yet. instruction: a text of ours, or where another's is."""

    id: str
    group: str
    base: str
    repo: str
    commit: str
    source: Picture
    edited: Picture
    instruction: str | Sentence
    editor: str
    operation: Operation
    half: Half
    labels: Labels
    boxes: Mapping[str, tuple[Corners, ...]]
    target: tuple[str, ...]
    second: Labels | None

    @staticmethod
    def of(row: Any) -> EditRow:
        """Raises ValueError for another row."""
        row = _object(row, "a row")
        labels = _object(row.get("labels"), "labels")
        boxes = boxes_of(labels.get("boxes"))
        return EditRow(
            id=text_of(row, "id"),
            group=text_of(row, "group"),
            base=text_of(row, "base"),
            repo=_matched(row, "repo", _REPO),
            commit=_matched(row, "commit", _COMMIT),
            source=_picture(row.get("source")),
            edited=_picture(row.get("edited")),
            instruction=_instruction(row.get("instruction")),
            editor=text_of(row, "editor"),
            operation=choice_of(row, "operation", OPERATIONS),
            half=choice_of(row, "half", HALVES),
            labels=_labels(labels),
            boxes=boxes,
            target=target_of(labels.get("target"), boxes),
            second=None if row.get("second") is None else _labels(_object(row["second"], "second")),
        )

    def read(self, clones: Clones) -> RealEdit:
        """The edit with its pictures and its sentence. Raises as `Clones.read`, and `WrongFile` for a picture that is
        none, and a sentence that is another one.
        """
        try:
            source, edited = self._shown(clones, self.source), self._shown(clones, self.edited)
        except ImageError as error:
            raise WrongFile(f"{self.id}: {error}") from None
        followed, preserved, place = self.labels
        return RealEdit(
            id=self.id,
            group=self.group,
            base=self.base,
            instruction=self._said(clones),
            source=source,
            edited=edited,
            operation=self.operation,
            followed=followed,
            preserved=preserved,
            place=place,
            boxes=self.boxes,
            target=self.target,
            editor=self.editor,
            half=self.half,
            second=self.second,
        )

    def _shown(self, clones: Clones, picture: Picture) -> Image:
        image = Image.from_encoded(clones.read(self.repo, self.commit, picture.path, picture.digest))
        return image if picture.crop is None else image.crop(*picture.crop)

    def _said(self, clones: Clones) -> str:
        if isinstance(self.instruction, str):
            return self.instruction
        at = self.instruction
        sentence = sentence_of(clones.read_unhashed(self.repo, self.commit, at.path)[at.start : at.end])
        if sha256(sentence.encode()).hexdigest() != at.digest:
            raise WrongFile(f"{self.id}: bytes {at.start} to {at.end} of {at.path} are another sentence")
        return sentence


def repository_rows(path: Path | None = None) -> list[EditRow]:
    """All rows of a file; by default of the project's own. Raises `InputError` with the line of a wrong one."""
    if path is None:
        with resources.as_file(resources.files(__package__).joinpath("edits.jsonl")) as own:
            return repository_rows(own)
    rows = []
    try:
        for number, row in json_lines(path):
            try:
                if isinstance(row, ValueError):
                    raise row
                rows.append(EditRow.of(row))
            except ValueError as error:
                raise InputError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len({row.id for row in rows}) < len(rows):
        raise InputError(f"{path}: an id is given twice")
    halves: dict[str, Half] = {}
    for row in rows:
        if halves.setdefault(row.base, row.half) != row.half:
            raise InputError(f"{path}: the photograph {row.base} is in both halves")
    return rows


def sentence_of(data: bytes) -> str:
    """The sentence that bytes of a text file hold, without spaces and quotes around it, without escapes of JSON and
    HTML.

    Raises `WrongFile` for what is no text of 1 to `MAX_TEXT` characters.
    """
    try:
        text = data.decode("utf-8").strip().strip(_QUOTES)
        if "\\" in text:
            text = json.loads(f'"{text}"')
        text = html.unescape(text).strip().strip(_QUOTES)
        check_text(text)
    except ValueError as error:
        raise WrongFile(f"no sentence: {error}") from None
    if not 0 < len(text) <= MAX_TEXT:
        raise WrongFile(f"a sentence has 1 to {MAX_TEXT} characters, got {len(text)}")
    return text


def _matched(row: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not pattern.fullmatch(value) or ".." in value:
        raise ValueError(f"{key} is not one: {value!r:.80}")
    return value


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: a JSON object is expected, got {value!r:.80}")
    return value


def _labels(labels: Mapping[str, Any]) -> Labels:
    return (
        choice_of(labels, "followed", FOLLOWED),
        choice_of(labels, "preserved", PRESERVED),
        choice_of(labels, "place", STATES),
    )


def _picture(value: Any) -> Picture:
    file = _object(value, "a picture")
    crop = None if file.get("crop") is None else corners_of(file["crop"])
    if crop is not None and min(crop) < 0:
        raise ValueError(f"the crop {crop} leaves its picture")
    return Picture(path_of(file, "path"), _matched(file, "sha256", _DIGEST), crop)


def _instruction(value: Any) -> str | Sentence:
    given = _object(value, "an instruction (`text`, or `path`, `start`, `end` and `sha256`)")
    if "text" in given:
        return text_of(given, "text")
    start, end = given.get("start"), given.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= start + 4 * MAX_TEXT:
        raise ValueError(f"start and end are bytes of a sentence, got {start!r:.20} and {end!r:.20}")
    return Sentence(path_of(given, "path"), start, end, _matched(given, "sha256", _DIGEST))
