"""DLEBench: edits of small objects, by labels for instruction following (IF) and visual consistency (VC)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args

from ....reward import Box
from ....reward.metrics.dlebench.metrics import MODES, PACKAGE
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....verifiers import edit_request
from ...common.errors import InputError
from ...common.problems import Problems
from ..image_index import decode_images, opened
from ..results import Results
from ..rows import DataProblem
from ..suite import LabelValue, Suite, SuiteInfo, SuiteItem, find_image, json_digest, make_items, require_choice
from ..tables import Table
from .reader import BoxFormat, DleBenchRow, data_file, parse_boxes, read_lines
from .tables import IF, MILLION, VC, dlebench_tables

_MAX_TURNS = 6


class DleBench(Suite):
    """A folder with `data.jsonl`, `Source_Images/` and `Reference_Images/`, or that file itself.

    mode: of both metrics, `oracle` (with boxes and references), `tools` or `plain`; only `oracle` needs boxes and
    references. context: size of a target's crop (`oracle`): `adaptive` is the paper's Eq. 1, a number is a factor of
    the box's sides. max_turns: maximum replies of a judge with tools. object_names: see `DleBenchOptions`. boxes:
    `xyxy`, or `xywh` (corner and size).
    annotations: a JSONL file whose fields are added to the lines with the same id, reference or image. prompts: a
    prompt pack.

    Labels of items: `type`; with boxes also `targets` (how many), and of the smallest one `area`, `width` and `height`
    in millionths of the image and of its sides.
    """

    name: ClassVar[str] = "dlebench"
    info: ClassVar[SuiteInfo] = SuiteInfo(
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
        max_turns: int = _MAX_TURNS,
        object_names: str = "substring",
        boxes: BoxFormat = "xyxy",
        annotations: str | None = None,
        prompts: str | None = None,
    ) -> None:
        if data is None:
            raise InputError("dlebench needs the folder of its data, with data.jsonl: give --data")
        require_choice(self.name, "mode", mode, MODES)
        require_choice(self.name, "format of boxes", boxes, get_args(BoxFormat))
        self.mode, self.context, self.max_turns, self.boxes = mode, _context(context), max_turns, boxes
        self.annotations, self.prompts, self.object_names = annotations, prompts, object_names
        self._check_metrics()
        problems = Problems[DataProblem]()
        annotation_file = None if annotations is None else Path(annotations)
        lines = read_lines(Path(data), annotation_file, problems, oracle=mode == "oracle")
        items = self._items(lines, data_file(Path(data)).parent, problems)
        self.digest = json_digest(
            [[item.id, item.sample.instruction, dict(item.labels), *_image_digests(item)] for item in items]
        )
        self._hold(items, problems, "the data has no usable line")
        self._outputs = _output_paths(lines)

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on besides the data; a prompt pack as its digest."""
        options: dict[str, LabelValue] = {"mode": self.mode}
        if self.mode == "oracle":
            options["context"] = str(self.context)
        if self.max_turns != _MAX_TURNS:
            options["max_turns"] = self.max_turns
        if self.object_names != "substring":
            options["object_names"] = self.object_names
        if self.prompts is not None:
            options["prompts"] = Prompts(PACKAGE, self.prompts).digest
        return options if self.boxes == "xyxy" else {**options, "boxes": self.boxes}

    @property
    def protocols(self) -> Mapping[str, str]:
        meanings = {
            "oracle": "with annotated boxes and references, the paper's oracle-guided mode",
            "tools": "a judge with tools, the paper's tool-driven mode",
            "plain": "a judge alone",
        }
        modes = [self.mode, *(mode for mode in MODES if mode not in (self.mode, "oracle"))]
        paper = {"paper": "the same, with the paper's system prompt and enhancer"} if self.mode != "plain" else {}
        return {mode: meanings[mode] for mode in modes} | paper

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """protocol: a mode instead of the suite's own, `tools` or `plain`; `oracle` only if it is the suite's own.

        `paper`: the suite's own mode to the letter of the paper, see `DleBenchOptions.paper`; a judge alone has none.
        """
        paper = protocol == "paper" and self.mode != "plain"
        mode = self.mode if paper or protocol is None else protocol
        if mode not in MODES or (mode == "oracle" != self.mode):
            raise InputError(f"dlebench has no protocol {mode!r} here: expected one of {', '.join(self.protocols)}")
        shared: dict[str, Any] = {"mode": mode} | ({} if self.prompts is None else {"prompts": self.prompts})
        if paper:
            shared["paper"] = True
        turn_options: dict[str, Any] = {"max_turns": self.max_turns} if self.max_turns != _MAX_TURNS else {}
        if self.object_names != "substring":
            turn_options["object_names"] = self.object_names
        crop_options = {"context": self.context} if self.context != "adaptive" else {}
        return {
            IF: {
                "use": IF,
                **shared,
                **(crop_options if mode == "oracle" else turn_options if mode == "tools" else {}),
            },
            VC: {"use": VC, **shared, **({} if mode == "plain" else turn_options)},
        }

    def find_output(self, outputs: Path, item: SuiteItem) -> Path | None:
        """By the item's id, the name of its reference, or that of its source if it is unique."""
        return next(filter(None, (find_image(outputs / path) for path in self._outputs[item.id])), None)

    def tables(self, results: Results) -> list[Table]:
        """Tables 1 and 4 of the paper, and the frequencies of labels."""
        crops = f", crops with context {self.context}" if self.mode == "oracle" else ""
        return dlebench_tables(results, [f"mode {self.mode}{crops}"])

    def _items(self, lines: Sequence[DleBenchRow], folder: Path, problems: Problems[DataProblem]) -> list[SuiteItem]:
        paths = (path for line in lines for path in (line.image, line.reference) if path is not None)
        images = decode_images(paths, folder)

        def items_of(line: DleBenchRow) -> list[SuiteItem]:
            source = opened(images[line.image])
            reference = None if line.reference is None else opened(images[line.reference])
            targets = () if line.boxes is None else parse_boxes(line.boxes, source.size, self.boxes)
            sample = edit_request(line.instruction, source, id=line.name, targets=targets, reference=reference)
            labels = {"type": line.type, **_size(targets)}
            return [SuiteItem(line.name, line.image.name, line.name, sample, labels=labels)]

        return make_items(lines, items_of, lambda line: line.where, problems)


def _context(text: str | float) -> str | float:
    """Parse the context; in `options` numbers are text."""
    try:
        return float(text)
    except ValueError:
        return text


def _size(targets: Sequence[Box]) -> dict[str, LabelValue]:
    if not targets:
        return {}
    smallest = min(targets, key=lambda box: box.area)
    sizes = {"area": smallest.area, "width": smallest.w, "height": smallest.h}
    return {"targets": len(targets), **{name: round(MILLION * share) for name, share in sizes.items()}}


def _image_digests(item: SuiteItem) -> list[str]:
    reference = item.sample.reference
    return [item.sample.source.digest, "" if reference is None else reference.digest]


def _output_paths(lines: Sequence[DleBenchRow]) -> dict[str, list[str]]:
    """Possible output paths of each item, in order of preference."""
    names = {line.name for line in lines}
    sources = [line.image.stem for line in lines]
    references = [line.reference.stem for line in lines if line.reference is not None]
    paths: dict[str, list[str]] = {}
    for line in lines:
        alternatives = [line.reference.stem] if line.reference and references.count(line.reference.stem) == 1 else []
        alternatives += [line.image.stem] if sources.count(line.image.stem) == 1 else []
        paths[line.name] = [line.name, *(alternative for alternative in alternatives if alternative not in names)]
    return paths
