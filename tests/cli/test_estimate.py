"""`editcritic estimate`: measured on the demo, on a file, or by an earlier measurement; mistakes are told in a line."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import Expert
from editcritic.reward.queries import Judge, Reply

from ..benchmarks.conftest import Command
from ..benchmarks.suites.tiny_suite import picture

REWARD = ("--reward", "judge-yes-no")


class CountedJudge(Expert):
    """Says yes, and counts a request of 100 tokens a question."""

    id = "counted@1"
    kinds = (Judge,)

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.asked += len(queries)
        return [Reply("yes", probabilities={"yes": 1.0, "no": 0.0}) for _ in queries]

    def usage(self) -> dict[str, float]:
        return {"requests": self.asked, "prompt_tokens": 100 * self.asked}


class RefusingJudge(CountedJudge):
    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        raise RuntimeError("no answer today")


def counted() -> dict[str, Expert]:
    return {"judge": CountedJudge()}


def refusing() -> dict[str, Expert]:
    return {"judge": RefusingJudge()}


EXPERTS = ("--experts", f"{__name__}:counted")


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Four edits of each of six sources."""
    lines = []
    for group in range(6):
        picture(group).pil().save(tmp_path / f"{group}.png")
        for number in range(4):
            picture(group, number).pil().save(tmp_path / f"{group}_{number}.png")
            row = {"id": f"{group}/{number}", "source": f"{group}.png", "edited": f"{group}_{number}.png"}
            lines.append(json.dumps({**row, "instruction": "Make it red"}))
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(lines))
    return path


def document(result: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(result.stdout)
    return {**data, "by": {(one["name"], one["expert"]): one for one in data["figures"]}}


def test_the_demo_is_measured_with_the_experts_that_need_no_download(editcritic: Command) -> None:
    result = editcritic(
        "estimate", "--samples", "1000000", "--rollouts", "16", "--replicas", "8", "--limit", "12", code=0
    )
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1,000,000 edits of 62,500 sources, 16 of each, with any-edit@")
    assert lines[1].startswith("counted on 12 edits of 3 sources, the demo's photographs: 12 scored")
    assert any(line.split()[:3] == ["hours", "on", "1"] for line in lines)
    assert "hours on 1 replica / 8" in result.stdout
    assert "GPU hours" not in result.stdout


def test_a_file_is_measured_and_the_measurement_serves_again_without_a_question(samples, tmp_path, editcritic):
    kept = tmp_path / "measured.json"
    asked = document(
        editcritic("estimate", samples, *REWARD, *EXPERTS, "--samples", "640", "--rollouts", "16", "-o", kept, "--json")
    )
    assert asked["measurement"]["statuses"] == {"scored": 24}
    assert asked["by"]["queries", "counted@1"]["value"] == pytest.approx(640)
    assert asked["by"]["prompt tokens", "counted@1"]["value"] == pytest.approx(64_000)
    again = document(editcritic("estimate", "--measured", kept, "--samples", "640", "--rollouts", "16", "--json"))
    assert again["figures"] == asked["figures"]
    twice = document(editcritic("estimate", "--measured", kept, "--samples", "1280", "--rollouts", "16", "--json"))
    assert twice["by"]["queries", "counted@1"]["value"] == pytest.approx(1280)
    one_group = document(editcritic("estimate", "--measured", kept, "--samples", "3", "--rollouts", "16", "--json"))
    assert one_group["by"]["queries", "counted@1"]["value"] == pytest.approx(3)


def test_limit_bounds_what_is_asked_and_a_judge_without_prices_costs_an_unknown_amount(samples, editcritic):
    command = ("estimate", samples, *REWARD, *EXPERTS)
    found = document(editcritic(*command, "--rollouts", "2", "--limit", "6", "--json"))
    assert (found["measurement"]["statuses"], len(found["measurement"]["blocks"])) == ({"scored": 6}, 3)
    single = document(editcritic(*command, "--json"))
    assert single["measurement"]["statuses"] == {"scored": 6}  # of each source one, without rollouts
    result = editcritic(*command, code=0, says="the cost of counted@1 is unknown")
    assert "cost" not in {line.strip().split("  ")[0] for line in result.stdout.splitlines()}


def test_what_cannot_be_measured_or_written_is_told(samples: Path, tmp_path: Path, editcritic: Command) -> None:
    command, before, none = ("estimate", samples, *REWARD), samples.read_text(), tmp_path / "none.json"
    failing = ("nothing can be measured", "no answer today")
    editcritic(*command, "--experts", f"{__name__}:refusing", code=2, says=failing)
    result = editcritic(*command, *EXPERTS, "-o", tmp_path / "nowhere" / "m.json", code=2, says="nowhere")
    assert result.stdout == ""
    editcritic(*command, *EXPERTS, "--samples", "1" + "0" * 400, code=2)
    editcritic(*command, *EXPERTS, "-o", samples, code=2)
    assert samples.read_text() == before
    editcritic("estimate", "--measured", none, *REWARD, code=2, says="without --reward")
    editcritic("estimate", "--measured", none, code=2, says="none.json")


def test_edits_that_tell_nothing_of_several_rollouts(samples: Path, editcritic: Command) -> None:
    lines = samples.read_text().splitlines()
    samples.write_text("\n".join(lines[::4]))
    editcritic("estimate", samples, *REWARD, *EXPERTS, "--rollouts", "16", code=2, says="has no source with two edits")
    assert editcritic("estimate", samples, *REWARD, *EXPERTS).exit_code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[]", "these are no measured costs"),
        ('{"blocks": []}', "these are no measured costs"),
        ("[" * 500 + "]" * 500, "nested"),
        ('{"a": NaN}', "NaN"),
    ],
)
def test_a_measurement_of_a_stranger_is_told_in_a_line(text, words, tmp_path, editcritic):
    path = tmp_path / "measured.json"
    path.write_text(text)
    result = editcritic("estimate", "--measured", path, code=2, says=(words, str(path)))
    assert result.stderr.count("\n") == 1


def test_a_folder_of_pairs_has_an_instruction_from_the_command(tmp_path: Path, editcritic: Command) -> None:
    for name in ("a", "b"):
        picture(ord(name)).pil().save(tmp_path / f"{name}_source.png")
        picture(ord(name), 1).pil().save(tmp_path / f"{name}_edited.png")
    editcritic("estimate", tmp_path, *REWARD, *EXPERTS, code=2, says="--instruction")
    assert editcritic("estimate", tmp_path, *REWARD, *EXPERTS, "--instruction", "Make it red").exit_code == 0
