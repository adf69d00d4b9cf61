"""The annotation plan, and the checks of annotators."""

from collections import Counter
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval import annotator_checks
from editcritic.benchmarks.human_eval.annotation_plan import (
    LabelQuestion,
    QuestionType,
    annotation_order,
    editor_sets,
    label_key,
)
from editcritic.benchmarks.human_eval.annotator_checks import (
    check_annotators,
    known_answers,
    labels_to_check,
    without_void,
)
from editcritic.benchmarks.human_eval.question_pools import SuitePool

from ..suites.tiny_suite import Toy, outputs
from .label_files import make_label

PAIRS = [QuestionType("pair", "following"), QuestionType("pair", "overall")]


@pytest.fixture
def pool(tmp_path):
    suite = Toy(count=10)
    return SuitePool(suite, {name: outputs(tmp_path / name, suite) for name in ("one", "two", "three")})


def schedule_of(pool, about, **options):
    return annotation_order(pool.questions(about), "ann", **options)


def test_every_two_editors_are_compared_on_every_item(pool):
    questions = pool.questions([QuestionType("pair", "overall")])
    assert len(questions) == 20 * 3
    assert len({question.key for question in questions}) == 60


def test_items_without_a_picture_or_whose_start_is_missing_are_left_out_and_said(tmp_path):
    suite = Toy(count=2)
    pool = SuitePool(suite, {"one": outputs(tmp_path / "one", suite, without=["0/1"])})
    questions = pool.questions([QuestionType("yes-no", "following")])
    assert [question.item_keys for question in questions] == [(("one", "1/1"),), (("one", "1/2"),)]
    assert pool.skipped == ["one has no image 0_turn_1"] * 2


def test_a_trial_comes_first_and_is_not_asked_again(pool):
    schedule = schedule_of(pool, PAIRS, practice_questions=30)
    assert [scheduled.phase for scheduled in schedule[:30]] == ["trial"] * 30
    assert "trial" not in [scheduled.phase for scheduled in schedule[30:]]
    practised = {scheduled.question.key for scheduled in schedule[:30]}
    assert not practised & {scheduled.question.key for scheduled in schedule[30:]}
    assert (
        len(annotation_order(pool.questions(PAIRS)[:9], "ann", practice_questions=30)) == 3 + 6 + 1
    )  # a third, the rest, a fifth of it again


def test_one_dimension_at_a_time_and_the_whole_impression_last(pool):
    dimensions = [
        scheduled.question.question_type.dimension
        for scheduled in schedule_of(pool, PAIRS[::-1])
        if scheduled.phase != "trial"
    ]
    assert dimensions == sorted(dimensions)  # following, then overall
    assert set(dimensions) == {"following", "overall"}


def test_a_fifth_comes_again_later_with_sides_swapped(pool):
    schedule = schedule_of(pool, PAIRS, practice_questions=0)
    first = {
        scheduled.question.key: (position, scheduled)
        for position, scheduled in enumerate(schedule)
        if scheduled.phase == "main"
    }
    rechecks = [(position, scheduled) for position, scheduled in enumerate(schedule) if scheduled.phase == "recheck"]
    assert len(rechecks) == 24  # of 120
    for position, scheduled in rechecks:
        before, original = first[scheduled.question.key]
        assert position > before
        assert scheduled.swapped is not original.swapped
    assert len({scheduled.question.key for _, scheduled in rechecks}) == 24


def test_sides_are_swapped_about_half_the_time_and_orders_are_an_annotators_own(pool):
    schedule = schedule_of(pool, PAIRS)
    assert 0.3 < sum(scheduled.swapped for scheduled in schedule) / len(schedule) < 0.7
    questions = pool.questions(PAIRS)
    assert annotation_order(questions, "ann") == schedule
    assert annotation_order(questions, "bob") != schedule
    assert annotation_order(questions, "ann", seed=1) != schedule


def test_questions_with_a_known_answer_are_practised_and_asked_twice_first(pool):
    questions = pool.questions([PAIRS[0]])
    known_keys = frozenset(question.key for question in questions[:20])
    schedule = annotation_order(questions, "ann", practice_questions=10, known_keys=known_keys)
    assert all(
        scheduled.question.key in known_keys for scheduled in schedule if scheduled.phase in ("trial", "recheck")
    )
    assert Counter(scheduled.phase for scheduled in schedule) == {"trial": 10, "main": 50, "recheck": 10}


@pytest.mark.parametrize("text", ["pair", "pairs:overall", "pair:", ":overall"])
def test_what_is_no_kind_is_refused(text):
    with pytest.raises(InputError, match="KIND:DIMENSION"):
        QuestionType.parse(text)


def test_nothing_to_ask_is_an_error(pool):
    with pytest.raises(InputError, match=r"nothing to ask about reference; 0/1 has no reference"):
        pool.questions([QuestionType("reference", "reference")])


def test_so_many_items_are_drawn_by_seed(pool):
    some = pool.questions([QuestionType("yes-no", "following")], items=4)
    assert len({question.item_keys[0][1] for question in some}) == 4
    assert some != pool.questions([QuestionType("yes-no", "following")], items=4, seed=1)


# -- checks ------------------------------------------------------------------------------------------------------------

ONE = (("one", "a"), ("two", "a"))


def test_a_pair_turned_round_is_the_same_answer():
    labels = [make_label("A", ONE, "pair"), make_label("B", ONE[::-1], "pair", phase="recheck")]
    (check,) = check_annotators(labels, {})
    assert (check.num_repeated, check.num_inconsistent, check.error_rate, check.needs_repeat) == (1, 0, 0.0, False)


def test_more_than_a_tenth_of_errors_means_again():
    labels = [make_label("yes", f"{n}") for n in range(20)]
    labels += [make_label("no" if n < 2 else "yes", f"{n}", phase="recheck") for n in range(20)]
    (check,) = check_annotators(labels, {})
    assert (check.error_rate, check.needs_repeat) == (0.1, False)
    known = known_answers([make_label("no", f"{n}", by="us", phase="answer") for n in range(2, 5)])
    (check,) = check_annotators(labels, known)
    assert (check.num_known, check.num_wrong, check.is_void, check.needs_repeat) == (3, 3, True, False)
    assert "2 of 20 repeated questions have different answers, 3 of 3 differ from the known answer (100% errors" in str(
        check
    )


def test_a_dimension_is_void_for_whoever_has_more_than_a_tenth_of_the_checked_fifth_wrong():
    """I2I-Bench: of 510 labels 102 are checked; 10 wrong (9.8 %) stand, 11 (10.8 %) do not."""
    for wrong, void in ((10, False), (11, True)):
        labels = [make_label("yes", f"{n}", by=name) for n in range(510) for name in ("ann", "bob")]
        labels += [make_label("yes", f"{n}", dimension="preservation") for n in range(510)]
        keys = labels_to_check([one for one in labels if one.dimension == "following" and one.annotator == "ann"], 0.2)
        assert len(keys) == 102
        checked = [one for one in labels if one.annotator == "bob" and label_key(one) in keys]
        answers = [make_label("no" if number < wrong else "yes", one.id, by="us") for number, one in enumerate(checked)]
        own = [one for one in labels if one.annotator == "ann"]
        checks = check_annotators(own, known_answers(answers))
        assert [(one.dimension, one.num_known, one.is_void) for one in checks] == [
            ("following", 102, void),
            ("preservation", 0, False),
        ]
        kept = without_void(labels, checks)
        assert len(kept) == (1020 if void else 1530)
        assert {one.annotator for one in kept if one.dimension == "following"} == ({"bob"} if void else {"ann", "bob"})


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
    assert set(asked.values()) == {2}
    assert len(asked) == 4
    assert labels_to_check(labels, 0.2, seed=1) != keys


def test_each_dimension_has_its_own_four_of_nine_editors():
    dimensions, editors = [f"d{n}" for n in range(15)], [f"e{n}" for n in range(9)]
    sets = editor_sets(dimensions, editors, 4)
    assert list(sets) == dimensions
    assert {len(set(chosen)) for chosen in sets.values()} == {4}
    assert len({frozenset(chosen) for chosen in sets.values()}) == 15
    assert editor_sets(dimensions, editors, 4, seed=1) != sets
    for few, size in ((editors[:5], 4), (editors[:3], 4), (editors, 1)):
        with pytest.raises(InputError, match=rf"{len(few)} editors have \d+ sets of {size} for 15 dimensions"):
            editor_sets(dimensions, few, size)


def test_nine_editors_are_six_questions_an_item_instead_of_thirty_six(tmp_path):
    suite = Toy(count=1)
    editors = {f"e{n}": outputs(tmp_path / f"e{n}", suite) for n in range(9)}
    items = len(suite.items)
    assert len(SuitePool(suite, editors).questions(PAIRS[:1])) == 36 * items
    questions = SuitePool(suite, editors, editors_per_dimension=4).questions(PAIRS)
    compared = {
        one.dimension: {editor for q in questions if q.question_type == one for editor, _ in q.item_keys}
        for one in PAIRS
    }
    assert Counter(one.question_type for one in questions) == dict.fromkeys(PAIRS, 6 * items)
    assert [len(chosen) for chosen in compared.values()] == [4, 4]
    assert compared["following"] != compared["overall"]


def test_a_new_round_is_checked_by_itself():
    labels = [make_label("yes", "a"), make_label("no", "a", phase="recheck"), make_label("yes", "a", round=2)]
    (check,) = check_annotators(labels, {})
    assert check.error_rate is None


def test_what_is_known_are_answers_or_else_whatever_the_file_holds():
    assert list(known_answers([make_label("yes", "a"), make_label("no", "b", phase="answer")])) == [
        label_key(make_label("no", "b"))
    ]
    assert list(known_answers([make_label("yes", "a")])) == [
        LabelQuestion(QuestionType("yes-no", "following"), (("", "a"),)).key
    ]


def test_labels_are_not_gone_through_for_each_annotator(monkeypatch):
    """A file may have as many annotators as labels."""
    passes = []

    class Watched(list[Any]):
        def __iter__(self):
            passes.append(1)
            return super().__iter__()

    monkeypatch.setattr(annotator_checks, "effective_labels", Watched)
    labels = [make_label("yes", "0", by=f"person {number}") for number in range(50)]
    assert len(check_annotators(labels, {})) == 50
    assert len(passes) < 5


def test_a_label_of_thousands_of_boxes_is_none():
    with pytest.raises(ValueError, match="a label has 4,000 boxes, more than 256"):
        make_label(((0, 0, 10, 10),) * 4_000, "0", "boxes")
