"""EdiVal-Bench: 572 pictures, each edited in three turns. Paper: EdiVal-Agent (arXiv 2509.13399).

Data: `oai_instruction_generation_output.csv`, and beside it the base pictures `{index}_input_raw.jpg`, in a zip or a
folder. Outputs: `{multipass,singlepass}/{index}_input_raw_turn_{turn}.png`. In multipass each turn edits what the last
one made; in singlepass ("complex" in the paper) the instructions of the turns up to this one are put to the base
picture at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ....reward import EditSample, Image, ImageError
from ....reward.edival.quality import Prompt, VisualQuality
from ....reward.prompts import Prompts
from ....reward.sample import Operation
from ....reward.spec import Spec
from ....verifiers import unedited
from ...inputs import InputError
from ..results import Results
from ..suite import About, Item, Label, Problem, Suite, found_at
from ..tables import Table
from . import official_files, tables
from .pictures import find_pictures, is_padded
from .reading import CSV, Turn, read_chains
from .wording import COMPRESSIONS, Compression, compressed

Mode = Literal["multipass", "singlepass"]
Incomplete = Literal["drop", "later"]

PROTOCOLS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "paper": ("paper", "fixed"),
        "official": ("official", "official"),
        "official-fixed": ("official", "fixed"),
        "paper-official": ("paper", "official"),
    }
)
"""Name -> protocols of instruction following and of content consistency; the default first."""

_PACK = "editcritic.reward.edival"


class EdiVal(Suite):
    """EdiVal-Bench in its published layout.

    data: the folder with the instruction file, or that file. pictures: the zip or folder with the base pictures, where
    they are not beside it. mode: `multipass` or `singlepass`. compression: how singlepass makes one instruction of
    several (see `wording.compressed`); seed: of `shuffle`. incomplete: whether a picture that lacks any turn is left
    out of all turns (`drop`, as the released code has it) or of the turns from there on (`later`, the paper's text).
    vq: whether visual quality is rated, which takes an expert for the role `preference`; vq_prompt: what that expert
    is told (the released code has both, `instruction` and `empty`). prompts: a folder of prompts to use instead of ours
    for instruction following.

    Raises `InputError` for a file that cannot be read, and where no picture has both instructions and pixels. Whatever
    else is wrong is in `problems`.
    """

    name: ClassVar[str] = "edival"
    about: ClassVar[About] = About(
        "EdiVal-Bench",
        "T. Chen et al.: EdiVal-Agent: An Object-Centric Framework for Automated, Fine-Grained Evaluation of "
        "Multi-Turn Editing. arXiv:2509.13399, 2025",
        "CC BY-SA 4.0 and MIT, by the badges of the authors' repository; base pictures come from GEdit-Bench",
        "https://huggingface.co/datasets/C-Tianyu/EdiVal",
    )

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        mode: Mode = "multipass",
        compression: Compression = "default",
        incomplete: Incomplete = "drop",
        vq: bool = True,
        vq_prompt: Prompt = "instruction",
        pictures: str | None = None,
        prompts: str | None = None,
        seed: int = 0,
    ) -> None:
        for option, value, known in (
            ("mode", mode, get_args(Mode)),
            ("compression", compression, COMPRESSIONS),
            ("incomplete", incomplete, get_args(Incomplete)),
            ("vq_prompt", vq_prompt, get_args(Prompt)),
        ):
            if value not in known:
                raise InputError(f"edival has no {option} {value!r}: expected one of {', '.join(known)}")
        if mode == "multipass" and compression != "default":
            raise InputError(f"compression={compression} is for mode=singlepass: multipass asks for one turn at a time")
        self.mode, self.compression, self.incomplete = mode, compression, incomplete
        self.vq, self.vq_prompt, self.seed = bool(vq), vq_prompt, seed
        try:
            self._prompts = Prompts(_PACK, prompts)
        except ValueError as error:
            raise InputError(str(error)) from None
        instructions = _instruction_file(data)
        chains = read_chains(instructions)
        problems = [*chains.problems]
        found = find_pictures(_place(instructions, pictures), problems)
        self.turns: dict[str, Turn] = {}
        """The rows of the instruction file, by item."""
        self.items: Sequence[Item] = [
            item for index, turns in chains.turns.items() for item in self._chain(index, turns, found, problems)
        ]
        self.problems: Sequence[Problem] = problems
        if not self.items:
            raise InputError(_nothing(instructions, problems))
        self.digest = _digest(self.items)

    def _chain(
        self, index: int, turns: Sequence[Turn], pictures: Mapping[int, Path], problems: list[Problem]
    ) -> list[Item]:
        """The items of one picture; none, and a problem, where the picture is missing or damaged."""
        if index not in pictures:
            what = f"there is no {index}_input_raw.jpg (or .png), so its {len(turns)} turns are left out"
            problems.append(Problem(f"picture {index}", what))
            return []
        try:
            base = Image.open(pictures[index])
        except ImageError as error:
            problems.append(Problem(f"picture {index}", str(error)))
            return []
        shape = "padded" if is_padded(base) else "square"
        items: list[Item] = []
        for turn in turns:
            name = f"{index}/{self.mode}/{turn.number}"
            self.turns[name] = turn
            labels: dict[str, Label] = {
                "turn": turn.number,
                "type": turn.type,
                "types": ",".join(turn.types),
                "mode": self.mode,
                "background": "kept" if turn.pools.background else "changed",
                "shape": shape,
            }
            place = f"{self.mode}/{index}_input_raw_turn_{turn.number}"
            after = items[-1].id if items and self.mode == "multipass" else ""
            items.append(Item(name, str(index), place, self._sample(name, turn, base), after, labels))
        return items

    def _sample(self, name: str, turn: Turn, base: Image) -> EditSample:
        if self.mode == "multipass":
            return unedited(turn.said[-1], base, id=name, task=turn.tasks[-1], pools=turn.pools)
        operations = tuple(map(Operation, turn.said, turn.types, turn.tasks))
        words = compressed(
            turn.said, self.compression, unchanged=turn.pools.unchanged, seed=f"{self.seed}/{turn.index}/{turn.number}"
        )
        return unedited(words, base, id=name, operations=operations, pools=turn.pools)

    @property
    def options(self) -> Mapping[str, Label]:
        """What the results depend on; of a folder of prompts, its digest."""
        found: dict[str, Label] = {"mode": self.mode, "incomplete": self.incomplete, "vq": self.vq}
        if self.mode == "singlepass":
            found["compression"] = self.compression
        if self.compression == "shuffle":
            found["seed"] = self.seed
        if self.vq:
            found["vq_prompt"] = self.vq_prompt
        if self._prompts.pack is not None:
            found["prompts"] = self._prompts.digest
        return found

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`if`, `cc` and, unless it was left out, `vq`; in singlepass `if` has a credit an instruction.

        protocol: `paper` (IF by the paper, CC `fixed`), `official` (both as in the released code), `official-fixed` and
        `paper-official` (IF by the first, CC by the second). Raises `InputError` for another.
        """
        name = protocol or next(iter(PROTOCOLS))
        if name not in PROTOCOLS:
            raise InputError(f"edival has no protocol {protocol!r}: expected one of {', '.join(PROTOCOLS)}")
        by, consistency = PROTOCOLS[name]
        following: dict[str, Spec | str] = {"use": "edival-if", "protocol": by}
        if self._prompts.pack is not None:
            following["prompts"] = self._prompts.pack
        kept: Spec = {"use": "edival-cc", "protocol": consistency}
        found: dict[str, Spec] = {"if": following, "cc": kept}
        if self.mode == "singlepass":
            compound = "editcritic.reward.compound"
            found = {
                "if": {"use": f"{compound}:PerOperation", "following": following},
                "cc": {"use": f"{compound}:OfOperations", "metric": kept},
            }
        if self.vq:
            found["vq"] = {"use": VisualQuality.card.name, "prompt": self.vq_prompt}
        return found

    def find(self, outputs: Path, item: Item) -> Path | None:
        """`{mode}/{index}_input_raw_turn_{turn}.png`; where there is no folder of that mode, without it."""
        place = outputs / item.place
        return found_at(place) if place.parent.is_dir() else found_at(outputs / place.name)

    def tables(self, results: Results) -> list[Table]:
        """IF, CC and O by turn first (table 3), then what they rest on; see `tables.py`."""
        return tables.tables_of(self.mode, self.incomplete, results)

    def write(self, results: Results, folder: Path) -> list[Path]:
        """The released code's result files, which the authors' notebooks read; see `official_files.py`."""
        return official_files.write(self.mode, self.turns, results, folder)


def _instruction_file(data: str | Path | None) -> Path:
    if data is None:
        raise InputError(f"edival needs its data: give the folder that holds {CSV}, or that file")
    path = Path(data)
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path} does not exist: give the folder that holds {CSV}, or that file")
    files = sorted(path.glob("*.csv"))
    if (path / CSV).is_file():
        return path / CSV
    if len(files) == 1:
        return files[0]
    there = f"several CSV files ({', '.join(file.name for file in files)})" if files else "no CSV file"
    raise InputError(f"{path} holds {there} and no {CSV}: put it there, or give the file itself")


def _place(instructions: Path, pictures: str | None) -> Path:
    """Where the base pictures are: as said, or in the one zip beside the instructions, or in that folder."""
    if pictures is not None:
        return Path(pictures)
    folder = instructions.parent
    archives = sorted(folder.glob("*.zip"))
    named = [path for path in archives if "input_images" in path.name] or archives
    if len(named) > 1:
        names = ", ".join(path.name for path in named)
        raise InputError(
            f"{folder} holds several zips ({names}): say which one has the base pictures, as in pictures=..."
        )
    return named[0] if named else folder


def _nothing(instructions: Path, problems: Sequence[Problem]) -> str:
    said = "; ".join(map(str, problems[:3])) or "it has no rows"
    more = f"; and {len(problems) - 3} more problems" if len(problems) > 3 else ""
    return f"nothing can be asked of {instructions}: {said}{more}"


def _digest(items: Sequence[Item]) -> str:
    """Of what is asked: instructions, tasks, pools and pixels, in order."""
    state = hashlib.sha256()
    for item in items:
        sample = item.sample
        said = [item.id, sample.instruction, sample.source.digest, sample.task, sample.operations, sample.pools]
        state.update(json.dumps(said, default=asdict).encode() + b"\n")
    return state.hexdigest()
