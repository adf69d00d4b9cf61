"""Following and preservation: what the judge sees, what its words are worth, and what the operations are credited."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Image
from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    IdentityPreservation,
    judgement_form,
)
from editcritic.reward.queries import Grade, Json, Reply, YesNo
from editcritic.reward.sample import Operation

from ...fakes import picture
from .scripted_judges import (
    AFTER,
    BEFORE,
    OPERATIONS,
    Heard,
    drawn,
    edit,
    known,
    numbers,
    score_of,
    scored,
    value_of,
    verdict,
    words,
)

BOTH = [ComplexEditInstructionFollowing, IdentityPreservation]


def queries_of(metric, sample):
    judge = Heard()
    scored(metric, judge, sample)
    return judge.queries


# -- what the judge sees -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", BOTH)
def test_the_judge_sees_source_then_edit_then_words(metric):
    for query in queries_of(metric(n=3), edit()):
        (message,) = query.messages
        assert message.role == "user"
        assert [part for part in message.content if isinstance(part, Image)] == [BEFORE, AFTER]
        assert message.content[:2] == (BEFORE, AFTER)
        assert query.topic == "complexedit/alignment"
        assert isinstance(query.form, Json)
        assert query.form.temperature == 1.0


def test_in_the_papers_protocol_rubrics_are_a_system_prompt_and_the_user_gives_the_triplet():
    for query in queries_of(
        ComplexEditInstructionFollowing(n=2, paper=True, operations="listed"), edit(operations=OPERATIONS)
    ):
        system, user = query.messages
        assert (system.role, user.role) == ("system", "user")
        assert "The scale of identity preservation:" in system.content[0]
        assert "each operation of the user's message" in system.content[0]
        assert user.content[:2] == (BEFORE, AFTER)
        assert user.content[2].startswith(f"The instruction:\n{edit().instruction}")
        assert "scale" not in user.content[2]
    with pytest.raises(ValueError, match="in mode numeric only, not in expected"):
        ComplexEditInstructionFollowing(mode="expected", paper=True)


def test_instruction_and_operations_are_in_words_and_slots():
    sample = edit(operations=OPERATIONS)
    (query,) = queries_of(ComplexEditInstructionFollowing(n=1, operations="listed"), sample)
    assert query.slots == (
        ("instruction", sample.instruction),
        ("operations", '["Remove the cup", "Turn the wall green"]'),
    )
    assert f"\n{sample.instruction}\n" in words(query)
    assert "\n1. Remove the cup\n2. Turn the wall green\n" in words(query)


@pytest.mark.parametrize("metric", BOTH)
def test_the_papers_triplet_has_no_operations(metric):
    """Section 3.1.1: input, output, instruction. A reply with the two grades of figure 16 (a) is all there is."""
    judge = Heard(lambda query: verdict(7, 9))
    (score,) = scored(metric(n=1), judge, edit(operations=OPERATIONS))
    (query,) = judge.queries
    assert "1. Remove the cup" not in words(query)
    assert "of several operations" not in words(query)
    assert (dict(query.slots)["operations"], query.form) == ("[]", judgement_form())
    assert (score.value, score.credits) == (7.0 if metric is ComplexEditInstructionFollowing else 9.0, {})
    (listed,) = queries_of(metric(n=1, operations="listed"), edit())
    assert listed.digest == queries_of(metric(n=1), edit())[0].digest, "there is nothing to list"


def test_both_rubrics_are_in_the_words_following_first():
    text = words(queries_of(ComplexEditInstructionFollowing(n=1), edit())[0])
    first, second = text.index("The scale of instruction following"), text.index("The scale of identity preservation")
    assert first < second < text.index("Reason first")
    assert text.count("failed completely") == 2


def test_an_instruction_with_braces_is_put_in_as_it_is():
    assert "write {rubric} {0} on it" in words(
        queries_of(ComplexEditInstructionFollowing(n=1), edit(instruction="write {rubric} {0} on it"))[0]
    )


def test_the_judge_is_to_reason_before_it_grades():
    names = [*json.loads(judgement_form(3).schema)["properties"]]
    assert names == ["reasoning", "operations", "instruction_following", "identity_preservation"]
    assert [*json.loads(judgement_form().schema)["properties"]] == [names[0], *names[2:]]
    assert [*json.loads(judgement_form(reasoning=False).schema)["properties"]] == names[2:]


@pytest.mark.parametrize("metric", BOTH)
def test_an_unchanged_copy_reaches_the_judge_as_two_pictures_and_its_answer_the_score(metric):
    judge = Heard(lambda query: verdict(0, 10))
    (score,) = scored(metric(n=4), judge, edit(edited=BEFORE))
    assert all(query.images == (BEFORE, BEFORE) for query in judge.queries)
    assert len(judge.queries) == 4
    assert score.value == (0.0 if metric is ComplexEditInstructionFollowing else 10.0)


@pytest.mark.parametrize("metric", BOTH)
def test_an_edit_of_several_pictures_is_not_applicable_and_asks_nobody(metric):
    judge = Heard()
    (score,) = scored(metric(), judge, edit(sources=(BEFORE, AFTER)))
    assert (score.status, judge.queries) == ("not_applicable", [])
    assert "2 sources" in score.reason


# -- what it is worth --------------------------------------------------------------------------------------------------


def test_each_metric_is_the_mean_of_its_own_integer():
    rule = drawn(verdict(2, 9), verdict(3, 10), verdict(7, 5))
    assert score_of(ComplexEditInstructionFollowing(n=3), rule).value == pytest.approx(4.0)
    assert score_of(IdentityPreservation(n=3), rule).value == pytest.approx(8.0)


def test_the_spread_and_the_reasoning_nearest_to_the_mean_are_evidence():
    rule = drawn(verdict(2, 9, why="far"), verdict(4, 9, why="near"), verdict(9, 9, why="farther"))
    score = score_of(ComplexEditInstructionFollowing(n=3), rule)
    assert numbers(score, "measurements") == pytest.approx(
        {"mean": 5.0, "std": (26 / 3) ** 0.5, "lowest": 2.0, "highest": 9.0, "n": 3.0}
    )
    (grades,) = [item.text for item in score.evidence if item.what == "measurements"]
    (reason,) = [item for item in score.evidence if item.what == "reasoning nearest to the mean"]
    assert grades == "2 4 9"
    assert (reason.text, reason.numbers) == ("near", {"draw": 1.0, "grade": 4.0})
    assert score.metric == "complex-edit-if@3/numeric[n=3]"


def test_operations_are_credited_in_order_with_their_means():
    rule = drawn(verdict(5, 9, [10, 0]), verdict(6, 9, [8, 3]))
    score = score_of(ComplexEditInstructionFollowing(n=2, operations="listed"), rule, edit(operations=OPERATIONS))
    assert {name: credit.value for name, credit in score.credits.items()} == {
        "1: Remove the cup": 9.0,
        "2: Turn the wall green": 1.5,
    }
    assert list(score.credits) == ["1: Remove the cup", "2: Turn the wall green"]
    assert numbers(score.credits["1: Remove the cup"], "measurements")["lowest"] == 8.0
    assert score.value == 5.5


def test_the_value_stays_the_judges_where_its_operations_say_otherwise_and_that_is_noted():
    apart = score_of(
        ComplexEditInstructionFollowing(n=1, operations="listed"),
        drawn(verdict(9, 9, [2, 3])),
        edit(operations=OPERATIONS),
    )
    assert apart.value == 9.0
    assert numbers(apart, "operations") == {"mean over operations": 2.5, "value": 9.0}
    agreed = score_of(
        ComplexEditInstructionFollowing(n=1, operations="listed"),
        drawn(verdict(4, 9, [3, 5])),
        edit(operations=OPERATIONS),
    )
    assert [item.what for item in agreed.evidence] == ["measurements", "reasoning nearest to the mean"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_list_of_another_length_is_a_failed_measurement(count):
    rule = drawn(verdict(9, 9, [5] * count), verdict(4, 9, [4, 4]))
    score = score_of(ComplexEditInstructionFollowing(n=1, operations="listed"), rule, edit(operations=OPERATIONS))
    assert score.value == 4.0
    assert numbers(score, "replaced") == {"measurements": 1.0}


def test_there_are_no_credits_without_operations_nor_for_preservation():
    assert score_of(ComplexEditInstructionFollowing(n=2, operations="listed"), known).credits == {}
    assert score_of(IdentityPreservation(n=2, operations="listed"), known, edit(operations=OPERATIONS)).credits == {}


@given(st.lists(st.lists(st.integers(0, 10), min_size=3, max_size=3), min_size=1, max_size=5))
def test_the_mean_of_the_credits_is_the_mean_over_operations(rows):
    operations = tuple(Operation(name) for name in ("one", "two", "one"))  # the same twice stays two
    rule = drawn(*[verdict(0, 0, row) for row in rows])
    score = score_of(
        ComplexEditInstructionFollowing(n=len(rows), operations="listed"), rule, edit(operations=operations)
    )
    mean = sum(map(sum, rows)) / (3 * len(rows))
    assert sum(value_of(credit) for credit in score.credits.values()) / 3 == pytest.approx(mean)
    assert len(score.credits) == 3


@given(st.lists(st.tuples(st.integers(2, 5), st.integers(6, 9)), min_size=2, max_size=4, unique=True))
def test_the_order_of_the_samples_does_not_matter(seeds):
    samples = [edit(str(at), sources=(picture(at),), edited=picture(to)) for at, to in seeds]
    for metric in (ComplexEditInstructionFollowing(n=3), IdentityPreservation(mode="expected")):
        forward = scored(metric, Heard(), *samples)
        backward = scored(metric, Heard(), *reversed(samples))
        assert forward == backward[::-1]


# -- the other modes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "topic"),
    [(ComplexEditInstructionFollowing, "following_yes_no"), (IdentityPreservation, "preservation_yes_no")],
)
def test_token_probability_is_the_share_of_yes_times_ten(metric, topic):
    judge = Heard(lambda query: Reply("yes", {"yes": 0.3, "no": 0.1}, option_mass=0.4))
    (score,) = scored(metric("token_probability"), judge, edit(operations=OPERATIONS))
    (query,) = judge.queries
    assert score.value == pytest.approx(7.5)
    assert "times 10" in score.reason
    assert numbers(score, "probabilities") == {"yes": 0.3, "no": 0.1, "mass": 0.4}
    assert (query.topic, query.form, query.images) == (f"complexedit/{topic}", YesNo(), (BEFORE, AFTER))
    assert query.slots == (("instruction", edit().instruction),)
    assert "reason" not in words(query).lower()
    assert score.credits == {}


@pytest.mark.parametrize(
    ("metric", "topic", "scale"),
    [
        (ComplexEditInstructionFollowing, "following", "The scale of instruction following"),
        (IdentityPreservation, "preservation", "The scale of identity preservation"),
    ],
)
def test_expected_is_the_mean_over_the_probabilities_of_one_question(metric, topic, scale):
    judge = Heard(lambda query: Reply("9", {"2": 0.25, "6": 0.25, "9": 0.5}))
    (score,) = scored(metric("expected"), judge, edit())
    (query,) = judge.queries
    assert score.value == pytest.approx(0.5 + 1.5 + 4.5)
    assert numbers(score, "probabilities") == {"2": 0.25, "6": 0.25, "9": 0.5}
    assert (query.topic, query.form, query.images) == (f"complexedit/{topic}", Grade(0, 10), (BEFORE, AFTER))
    assert query.slots == (("instruction", edit().instruction),)
    assert words(query).count("The scale of") == 1
    assert scale in words(query)


def test_probabilities_that_add_up_to_a_little_more_than_one_stay_in_range():
    score = score_of(ComplexEditInstructionFollowing("expected"), lambda query: Reply("10", {"10": 1.0, "9": 0.008}))
    assert 9.9 < value_of(score) <= 10.0


@pytest.mark.parametrize("mode", ["token_probability", "expected"])
@pytest.mark.parametrize("metric", BOTH)
def test_a_judge_without_probabilities_fails_with_what_to_do(metric, mode):
    reply_text = "yes" if mode == "token_probability" else "7"
    score = score_of(metric(mode), lambda query: Reply(reply_text))
    assert score.status == "failed"
    assert f"mode {mode} needs the judge's probabilities" in score.reason
    assert "use mode numeric, or a judge that gives them" in score.reason
    assert [item.text for item in score.evidence] == [reply_text]


@pytest.mark.parametrize("probabilities", [{"yes": 0.0, "no": 0.0}, {"yes": 0.7}, {"no": 0.7}])
def test_half_of_the_probabilities_is_none(probabilities):
    assert (
        score_of(ComplexEditInstructionFollowing("token_probability"), lambda query: Reply("yes", probabilities)).status
        == "failed"
    )
