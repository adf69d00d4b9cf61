"""`editcritic judge drift` on recordings of `score --record`: the same pictures, judged before and now."""

import json
from pathlib import Path

import pytest

from ...benchmarks.conftest import Command
from ...benchmarks.suites.tiny_suite import picture

COIN = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"
BRIGHT = "judge=tests.cli.judge.bright_judge:BrightJudge"


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve bright edits of as many sources."""
    monkeypatch.setenv("EDITCRITIC_TRUST", "tests.benchmarks.suites.tiny_suite tests.cli.judge.bright_judge")
    lines = []
    for number in range(12):
        picture(number).pil().save(tmp_path / f"{number}_source.png")
        picture(100 + number).pil().point(lambda level: 225 + level // 9).save(tmp_path / f"{number}_edited.png")
        row = {"id": str(number), "source": f"{number}_source.png", "edited": f"{number}_edited.png"}
        lines.append(json.dumps({**row, "instruction": f"Make it {number}"}))
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def record(editcritic: Command, samples: Path, name: str, judge: str = COIN, reward: str = "judge-yes-no") -> Path:
    path = samples.with_name(name)
    options = ("--reward", reward, "--experts", judge, "--record", path, "-o", samples.with_name(f"{name}.jsonl"))
    editcritic("score", samples, *options, code=0)
    return path


def drift(editcritic, now, golden, code):
    return json.loads(editcritic("judge", "drift", now, "--golden", golden, "--json", code=code).stdout)


@pytest.fixture
def golden(editcritic: Command, samples: Path) -> Path:
    path = samples.with_name("golden.jsonl")
    result = editcritic("judge", "drift", record(editcritic, samples, "before.db"), "-o", path, code=0)
    assert "12 images" in result.output
    return path


def test_answers_are_compared_of_equal_pictures(editcritic: Command, samples: Path, golden: Path) -> None:
    document = drift(editcritic, record(editcritic, samples, "same.db"), golden, code=0)
    assert (document["compared"], document["changes"], document["drift"][0]["path"]) == (12, [], "judge-yes-no")
    document = drift(editcritic, record(editcritic, samples, "bright.db", BRIGHT), golden, code=1)
    assert (document["compared"], document["drift"][0]["exceeds_noise"]) == (12, True)
    picture(7).pil().save(samples.with_name("3_edited.png"))
    document = drift(editcritic, record(editcritic, samples, "now.db"), golden, code=0)
    assert (document["compared"], document["different_outputs"]) == (11, 1)


def test_recordings_that_cannot_be_compared_are_refused(editcritic: Command, samples: Path, golden: Path) -> None:
    other, before = record(editcritic, samples, "now.db", reward="clip-image"), samples.with_name("before.db")
    for files, message in (
        ((other,), "no metric of the golden set: it has judge-yes-no, the results have clip-image"),
        ((before, before), "before.db is a recording, which names no editor"),
        ((samples,), "samples.jsonl is not a recording"),
    ):
        assert message in editcritic("judge", "drift", *files, "--golden", golden, code=2).output


def test_a_warning_of_a_judge_costs_no_recording(editcritic: Command, samples: Path) -> None:
    path = record(editcritic, samples, "warned.db", "judge=tests.cli.judge.bright_judge:WarningJudge")
    assert editcritic("judge", "drift", path, "-o", samples.with_name("golden.jsonl")).exit_code == 0


def test_scores_that_this_version_does_not_reproduce_are_refused(editcritic, samples, golden):
    from editcritic.reward import AnswerLog

    now = record(editcritic, samples, "now.db")
    with AnswerLog(now) as log:
        log.meta("score:3", json.dumps({"value": 0.123, "status": "scored"}))
    result = editcritic("judge", "drift", now, "--golden", golden, code=2)
    assert "1 of 12 scores are not the recorded ones with this version (3: recorded 0.123" in result.output


def test_a_recording_scored_again_measures_the_judges_own_variance(editcritic, samples, golden):
    before, again = samples.with_name("before.db"), record(editcritic, samples, "again.db", BRIGHT)
    result = editcritic("judge", "drift", before, "-o", golden, "--repeat-results", again, "--json")
    assert json.loads(result.stdout) == {"golden": str(golden), "images": 12, "runs": 2}
    document = drift(editcritic, again, golden, code=1)  # the mean is compared with that of both runs
    assert (document["golden_runs"], document["changes"]) == (2, [])
    assert document["drift"][0]["baseline_disagreement"] == 1.0
