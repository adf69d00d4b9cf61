"""`editcritic judge audit`: real commands on files of samples and on outputs of a suite."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.human_eval.judge_audit.runner import FAULTS
from editcritic.benchmarks.sceneedit.suite import SceneEdit
from studies.judge_audit import audited_samples

from ...benchmarks.conftest import Command
from ...reward.experts.http_server import Answer, completion, error, serving

JUDGE = "judge=editcritic.benchmarks.sceneedit.experts.judge:SceneJudge"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `samples`."""
    folder = tmp_path_factory.mktemp("samples")
    lines = []
    for number, sample in enumerate(audited_samples(3, 10)):
        for name, image in (("source", sample.source), ("edited", sample.edited)):
            image.pil().save(folder / f"{number}_{name}.png")
        row = {"id": str(number), "instruction": sample.instruction}
        lines.append(json.dumps({**row, "source": f"{number}_source.png", "edited": f"{number}_edited.png"}))
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def samples(written: Path, tmp_path: Path) -> Path:
    """Ten edits that SceneEdit's judge can answer about, as a file of samples."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "samples.jsonl"


def run(editcritic: Command, *arguments: object, code: int = 0) -> dict[str, Any]:
    result = editcritic("judge", "audit", *arguments, "--json", code=code)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_all_faults_of_a_judge_and_the_second_run_asks_nothing(
    editcritic: Command, samples: Path, tmp_path: Path
) -> None:
    arguments = (samples, "--experts", JUDGE, "--cache", tmp_path / "answers.sqlite")
    first = run(editcritic, *arguments)
    assert list(first["costs"]) == list(FAULTS)
    assert first["samples"] == first["sources"] == 10
    assert sum(cost["judge_calls"] for cost in first["costs"].values()) > 200
    again = run(editcritic, *arguments)
    assert sum(cost["calls"] for cost in again["costs"].values()) == 0
    assert again["findings"] == first["findings"]
    assert again["recommendations"] == first["recommendations"]


@pytest.mark.parametrize(("suffix", "begins"), [(".md", "# Audit of scene-judge@3"), (".html", "<!doctype html>")])
def test_the_report_is_printed_and_written(editcritic: Command, samples: Path, suffix: str, begins: str) -> None:
    out = samples.with_name(f"audit{suffix}")
    result = editcritic("judge", "audit", samples, "--experts", JUDGE, "--fault", "yes-bias", "-o", out, code=0)
    text = out.read_text(encoding="utf-8")
    assert text.startswith(begins)
    for words in ("yes-bias", "answers of yes whatever is asked", "asked"):
        assert words in text
        assert words in result.output
    row = next(line for line in text.splitlines() if "yes-bias" in line)
    assert re.search(r"(\||<td>) ?20 ?(\||</td>)", row), "what the fault took stands in its row"


def test_the_written_document_is_that_of_json(editcritic: Command, samples: Path) -> None:
    out = samples.with_name("audit.json")
    document = run(editcritic, samples, "--experts", JUDGE, "--fault", "draws", "-o", out)
    written = json.loads(out.read_text(encoding="utf-8"))
    for version in (document, written):
        for cost in version["costs"].values():
            del cost["seconds"]
    assert {**written, "left_out": 0} == document


def test_outputs_of_a_suite_and_a_reward_of_its_own(editcritic: Command, tmp_path: Path) -> None:
    suite = SceneEdit(prompts=6)
    for item in suite.items:
        item.sample.source.pil().save(tmp_path / f"{item.id}.png")
    document = run(
        editcritic,
        *("sceneedit?prompts=7", "--outputs", tmp_path, "--reward", "judge-levels", "--experts", JUDGE),
        *("--fault", "draws", "--fault", "jpeg", "--jpeg", "50"),
    )
    assert document["question"] == "judge-levels"
    assert document["samples"] == 6
    assert document["left_out"] == 1
    assert [finding["condition"] for finding in document["findings"]] == ["quality 50", "asked 4 times"]


def test_a_served_judge_with_its_tokens(editcritic: Command, samples: Path) -> None:
    with serving(lambda *_: Answer(completion("yes"))) as server:
        document = run(
            editcritic, samples, "--experts", f"judge=openai:{server.url}?model=m", "--fault", "yes-bias", "--limit", 3
        )
    (finding,) = document["findings"]
    assert finding["value"] == 1.0
    assert document["costs"]["yes-bias"]["tokens"] == 6 * 102


def test_a_server_that_rejects_everything_is_no_figure_and_exit_code_1(editcritic: Command, samples: Path) -> None:
    with serving(lambda *_: error(400, "no such model")) as server:
        document = run(
            editcritic, samples, "--experts", f"judge=openai:{server.url}?model=m", "--fault", "yes-bias", code=1
        )
    (finding,) = document["findings"]
    assert (finding["value"], finding["found"], finding["missing"]) == (None, None, 10)
    assert "no such model" in finding["reason"]


def test_beyond_the_budget_the_exit_code_is_1(editcritic: Command, samples: Path) -> None:
    document = run(editcritic, samples, "--experts", JUDGE, "--budget", "judge_calls=25", code=1)
    assert sum(cost["judge_calls"] for cost in document["costs"].values()) == 25
    assert "25 judge calls" in document["exhausted"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fault", "taste"), "one of position, order"),
        (("--scales", "2"), "--scales takes numbers above 0 and below 1"),
        (("--jpeg", "high"), "--jpeg takes numbers"),
        (("-o", "audit.png"), "a name ending in .md, .html or .json"),
        (("--budget", "calls=3"), "--budget"),
        (("--data", "."), "give --outputs"),
        (("--reward", "no-such-reward"), "no-such-reward"),
    ],
)
def test_a_mistake_is_named(editcritic: Command, samples: Path, arguments: tuple[str, str], words: str) -> None:
    result = editcritic("judge", "audit", samples, "--experts", JUDGE, *arguments, code=2)
    assert words in result.output.replace("\n", " ")


def test_a_judge_that_cannot_answer_at_all_is_said_to(editcritic: Command, samples: Path) -> None:
    # Without --experts the judge knows colours alone.
    result = editcritic("judge", "audit", samples, "--fault", "yes-bias", code=0)
    assert "unknown" in result.output
    assert "Missing:" in result.output


def test_lines_that_are_no_samples_are_left_out_and_named(editcritic: Command, samples: Path) -> None:
    samples.write_text(samples.read_text(encoding="utf-8") + "{}\n", encoding="utf-8")
    result = editcritic("judge", "audit", samples, "--experts", JUDGE, "--fault", "yes-bias", code=0)
    assert "samples.jsonl:11" in result.output
