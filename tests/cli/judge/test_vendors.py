"""The commands of docs/judges.md with one judge behind the forms of many vendors."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.demo.photographs import PHOTOS

from ...benchmarks.conftest import Command
from ...benchmarks.suites.human_preferences import layouts
from ...reward.experts.vendor_server import VENDORS, serving_vendor

SIDE = 96
EDITS = {"astronaut": (0.2, 0.85), "coffee": (0.25, 0.8)}
"""Photograph -> how bright its two edits are; the judge's answers are those, and far from where they would change."""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edits")
    rows = []
    for name, levels in EDITS.items():
        source = PIL.Image.fromarray(PHOTOS[name].pixels).resize((SIDE, SIDE))
        source.save(folder / f"{name}.png")
        for number, level in enumerate(levels):
            contrast = min(level, 1 - level) / max(np.ptp(np.array(source)), 1)
            mean = np.array(source.convert("L")).mean()
            edited = source.point(lambda one, c=contrast, m=mean, v=level: round(255 * v + c * (one - m)))
            edited.save(folder / f"{name}{number}.png")
            row = {"id": f"{name}{number}", "source": f"{name}.png", "edited": f"{name}{number}.png"}
            rows.append(json.dumps({**row, "instruction": "Make it brighter"}))
    (folder / "samples.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder / "samples.jsonl"


def output(editcritic, *arguments, code=0):
    return json.loads(editcritic(*arguments, "--json", code=code).stdout)


@pytest.mark.parametrize("name", VENDORS)
def test_the_commands_of_judges_with_a_vendor(name: str, samples: Path, editcritic: Command, tmp_path: Path) -> None:
    vendor = VENDORS[name]
    steady = vendor.only_temperature is None
    with serving_vendor(name) as server:
        extra = "" if steady else '&extra={"temperature":null}'
        experts = ("--experts", f"judge='openai:{server.url}?retries=0&thinking_tokens=60{extra}'")

        for time in ("before", "now"):
            recording = tmp_path / f"{time}.db"
            editcritic(
                *("score", samples, "--reward", "judge-levels", *experts),
                *("--record", recording, "-o", recording.with_suffix(".jsonl")),
                code=0,
            )
        rows = [json.loads(line) for line in (tmp_path / "now.jsonl").read_text(encoding="utf-8").splitlines()]
        if steady:
            expected = [level for levels in EDITS.values() for level in levels]
            nearest = 0.05 if vendor.has_probabilities else 0.13
            assert [row["value"] for row in rows] == pytest.approx(expected, abs=nearest)

        golden = tmp_path / "golden.jsonl"
        assert output(editcritic, "judge", "drift", tmp_path / "before.db", "-o", golden)["images"] == 4
        report = editcritic("judge", "drift", tmp_path / "now.db", "--golden", golden, "--json")
        assert (json.loads(report.stdout)["compared"], json.loads(report.stdout)["failed"]) == (4, 0)
        if steady:
            assert json.loads(report.stdout)["changes"] == []

        cache = ("--cache", tmp_path / "answers.sqlite")
        audit = output(editcritic, "judge", "faults", samples, *experts, *cache)
        for finding in audit["findings"]:
            value, is_reading = finding["value"], finding["fault"] == "readings"
            assert finding["missing"] == 0 or is_reading, finding  # probabilities may be none, or open
            if steady and finding["fault"] != "grade-draws" and not (is_reading and value is None):
                assert value == pytest.approx(0, abs=0.1), finding
        asked = len(server.requests)
        output(editcritic, "judge", "faults", samples, *experts, *cache)
        assert len(server.requests) <= asked + 2  # what was refused once is found out again

        noise = output(*(editcritic, "judge", "variance", samples, "--metric", "complex-edit-pq", "-k", "1", *experts))
        assert noise["failed"] == {}
        assert noise["measurement_std"] > 0

        preferences = layouts.genai_json(tmp_path / "preferences")
        agreement = output(
            *(editcritic, "judge", "agreement", "--set", f"genai-bench={preferences}", *experts),
            *("--reward", "judge-yes-no", "--reward", "pairwise-judge", "--bootstrap-samples", 100),
        )
        rows = agreement["sets"][0]["tables"][0]["rows"]
        if steady:
            assert rows["accuracy without ties"]["pairwise-judge"]["value"] == 3 / 5
            assert rows["accuracy without ties"]["judge-yes-no"]["value"] == (3 if vendor.has_probabilities else 2) / 5
