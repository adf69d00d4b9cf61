"""The check of a GPU: its report, what it does when a section breaks or time is up, and what a bare machine gets."""

import importlib.metadata
import json
import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from . import __main__ as check
from . import bare, wheels
from .report import markdown

MACHINE = {"hardware": "A GPU", "device": "cuda:0", "driver": "580.1", "torch": "2.13.0"}
ROW = {"batch": 2, "a second": 6.0, "GFLOP": 50.0, "tokens": 700.0, "passes": 1, "TFLOP/s": 0.3, "share of peak": 0.25}
MODEL = {"id": "a judge", "dtype": "bfloat16", "peak TFLOP/s": 1.2, "rows": [ROW | {"tokens a second": 4200.0}]}
PATTERNS = {
    "shapes": "small",
    "samples": 16,
    "distinct": {"judge": 20},
    "released": {"seconds": 30.0, "seconds_by_role": {"judge": 24.0}, "queries": {"judge": 90}},
    "ours": {"seconds": 6.0, "seconds_by_role": {"judge": 4.0}, "queries": {"judge": 20}},
    "ratio": 5.0,
}
TESTS = {"device": "cuda:0", "files": 2, "passed": 7, "failed": 1, "skipped": 0, "failures": {"test_x::test_y": "no"}}


def report(**sections):
    return {"tiny": False, "machine": MACHINE, "commit": "abc", "sections": sections}


def figures(found):
    return {"seconds": 1.0, "figures": found}


def test_the_page_has_every_figure_and_says_what_is_missing():
    judge, late = figures({"shapes": "small", "judge": MODEL}), {"problem": "not begun: the time is up"}
    page = markdown(report(judge=judge, sharing=figures([PATTERNS]), tests=figures(TESTS), late=late))
    assert {
        "| hardware | A GPU |",
        "| commit | abc |",
        "| small | judge | bfloat16 | 1.2 | 2 | 6 | 1 | 4200 | 0.3 | 25.0% |  |",
        "| small | 16 | judge | 90, 20 | 24 | 4 | 6 |",
        "| small | 16 | end to end |  | 30 | 6 | 5 |",
        "7 passed, 1 failed, 0 skipped, of 2 files.",
        "- `test_x::test_y`: no",
        "- late: not begun: the time is up",
    } <= set(page.splitlines())
    assert "Tiny shapes" not in page
    assert "Tiny shapes" in markdown({**report(), "tiny": True})


@pytest.mark.parametrize(
    ("sections", "complete"),
    [
        ({"judge": figures({})}, True),
        ({"judge": figures({}), "tests": figures({**TESTS, "failed": 0})}, True),
        ({"tests": figures(TESTS)}, False),
        ({"tests": figures({**TESTS, "failed": 0}) | {"problem": "interrupted"}}, False),
        ({"judge": {"problem": "out of memory"}}, False),
    ],
)
def test_a_failed_test_and_a_missing_section_fail_the_check(sections, complete):
    assert check.is_complete(report(**sections)) is complete


def program(text):
    return check.Section("a program", "small", ("-c", text))


def test_a_section_that_breaks_says_why_and_is_no_figure():
    result = check.run(program("raise MemoryError('the device is full')"), 100.0)
    assert result.keys() == {"seconds", "problem"}
    assert "the device is full" in result["problem"]
    assert check.run(program("print('[1]')"), 100.0)["figures"] == [1]


def test_a_section_without_time_is_interrupted_or_not_begun(monkeypatch):
    assert check.run(program("raise SystemExit"), check._GRACE_S) == {"problem": "not begun: the time is up"}
    result = check.run(program("import time\ntime.sleep(600)"), check._GRACE_S + 0.5)
    assert "the time is up" in result["problem"]
    assert "figures" not in result


def test_tests_are_counted_with_their_reasons_also_when_they_are_interrupted(tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import os, time, pytest\n"
        "def test_device(): assert os.environ['TEST_DEVICE'] == 'cuda:0'\n"
        "def test_fails(): raise ValueError('far off')\n"
        "def test_skipped(): pytest.skip()\n"
        "def test_hangs():\n    if os.environ.get('HANGS'): time.sleep(600)\n"
    )
    junit = f"--junit-xml={tmp_path / 'tests.xml'}"
    plain = ("-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path), junit)
    whole = check.run(check.Section("tests", "tests", plain, (("TEST_DEVICE", "cuda:0"),)), 100.0)
    assert whole["figures"].items() >= {"device": "cuda:0", "passed": 2, "failed": 1, "skipped": 1}.items()
    assert list(whole["figures"]["failures"].values()) == ["ValueError: far off"]
    hanging = check.Section("tests", "tests", plain, (("TEST_DEVICE", "cuda:0"), ("HANGS", "1")))
    cut = check.run(hanging, check._GRACE_S + 3.0)
    assert "the time is up" in cut["problem"]
    assert cut["figures"]["failed"] >= 1
    assert not check.is_complete(report(tests=cut))


def test_sections_that_ran_are_in_both_files(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "machine", lambda: {**MACHINE, "device": "cpu"})
    seen = []

    def sections(tiny, device, scratch):
        seen.append((tiny, device))
        yield program("print('[]')")
        assert json.loads((tmp_path / "gpu-check.json").read_text())["sections"].keys() == {"a program"}
        yield check.Section("broken", "small", ("-c", "raise SystemExit('no memory')"))
        yield check.Section("not chosen", "standard", ("-c", "raise SystemExit('run')"))

    monkeypatch.setattr(check, "sections", sections)
    assert check.main(["--out", str(tmp_path), "--sections", "small"]) == 1
    assert seen == [(True, "cpu")]
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["sections"].keys() == {"a program", "broken"}
    assert found["sections"]["broken"]["problem"] == "no memory"
    assert (tmp_path / "gpu-check.md").read_text() == markdown(found)
    assert "Tiny shapes" in markdown(found)


def test_every_role_of_both_bundles_any_edit_and_the_tests_are_sections(tmp_path):
    names = [section.name for section in check.sections(tiny=False, device="cuda:0", scratch=tmp_path)]
    roles = [f"{bundle} {role}" for bundle in ("small", "standard") for role in ("judge", "detector", "features")]
    assert names == [*roles, "any-edit small", "any-edit standard", "tests"]
    assert {section.group for section in check.sections(True, "cpu", tmp_path)} == set(check.GROUPS)
    files = {Path(name).name for name in check.device_tests()}
    assert {"test_dino.py", "test_detectors.py", "test_vlm.py", "test_checkpoint.py"} <= files
    assert "test_colour.py" not in files  # without a model


@pytest.mark.slow
def test_it_measures_a_tiny_judge_and_runs_tests(tmp_path):
    assert check.main(["--tiny", "--out", str(tmp_path), "--sections", "small", "any-edit", "tests"]) == 0
    found = json.loads((tmp_path / "gpu-check.json").read_text())["sections"]
    assert found["small judge"]["figures"]["judge"]["rows"][0]["tokens a second"] > 0
    (patterns,) = found["any-edit small"]["figures"]
    assert patterns["samples"] == 16
    for role in ("judge", "detector"):
        assert patterns["released"]["queries"][role] > patterns["ours"]["queries"][role] == patterns["distinct"][role]
    assert found["tests"]["figures"]["failed"] == 0 < found["tests"]["figures"]["passed"]


# -- a bare machine ----------------------------------------------------------------------------------------------------


def test_wheels_are_pinned_by_the_constraints_alone():
    requirements = wheels.pinned(wheels.NAMES)
    lines = set(wheels.CONSTRAINTS.read_text().splitlines())
    assert set(requirements) <= lines
    assert len(set(wheels.NAMES)) == len(wheels.NAMES)
    assert not re.search(r"\d+\.\d+\.\d+", Path(wheels.__file__).read_text()), "a version of its own"
    with pytest.raises(SystemExit, match="pins no version of unheard-of"):
        wheels.pinned(["pytest", "unheard-of"])


THERE = {"torch", "numpy", "pillow", "opencv-python-headless"}
"""On the machine: see `wheels`."""
UNUSED = {"hf-xet"}
"""For downloads."""


def test_wheels_bring_all_that_they_and_editcritic_require():
    machine = {"extra": "", "python_version": "3.12", "python_full_version": "3.12.3"}
    required = set()
    for name in ("editcritic", *wheels.NAMES):
        for requirement in map(Requirement, importlib.metadata.requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate(machine):
                required.add(canonicalize_name(requirement.name))
    assert {"transformers", "accelerate", "peft", "llguidance", "pytest", "hypothesis"} <= set(wheels.NAMES)
    assert required - THERE - UNUSED <= set(wheels.NAMES)
    assert required >= THERE | UNUSED, "no longer required"


def test_a_bare_machine_finds_the_entry_points_of_the_tree(tmp_path):
    bare.describe(tmp_path)
    (found,) = importlib.metadata.distributions(name="editcritic", path=[str(tmp_path)])
    installed = importlib.metadata.distribution("editcritic")
    assert found.version == installed.version
    assert {(one.group, one.name, one.value) for one in found.entry_points} == {
        (one.group, one.name, one.value) for one in installed.entry_points
    }


def test_a_bare_machine_without_wheels_says_what_to_call(tmp_path, monkeypatch):
    monkeypatch.setattr(bare, "WHEELS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bare.py"])
    with pytest.raises(SystemExit, match="call `make gpu-wheels` where there is a network"):
        bare.main()
