"""Complex-Edit: 531 real and 531 synthetic pictures, each with instructions of eight levels. Paper: arXiv 2504.13143.

Data: parquet files or a saved data set with the columns `image` and `edit`. Outputs: a folder a level, `C1` to `C8`,
each with a picture a row (`0000.png`, ...); where one level is asked for, they may lie in one flat folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from ....reward.complexedit.alignment import IdentityPreservation, InstructionFollowing
from ....reward.complexedit.options import MODES, Mode, Options
from ....reward.complexedit.quality import PerceptualQuality
from ....reward.spec import Spec
from ....verifiers import unedited
from ...inputs import InputError
from ..results import Results
from ..suite import About, Item, Label, Problem, Suite
from ..tables import Table
from . import tables
from .files import find_tables
from .places import by_number, level_folder
from .reading import Edit, read_split
from .scaling import MEANS, Mean

LEVELS = 8

_KINDS: Mapping[str, type[Options]] = {
    "if": InstructionFollowing,
    "ip": IdentityPreservation,
    "pq": PerceptualQuality,
}


class ComplexEdit(Suite):
    """One split of Complex-Edit.

    data: a folder with parquet files (as on the hub) or with what `save_to_disk` has written; or one parquet file.
    split: `test_real` or `test_syn`. levels: of complexity, as in `1-8`, `3` or `1,8`.

    mode: how the judge is asked (see `reward.complexedit.options`): `numeric`, the paper's, is the mean of `n` grades;
    `expected` and `token_probability` take one pass and a judge that gives probabilities. seed, spare: which grades
    these are, and how many that failed are replaced. prompts: a folder of prompts to use instead of ours. mean: of the
    three scores into O, `arithmetic` (the paper's) or `geometric`.

    Raises `InputError` for data that cannot be used as a whole. Rows that cannot be read are `problems`.
    """

    name: ClassVar[str] = "complex-edit"
    about: ClassVar[About] = About(
        "Complex-Edit",
        "S. Yang, M. Hui, B. Zhao, Y. Zhou, N. Ruiz, C. Xie: Complex-Edit: CoT-Like Instruction Generation for "
        "Complexity-Controllable Image Editing Benchmark. arXiv:2504.13143, 2025",
        "CC BY-NC 4.0, by the data set's card",
        "https://huggingface.co/datasets/UCSC-VLAA/Complex-Edit",
    )

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        split: str = "test_real",
        levels: str | int = f"1-{LEVELS}",
        mode: Mode = "numeric",
        n: int = 20,
        seed: int = 0,
        spare: int = 2,
        mean: Mean = "arithmetic",
        prompts: str | None = None,
    ) -> None:
        if data is None:
            raise InputError("complex-edit needs its data: give the folder with its parquet files, or one of them")
        if mean not in MEANS:
            raise InputError(f"complex-edit has no mean {mean!r}: expected one of {', '.join(MEANS)}")
        self.split, self.mode, self.mean = split, mode, mean
        self.levels = _levels(levels)
        self._measuring: dict[str, Any] = {"n": n, "seed": seed, "spare": spare}
        self._prompts = prompts
        self._metrics(mode)  # refuses options that mean nothing, before anything is read
        found = read_split(find_tables(Path(data), split))
        self.rows = found.rows
        problems = [*found.problems]
        self.items: Sequence[Item] = [item for edit in found.edits for item in self._items(edit, problems)]
        self.problems: Sequence[Problem] = problems
        if not self.items:
            said = "; ".join(map(str, problems[:3]))
            raise InputError(f"nothing can be asked of the {found.rows} rows of {data}: {said}")
        self.digest = _digest(self.items)

    def _items(self, edit: Edit, problems: list[Problem]) -> list[Item]:
        """The levels of a row that there are."""
        case = f"{edit.number:04}"
        there = min(len(edit.compounds), len(edit.sequence))
        if lacking := [level for level in self.levels if level > there]:
            said = f"has {len(edit.sequence)} atomic and {len(edit.compounds)} compound instructions"
            problems.append(Problem(f"row {edit.number}", f"{said}: level C{lacking[0]} and later ones are left out"))
        return [
            Item(
                f"{case}/C{level}",
                case,
                case if len(self.levels) == 1 else f"C{level}/{case}",
                unedited(
                    edit.compounds[level - 1], edit.image, id=f"{case}/C{level}", operations=edit.sequence[:level]
                ),
                labels={"level": level, "split": self.split},
            )
            for level in self.levels
            if level <= there
        ]

    @property
    def options(self) -> Mapping[str, Label]:
        """What the results depend on; of a folder of prompts, its digest."""
        found: dict[str, Label] = {"split": self.split, "levels": ",".join(map(str, self.levels)), "mode": self.mode}
        found |= {**(self._measuring if self.mode == "numeric" else {}), "mean": self.mean}
        if self._prompts is not None:
            found["prompts"] = InstructionFollowing(prompts=self._prompts).words.digest
        return found

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`if`, `ip` and `pq`, each a grade from 0 to 10; O is made of them in the tables.

        protocol: None asks in the suite's `mode`; `paper` is the mode `numeric`; the other modes go by their names.
        Raises `InputError` for another, and for `numeric` options with another mode.
        """
        mode = {None: self.mode, "paper": "numeric"}.get(protocol, protocol)
        if mode not in MODES:
            raise InputError(f"complex-edit has no protocol {protocol!r}: expected one of paper, {', '.join(MODES)}")
        return self._metrics(mode)

    def _metrics(self, mode: str) -> dict[str, Spec]:
        options: dict[str, Any] = {"mode": mode, **({} if self._prompts is None else {"prompts": self._prompts})}
        try:
            cards = {name: kind(**options, **self._measuring).card for name, kind in _KINDS.items()}
        except ValueError as error:
            raise InputError(str(error)) from None
        if mode == "numeric":
            options |= self._measuring
        return {name: {"use": card.name, **options} for name, card in cards.items()}

    def find(self, outputs: Path, item: Item) -> Path | None:
        """By number, or by place in the order of names: see `places.py`. Raises `InputError` where that is unclear."""
        folder = level_folder(outputs, int(item.labels["level"]), alone=len(self.levels) == 1)
        return by_number(folder, self.rows).get(int(item.case))

    def tables(self, results: Results) -> list[Table]:
        """IF, IP, PQ and O over the levels first (table 3), then by level (tables 4 and 5); see `tables.py`."""
        names = {item.id: [one.name for one in item.sample.operations] for item in self.items}
        return tables.tables_of(results, self.mean, names)


def _levels(given: str | int) -> tuple[int, ...]:
    """`1-8`, `3`, `1,8` as numbers, in order. Raises `InputError`."""
    found: set[int] = set()
    for part in str(given).split(","):
        match = re.fullmatch(r"\s*C?(\d+)\s*(?:-\s*C?(\d+)\s*)?", part, re.IGNORECASE)
        if match is None:
            raise InputError(f"complex-edit's levels are given as in 1-{LEVELS}, 3 or 1,{LEVELS}, got {given!r}")
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if not found or min(found) < 1 or max(found) > LEVELS:
        raise InputError(f"complex-edit has the levels 1 to {LEVELS}, got {given!r}")
    return tuple(sorted(found))


def _digest(items: Sequence[Item]) -> str:
    """Of what is asked: instructions, operations and pixels, in order."""
    state = hashlib.sha256()
    for item in items:
        sample = item.sample
        said = [item.id, sample.instruction, sample.source.digest, [asdict(one) for one in sample.operations]]
        state.update(json.dumps(said).encode() + b"\n")
    return state.hexdigest()
