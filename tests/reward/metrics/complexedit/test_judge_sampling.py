"""Measurements: how many, which draws, and what becomes of those that fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.engine import gather
from editcritic.reward.metrics.complexedit.judging import DRAWS_PER_SEED
from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    IdentityPreservation,
    PerceptualQuality,
)
from editcritic.reward.queries import Abstention, Failure, Reply
from editcritic.reward.score import Score

from ...fakes import Fake, alone
from .scripted_judges import Heard, drawn, edit, known, numbers, score_of, scored, verdict

REFUSED = Failure("I do not rate pictures", raw="Sorry, no.")


def quality(*grades):
    """A rule: the quality of each draw; a grade that is None failed."""
    return drawn(*[REFUSED if grade is None else Reply(str(grade)) for grade in grades])


def draws(metric, rule=known, sample=None):
    judge = Heard(rule)
    scored(metric, judge, sample or edit())
    return sorted(query.draw for query in judge.queries)


def test_twenty_draws_are_asked_by_default_and_all_at_once():
    judge = Heard(batch=100)
    scored(PerceptualQuality(), judge, edit())
    assert judge.calls == [20]
    assert sorted(query.draw for query in judge.queries) == list(range(20))


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 12), st.integers(1, 12))
def test_seeds_have_no_draw_in_common_and_a_larger_n_asks_the_smaller_ones_draws(seed, other, n, more):
    ours = set(draws(PerceptualQuality(n=n, seed=seed)))
    assert len(ours) == n
    assert ours <= set(draws(PerceptualQuality(n=n + more, seed=seed)))
    assert seed == other or not ours & set(draws(PerceptualQuality(n=n + more, seed=other)))


def test_not_even_replacements_of_one_seed_are_draws_of_the_next():
    all_fail = Heard(lambda query: REFUSED if query.draw < 3 else Reply("5"))
    scored(PerceptualQuality(n=DRAWS_PER_SEED - 3, max_replacements=3), all_fail, edit())
    assert max(query.draw for query in all_fail.queries) == DRAWS_PER_SEED - 1
    assert min(draws(PerceptualQuality(n=1, seed=1))) == DRAWS_PER_SEED


def test_a_repeat_is_a_repeat_and_another_seed_is_not():
    first, again, other = (scored(PerceptualQuality(seed=seed), Fake(known), edit())[0] for seed in (3, 3, 4))
    assert first == again
    assert first.value != other.value


def test_one_measurement_is_its_own_mean():
    score = score_of(PerceptualQuality(n=1), quality(7))
    assert score.value == 7.0
    assert numbers(score, "measurements") == {"mean": 7.0, "std": 0.0, "lowest": 7.0, "highest": 7.0, "n": 1.0}


def test_what_failed_is_replaced_by_the_next_draws_and_noted():
    score = score_of(PerceptualQuality(n=3), quality(2, None, 4, 9))
    assert score.value == 5.0
    assert numbers(score, "replaced") == {"measurements": 1.0}
    (failed,) = [item for item in score.evidence if item.what == "measurement that failed"]
    assert failed.numbers == {"draw": 1.0}
    assert "I do not rate pictures" in failed.text
    assert "Sorry, no." in failed.text
    assert numbers(score, "measurements")["n"] == 3.0


def test_a_replacement_that_fails_is_replaced_as_well():
    rule = quality(None, 4, None, 8)
    assert draws(PerceptualQuality(n=2), rule) == [0, 1, 2, 3]
    assert score_of(PerceptualQuality(n=2), rule).value == 6.0


@pytest.mark.parametrize(
    ("grades", "max_replacements", "query_count"),
    [((None, 5), 0, 2), ((None, None, 5), 1, 3), ((None, 5, None), 1, 3), ((None, 5, 5, None, None), 2, 5)],
)
def test_too_many_failures_fail_the_score_and_nothing_more_is_asked(grades, max_replacements, query_count):
    n = query_count - max_replacements
    rule = quality(*grades)
    metric = PerceptualQuality(n=n, max_replacements=max_replacements)
    score = score_of(metric, rule)
    assert score.status == "failed"
    assert (
        f"{max_replacements + 1} measurements failed, and only {max_replacements} of {n} may be replaced"
        in score.reason
    )
    assert "I do not rate pictures" in score.reason
    assert [item.text for item in score.evidence] == ["Sorry, no."] * (max_replacements + 1)
    assert len(draws(metric, rule)) <= query_count


def test_no_replacement_is_asked_once_too_many_have_failed():
    assert draws(PerceptualQuality(n=5, max_replacements=2), quality(None, None, None, 5, 5)) == [0, 1, 2, 3, 4]


def test_what_cannot_be_read_is_a_failure_even_if_the_engine_let_it_through():
    rule = drawn(Reply("7 or 8"), Reply("6"))
    score = alone(PerceptualQuality(n=1)(edit()), rule)
    assert score.value == 6.0
    (failed,) = [item.text for item in score.evidence if item.what == "measurement that failed"]
    assert "7 or 8" in failed


@pytest.mark.parametrize("metric", [ComplexEditInstructionFollowing, IdentityPreservation, PerceptualQuality])
def test_one_abstention_makes_the_whole_abstain(metric):
    rule = lambda query: Abstention("too dark") if query.draw == 2 else known(query)  # noqa: E731
    score = score_of(metric(n=4), rule)
    assert (score.status, score.value, score.reason) == ("abstained", None, "too dark")


def test_an_abstention_is_never_replaced_and_weighs_less_than_too_many_failures():
    rule = drawn(Abstention("too dark"), REFUSED, Reply("5"), Reply("5"))
    assert score_of(PerceptualQuality(n=3), rule).status == "abstained"
    assert draws(PerceptualQuality(n=3), rule) == [0, 1, 2]
    assert score_of(PerceptualQuality(n=3, max_replacements=0), rule).status == "failed"


@given(st.sets(st.integers(0, 7), max_size=4))
def test_following_and_preservation_replace_the_same_draws_and_share_every_question(failing):
    def rule(query):
        return REFUSED if query.draw in failing else known(query)

    def both(sample):
        scores = yield from gather([ComplexEditInstructionFollowing(n=6)(sample), IdentityPreservation(n=6)(sample)])
        return Score.of(0, parts=dict(zip(("if", "ip"), scores, strict=True)))

    judge = Heard(rule)
    (score,) = scored(both, judge, edit())
    assert set(judge.seen.values()) == {1}
    statuses = {part.status for part in score.parts.values()}
    assert len(statuses) == 1
    if statuses == {"scored"}:
        assert len(judge.queries) == 6 + len(failing & {query.draw for query in judge.queries})
        assert sum(len(part.credits) for part in score.parts.values()) == 0


def test_a_dead_judge_costs_no_further_questions():
    judge = Heard(lambda query: REFUSED)
    (score,) = scored(ComplexEditInstructionFollowing(), judge, edit())
    assert score.status == "failed"
    assert len(judge.queries) == 20


def test_a_judgement_is_not_mixed_from_draws_of_other_samples():
    rule = lambda query: verdict(9, 9) if query.images[1] == edit().edited else verdict(1, 1)  # noqa: E731
    ours, other = scored(ComplexEditInstructionFollowing(n=5), Fake(rule), edit("a"), edit("b", edited=edit().source))
    assert (ours.value, other.value) == (9.0, 1.0)
