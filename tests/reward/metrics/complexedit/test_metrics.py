"""Following, preservation, quality and overall: what the judge sees, and what its words are worth."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    ComplexEditOverall,
    IdentityPreservation,
    PerceptualQuality,
    judgement_form,
)
from editcritic.reward.queries import Abstention, Failure, FreeText, Grade, Json, Reply, YesNo
from editcritic.reward.sample import Operation

from ...fakes import picture
from ..scripted import numbers, words
from .scripted_judges import AFTER, BEFORE, OPERATIONS, asked, drawn, edit, known, score_of, verdict

Following = ComplexEditInstructionFollowing
BOTH = [Following, IdentityPreservation]


def told(query):
    """All that is said to the judge."""
    return "\n".join(words(query, place) for place in range(len(query.messages)))


@pytest.mark.parametrize(("metric", "value"), [(Following, 7.0), (IdentityPreservation, 9.0)])
def test_the_judge_sees_source_edit_and_the_papers_triplet(metric, value):
    """Section 3.1.1: input, output, instruction. A reply with the two grades of figure 16 (a) is all there is."""
    sample = edit(operations=OPERATIONS, edited=BEFORE)
    (score,), queries = asked(metric(n=3), lambda query: verdict(7, 9), sample)
    for query in queries:
        (message,) = query.messages
        assert (message.role, message.content[:2], query.images) == ("user", (BEFORE, BEFORE), (BEFORE, BEFORE))
        assert (query.topic, query.form) == ("complexedit/alignment", judgement_form())
        assert query.slots == (("instruction", sample.instruction), ("operations", "[]"))
        assert "1. Remove the cup" not in words(query)
    assert (score.value, score.credits) == (value, {})
    text = words(queries[0])
    first, second = text.index("The scale of instruction following"), text.index("The scale of identity preservation")
    assert first < second < text.index("Reason first")
    assert text.count("failed completely") == 2


def test_listed_operations_are_in_words_and_slots():
    sample = edit(operations=OPERATIONS, instruction="write {rubric} {0} on it")
    _, (query,) = asked(Following(n=1, operations="listed"), known, sample)
    assert dict(query.slots)["operations"] == '["Remove the cup", "Turn the wall green"]'
    assert "\nwrite {rubric} {0} on it\n" in words(query)
    assert "\n1. Remove the cup\n2. Turn the wall green\n" in words(query)
    for metric in BOTH:
        (_, (listed,)), (_, (hidden,)) = asked(metric(n=1, operations="listed")), asked(metric(n=1))
        assert listed.digest == hidden.digest, "there is nothing to list"


def test_in_the_papers_protocol_rubrics_are_a_system_prompt_and_the_user_gives_the_triplet():
    for query in asked(Following(n=2, paper=True, operations="listed"), known, edit(operations=OPERATIONS))[1]:
        system, user = query.messages
        assert (system.role, user.role) == ("system", "user")
        assert "The scale of identity preservation:" in system.content[0]
        assert "each operation of the user's message" in system.content[0]
        assert user.content[:2] == (BEFORE, AFTER)
        assert user.content[2].startswith(f"The instruction:\n{edit().instruction}")
        assert "scale" not in user.content[2]


@pytest.mark.parametrize(
    ("form", "names"),
    [
        (judgement_form(3), ["reasoning", "operations", "instruction_following", "identity_preservation"]),
        (judgement_form(), ["reasoning", "instruction_following", "identity_preservation"]),
        (judgement_form(reasoning=False), ["instruction_following", "identity_preservation"]),
    ],
)
def test_the_judge_is_to_reason_before_it_grades(form, names):
    assert [*json.loads(form.schema)["properties"]] == names


def test_each_metric_is_the_mean_of_its_own_integer_with_spread_and_reasoning_as_evidence():
    rule = drawn(verdict(2, 9, why="far"), verdict(4, 10, why="near"), verdict(9, 5, why="farther"))
    score = score_of(Following(n=3), rule)
    assert (score.value, score.metric) == (pytest.approx(5.0), "complex-edit-if@3/numeric[n=3]")
    assert score_of(IdentityPreservation(n=3), rule).value == pytest.approx(8.0)
    spread = {"mean": 5.0, "std": (26 / 3) ** 0.5, "lowest": 2.0, "highest": 9.0, "n": 3.0}
    assert numbers(score, "measurements") == pytest.approx(spread)
    grades, reason = score.evidence
    assert (grades.what, grades.text, reason.what) == ("measurements", "2 4 9", "reasoning nearest to the mean")
    assert (reason.text, reason.numbers) == ("near", {"draw": 1.0, "grade": 4.0})


@given(st.lists(st.lists(st.integers(0, 10), min_size=3, max_size=3), min_size=1, max_size=5))
def test_operations_are_credited_in_order_with_their_means(rows):
    operations = tuple(Operation(name) for name in ("one", "two", "one"))  # the same twice stays two
    rule, sample = drawn(*[verdict(9, 0, row) for row in rows]), edit(operations=operations)
    score = score_of(Following(n=len(rows), operations="listed"), rule, sample)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    assert list(score.credits) == ["1: one", "2: two", "3: one"]
    assert [credit.value for credit in score.credits.values()] == pytest.approx(means)
    assert numbers(score.credits["1: one"], "measurements")["lowest"] == min(row[0] for row in rows)
    assert score.value == 9.0  # the judge's, where its operations say otherwise
    if sum(means) / 3 < 9 - 1e-6:
        assert numbers(score, "operations") == pytest.approx({"mean over operations": sum(means) / 3, "value": 9.0})
    assert score_of(IdentityPreservation(n=len(rows), operations="listed"), rule, sample).credits == {}


def test_nothing_is_noted_where_operations_agree_with_the_value_and_a_list_of_another_length_failed():
    metric, sample = Following(n=1, operations="listed"), edit(operations=OPERATIONS)
    agreed = score_of(metric, drawn(verdict(4, 9, [3, 5])), sample)
    assert [item.what for item in agreed.evidence] == ["measurements", "reasoning nearest to the mean"]
    for count in (0, 1, 3):
        score = score_of(metric, drawn(verdict(9, 9, [5] * count), verdict(4, 9, [4, 4])), sample)
        assert (score.value, numbers(score, "replaced")) == (4.0, {"measurements": 1.0})


@pytest.mark.parametrize(
    ("metric", "topic", "name"),
    [
        (Following, "following", "instruction following"),
        (IdentityPreservation, "preservation", "identity preservation"),
    ],
)
def test_probabilities_are_the_share_of_yes_or_the_mean_over_grades_of_one_question(metric, topic, name):
    reply = Reply("yes", {"yes": 0.3, "no": 0.1}, option_mass=0.4)
    (score,), (query,) = asked(metric("token_probability"), lambda query: reply, edit(operations=OPERATIONS))
    assert (score.value, "times 10" in score.reason) == (pytest.approx(7.5), True)
    assert numbers(score, "probabilities") == {"yes": 0.3, "no": 0.1, "mass": 0.4}
    assert (query.topic, query.form, query.images) == (f"complexedit/{topic}_yes_no", YesNo(), (BEFORE, AFTER))
    assert query.slots == (("instruction", edit().instruction),)
    assert "reason" not in words(query).lower()
    grades = {"2": 0.25, "6": 0.25, "9": 0.5}
    (score,), (query,) = asked(metric("expected"), lambda query: Reply("9", grades))
    assert (score.value, numbers(score, "probabilities")) == (pytest.approx(0.5 + 1.5 + 4.5), grades)
    assert (query.topic, query.form, query.images) == (f"complexedit/{topic}", Grade(0, 10), (BEFORE, AFTER))
    assert (query.form.criterion, query.slots) == (name, (("instruction", edit().instruction),))
    assert words(query).count("The scale of") == words(query).count(f"The scale of {name}") == 1
    above_one = score_of(metric("expected"), lambda query: Reply("10", {"10": 1.0, "9": 0.008}))
    assert 9.9 < above_one.value <= 10.0


@pytest.mark.parametrize(("mode", "reply"), [("token_probability", "yes"), ("expected", "7")])
def test_a_judge_without_probabilities_fails_with_what_to_do(mode, reply):
    for metric in BOTH:
        score = score_of(metric(mode), lambda query: Reply(reply))
        assert score.status == "failed"
        assert f"mode {mode} needs the judge's probabilities" in score.reason
        assert "use mode numeric, or a judge that gives them" in score.reason
        assert [item.text for item in score.evidence] == [reply]


@pytest.mark.parametrize("probabilities", [{"yes": 0.0, "no": 0.0}, {"yes": 0.7}, {"no": 0.7}])
def test_half_of_the_probabilities_is_none(probabilities):
    assert score_of(Following("token_probability"), lambda query: Reply("yes", probabilities)).status == "failed"


@pytest.mark.parametrize(
    ("mode", "topic", "form", "count", "value"),
    [
        ("numeric", "quality", Grade(0, 10, temperature=1.0), 20, 6.5),
        ("expected", "quality", Grade(0, 10), 1, 7.0),
        ("token_probability", "quality_yes_no", YesNo(), 1, 2.5),
    ],
)
def test_quality_is_asked_of_the_edited_picture_without_instruction_or_reasoning(mode, topic, form, count, value):
    def rule(query):
        if query.form == YesNo():
            return Reply("no", {"yes": 0.2, "no": 0.6})
        return Reply("8", {"8": 0.75, "4": 0.25}) if query.form == Grade(0, 10) else Reply(str(6 + query.draw % 2))

    others = edit("b", sources=(picture(5),), instruction="other")
    (first, second), queries = asked(PerceptualQuality(mode), rule, edit(instruction="xyzzy"), others)
    assert (first, first.value, len(queries)) == (second, pytest.approx(value), count)
    for query in queries:
        (message,) = query.messages
        assert message.content[:-1] == (AFTER,)
        assert "xyzzy" not in words(query)
        assert "reason" not in words(query).lower()
        assert (query.slots, query.topic, query.form) == ((), f"complexedit/{topic}", form)


def test_quality_and_overall_of_one_picture_or_several():
    for options, is_told in (({"instruction": True}, True), ({}, False)):
        metric: Any = PerceptualQuality
        _, (query,) = asked(metric(n=1, **options), answered)
        assert (query.images, edit().instruction in told(query)) == ((AFTER,), is_told)
    sample = edit(sources=(BEFORE, AFTER))
    for metric in BOTH:
        (score,), queries = asked(metric(), known, sample)
        assert (score.status, queries, "2 sources" in score.reason) == ("not_applicable", [], True)
    for mean in ("arithmetic", "geometric"):
        score = score_of(ComplexEditOverall(n=1, mean=mean), known, sample)
        assert (score.status, score.parts["quality"].status) == ("not_applicable", "scored")


@pytest.mark.parametrize(
    ("mode", "counts"),
    [
        ("numeric", {"alignment": 20, "quality": 20}),
        ("expected", {"following": 1, "preservation": 1, "quality": 1}),
        ("token_probability", {"following_yes_no": 1, "preservation_yes_no": 1, "quality_yes_no": 1}),
    ],
)
def test_overall_asks_for_the_shared_judgement_once_and_in_other_modes_three_questions(mode, counts):
    (score,), queries = asked(ComplexEditOverall(mode))
    assert Counter(query.topic.removeprefix("complexedit/") for query in queries) == counts
    assert (score.status, score.metric) == ("scored", f"complex-edit-o@3/{mode}")


@given(*[st.integers(0, 10)] * 3)
def test_overall_is_the_mean_of_the_parts(following, preservation, quality):
    rule = lambda query: verdict(following, preservation) if query.slots else Reply(str(quality))  # noqa: E731
    score = score_of(ComplexEditOverall(n=2, seed=1), rule)
    assert score.value == pytest.approx((following + preservation + quality) / 3)
    parts = {"following": following, "preservation": preservation, "quality": quality}
    assert {name: part.value for name, part in score.parts.items()} == parts
    signed = [f"complex-edit-{name}@3/numeric[n=2, seed=1]" for name in ("if", "ip", "pq")]
    assert [part.metric for part in score.parts.values()] == signed
    geometric = score_of(ComplexEditOverall(n=2, mean="geometric"), rule)
    assert geometric.value == pytest.approx((following * preservation * quality) ** (1 / 3))
    assert geometric.metric == "complex-edit-o@3/numeric[n=2, mean=geometric]"


@pytest.mark.parametrize(("outcome", "status"), [(Failure("down"), "failed"), (Abstention("who knows"), "abstained")])
@pytest.mark.parametrize(("place", "parts"), [("alignment", ["following", "preservation"]), ("quality", ["quality"])])
@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_nothing_is_left_out_of_overall(mean, place, parts, outcome, status):
    rule = lambda query: outcome if query.topic.endswith(place) else known(query)  # noqa: E731
    score = score_of(ComplexEditOverall(n=2, mean=mean), rule)
    assert (score.status, score.value) == (status, None)
    assert [name for name, part in score.parts.items() if part.status == status] == parts


def answered(query):
    """7, in whatever form."""
    if not isinstance(query.form, Json):
        return Reply("7")
    names = json.loads(query.form.schema)["properties"]
    return Reply(json.dumps({name: "seen" if name == "reasoning" else 7 for name in names}))


@pytest.mark.parametrize("reasoning", [False, True, None])
@pytest.mark.parametrize("rubric", [False, True])
def test_the_grid_of_reasoning_and_rubric(reasoning, rubric):
    """By default the best cells of table 2: with rubric, and with reasoning but for quality."""
    (score,), queries = asked(ComplexEditOverall(n=2, reasoning=reasoning, rubric=rubric), answered)
    assert score.value == 7.0
    assert len(queries) == 4, "two draws of the judgement that following and preservation share, two of quality"
    for query in queries:
        expected = query.topic.endswith("alignment") if reasoning is None else reasoning
        reasons = isinstance(query.form, Json) and "reasoning" in json.loads(query.form.schema)["properties"]
        assert (reasons, "Reason first" in told(query)) == (expected, expected)
        assert (("The scale of" in told(query)), query.form.temperature) == (rubric, 1.0)
    alignment, quality = (next(told(q) for q in queries if q.topic.endswith(name)) for name in ("alignment", "quality"))
    assert "At 10 all the changes it asks for are there" in alignment, "the ends of the scale are no rubric"
    assert "10 stands for perfect harmony" in quality


def test_deterministic_sampling_asks_once_at_temperature_nought():
    (score,), queries = asked(ComplexEditOverall(sampling="deterministic"), answered)
    seen = [(query.topic, query.form.temperature, query.draw) for query in queries]
    assert (seen, score.value) == ([("complexedit/alignment", 0.0, 0), ("complexedit/quality", 0.0, 0)], 7.0)
    failed = score_of(PerceptualQuality(sampling="deterministic"), lambda query: Reply("well"))
    assert (failed.status, "the deterministic measurement failed" in failed.reason) == ("failed", True)


def test_token_probability_after_reasoning_is_the_mean_over_the_reasonings():
    """Yes 0.9 and no 0.1 after one reasoning, 0.2 and 0.2 after the other: 10 x (0.9 + 0.5) / 2 = 7."""

    def rule(query):
        if isinstance(query.form, FreeText):
            return Reply(("It is all there.", "Half of it is.")[query.draw])
        first = query.messages[1].content == ("It is all there.",)
        return Reply("yes", {"yes": 0.9, "no": 0.1} if first else {"yes": 0.2, "no": 0.2})

    (score,), queries = asked(Following("token_probability", n=2, reasoning=True), rule)
    assert score.value == pytest.approx(7.0)
    expected = {"mean": 0.7, "std": 0.2, "lowest": 0.5, "highest": 0.9, "n": 2}
    assert numbers(score, "measurements") == pytest.approx(expected)
    assert all(query.form.temperature == 1.0 and "yes or no" not in told(query) for query in queries[:2])
    for query in queries[2:]:
        assert ([message.role for message in query.messages], query.form) == (["user", "assistant", "user"], YesNo())
        assert query.messages[-1].content == ("Answer with one word: yes or no.",)
