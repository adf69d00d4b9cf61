"""DLEBench's data with field aliases, and problems of incomplete lines."""

import json
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.dlebench.reader import TYPES, parse_boxes, parse_type
from editcritic.benchmarks.suites.dlebench.suite import DleBench

from .layout import line, written


def renamed(row: dict[str, Any], **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in row.items()}


def test_fields_may_be_called_otherwise(tmp_path):
    plain = DleBench(written(tmp_path / "a", 3))
    other = DleBench(
        written(
            tmp_path / "b",
            3,
            lambda row: renamed(row, edit_operation="Edit Instruction", bbox="target_boxes", type="edit-type"),
        )
    )
    assert [item.sample for item in plain.items] == [item.sample for item in other.items]
    assert plain.digest == other.digest


def test_an_operation_beside_the_instruction_is_the_type(tmp_path):
    def told_apart(row: dict[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in row.items() if name != "type"}
        return {**plain, "edit_instruction": row["edit_operation"], "edit_operation": "alter_color"}

    (item,) = DleBench(written(tmp_path / "data", 1, told_apart)).items
    assert item.sample.instruction == line(0)["edit_operation"]
    assert item.labels["type"] == "Change Color"


def test_a_line_that_lacks_something_is_a_problem_that_names_the_spellings(tmp_path):
    def without_boxes(row: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in row.items() if key != "bbox" or row["image"] != "1.png"}

    suite = DleBench(written(tmp_path / "data", 3, without_boxes))
    assert [item.id for item in suite.items] == ["0_ref", "2_ref"]
    (problem,) = suite.problems
    assert problem.location.endswith("data.jsonl:2")
    assert "lacks bbox (accepted: bbox, bboxes," in problem.message
    assert "mode=plain" in problem.message


def test_without_boxes_and_references_the_other_modes_still_judge(tmp_path):
    def bare(row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in ("image", "edit_operation", "type")}

    data = written(tmp_path / "data", 3, bare)
    suite = DleBench(data, mode="plain")
    assert not suite.problems
    assert [item.id for item in suite.items] == ["0", "1", "2"]
    with pytest.raises(InputError, match="reference_image \\(accepted"):
        DleBench(data)


def test_boxes_and_types_may_come_from_a_file_of_their_own(tmp_path):
    def bare(row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in ("image", "reference_image", "edit_operation")}

    data = written(tmp_path / "data", 3, bare)
    more = tmp_path / "boxes.jsonl"
    rows = (line(number) for number in range(3))
    more.write_text("\n".join(json.dumps({name: row[name] for name in ("image", "type", "bbox")}) for row in rows))
    suite_ = DleBench(data, annotations=str(more))
    assert not suite_.problems
    assert suite_.digest == DleBench(written(tmp_path / "whole", 3)).digest


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Change Color", "Change Color"),
        ("recolour", "Change Color"),
        ("REMOVE_OBJECT", "Removal Object"),
        ("text", "Change OCR"),
        ("replacement", "Replace Object"),
        ("object count", "Change Count"),
        ("add_object", "Change Count"),
        ("location", "Removal Object"),
        ("object", "Replace Object"),
        ("blur", None),
        ("remove text", None),
    ],
)
def test_types_by_what_they_are_called(name, kind):
    assert parse_type(name) == kind


def test_the_papers_types_name_themselves():
    assert [parse_type(kind) for kind in TYPES] == list(TYPES)
    assert sum(TYPES.values()) == 1909


@pytest.mark.parametrize(
    "value",
    [
        [10, 20, 30, 60],
        [[10, 20, 30, 60]],
        [0.1, 0.1, 0.3, 0.3],
        "[10, 20, 30, 60]",
        {"x1": 10, "y1": 20, "x2": 30, "y2": 60},
        {"x": 10, "y": 20, "width": 20, "height": 40},
        {"label": "cup", "bbox": [10, 20, 30, 60]},
        [{"xmin": 10, "ymin": 20, "xmax": 30, "ymax": 60}],
    ],
)
def test_boxes_in_many_ways(value):
    (box,) = parse_boxes(value, (100, 200))
    assert [box.x0, box.y0, box.x1, box.y1] == pytest.approx([0.1, 0.1, 0.3, 0.3])


def test_boxes_as_corner_and_size():
    (box,) = parse_boxes([10, 20, 20, 40], (100, 200), "xywh")
    assert [box.x0, box.y0, box.x1, box.y1] == pytest.approx([0.1, 0.1, 0.3, 0.3])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([30, 20, 10, 60], "boxes=xywh"),
        ([10, 20, 300, 60], "outside of the image"),
        ([1, 2, 3], "four numbers"),
        ({"left": 3}, "no x0"),
        ("no box", "Expecting value"),
    ],
)
def test_boxes_that_are_none_are_said_to_be(value, why):
    with pytest.raises(ValueError, match=why):
        parse_boxes(value, (100, 200))


def test_bad_lines_pictures_and_ids_are_problems(tmp_path):
    data = written(tmp_path / "data", 4, lambda row: {**row, "id": "same" if row["image"] < "2" else row["image"][0]})
    (data / "Source_Images" / "2.png").write_bytes(b"no picture")
    with (data / "data.jsonl").open("a") as lines:
        lines.write('{"image": \n[1]\n')
        lines.write(json.dumps({**line(3), "image": "nowhere.png"}) + "\n")
        lines.write(json.dumps({**line(3), "type": "blur"}) + "\n")
        lines.write(json.dumps({**line(3), "id": "long", "instruction": "x" * 4001}) + "\n")
    suite = DleBench(data)
    assert [item.id for item in suite.items] == ["0_ref", "1_ref", "3"]
    problems = "\n".join(map(str, suite.problems))
    for message in (
        "not JSON",
        "is list",
        "nowhere.png, which is not in",
        "the type 'blur'",
        "the same id same",
        "2.png",
        "the instruction has 4,001 characters",
    ):
        assert message in problems


def test_a_folder_that_is_none_is_refused_with_the_layout(tmp_path):
    with pytest.raises(InputError, match="Source_Images/ and Reference_Images/"):
        DleBench(tmp_path)
