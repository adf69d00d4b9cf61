"""Files that a stranger may have put where a command reads its own: refused with a line, and never waited for."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.replay import read_cases
from editcritic.benchmarks.suites.construction.workspace import ConstructionFolder
from editcritic.benchmarks.suites.human_labels import append_labels
from editcritic.reward.experts.loading.reward_heads import RewardPromptTemplate
from editcritic.reward.queries.prompts import MAX_PROMPT_BYTES
from editcritic.verifiers.selectors import PreviewCalibration

from ..human_eval.label_files import make_label

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")


SPECIAL = {"fifo": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}
special = pytest.mark.parametrize("special", SPECIAL.values(), ids=list(SPECIAL))


@special
def test_a_preview_calibration_and_settings_of_a_construction_are_a_file(special, tmp_path):
    special(tmp_path / "calibration.json")
    with pytest.raises(OSError, match="it is a"):
        PreviewCalibration.load(tmp_path / "calibration.json")
    ConstructionFolder(tmp_path / "first", {"seed": 1})
    (name,) = (path.name for path in (tmp_path / "first").iterdir())
    (tmp_path / "out").mkdir()
    special(tmp_path / "out" / name)
    with pytest.raises(InputError, match=f"{name}.* cannot be used: it is a"):
        ConstructionFolder(tmp_path / "out", {"seed": 1})


GOOD = {"schema": 1, "editor": "e", "reward": {}, "steps": [2, 8], "values": {"a": [[0.5, None]]}}


STEPS = ([8, 2], ["2", 8], [0, 8])
VALUES = ({"a": [[0.5]]}, {"a": [[0.5, "high"]]}, {"a": [[0.5, True]]}, {"a": [0.5, 0.5]}, [[0.5, 0.5]])


def test_a_preview_calibration_has_numbers_where_they_belong(tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    assert PreviewCalibration.load(path).steps == (2, 8)
    changes: list[dict[str, Any]] = [{"steps": one} for one in STEPS]
    changes += [{"values": one} for one in VALUES]
    for change in (*changes, {"more": 1}):
        path.write_text(json.dumps({**GOOD, **change}), encoding="utf-8")
        with pytest.raises(ValueError, match=r"calibration\.json is not a calibration"):
            PreviewCalibration.load(path)
    path.write_text(json.dumps(GOOD).replace("0.5", "NaN"), encoding="utf-8")
    with pytest.raises(ValueError, match="NaN"):
        PreviewCalibration.load(path)


def test_a_template_is_bounded(tmp_path):
    path = tmp_path / "template.txt"
    with path.open("wb") as file:
        file.truncate(MAX_PROMPT_BYTES + 1)
    with pytest.raises(ValueError, match="more than 1,048,576"):
        RewardPromptTemplate.of(str(path), "", "")
    path.write_bytes(b"\xff{prompt}")
    with pytest.raises(ValueError, match=r"cannot be read: .*utf-8"):
        RewardPromptTemplate.of(str(path), "", "")


@pytest.mark.parametrize("text", ["[]", "3", "NaN", "[" * 100_000, '{"a": 1, "a": 2}'])
def test_settings_of_a_construction_are_an_object(text, tmp_path):
    ConstructionFolder(tmp_path, {"seed": 1})
    (path,) = tmp_path.iterdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="is not a construction file"):
        ConstructionFolder(tmp_path, {"seed": 1})


@special
def test_labels_are_appended_to_a_file(special, tmp_path):
    """Nor is anything written through a link."""
    special(tmp_path / "labels.jsonl")
    with pytest.raises(OSError, match=r"it is a|Is a directory|No such device"):
        append_labels(tmp_path / "labels.jsonl", [make_label("yes", "a")])
    victim = tmp_path / "victim"
    victim.write_text("kept", encoding="utf-8")
    (tmp_path / "link.jsonl").symlink_to(victim)
    with pytest.raises(OSError, match="nothing is written through links"):
        append_labels(tmp_path / "link.jsonl", [make_label("yes", "a")])
    assert victim.read_text(encoding="utf-8") == "kept"


CASES = {
    "list": '["id"]',
    "number": "3",
    "deep": '{"a": ' * 100_000,
    "no fields": "{}",
    "text of calls": '{"id": "a", "detector_calls": "abc"}',
    "infinite": '{"id": "a", "instruction": "", "detections": {}, "vlm": {}, "detector_calls": [], "expected": 1e999}',
    "long integer": f'{{"expected": {"9" * 5_000}}}',
    "long": "x" * (5 * 2**20),
}


@pytest.mark.parametrize("case", CASES)
def test_an_odd_golden_case_is_named(case, editcritic, tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text(CASES[case] + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 1: not a golden case")) as error:
        list(read_cases(path))
    assert len(str(error.value)) < 1_000
    result = editcritic("dev", "replay", path, code=2)
    assert result.stderr.count("\n") == 1
