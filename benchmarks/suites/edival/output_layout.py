"""An editor's outputs in EdiVal's released layout, `{mode}/{index}_input_raw[_turn_{turn}].png`, and what in it counts.

The released code evaluates an image that has its base picture (`.png`, or else `.jpg`) and the pictures of all three
turns (`.png` only) in the folder of the mode. It lists an image twice whose base picture lies there in both formats,
and one that the instruction file does not have as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ...common.inputs import IMAGE_SUFFIXES

TURNS = 3
"""Of every image, for the released code."""

_NAME = re.compile(r"([0-9]{1,9})_input_raw(?:_turn_([0-9]{1,3}))?\.[A-Za-z]{1,4}")


def is_base_name(name: str) -> bool:
    """Whether a file is that of a base picture."""
    match = _NAME.fullmatch(name)
    return match is not None and match[2] is None


UNLISTED, UNFINISHED, TWICE, IGNORED, BASES = "unlisted", "unfinished", "twice", "ignored", "bases"
"""Entries of `OutputFolder.facts`. For the released code, an image without a row is `UNLISTED` if all its pictures are
there, which its notebook counts, and else `UNFINISHED`."""


@dataclass(frozen=True)
class OutputFolder:
    """The files of one mode. folder: where they lie. names: of all image files in it."""

    folder: Path
    names: frozenset[str]

    @cached_property
    def bases(self) -> Mapping[int, Path]:
        """The base picture of each image that has one here; PNG before JPEG."""
        bases: dict[int, Path] = {}
        for suffix in (".jpg", ".png"):
            for name, (index, turn) in self._parsed.items():
                if turn is None and name.endswith(suffix):
                    bases[index] = self.folder / name
        return bases

    @cached_property
    def _parsed(self) -> Mapping[str, tuple[int, str | None]]:
        """Index and turn of each file of EdiVal; without a turn it is a base picture."""
        return {name: (int(match[1]), match[2]) for name in self.names if (match := _NAME.fullmatch(name))}

    def missing_file(self, index: int) -> str:
        """The first file without which the released code leaves an image out; empty if all are there. A base picture is
        missing only where other images have one here."""
        stem = f"{index}_input_raw"
        if self.bases and index not in self.bases:
            return f"{stem}.png or .jpg"
        names = (f"{stem}_turn_{turn}.png" for turn in range(1, TURNS + 1))
        return next((name for name in names if name not in self.names), "")

    def facts(self, listed: Collection[int], *, released: bool) -> dict[str, Any]:
        """What users have to know of these files, as JSON; see `notes`. listed: images in the instruction file.
        released: as the released code takes them."""
        unlisted = {index for index, _ in self._parsed.values()} - set(listed)
        complete = {index for index in self.bases if not self.missing_file(index)}
        facts: dict[str, Any] = {
            UNLISTED: sorted(unlisted & complete if released else unlisted),
            UNFINISHED: sorted(unlisted - complete if released else ()),
            TWICE: sorted(
                index
                for index in complete
                if released and {f"{index}_input_raw.png", f"{index}_input_raw.jpg"} <= self.names
            ),
            IGNORED: sorted(
                name
                for name, (_, turn) in self._parsed.items()
                if turn is not None and not name.endswith(".png") and f"{Path(name).stem}.png" in self.names
            ),
        }
        found = {name: values for name, values in facts.items() if values}
        return found | ({BASES: "outputs" if self.bases else "data"} if released else {})


def output_folder(outputs: Path, mode: str) -> OutputFolder:
    """The files of a mode: in its folder, or right in `outputs` if there is none. Read again after changes."""
    folder = outputs / mode if (outputs / mode).is_dir() else outputs
    try:
        return _read(folder, folder.stat().st_mtime_ns)
    except OSError:  # the folder of outputs has gone meanwhile: no file is there
        return OutputFolder(folder, frozenset())


@lru_cache(maxsize=8)
def _read(folder: Path, changed: int) -> OutputFolder:
    names = (path.name for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    return OutputFolder(folder, frozenset(names))


def notes(facts: Mapping[str, Any], mode: str, *, released: bool) -> list[str]:
    """The facts of outputs in words, for the notes of tables."""
    found = {name: values for name in (UNLISTED, UNFINISHED, TWICE, IGNORED) if (values := listed_in(facts, name))}
    texts = []
    if IGNORED in found:
        texts.append(f"{_count(found[IGNORED], 'picture')} beside a .png of the same name: the .png counts.")
    if UNLISTED in found:
        texts.append(
            f"{_count(found[UNLISTED], 'image')} with outputs, but without a row in the instruction file: not scored."
        )
    if UNFINISHED in found:
        text = (
            f"{_count(found[UNFINISHED], 'image')} with outputs, but with neither a row in the instruction file nor all"
        )
        texts.append(f"{text} of its pictures: not scored.")
    if TWICE in found:
        text = f"{_count(found[TWICE], 'image')} with base pictures as .png and as .jpg: the released code scores them"
        texts.append(f"{text} twice, and so they count twice in task_rate.json{_TWICE_IN_TABLES.get(mode, '')}.")
    if released:
        beside = facts.get(BASES) == "outputs"
        where = "those beside the outputs" if beside else "those of the data, since none lies beside the outputs"
        texts.append(f"Base pictures: {where}.")
    return texts


_TWICE_IN_TABLES = {"multipass": ", and in all rates and means but the image success"}
"""The notebook's tables of singlepass are made of one file an image."""


def _count(values: list[Any], what: str) -> str:
    shown = ", ".join(map(str, values[:3])) + (", …" if len(values) > 3 else "")
    return f"{len(values)} {what}{'' if len(values) == 1 else 's'} ({shown})"


def listed_in(facts: Mapping[str, Any], name: str) -> list[Any]:
    """The values of a fact: images, or for `IGNORED` names of files, without what else a stranger's results have."""
    values = facts.get(name)
    if not isinstance(values, list):
        return []
    if name == IGNORED:
        return [value for value in values if isinstance(value, str) and _NAME.fullmatch(value)]
    return [value for value in values if type(value) is int and 0 <= value < 10**9]
