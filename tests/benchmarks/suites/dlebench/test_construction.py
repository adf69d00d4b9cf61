"""Making DLEBench samples: questions become edits with references that a judge accepts and people can turn down."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.construction.workspace import ConstructionReport
from editcritic.benchmarks.suites.dlebench.construction import DleBenchBuilder
from editcritic.benchmarks.suites.dlebench.counterfactual import (
    VisualQuestion,
    labelled_boxes,
    parse_counterfactual,
    read_questions,
)
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.reward import Image
from editcritic.reward.queries import Failure, Judge
from tests.benchmarks.human_eval.label_files import labels_file, make_label
from tests.benchmarks.suites.construction.scripted_experts import Says, Script, lines, photographs, write_lines

COLOUR = {
    "q_type": "color",
    "prompt_clean": "The cup on the left is white.",
    "prompt_adv": "The cup on the left is green.",
    "edit_ops": "alter_color",
    "edit_instruction": "Changed the color of the cup on the left from white to green.",
    "modified_object": "cup on the left",
}


def verdict(label: str) -> str:
    return f"<Start Thinking>Looking.</Start Thinking>\n<Start Final Answer>{label}</Start Final Answer>"


TABLE: Mapping[str, Says] = {
    "making/dlebench/counterfactual": json.dumps(COLOUR),
    "dlebench/following_plain": verdict("Flawless Execution"),
    "dlebench/consistency_plain": verdict("Perfect Consistency"),
}


class Painter:
    """Fills its input with a colour derived from the seed; records seeds and instructions."""

    id, nfe, batch_size = "painter@1", 0, 2

    def __init__(self):
        self.seeds: list[int] = []
        self.asked: list[str] = []

    def edit(self, images, instructions, seeds, *, history=None):
        self.seeds += seeds
        self.asked += instructions
        sizes = [(2 * picture.height, 2 * picture.width, 3) for (picture,) in images]
        return [Image.of(np.full(size, 10 + seed, np.uint8)) for size, seed in zip(sizes, seeds, strict=True)]


@pytest.fixture
def questions(tmp_path):
    """One question a photograph, with one target each but the second, which has two."""
    folder = photographs(tmp_path / "questions", count=2, side=96)
    common = {
        "question": "What is the color of the cup on the left?", "options": ["(A) green", "(B) white"], "answer": "B",
    }  # fmt: skip
    boxes = [[10, 10, 16, 16], [60, 40, 70, 48]]
    rows = (
        {**common, "id": path.stem, "image": path.name, "boxes": boxes[: 1 + number]}
        for number, path in enumerate(sorted(folder.iterdir()))
    )
    return write_lines(folder / "questions.jsonl", rows).parent


def made(
    questions: Path, out: Path, table: Mapping[str, Says] | None = None, *, labels: Sequence[Path] = ()
) -> tuple[ConstructionReport, Script, Painter]:
    judge, editor = Script({**TABLE, **(table or {})}), Painter()
    synthesis = DleBenchBuilder(judge, editor, labels=labels)
    return synthesis.make(list(read_questions(questions)), out), judge, editor


def review(out: Path, decision: str, *, only_first: bool = False, **changes: Any) -> None:
    """The lines of the review, or its first, as somebody has changed them."""
    first, *others = (row for row in lines(out / "review.jsonl"))
    changed = [{**row, "decision": decision, **changes} for row in (first, *([] if only_first else others))]
    write_lines(out / "review.jsonl", [*changed, *(others if only_first else [])])


def changed_area(out: Path, source: Any) -> tuple[int, ...]:
    """The first and last column and row at which the reference of the astronaut differs."""
    reference = Image.open(out / "Reference_Images/astronaut.png").pixels
    rows, columns = np.nonzero((source != reference).any(axis=2))
    return columns.min(), rows.min(), columns.max(), rows.max()


def test_the_suite_reads_what_was_made(questions, tmp_path):
    report, judge, editor = made(questions, tmp_path / "data")
    assert (report.num_constructed, report.num_rejected, report.failures) == (2, 0, {})
    assert (len(editor.seeds), judge.queries.total()) == (3, 1 + 2 * 3)  # the question is the same for both pictures
    suite = DleBench(tmp_path / "data")
    assert (len(suite.items), list(suite.problems)) == (2, [])
    item = suite.items[1]
    assert (item.sample.instruction, item.labels["type"]) == (COLOUR["edit_instruction"], "Change Color")
    assert len(item.sample.targets) == 2
    assert item.sample.targets[0].corners((96, 72)) == (10, 10, 16, 16)
    # a target of 6 x 6 at (10, 10) grows by 6 times its sides (Eq. 1): 18 to each side, cut at the border
    source = Image.open(tmp_path / "data/Source_Images/astronaut.png").pixels
    assert changed_area(tmp_path / "data", source) == (0, 0, 33, 33)
    assert (Image.open(tmp_path / "data/Reference_Images/astronaut.png").pixels[:34, :34] == 10).all()
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").glob("*.jsonl")}
    _, judge, editor = made(questions, tmp_path / "data")
    assert (editor.seeds, judge.queries.total()) == ([], 0)
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").glob("*.jsonl")} == before


def test_what_the_judge_does_not_accept_is_made_again_three_times(questions, tmp_path):
    wrong: dict[str, Says] = {"dlebench/following_plain": verdict("Over Modification")}
    report, _, editor = made(questions, tmp_path / "data", wrong)
    assert (report.num_constructed, report.num_rejected) == (0, 2)
    assert sorted(editor.seeds) == [0, 0, 1, 1, 2, 2]
    kept = [one for one in lines(tmp_path / "data/rejections.jsonl") if one["id"] == "chelsea"]
    assert [one.get("attempt") for one in kept] == [0, 1, 2, None]
    assert "Over Modification" in kept[-1]["reason"]
    assert lines(tmp_path / "data/data.jsonl") == []


def test_people_can_have_a_reference_made_again_three_times_and_then_it_ends(questions, tmp_path):
    out = tmp_path / "data"
    made(questions, out)
    seen = []
    for _ in range(3):
        review(out, "regenerate")
        seen.append(made(questions, out)[2].seeds)
        assert {row["decision"] for row in lines(out / "review.jsonl")} == {""}
    assert seen == [[3, 3, 3], [6, 6, 6], [9, 9, 9]]
    review(out, "regenerate")
    report, _, editor = made(questions, out)
    assert (report.num_constructed, report.num_rejected, editor.seeds) == (0, 2, [])
    assert "4 references were rejected" in lines(out / "rejections.jsonl")[0]["reason"]
    assert made(questions, out)[0].num_constructed == 0


def test_what_is_accepted_stays_and_what_is_discarded_is_left_out(questions, tmp_path):
    out = tmp_path / "data"
    made(questions, out)
    review(out, "accept")
    assert made(questions, out)[0].num_constructed == 2
    assert {row["decision"] for row in lines(out / "review.jsonl")} == {"accept"}
    review(out, "discard")
    assert made(questions, out)[0].num_constructed == 0
    review(out, "perhaps")
    with pytest.raises(InputError, match=r"review.jsonl:1 has the decision 'perhaps'"):
        made(questions, out)


RED = {
    "edit_operation": "Changed the color of the pot from white to red.",
    "prompt_adv": "The pot on the left is red.",
    "modified_object": "pot on the left",
    "type": "Change Material",
    "bbox": [[12, 12, 20, 20]],
}


def test_what_people_correct_is_in_the_data_and_in_what_is_made_again(questions, tmp_path):
    out = tmp_path / "data"
    made(questions, out)
    assert {"question", "answer", *RED} <= lines(out / "review.jsonl")[0].keys()
    before = (out / "Reference_Images/astronaut.png").read_bytes()
    review(out, "accept", only_first=True, **RED)
    _, judge, editor = made(questions, out)
    assert (editor.seeds, judge.queries.total()) == ([], 0)
    first, second = lines(out / "data.jsonl")
    assert {key: first[key] for key in RED} == RED
    assert (first["edit_ops"], second["edit_operation"]) == ("alter_material", COLOUR["edit_instruction"])
    assert (out / "Reference_Images/astronaut.png").read_bytes() == before
    (item, _) = DleBench(out).items
    assert (item.sample.instruction, item.labels["type"]) == (RED["edit_operation"], "Change Material")
    review(out, "regenerate", only_first=True)
    _, _, editor = made(questions, out)
    assert (editor.seeds, editor.asked) == ([3], [RED["edit_operation"]])
    # the box of 8 x 8 at (12, 12) grows by 24 to each side
    assert changed_area(out, Image.open(out / "Source_Images/astronaut.png").pixels)[2:] == (43, 43)
    assert made(questions, out)[2].seeds == []  # the line keeps the corrections
    assert lines(out / "data.jsonl")[0]["edit_operation"] == RED["edit_operation"]
    assert lines(out / "review.jsonl")[0]["round"] == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bbox": [[20, 20, 10, 10]]}, "bbox that cannot be used"),
        ({"edit_operation": " "}, "expected a text"),
        ({"modified_object": 7}, "expected a text"),
        ({"type": "Change Mood"}, "expected one of Removal Object"),
    ],
)
def test_a_correction_that_cannot_be_used_is_refused_with_its_line(questions, tmp_path, changes, why):
    made(questions, tmp_path / "data")
    review(tmp_path / "data", "accept", only_first=True, **changes)
    with pytest.raises(InputError, match=rf"review.jsonl:1 has .*{why}"):
        made(questions, tmp_path / "data")


def test_labels_of_people_are_decisions(questions, tmp_path):
    made(questions, tmp_path / "data")
    label = make_label("regenerate", "astronaut", "reference", dimension="reference")
    path = labels_file(tmp_path / "labels.jsonl", [label])
    for seeds in ([3], []):  # the second time, it was about the first one
        assert made(questions, tmp_path / "data", labels=[path])[2].seeds == seeds


def test_a_judge_or_editor_that_is_down_is_asked_again_by_the_same_command(questions, tmp_path, monkeypatch):
    down: dict[str, Says] = {"dlebench/consistency_plain": Failure("busy")}
    report, _, editor = made(questions, tmp_path / "data", down)
    assert (report.num_constructed, report.exit_code, len(editor.seeds)) == (0, 1, 2)
    with monkeypatch.context() as patch:
        patch.setattr(Painter, "edit", lambda *_, **__: 1 / 0)
        report = made(questions, tmp_path / "data")[0]
    assert "ZeroDivisionError" in report.failures["chelsea"]  # its second target; all else is there
    assert (report.num_constructed, report.exit_code) == (1, 1)
    report, _, editor = made(questions, tmp_path / "data")
    assert (report.num_constructed, report.exit_code, len(editor.seeds)) == (2, 0, 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"q_type": "smell"}, "none of location"),
        ({"edit_ops": "remove_object"}, "requires alter_color"),
        ({"prompt_adv": "The mug is green."}, "lacks the words for the object"),
        ({"prompt_adv": COLOUR["prompt_clean"]}, "are equal"),
        ({"prompt_adv": "One can see that the cup on the left is green."}, "differ in structure"),
        ({"edit_instruction": "Removed the cup on the left."}, "only questions of location"),
        ({"edit_instruction": "Made something green."}, "does not name"),
        ({"edit_instruction": "Changed the color of the cup on the left."}, "does not say what changes"),
        ({"q_type": "location", "edit_ops": "remove_object"}, "only questions of location"),
        ({"modified_object": " "}, "names no object"),
    ],
)
def test_metadata_that_breaks_a_rule_is_refused(changes, reason):
    with pytest.raises(ValueError, match=reason):
        parse_counterfactual(json.dumps({**COLOUR, **changes}), "green")


def test_a_question_of_location_removes_the_object():
    truck = "white truck on the bridge"
    reply = {
        "q_type": "location", "edit_ops": ["remove_object"], "modified_object": truck,
        "prompt_clean": f"There is a {truck}.", "prompt_adv": f"No {truck} is present.",
        "edit_instruction": f"Removed {truck} from the scene.",
    }  # fmt: skip
    edit = parse_counterfactual(json.dumps(reply), "left")
    assert (edit.type, edit.operation) == ("Removal Object", "remove_object")


def test_a_garbled_answer_is_asked_for_again_and_kept(questions, tmp_path):
    prompts: list[str] = []

    def says(judge: Judge) -> str:
        prompts.append(str(judge.messages[0].content[0]))
        return "Sure! The cup becomes green." if judge.draw == 0 else json.dumps(COLOUR)

    report, _, _ = made(questions, tmp_path / "data", {"making/dlebench/counterfactual": says})
    assert report.num_constructed == 2
    first = lines(tmp_path / "data/rejections.jsonl")[0]
    assert (first["stage"], first["attempt"]) == ("dlebench/counterfactual", 0)
    assert "Options: green; white\nRight answer: white\nWrong answer to be made true: green" in prompts[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"boxes": []}, "lacks boxes"),
        ({"answer": "blue"}, "none of its options"),
        ({"options": "green"}, "a list of texts"),
        ({"image": "nowhere.png"}, "nowhere.png"),
        ({"boxes": [[10, 10, 5, 5]]}, "no area"),
        ({"options": ["white"]}, "no wrong option"),
    ],
)
def test_a_question_that_cannot_be_used_is_given_up_with_the_reason(questions, tmp_path, changes, reason):
    path = questions / "questions.jsonl"
    first, *others = lines(path)
    write_lines(path, [{**first, "answer": "white", **changes}, *others])
    report, _, _ = made(questions, tmp_path / "data")
    assert (report.num_constructed, report.num_rejected) == (1, 1)
    assert reason in lines(tmp_path / "data/rejections.jsonl")[0]["reason"]


CHOICES = ["(A) white", "(B) green", "(C) red", "(D) grey", "(E) The image does not feature the cup."]


@pytest.fixture
def vstar(tmp_path):
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


def test_of_vstar_the_first_option_is_right_and_boxes_are_corner_and_size(vstar):
    helmet, broken, ear, missing = read_questions(vstar)
    assert isinstance(helmet, VisualQuestion)
    assert isinstance(ear, VisualQuestion)
    assert (helmet.id, helmet.image) == ("direct_attributes_astronaut", vstar / "direct_attributes/astronaut.png")
    assert (helmet.answer, helmet.options[1]) == ("The color of the helmet is white", "The color of the helmet is red")
    assert [box.corners((96, 72)) for box in helmet.boxes] == [(60, 20, 72, 28)]
    assert [box.corners((96, 72)) for box in ear.boxes] == [(4, 6, 14, 26), (40, 30, 48, 36)]
    assert isinstance(broken, tuple)
    assert broken[1].startswith("direct_attributes/chelsea.json: ")
    why = "relative_position/nowhere.json: no picture of this name lies beside it"
    assert missing == ("relative_position_nowhere", why)


def mme(folder: Path, truths: str) -> Path:
    photographs(folder, count=1)
    common = {"Image": "astronaut.png", "Text": "What is the color of the cup?", "Answer choices": CHOICES}
    rows = [
        {**common, "Question_id": f"perception/cup/{number:04}", "Ground truth": truth}
        for number, truth in enumerate(truths, start=1)
    ]
    (folder / "MME.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder / "MME.json"


def test_of_mme_realworld_boxes_are_drawn_by_people_and_no_answer_is_never_made_true(tmp_path):
    path, first = mme(tmp_path, "BEA"), "perception_cup_0001"
    labels = [
        make_label((corners,), first, "boxes", dimension="target", minute=minute)
        for minute, corners in enumerate(((1, 1, 9, 9), (10, 20, 16, 30)))
    ]
    drawn = labelled_boxes([labels_file(tmp_path / "labels.jsonl", labels)])
    cup, none, undrawn = read_questions(path, drawn)
    assert isinstance(cup, VisualQuestion)
    assert (cup.id, cup.text, cup.answer) == (first, "What is the color of the cup?", "green")
    assert cup.options == ("white", "green", "red", "grey")
    assert [box.corners((96, 72)) for box in cup.boxes] == [(10, 20, 16, 30)]  # the later label
    assert "lacks boxes" in str(none)
    assert re.search("lacks boxes.*--labels", str(undrawn))
    drawn = {"perception_cup_0002": [[10, 20, 16, 30]]}
    assert "the answer 'E' is none of its options" in str(list(read_questions(path, drawn))[1])


@pytest.mark.parametrize(("text", "why"), [("{}", "without a list"), ("[]", "without a list"), ("[", "is not JSON")])
def test_a_json_file_of_something_else_is_refused(tmp_path, text, why):
    (tmp_path / "q.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=why):
        list(read_questions(tmp_path / "q.json"))
