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

_NAME = re.compile(r"([0-9]{1,9})_input_raw(?:_turn_([0-9]{1,3}))?")

UNLISTED, TWICE, IGNORED, BASES = "unlisted", "twice", "ignored", "bases"
"""Entries of `OutputFolder.facts`."""

_MAX_FACTS = 1_000
"""Files or images of each kind that results name."""


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
            for name in self.names:
                match = _NAME.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
                if match is not None and match[2] is None:
                    bases[int(match[1])] = self.folder / name
        return bases

    def missing_file(self, index: int) -> str:
        """The first file without which the released code leaves an image out; empty if all are there.

        A base picture is missing only where other images have one here.
        """
        stem = f"{index}_input_raw"
        if self.bases and index not in self.bases:
            return f"{stem}.png or .jpg"
        names = (f"{stem}_turn_{turn}.png" for turn in range(1, TURNS + 1))
        return next((name for name in names if name not in self.names), "")

    def facts(self, listed: Collection[int], *, released: bool) -> dict[str, Any]:
        """What users have to know of these files, as JSON; see `notes`. listed: images in the instruction file.

        released: as the released code takes them.
        """
        indices = {int(match[1]) for name in self.names if (match := _NAME.fullmatch(Path(name).stem))}
        unlisted = sorted(indices - set(listed))
        if released:
            unlisted = [index for index in unlisted if index in self.bases and not self.missing_file(index)]
        facts: dict[str, Any] = {
            UNLISTED: unlisted,
            TWICE: sorted(
                index
                for index in self.bases
                if released and {f"{index}_input_raw.png", f"{index}_input_raw.jpg"} <= self.names
            ),
            IGNORED: sorted(
                name for name in self.names if not name.endswith(".png") and f"{Path(name).stem}.png" in self.names
            ),
        }
        found = {name: values[:_MAX_FACTS] for name, values in facts.items() if values}
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
    """The facts of outputs in words, for the first table."""
    found = {name: values for name in (UNLISTED, TWICE, IGNORED) if (values := _listed(facts, name))}
    texts = []
    if IGNORED in found:
        texts.append(f"{_count(found[IGNORED], 'picture')} beside a .png of the same name: the .png counts.")
    if UNLISTED in found:
        text = (
            f"{_count(found[UNLISTED], 'image')} with outputs, but without a row in the instruction file: not scored."
        )
        if released and mode == "multipass":
            text += " image_rate.json has them with an empty list, which the authors' notebook counts as followed."
        texts.append(text)
    if TWICE in found:
        text = f"{_count(found[TWICE], 'image')} with base pictures as .png and as .jpg: the released code scores them"
        texts.append(f"{text} twice, and so they count twice in task_rate.json{_TWICE_IN_TABLES.get(mode, '')}.")
    if released:
        beside = facts.get(BASES) == "outputs"
        where = "those beside the outputs" if beside else "those of the data, since none lies beside the outputs"
        texts.append(f"Base pictures: {where}. Pictures are read as the released code reads them.")
    return texts


_TWICE_IN_TABLES = {"multipass": ", and in all rates and means but the image success"}
"""The notebook's tables of singlepass are made of one file an image."""


def _count(values: list[Any], what: str) -> str:
    shown = ", ".join(map(str, values[:3])) + (", …" if len(values) > 3 else "")
    return f"{len(values)} {what}{'' if len(values) == 1 else 's'} ({shown})"


def _listed(facts: Mapping[str, Any], name: str) -> list[Any]:
    """The values of a fact; results may be a stranger's."""
    values = facts.get(name)
    kind = str if name == IGNORED else int
    return [value for value in values if type(value) is kind] if isinstance(values, list) else []


def indices(facts: Mapping[str, Any], name: str) -> list[int]:
    """The images of a fact, `UNLISTED` or `TWICE`."""
    return _listed(facts, name)
