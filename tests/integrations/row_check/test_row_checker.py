"""Data sets in the layouts of the trainers are checked as the adapters read them."""

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from editcritic.integrations.row_check import (
    TRAINER_LAYOUTS,
    BrokenFile,
    CheckOptions,
    RowFile,
    RowsReport,
    check_rows,
    layout_of,
)
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.reward import EditSample, Reward, Score
from editcritic.reward.trust import trusting

SIZE = (96, 64)

_PEAK = """
import re, sys
from pathlib import Path
from editcritic.integrations.row_check import *
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def encoded(number: int, size: tuple[int, int] = SIZE, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", size, (number % 256, 80, 120)).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place in (tmp_path, tmp_path / "images"):
        place.mkdir(exist_ok=True)
        for number in range(3):
            (place / f"{number}.png").write_bytes(encoded(60 * number))
    return tmp_path


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def check(path: Path, trainer: str, **options: Any) -> RowsReport:
    return check_rows(RowFile(path), TRAINER_LAYOUTS[trainer], CheckOptions(**options))


def found(report: RowsReport) -> dict[str, tuple[str, list[int]]]:
    """kind -> (consequence, the rows that are named)."""
    return {one.kind: (one.consequence, [number for number, _ in one.examples]) for one in report.findings}


FIELDS: Sequence[dict[str, Any]] = [
    {"fractions": {"cup": [[0.5, 0.5, 0.5, 0.5, 1.0]]}},
    {"hint": "a red dog", "fractions": {"dog": []}},
    {},
]


def flow_grpo(folder: Path, fields: Sequence[Any] = FIELDS) -> Path:
    rows = [
        {"prompt": f"Make it {number}", "image": f"{number}.png", "editcritic": fields[number]} for number in range(3)
    ]
    return jsonl(folder / "train_metadata.jsonl", rows)


def flow_factory(folder: Path, fields: Sequence[Any] = FIELDS) -> Path:
    rows = [
        {"prompt": "Make it red", "image": "0.png", "editcritic": json.dumps(fields[0])},
        {"prompt": "Make it red", "images": ["1.png", "2.png"], "editcritic": None},
    ]
    return jsonl(folder / "train.jsonl", rows)


def verl_rows(**info: Any) -> list[dict[str, Any]]:
    return [
        {
            "data_source": "image_edit",
            "prompt": [{"role": "user", "content": f"Picture 1: <image>Make it {number}"}],
            "ability": "image_edit",
            "images": [{"bytes": encoded(number)}],
            "reward_model": {"style": "model", "ground_truth": f"Make it {number}"},
            "extra_info": {"split": "train", "index": number, "instruction": f"Make it {number}"}
            | {name: value(number) for name, value in info.items()},
        }
        for number in range(3)
    ]


def verl_omni(folder: Path, fields: Sequence[Any] = FIELDS) -> Path:
    rows = verl_rows(source_img=lambda number: {"bytes": encoded(number)}, editcritic=lambda number: fields[number])
    return parquet(folder / "train.parquet", rows)


def unirl(folder: Path, fields: Sequence[Any] = FIELDS) -> Path:
    def media(number: int) -> list[dict[str, str]]:
        return [{"modality": "image", "role": "condition", "uri": f"{number}.png"}]

    rows = [
        {"prompt": "Make it red", "media": media(0), "metadata": {"global_id": "a", "editcritic": fields[0]}},
        {"caption": "Make it blue", "media_refs": media(1), "editcritic": fields[1]},
        {"prompt": "Make it old", "media": media(2), "metadata": {"global_id": "c"}},
    ]
    return jsonl(folder / "train.jsonl", rows)


def omnigen2_rl(folder: Path, fields: Sequence[Any] = FIELDS) -> Path:
    rows = [
        {
            "task_type": "edit",
            "instruction": f"Make it {number}",
            "input_images": [f"{number}.png"],
            "meta_data": json.dumps({"instruction": f"Make it {number}", "editcritic": fields[number]}),
        }
        for number in range(3)
    ]
    return jsonl(folder / "rl.jsonl", rows)


def trl(folder: Path, fields: Sequence[Any] = FIELDS) -> Path:
    rows = [
        {"prompt": "rewrite", "instruction": f"Make it {number}", "source": {"bytes": encoded(number), "path": None}}
        | fields[number]
        | {"boxes": {f"thing {number}": [[0, 0, 96, 64]]}, "mask": {"bytes": encoded(number)}}
        for number in range(3)
    ]
    return parquet(folder / "train.parquet", rows)


PUBLISHED = {
    "flow-grpo": flow_grpo,
    "edit-r1": flow_grpo,
    "flow-factory": flow_factory,
    "verl-omni": verl_omni,
    "unirl": unirl,
    "omnigen2-rl": omnigen2_rl,
    "trl": trl,
}


@pytest.mark.parametrize("pictures", ["header", "decode"])
@pytest.mark.parametrize("trainer", TRAINER_LAYOUTS)
def test_a_data_set_as_published_is_usable(trainer: str, pictures: str, folder: Path) -> None:
    report = check(PUBLISHED[trainer](folder), trainer, pictures=pictures, reward=Reward.of("any-edit"))
    assert report.findings == ()
    assert report.is_usable
    assert report.rows == report.groups == (2 if trainer == "flow-factory" else 3)


@pytest.mark.parametrize("trainer", PUBLISHED)
def test_the_fields_of_every_layout_are_read(trainer: str, folder: Path) -> None:
    """A field that is none is found in the first row, wherever the trainer has it."""
    path = PUBLISHED[trainer](folder, [{"boxs": {"cup": [[0, 0, 4, 4]]}}, *FIELDS[1:]])
    report = check(path, trainer)
    if trainer == "trl":
        assert report.is_usable  # it is a column among the data set's own
    else:
        kind = {"fields": ("ends the run", [int(report.unit == "line")])}
        assert found(report) == kind
        assert "unknown field 'boxs'" in report.findings[0].examples[0][1]


def test_layouts_are_recognised_where_columns_decide(folder: Path) -> None:
    for trainer in ("verl-omni", "unirl", "omnigen2-rl", "trl"):
        assert layout_of(RowFile(PUBLISHED[trainer](folder)).columns()).name == trainer
    with pytest.raises(
        ValueError, match=r"prompt, image, editcritic do not say which trainer .* one of trl, flow-grpo"
    ):
        layout_of(RowFile(flow_grpo(folder)).columns())


def test_pictures_of_verl_omnis_recipe_lie_in_the_folder_that_is_given(folder: Path) -> None:
    path = parquet(folder / "train.parquet", verl_rows(image=lambda number: f"{number}.png"))
    assert check(path, "verl-omni", folder=folder / "images").is_usable
    report = check(path, "verl-omni")
    assert found(report) == {"picture": ("ends the run", [0, 1, 2])}
    assert "give --images FOLDER" in report.findings[0].examples[0][1]
    path = parquet(folder / "train.parquet", verl_rows())
    assert found(check(path, "verl-omni")) == {"source": ("ends the run", [0, 1, 2])}


PLAN = {"operations": [{"type": "subject_remove", "target": {"noun": "cat"}}]}


@pytest.mark.parametrize(
    ("row", "kind", "consequence"),
    [
        ("{broken", "line", "ends the run"),
        ("[1, 2]", "line", "ends the run"),
        ('"text"', "line", "ends the run"),
        ("[" * 100_000, "line", "ends the run"),
        ({"image": "0.png"}, "instruction", "ends the run"),
        ({"prompt": 7, "image": "0.png"}, "instruction", "ends the run"),
        ({"prompt": " ", "image": "0.png"}, "instruction", "unscored"),
        ({"prompt": "x" * 5_000, "image": "0.png"}, "limits", "unscored"),
        ({"prompt": "a"}, "source", "ends the run"),
        ({"prompt": "a", "image": None}, "source", "ends the run"),
        ({"prompt": "a", "image": "9.png"}, "picture", "ends the run"),
        ({"prompt": "a", "image": "broken.png"}, "picture", "ends the run"),
        ({"prompt": "a", "image": "../outside.png"}, "picture", "ends the run"),
        ({"prompt": "a", "image": "https://127.0.0.1/0.png"}, "picture", "ends the run"),
        ({"prompt": "a", "image": 7}, "picture", "ends the run"),
        ({"prompt": "a", "image": "0.png", "editcritic": {"bxes": 1}}, "fields", "ends the run"),
        (
            {"prompt": "a", "image": "0.png", "editcritic": {"boxes": {"cup": [[0, 0, 97, 4]]}}},
            "fields",
            "ends the run",
        ),
        ({"prompt": "a", "image": "0.png", "editcritic": {"boxes": [[0, 0, 9, 4]]}}, "fields", "ends the run"),
        ({"prompt": "a", "image": "0.png", "editcritic": {"task": {"type": "color_alter"}}}, "fields", "ends the run"),
        ({"prompt": "a", "image": "0.png", "editcritic": {"plan": {"operations": 1}}}, "fields", "ends the run"),
        ({"prompt": "a", "image": "0.png", "editcritic": {"target_text": "x" * 5_000}}, "limits", "unscored"),
        ({"prompt": "a", "image": "0.png", "editcritic": {"plan": "[" * 90_000}}, "limits", "unscored"),
        ({"prompt": "Remove the dog", "image": "0.png", "editcritic": {"plan": PLAN}}, "plan", "unscored"),
    ],
)
def test_a_bad_row_is_named_and_the_others_are_not(row: Any, kind: str, consequence: str, folder: Path) -> None:
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "data").mkdir()
    (folder / "outside.png").write_bytes(encoded(1))
    for number in range(3):
        (folder / "data" / f"{number}.png").write_bytes(encoded(number))
    good = [{"prompt": f"Make it {number}", "image": f"{number}.png"} for number in range(3)]
    path = jsonl(folder / "data" / "rows.jsonl", [*good[:2], row, good[2]])
    report = check(path, "flow-grpo")
    assert found(report) == {kind: (consequence, [3])}
    assert (report.rows, report.unusable, report.groups, report.is_usable) == (4, 1, 3, False)
    assert 5 < len(report.findings[0].examples[0][1]) < 1_600


def test_what_the_check_says_is_what_the_adapter_does(folder: Path) -> None:
    """Of rows that the trainer itself can load."""
    fields = [
        {"bxes": 1}, {"boxes": {"cup": [[0, 0, 97, 4]]}}, {"boxes": [[0, 0, 9, 4]]}, {"target_text": "x" * 5_000},
        {"plan": "[" * 90_000}, {"hint": "blue"}, {"fractions": {"cup": [[0.5, 0.5, 0.1, 0.1, 1]]}}, {"task": "blue"},
        {"targets": [[1, 2]]}, {"metadata": {"a": 1}}, {"dimensions": ["x"] * 100}, {"operations": ["a", 7]},
    ]  # fmt: skip
    rows: list[dict[str, Any]] = [{"prompt": "Make it red", "editcritic": table} for table in fields]
    rows += [{"prompt": ""}, {"prompt": "x" * 5_000}]
    adapter = FlowGRPOReward(lambda samples: [Score.of(0.5) for _ in samples], missing="nan")
    source = PIL.Image.open(folder / "0.png").convert("RGB")
    for row in rows:
        report = check(jsonl(folder / "rows.jsonl", [{**row, "image": "0.png"}]), "flow-grpo")
        try:
            value = adapter([source], [row["prompt"]], [row], [source])[0]["avg"][0]
            outcome = ["unscored"] if math.isnan(value) else []
        except ValueError:
            outcome = ["ends the run"]
        assert [one.consequence for one in report.findings if one.consequence != "note"] == outcome, row


def test_a_missing_value_of_trl_is_unscored_and_not_the_end(folder: Path) -> None:
    row: dict[str, Any] = {"instruction": "Make it red", "source": {"bytes": encoded(1)}}
    rows = [row, {**row, "instruction": None}, {**row, "source": None}, {**row, "source": {"bytes": b"no"}}]
    report = check(parquet(folder / "rows.parquet", rows), "trl")
    assert found(report) == {
        "instruction": ("unscored", [1]), "source": ("unscored", [2]), "picture": ("unscored", [3]),
    }  # fmt: skip


def test_prompts_of_several_pictures_are_found_where_the_trainer_groups_by_prompt(folder: Path) -> None:
    rows = [
        {"prompt": "Make it red", "image": "0.png"},
        {"prompt": "Make it red", "image": "1.png"},
        {"prompt": "Make it blue", "image": "1.png"},
        {"prompt": "Make it red", "image": "0.png"},
    ]
    path = jsonl(folder / "rows.jsonl", rows)
    report = check(path, "edit-r1")
    assert found(report) == {"prompts": ("wrong groups", [1, 2]), "repeated": ("note", [4])}
    assert report.groups == 3
    assert (report.unusable, report.is_usable) == (0, False)
    assert "2 pictures have this prompt; train_nft_qwen_image_edit.py" in report.findings[0].examples[0][1]
    assert "line 1 has" in report.findings[1].examples[0][1]
    assert check(path, "flow-grpo").is_usable


def test_a_table_that_the_adapter_does_not_read_and_boxes_of_another_picture_are_noted(folder: Path) -> None:
    boxes = {"boxes": {"cup": [[0, 0, 9, 9]]}}
    good = {"prompt": "Make it red", "image": "0.png"}
    report = check(jsonl(folder / "rows.jsonl", [{**good, "metadata": {"editcritic": boxes}}]), "flow-grpo")
    assert found(report) == {"misplaced": ("note", [1])}
    assert "it is in `metadata.editcritic`, and the adapter reads `editcritic`" in report.findings[0].examples[0][1]
    report = check(jsonl(folder / "rows.jsonl", [{**good, "editcritic": json.dumps(boxes)}]), "edit-r1")
    assert found(report) == {"pixel boxes": ("note", [1])}
    assert report.is_usable


def test_rows_are_compared_with_what_the_reward_needs(folder: Path) -> None:
    plain = {"prompt": "Twirl the cup", "image": "0.png"}
    compound = {**plain, "image": "1.png", "editcritic": {"operations": ["Add a cup", "Remove the dog"]}}
    path = jsonl(folder / "rows.jsonl", [plain, compound])
    assert found(check(path, "flow-grpo", reward=Reward.of("compound"))) == {"not applicable": ("unscored", [1])}
    assert found(check(path, "flow-grpo", reward=Reward.of("edival-if"))) == {"not applicable": ("unscored", [1, 2])}
    assert check(path, "flow-grpo", reward=Reward.of("any-edit")).is_usable
    needs = Reward(Hinted(), {})
    report = check(path, "flow-grpo", reward=needs)
    assert found(report) == {"required": ("ends the run", [1, 2])}
    assert report.findings[0].examples[0] == (1, "hinted needs hint")


class Hinted:
    def __init__(self) -> None:
        from editcritic.reward import Card

        self.card = Card("hinted", 1, "as hinted", requires=("hint",))

    def __call__(self, sample: EditSample) -> Any:
        yield from ()
        return Score.of(1.0)


def test_a_plan_counts_only_for_rewards_that_use_plans(folder: Path) -> None:
    row = {"prompt": "Remove the dog", "image": "0.png", "editcritic": {"plan": PLAN}}
    path = jsonl(folder / "rows.jsonl", [row])
    assert found(check(path, "flow-grpo", reward=Reward.of("any-edit"))) == {"plan": ("unscored", [1])}
    assert check(path, "flow-grpo", reward=Reward.of("edival-if")).is_usable


def test_examples_are_few_and_counts_are_whole(folder: Path) -> None:
    path = jsonl(folder / "rows.jsonl", [{"prompt": f"Make it {number}", "image": "no.png"} for number in range(40)])
    (finding,) = check(path, "flow-grpo", examples=3).findings
    assert (finding.count, len(finding.examples)) == (40, 3)
    assert json.loads(json.dumps(finding.to_json()))["examples"][2]["row"] == 3


def test_pixels_that_are_damaged_behind_a_good_header_are_found_by_decoding(folder: Path) -> None:
    data = bytearray(encoded(1))
    start = data.index(b"IDAT") + 6
    data[start : start + 8] = b"\0" * 8
    path = parquet(folder / "rows.parquet", [{"instruction": "Make it red", "source": {"bytes": bytes(data)}}])
    assert check(path, "trl").is_usable
    assert found(check(path, "trl", pictures="decode")) == {"picture": ("unscored", [0])}
    path = jsonl(folder / "rows.jsonl", [{"prompt": "Make it red", "image": "none.jpg"}])
    assert check(path, "flow-grpo", pictures="none").is_usable


def test_boxes_are_compared_with_the_picture_that_the_reward_sees(folder: Path) -> None:
    """EXIF turns a picture for TRL, and not for trainers that use PIL's convert."""
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    turned = encoded(1, (96, 64), "JPEG", exif=exif.tobytes())
    (folder / "turned.jpg").write_bytes(turned)
    boxes = {"boxes": {"cup": [[0, 0, 60, 90]]}}
    row = {"instruction": "Make it red", "source": {"bytes": turned}}
    assert check(parquet(folder / "a.parquet", [{**row, **boxes}]), "trl").is_usable
    row = {"prompt": "Make it red", "image": "turned.jpg", "editcritic": boxes}
    assert not check(jsonl(folder / "a.jsonl", [row]), "flow-grpo").is_usable


def test_a_picture_elsewhere_needs_trust(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "0.png").write_bytes(encoded(0))
    path = jsonl(folder / "rows.jsonl", [{"prompt": "Make it red", "image": str(elsewhere / "0.png")}])
    report = check(path, "flow-grpo")
    assert f"--trust {elsewhere}" in report.findings[0].examples[0][1]
    with trusting(str(elsewhere)):
        assert check(path, "flow-grpo").is_usable


@pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs")
def test_a_fifo_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "fifo.png")
    path = jsonl(folder / "rows.jsonl", [{"prompt": "Make it red", "image": "fifo.png"}])
    assert "FIFO" in check(path, "flow-grpo").findings[0].examples[0][1]
    os.mkfifo(folder / "rows.fifo")
    with pytest.raises(OSError, match="FIFO"):
        RowFile(folder / "rows.fifo")


def test_lines_of_any_kind_are_named_and_reading_goes_on(folder: Path) -> None:
    good = json.dumps({"prompt": "Make it red", "image": "0.png"}).encode()
    with (folder / "rows.jsonl").open("wb") as file:
        file.write(b"\xef\xbb\xbf" + good + b"\n\xff\xfe\n\n")
        file.seek(2**26, os.SEEK_CUR)  # a sparse line of 64 MiB, where 4 are read
        file.write(b"\n" + good.replace(b"red", b"blue") + b"\n" + b'{"prompt": "Make it \\ud800", "image": "0.png"}')
    report = check(folder / "rows.jsonl", "flow-grpo")
    assert found(report) == {"line": ("ends the run", [2, 4, 6])}
    words = [problem for _, problem in report.findings[0].examples]
    for part, problem in zip(("utf-8", "more than 4,194,304 bytes", "surrogate"), words, strict=True):
        assert part in problem
    assert report.groups == 2


@pytest.mark.parametrize("cut", [0, 4, 100, -200, -4])
def test_a_damaged_parquet_file_is_said_to_be_one(cut: int, folder: Path) -> None:
    path = verl_omni(folder)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BrokenFile, match=r"is empty|cannot be read as parquet"):
        check(path, "verl-omni")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
@pytest.mark.parametrize("column", ["instruction", "source"])
def test_what_a_dictionary_of_parquet_repeats_is_unpacked_a_few_rows_at_a_time(column: str, folder: Path) -> None:
    """A file of some kilobytes whose rows have a text of 8 MiB each."""
    large = pa.array([b"x" * 2**23 if column == "source" else "x" * 2**23])
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), large)
    columns = {"instruction": ["Make it red"] * 200, "source": [{"bytes": encoded(0)}] * 200, column: repeated}
    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns), path, compression="zstd", dictionary_pagesize_limit=2**30)
    assert path.stat().st_size < 2**18
    read = "sum(1 for _ in RowFile(Path(sys.argv[1])).rows(sys.argv[2:]))"
    command = [sys.executable, "-c", f"{_PEAK}print({read}, peak() // 2**20)"]
    done = subprocess.run([*command, str(path), *columns], capture_output=True, text=True, check=True, timeout=120)
    count, peak = map(int, done.stdout.split())
    assert count == 200
    assert peak < 400


def test_a_row_of_millions_of_nulls_is_not_unpacked(folder: Path) -> None:
    path = folder / "rows.parquet"
    nulls = pa.ListArray.from_arrays([0, 10**7], pa.nulls(10**7, pa.int8()))
    pq.write_table(pa.table({"instruction": ["Make it red"], "targets": nulls}), path)
    with pytest.raises(BrokenFile, match="bytes a row"):
        list(RowFile(path).rows(["instruction", "targets"]))


def test_parquet_with_damaged_pages_is_said_to_be_damaged(folder: Path) -> None:
    path = folder / "rows.parquet"
    rows = [{"instruction": f"Make it {number}" * 50, "source": {"bytes": encoded(number)}} for number in range(200)]
    pq.write_table(pa.Table.from_pylist(rows), path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[100:2_000] = b"\x81" * 1_900
    path.write_bytes(data)
    with pytest.raises(BrokenFile, match="cannot be read as parquet"):
        check(path, "trl")


def test_parquet_without_pyarrow_names_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = trl(folder)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BrokenFile, match="pip install pyarrow"):
        check(path, "trl")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_does_not_grow_with_a_file(folder: Path) -> None:
    """A row group of 200 MB in pages of a row; `ru_maxrss` would be that of the process that forks."""
    header, noise = encoded(1), os.urandom(2**20)
    rows = [{"instruction": f"Make it {number}", "source": {"bytes": header + noise}} for number in range(200)]
    for name, count in (("small", 2), ("large", 200)):
        table = pa.Table.from_pylist(rows[:count])
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, compression="none", use_dictionary=False, write_batch_size=1)
    script = (
        f"{_PEAK}"
        "for name in sys.argv[1:]:\n"
        "    report = check_rows(RowFile(Path(name)), TRAINER_LAYOUTS['trl'])\n"
        "    assert report.is_usable, report\n"
        "    print(report.rows, peak())\n"
    )
    command = [sys.executable, "-c", script, *(str(folder / f"{name}.parquet") for name in ("small", "large"))]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    peaks = {int(rows): int(size) for rows, size in map(str.split, printed)}
    assert peaks[200] - peaks[2] < 150 * 2**20, peaks
