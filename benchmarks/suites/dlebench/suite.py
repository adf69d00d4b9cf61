"""DLEBench: edits of small objects, by labels for instruction following (IF) and visual consistency (VC)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args

from ....reward import Box, ImageError, SpecError, build
from ....reward.dlebench.options import MODES, PACKAGE
from ....reward.prompts import Prompts
from ....reward.spec import Spec
from ....verifiers import unedited
from ...inputs import InputError
from ..opening import opened
from ..results import Results
from ..suite import About, Item, Label, Problem, Suite, found_at
from ..tables import Table
from .reading import Corners, Line, boxes_of, read_lines
from .scale import MILLION
from .tables import IF, VC, tables

_TURNS = 6


class DleBench(Suite):
    """A folder with `data.jsonl`, `Source_Images/` and `Reference_Images/`, or that file itself.

    mode: of both metrics, `oracle` (boxes and references are known), `tools` or `plain`; only `oracle` needs boxes and
    references. context: how much of its surroundings a target's crop has (`oracle`): `adaptive` is the paper's Eq. 1,
    a number is a factor of the box's sides. turns: most replies of the judge where it has tools. boxes: `xyxy`, or
    `xywh` where a box is a corner and a size. annotations: a JSONL file beside the data whose fields are added to the
    lines with the same id, reference or image. prompts: a prompt pack.

    Labels of items: `type`; of those with boxes `targets` (how many), and of the smallest `area`, `width` and `height`
    in millionths of the picture and of its sides.
    """

    name: ClassVar[str] = "dlebench"
    about: ClassVar[About] = About(
        "DLEBench",
        "Hong, Ai, Kuang, Wang, Chen, Peng, Huang, Cao: DLEBench: Evaluating Small-scale Object Editing Ability for "
        "Instruction-based Image Editing Model, arXiv:2602.23622, 2026",
        "Apache-2.0, by the data set's card",
        "https://huggingface.co/datasets/SPUH/DLEBench",
    )

    def __init__(
        self,
        data: Path | None = None,
        *,
        mode: str = "oracle",
        context: str | float = "adaptive",
        turns: int = _TURNS,
        boxes: Corners = "xyxy",
        annotations: str | None = None,
        prompts: str | None = None,
    ) -> None:
        if data is None:
            raise InputError("dlebench needs the folder of its data, with data.jsonl: give --data")
        if mode not in MODES:
            raise InputError(f"dlebench has no mode {mode!r}: expected one of {', '.join(MODES)}")
        if boxes not in get_args(Corners):
            raise InputError(f"boxes are {' or '.join(get_args(Corners))}, got {boxes!r}")
        self.mode, self.context, self.turns, self.boxes = mode, _context(context), turns, boxes
        self.annotations, self.prompts = annotations, prompts
        for spec in self.metrics().values():
            try:
                build(spec)
            except (SpecError, ValueError) as error:
                raise InputError(str(error)) from None
        self.problems: list[Problem] = []
        more = None if annotations is None else Path(annotations)
        lines = read_lines(Path(data), more, self.problems, oracle=mode == "oracle")
        self.items: Sequence[Item] = self._items(lines)
        said = [[item.id, item.sample.instruction, dict(item.labels), *_pictures(item)] for item in self.items]
        self.digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
        self._places = _places(lines)

    @property
    def options(self) -> Mapping[str, Label]:
        """What the results depend on besides the data; of a prompt pack, its digest."""
        found: dict[str, Label] = {"mode": self.mode}
        if self.mode == "oracle":
            found["context"] = str(self.context)
        if self.turns != _TURNS:
            found["turns"] = self.turns
        if self.prompts is not None:
            found["prompts"] = Prompts(PACKAGE, self.prompts).digest
        return found if self.boxes == "xyxy" else {**found, "boxes": self.boxes}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """protocol: a mode to judge by in place of the suite's own, `tools` or `plain`; `oracle` has to be its own."""
        mode = protocol or self.mode
        if mode not in MODES or (mode == "oracle" != self.mode):
            there = [one for one in MODES if one != "oracle" or self.mode == one]
            raise InputError(f"dlebench has no protocol {mode!r} here: expected one of {', '.join(there)}")
        shared: dict[str, Any] = {"mode": mode} | ({} if self.prompts is None else {"prompts": self.prompts})
        several = {"turns": self.turns} if self.turns != _TURNS else {}
        cropped = {"context": self.context} if self.context != "adaptive" else {}
        return {
            IF: {"use": IF, **shared, **(cropped if mode == "oracle" else several if mode == "tools" else {})},
            VC: {"use": VC, **shared, **({} if mode == "plain" else several)},
        }

    def find(self, outputs: Path, item: Item) -> Path | None:
        """By the item's id, the name of its reference, or that of its source where no other item has that one."""
        return next(filter(None, (found_at(outputs / place) for place in self._places[item.id])), None)

    def tables(self, results: Results) -> list[Table]:
        """Tables 1 and 4 of the paper, and the labels given."""
        crops = f", crops with context {self.context}" if self.mode == "oracle" else ""
        return tables(results, [f"mode {self.mode}{crops}"])

    def _items(self, lines: Sequence[Line]) -> list[Item]:
        pictures = opened(path for line in lines for path in (line.image, line.reference) if path is not None)
        found: list[Item] = []
        for line in lines:
            source = pictures[line.image]
            reference = None if line.reference is None else pictures[line.reference]
            wrong = next((str(one) for one in (source, reference) if isinstance(one, ImageError)), "")
            targets: tuple[Box, ...] = ()
            if not isinstance(source, ImageError) and line.boxes is not None:
                try:
                    targets = boxes_of(line.boxes, source.size, self.boxes)
                except ValueError as error:
                    wrong = wrong or str(error)
            if wrong:
                self.problems.append(Problem(line.where, wrong))
                continue
            sample = unedited(line.instruction, source, id=line.name, targets=targets, reference=reference)
            labels = {"type": line.type, **_size(targets)}
            found.append(Item(line.name, line.image.name, line.name, sample, labels=labels))
        if not found:
            raise InputError("no line of the data can be used: " + "; ".join(map(str, self.problems[:3])))
        return found


def _context(said: str | float) -> str | float:
    """As it is written in `options`, too, where numbers are text."""
    try:
        return float(said)
    except ValueError:
        return said


def _size(targets: Sequence[Box]) -> dict[str, Label]:
    if not targets:
        return {}
    least = min(targets, key=lambda box: box.area)
    sizes = {"area": least.area, "width": least.w, "height": least.h}
    return {"targets": len(targets), **{name: round(MILLION * share) for name, share in sizes.items()}}


def _pictures(item: Item) -> list[str]:
    reference = item.sample.reference
    return [item.sample.source.digest, "" if reference is None else reference.digest]


def _places(lines: Sequence[Line]) -> dict[str, list[str]]:
    """Where the picture of each item may lie, the first choice first."""
    names = {line.name for line in lines}
    sources = [line.image.stem for line in lines]
    references = [line.reference.stem for line in lines if line.reference is not None]
    found: dict[str, list[str]] = {}
    for line in lines:
        others = [line.reference.stem] if line.reference and references.count(line.reference.stem) == 1 else []
        others += [line.image.stem] if sources.count(line.image.stem) == 1 else []
        found[line.name] = [line.name, *(other for other in others if other not in names)]
    return found
