"""The loader: rows are checked, pictures and sentences are read by git, and what is missing is said."""

import copy
import json
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from studies.real_edits.clones import Clones, WrongFile
from studies.real_edits.repository_edits import EditRow, repository_rows, sentence_of
from tests.studies.real_edits.edits_by_hand import edit_by_hand

_README = '# Results\n\n[{"prompt": "Remove \\"the\\" rocket &amp; its pad"}]\n'
_SENTENCE = 'Remove "the" rocket & its pad'


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a clone with a work tree, and the row of its edit."""
    folder = tmp_path_factory.mktemp("clones")
    clone = folder / "some+editor"
    (clone / "shown").mkdir(parents=True)
    edit = edit_by_hand("rocket-gone")
    PIL.Image.fromarray(np.array(edit.source.pixels)).save(clone / "shown/before.png")
    PIL.Image.fromarray(np.array(edit.edited.pixels)).save(clone / "shown/after.png")
    (clone / "README.md").write_text(_README, encoding="utf-8")
    _git(folder, "init", "-q", "some+editor")
    _git(clone, "add", "-A")
    _git(clone, "commit", "-qm", "Results")
    start = _README.encode().index(b'"Remove')
    row = {
        "id": "rocket",
        "group": "rocket-gone",
        "base": "rocket",
        "repo": "some/editor",
        "commit": _git(clone, "rev-parse", "HEAD"),
        "source": {**_file(clone, "shown/before.png"), "crop": [100, 40, 400, 340]},
        "edited": {**_file(clone, "shown/after.png"), "crop": None},
        "instruction": {
            "path": "README.md",
            "start": start,
            "end": len(_README.encode()) - 3,
            "sha256": sha256(_SENTENCE.encode()).hexdigest(),
        },
        "editor": "a person",
        "operation": "removal",
        "half": "development",
        "labels": {
            "followed": "yes",
            "preserved": "minor drift",
            "place": "clean",
            "boxes": {"rocket": [[114, 57, 200, 302]]},
            "target": ["rocket"],
            "note": "",
        },
    }
    return folder, row


def _file(clone: Path, path: str) -> dict[str, str]:
    return {"path": path, "sha256": sha256((clone / path).read_bytes()).hexdigest()}


def test_an_edit_is_read_from_a_clone_with_its_crop_labels_and_sentence(made):
    folder, row = made
    edit = EditRow.of(row).read(Clones(folder))
    assert (edit.source.pixels == edit_by_hand("rocket-gone").source.pixels[40:340, 100:400]).all()
    assert edit.edited == edit_by_hand("rocket-gone").edited
    assert edit.instruction == _SENTENCE
    assert (edit.half, edit.operation, edit.is_good, edit.second) == ("development", "removal", True, None)
    second = {**row, "second": {"followed": "yes", "preserved": "yes", "place": "traces"}}
    assert EditRow.of(second).read(Clones(folder)).second == ("yes", "yes", "traces")
    assert edit.target_boxes == [(114, 57, 200, 300)], "within the crop"
    assert edit.sample().boxes["rocket"][0].corners(edit.source.size) == (114, 57, 200, 302)


def test_a_bare_clone_under_the_owner_is_read_at_an_older_commit(made, tmp_path):
    folder, row = made
    (tmp_path / "some").mkdir()
    _git(tmp_path, "clone", "-q", str(folder / "some+editor"), "work")
    (tmp_path / "work/shown/before.png").write_bytes(b"another picture")
    _git(tmp_path / "work", "commit", "-qam", "Another picture")
    _git(tmp_path, "clone", "-q", "--bare", "work", "some/editor")
    assert EditRow.of(row).read(Clones(tmp_path)).source.size == (300, 300)


def test_files_of_a_clone_of_another_commit_count_where_their_bytes_are_right(made, tmp_path):
    folder, row = made
    unknown = {**row, "commit": "0" * 40, "instruction": {"text": "Remove the rocket"}}
    assert EditRow.of(unknown).read(Clones(folder)).instruction == "Remove the rocket"


def test_a_missing_clone_or_commit_is_named_with_the_command_that_makes_it(made, tmp_path):
    folder, row = made
    with pytest.raises(InputError, match=f"no clone of some/editor.*https://github.com/some/editor {row['commit']}"):
        EditRow.of(row).read(Clones(tmp_path))
    lost = copy.deepcopy(row)
    lost["source"]["path"] = "shown/lost.png"
    with pytest.raises(InputError, match=r"has no shown/lost\.png.*fetch --depth 1"):
        EditRow.of(lost).read(Clones(folder))


def test_other_bytes_and_another_sentence_are_refused(made):
    folder, row = made
    other = copy.deepcopy(row)
    other["edited"]["sha256"] = "0" * 64
    with pytest.raises(WrongFile, match="other bytes"):
        EditRow.of(other).read(Clones(folder))
    shifted = copy.deepcopy(row)
    shifted["instruction"]["start"] += 4
    with pytest.raises(WrongFile, match="another sentence"):
        EditRow.of(shifted).read(Clones(folder))
    text = copy.deepcopy(row)
    text["edited"] = {**_file(folder / "some+editor", "README.md"), "crop": None}
    with pytest.raises(WrongFile, match="rocket"):
        EditRow.of(text).read(Clones(folder))


def test_a_pointer_of_git_lfs_is_named_and_the_work_tree_counts(made, tmp_path):
    folder, row = made
    picture = (folder / "some+editor/shown/before.png").read_bytes()
    clone = tmp_path / "some+editor"
    _git(tmp_path, "clone", "-q", str(folder / "some+editor"), "some+editor")
    (clone / "shown/before.png").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    _git(clone, "commit", "-qam", "Pointers")
    pointed = {**row, "commit": _git(clone, "rev-parse", "HEAD")}
    with pytest.raises(WrongFile, match="git lfs pull"):
        EditRow.of(pointed).read(Clones(tmp_path))
    (clone / "shown/before.png").write_bytes(picture)
    assert EditRow.of(pointed).read(Clones(tmp_path)).source.size == (300, 300)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repo": "some/../editor"}, "repo"),
        ({"repo": "editor"}, "repo"),
        ({"commit": "HEAD"}, "commit"),
        ({"operation": "mending"}, "operation"),
        ({"half": "first"}, "half"),
        ({"id": ""}, "id"),
        ({"id": "x" * 5000}, "id"),
        ({"source": {"path": "../secret.png", "sha256": "0" * 64}}, "inside of its folder"),
        ({"source": {"path": "/etc/passwd", "sha256": "0" * 64}}, "inside of its folder"),
        ({"source": {"path": "a.png", "sha256": "0" * 64, "crop": [0, 0, 0, 9]}}, "empty"),
        ({"source": {"path": "a.png", "sha256": "0" * 64, "crop": [-5, 0, 10, 9]}}, "leaves its picture"),
        ({"instruction": {"path": "README.md", "start": 0, "end": 10**9, "sha256": "0" * 64}}, "start and end"),
        ({"instruction": "Remove it"}, "instruction"),
        ({"labels": {}}, "followed"),
        ({"labels": None}, "labels"),
        ({"second": {"followed": "yes"}}, "preserved"),
    ],
    ids=str,
)
def test_rows_of_strangers_are_checked(made, change, message):
    _, row = made
    with pytest.raises(ValueError, match=message):
        EditRow.of({**row, **change})


def test_boxes_and_targets_are_checked(made):
    _, row = made
    wrong: list[Any] = [{"a": [[0, 0, 1.5, 2]]}, {"a": []}, {"a": [[0, 0, 10**9, 2]]}, [[0, 0, 1, 1]]]
    for boxes in [*wrong, {"a": [[0, 0, 1, 1]] * 65}]:
        with pytest.raises(ValueError, match=r"box|rectangle"):
            EditRow.of({**row, "labels": {**row["labels"], "boxes": boxes, "target": []}})
    with pytest.raises(ValueError, match="target"):
        EditRow.of({**row, "labels": {**row["labels"], "target": ["pad"]}})


def test_a_file_of_rows_is_read_and_a_wrong_line_is_named(made, tmp_path):
    _, row = made
    path = tmp_path / "edits.jsonl"
    second = {**row, "id": "second"}
    path.write_text(json.dumps(row) + "\n" + json.dumps(second) + "\n", encoding="utf-8")
    assert [one.id for one in repository_rows(path)] == ["rocket", "second"]
    for rows, message in (
        ([row, row], "given twice"),
        ([row, {**second, "half": "held-back"}], "both halves"),
        ([row, {**second, "commit": 1}], "line 2: commit"),
    ):
        path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
        with pytest.raises(InputError, match=message):
            repository_rows(path)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b' "Make it \\u00e9cru"\n', "Make it écru"),
        (b"<b>not undone</b>", "<b>not undone</b>"),
        (b"a &quot;red&quot; car", 'a "red" car'),
        ("\u201cMake it green\u201d".encode(), "Make it green"),
    ],
)
def test_a_sentence_is_without_quotes_and_escapes(data, sentence):
    assert sentence_of(data) == sentence


@pytest.mark.parametrize("data", [b"", b'""', b"\xff\xfe", b"\\q", b'"\\ud800"'])
def test_what_is_no_sentence_is_refused(data):
    with pytest.raises(WrongFile):
        sentence_of(data)


def test_the_projects_own_set_is_as_large_and_as_bad_as_it_has_to_be():
    rows = repository_rows()
    bad = [row for row in rows if "no" in row.labels or "damaged" in row.labels or "broken" in row.labels]
    assert len(rows) >= 200
    assert len({row.base for row in rows}) >= 40
    assert sum(bool(row.boxes) for row in rows) >= 100
    assert len(bad) >= len(rows) / 3
    assert {row.operation for row in rows} >= {"removal", "recolour", "replacement", "addition", "text"}
    assert {row.half for row in rows} == {"development", "held-back"}
    assert sum(row.second is not None for row in rows) >= 40
