"""EdiVal-Bench: 572 images, each edited in three turns. Paper: EdiVal-Agent (arXiv 2509.13399).

Data: `oai_instruction_generation_output.csv`, and beside it the base images `{index}_input_raw.jpg`, in a zip or a
folder. Outputs: `{multipass,singlepass}/{index}_input_raw_turn_{turn}.png`. In multipass each turn edits the output of
the previous one; in singlepass ("complex" in the paper) the instructions of all turns up to this one are applied to the
base image at once.
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
from ....reward.metrics.edival.quality import RatingPrompt, VisualQuality
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....reward.sample import Operation
from ....verifiers import edit_request
from ...common.errors import InputError
from ...common.problems import Problems, num_problems
from ..image_index import SuiteImage, decode_images
from ..results import Results
from ..suite import DataProblem, LabelValue, Suite, SuiteInfo, SuiteItem, find_image, share_cases
from ..tables import Table
from . import official_files, tables
from .base_images import find_base_images
from .instruction_compression import COMPRESSIONS, Compression, compress_instructions
from .reader import CSV, EdiValTurn, read_instruction_file

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

_PROMPT_PACKAGE = "editcritic.reward.metrics.edival"


class EdiVal(Suite):
    """EdiVal-Bench in its published layout.

    data: the folder with the instruction file, or that file. images: the zip or folder with the base images, if not
    beside it. mode: `multipass` or `singlepass`. compression: how singlepass joins several instructions (see
    `compress_instructions`); seed: of `shuffle`. incomplete: an image without some turn is left out of all turns
    (`drop`, as in the released code) or of that turn and later ones (`later`, as in the paper's text). vq: whether to
    rate visual quality, which needs an expert for the role `preference`; vq_prompt: its prompt (the released code has
    both, `instruction` and `empty`). prompts: a folder of prompts that override those of instruction following.

    Raises `InputError` for an unreadable file, and if no image has both instructions and pixels. Other errors are
    `problems`.
    """

    name: ClassVar[str] = "edival"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "EdiVal-Bench",
        "T. Chen et al.: EdiVal-Agent: An Object-Centric Framework for Automated, Fine-Grained Evaluation of "
        "Multi-Turn Editing. arXiv:2509.13399, 2025",
        "CC BY-SA 4.0 and MIT, by the badges of the authors' repository; base images come from GEdit-Bench",
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
        vq_prompt: RatingPrompt = "instruction",
        images: str | None = None,
        prompts: str | None = None,
        seed: int = 0,
    ) -> None:
        for option, value, allowed in (
            ("mode", mode, get_args(Mode)),
            ("compression", compression, COMPRESSIONS),
            ("incomplete", incomplete, get_args(Incomplete)),
            ("vq_prompt", vq_prompt, get_args(RatingPrompt)),
        ):
            if value not in allowed:
                raise InputError(f"edival has no {option} {value!r}: expected one of {', '.join(allowed)}")
        if mode == "multipass" and compression != "default":
            raise InputError(f"compression={compression} is for mode=singlepass: multipass asks for one turn at a time")
        self.mode, self.compression, self.incomplete = mode, compression, incomplete
        self.vq, self.vq_prompt, self.seed = bool(vq), vq_prompt, seed
        try:
            self._prompts = Prompts(_PROMPT_PACKAGE, prompts)
        except ValueError as error:
            raise InputError(str(error)) from None
        instructions = _instruction_file(data)
        chains = read_instruction_file(instructions)
        problems = chains.problems
        location = _base_image_location(instructions, images)
        files = find_base_images(location, problems)
        folder = location if location.is_dir() else None  # else of files that were extracted
        decoded = decode_images((files[index] for index in chains.turns if index in files), folder)
        base_images = {index: decoded[path] for index, path in files.items() if path in decoded}
        self.turns: dict[str, EdiValTurn] = {}
        """The rows of the instruction file, by item."""
        self.items: Sequence[SuiteItem] = [
            item for index, turns in chains.turns.items() for item in self._chain(index, turns, base_images, problems)
        ]
        self.problems: Sequence[DataProblem] = problems
        if not self.items:
            raise InputError(_no_items_message(instructions, problems))
        self.digest = _digest(self.items)
        self.items = share_cases(self.items)

    def _chain(
        self,
        index: int,
        turns: Sequence[EdiValTurn],
        base_images: Mapping[int, SuiteImage | ImageError],
        problems: Problems[DataProblem],
    ) -> list[SuiteItem]:
        """The items of one image; none, and a problem, if the image is missing or damaged."""
        if index not in base_images:
            message = f"there is no {index}_input_raw.jpg (or .png), so its {len(turns)} turns are left out"
            problems.append(DataProblem(f"image {index}", message))
            return []
        base = base_images[index]
        if isinstance(base, ImageError):
            problems.append(DataProblem(f"image {index}", str(base)))
            return []
        items: list[SuiteItem] = []
        for turn in turns:
            name = f"{index}/{self.mode}/{turn.number}"
            self.turns[name] = turn
            labels: dict[str, LabelValue] = {
                "turn": turn.number,
                "type": turn.type,
                "types": ",".join(turn.types),
                "mode": self.mode,
                "background": "kept" if turn.pools.background else "changed",
                "shape": "padded" if base.padded else "square",
            }
            output_path = f"{self.mode}/{index}_input_raw_turn_{turn.number}"
            previous = items[-1].id if items and self.mode == "multipass" else ""
            items.append(
                SuiteItem(name, str(index), output_path, self._sample(name, turn, base.image), previous, labels)
            )
        return items

    def _sample(self, name: str, turn: EdiValTurn, base: Image) -> EditSample:
        if self.mode == "multipass":
            return edit_request(turn.unquoted_instructions[-1], base, id=name, task=turn.tasks[-1], pools=turn.pools)
        operations = tuple(map(Operation, turn.unquoted_instructions, turn.types, turn.tasks))
        instruction = compress_instructions(
            turn.unquoted_instructions,
            self.compression,
            unchanged=turn.pools.unchanged,
            seed=f"{self.seed}/{turn.index}/{turn.number}",
        )
        return edit_request(instruction, base, id=name, operations=operations, pools=turn.pools)

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on; a folder of prompts as its digest."""
        options: dict[str, LabelValue] = {"mode": self.mode, "incomplete": self.incomplete, "vq": self.vq}
        if self.mode == "singlepass":
            options["compression"] = self.compression
        if self.compression == "shuffle":
            options["seed"] = self.seed
        if self.vq:
            options["vq_prompt"] = self.vq_prompt
        if self._prompts.overrides is not None:
            options["prompts"] = self._prompts.digest
        return options

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`if`, `cc` and, if enabled, `vq`; in singlepass `if` has a credit per instruction.

        protocol: `paper` (IF as in the paper, CC `fixed`), `official` (both as in the released code), `official-fixed`
        and `paper-official` (IF by the first, CC by the second). Raises `InputError` for another.
        """
        name = protocol or next(iter(PROTOCOLS))
        if name not in PROTOCOLS:
            raise InputError(f"edival has no protocol {protocol!r}: expected one of {', '.join(PROTOCOLS)}")
        following_protocol, consistency_protocol = PROTOCOLS[name]
        following: dict[str, Spec | str] = {"use": "edival-if", "protocol": following_protocol}
        if self._prompts.overrides is not None:
            following["prompts"] = self._prompts.overrides
        consistency: Spec = {"use": "edival-cc", "protocol": consistency_protocol}
        metrics: dict[str, Spec] = {"if": following, "cc": consistency}
        if self.mode == "singlepass":
            metrics = {
                "if": {"use": "per-operation", "following": following},
                "cc": {"use": "unfolded-operations", "metric": consistency},
            }
        if self.vq:
            metrics["vq"] = {"use": VisualQuality.card.name, "prompt": self.vq_prompt}
        return metrics

    def find_output(self, outputs: Path, item: SuiteItem) -> Path | None:
        """`{mode}/{index}_input_raw_turn_{turn}.png`; without the mode if there is no such folder."""
        path = outputs / item.output_path
        return find_image(path) if path.parent.is_dir() else find_image(outputs / path.name)

    def tables(self, results: Results) -> list[Table]:
        """IF, CC and O by turn first (table 3), then their components; see `tables.py`."""
        return tables.tables_of(self.mode, self.incomplete, results)

    def write_official_files(self, results: Results, folder: Path) -> list[Path]:
        """Write the released code's result files, which the authors' notebooks read; see `official_files.py`."""
        return official_files.write_official_files(self.mode, self.turns, results, folder)


def _instruction_file(data: str | Path | None) -> Path:
    if data is None:
        raise InputError(f"edival needs its data: give --data with the folder of {CSV}, or that file")
    path = Path(data)
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"{path} does not exist: give the folder with {CSV}, or that file")
    files = sorted(path.glob("*.csv"))
    if (path / CSV).is_file():
        return path / CSV
    if len(files) == 1:
        return files[0]
    contents = f"several CSV files ({', '.join(file.name for file in files)})" if files else "no CSV file"
    raise InputError(f"{path} contains {contents} and no {CSV}: put it there, or give the file itself")


def _base_image_location(instructions: Path, images: str | None) -> Path:
    """Location of the base images: `images`, or the only zip beside the instructions, or that folder."""
    if images is not None:
        return Path(images)
    folder = instructions.parent
    archives = sorted(folder.glob("*.zip"))
    candidates = [path for path in archives if "input_images" in path.name] or archives
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise InputError(f"{folder} contains several zips ({names}): select the one with the base images by images=...")
    return candidates[0] if candidates else folder


def _no_items_message(instructions: Path, problems: Sequence[DataProblem]) -> str:
    reasons = "; ".join(map(str, problems[:3])) or "it has no rows"
    more = f"; and {total - 3} more problems" if (total := num_problems(problems)) > 3 else ""
    return f"{instructions} has no usable items: {reasons}{more}"


def _digest(items: Sequence[SuiteItem]) -> str:
    """Digest of the items: instructions, tasks, pools and pixels, in order."""
    state = hashlib.sha256()
    for item in items:
        sample = item.sample
        fields = [item.id, sample.instruction, sample.source.digest, sample.task, sample.operations, sample.pools]
        state.update(json.dumps(fields, default=asdict).encode() + b"\n")
    return state.hexdigest()
