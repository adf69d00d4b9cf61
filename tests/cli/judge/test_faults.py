"""`editcritic judge faults`: real commands on files of samples and on outputs of a suite."""

import json
import re
import shutil
from pathlib import Path

import pytest

from editcritic.benchmarks.human_eval.judge_faults.runner import FAULTS
from editcritic.benchmarks.sceneedit.suite import SceneEdit
from studies.judge_faults import measured_samples

from ...benchmarks.conftest import Command
from ...reward.experts.http_server import Answer, completion, error, serving

JUDGE = "judge=editcritic.benchmarks.sceneedit.experts.judge:SceneJudge"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `samples`."""
    folder = tmp_path_factory.mktemp("samples")
    lines = []
    for number, sample in enumerate(measured_samples(3, 10)):
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


def run(editcritic, *arguments, code=0):
    return json.loads(editcritic("judge", "faults", *arguments, "--json", code=code).stdout)


def test_all_faults_of_a_judge_and_the_second_run_asks_nothing(editcritic, samples, tmp_path):
    arguments = (samples, "--experts", JUDGE, "--cache", tmp_path / "answers.sqlite")
    first = run(editcritic, *arguments)
    assert list(first["costs"]) == list(FAULTS)
    assert first["samples"] == first["sources"] == 10
    assert sum(cost["judge_calls"] for cost in first["costs"].values()) > 200
    again = run(editcritic, *arguments)
    assert (sum(cost["calls"] for cost in again["costs"].values()), again["findings"]) == (0, first["findings"])
    assert again["recommendations"] == first["recommendations"]


@pytest.mark.parametrize(("suffix", "begins"), [(".md", "# Faults of scene-judge@3"), (".html", "<!doctype html>")])
def test_the_report_is_printed_and_written(editcritic: Command, samples: Path, suffix: str, begins: str) -> None:
    out = samples.with_name(f"audit{suffix}")
    result = editcritic("judge", "faults", samples, "--experts", JUDGE, "--fault", "yes-bias", "-o", out, code=0)
    text = out.read_text(encoding="utf-8")
    assert text.startswith(begins)
    for words in ("yes-bias", "answers of yes whatever is asked", "asked"):
        assert words in text
        assert words in result.output
    row = next(line for line in text.splitlines() if "yes-bias" in line)
    assert re.search(r"(\||<td>) ?20 ?(\||</td>)", row), "what the fault took stands in its row"
    out = samples.with_name("result.json")
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
    assert (document["question"], document["samples"], document["left_out"]) == ("judge-levels", 6, 1)
    assert [finding["condition"] for finding in document["findings"]] == ["quality 50", "asked 4 times"]


def test_a_served_judge_with_its_tokens_and_one_that_rejects_everything(editcritic: Command, samples: Path) -> None:
    with serving(lambda *_: Answer(completion("yes"))) as server:
        judge = ("--experts", f"judge=openai:{server.url}?model=m", "--fault", "yes-bias")
        document = run(editcritic, samples, *judge, "--limit", 3)
    (finding,) = document["findings"]
    assert (finding["value"], document["costs"]["yes-bias"]["tokens"]) == (1.0, 6 * 102)
    with serving(lambda *_: error(400, "no such model")) as server:
        judge = ("--experts", f"judge=openai:{server.url}?model=m", "--fault", "yes-bias")
        (finding,) = run(editcritic, samples, *judge, code=1)["findings"]
    assert (finding["value"], finding["found"], finding["missing"]) == (None, None, 10)
    assert "no such model" in finding["reason"]


def test_what_is_missing_is_told(editcritic: Command, samples: Path) -> None:
    document = run(editcritic, samples, "--experts", JUDGE, "--budget", "judge_calls=25", code=1)
    assert sum(cost["judge_calls"] for cost in document["costs"].values()) == 25
    assert "25 judge calls" in document["exhausted"]
    samples.write_text(samples.read_text(encoding="utf-8") + "{}\n", encoding="utf-8")
    # Without --experts the judge knows colours alone.
    result = editcritic("judge", "faults", samples, "--fault", "yes-bias", code=0, says="samples.jsonl:11")
    assert "unknown" in result.output
    assert "Missing:" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--fault", "taste"), "one of position, order"),
        (("--scales", "2"), "--scales takes numbers above 0 and below 1"),
        (("--jpeg", "high"), "--jpeg takes numbers"),
        (("-o", "result.png"), "a name ending in .md, .html or .json"),
        (("--budget", "calls=3"), "--budget"),
        (("--data", "."), "give --outputs"),
        (("--reward", "no-such-reward"), "no-such-reward"),
    ],
)
def test_a_mistake_is_named(editcritic: Command, samples: Path, arguments: tuple[str, str], words: str) -> None:
    result = editcritic("judge", "faults", samples, "--experts", JUDGE, *arguments, code=2)
    assert words in result.output.replace("\n", " ")
