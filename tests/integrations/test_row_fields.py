"""What a row carries is the same however it was stored: as tables, arrays, tensors or text, through files of Arrow."""

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from editcritic.integrations.dataset_rows import (
    METADATA_FIELDS,
    UnusableRow,
    build_samples,
    read_field,
    read_fields,
    sample_from_row,
    with_requirement,
)
from editcritic.reward import EditSample
from tests.integrations.test_dataset_rows import A, B

from .serving.server import test_trainer_protocols as protocols
from .trainers.entries import ENTRIES, Row, Seen

PAGE = Path(__file__).parents[2] / "docs" / "trainers" / "rows.md"

TABLES: list[dict[str, Any]] = [
    {
        "boxes": {"cup": [[0, 0, 4, 4], [1.5, 1, 5, 5]]},
        "fractions": {"dog": [[0.5, 0.5, 0.25, 0.25, 1.0]]},
        "pools": {"all": ["cup", "dog"], "available": ["cup"], "unchanged": [], "background": False},
        "operations": [
            {"instruction": "Remove the dog", "task": {"type": "subject_remove", "object": "dog"}},
            {"instruction": "Add a cup"},
        ],
        "task": {"type": "color_alter", "object": "cup", "value": "blue"},
        "plan": {"operations": [{"type": "subject_remove", "target": {"noun": "dog"}}]},
        "targets": [[2, 2, 6, 6]],
        "target_fractions": [[0.5, 0.5, 0.5, 0.5, 1.0]],
        "target_text": "CAFE",
        "hint": "a blue cup",
        "dimensions": ["aesthetic-quality"],
        "metadata": {"origin": "studio"},
    },
    {
        "boxes": {"horse": [[0, 0, 2, 2]]},
        "task": {"type": "count_change", "object": "horse", "count": 2},
        "plan": {"operations": [{"type": "other", "text": "twirl it"}], "confidence": 0.5},
        "operations": [{"instruction": "twirl it", "name": "Twirl"}],
    },
    {},
]
"""Of three rows that have different names in them."""


def sample_of(metadata: Any) -> EditSample:
    (sample,) = build_samples(["x"], [A], [[B]], [metadata])
    assert isinstance(sample, EditSample), sample
    return sample


assert set(TABLES[0]) == set(METADATA_FIELDS)

EXPECTED = [sample_of({"editcritic": table}) for table in TABLES]


def through_pyarrow(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return list(pq.read_table(path).to_pylist())


def through_pandas(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
    pd.DataFrame(rows).to_parquet(path)
    return list(pd.read_parquet(path).to_dict("records"))


def through_datasets(form: str | None) -> Callable[[list[dict[str, Any]], Path], Sequence[Any]]:
    def store(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
        import datasets

        pq.write_table(pa.Table.from_pylist(rows), path)
        loaded = datasets.Dataset.from_parquet(str(path), cache_dir=str(path.parent))
        return list(loaded.with_format(form))

    return store


def through_jsonl_and_datasets(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
    import datasets

    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(datasets.Dataset.from_json(str(path), cache_dir=str(path.parent)))


def as_text(whole: bool) -> Callable[[list[dict[str, Any]], Path], Sequence[Any]]:
    """The metadata of a row, or its table."""

    def store(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
        return [json.dumps(row) if whole else {"editcritic": json.dumps(row["editcritic"])} for row in rows]

    return store


def fields_as_text(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
    """As Flow-Factory wants nested values; here also through Arrow, in columns of one type."""
    tables = [
        {name: value if isinstance(value, str) else json.dumps(value) for name, value in row["editcritic"].items()}
        for row in rows
    ]
    return through_pyarrow([{"editcritic": table} for table in tables], path)


def boxes_of_an_object_as_text(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
    return [
        {
            "editcritic": row["editcritic"]
            | {"boxes": {name: json.dumps(boxes) for name, boxes in row["editcritic"].get("boxes", {}).items()}}
        }
        for row in rows
    ]


def boxes_as_a_map(rows: list[dict[str, Any]], path: Path) -> Sequence[Any]:
    """The type of Arrow for names that differ from row to row."""
    kind = pa.map_(pa.string(), pa.list_(pa.list_(pa.float64())))
    boxes = pa.array([list(row["editcritic"].get("boxes", {}).items()) for row in rows], type=kind)
    pq.write_table(pa.table({"boxes": boxes}), path)
    read = pq.read_table(path).to_pylist()
    assert isinstance(read[0]["boxes"], list)
    return [{"editcritic": row["editcritic"] | boxes} for row, boxes in zip(rows, read, strict=True)]


WAYS: dict[str, Callable[[list[dict[str, Any]], Path], Sequence[Any]]] = {
    "pyarrow": through_pyarrow,
    "pandas": through_pandas,
    "datasets": through_datasets(None),
    "datasets with numpy": through_datasets("numpy"),
    "datasets with torch": through_datasets("torch"),
    "datasets from JSONL": through_jsonl_and_datasets,
    "table as text": as_text(whole=False),
    "fields as text": fields_as_text,
    "boxes as text": boxes_of_an_object_as_text,
    "metadata as text": as_text(whole=True),
    "boxes as a map": boxes_as_a_map,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_is_the_same_however_it_was_stored(way: str, tmp_path: Path) -> None:
    stored = WAYS[way]([{"editcritic": table} for table in TABLES], tmp_path / "rows")
    assert len(stored) == len(TABLES)
    for row, expected in zip(stored, EXPECTED, strict=True):
        assert sample_of(row) == expected


TRL_WAYS = [name for name in WAYS if name != "metadata as text"]


@pytest.mark.parametrize("way", TRL_WAYS)
def test_trl_reads_the_same_from_the_table_and_from_columns(way: str, tmp_path: Path) -> None:
    needed = {"id": "edit-0", "instruction": "x", "source": B.pil(), "edited": A.pil()}
    for row, expected in zip(
        WAYS[way]([{"editcritic": table} for table in TABLES], tmp_path / "rows"), EXPECTED, strict=True
    ):
        assert sample_from_row({**needed, **row}) == expected
        if isinstance(columns := row["editcritic"], dict):
            rest = {name: value for name, value in columns.items() if name != "metadata"}
            kept = {"metadata": columns.get("metadata")}  # no column of TRL's
            assert sample_from_row({**needed, **rest, "editcritic": kept}) == expected


@pytest.mark.parametrize("entry", ["flow_grpo", "flow_factory", "unirl", "verl_omni", "omnigen2_rl", "dance_grpo"])
@pytest.mark.parametrize("way", TRL_WAYS)
def test_every_adapter_reads_it(entry: str, way: str, tmp_path: Path) -> None:
    seen = Seen()
    call = ENTRIES[entry](seen)
    for row in WAYS[way]([{"editcritic": table} for table in TABLES], tmp_path / "rows"):
        call([Row("x", B, A, row)])
    assert seen.samples == EXPECTED


def test_the_requirement_of_edit_r1_stands_beside_a_table_in_text() -> None:
    for table in ({"boxes": {"cup": [[0, 0, 4, 4]]}, "hint": None}, '{"boxes": {"cup": [[0, 0, 4, 4]]}}', "", None):
        sample = sample_of(with_requirement({"requirement": "a blue cup", "editcritic": table}))
        assert (sample.hint, list(sample.boxes)) == ("a blue cup", ["cup"] if table else [])
    own = with_requirement({"requirement": "a blue cup", "editcritic": '{"hint": "red"}'})
    assert sample_of(own).hint == "red"


@pytest.mark.parametrize("as_text", ["nothing", "fields", "table"])
def test_the_judge_server_reads_it_in_the_protocols_of_trainers(as_text: str) -> None:
    table: Any = TABLES[0]
    if as_text == "fields":
        table = {name: value if isinstance(value, str) else json.dumps(value) for name, value in table.items()}
    else:
        table = {**table, "boxes": {**table["boxes"], "horse": None}}
    row = {"editcritic": json.dumps(table) if as_text == "table" else table}
    with protocols.judge() as (url, kept):
        protocols.edit_r1(url, metadatas=[row] * 3)
        protocols.unirl(url, protocols.item("make it blue", protocols.BEFORE[0], protocols.AFTER[0], metadata=row))
    fields = [name for name in METADATA_FIELDS if "fractions" not in name]
    assert len(kept.samples) == 4
    for sample in kept.samples:
        assert [getattr(sample, name) for name in fields] == [getattr(EXPECTED[0], name) for name in fields]


def test_nothing_is_nothing_and_other_metadata_is_not_read() -> None:
    for table in (None, {}, "", " ", "null", math.nan, {"boxes": None, "plan": "", "hint": None}):
        assert read_fields(table, "the row") == {}
        assert sample_of({"editcritic": table}) == EXPECTED[2]
    for metadata in ("a word", {"tag": "[" * 100_000}, 7, None, "[" * 100_000):
        assert sample_of(metadata) == EXPECTED[2]


def endless() -> list[Any]:
    loop: list[Any] = []
    loop += [loop, loop]
    return loop


UNUSABLE: dict[str, Any] = {
    "deep text": "[" * 50_000,
    "deeper than the parser": "[" * 200_000,
    "deep tables": json.loads('{"a":' * 500 + "1" + "}" * 500),
    "many values": "[" + "1," * 200_000 + "1]",
    "a long text": '"' + "x" * (5 * 2**20) + '"',
    "a large array": np.zeros((2_000, 2_000)),
    "a large tensor": torch.zeros(2_000, 2_000),
    "a list of itself": endless(),
    "a long number": '{"cup": [[' + "9" * 5_000 + ", 0, 1, 1]]}",
    "a surrogate": '{"\\ud800": [[0, 0, 1, 1]]}',
}


@pytest.mark.parametrize("field", ["boxes", "plan", "metadata"])
@pytest.mark.parametrize("case", UNUSABLE)
def test_a_hostile_value_fails_its_row_alone(case: str, field: str) -> None:
    with pytest.raises(UnusableRow, match=rf"`{field}`"):
        read_field(field, UNUSABLE[case], "the row")
    rows = build_samples(["x"] * 2, [A] * 2, [[B]] * 2, [{"editcritic": {field: UNUSABLE[case]}}, None])
    assert isinstance(rows[0], str)
    assert rows[0].startswith("edit-0")
    assert len(rows[0]) < 1_000
    assert isinstance(rows[1], EditSample)
    with pytest.raises(UnusableRow):
        sample_from_row({"instruction": "x", "source": B.pil(), "editcritic": {field: UNUSABLE[case]}})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"bxes": {}}, "the unknown field 'bxes': known are task, pools, boxes"),
        ({"boxes": 3}, "boxes"),
        ({"boxes": [[0, 0, 4, 4]]}, "is a list without names"),
        ({"boxes": np.zeros((1, 4))}, "is a list without names"),
        ({"boxes": "a cup"}, "should be a table, a list or JSON: not JSON"),
        ({"boxes": '{"cup": 1, "cup": 2}'}, "the name 'cup' is given twice"),
        ({"boxes": {"cup": [[0, 0, 900, 4]]}}, "lies outside of its 8 x 8 image"),
        ({"boxes": {"cup": [[math.nan, 0, 4, 4]]}}, "NaN"),
        ({"targets": [[0, 0, 4]]}, "targets"),
        ({"task": {"type": "dance"}}, "task.type"),
        ({"operations": "Add a cup"}, "should be a table, a list or JSON"),
        ({"hint": ["blue"]}, "hint"),
        (["boxes"], "must be a table, got list"),
        ("boxes", "should be a table, a list or JSON"),
    ],
)
def test_a_mistake_is_told_in_words(table: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        build_samples(["x"], [A], [[B]], [{"editcritic": table}])
    assert not isinstance(caught.value, UnusableRow)
    if table != {"hint": ["blue"]}:  # TRL's texts are made of any value
        with pytest.raises(ValueError, match=re.escape(words)):
            sample_from_row({"instruction": "x", "source": B.pil(), "editcritic": table})


def test_trl_refuses_a_field_that_is_given_twice() -> None:
    row = {"id": "seven", "instruction": "x", "source": B.pil(), "hint": "a", "editcritic": {"hint": "b"}}
    with pytest.raises(ValueError, match="the row 'seven' has `hint` as a column and in `editcritic`"):
        sample_from_row(row)


def test_the_page_lists_every_field_with_an_example_that_is_read() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| .+ \| .+ \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == list(METADATA_FIELDS)
    for name, example in rows:
        sample = sample_of({"editcritic": {name: json.loads(example)}})
        assert sample != EXPECTED[2], name
        if name != "metadata":
            plain = {"id": "edit-0", "instruction": "x", "source": B.pil(), "edited": A.pil()}
            assert sample_from_row({**plain, name: json.loads(example)}) == sample
