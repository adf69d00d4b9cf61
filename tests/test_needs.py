"""Without torch, exactly the test files that need it are left out."""

from pathlib import Path

import pytest

from .needs import needs

TESTS = Path(__file__).parent

# Tests that must run in any environment: if one of these files needed torch, `make test-lowest` and
# `make test-pythons` would silently skip it.
ANYWHERE = [
    "test_contracts.py",
    "test_criteria.py",
    "test_docs.py",
    "test_packaging.py",
    "benchmarks/report",
    "benchmarks/studies/validity",
    "benchmarks/suites/construction",
    "benchmarks/suites/dlebench",
    "benchmarks/suites/edival",
    "benchmarks/suites/gedit",
    "benchmarks/suites/i2ibench",
    "benchmarks/suites/imgedit",
    "cli/test_commands.py",
    "cli/test_main.py",
    "integrations/serving",
    "reward/engine",
    "reward/experts/test_annotated.py",
    "reward/experts/test_colour.py",
    "reward/experts/test_openai_judge.py",
    "reward/experts/test_pixel_features.py",
    "reward/experts/test_rapid_ocr.py",
    "reward/metrics/complexedit",
    "reward/metrics/dlebench",
    "reward/metrics/edival",
    "reward/metrics/i2ibench",
    "reward/metrics/imgedit",
    "reward/metrics/viescore",
    "reward/metrics/test_compose.py",
    "reward/metrics/test_guards.py",
    "reward/queries",
    "reward/test_async_expert.py",
    "reward/test_image.py",
    "reward/test_reward.py",
    "verifiers",
]
# Tests of other libraries in these folders.
EXCEPT = {
    "benchmarks/report/test_suite_chapters.py",
    "benchmarks/suites/construction/test_hub_datasets.py",
    "benchmarks/suites/construction/test_read_by_datasets.py",
    "benchmarks/suites/gedit/test_suites_of_an_editor.py",
    "integrations/serving/ray_serve/test_hostile_on_ray.py",
    "integrations/serving/ray_serve/test_replicas.py",
    "integrations/serving/ray_serve/test_routing.py",
    "integrations/serving/ray_serve/test_settings.py",
    "integrations/serving/test_pickled_tensors.py",
    "reward/engine/test_workers_torch.py",
}


def files(name: str) -> list[Path]:
    path = TESTS / name
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


@pytest.mark.parametrize("name", ANYWHERE)
def test_what_works_anywhere_is_tested_anywhere(name: str) -> None:
    needed_by = {path.relative_to(TESTS).as_posix(): sorted(needs(path)) for path in files(name)}
    assert needed_by, f"{name} holds no tests"
    assert {path: needed for path, needed in needed_by.items() if needed and path not in EXCEPT} == {}


def test_the_exceptions_are_some() -> None:
    assert [name for name in EXCEPT if not needs(TESTS / name)] == []


def test_what_needs_torch_is_known_to() -> None:
    every = {path.relative_to(TESTS).as_posix(): needs(path) for path in TESTS.rglob("test_*.py")}
    assert every["reward/experts/test_vlm.py"] >= {"torch", "transformers"}
    assert every["reward/experts/test_owl.py"] >= {"torch"}  # its helpers import it
    assert every["benchmarks/studies/learning/test_writer_command.py"] == {"torch"}  # by `NEEDS`
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
