"""`editcritic judge variance` on files and folders of samples; suites are in test_measurement_variance.py."""

import json
from pathlib import Path

import pytest

from ...benchmarks.conftest import Command
from ...benchmarks.suites.tiny_suite import Toy, outputs, picture

EXPERTS = "tests.benchmarks.human_eval.test_measurement_variance:grader"
OPTIONS = ("--metric", "complex-edit-pq", "-k", "1,2", "--experts", EXPERTS)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Three edits of two sources, and one without its picture."""
    for number in range(4):
        picture(number).pil().save(tmp_path / f"{number}.png")
    pairs = (("0", "2"), ("0", "3"), ("1", "2"), ("1", "none"))
    rows = [
        {"id": f"{one} to {two}", "source": f"{one}.png", "edited": f"{two}.png", "instruction": "Make it red"}
        for one, two in pairs
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def measured(editcritic, *arguments):
    return json.loads(editcritic("judge", "variance", *arguments, *OPTIONS, "--json", code=0).stdout)


def test_a_file_of_samples_is_measured_and_what_is_none_is_named(editcritic: Command, samples: Path) -> None:
    out = samples.with_name("noise.json")
    editcritic("judge", "variance", samples, *OPTIONS, "-o", out, code=0, says="samples.jsonl:4")
    document = json.loads(out.read_text(encoding="utf-8"))
    counts = {name: len(row) for name, row in document["measurements"].items()}
    assert counts == {"0 to 2": 8, "0 to 3": 8, "1 to 2": 8}
    assert document["measurement_std"] > 0
    assert (document["variation"][0]["mean"] > 0, document["variation"][0]["low"]) == (True, None)  # of two sources


def test_few_samples_are_of_different_sources_and_a_folder_of_pairs_is_measured(editcritic, samples):
    for seed in range(4):
        document = measured(editcritic, samples, "--num-samples", 2, "--seed", seed)
        assert {name[0] for name in document["measurements"]} == {"0", "1"}
    folder = samples.with_name("pairs")
    folder.mkdir()
    for role, number in (("source", 0), ("edited", 1)):
        picture(number).pil().save(folder / f"mug_{role}.png")
    (folder / "mug.txt").write_text("Make it red", encoding="utf-8")
    assert list(measured(editcritic, folder)["measurements"]) == ["mug"]
    samples.write_text('{"id": "a"}\n', encoding="utf-8")
    editcritic("judge", "variance", samples, *OPTIONS, code=2, says="no sample can be measured")
    editcritic("judge", "variance", "sceneedit", *OPTIONS, code=2, says="--outputs")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(("--data", "."), "of a suite"), (("--protocol", "paper"), "of a suite"), (("-o", "samples.jsonl"), "is both")],
)
def test_options_that_a_file_of_samples_has_not(editcritic, samples, wrong, words, monkeypatch):
    monkeypatch.chdir(samples.parent)
    before = samples.read_bytes()
    editcritic("judge", "variance", samples, *OPTIONS, *wrong, code=2, says=words)
    assert samples.read_bytes() == before


def test_pictures_that_no_item_names_are_told_beside_the_missing_ones(editcritic: Command, tmp_path: Path) -> None:
    made = outputs(tmp_path / "made", Toy(count=2))
    command = ("judge", "variance", "tests.benchmarks.suites.tiny_suite:Toy?count=2", "--outputs", made, *OPTIONS)
    told = []
    for number, path in enumerate(sorted(made.iterdir())):
        path.rename(made / f"{number}.png")
        told.append(" ".join(editcritic(*command).stderr.split()))
    assert "2 items without an image are left out; 1 picture among the outputs is of no item" in told[0]
    assert "has no image of any item: toy looks for 0_turn_1.png" in told[-1]
