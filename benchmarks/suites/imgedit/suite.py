"""ImgEdit-Bench (arXiv 2505.20275): 737 basic instructions of nine types, 47 hard ones (UGE), and conversations.

    basic       {"1082": {"id": "animal/000342021.jpg", "prompt": "Change …", "edit_type": "adjust"}, …}
    uge         {"1": {"id": "000029784.jpg", "prompt": "Remove …"}, …}
    multi-turn  a file for each kind, {"id": "000066341.jpg", "turn1": "…", "turn2": "…", "turn3": "…"} on a line each

Instructions are in the authors' repository or in `Benchmark.tar`, which has the pictures; each file may be one JSON
object of rows by key, or have one row on a line, with `key` or the line's number. The result files of the released
scripts are made of the same replies, in `imgedit/`: equal to theirs in protocol `official`; in `fixed`, of the values
that count. Failed scores are in none of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from ....reward import Image
from ....reward.metrics.imgedit.metrics import (
    CAPPED,
    CRITERIA,
    EDIT_TYPES,
    GRADES,
    NUMBERS,
    OUT_OF_RANGE,
    PACKAGE,
    PROTOCOLS,
    EditType,
    Protocol,
)
from ....reward.plain_text import one_line
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....reward.sample import Operation
from ....reward.strict_json import json_lines, read_json
from ....verifiers import edit_request
from ...common.errors import InputError
from ...common.problems import Problems
from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..rows import DataProblem, Row, file_name, read_rows, reasons, text, usable
from ..suite import (
    LabelValue,
    Suite,
    SuiteInfo,
    SuiteItem,
    decode_images,
    json_digest,
    make_items,
    missing_data,
    opened,
    require_choice,
)
from ..tables import Table


class ImgEditBench(Suite):
    """One part of ImgEdit-Bench.

    Labels of items: `type` (basic), `kind` and `turn` (multi-turn). Items of one source picture are one case.
    Raises `InputError` for unusable data and options. Invalid rows are `problems`.

    Args:
        data: A folder in one of the published layouts (see the module), or the file of a part's instructions.
        part: `basic`, with outputs `{key}.png`; `uge`, likewise; or `multi-turn`, with outputs
            `{kind}/{key}_turn{n}.png`, which people judge: it has items for `judge label` and `bench generate`, and no
            metrics.
        protocol: `fixed` or `official` (see `GradedEdit`).
        extract_source: Whether the judge sees the source of an extraction (see `ImgEditScore`).
        prompts: A prompt pack.
    """

    name: ClassVar[str] = "imgedit"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "ImgEdit-Bench",
        "Y. Ye, X. He, Z. Li, B. Lin, S. Yuan, Z. Yan, B. Hou, L. Yuan: ImgEdit: A Unified Image Editing Dataset and "
        "Benchmark. arXiv:2505.20275, 2025",
        "the licence is on the data set's page; that of the pictures was not verified",
        "https://huggingface.co/datasets/sysuyy/ImgEdit",
        "basic_edit.json, UGE_edit.json, or Benchmark.tar, extracted",
        "`id` (the picture), and `prompt` with `edit_type` (basic), `prompt` (uge), or `turn1`, `turn2`, ... "
        "(multi-turn)",
        "{key}.png; {kind}/{key}_turn{n}.png",
        ("imgedit", "imgedit-uge"),
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
            raise missing_data(self.name, "the folder of its instructions and pictures")
        require_choice(self.name, "part", part, PARTS)
        if extract_source is not None and part != "basic":
            raise InputError(f"extract_source is an option of the part basic, got part={part}")
        self.part, self.protocol, self.extract_source, self.prompts = part, protocol, extract_source, prompts
        if part != "multi-turn":
            self._check_metrics()  # before data are read
        elif prompts is not None or protocol != "fixed":
            raise InputError("people judge the part multi-turn: it has neither protocol nor prompts")
        problems = Problems[DataProblem]()
        rows = read_part(Path(data), part, problems)
        images = decode_images((row.picture for row in rows), data_folder(Path(data)))
        items = make_items(
            rows, lambda row: self._items_of(row, opened(images[row.picture])), lambda row: row.where, problems
        )
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
        """`imgedit` or `imgedit-uge`.

        Args:
            protocol: None is the suite's own.

        Raises:
            InputError: For another one, and for conversations.
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

    def _completeness_notes(self) -> list[str]:
        published = {"": UGE_COUNT} if self.part == "uge" else {str(kind): n for kind, n in TYPE_COUNTS.items()}
        counts = Counter(str(item.labels.get("type", "")) for item in self.items)
        differing = [f"{kind} {counts[kind]} of {count}" for kind, count in published.items() if counts[kind] != count]
        total = f"{len(self.items)} of {sum(published.values())}"
        listed = f": {', '.join(differing)}" if self.part == "basic" else ""
        return [f"the data have {total} instructions{listed}"] if differing else []

    def _items_of(self, row: ImgEditRow, picture: Image) -> list[SuiteItem]:
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


METRICS: Mapping[str, str] = {"basic": "imgedit", "uge": "imgedit-uge"}
OVERALL, UGE = "Overall", "UGE"
COLUMNS: Mapping[str, str] = {kind: "Hybrid" if kind == "compose" else kind.capitalize() for kind in EDIT_TYPES}
"""Type -> its column, in the published order."""

_UNIT = "grade 1-5"
_GRADES = 3


def basic_tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """The published table, the criteria by type (protocol `fixed`), and the replies by type."""
    metric = METRICS["basic"]
    rows = {COLUMNS[kind]: results.filter(type=kind) for kind in EDIT_TYPES if results.filter(type=kind)}
    row = {column: results.metric_mean(of_type, metric) for column, of_type in rows.items()}
    row[OVERALL] = Statistic.combine(plain_mean, *row.values())
    overall = f"Overall is the plain mean of the means of {len(rows)} types"
    board = Table(
        "leaderboard", "ImgEdit-Bench, basic", [*row], {"all": row}, 1.0, _UNIT, 2, [overall, *notes],
        ranking_column=OVERALL,
    )  # fmt: skip
    return [board, *_criteria(results), *_replies(results, metric, rows)]


def uge_tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """The mean over the hard instructions, and their replies."""
    metric = METRICS["uge"]
    mean = results.metric_mean(results.rows, metric)
    board = Table("leaderboard", "ImgEdit-Bench, hard instructions", [UGE], {"all": {UGE: mean}}, 1.0, _UNIT, 2, notes)
    return [board, *_replies(results, metric, {UGE: results.rows})]


def _criteria(results: Results) -> list[Table]:
    """The grades that count, by type: the three criteria in their order. None where no score has them."""
    columns = [f"criterion {number}" for number in range(1, _GRADES + 1)]
    rows: dict[str, dict[str, Statistic]] = {}
    names = []
    for kind in EDIT_TYPES:
        of_type = results.filter(type=kind)
        if not any((score := row.score("imgedit")) is not None and score.parts for row in of_type):
            continue
        rows[COLUMNS[kind]] = {
            column: results.metric_mean(of_type, METRICS["basic"], criterion)
            for column, criterion in zip(columns, CRITERIA[kind], strict=True)
        }
        names.append(f"{COLUMNS[kind]}: {', '.join(CRITERIA[kind])}")
    if not rows:
        return []
    return [Table("criteria", "ImgEdit-Bench, basic, by criterion", columns, rows, 1.0, _UNIT, 2, names)]


def _replies(results: Results, metric: str, rows: Mapping[str, Sequence[ResultRow]]) -> list[Table]:
    """Shares of the samples with a value whose grades were lowered (`fixed`), or that had other numbers than grades
    (`official`)."""
    evidence = [item for row in results.rows for item in _evidence(row, metric).values()]
    if not evidence:
        return []
    expected = _GRADES if metric == METRICS["basic"] else 1
    columns: dict[str, Callable[[Mapping[str, Mapping[str, float]]], bool]]
    if any(NUMBERS in numbers for numbers in evidence):
        columns = {
            f"other than {expected} numbers": lambda found: found[GRADES][NUMBERS] != expected,
            "numbers outside of 1 to 5": lambda found: found[GRADES][OUT_OF_RANGE] > 0,
        }
        note = "such numbers count as the released code counts them; replies without any are failed scores"
    else:
        columns = {"grades lowered": lambda found: CAPPED in found}
        note = (
            "a second or third grade above the first counts as the first"
            if metric == METRICS["basic"]
            else "a grade above 3 counts as 3 where the judge says that other areas changed"
        )
    shares = {
        name: {column: _share(results, of_type, metric, holds) for column, holds in columns.items()}
        for name, of_type in rows.items()
    }
    return [Table("replies", "ImgEdit-Bench, the judge's replies", [*columns], shares, 100.0, "percent of samples", 1,
                  [note], lower_is_better=[*columns])]  # fmt: skip


def _share(
    results: Results, rows: Sequence[ResultRow], metric: str, holds: Callable[[Mapping[str, Mapping[str, float]]], bool]
) -> Statistic:
    def indicator(row: ResultRow) -> float | None:
        found = _evidence(row, metric)
        return float(holds(found)) if GRADES in found else None

    return replace(results.mean(rows, indicator), monotone=False)


def _evidence(row: ResultRow, metric: str) -> dict[str, Mapping[str, float]]:
    score = row.score(metric)
    if score is None or score.value is None:
        return {}
    return {item.what: item.numbers for item in score.evidence if item.what in (GRADES, CAPPED)}


Part = Literal["basic", "uge", "multi-turn"]
PARTS: tuple[Part, ...] = get_args(Part)

TYPE_COUNTS: Mapping[EditType, int] = {
    "add": 95,
    "adjust": 94,
    "extract": 117,
    "replace": 92,
    "remove": 86,
    "background": 94,
    "style": 100,
    "compose": 23,
    "action": 36,
}
"""Type -> instructions of the published basic suite, 737 in all."""
UGE_COUNT = 47

KINDS: Mapping[str, tuple[str, ...]] = {
    "content-memory": ("content_memory",),
    "content-understanding": ("content_understand", "content_understanding"),
    "version-backtracking": ("version_backtrace", "version_backtracking"),
}
"""Kind of a multi-turn task -> names of its folder, or of its file without suffix."""
MAX_TURNS = 10

_FOLDERS: Mapping[Part, str] = {"basic": "singleturn", "uge": "hard", "multi-turn": "multiturn"}
"""Part -> its folder in the published archive."""
_ARCHIVE = "Benchmark"
_FILES: Mapping[Part, tuple[str, ...]] = {
    "basic": ("basic_edit.json", "singleturn.json", "singleturn/singleturn.json", "Basic/basic_edit.json"),
    "uge": ("UGE_edit.json", "UGE_edit.jsonl", "hard/annotation.json", "hard/annotation.jsonl", "UGE/UGE_edit.json"),
}


@dataclass(frozen=True, slots=True)
class ImgEditRow:
    """One instruction, or one conversation. key: of its output. source: the picture as the row names it. instructions:
    one a turn. kind: its type or kind, empty for hard instructions."""

    where: str
    key: str
    source: str
    picture: Path
    instructions: tuple[str, ...]
    kind: str


def data_folder(data: Path) -> Path:
    """The folder which the pictures lie in or below."""
    return data if data.is_dir() else data.parent


def read_part(data: Path, part: Part, problems: Problems[DataProblem]) -> list[ImgEditRow]:
    """The usable rows. data: a folder in one of the published layouts, or for basic and hard instructions their file.
    Raises `InputError` if there is no such file, or no usable row."""
    found: list[ImgEditRow] = []
    for kind, path in _files(data, part):
        rows = read_rows(_rows(path), partial(_row, data_folder(data), path, part, kind), lambda row: row.key)
        found += usable(rows, problems)
    if not found:
        why = reasons(problems, "its files have no rows")
        raise InputError(f"{data} has no usable instructions of imgedit's part {part}: {why}")
    return found


def _files(data: Path, part: Part) -> list[tuple[str, Path]]:
    """Kind (of several turns) and path of each file of instructions. Raises `InputError` for none."""
    if part != "multi-turn":
        if data.is_file():
            return [("", data)]
        candidates = [top / name for top in (data, data / _ARCHIVE) for name in _FILES[part]]
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            raise InputError(
                f"{data} has no instructions of imgedit's part {part}: expected {_FILES[part][0]} in it, with its "
                f"pictures beside it or in {_FOLDERS[part]}/"
            )
        return [("", found)]
    tops = [data, data / _FOLDERS[part], data / _ARCHIVE / _FOLDERS[part]]
    files = []
    for kind, names in KINDS.items():
        candidates = [
            path
            for top in tops
            for name in names
            for path in (top / name / "annotation.json", top / name / "annotation.jsonl", top / f"{name}.json")
        ]
        files += [(kind, path) for path in candidates if path.is_file()][:1]
    if not files:
        expected = ", ".join(f"{_FOLDERS[part]}/{names[0]}/annotation.json" for names in KINDS.values())
        raise InputError(f"{data} has no instructions of imgedit's part {part}: expected {expected}")
    return files


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        table = read_json(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        table = None  # several values, one on a line, or no JSON at all
    if isinstance(table, dict) and table and all(isinstance(row, dict) for row in table.values()):
        for key, row in table.items():
            yield f"{path}, {one_line(key):.80}", {**row, "key": key}
        return
    for number, row in json_lines(path):
        yield f"{path}:{number}", {"key": number, **row} if isinstance(row, dict) else row


def _row(top: Path, path: Path, part: Part, kind: str, row: Row, where: str) -> ImgEditRow:
    key = file_name(str(row["key"]))
    name = text(row, "id")
    picture = next((file for file in _pictures(top, path, part, name) if file.is_file()), None)
    if picture is None:
        raise ValueError(f"there is no image {name!r:.200}, neither in {path.parent} nor in {_FOLDERS[part]}/")
    if part == "multi-turn":
        turns = [f"turn{number}" for number in range(1, 1 + sum(field.startswith("turn") for field in row))]
        if not 1 <= len(turns) <= MAX_TURNS:
            raise ValueError(f"has {len(turns)} turns: expected turn1, turn2, … up to {MAX_TURNS}")
        return ImgEditRow(where, key, name, picture, tuple(text(row, turn) for turn in turns), kind)
    if part == "basic":
        kind = text(row, "edit_type").casefold()
        if kind not in EDIT_TYPES:
            raise ValueError(f"unknown edit_type {kind!r:.80}: expected one of {', '.join(EDIT_TYPES)}")
    return ImgEditRow(where, key, name, picture, (text(row, "prompt"),), kind)


def _pictures(top: Path, path: Path, part: Part, name: str) -> Iterator[Path]:
    yield path.parent / name
    for folder in (top, top / _FOLDERS[part], top / _ARCHIVE / _FOLDERS[part], top / "original_images"):
        yield folder / name
