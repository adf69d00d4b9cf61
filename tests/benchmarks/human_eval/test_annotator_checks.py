"""Annotators against themselves and against known answers."""

from collections import Counter
from typing import Any

import pytest

from editcritic.benchmarks.human_eval import annotation_plan
from editcritic.benchmarks.human_eval.annotation_plan import (
    LabelQuestion,
    QuestionType,
    check_annotators,
    known_answers,
    label_key,
    labels_to_check,
    without_void,
)

from .label_files import make_label, make_labels

ONE = (("one", "a"), ("two", "a"))


def test_a_pair_turned_round_is_the_same_answer():
    labels = [make_label("A", ONE, "pair"), make_label("B", ONE[::-1], "pair", phase="recheck")]
    (check,) = check_annotators(labels, {})
    assert (check.num_repeated, check.num_inconsistent, check.error_rate, check.needs_repeat) == (1, 0, 0.0, False)


def test_more_than_a_tenth_of_errors_means_again():
    labels = make_labels(["yes"] * 20) + make_labels(["no"] * 2 + ["yes"] * 18, phase="recheck")
    (check,) = check_annotators(labels, {})
    assert (check.error_rate, check.needs_repeat) == (0.1, False)
    known = known_answers(make_labels([None, None, "no", "no", "no"], by="us", phase="answer"))
    (check,) = check_annotators(labels, known)
    assert (check.num_known, check.num_wrong, check.is_void, check.needs_repeat) == (3, 3, True, False)
    text = "2 of 20 repeated questions have different answers, 3 of 3 differ from the known answer (100% errors"
    assert text in str(check)


@pytest.mark.parametrize(("wrong", "void"), [(10, False), (11, True)])
def test_a_dimension_is_void_for_whoever_has_more_than_a_tenth_of_the_checked_fifth_wrong(wrong, void):
    """I2I-Bench: of 510 labels 102 are checked; 10 wrong (9.8 %) stand, 11 (10.8 %) do not."""
    ann, bob = (make_labels(["yes"] * 510, by=name) for name in ("ann", "bob"))
    other = make_labels(["yes"] * 510, dimension="preservation")
    keys = labels_to_check(ann, 0.2)
    assert len(keys) == 102
    checked = [one for one in bob if label_key(one) in keys]
    answers = [make_label("no" if number < wrong else "yes", one.id, by="us") for number, one in enumerate(checked)]
    checks = check_annotators([*ann, *other], known_answers(answers))
    found = [(one.dimension, one.num_known, one.is_void) for one in checks]
    assert found == [("following", 102, void), ("preservation", 0, False)]
    kept = without_void([*ann, *bob, *other], checks)
    assert Counter((one.annotator, one.dimension) for one in kept) == {
        ("bob", "following"): 510,
        ("ann", "preservation"): 510,
        **({} if void else {("ann", "following"): 510}),
    }


def test_a_fifth_of_everyones_labels_of_each_dimension_is_checked():
    labels = [
        make_label("yes", f"{name}{n}", by=name, dimension=dimension)
        for name in ("ann", "bob")
        for dimension in ("following", "preservation")
        for n in range(10)
    ]
    labels += [make_label("no", f"ann{n}", phase="recheck") for n in range(10)]
    keys = labels_to_check(labels, 0.2)
    asked = Counter((one.annotator, one.dimension) for one in labels if one.phase == "main" and label_key(one) in keys)
    assert sorted(asked.values()) == [2] * 4
    assert labels_to_check(labels, 0.2, seed=1) != keys


def test_a_new_round_is_checked_by_itself():
    labels = [make_label("yes", "a"), make_label("no", "a", phase="recheck"), make_label("yes", "a", round=2)]
    (check,) = check_annotators(labels, {})
    assert check.error_rate is None


def test_what_is_known_are_answers_or_else_whatever_the_file_holds():
    def key(name):
        return LabelQuestion(QuestionType("yes-no", "following"), (("", name),)).key

    assert list(known_answers([make_label("yes", "a"), make_label("no", "b", phase="answer")])) == [key("b")]
    assert list(known_answers([make_label("yes", "a")])) == [key("a")]


def test_labels_are_not_gone_through_for_each_annotator(monkeypatch):
    """A file may have as many annotators as labels."""
    passes = []

    class Watched(list[Any]):
        def __iter__(self):
            passes.append(1)
            return super().__iter__()

    monkeypatch.setattr(annotation_plan, "effective_labels", Watched)
    assert len(check_annotators([make_label("yes", "0", by=f"person {number}") for number in range(50)], {})) == 50
    assert len(passes) < 5


def test_a_label_of_thousands_of_boxes_is_none():
    with pytest.raises(ValueError, match="a label has 4,000 boxes, more than 256"):
        make_label(((0, 0, 10, 10),) * 4_000, "0", "boxes")
