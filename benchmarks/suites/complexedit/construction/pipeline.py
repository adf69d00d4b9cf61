"""`bench make complex-edit`: instructions of growing complexity for pictures (Complex-Edit, section 2).

Three stages: a sequence of atomic instructions, each simplified where it says too much, and the first i of them made
one compound instruction, for every i.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...reward import Asks, Engine, Expert, Image
from ...reward.prompts import Prompts
from ...reward.reading import short
from ...reward.stats import Stats
from .asking import Made, Notes, insist, make_all
from .complex_edit_file import write_parquet
from .given import PROMPTS, Folder, Picture, digests, opened
from .operations import listing, operation
from .outcome import Outcome
from .words import fields, sentence

T = TypeVar("T")

SPLITS = ("test_real", "test_syn")
HOT, WARM = 1.15, 1.0
"""Temperatures of the first stage, for variety, and of the others (section 2.4)."""

_SEQUENCE = json.dumps(
    {
        "type": "object",
        "properties": {
            "sequence": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "instruction": {"type": "string"}},
                    "required": ["name", "instruction"],
                },
            }
        },
        "required": ["sequence"],
    }
)
_SIMPLER = json.dumps(
    {
        "type": "object",
        "properties": {"simplify": {"type": "boolean"}, "instruction": {"type": "string"}},
        "required": ["simplify", "instruction"],
    }
)
_COMPOUND = json.dumps(
    {
        "type": "object",
        "properties": {"compound_instruction": {"type": "string"}},
        "required": ["compound_instruction"],
    }
)


@dataclass(frozen=True, slots=True)
class Atomic:
    """name: of the operation. instruction: simplified. original: as it was first written."""

    name: str
    instruction: str
    original: str


@dataclass(frozen=True, slots=True)
class Edit:
    """What was made of one picture. compound: one for each of C1, C2, …; the first is the first atomic one."""

    sequence: tuple[Atomic, ...]
    compound: tuple[str, ...]


@dataclass(frozen=True)
class Writer:
    """count: atomic instructions a picture, hence levels of complexity. seed: another one asks anew.

    Raises ValueError for a count below 1.
    """

    count: int = 8
    seed: int = 0
    prompts: Prompts = PROMPTS

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a picture takes at least one instruction, got {self.count}")

    def program(self, image: Image) -> Callable[[Notes], Asks[Edit]]:
        """What makes the instructions for a picture; the same for the same picture, seed and answers."""

        def run(notes: Notes) -> Asks[Edit]:
            sequence: list[Atomic] = []
            for name, instruction in (yield from self._sequence(notes, image)):
                simpler = yield from self._simplified(notes, name, instruction)
                sequence.append(Atomic(name, simpler, instruction))
            compound = {1: sequence[0].instruction}
            for level in range(2, self.count + 1):
                compound[level] = yield from self._compound(notes, image, sequence[:level])
            return Edit(tuple(sequence), tuple(compound.values()))

        return run

    def _sequence(self, notes: Notes, image: Image) -> Asks[list[tuple[str, str]]]:
        def read(said: str) -> list[tuple[str, str]]:
            found = [
                (operation(item["name"]), sentence(item["instruction"])) for item in fields(_SEQUENCE, said)["sequence"]
            ]
            if len(found) != self.count:
                raise ValueError(f"{self.count} instructions were asked for, got {len(found)}")
            told = [instruction.casefold().rstrip(".") for _, instruction in found]
            if twice := next((one for place, one in enumerate(told) if one in told[:place]), ""):
                raise ValueError(f"it asks for the same thing twice: {short(twice)}")
            return found

        words = self.prompts.render("complex_edit_sequence", count=str(self.count), operations=listing())
        return (yield from self._asked(notes, "sequence", words, image, read, HOT, 2048, count=str(self.count)))

    def _simplified(self, notes: Notes, name: str, instruction: str) -> Asks[str]:
        def read(said: str) -> str:
            found = fields(_SIMPLER, said)
            if not found["simplify"]:
                return instruction
            simpler = sentence(found["instruction"])
            if len(simpler.split()) > len(instruction.split()):
                raise ValueError(f"it got longer: {short(simpler)}")
            return simpler

        words = self.prompts.render("complex_edit_simplify", kind=name, instruction=instruction)
        return (
            yield from self._asked(notes, "simplify", words, None, read, WARM, 512, kind=name, instruction=instruction)
        )

    def _compound(self, notes: Notes, image: Image, sequence: Sequence[Atomic]) -> Asks[str]:
        def read(said: str) -> str:
            return sentence(fields(_COMPOUND, said)["compound_instruction"], most=40 * len(sequence))

        instructions = "\n".join(f"{place}. {one.instruction}" for place, one in enumerate(sequence, start=1))
        words = self.prompts.render("complex_edit_compound", instructions=instructions)
        return (yield from self._asked(notes, "compound", words, image, read, WARM, 1024, instructions=instructions))

    def _asked(
        self,
        notes: Notes,
        stage: str,
        words: str,
        image: Image | None,
        read: Callable[[str], T],
        temperature: float,
        max_tokens: int,
        **slots: str,
    ) -> Asks[T]:
        return (
            yield from insist(
                notes,
                f"complex-edit/{stage}",
                words,
                image,
                read,
                temperature=temperature,
                max_tokens=max_tokens,
                slots=slots,
                seed=self.seed,
            )
        )


def make(
    given: Iterable[Picture],
    out: Path,
    writer: Writer,
    *,
    judge: Expert,
    split: str = "test_real",
    step: Callable[[], None] = lambda: None,
    window: int = 64,
) -> Outcome:
    """Make instructions for pictures.

    Writes `data/{split}-00000-of-00001.parquet` with the published columns (`image` with the file's own bytes, `edit`)
    and `rejects.jsonl`. Raises `InputError`.
    """
    sources = [(picture, opened(picture.path)) for picture in given]
    asked = {
        "suite": "complex-edit",
        "seed": writer.seed,
        "count": writer.count,
        "split": split,
        "prompts": writer.prompts.digest,
        "experts": {"judge": judge.id},
    }
    folder = Folder(out, {**asked, "pictures": digests(sources)})
    found: list[Made[Edit]] = []
    with folder.log() as log, Engine(log=log, window=window) as engine:
        programs = ((str(picture.index), writer.program(image)) for picture, image in sources)
        for one in make_all(programs, engine, {"judge": judge}):
            found.append(one)
            step()
        stats = engine.stats().since(Stats())
    folder.rejects(reject for one in found for reject in one.rejects)
    edits = {int(one.id): one.value for one in found if one.value is not None}
    place = out / "data" / f"{split}-00000-of-00001.parquet"
    rows = (row_of(picture, edits[picture.index]) for picture, _ in sources if picture.index in edits)
    write_parquet(place, rows)
    failed = {one.id: one.failed for one in found if one.failed}
    return Outcome(len(edits), len(found) - len(edits) - len(failed), failed, (place,), stats)


def row_of(picture: Picture, edit: Edit) -> Mapping[str, Any]:
    """A row as published: the picture's file, the atomic instructions and the compound ones."""
    return {
        "image": {"bytes": picture.path.read_bytes(), "path": picture.name},
        "edit": {
            "sequence": [{"name": one.name, "instruction": one.instruction} for one in edit.sequence],
            "compound": [{"compound_instruction": one} for one in edit.compound],
        },
    }
