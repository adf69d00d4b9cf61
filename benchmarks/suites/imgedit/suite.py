"""ImgEdit-Bench (arXiv 2505.20275): 737 basic instructions of nine types, 47 hard ones (UGE), and conversations.

The files of the released scripts are made of the same replies, in the folder `imgedit`. `result.json` has the judge's
reply by key, as the released script that asks the judge writes it: the scripts that compute the means can be run on it.
`average_score.json` and, of the basic suite, `typescore.json` have what these write, but of this run's own values: in
protocol `official` they are equal to theirs, in `fixed` they are the values that count. Failed scores are in none of
them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....reward import Image
from ....reward.metrics.imgedit.metrics import GRADES, PACKAGE, PROTOCOLS, Protocol
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....reward.sample import Operation
from ....verifiers import edit_request
from ...common.errors import InputError
from ...common.problems import Problems
from ..image_index import decode_images, opened
from ..results import Results
from ..rows import DataProblem
from ..suite import LabelValue, Suite, SuiteInfo, SuiteItem, json_digest, make_items, require_choice
from ..tables import Table
from .reader import PARTS, TYPE_COUNTS, UGE_COUNT, ImgEditRow, Part, data_folder, read_part
from .tables import METRICS, basic_tables, uge_tables


class ImgEditBench(Suite):
    """One part of ImgEdit-Bench.

    data: a folder in one of the published layouts (see `reader`), or the file of a part's instructions.
    part: `basic`, with outputs `{key}.png`; `uge`, likewise; or `multi-turn`, with outputs
    `{kind}/{key}_turn{n}.png`, which people judge: it has items for `judge label` and `bench generate`, and no metrics.
    protocol: `fixed` or `official` (see `GradedEdit`). extract_source: whether the judge sees the source of an
    extraction (see `ImgEditScore`). prompts: a prompt pack.

    Labels of items: `type` (basic), `kind` and `turn` (multi-turn). Items of one source picture are one case.
    Raises `InputError` for unusable data and options. Invalid rows are `problems`.
    """

    name: ClassVar[str] = "imgedit"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "ImgEdit-Bench",
        "Y. Ye, X. He, Z. Li, B. Lin, S. Yuan, Z. Yan, B. Hou, L. Yuan: ImgEdit: A Unified Image Editing Dataset and "
        "Benchmark. arXiv:2505.20275, 2025",
        "the licence is on the data set's page; that of the pictures was not verified",
        "https://huggingface.co/datasets/sysuyy/ImgEdit",
    )

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        part: Part = "basic",
        protocol: Protocol = "fixed",
        extract_source: bool | None = None,
        prompts: str | None = None,
    ) -> None:
        if data is None:
            raise InputError("imgedit needs its data: give --data with the folder of its instructions and pictures")
        require_choice(self.name, "part", part, PARTS)
        if extract_source is not None and part != "basic":
            raise InputError(f"extract_source is an option of the part basic, got part={part}")
        self.part, self.protocol, self.extract_source, self.prompts = part, protocol, extract_source, prompts
        self._check_options()  # before data are read
        problems = Problems[DataProblem]()
        rows = read_part(Path(data), part, problems)
        items = self._items(rows, data_folder(Path(data)), problems)
        fields = [[item.id, item.sample.instruction, dict(item.labels), item.sample.source.digest] for item in items]
        self.digest = json_digest([part, fields])
        self._hold(items, problems, f"{data} has no usable pictures")

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on besides the data; a prompt pack as its digest."""
        options: dict[str, LabelValue] = {"part": self.part}
        if self.extract_source is not None:
            options["extract_source"] = str(self.extract_source).lower()
        return options if self.prompts is None else {**options, "prompts": Prompts(PACKAGE, self.prompts).digest}

    @property
    def protocols(self) -> Mapping[str, str]:
        if self.part == "multi-turn":
            return {}
        meanings = {
            "fixed": "replies read strictly, and the rules of the grades enforced",
            "official": "replies read as the released code reads them",
        }
        return {name: meanings[name] for name in sorted(PROTOCOLS, key=lambda name: name != self.protocol)}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`imgedit` or `imgedit-uge`. protocol: None is the suite's own. Raises `InputError` for another one, and for
        conversations.
        """
        if self.part == "multi-turn":
            raise InputError(
                "people judge the conversations of ImgEdit-Bench, there is no metric: collect labels with "
                "`editcritic judge label 'imgedit?part=multi-turn' --data DATA --outputs NAME=FOLDER -o labels.jsonl`"
            )
        protocol = protocol or self.protocol
        require_choice(self.name, "protocol", protocol, PROTOCOLS)
        options: dict[str, Any] = {"protocol": protocol}
        options |= {} if self.extract_source is None else {"extract_source": self.extract_source}
        options |= {} if self.prompts is None else {"prompts": self.prompts}
        return {METRICS[self.part]: {"use": METRICS[self.part], **options}}

    def tables(self, results: Results) -> list[Table]:
        """The published table by type, or the mean of the hard instructions; criteria; what the replies were like."""
        if not results.rows or self.part == "multi-turn":
            return []
        notes = self._completeness_notes()
        return basic_tables(results, notes) if self.part == "basic" else uge_tables(results, notes)

    def write_official_files(self, results: Results, folder: Path) -> list[Path]:
        """`imgedit/result.json` and the files that the released scripts make of it."""
        return [] if self.part == "multi-turn" else write_official_files(results, METRICS[self.part], folder)

    def _check_options(self) -> None:
        """Raise `InputError` for options that no metric takes."""
        if self.part == "multi-turn":
            if self.prompts is not None or self.protocol != "fixed":
                raise InputError("people judge the part multi-turn: it has neither protocol nor prompts")
            return
        self._check_metrics()

    def _completeness_notes(self) -> list[str]:
        """Counts that differ from the published ones."""
        published = {"": UGE_COUNT} if self.part == "uge" else {str(kind): n for kind, n in TYPE_COUNTS.items()}
        counts = Counter(str(item.labels.get("type", "")) for item in self.items)
        differing = [f"{kind} {counts[kind]} of {count}" for kind, count in published.items() if counts[kind] != count]
        total = f"{len(self.items)} of {sum(published.values())}"
        listed = f": {', '.join(differing)}" if self.part == "basic" else ""
        return [f"the data have {total} instructions{listed}"] if differing else []

    def _items(self, rows: Sequence[ImgEditRow], folder: Path, problems: Problems[DataProblem]) -> list[SuiteItem]:
        images = decode_images((row.picture for row in rows), folder)

        def items_of(row: ImgEditRow) -> list[SuiteItem]:
            return self._items_of(row, opened(images[row.picture]))

        return make_items(rows, items_of, lambda row: row.where, problems)

    def _items_of(self, row: ImgEditRow, picture: Image) -> list[SuiteItem]:
        """The items of a row: one, or one a turn."""
        first = row.instructions[0]
        if self.part == "uge":
            return [SuiteItem(row.key, row.source, row.key, edit_request(first, picture, id=row.key))]
        if self.part == "basic":
            sample = edit_request(first, picture, id=row.key, operations=(Operation(first, row.kind),))
            return [SuiteItem(row.key, row.source, row.key, sample, labels={"type": row.kind})]
        chain = f"{row.kind}-{row.key}"
        return [
            SuiteItem(
                f"{chain}/{turn}",
                chain,
                f"{row.kind}/{row.key}_turn{turn}",
                edit_request(instruction, picture, id=f"{chain}/{turn}"),
                previous=f"{chain}/{turn - 1}" if turn > 1 else "",
                labels={"kind": row.kind, "turn": turn},
            )
            for turn, instruction in enumerate(row.instructions, start=1)
        ]


FOLDER = "imgedit"
"""In the result folder, which has a `result.json` of its own."""


def write_official_files(results: Results, metric: str, folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    replies: dict[str, str] = {}
    averages: dict[str, float] = {}
    by_type: dict[str, list[float]] = {}
    for row in results.rows:
        score = row.score(metric)
        if score is None or score.value is None:
            continue
        replies[row.id] = next((item.text for item in score.evidence if item.what == GRADES), "")
        averages[row.id] = round(score.value, 2)
        by_type.setdefault(str(row.labels.get("type", "")), []).append(averages[row.id])
    folder = folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Mapping[str, Any]] = {"result.json": replies, "average_score.json": averages}
    if "" not in by_type:
        # In the words of the released script: `fmean` would round one mean in 600 to another last digit.
        files["typescore.json"] = {kind: round(sum(values) / len(values), 2) for kind, values in by_type.items()}
    paths = []
    for name, content in files.items():
        path = folder / name
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        paths.append(path)
    return paths
