"""`bench build` with any judge by its spec; a killed run resumes without repeating answered queries."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from editcritic.benchmarks.suites.complexedit.suite import ComplexEdit
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.benchmarks.suites.edival.construction import EdiValAgent
from editcritic.benchmarks.suites.edival.construction_tasks import Grounding
from editcritic.benchmarks.suites.edival.reader import CSV
from editcritic.benchmarks.suites.edival.suite import EdiVal

from . import scripted_experts
from .scripted_experts import photographs, write_lines

Command = Callable[..., Result]
ROOT = Path(__file__).parents[4]

MODULE = f"""
import json, os, time
from {scripted_experts.__name__} import EDIVAL, Places, Script

SEQUENCE = [("Add Text", "Write DAY."), ("Add Text", "Write NIGHT.")]
STEPS = [dict(name=name, instruction=instruction) for name, instruction in SEQUENCE]
TABLE = {{
    "making/complex-edit/sequence": json.dumps(dict(reasoning="", sequence=STEPS)),
    "making/complex-edit/simplify": json.dumps(dict(simplify=False, instruction="")),
    "making/dlebench/counterfactual": json.dumps(dict(
        q_type="ocr", prompt_clean="The sign says STOP.", prompt_adv="The sign says SLOW.", edit_ops="text_flip",
        edit_instruction="Changed the text content of sign to SLOW.", modified_object="sign",
    )),
    "dlebench/following_plain": "<Start Final Answer>Flawless Execution</Start Final Answer>",
    "dlebench/consistency_plain": "<Start Final Answer>Perfect Consistency</Start Final Answer>",
    "making/complex-edit/compound": json.dumps(dict(reasoning="", compound_instruction="Write DAY and NIGHT.")),
}}

class Painter:
    id, nfe, batch_size = "painter@1", 0, 2

    def edit(self, images, instructions, seeds, *, history=None):
        return [picture.painted((0, 0, 9, 9)) for (picture,) in images]

def judge():
    return Script(TABLE)

class Slow(Script):
    id = "slow@1"
    batch = 2

    def __call__(self, queries):
        with open(os.environ["QUERIES"], "a") as file:
            file.write("".join(query.digest + "\\n" for query in queries))
        time.sleep(0.05)
        return super().__call__(queries)
"""


@pytest.fixture
def experts(tmp_path, monkeypatch):
    """A module of experts that specs can name."""
    name = f"experts_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
def photos(tmp_path):
    return photographs(tmp_path / "photos", count=2)


def test_edival_data_is_made_and_the_suite_reads_it(editcritic, photos, tmp_path, experts):
    command = ("bench", "build", "edival", photos, "-o", tmp_path / "data", "--judge", f"{experts}:judge")
    result = editcritic(*command, "--detector", f"{experts}:Places", "--turns", 3)
    assert (result.exit_code, "2 chains constructed, 0 rejected" in result.stdout) == (0, True), result.stderr
    suite = EdiVal(tmp_path / "data")
    assert (len(suite.items), list(suite.problems)) == (6, [])
    assert [item.labels["turn"] for item in suite.items] == [1, 2, 3] * 2
    assert suite.items[0].sample.source.size == (512, 512)
    own = construction(tmp_path / "data")
    assert (own["turns"], own["seed"], own["counts"]) == (3, 0, list(EdiValAgent().counts))
    assert own["grounding"] == [*asdict(Grounding()).values()]


def test_a_file_has_settings_of_edival_and_options_come_first(editcritic, photos, tmp_path, experts):
    config, out = tmp_path / "edival.toml", tmp_path / "data"
    config.write_text(
        "turns = 5\nseed = 3\ntarget_counts = [7]\nthreshold = 0.5\nmax_side = 0.2\nmax_area = 0.07\n"
        'oversized = "both"\n'
    )
    command = ("bench", "build", "edival", photos, "-o", out, "--judge", f"{experts}:judge", "--config", config)
    result = editcritic(*command, "--detector", f"{experts}:Places", "--turns", 1)
    assert (result.exit_code, "2 chains constructed" in result.stdout) == (0, True), result.stderr
    own = construction(out)
    assert (own["turns"], own["seed"], own["counts"], own["grounding"]) == (1, 3, [7], [0.5, 0.2, 0.07, "both"])


def construction(folder: Path) -> dict[str, Any]:
    """The settings of data as recorded."""
    found: dict[str, Any] = json.loads((folder / "construction.json").read_text(encoding="utf-8"))
    return found


def test_complex_edit_data_is_made_and_the_suite_reads_it(editcritic, photos, tmp_path, experts, monkeypatch):
    (tmp_path / "judge.toml").write_text(f'[experts.judge]\nuse = "{experts}:judge"\n', encoding="utf-8")
    command = ("bench", "build", "complex-edit", photos, "-o", tmp_path / "data", "--judge", tmp_path / "judge.toml")
    monkeypatch.setenv("EDITCRITIC_TRUST", experts)
    result = editcritic(*command, "--num-operations", 2, "--split", "test_syn", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["constructed"], document["failed"]) == (0, 2, {})
    suite = ComplexEdit(tmp_path / "data", split="test_syn", levels="1-2")
    assert (len(suite.items), list(suite.problems)) == (4, [])
    assert suite.items[1].sample.instruction == "Write DAY and NIGHT."
    assert [one.name for one in suite.items[1].sample.operations] == ["Add Text", "Add Text"]


def test_dlebench_samples_are_made_and_the_suite_reads_them(editcritic, photos, tmp_path, experts):
    row = {"id": "q", "image": "coffee.png", "question": "What is written on the sign?", "options": ["STOP", "SLOW"]}
    photographs(photos, count=3)
    write_lines(photos / "questions.jsonl", [{**row, "answer": "STOP", "boxes": [[30, 30, 40, 36]]}])
    command = ("bench", "build", "dlebench", photos, "-o", tmp_path / "data", "--judge", f"{experts}:judge")
    result = editcritic(*command, "--pipeline", f"{experts}:Painter")
    assert (result.exit_code, "1 samples constructed, 0 rejected" in result.stdout) == (0, True), result.stderr
    (item,) = DleBench(tmp_path / "data").items
    assert (item.labels["type"], item.sample.instruction) == ("Change OCR", "Changed the text content of sign to SLOW.")
    assert item.sample.reference is not None


def test_data_put_there_by_hand_is_opened(editcritic, photos, tmp_path, experts):
    for split in ("test_real", "test_syn"):
        command = ("bench", "build", "complex-edit", photos, "-o", tmp_path / split, "--judge", f"{experts}:judge")
        assert editcritic(*command, "--split", split, "--num-operations", 2).exit_code == 0
        (tmp_path / "data").mkdir(exist_ok=True)
        (path,) = (tmp_path / split / "data").iterdir()
        path.rename(tmp_path / "data" / path.name)
    result = editcritic("bench", "prepare", "complex-edit", "-o", tmp_path / "data", "--json")
    document = json.loads(result.stdout)
    assert [one["items"] for one in document["opened_suites"]] == [4, 4]
    assert result.exit_code == 1  # levels C3 to C8 are missing


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--judge", "served"), "served"),
        (("--judge", "nobody"), "unknown expert 'nobody'"),
        (("--judge", "grounding-dino"), "is no judge: it answers detect, not judge"),
        (("--judge", "colour", "--prompts", "nowhere"), "not a folder"),
        (("--judge", "colour", "--config", "target_counts = [3, 12]"), "counts lie between 1 and 10, got [3, 12]"),
        (("--judge", "colour", "--config", 'target_counts = "3-5"'), "target_counts: input should be a valid tuple"),
        (("--judge", "colour", "--config", "oversized = 'no'"), "oversized: input should be 'either' or 'both'"),
        (("--judge", "colour", "--config", "max_side = 2"), "max_side: input should be less than or equal to 1"),
        (("--judge", "colour", "--config", "side = 1"), "unknown key side: the keys are turns, seed, target_counts"),
    ],
)
def test_what_cannot_be_used_is_refused_before_the_work(editcritic, photos, tmp_path, options, reason):
    if options[2:3] == ("--config",):
        (tmp_path / "edival.toml").write_text(options[3])
        options = (*options[:3], tmp_path / "edival.toml")
        reason = f"edival.toml: {reason}"
    result = editcritic("bench", "build", "edival", photos, "-o", tmp_path / "data", *options)
    assert (result.exit_code, reason in result.stderr) == (2, True), result.stderr
    assert not (tmp_path / "data").exists()
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nowhere"):
        assert editcritic("bench", "build", "edival", path, "-o", tmp_path / "data", *options[:2]).exit_code == 2


def test_a_judge_that_answers_nothing_ends_with_1_and_says_what_to_do(editcritic, photos, tmp_path, experts):
    command = ("bench", "build", "complex-edit", photos, "-o", tmp_path / "data", "--judge", f"{experts}:Script")
    result = editcritic(*command)
    assert result.exit_code == 1
    assert "2 failed, the first 0: " in result.stderr
    assert "run the same command again" in result.stderr


def test_a_run_killed_twice_makes_the_same_data_and_pays_only_for_what_was_in_flight(photos, tmp_path, experts):
    photographs(photos, count=4)

    def started(out: str) -> subprocess.Popen[bytes]:
        words = f"bench build edival {photos} -o {tmp_path / out} --judge {experts}:Slow --detector {experts}:Places"
        command = [sys.executable, "-c", "from editcritic.cli.main import main; main()", *words.split()]
        paths = os.pathsep.join((str(tmp_path), str(ROOT)))
        environment = {**os.environ, "QUERIES": str(tmp_path / f"{out}.queries"), "PYTHONPATH": paths}
        return subprocess.Popen([*command, "--turns", "5", "--max-in-flight", "2"], env=environment, cwd=tmp_path)

    def queries(out: str) -> list[str]:
        path = tmp_path / f"{out}.queries"
        return path.read_text().split() if path.exists() else []

    assert started("whole").wait() == 0
    for until in (4, 10):
        process = started("killed")
        while process.poll() is None and len(queries("killed")) < until:
            pass
        process.kill()
        process.wait()
    assert started("killed").wait() == 0
    for name in (CSV, "rejections.jsonl", "construction.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    times = Counter(queries("killed"))
    assert times.keys() == Counter(queries("whole")).keys()
    assert times.total() - len(times) <= 2 * 2  # two kills, two questions in flight at each
