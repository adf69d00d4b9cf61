"""DLEBench: edits of small objects, by labels for instruction following (IF) and visual consistency (VC)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from ....reward import Box
from ....reward.metrics.dlebench.conversation import CONSISTENCY, FOLLOWING, LabelScale
from ....reward.metrics.dlebench.metrics import MODES, PACKAGE
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....verifiers import edit_request
from ...common.errors import InputError
from ...common.optional_imports import bench_library
from ...common.problems import Problems
from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..rows import DataProblem
from ..suite import (
    LabelValue,
    Suite,
    SuiteInfo,
    SuiteItem,
    decode_images,
    find_image,
    json_digest,
    make_items,
    missing_data,
    opened,
    require_choice,
)
from ..tables import Table
from .reader import (
    DATA_FILE,
    FIELD_ALIASES,
    REFERENCES_FOLDER,
    SOURCES_FOLDER,
    TYPES,
    BoxFormat,
    DleBenchRow,
    data_file,
    parse_boxes,
    read_lines,
)

IF, VC = "dlebench-if", "dlebench-vc"
_MAX_TURNS = 6


class DleBench(Suite):
    """A folder with `data.jsonl`, `Source_Images/` and `Reference_Images/`, or that file itself.

    Labels of items: `type`; with boxes also `targets` (how many), and of the smallest one `area`, `width` and `height`
    in millionths of the image and of its sides.

    Args:
        mode: Of both metrics, `oracle` (with boxes and references), `tools` or `plain`; only `oracle` needs boxes and
            references.
        context: Size of a target's crop (`oracle`): `adaptive` is the paper's Eq. 1, a number is a factor of the box's
            sides.
        max_turns: Maximum replies of a judge with tools.
        object_names: See `DleBenchOptions`.
        boxes: `xyxy`, or `xywh` (corner and size).
        annotations: A JSONL file whose fields are added to the lines with the same id, reference or image.
        prompts: A prompt pack.
    """

    name: ClassVar[str] = "dlebench"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "DLEBench",
        "Hong, Ai, Kuang, Wang, Chen, Peng, Huang, Cao: DLEBench: Evaluating Small-scale Object Editing Ability for "
        "Instruction-based Image Editing Model, arXiv:2602.23622, 2026",
        "Apache-2.0, by the data set's card",
        "https://huggingface.co/datasets/SPUH/DLEBench",
        f"{DATA_FILE}, {SOURCES_FOLDER}/ and {REFERENCES_FOLDER}/",
        "each by one of these names: "
        + "; ".join(" or ".join(f"`{one}`" for one in names) for names in FIELD_ALIASES.values()),
        "{id}.png",
        (IF, VC),
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
            raise missing_data(self.name, f"the folder of {DATA_FILE}, or that file")
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
    names = {line.name for line in lines}
    sources = [line.image.stem for line in lines]
    references = [line.reference.stem for line in lines if line.reference is not None]
    paths: dict[str, list[str]] = {}
    for line in lines:
        alternatives = [line.reference.stem] if line.reference and references.count(line.reference.stem) == 1 else []
        alternatives += [line.image.stem] if sources.count(line.image.stem) == 1 else []
        paths[line.name] = [line.name, *(alternative for alternative in alternatives if alternative not in names)]
    return paths


SCALES: Mapping[str, LabelScale] = {IF: FOLLOWING, VC: CONSISTENCY}
SHORT: Mapping[str, str] = {IF: "IF", VC: "VC"}
AVERAGE = "Average"


def dlebench_tables(results: Results, notes: Sequence[str] = ()) -> list[Table]:
    """Table 1 (mean of IF and VC), table 4 (each), and the frequencies of labels, by type and overall."""
    all_notes = [
        "means are over the judgements with a label; the others are counted as missing",
        "the average is over the types, unweighted",
        *notes,
    ]
    single = {name: _by_type(results, name) for name in SCALES}
    mean_row = {
        kind: Statistic.combine(plain_mean, single[IF][kind], single[VC][kind])
        for kind in single[IF]
        if kind in single[VC]
    }  # fmt: skip
    columns = [*mean_row]
    return [
        Table("leaderboard", "DLEBench, mean of IF and VC", columns, {"IF and VC": mean_row}, 100.0, "of 100", 2,
              all_notes, ranking_column=AVERAGE),
        Table("criteria", "DLEBench by criterion", columns, {SHORT[name]: row for name, row in single.items()}, 100.0,
              "of 100", 2, all_notes, ranking_column=AVERAGE),
        *(_labels(results, name) for name in SCALES),
    ]  # fmt: skip


def types_of(results: Results) -> list[str]:
    """The types of the results, in the paper's order."""
    present = {row.labels.get("type") for row in results.rows}
    return [kind for kind in TYPES if kind in present]


def _by_type(results: Results, metric: str) -> dict[str, Statistic]:
    means = {kind: results.metric_mean(results.filter(type=kind), metric) for kind in types_of(results)}
    return {**means, AVERAGE: Statistic.combine(plain_mean, *means.values())} if means else {}


def _labels(results: Results, metric: str) -> Table:
    scale, short = SCALES[metric], SHORT[metric]
    rows = {kind: _shares(results, results.filter(type=kind), metric) for kind in types_of(results)}
    rows["all"] = _shares(results, results.rows, metric)
    return Table(f"labels-{short.lower()}", f"DLEBench, labels for {short}", scale.labels, rows, 100.0, "percent", 1,
                 ranking_column=scale.labels[0], lower_is_better=scale.labels[1:])  # fmt: skip


def _shares(results: Results, rows: Iterable[ResultRow], metric: str) -> dict[str, Statistic]:
    rows = list(rows)
    shares = {label: results.mean(rows, _has_label(metric, label)) for label in SCALES[metric].labels}
    return {label: replace(share, monotone=False) for label, share in shares.items()}  # of one label among others


def _has_label(metric: str, label: str) -> Callable[[ResultRow], float | None]:
    def indicator(row: ResultRow) -> float | None:
        row_label = label_of(row, metric)
        return None if row_label is None else float(row_label == label)

    return indicator


def label_of(row: ResultRow, metric: str) -> str | None:
    """The label that corresponds to a row's score, or None."""
    share = row.value(metric)
    labels = SCALES[metric].labels
    return None if share is None else labels[len(labels) - 1 - round(share * (len(labels) - 1))]


WINDOW_SIZE = 10
"""Samples in a window, as in the paper."""

MILLION = 1_000_000
"""Labels of rows are integers: `area`, `width` and `height` are millionths of the image and of its sides."""


@dataclass(frozen=True)
class SizeCurve:
    """Score, 0 to 100, by target size. areas, widths, heights, scores: of each sample with its smallest target, in
    shares of the image and of its sides, ascending by area; (samples,). window_areas, window_scores: moving averages
    over `window` samples, (samples - window + 1,). r, p: their Pearson correlation, as in the paper (windows overlap,
    so p is far too small). sample_r, sample_p: of the samples themselves. None if undefined: fewer than three values,
    or constant ones. num_missing: samples without a score or a box."""

    areas: NDArray[np.float64]
    widths: NDArray[np.float64]
    heights: NDArray[np.float64]
    scores: NDArray[np.float64]
    window: int
    window_areas: NDArray[np.float64]
    window_scores: NDArray[np.float64]
    r: float | None
    p: float | None
    sample_r: float | None
    sample_p: float | None
    num_missing: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for the report."""
        numbers = ("areas", "widths", "heights", "scores", "window_areas", "window_scores")
        plain = ("window", "r", "p", "sample_r", "sample_p", "num_missing")
        return {name: getattr(self, name).tolist() for name in numbers} | {name: getattr(self, name) for name in plain}


def size_curve(results: Results, metric: str = IF) -> SizeCurve:
    """Needs scipy (the extra `bench`). Raises `InputError` without scipy."""
    samples: list[tuple[float, float, float, float]] = []
    for row in results.rows:
        value, area = row.value(metric), row.labels.get("area")
        if value is not None and isinstance(area, int):
            width, height = (int(row.labels.get(name, 0)) / MILLION for name in ("width", "height"))
            samples.append((area / MILLION, width, height, 100 * value))
    samples.sort(key=lambda sample: sample[0])
    areas, widths, heights, scores = np.array(samples, np.float64).reshape(-1, 4).T
    window_areas, window_scores = _means(areas), _means(scores)
    r, p = _pearson(window_areas, window_scores)
    sample_r, sample_p = _pearson(areas, scores)
    num_missing = len(results.rows) - len(samples)
    return SizeCurve(
        areas, widths, heights, scores, WINDOW_SIZE, window_areas, window_scores, r, p, sample_r, sample_p, num_missing
    )


def _means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(values) < WINDOW_SIZE:
        return np.zeros(0)
    means: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(values, WINDOW_SIZE).mean(axis=1)
    return means


def _pearson(xs: Sequence[float] | NDArray[np.float64], ys: NDArray[np.float64]) -> tuple[float | None, float | None]:
    if len(xs) < 3 or np.ptp(xs) == 0 or np.ptp(ys) == 0:
        return None, None
    result = bench_library("scipy.stats").pearsonr(xs, ys)
    return float(result.statistic), float(result.pvalue)
