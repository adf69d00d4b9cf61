"""`bench build complex-edit`: instructions of increasing complexity for images (Complex-Edit, section 2).

Three stages: a sequence of atomic instructions, simplification of each, and for every i a compound instruction of the
first i. The 24 atomic operations in their 9 categories (section 8) are described in our words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....reward import Expert, Image, Program
from ....reward.queries.parsing import shorten
from ....reward.queries.prompts import Prompts
from ..construction.reply_rules import TEXT, object_schema, parse_fields, parse_sentence
from ..construction.workspace import (
    PROMPTS,
    ConstructionFolder,
    ConstructionReport,
    NumberedImage,
    RejectionLog,
    ask_until_valid,
    image_digests,
    open_image,
)
from .reader import write_parquet

OPERATIONS: Mapping[str, Mapping[str, str]] = {
    "Object Manipulation and Transformation": {
        "Add an Object": "put something into the picture that was not there",
        "Remove an Object": "take something out of the picture",
        "Replace an Object": "put something else in the place of a thing",
        "Move an Object": "put a thing at another place in the picture",
        "Resize an Object": "make a thing larger or smaller",
        "Rotate an Object": "turn a thing by an angle that is given",
        "Duplicate an Object": "show a thing once more",
    },
    "Color and Tone Adjustments": {
        "Change Color": "give a thing another colour, which is named",
        "Apply Filter/Weather": "lay a colour filter or a kind of weather over the picture or parts of it",
    },
    "Texture and Material Adjustments": {
        "Change Texture": "give a thing another surface or material, as from stone to velvet"
    },
    "Background and Environment": {"Change Background": "put another scene or a colour behind what is shown"},
    "Lighting and Shadows": {"Adjust Lighting": "change the light of the whole picture or on certain things"},
    "Text and Symbols": {
        "Add Text": "write something into the picture",
        "Remove Text": "take away something that is written there",
        "Change Text Properties": "change font, colour, size or place of something that is written there",
    },
    "Pose and Expression": {
        "Change Pose": "change how a person or a thing stands, sits or holds itself",
        "Change Facial Expression": "change the look on somebody's face",
    },
    "Composition and Cropping": {
        "Crop Image": "cut away outer parts, so that the frame is another one",
        "Reframe Composition": "change what the picture centres on, or how the things in it are arranged",
        "Zoom In/Out": "come closer to certain things, or show more of what is around",
    },
    "Special Effects": {
        "Add Special Effects": "add an effect such as a glow, a blur of motion or a lens flare",
        "Remove Special Effects": "take away such an effect",
        "Add Particles": "add particles such as dust or sparks",
        "Remove Particles": "take away such particles",
    },
}
"""Category -> name -> what it means."""

CATEGORIES: Mapping[str, str] = {name: category for category, names in OPERATIONS.items() for name in names}

_NORMALIZED_NAMES = {"".join(letter for letter in name.casefold() if letter.isalpha()): name for name in CATEGORIES}


def operation_list() -> str:
    """All operations for a prompt, one line each under their category."""
    lines = []
    for category, names in OPERATIONS.items():
        lines.append(f"{category}:")
        lines += [f"- {name}: {meaning}." for name, meaning in names.items()]
    return "\n".join(lines)


def parse_operation(name: str) -> str:
    """The operation with this name; case, blanks and punctuation are ignored. Raises ValueError for none of the 24."""
    plain = "".join(letter for letter in name.casefold() if letter.isalpha())
    if plain not in _NORMALIZED_NAMES:
        raise ValueError(f"{name!r} is none of the {len(CATEGORIES)} operations")
    return _NORMALIZED_NAMES[plain]


SPLITS = ("test_real", "test_syn")
SEQUENCE_TEMPERATURE, COMPOUND_TEMPERATURE = 1.15, 1.0
"""Temperatures of the first stage, for variety, and of the others (section 2.4)."""

_SEQUENCE_SCHEMA = object_schema(
    sequence={"type": "array", "items": json.loads(object_schema(name=TEXT, instruction=TEXT))}
)
_SIMPLIFY_SCHEMA = object_schema(simplify={"type": "boolean"}, instruction=TEXT)
_COMPOUND_SCHEMA = object_schema(compound_instruction=TEXT)


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """The instructions of one image. sequence: name of the operation, and simplified instruction, in order. compound:
    one for each of C1, C2, …; the first is the first atomic one."""

    sequence: tuple[tuple[str, str], ...]
    compound: tuple[str, ...]


@dataclass(frozen=True)
class ComplexEditBuilder:
    """count: atomic instructions per image, hence levels of complexity. seed: another seed repeats the queries."""

    count: int = 8
    seed: int = 0
    prompts: Prompts = PROMPTS

    def program(self, image: Image) -> Callable[[RejectionLog], Program[InstructionSet]]:
        """The program that constructs the instructions of an image; deterministic for image, seed and replies."""

        def run(notes: RejectionLog) -> Program[InstructionSet]:
            sequence: list[tuple[str, str]] = []
            for name, instruction in (yield from self._sequence(notes, image)):
                sequence.append((name, (yield from self._simplified(notes, name, instruction))))
            compound = {1: sequence[0][1]}
            for level in range(2, self.count + 1):
                compound[level] = yield from self._compound(notes, image, [one for _, one in sequence[:level]])
            return InstructionSet(tuple(sequence), tuple(compound.values()))

        return run

    def _sequence(self, notes: RejectionLog, image: Image) -> Program[list[tuple[str, str]]]:
        def parse(reply: str) -> list[tuple[str, str]]:
            instructions = [
                (parse_operation(item["name"]), parse_sentence(item["instruction"]))
                for item in parse_fields(_SEQUENCE_SCHEMA, reply)["sequence"]
            ]
            if len(instructions) != self.count:
                raise ValueError(f"{self.count} instructions were requested, got {len(instructions)}")
            normalized = [instruction.casefold().rstrip(".") for _, instruction in instructions]
            if repeated := next((text for number, text in enumerate(normalized) if text in normalized[:number]), ""):
                raise ValueError(f"it has the same instruction twice: {shorten(repeated)}")
            return instructions

        slots, operations = {"count": str(self.count)}, operation_list()
        prompt = self.prompts.render("complex_edit_sequence", **slots, operations=operations)
        options = self._options(slots, 2048, SEQUENCE_TEMPERATURE)
        return (yield from ask_until_valid(notes, "complex-edit/sequence", prompt, image, parse, **options))

    def _simplified(self, notes: RejectionLog, name: str, instruction: str) -> Program[str]:
        def parse(reply: str) -> str:
            fields = parse_fields(_SIMPLIFY_SCHEMA, reply)
            if not fields["simplify"]:
                return instruction
            simpler = parse_sentence(fields["instruction"])
            if len(simpler.split()) > len(instruction.split()):
                raise ValueError(f"it got longer: {shorten(simpler)}")
            return simpler

        slots = {"kind": name, "instruction": instruction}
        prompt, options = self.prompts.render("complex_edit_simplify", **slots), self._options(slots, 512)
        return (yield from ask_until_valid(notes, "complex-edit/simplify", prompt, None, parse, **options))

    def _compound(self, notes: RejectionLog, image: Image, sequence: Sequence[str]) -> Program[str]:
        def parse(reply: str) -> str:
            sentence = parse_fields(_COMPOUND_SCHEMA, reply)["compound_instruction"]
            return parse_sentence(sentence, max_words=40 * len(sequence))

        instructions = "\n".join(f"{number}. {instruction}" for number, instruction in enumerate(sequence, start=1))
        slots = {"instructions": instructions}
        prompt, options = self.prompts.render("complex_edit_compound", **slots), self._options(slots, 1024)
        return (yield from ask_until_valid(notes, "complex-edit/compound", prompt, image, parse, **options))

    def _options(
        self, slots: Mapping[str, str], max_tokens: int, temperature: float = COMPOUND_TEMPERATURE
    ) -> dict[str, Any]:
        return {"temperature": temperature, "max_tokens": max_tokens, "slots": slots, "seed": self.seed}


def construct(
    numbered_images: Iterable[NumberedImage],
    out: Path,
    writer: ComplexEditBuilder,
    *,
    judge: Expert,
    split: str = "test_real",
    step: Callable[[], None] = lambda: None,
    window: int = 64,
) -> ConstructionReport:
    """Construct instructions for images. Writes `data/{split}-00000-of-00001.parquet` with the published columns
    (`image` with the file's own bytes, `edit`) and `rejections.jsonl`. Raises `InputError`."""
    sources = [(numbered_image, open_image(numbered_image.path)) for numbered_image in numbered_images]
    settings = {
        "suite": "complex-edit",
        "seed": writer.seed,
        "count": writer.count,
        "split": split,
        "prompts": writer.prompts.digest,
        "experts": {"judge": judge.id},
    }
    folder = ConstructionFolder(out, {**settings, "images": image_digests(sources)})
    programs = ((str(numbered_image.index), writer.program(image)) for numbered_image, image in sources)
    constructed = folder.run(programs, {"judge": judge}, window=window, step=step)
    rows = (
        parquet_row(numbered_image, constructed.values[str(numbered_image.index)])
        for numbered_image, _ in sources
        if str(numbered_image.index) in constructed.values
    )
    return constructed.report(write_parquet(out / "data" / f"{split}-00000-of-00001.parquet", rows))


def parquet_row(numbered_image: NumberedImage, edit: InstructionSet) -> Mapping[str, Any]:
    """A row in the published format: the image file, the atomic instructions and the compound ones."""
    return {
        "image": {"bytes": numbered_image.path.read_bytes(), "path": numbered_image.name},
        "edit": {
            "sequence": [{"name": name, "instruction": instruction} for name, instruction in edit.sequence],
            "compound": [{"compound_instruction": instruction} for instruction in edit.compound],
        },
    }
