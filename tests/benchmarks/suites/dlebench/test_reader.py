"""DLEBench's data with field aliases, and problems of incomplete lines."""

import json
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.dlebench.reader import TYPES, parse_boxes, parse_type
from editcritic.benchmarks.suites.dlebench.suite import DleBench

from ..construction.scripted_experts import write_lines
from .layout import line, written

NAMES = {"edit_operation": "Edit Instruction", "bbox": "target_boxes", "type": "edit-type"}


def test_fields_may_be_called_otherwise(tmp_path):
    def renamed(row):
        return {NAMES.get(name, name): value for name, value in row.items()}

    def told_apart(row):
        """An operation beside the instruction is the type."""
        plain = {name: value for name, value in row.items() if name != "type"}
        return {**plain, "edit_instruction": row["edit_operation"], "edit_operation": "alter_color"}

    plain, other = DleBench(written(tmp_path / "a", 3)), DleBench(written(tmp_path / "b", 3, renamed))
    assert [item.sample for item in plain.items] == [item.sample for item in other.items]
    assert plain.digest == other.digest
    (item,) = DleBench(written(tmp_path / "data", 1, told_apart)).items
    assert (item.sample.instruction, item.labels["type"]) == (line(0)["edit_operation"], "Change Color")


def test_a_line_that_lacks_something_is_a_problem_that_names_the_spellings(tmp_path):
    def without_boxes(row: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in row.items() if key != "bbox" or row["image"] != "1.png"}

    suite = DleBench(written(tmp_path / "data", 3, without_boxes))
    assert [item.id for item in suite.items] == ["0_ref", "2_ref"]
    (problem,) = suite.problems
    assert problem.location.endswith("data.jsonl:2")
    assert "lacks bbox (accepted: bbox, bboxes," in problem.message
    assert "mode=plain" in problem.message


def test_boxes_and_types_may_be_missing_or_come_from_a_file_of_their_own(tmp_path):
    def bare(row):
        return {name: row[name] for name in ("image", "reference_image", "edit_operation")}

    def without_references(row):
        return {name: row[name] for name in ("image", "edit_operation", "type")}

    data = written(tmp_path / "plain", 3, without_references)
    suite = DleBench(data, mode="plain")
    assert ([item.id for item in suite.items], list(suite.problems)) == (["0", "1", "2"], [])
    with pytest.raises(InputError, match="reference_image \\(accepted"):
        DleBench(data)
    data, more = written(tmp_path / "data", 3, bare), tmp_path / "boxes.jsonl"
    write_lines(more, ({name: line(number)[name] for name in ("image", "type", "bbox")} for number in range(3)))
    suite = DleBench(data, annotations=str(more))
    assert not suite.problems
    assert suite.digest == DleBench(written(tmp_path / "whole", 3)).digest
    with pytest.raises(InputError, match="Source_Images/ and Reference_Images/"):
        DleBench(tmp_path)


CALLED = {
    "Change Color": ("Change Color", "recolour"),
    "Removal Object": ("REMOVE_OBJECT", "location"),
    "Change OCR": ("text",),
    "Replace Object": ("replacement", "object"),
    "Change Count": ("object count", "add_object"),
    None: ("blur", "remove text"),
}


def test_types_by_what_they_are_called():
    for kind, called in CALLED.items():
        assert [parse_type(name) for name in called] == [kind] * len(called)
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
    for (box,) in (parse_boxes(value, (100, 200)), parse_boxes([10, 20, 20, 40], (100, 200), "xywh")):
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
        for change in ({"image": "nowhere.png"}, {"type": "blur"}, {"id": "long", "instruction": "x" * 4001}):
            lines.write(json.dumps({**line(3), **change}) + "\n")
    suite = DleBench(data)
    assert [item.id for item in suite.items] == ["0_ref", "1_ref", "3"]
    problems = "\n".join(map(str, suite.problems))
    for message in (
        *("not JSON", "is list", "nowhere.png, which is not in", "the type 'blur'", "the same id same", "2.png"),
        "the instruction has 4,001 characters",
    ):
        assert message in problems
