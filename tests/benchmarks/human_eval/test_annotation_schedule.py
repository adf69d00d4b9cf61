"""Questions in an annotator's order."""

from collections import Counter
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval import annotation_schedule
from editcritic.benchmarks.human_eval.annotation_schedule import (
    LabelQuestion,
    QuestionType,
    annotation_order,
    check_annotators,
    editor_sets,
    known_answers,
    label_key,
    labels_to_check,
    without_void,
)
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from tests.benchmarks.human_eval.label_files import make_label, make_labels
from tests.benchmarks.suites.tiny_suite import Toy, outputs

FOLLOWING, OVERALL = PAIRS = [QuestionType("pair", "following"), QuestionType("pair", "overall")]
YES_NO = QuestionType("yes-no", "following")


@pytest.fixture
def pool(tmp_path):
    suite = Toy(count=10)
    return SuitePool(suite, {name: outputs(tmp_path / name, suite) for name in ("one", "two", "three")})


def keys(schedule, *phases):
    return [scheduled.question.key for scheduled in schedule if scheduled.phase in phases]


def test_items_without_a_picture_or_whose_start_is_missing_are_left_out_and_said(tmp_path):
    suite = Toy(count=2)
    pool = SuitePool(suite, {"one": outputs(tmp_path / "one", suite, without=["0/1"])})
    assert [question.item_keys for question in pool.questions([YES_NO])] == [(("one", "1/1"),), (("one", "1/2"),)]
    assert pool.skipped == ["one has no image 0_turn_1"] * 2


def test_a_trial_comes_first_and_is_not_asked_again(pool):
    questions = pool.questions(PAIRS)
    known = frozenset(question.key for question in questions)
    schedule = annotation_order(questions, "ann", practice_questions=30, known_keys=known)
    assert {scheduled.phase for scheduled in schedule[:30]} == {"trial"}
    assert set(keys(schedule, "trial")).isdisjoint(keys(schedule[30:], "main", "recheck"))
    assert Counter(key[1] for key in keys(schedule, "trial")) == {"following": 15, "overall": 15}
    # A third, the rest, a fifth of it again.
    assert len(annotation_order(questions[:9], "ann", practice_questions=30, known_keys=known)) == 3 + 6 + 1


def test_one_dimension_at_a_time_and_the_whole_impression_last(pool):
    schedule = annotation_order(pool.questions(PAIRS[::-1]), "ann")
    asked = [one.question.question_type.dimension for one in schedule if one.phase != "trial"]
    assert (asked, set(asked)) == (sorted(asked), {"following", "overall"})


def test_a_fifth_comes_again_later_with_sides_swapped(pool):
    schedule = annotation_order(pool.questions(PAIRS), "ann", practice_questions=0)
    first = {one.question.key: (position, one) for position, one in enumerate(schedule) if one.phase == "main"}
    for position, again in enumerate(schedule):
        if again.phase == "recheck":
            before, original = first[again.question.key]
            assert position > before
            assert again.swapped is not original.swapped
    rechecks = keys(schedule, "recheck")
    assert len(rechecks) == len(set(rechecks)) == 24  # of 120


def test_sides_are_swapped_about_half_the_time_and_orders_are_an_annotators_own(pool):
    questions = pool.questions(PAIRS)
    schedule = annotation_order(questions, "ann")
    assert 0.3 < sum(scheduled.swapped for scheduled in schedule) / len(schedule) < 0.7
    assert annotation_order(questions, "ann") == schedule
    assert annotation_order(questions, "bob") != schedule
    assert annotation_order(questions, "ann", seed=1) != schedule


def test_questions_with_a_known_answer_are_practised_and_asked_twice_first(pool):
    questions = pool.questions([FOLLOWING])
    known = frozenset(question.key for question in questions[:20])
    schedule = annotation_order(questions, "ann", practice_questions=10, known_keys=known)
    assert known.issuperset(keys(schedule, "trial", "recheck"))
    assert Counter(scheduled.phase for scheduled in schedule) == {"trial": 10, "main": 50, "recheck": 10}
    few = frozenset([*known][:3])  # others would teach nothing
    assert few == {*keys(annotation_order(questions, "ann", practice_questions=10, known_keys=few), "trial")}
    assert not keys(annotation_order(questions, "ann", practice_questions=10), "trial")


@pytest.mark.parametrize("text", ["pair", "pairs:overall", "pair:", ":overall"])
def test_what_is_no_kind_is_refused(text):
    with pytest.raises(InputError, match="KIND:DIMENSION"):
        QuestionType.parse(text)


def test_nothing_to_ask_is_an_error(pool):
    with pytest.raises(InputError, match=r"nothing to ask about reference; 0/1 has no reference"):
        pool.questions([QuestionType("reference", "reference")])


def test_so_many_items_are_drawn_by_seed(pool):
    some = pool.questions([YES_NO], items=4)
    assert len({question.item_keys[0][1] for question in some}) == 4
    assert some != pool.questions([YES_NO], items=4, seed=1)


def test_each_dimension_has_its_own_four_of_nine_editors():
    dimensions, editors = [f"d{n}" for n in range(15)], [f"e{n}" for n in range(9)]
    sets = editor_sets(dimensions, editors, 4)
    assert (list(sets), {len(set(chosen)) for chosen in sets.values()}) == (dimensions, {4})
    assert len({frozenset(chosen) for chosen in sets.values()}) == 15
    assert editor_sets(dimensions, editors, 4, seed=1) != sets
    for few, size in ((editors[:5], 4), (editors[:3], 4), (editors, 1)):
        with pytest.raises(InputError, match=rf"{len(few)} editors have \d+ sets of {size} for 15 dimensions"):
            editor_sets(dimensions, few, size)


def test_nine_editors_are_six_questions_an_item_instead_of_thirty_six(tmp_path):
    suite = Toy(count=1)
    editors = {f"e{n}": outputs(tmp_path / f"e{n}", suite) for n in range(9)}
    items = len(suite.items)
    assert len(SuitePool(suite, editors).questions([FOLLOWING])) == 36 * items
    questions = SuitePool(suite, editors, editors_per_dimension=4).questions(PAIRS)
    assert Counter(one.question_type for one in questions) == dict.fromkeys(PAIRS, 6 * items)
    one, other = ({e for q in questions if q.question_type == kind for e, _ in q.item_keys} for kind in PAIRS)
    assert len(one) == len(other) == 4
    assert one != other


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

    monkeypatch.setattr(annotation_schedule, "effective_labels", Watched)
    assert len(check_annotators([make_label("yes", "0", by=f"person {number}") for number in range(50)], {})) == 50
    assert len(passes) < 5


def test_a_label_of_thousands_of_boxes_is_none():
    with pytest.raises(ValueError, match="a label has 4,000 boxes, more than 256"):
        make_label(((0, 0, 10, 10),) * 4_000, "0", "boxes")
