"""Annotation sessions: what is shown, what is saved, practice, repetitions, and answers that are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.human_eval.annotation_plan import QuestionType
from editcritic.benchmarks.human_eval.annotation_session import (
    AnnotationError,
    AnnotationSession,
    AnsweredElsewhere,
    clean_annotator_name,
)
from editcritic.benchmarks.human_eval.annotator_checks import known_answers
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.human_eval.shown_questions import Feedback, ShownQuestion
from editcritic.benchmarks.suites.human_labels import LabelAnswer, effective_labels, read_labels

from ..suites.tiny_suite import Toy, outputs

Choose = Callable[[ShownQuestion], LabelAnswer]


@dataclass
class Opened:
    """Opens sessions about three editors' images of four chains, all with one label file."""

    folder: Path

    def __post_init__(self) -> None:
        self.suite = Toy(count=4)
        self.labels = self.folder / "labels.jsonl"
        self.editors = {name: outputs(self.folder / name, self.suite) for name in ("one", "two", "three")}
        for name, folder in self.editors.items():  # so that editors differ
            for path in folder.glob("*.png"):
                shade = {"one": 10, "two": 120, "three": 240}[name]
                PIL.Image.new("RGB", (32, 32), (shade, int(path.stem[0]), int(path.stem[-1]))).save(path)

    def __call__(self, *types: str, editors: Sequence[str] = ("one", "two"), **options: Any) -> AnnotationSession:
        pool = SuitePool(self.suite, {name: self.editors[name] for name in editors})
        questions = pool.questions([QuestionType.parse(text) for text in types or ("pair:overall",)])
        return AnnotationSession(pool, questions, self.labels, **{"practice_questions": 0, **options})


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def asked(session: AnnotationSession, annotator: str = "ann", number: int | None = None) -> ShownQuestion:
    """A question that there is."""
    question = session.question(annotator, number)
    assert question is not None
    return question


def answered(session: AnnotationSession, choose: Choose, annotator: str = "ann") -> list[ShownQuestion]:
    """Answer every question; returns them."""
    return list(_answering(session, choose, annotator))


def _answering(session: AnnotationSession, choose: Choose, annotator: str) -> Iterator[ShownQuestion]:
    while (question := session.question(annotator)) is not None:
        session.submit(annotator, question.number, choose(question), 1.0, revision=question.revision)
        yield question


def test_an_annotator_goes_through_to_the_end_and_every_answer_is_in_the_file(opened: Opened) -> None:
    session = opened(practice_questions=2, clock=lambda: datetime(2026, 3, 1, tzinfo=timezone.utc))
    questions = answered(session, lambda question: "left")
    assert [question.is_practice for question in questions] == [True] * 2 + [False] * 7  # 6 of 8, a fifth again
    labels = read_labels([opened.labels])
    assert len(labels) == 9
    assert {label.phase for label in labels} == {"trial", "main", "recheck"}
    assert all(label.label == ("B" if label.swapped else "A") for label in labels)
    assert {label.swapped for label in labels} == {True, False}
    assert len(session.checks("ann")) == 1


def test_which_editor_is_on_which_side_is_not_told_and_the_label_knows(opened: Opened) -> None:
    def darker(question: ShownQuestion) -> LabelAnswer:
        shades = {shown.role: int(shown.image.pixels[0, 0, 0]) for shown in question.pictures}
        assert not {"one", "two"} & set(repr(question).replace("'", " ").split())
        return "left" if shades["left"] < shades["right"] else "right"

    answered(opened(), darker)
    assert {label.label for label in read_labels([opened.labels])} == {"A"}  # `one` is the darker editor


def test_every_label_is_on_the_disk_before_it_is_acknowledged(opened: Opened) -> None:
    session = opened()
    for number in range(3):
        session.submit("ann", number, "tie", 1.0)
        assert len(read_labels([opened.labels])) == number + 1


def test_the_same_file_goes_on_where_it_was_left(opened: Opened) -> None:
    session = opened()
    for _ in range(3):
        session.submit("ann", asked(session).number, "tie", 1.0)
    again = opened()
    assert asked(again).number == 3
    assert again.annotators == ["ann"]
    assert asked(again, "bob").number == 0


def test_a_question_can_be_answered_anew_and_the_last_answer_counts(opened: Opened) -> None:
    session = opened("yes-no:following", editors=("one",))
    session.submit("ann", 0, "yes", 1.0)
    session.submit("ann", 1, "yes", 1.0)
    before = asked(session, number=0)
    assert (before.previous_answer, before.revision) == ("yes", 1)
    session.submit("ann", 0, "no", 1.0, "a slip", revision=1)
    assert asked(session).number == 2
    assert asked(session, number=0).note == "a slip"
    assert [label.label for label in effective_labels(read_labels([opened.labels]))] == ["yes", "no"]


def test_a_double_click_or_a_second_window_does_not_label_twice(opened: Opened) -> None:
    session = opened()
    one_window, other_window = asked(session), asked(session)
    session.submit("ann", one_window.number, "left", 1.0, revision=one_window.revision)
    with pytest.raises(AnsweredElsewhere, match="already"):
        session.submit("ann", other_window.number, "right", 1.0, revision=other_window.revision)
    assert len(read_labels([opened.labels])) == 1
    again = asked(opened(), number=0)  # the file has the revision, too
    assert again.revision == 1


def test_pairs_asked_twice_are_shown_the_other_way_round_and_not_as_a_second_time(opened: Opened) -> None:
    session = opened(recheck_share=1.0)
    questions = answered(session, lambda question: "left")
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
    answered(session, lambda question: "left")
    assert session.repeat_dimension("ann", "pair", "overall") == 2
    answered(session, lambda question: "tie")
    assert session.checks("ann")[0].needs_repeat is False
    labels = effective_labels(read_labels([opened.labels]))
    assert {(label.label, label.round) for label in labels} == {("tie", 2)}
    assert opened(recheck_share=0.5).question("ann") is None  # the second round, too, is known from the file


def test_a_void_dimension_goes_to_another_annotator(opened: Opened) -> None:
    answered(opened("yes-no:following", editors=("one",)), lambda question: "yes")
    answers = [label.model_copy(update={"label": "no"}) for label in read_labels([opened.labels])]
    session = opened("yes-no:following", editors=("one",), known_answers=known_answers(answers))
    answered(session, lambda question: "yes")
    with pytest.raises(AnnotationError, match=r"8 of 8 differ from the known answer .* void, another annotator"):
        session.repeat_dimension("ann", "yes-no", "following")
    assert session.question("bob") is not None


def test_practice_is_held_against_the_known_answer_or_against_others(opened: Opened) -> None:
    session = opened("yes-no:following", editors=("one",), practice_questions=2)
    assert session.submit("ann", 0, "yes", 1.0) == Feedback(None, None, "", "none")
    answered(session, lambda question: "yes")
    majority = session.submit("bob", 0, "no", 1.0)
    assert majority == Feedback(False, "yes", "", "majority")
    known = known_answers([label for label in session.labels if label.annotator == "ann"])
    right = opened("yes-no:following", editors=("one",), practice_questions=2, known_answers=known)
    feedback = right.submit("eve", asked(right, "eve").number, "no", 1.0)
    assert feedback == Feedback(False, "yes", "", "gold")


def test_boxes_are_kept_in_pixels_of_the_source_and_refused_outside_of_it(opened: Opened) -> None:
    session = opened("boxes:target", editors=())
    assert [one.role for one in asked(session).pictures] == ["source"]
    session.submit("ann", 0, ((1.0, 2.0, 30.0, 32.0),), 1.0)
    session.submit("ann", 1, (), 1.0)
    with pytest.raises(AnnotationError, match="outside its 32 x 32 image"):
        session.submit("ann", 2, ((0.0, 0.0, 33.0, 5.0),), 1.0)
    assert [label.label for label in read_labels([opened.labels])] == [((1.0, 2.0, 30.0, 32.0),), ()]


def test_a_question_whose_picture_cannot_be_read_is_passed_over(opened: Opened) -> None:
    session = opened("yes-no:following", editors=("one",), recheck_share=0)
    for path in opened.editors["one"].glob("*.png"):
        if path.stem != "0_turn_1":
            path.write_bytes(b"no picture")
    questions = answered(session, lambda question: "yes")
    assert [question.instruction for question in questions] == ["Make it number 1"]
    assert len(session.unreadable("ann")) == 7


def test_several_annotators_at_once_lose_nothing(opened: Opened) -> None:
    session = opened(recheck_share=0)
    with ThreadPoolExecutor(4) as people:
        list(people.map(lambda name: answered(session, lambda question: "tie", name), ["a", "b", "c", "d"]))
    labels = read_labels([opened.labels])
    assert {name: sum(label.annotator == name for label in labels) for name in "abcd"} == dict.fromkeys("abcd", 8)


@pytest.mark.parametrize(
    ("number", "answer", "message"),
    [
        (0, "yes", "left, right or tie"),
        (0, (), "left, right or tie"),
        (5, "left", "there is no question 5"),
        (-1, "left", "there is no question -1"),
        (10**9, "left", "there is no question"),
    ],
)
def test_what_is_no_answer_is_refused_and_nothing_is_written(
    opened: Opened, number: int, answer: LabelAnswer, message: str
) -> None:
    session = opened()
    with pytest.raises(AnnotationError, match=message):
        session.submit("ann", number, answer, 1.0)
    with pytest.raises(AnnotationError, match="note"):
        session.submit("ann", 0, "left", 1.0, "x" * 2001)
    assert read_labels([opened.labels]) == []


def test_seconds_are_bounded(opened: Opened) -> None:
    session = opened()
    session.submit("ann", 0, "left", 1e9)
    session.submit("ann", 1, "left", -5)
    assert [label.seconds for label in read_labels([opened.labels])] == [86_400, 0]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 101, "\x1b[31m"])
def test_names_are_short_and_printable(name: str) -> None:
    with pytest.raises(AnnotationError, match="printable"):
        clean_annotator_name(name)
