"""`editcritic rows`: what is printed of a data set, and the exit code."""

import io
import json
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.integrations.row_check import TRAINER_LAYOUTS
from editcritic.integrations.serving.client import replicas
from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig
from editcritic.reward import Reward

from ..benchmarks.conftest import Command
from ..reward.fakes import Fake, Rated

GOOD = {"prompt": "Make it red", "image": "0.png"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    buffer = io.BytesIO()
    PIL.Image.new("RGB", (96, 64), "red").save(buffer, "PNG")
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(buffer.getvalue())
    return tmp_path


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "train_metadata.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_problems_are_listed_with_their_rows_and_counted(editcritic: Command, data: Path) -> None:
    path = write(data, GOOD, *[{**GOOD, "prompt": ""}] * 7, {**GOOD, "image": "1.png", "editcritic": {"bxes": 1}})
    result = editcritic("rows", path, "--trainer", "flow-grpo", "--examples", 2, code=1)
    lines = result.stdout.splitlines()
    assert lines[1] == "ends the run: 1 row: fields that are refused"
    assert lines[2].startswith("  line 9: `editcritic` in the metadata has the unknown field 'bxes': known are task")
    assert lines[3:] == [
        "unscored: 7 rows: no instruction, or an unusable one",
        "  line 2: `prompt` is the edit instruction, got ''",
        "  line 3: `prompt` is the edit instruction, got ''",
        "  and 5 more",
        "8 of 9 rows cannot be scored as they are",
    ]


def test_json_has_the_same(editcritic: Command, data: Path) -> None:
    path = write(data, GOOD, {**GOOD, "image": "1.png"}, {**GOOD, "prompt": "\x1b[31m" * 2_000})
    result = editcritic("rows", path, "--trainer", "edit-r1", "--json", code=1)
    document = json.loads(result.stdout)
    findings = document.pop("findings")
    assert document == {
        "file": str(path), "trainer": "edit-r1", "numbers": "line", "rows": 3, "unusable": 1, "groups": 2,
        "usable": False,
    }  # fmt: skip
    assert [(one["kind"], one["consequence"], one["count"]) for one in findings] == [
        ("limits", "unscored", 1),
        ("prompts", "wrong groups", 2),
    ]
    assert [one["row"] for one in findings[1]["examples"]] == [1, 2]
    shown = editcritic("rows", path, "--trainer", "edit-r1").stdout
    assert "\x1b" not in shown


def test_a_reward_is_asked_for_its_card_wherever_it_is(editcritic, data, monkeypatch):
    command = ("rows", write(data, GOOD), "--trainer", "flow-grpo", "--reward")
    editcritic(*command, "compound", code=1, shows="unscored: 1 row: the reward does not apply")
    service = ScoringService({"rated": Reward(Rated(), {"preference": Fake()})})
    with serve_in_thread(service, ServerConfig(port=0)) as url:
        editcritic(*command, url, code=0)
    service.close()
    monkeypatch.setattr(replicas, "_DESCRIPTION_TIMEOUT_S", 0.5)
    told = "no judge server can be used: http://127.0.0.1:1"
    editcritic(*command, "http://127.0.0.1:1", code=2, says=told)


@pytest.mark.parametrize(
    ("rows", "options", "code", "lines"),
    [
        (
            [GOOD, {**GOOD, "image": "1.png"}],
            ("--trainer", "flow-grpo", "--reward", "any-edit"),
            0,
            ["2 rows for flow-grpo, 2 different edits", "nothing is found that would leave a row without a score"],
        ),
        (
            [GOOD, {**GOOD, "image": "1.png"}],
            ("--trainer", "edit-r1"),
            1,
            ["no row is unusable by itself, and some would be compared with the wrong ones"],
        ),
        ([], ("--trainer", "flow-grpo"), 1, ["there are no rows"]),
    ],
)
def test_the_last_lines_say_whether_a_data_set_is_usable(rows, options, code, lines, editcritic, data):
    path = write(data, *rows)
    path.write_text(path.read_text() + "\n\n")
    printed = editcritic("rows", path, *options, code=code).stdout.splitlines()
    assert [line.removeprefix(f"{path}: ") for line in printed[-len(lines) :]] == lines


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "the columns prompt, image do not say which trainer"),
        (("--trainer", "grpo"), f"--trainer grpo: it is one of {', '.join(TRAINER_LAYOUTS)}"),
        (("--trainer", "trl", "--pictures", "all"), "--pictures all: it is one of header, decode, none"),
        (("--trainer", "trl", "--images", "nowhere"), "--images nowhere is no folder"),
        (("--trainer", "trl", "--reward", "no-such-reward"), "unknown reward 'no-such-reward'"),
    ],
)
def test_wrong_usage_is_told(editcritic: Command, data: Path, options: tuple[str, ...], words: str) -> None:
    editcritic("rows", write(data, GOOD), *options, code=2, says=words)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.jsonl", None, "No such file"),
        ("empty.jsonl", b"", "is empty"),
        ("a.parquet", b"PAR1" + b"\xff" * 5_000 + b"PAR1", "cannot be read as parquet"),
        ("a.parquet", b"no parquet at all", "cannot be read as parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(editcritic, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for options in ((), ("--trainer", "trl")):
        editcritic("rows", tmp_path / name, *options, code=2, says=words)
    editcritic("rows", tmp_path, code=2, says="is a folder: give one of its files")
