"""Annotation sessions: what is shown, what is saved, practice, repetitions, and answers that are refused."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.human_eval.annotation_schedule import QuestionType, known_answers
from editcritic.benchmarks.human_eval.annotation_session import (
    AnnotationError,
    AnnotationSession,
    AnsweredElsewhere,
    clean_annotator_name,
)
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.human_eval.shown_questions import Feedback, ShownQuestion
from editcritic.benchmarks.suites.human_labels import Label, LabelAnswer, effective_labels, read_labels

from ..suites.tiny_suite import Toy, outputs
from .label_files import make_label

Choose = Callable[[ShownQuestion], LabelAnswer]
SHADES = {"one": 10, "two": 120, "three": 240}


class Opened:
    """Opens sessions about three editors' images of four chains, all with one label file."""

    def __init__(self, folder: Path) -> None:
        self.suite = Toy(count=4)
        self.path = folder / "labels.jsonl"
        self.editors = {name: outputs(folder / name, self.suite) for name in SHADES}
        for name, images in self.editors.items():  # so that editors differ
            for path in images.glob("*.png"):
                colour = (SHADES[name], int(path.stem[0]), int(path.stem[-1]))
                PIL.Image.new("RGB", (32, 32), colour).save(path)

    def __call__(self, *types: str, editors: Sequence[str] = ("one", "two"), **options: Any) -> AnnotationSession:
        pool = SuitePool(self.suite, {name: self.editors[name] for name in editors})
        questions = pool.questions([QuestionType.parse(text) for text in types or ("pair:overall",)])
        return AnnotationSession(pool, questions, self.path, **{"practice_questions": 0, **options})

    def yes_no(self, **options: Any) -> AnnotationSession:
        return self("yes-no:following", editors=("one",), **options)

    @property
    def labels(self) -> list[Label]:
        return read_labels([self.path])


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def question_shown(session: AnnotationSession, annotator: str = "ann", number: int | None = None) -> Any:
    return session.question(annotator, number)


def answered(session: AnnotationSession, answer: LabelAnswer | Choose, by: str = "ann") -> list[ShownQuestion]:
    """Answer every question; returns them."""
    questions = []
    while (question := session.question(by)) is not None:
        chosen = answer(question) if callable(answer) else answer
        session.submit(by, question.number, chosen, 1.0, revision=question.revision)
        questions.append(question)
    return questions


def test_an_annotator_goes_through_to_the_end_and_every_answer_is_in_the_file(opened: Opened) -> None:
    keys = [one.item_keys for one in opened().questions[:2]]
    known = known_answers([make_label("A", one, "pair", dimension="overall") for one in keys])
    session = opened(practice_questions=2, known_answers=known, clock=lambda: datetime(2026, 3, 1, tzinfo=timezone.utc))
    questions = answered(session, "left")
    assert [question.is_practice for question in questions] == [True] * 2 + [False] * 7  # 6 of 8, a fifth again
    assert (len(opened.labels), {label.phase for label in opened.labels}) == (9, {"trial", "main", "recheck"})
    assert {(label.label, label.swapped) for label in opened.labels} == {("B", True), ("A", False)}
    assert len(session.checks("ann")) == 1


def test_which_editor_is_on_which_side_is_not_told_and_the_label_knows(opened: Opened) -> None:
    def darker(question: ShownQuestion) -> LabelAnswer:
        shades = {shown.role: int(shown.image.pixels[0, 0, 0]) for shown in question.pictures}
        assert not {"one", "two"} & set(repr(question).replace("'", " ").split())
        return "left" if shades["left"] < shades["right"] else "right"

    answered(opened(), darker)
    assert {label.label for label in opened.labels} == {"A"}  # `one` is the darker editor


def test_every_label_is_on_the_disk_before_it_is_acknowledged_and_the_same_file_goes_on(opened: Opened) -> None:
    session = opened()
    for number in range(3):
        session.submit("ann", question_shown(session).number, "tie", 1.0)
        assert len(opened.labels) == number + 1
    again = opened()
    assert (question_shown(again).number, question_shown(again, "bob").number, again.annotators) == (3, 0, ["ann"])


def test_a_question_can_be_answered_anew_and_the_last_answer_counts(opened: Opened) -> None:
    session = opened.yes_no()
    for number in (0, 1):
        session.submit("ann", number, "yes", 1.0)
    before = question_shown(session, number=0)
    assert (before.previous_answer, before.revision) == ("yes", 1)
    session.submit("ann", 0, "no", 1.0, "a slip", revision=1)
    assert (question_shown(session).number, question_shown(session, number=0).note) == (2, "a slip")
    assert [label.label for label in effective_labels(opened.labels)] == ["yes", "no"]


def test_a_double_click_or_a_second_window_does_not_label_twice(opened: Opened) -> None:
    session = opened()
    one_window, other_window = question_shown(session), question_shown(session)
    session.submit("ann", one_window.number, "left", 1.0, revision=one_window.revision)
    with pytest.raises(AnsweredElsewhere, match="already"):
        session.submit("ann", other_window.number, "right", 1.0, revision=other_window.revision)
    assert len(opened.labels) == 1
    assert question_shown(opened(), number=0).revision == 1  # the file has the revision, too


def test_pairs_asked_twice_are_shown_the_other_way_round_and_not_as_a_second_time(opened: Opened) -> None:
    session = opened(recheck_share=1.0)
    questions = answered(session, "left")
    assert {question.is_practice for question in questions} == {False}
    shown = [{p.role: p.image.digest for p in question.pictures} for question in questions]
    assert sum(a["left"] == b["right"] and a["right"] == b["left"] for a in shown for b in shown) == 16
    (check,) = session.checks("ann")
    assert (check.num_repeated, check.num_inconsistent, check.needs_repeat) == (8, 8, True)  # never the same editor


def test_a_dimension_with_many_errors_is_asked_anew_and_only_the_last_round_counts(opened: Opened) -> None:
    session = opened(recheck_share=0.5)
    session.submit("ann", 0, "left", 1.0)
    with pytest.raises(AnnotationError, match="unanswered questions"):
        session.repeat_dimension("ann", "pair", "overall")
    answered(session, "left")
    assert session.repeat_dimension("ann", "pair", "overall") == 2
    answered(session, "tie")
    assert session.checks("ann")[0].needs_repeat is False
    assert {(label.label, label.round) for label in effective_labels(opened.labels)} == {("tie", 2)}
    assert opened(recheck_share=0.5).question("ann") is None  # the second round, too, is known from the file


def test_a_void_dimension_goes_to_another_annotator(opened: Opened) -> None:
    answered(opened.yes_no(), "yes")
    answers = [label.model_copy(update={"label": "no"}) for label in opened.labels]
    session = opened.yes_no(known_answers=known_answers(answers))
    answered(session, "yes")
    with pytest.raises(AnnotationError, match=r"8 of 8 differ from the known answer .* void, another annotator"):
        session.repeat_dimension("ann", "yes-no", "following")
    assert session.question("bob") is not None


def test_practice_is_held_against_the_known_answer_and_left_out_without_one(opened: Opened) -> None:
    session = opened.yes_no(practice_questions=2)
    assert session.num_practice == 0
    assert session.submit("ann", 0, "yes", 1.0, "a halo") is None
    right = opened.yes_no(practice_questions=2, known_answers=known_answers(session.labels))
    assert right.num_practice == 1
    assert right.submit("eve", question_shown(right, "eve").number, "no", 1.0) == Feedback(False, "yes", "a halo")
    assert right.submit("bob", question_shown(right, "bob").number, "yes", 1.0) == Feedback(True, "yes", "a halo")
    assert not question_shown(right, "eve").is_practice


def test_boxes_are_kept_in_pixels_of_the_source_and_refused_outside_of_it(opened: Opened) -> None:
    session = opened("boxes:target", editors=())
    assert [one.role for one in question_shown(session).pictures] == ["source"]
    for number, boxes in enumerate([((1.0, 2.0, 30.0, 32.0),), ()]):
        session.submit("ann", number, boxes, 1.0)
    with pytest.raises(AnnotationError, match="outside its 32 x 32 image"):
        session.submit("ann", 2, ((0.0, 0.0, 33.0, 5.0),), 1.0)
    assert [label.label for label in opened.labels] == [((1.0, 2.0, 30.0, 32.0),), ()]


def test_a_question_whose_picture_cannot_be_read_is_passed_over(opened: Opened) -> None:
    session = opened.yes_no(recheck_share=0)
    for path in opened.editors["one"].glob("*.png"):
        if path.stem != "0_turn_1":
            path.write_bytes(b"no picture")
    assert [question.instruction for question in answered(session, "yes")] == ["Make it number 1"]
    assert len(session.unreadable("ann")) == 7


def test_several_annotators_at_once_lose_nothing(opened: Opened) -> None:
    session = opened(recheck_share=0)
    with ThreadPoolExecutor(4) as people:
        list(people.map(lambda name: answered(session, "tie", name), "abcd"))
    assert sorted(label.annotator for label in opened.labels) == sorted("abcd" * 8)


NO_ANSWERS: dict[str, list[tuple[int, LabelAnswer, str]]] = {
    "left, right or tie": [(0, "yes", ""), (0, (), "")],
    "there is no question": [(5, "left", ""), (-1, "left", ""), (10**9, "left", "")],
    "note": [(0, "left", "x" * 2001)],
}


@pytest.mark.parametrize("says", NO_ANSWERS)
def test_what_is_no_answer_is_refused_and_nothing_is_written(opened: Opened, says: str) -> None:
    session = opened()
    for number, answer, note in NO_ANSWERS[says]:
        with pytest.raises(AnnotationError, match=says):
            session.submit("ann", number, answer, 1.0, note)
    assert opened.labels == []


def test_seconds_are_bounded(opened: Opened) -> None:
    session = opened()
    for number, seconds in enumerate((1e9, -5)):
        session.submit("ann", number, "left", seconds)
    assert [label.seconds for label in opened.labels] == [86_400, 0]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, "\x1b[31m"])
def test_names_are_short_and_printable(name: str) -> None:
    with pytest.raises(AnnotationError, match="printable"):
        clean_annotator_name(name)
