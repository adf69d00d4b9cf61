"""Which files the page offers, and that it opens no others."""

import json
import os
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.output_generation import GENERATED_FILE
from editcritic.benchmarks.suites.results import RESULT_FILE, SCORES_FILE, ResultRow
from editcritic.benchmarks.web_app import open_files
from editcritic.benchmarks.web_app.open_files import MAX_DEPTH, Kind, OpenFiles
from editcritic.reward import Score
from editcritic.reward.score import Evidence, score_line

SAMPLE = '{"id": "1", "source": "a.png", "edited": "b.png", "instruction": "Make the mug blue"}\n'
SCORE = '{"id": "1", "status": "scored", "value": 0.5}\n'


def written(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one of each kind, and with files beside it."""
    folder = tmp_path / "edits"
    written(folder / "cups" / "samples.jsonl", SAMPLE)
    written(folder / "other.jsonl", SAMPLE)
    written(folder / "scores.jsonl", SCORE)
    written(folder / "pairs" / "1_edited.png")
    written(folder / "mine" / RESULT_FILE, "{}")
    written(folder / "audit.json", '{\n  "schema": 1,\n  "unscored_edits": 0\n}')
    written(folder / "package.json", "{}")
    written(folder / "notes.txt", "none of these")
    written(tmp_path / "secret" / "samples.jsonl", SAMPLE)
    return folder


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("samples", ["edits/cups", "edits/other.jsonl", "edits/pairs"]),
        ("results", ["edits/mine"]),
        ("scores", ["edits/scores.jsonl"]),
        ("audit", ["edits/audit.json"]),
    ],
)
def test_what_lies_in_a_named_folder_is_offered_by_kind(folder: Path, kind: Kind, names: list[str]) -> None:
    files = OpenFiles((folder,))
    assert files.names(kind) == names
    for name in names:
        assert files.path(kind, name) == folder.parent / name


@pytest.mark.parametrize(
    "name", ["", "edits/../secret", "../secret", "/etc/passwd", "secret", "edits/notes.txt", "edits/cups/samples.jsonl"]
)
def test_a_name_that_is_not_offered_opens_nothing(folder: Path, name: str) -> None:
    with pytest.raises(InputError):
        OpenFiles((folder,)).path("samples", name)
    with pytest.raises(InputError):
        OpenFiles((folder,)).path("samples", None)


def test_what_runs_write_beside_results_is_no_file_of_samples(folder: Path) -> None:
    row = ResultRow("1", "1", {}, {"followed": Score.of(1.0)}, instruction="Make the mug blue")
    written(folder / "mine" / SCORES_FILE, json.dumps(row.to_json()))
    written(
        folder / "mine" / "journal" / "rows-0.jsonl", json.dumps({"sample_key": "1", "row": json.dumps(row.to_json())})
    )
    written(folder / "outputs" / GENERATED_FILE, '{"item": "1", "file": "1.png"}\n')
    luminance = Evidence("luminance", numbers={"source": 0.3, "edited": 0.2})
    written(folder / "mine" / "own.jsonl", score_line("1", Score.of(1.0, evidence=(luminance,))))
    files = OpenFiles((folder,))
    assert any(name.endswith("mine/own.jsonl") for name in files.names("scores"))
    assert [name for name in files.names("samples") if "mine" in name or "outputs" in name] == []


def test_a_file_is_held_by_the_folders_that_were_named_wherever_links_lead(folder: Path, tmp_path: Path) -> None:
    files = OpenFiles((folder,))
    (folder / "away").symlink_to(tmp_path / "secret")
    assert files.holds(folder)
    assert files.holds(folder / "cups" / ".." / "pairs" / "1_edited.png")
    for other in (tmp_path, tmp_path / "secret", folder / ".." / "secret", folder / "away", tmp_path / "edits2"):
        assert not files.holds(other), other


def test_links_below_a_folder_are_not_followed(folder: Path) -> None:
    (folder / "away").symlink_to(folder.parent / "secret")
    (folder / "away.jsonl").symlink_to(folder.parent / "secret" / "samples.jsonl")
    (folder / "loop").symlink_to(folder)
    assert not [name for name in OpenFiles((folder,)).names("samples") if "away" in name or "loop" in name]


def test_a_file_or_folder_can_be_named_itself(folder: Path) -> None:
    files = OpenFiles((folder / "other.jsonl", folder / "cups"))
    assert files.names("samples") == ["other.jsonl", "cups"]


def test_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "edits", tmp_path / "other" / "edits"
    for folder in (one, other):
        written(folder / "samples.jsonl", SAMPLE)
    files = OpenFiles((one, other))
    assert [files.path("samples", name) for name in files.names("samples")] == [one, other]


def test_a_fifo_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "waits.jsonl")
    OpenFiles((folder,)).names("scores")


def test_a_name_of_odd_bytes_is_shown_as_text(folder: Path) -> None:
    odd = folder / os.fsdecode(b"\xff\n.jsonl")
    odd.write_text(SAMPLE, encoding="utf-8")
    files = OpenFiles((folder,))
    (name,) = [name for name in files.names("samples") if "xff" in name or "udcff" in name]
    assert name.isprintable()
    assert files.path("samples", name) == odd


def test_a_scan_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = folder.joinpath(*(str(level) for level in range(MAX_DEPTH + 1)))
    written(deep / "samples.jsonl", SAMPLE)
    assert not [name for name in OpenFiles((folder,)).names("samples") if str(MAX_DEPTH) in name]
    for number in range(20):
        written(folder / "many" / f"{number}.jsonl", SAMPLE)
    monkeypatch.setattr(open_files, "MAX_ENTRIES", 10)
    assert len(OpenFiles((folder,)).names("samples")) <= 10
