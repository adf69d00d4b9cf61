"""Visual questions in the layouts of the benchmarks that DLEBench was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.dlebench.construction.counterfactual import (
    VisualQuestion,
    labelled_boxes,
    read_questions,
)

from ..construction.scripted_experts import photographs

CHOICES = ["(A) white", "(B) green", "(C) red", "(D) grey", "(E) The image does not feature the cup."]


@pytest.fixture
def vstar(tmp_path: Path) -> Path:
    for name in ("direct_attributes", "relative_position"):
        photographs(tmp_path / name, count=2)
    rows: dict[str, Any] = {
        "direct_attributes/astronaut": {
            "target_object": ["helmet"],
            "bbox": [[60, 20, 12, 8]],
            "question": "What is the color of the helmet?",
            "options": ["The color of the helmet is white.", "The color of the helmet is red."],
        },
        "direct_attributes/chelsea": {"question": "?", "bbox": [[1, 2, 3]], "options": ["a", "b"]},
        "relative_position/chelsea": {
            "target_object": ["left ear", "nose"],
            "bbox": [[4, 6, 10, 20], [40, 30, 8, 6]],
            "question": "Is the ear on the left or right side of the nose?",
            "options": ["The ear is on the left side of the nose.", "The ear is on the right side of the nose."],
        },
        "relative_position/nowhere": {"question": "?", "options": ["a", "b"]},
    }
    for name, row in rows.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(row), encoding="utf-8")
    return tmp_path


def test_of_vstar_the_first_option_is_right_and_boxes_are_corner_and_size(vstar: Path) -> None:
    helmet, broken, ear, missing = read_questions(vstar)
    assert isinstance(helmet, VisualQuestion)
    assert isinstance(ear, VisualQuestion)
    assert (helmet.id, helmet.image) == ("direct_attributes_astronaut", vstar / "direct_attributes/astronaut.png")
    assert (helmet.answer, helmet.options[1]) == ("The color of the helmet is white", "The color of the helmet is red")
    assert [box.corners((96, 72)) for box in helmet.boxes] == [(60, 20, 72, 28)]
    assert [box.corners((96, 72)) for box in ear.boxes] == [(4, 6, 14, 26), (40, 30, 48, 36)]
    assert isinstance(broken, tuple)
    assert broken[1].startswith("direct_attributes/chelsea.json: ")
    assert missing == (
        "relative_position_nowhere",
        "relative_position/nowhere.json: no picture of this name lies beside it",
    )


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    photographs(folder, count=1)
    common = {"Image": "astronaut.png", "Text": "What is the color of the cup?", "Answer choices": CHOICES}
    path = folder / "MME.json"
    path.write_text(json.dumps([{**common, **row} for row in rows]), encoding="utf-8")
    return path


def boxes(path: Path, *drawn: tuple[str, list[list[float]]]) -> Path:
    label = {"schema": 1, "kind": "boxes", "dimension": "target", "annotator": "ann"}
    rows = [
        {**label, "id": name, "label": corners, "time": f"2026-03-01T09:3{number}:00+00:00"}
        for number, (name, corners) in enumerate(drawn)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_of_mme_realworld_boxes_are_drawn_by_people_and_no_answer_is_never_made_true(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"Question_id": "perception/cup/0001", "Ground truth": "B"},
        {"Question_id": "perception/cup/0002", "Ground truth": "E"},
        {"Question_id": "perception/cup/0003", "Ground truth": "A"},
    )
    first = "perception_cup_0001"
    labels = boxes(tmp_path / "labels.jsonl", (first, [[1, 1, 9, 9]]), (first, [[10, 20, 16, 30]]))
    cup, none, undrawn = read_questions(path, labelled_boxes([labels]))
    assert isinstance(cup, VisualQuestion)
    assert (cup.id, cup.text, cup.answer) == (first, "What is the color of the cup?", "green")
    assert cup.options == ("white", "green", "red", "grey")
    assert [box.corners((96, 72)) for box in cup.boxes] == [(10, 20, 16, 30)]  # the later label
    assert isinstance(none, tuple)
    assert isinstance(undrawn, tuple)
    assert "lacks boxes" in none[1]
    assert "lacks boxes" in undrawn[1]
    assert "--labels" in undrawn[1]
    drawn = {"perception_cup_0002": [[10, 20, 16, 30]]}
    assert "the answer 'E' is none of its options" in str(list(read_questions(path, drawn))[1])


@pytest.mark.parametrize(("text", "why"), [("{}", "without a list"), ("[]", "without a list"), ("[", "is not JSON")])
def test_a_json_file_of_something_else_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "q.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=why):
        list(read_questions(tmp_path / "q.json"))
