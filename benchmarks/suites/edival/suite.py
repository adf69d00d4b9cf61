"""EdiVal-Bench: 572 images, each edited in three turns. Paper: EdiVal-Agent (arXiv 2509.13399).

Data: `oai_instruction_generation_output.csv`, and beside it the base images `{index}_input_raw.jpg`, in a zip or a
folder. Outputs: `{multipass,singlepass}/{index}_input_raw_turn_{turn}.png`. In multipass each turn edits the output of
the previous one; in singlepass ("complex" in the paper) the instructions of all turns up to this one are applied to the
base image at once.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from ....reward import EditSample, Image, ImageError
from ....reward.image import Reading
from ....reward.metrics.edival.overall import RatingPrompt, VisualQuality
from ....reward.metrics.edival.released_code import PUBLISHED_INSTRUCTION
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....reward.sample import Operation, SampleTooLarge
from ....verifiers import edit_request
from ...common.errors import InputError, input_errors
from ...common.problems import Problems
from ..results import Results
from ..rows import DataProblem
from ..suite import (
    LabelValue,
    Suite,
    SuiteImage,
    SuiteInfo,
    SuiteItem,
    decode_images,
    find_image,
    lines_digest,
    missing_data,
    require_choice,
)
from ..tables import Table
from . import official_files, output_layout, tables
from .reader import COLUMNS, CSV, EdiValTurn, find_base_images, read_instruction_file

Mode = Literal["multipass", "singlepass"]
Incomplete = Literal["drop", "later"]

PROTOCOLS: Mapping[str, tuple[str, str]] = {
    "paper": ("paper", "fixed"),
    "official": ("official", "official"),
    "official-fixed": ("official", "fixed"),
    "paper-official": ("paper", "official"),
}
"""Name -> protocols of instruction following and of content consistency; the default first."""

_PROTOCOL_MEANINGS = {
    "paper": "IF as in the paper, CC with the released code's errors mended",
    "official": "as the released code computes all",
    "official-fixed": "IF as released, CC mended",
    "paper-official": "IF as in the paper, CC as released",
}

RELEASED = "official"
"""The protocol under which data and outputs are read as the released code reads them, too."""

_PROMPT_PACKAGE = "editcritic.reward.metrics.edival"


class EdiVal(Suite):
    """EdiVal-Bench in its published layout.

    By default, `incomplete` and `pictures` are as in the released code (`drop`, `stored`) in protocol `official`, and
    `later` and `upright` in the others. In `official`, outputs are those that the released code reads, too (see
    `output_layout`), and each edit is compared with the base picture beside the outputs, if there are any.

    Raises `InputError` for an unreadable file, and if no image has both instructions and pixels. Other errors are
    `problems`.

    Args:
        data: The folder with the instruction file, or that file.
        mode: `multipass` or `singlepass`.
        compression: How singlepass joins several instructions (see `compress_instructions`).
        incomplete: An image without the output of some turn is left out of all turns (`drop`, as in the released code)
            or of that turn and later ones (`later`, as in the paper's text).
        vq: Whether to rate visual quality, which needs an expert for the role `preference`.
        vq_prompt: Its prompt (the released code has both, `instruction` and `empty`).
        images: The zip or folder with the base images, if not beside it.
        prompts: A folder of prompts that override those of instruction following.
        seed: Of `shuffle`.
        pictures: How files of pictures are read (see `Reading`).
    """

    name: ClassVar[str] = "edival"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "EdiVal-Bench",
        "T. Chen et al.: EdiVal-Agent: An Object-Centric Framework for Automated, Fine-Grained Evaluation of "
        "Multi-Turn Editing. arXiv:2509.13399, 2025",
        "CC BY-SA 4.0 and MIT, by the badges of the authors' repository; base images come from GEdit-Bench",
        "https://huggingface.co/datasets/C-Tianyu/EdiVal",
        f"{CSV} and {{index}}_input_raw.jpg",
        ", ".join(f"`{column}`" for column in COLUMNS),
        "{mode}/{index}_input_raw_turn_{turn}.png",
        ("edival-if", "edival-cc", "edival-vq"),
    )

    dependent_options: ClassVar[Mapping[str, str]] = {
        "incomplete": "protocol",
        "pictures": "protocol",
        "compression": "mode",
        "vq_prompt": "vq",
    }

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        mode: Mode = "multipass",
        compression: Compression = "default",
        incomplete: Incomplete | None = None,
        vq: bool = True,
        vq_prompt: RatingPrompt = "instruction",
        images: str | None = None,
        prompts: str | None = None,
        seed: int = 0,
        pictures: Reading | None = None,
    ) -> None:
        for option, value, allowed in (
            ("mode", mode, get_args(Mode)),
            ("compression", compression, COMPRESSIONS),
            ("incomplete", incomplete or "drop", get_args(Incomplete)),
            ("vq_prompt", vq_prompt, get_args(RatingPrompt)),
            ("pictures", pictures or "stored", get_args(Reading)),
        ):
            require_choice(self.name, option, value, allowed)
        if mode == "multipass" and compression != "default":
            raise InputError(f"compression={compression} is for mode=singlepass: multipass asks for one turn at a time")
        self.mode, self.compression = mode, compression
        self._requested = incomplete, pictures
        self.incomplete: Incomplete = incomplete or "later"
        self.reading: Reading = pictures or "upright"
        self.released = False
        """Whether the protocol is `official`."""
        self.vq, self.vq_prompt, self.seed = bool(vq), vq_prompt, seed
        with input_errors(ValueError):
            self._prompts = Prompts(_PROMPT_PACKAGE, prompts)
        self._instructions = _instruction_file(data)
        chains = read_instruction_file(self._instructions)
        self._chains, self._row_problems = dict(chains.turns), chains.problems
        self._location = _base_image_location(self._instructions, images)
        self._read_images()

    def _read_images(self) -> None:
        problems = self._row_problems.copy()
        files = find_base_images(self._location, problems)
        folder = self._location if self._location.is_dir() else None  # else of files that were extracted
        decoded = decode_images((files[index] for index in self._chains if index in files), folder, self.reading)
        base_images = {index: decoded[path] for index, path in files.items() if path in decoded}
        self.turns: dict[str, EdiValTurn] = {}
        """The rows of the instruction file, by item."""
        items = [
            item for index, turns in self._chains.items() for item in self._chain(index, turns, base_images, problems)
        ]
        self.digest = lines_digest(
            [
                *(item.id, item.sample.instruction, item.sample.source.digest, item.sample.task),
                *(item.sample.operations, item.sample.pools, item.sample.metadata),
            ]
            for item in items
        )
        self._hold(items, problems, f"{self._instructions} has no usable items")

    def under(self, protocol: str | None) -> EdiVal:
        """In `official`, pictures and incomplete chains are as in the released code, unless options say otherwise."""
        if self.released == (protocol == RELEASED):
            return self
        incomplete, pictures = self._requested
        suite = copy.copy(self)
        suite.released = protocol == RELEASED
        suite.incomplete = incomplete or ("drop" if suite.released else "later")
        suite.reading = pictures or ("stored" if suite.released else "upright")
        for name in ("by_id", "cases"):  # of the items
            suite.__dict__.pop(name, None)
        if suite.reading != self.reading:
            suite._read_images()
        return suite

    def _chain(
        self,
        index: int,
        turns: Sequence[EdiValTurn],
        base_images: Mapping[int, SuiteImage | ImageError],
        problems: Problems[DataProblem],
    ) -> list[SuiteItem]:
        """The items of one image; none, and a problem, if the image is missing or damaged. They end, with a problem,
        before a turn that is beyond the limits of a sample."""
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
            try:
                sample = self._sample(name, turn, base.image)
            except SampleTooLarge as error:
                message = f"{error}; this turn of image {index} and later ones are left out"
                problems.append(DataProblem(f"{self._instructions}:{turn.line}", message))
                break
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
            items.append(SuiteItem(name, str(index), output_path, sample, previous, labels))
        return items

    def _sample(self, name: str, turn: EdiValTurn, base: Image) -> EditSample:
        published = {PUBLISHED_INSTRUCTION: turn.instructions[-1]}
        if self.mode == "multipass":
            instruction = turn.unquoted_instructions[-1]
            return edit_request(instruction, base, id=name, task=turn.tasks[-1], pools=turn.pools, metadata=published)
        operations = tuple(map(Operation, turn.unquoted_instructions, turn.types, turn.tasks))
        instruction = compress_instructions(
            turn.unquoted_instructions,
            self.compression,
            unchanged=turn.pools.unchanged,
            seed=f"{self.seed}/{turn.index}/{turn.number}",
        )
        return edit_request(instruction, base, id=name, operations=operations, pools=turn.pools, metadata=published)

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
        if self.released or self.reading != "upright":
            options["pictures"] = self.reading
        if self._prompts.overrides is not None:
            options["prompts"] = self._prompts.digest
        return options

    @property
    def protocols(self) -> Mapping[str, str]:
        return {name: _PROTOCOL_MEANINGS[name] for name in PROTOCOLS}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`if`, `cc` and, if enabled, `vq`; in singlepass `if` has a credit per instruction.

        Args:
            protocol: `paper` (IF as in the paper, CC `fixed`), `official` (both as in the released code),
                `official-fixed` and `paper-official` (IF by the first, CC by the second). VQ is as in the released code
                where IF is.

        Raises:
            InputError: For another.
        """
        name = protocol or next(iter(PROTOCOLS))
        require_choice(self.name, "protocol", name, PROTOCOLS)
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
            vq_protocol = "official" if following_protocol == "official" else "paper"
            metrics["vq"] = {"use": VisualQuality.card.name, "prompt": self.vq_prompt, "protocol": vq_protocol}
        return metrics

    def find_output(self, outputs: Path, item: SuiteItem) -> Path | None:
        """`{mode}/{index}_input_raw_turn_{turn}.png`; without the mode if there is no such folder.

        In protocol `official` no other format is read, as in the released code.
        """
        path = outputs / item.output_path
        if not path.parent.is_dir():
            path = outputs / path.name
        image = find_image(path)
        return None if self.released and image is not None and image.suffix != ".png" else image

    def find_source(self, outputs: Path, item: SuiteItem) -> Path | None:
        """In protocol `official`, the base image beside the outputs, if there are any."""
        if not self.released:
            return None
        return output_layout.output_folder(outputs, self.mode).bases.get(self.turns[item.id].index)

    @staticmethod
    def is_source_name(name: str) -> bool:
        """As of the base images that the released code has beside its outputs."""
        return output_layout.is_base_name(name)

    def missing_reason(self, outputs: Path, item: SuiteItem) -> str:
        """In protocol `official`, which file is missing without which the released code leaves the image out."""
        if not self.released or self.incomplete != "drop":
            return ""
        folder, index = output_layout.output_folder(outputs, self.mode), self.turns[item.id].index
        if not (name := folder.missing_file(index)):
            return ""
        other = find_image(folder.folder / name.removesuffix(".png")) if name.endswith(".png") else None
        formats = "" if other is None else f"; {other.name} does not count, which is no PNG"
        return f"the released code leaves image {index} out, which lacks {self.mode}/{name}{formats}"

    def output_facts(self, outputs: Path) -> Mapping[str, Any]:
        """Images that the instruction file lacks, files that do not count; see `output_layout`."""
        return output_layout.output_folder(outputs, self.mode).facts(self._chains, released=self.released)

    def tables(self, results: Results) -> list[Table]:
        """IF, CC and O by turn first (table 3), then their components; see `tables.py`."""
        return tables.tables_of(self.mode, self.incomplete, results, released=self.released)

    def write_official_files(self, results: Results, folder: Path) -> list[Path]:
        """Write the released code's result files, which the authors' notebooks read; see `official_files.py`."""
        return official_files.write_official_files(self.mode, self.turns, results, folder, released=self.released)


def _instruction_file(data: str | Path | None) -> Path:
    if data is None:
        raise missing_data("edival", f"the folder of {CSV}, or that file")
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
    if images is not None:
        return Path(images)
    folder = instructions.parent
    archives = sorted(folder.glob("*.zip"))
    candidates = [path for path in archives if "input_images" in path.name] or archives
    if len(candidates) > 1:
        names = ", ".join(path.name for path in candidates)
        raise InputError(f"{folder} contains several zips ({names}): select the one with the base images by images=...")
    return candidates[0] if candidates else folder


Compression = Literal["default", "shuffle", "sequential", "keep"]
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)


def compress_instructions(
    instructions: Sequence[str], compression: Compression, *, unchanged: Sequence[str] = (), seed: str = ""
) -> str:
    """Join instructions to one: `default` by ". "; `shuffle` likewise, in a random order by `seed`; `sequential` as
    "first, A, then, B, last, C"; `keep` as `default`, with "Keep x, y unchanged." for the unchanged objects, if any."""
    clauses = [instruction.strip().rstrip(".").rstrip() for instruction in instructions]
    if compression == "shuffle":
        random.Random(seed).shuffle(clauses)
    if compression == "sequential" and len(clauses) > 1:
        words = ["first", *["then"] * (len(clauses) - 1)]
        if len(clauses) > 2:
            words[-1] = "last"
        return ", ".join(f"{word}, {clause}" for word, clause in zip(words, clauses, strict=True))
    if compression == "keep" and unchanged:
        clauses.append(f"Keep {', '.join(unchanged)} unchanged.")
    return ". ".join(clauses)
