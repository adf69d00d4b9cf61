"""What people are asked, in which order, and whether their labels can be relied on."""

from collections import Counter

import pytest

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.people.checks import answers, checks
from editcritic.benchmarks.people.questions import About, Pool, Question, key_of, order

from ..suites.toy import Toy, outputs
from .made import said

PAIRS = [About("pair", "following"), About("pair", "overall")]


@pytest.fixture
def pool(tmp_path):
    suite = Toy(count=10)
    return Pool(suite, {name: outputs(tmp_path / name, suite) for name in ("one", "two", "three")})


def asked_of(pool, about, **options):
    return order(pool.questions(about), "ann", **options)


def test_every_two_editors_are_compared_on_every_item(pool):
    found = pool.questions([About("pair", "overall")])
    assert len(found) == 20 * 3
    assert len({question.key for question in found}) == 60


def test_items_without_a_picture_or_whose_start_is_missing_are_left_out_and_said(tmp_path):
    suite = Toy(count=2)
    pool = Pool(suite, {"one": outputs(tmp_path / "one", suite, without=["0/1"])})
    found = pool.questions([About("yes-no", "following")])
    assert [question.on for question in found] == [(("one", "1/1"),), (("one", "1/2"),)]
    assert pool.skipped == ["one has no picture 0_turn_1"] * 2


def test_a_trial_comes_first_and_is_not_asked_again(pool):
    found = asked_of(pool, PAIRS, trial=30)
    assert [one.phase for one in found[:30]] == ["trial"] * 30
    assert "trial" not in [one.phase for one in found[30:]]
    practised = {one.question.key for one in found[:30]}
    assert not practised & {one.question.key for one in found[30:]}
    assert len(order(pool.questions(PAIRS)[:9], "ann", trial=30)) == 3 + 6 + 1  # a third, the rest, a fifth of it again


def test_one_dimension_at_a_time_and_the_whole_impression_last(pool):
    dimensions = [one.question.about.dimension for one in asked_of(pool, PAIRS[::-1]) if one.phase != "trial"]
    assert dimensions == sorted(dimensions)  # following, then overall
    assert set(dimensions) == {"following", "overall"}


def test_a_fifth_comes_again_later_with_sides_swapped(pool):
    found = asked_of(pool, PAIRS, trial=0)
    first = {one.question.key: (place, one) for place, one in enumerate(found) if one.phase == "main"}
    again = [(place, one) for place, one in enumerate(found) if one.phase == "recheck"]
    assert len(again) == 24  # of 120
    for place, one in again:
        before, same = first[one.question.key]
        assert place > before
        assert one.swapped is not same.swapped
    assert len({one.question.key for _, one in again}) == 24


def test_sides_are_swapped_about_half_the_time_and_orders_are_an_annotators_own(pool):
    found = asked_of(pool, PAIRS)
    assert 0.3 < sum(one.swapped for one in found) / len(found) < 0.7
    questions = pool.questions(PAIRS)
    assert order(questions, "ann") == found
    assert order(questions, "bob") != found
    assert order(questions, "ann", seed=1) != found


def test_questions_with_a_known_answer_are_practised_and_asked_twice_first(pool):
    questions = pool.questions([PAIRS[0]])
    known = frozenset(question.key for question in questions[:20])
    found = order(questions, "ann", trial=10, known=known)
    assert all(one.question.key in known for one in found if one.phase in ("trial", "recheck"))
    assert Counter(one.phase for one in found) == {"trial": 10, "main": 50, "recheck": 10}


@pytest.mark.parametrize("text", ["pair", "pairs:overall", "pair:", ":overall"])
def test_what_is_no_kind_is_refused(text):
    with pytest.raises(InputError, match="KIND:DIMENSION"):
        About.of(text)


def test_nothing_to_ask_is_an_error(pool):
    with pytest.raises(InputError, match=r"nothing to ask about reference; 0/1 has no reference"):
        pool.questions([About("reference", "reference")])


def test_so_many_items_are_drawn_by_seed(pool):
    some = pool.questions([About("yes-no", "following")], items=4)
    assert len({question.on[0][1] for question in some}) == 4
    assert some != pool.questions([About("yes-no", "following")], items=4, seed=1)


# -- checks ------------------------------------------------------------------------------------------------------------

ONE = (("one", "a"), ("two", "a"))


def test_a_pair_turned_round_is_the_same_answer():
    labels = [said("A", ONE, "pair"), said("B", ONE[::-1], "pair", phase="recheck")]
    (check,) = checks(labels, {})
    assert (check.twice, check.otherwise, check.errors, check.again) == (1, 0, 0.0, False)


def test_more_than_a_tenth_of_errors_means_again():
    labels = [said("yes", f"{n}") for n in range(20)]
    labels += [said("no" if n < 2 else "yes", f"{n}", phase="recheck") for n in range(20)]
    (check,) = checks(labels, {})
    assert (check.errors, check.again) == (0.1, False)
    known = answers([said("no", f"{n}", by="us", phase="answer") for n in range(2, 5)])
    (check,) = checks(labels, known)
    assert (check.known, check.wrong, check.again) == (3, 3, True)
    assert "2 of 20 asked twice were answered otherwise, 3 of 3 differ from the known answer (22 % errors" in str(
        check
    ).replace("22%", "22 %")


def test_a_new_round_is_checked_by_itself():
    labels = [said("yes", "a"), said("no", "a", phase="recheck"), said("yes", "a", round=2)]
    (check,) = checks(labels, {})
    assert check.errors is None


def test_what_is_known_are_answers_or_else_whatever_the_file_holds():
    assert list(answers([said("yes", "a"), said("no", "b", phase="answer")])) == [key_of(said("no", "b"))]
    assert list(answers([said("yes", "a")])) == [Question(About("yes-no", "following"), (("", "a"),)).key]
