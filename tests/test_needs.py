"""Which test files are left out where there is no torch: those that import it, and none of what must work without."""

from pathlib import Path

import pytest

from .needs import needs

TESTS = Path(__file__).parent

# What works in any environment, as the tests of it do: none of these files may come to need torch, which would take it
# out of `make test-lowest` and `make test-pythons` without a word.
ANYWHERE = [
    "test_contracts.py",
    "test_criteria.py",
    "test_docs.py",
    "test_packaging.py",
    "benchmarks/making",
    "benchmarks/suite_report",
    "benchmarks/suites/dlebench",
    "benchmarks/suites/edival",
    "benchmarks/suites/i2ibench",
    "benchmarks/test_cli.py",
    "benchmarks/validity",
    "integrations/serving",
    "reward/complexedit",
    "reward/dlebench",
    "reward/edival",
    "reward/experts/test_annotated.py",
    "reward/experts/test_colour.py",
    "reward/experts/test_ocr.py",
    "reward/experts/test_pixels.py",
    "reward/experts/test_served.py",
    "reward/i2ibench",
    "reward/test_answers.py",
    "reward/test_async_expert.py",
    "reward/test_caller.py",
    "reward/test_compose.py",
    "reward/test_engine.py",
    "reward/test_guards.py",
    "reward/test_image.py",
    "reward/test_reward.py",
    "reward/test_scheduler.py",
    "reward/test_spec.py",
    "verifiers",
]
# Beside them, about other libraries.
EXCEPT = {
    "benchmarks/making/test_hub.py",
    "benchmarks/making/test_read_by_datasets.py",
    "integrations/serving/test_pickled_tensors.py",
}


def files(place: str) -> list[Path]:
    path = TESTS / place
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


@pytest.mark.parametrize("place", ANYWHERE)
def test_what_works_anywhere_is_tested_anywhere(place: str) -> None:
    needed_by = {path.relative_to(TESTS).as_posix(): sorted(needs(path)) for path in files(place)}
    assert needed_by, f"{place} holds no tests"
    assert {name: needed for name, needed in needed_by.items() if needed and name not in EXCEPT} == {}


def test_the_exceptions_are_some() -> None:
    assert [name for name in EXCEPT if not needs(TESTS / name)] == []


def test_what_needs_torch_is_known_to() -> None:
    every = {path.relative_to(TESTS).as_posix(): needs(path) for path in TESTS.rglob("test_*.py")}
    assert every["reward/experts/test_vlm.py"] >= {"torch", "transformers"}
    assert every["reward/experts/test_owl.py"] >= {"torch"}  # its helpers import it
    assert every["benchmarks/learning/test_writer.py"] == {"torch"}  # it says so
    assert 200 < sum(not needed for needed in every.values()) < len(every)


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("import torch", {"torch"}),
        ("import torch.nn.functional as F", {"torch"}),
        ("from transformers.models import owlv2", {"transformers"}),
        ("def test_a():\n    from diffusers import Pipeline", {"diffusers"}),
        ("from .helper import made", {"peft"}),
        ("from . import helper", {"peft"}),
        ("from tests import helper", {"peft"}),
        ('NEEDS = ("torch",)', {"torch"}),
        ("import numpy\n# import torch\nTEXT = 'import torch'", set()),
        ("from editcritic.reward import torchy", set()),
        ("import torchless", set()),
    ],
)
def test_needs_are_read_from_imports(source: str, needed: set[str], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tests.needs.ROOT", tmp_path)
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "helper.py").write_text("def made():\n    import peft", encoding="utf-8")
    (folder / "test_a.py").write_text(source, encoding="utf-8")
    assert needs(folder / "test_a.py") == needed
