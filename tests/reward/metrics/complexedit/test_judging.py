"""Options, and measurements: how many, which draws, what is read in a reply, what becomes of those that fail."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.suites.suite import published_figures
from editcritic.reward.config import build
from editcritic.reward.engine import gather
from editcritic.reward.metrics.complexedit.judging import DRAWS_PER_SEED, MODES
from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    ComplexEditOverall,
    IdentityPreservation,
    PerceptualQuality,
    judgement_form,
)
from editcritic.reward.queries import Abstention, Failure, Reply, spec_of
from editcritic.reward.queries.response_formats import parse_reply
from editcritic.reward.score import Score

from ...fakes import alone
from ..scripted import numbers
from .scripted_judges import OPERATIONS, asked, drawn, edit, known, score_of, verdict

ALL = [ComplexEditInstructionFollowing, IdentityPreservation, PerceptualQuality, ComplexEditOverall]
REFUSED = Failure("I do not rate pictures", raw="Sorry, no.")


SHORT = [*zip(ALL, ("if", "ip", "pq", "o"), ("following", "consistency", "quality", "overall"), strict=True)]


@pytest.mark.parametrize(("metric", "short", "aspect"), SHORT)
def test_card_signature_and_spec_say_what_a_metric_is(metric, short, aspect, tmp_path):
    card, signed = metric.card, f"complex-edit-{short}@{metric.card.version}"
    assert (card.range, card.unit, card.aspect, card.modes) == ((0.0, 10.0), "grade 0-10", aspect, MODES)
    assert (card.roles, bool(card.failure_modes), "section" in card.source) == (("judge",), True, True)
    assert [metric().signature, metric("expected").signature] == [f"{signed}/numeric", f"{signed}/expected"]
    assert metric(n=5, max_replacements=0).signature == f"{signed}/numeric[n=5, max_replacements=0]"
    (tmp_path / "quality.txt").write_text("How good?", encoding="utf-8")
    packed = metric(prompts=str(tmp_path)).signature
    (tmp_path / "quality.txt").write_text("How well?", encoding="utf-8")
    assert packed.startswith(f"{signed}/numeric[prompts=")
    assert metric(prompts=str(tmp_path)).signature != packed
    for made in (metric("expected"), metric(n=3, seed=2, max_replacements=1)):
        assert build(json.loads(json.dumps(spec_of(made)))) == made


def test_cards_quote_the_correlations_of_the_published_table():
    table = published_figures("complexedit")["tables"]
    rows = [
        table["table2_scoring_methods"][row] for row in ("numeric_rubric", "numeric_rubric_cot", "token_probability")
    ]
    metric: Any
    for place, metric in enumerate(ALL[:3]):
        assert all(f"{row[place]:.3f}" in metric.card.source for row in rows)
    overall = table["metaeval_pairwise_correlation"]["overall_mean"].values()
    assert all(f"{value:.3f}" in ComplexEditOverall.card.source for value in overall)


def quality(*grades):
    """A rule: the quality of each draw; a grade that is None failed."""
    return drawn(*[REFUSED if grade is None else Reply(str(grade)) for grade in grades])


def draws(rule=known, **options):
    return sorted(query.draw for query in asked(PerceptualQuality(**options), rule)[1])


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 12), st.integers(1, 12))
def test_seeds_have_no_draw_in_common_and_a_larger_n_asks_the_smaller_ones_draws(seed, other, n, more):
    ours = set(draws(n=n, seed=seed))
    assert len(ours) == n
    assert ours <= set(draws(n=n + more, seed=seed))
    assert seed == other or not ours & set(draws(n=n + more, seed=other))


def test_draws_are_twenty_by_default_and_what_failed_is_replaced_by_the_next_ones():
    assert draws() == list(range(20))
    fails = lambda query: REFUSED if query.draw < 3 else Reply("5")  # noqa: E731
    assert max(draws(fails, n=DRAWS_PER_SEED - 3, max_replacements=3)) == DRAWS_PER_SEED - 1
    assert min(draws(n=1, seed=1)) == DRAWS_PER_SEED
    score = score_of(PerceptualQuality(n=3), quality(2, None, 4, 9))
    assert (score.value, numbers(score, "replaced")) == (5.0, {"measurements": 1.0})
    (failed,) = [item for item in score.evidence if item.what == "measurement that failed"]
    assert (failed.numbers, "I do not rate pictures" in failed.text) == ({"draw": 1.0}, True)
    assert "Sorry, no." in failed.text
    assert numbers(score, "measurements")["n"] == 3.0
    twice = quality(None, 4, None, 8)  # a replacement that fails is replaced as well
    assert (draws(twice, n=2), score_of(PerceptualQuality(n=2), twice).value) == ([0, 1, 2, 3], 6.0)
    read = alone(PerceptualQuality(n=1)(edit()), drawn(Reply("7 or 8"), Reply("6")))  # no engine, which parses replies
    assert (read.value, "7 or 8" in str(read.evidence)) == (6.0, True)


@pytest.mark.parametrize(
    ("grades", "n", "allowed"),
    [((None, 5), 2, 0), ((None, None, 5), 2, 1), ((None, 5, None), 2, 1), ((None, 5, 5, None, None), 3, 2)],
)
def test_too_many_failures_fail_the_score_and_nothing_more_is_asked(grades, n, allowed):
    score = score_of(PerceptualQuality(n=n, max_replacements=allowed), quality(*grades))
    assert score.status == "failed"
    assert f"{allowed + 1} measurements failed, and only {allowed} of {n} may be replaced" in score.reason
    assert "I do not rate pictures" in score.reason
    assert [item.text for item in score.evidence] == ["Sorry, no."] * (allowed + 1)
    assert len(draws(quality(*grades), n=n, max_replacements=allowed)) <= n + allowed
    assert draws(quality(None, None, None, 5, 5), n=5) == [0, 1, 2, 3, 4]


def test_an_abstention_is_never_replaced_and_weighs_less_than_too_many_failures():
    rule = drawn(Abstention("too dark"), REFUSED, Reply("5"), Reply("5"))
    score = score_of(PerceptualQuality(n=3), rule)
    assert (score.status, score.value, score.reason, draws(rule, n=3)) == ("abstained", None, "too dark", [0, 1, 2])
    assert score_of(PerceptualQuality(n=3, max_replacements=0), rule).status == "failed"


@given(st.sets(st.integers(0, 7), max_size=4))
def test_following_and_preservation_replace_the_same_draws_and_share_every_question(failing):
    def both(sample):
        scores = yield from gather([ComplexEditInstructionFollowing(n=6)(sample), IdentityPreservation(n=6)(sample)])
        return Score.of(0, parts=dict(zip(("if", "ip"), scores, strict=True)))

    (score,), queries = asked(both, lambda query: REFUSED if query.draw in failing else known(query))
    assert len({query.digest for query in queries}) == len(queries)
    (status,) = {part.status for part in score.parts.values()}
    assert status != "scored" or len(queries) == 6 + len(failing & {query.draw for query in queries})


LIST = '[{"operation": "Remove the cup", "score": 9}, {"operation": "Turn the wall green", "score": 5}]'


def raw(following="7", preservation="9", operations=LIST, reasoning='"The cup is gone."'):
    return (
        f'{{"reasoning": {reasoning}, "operations": {operations}, '
        f'"instruction_following": {following}, "identity_preservation": {preservation}}}'
    )


CLEAN = raw()
READ = {
    "clean": CLEAN,
    "reasoning with other numbers": f"I would say 8/10 for the cup and 3 for the wall.\n{CLEAN}",
    "after thoughts with another draft": f"<think>{raw('1', '1')}</think>\n{CLEAN}",
    "strings, as the released code asks for": raw('"7"', '"9"', LIST.replace("9", '"9"')),
    "operations in the judge's words": raw(operations=LIST.replace("Remove the cup", "cup -> gone")),
}
FAILED = {
    "two that differ": f"{CLEAN}\n{raw('8', '9')}",
    "following above the scale": raw(following="11"),
    "an operation above the scale": raw(operations=LIST.replace("9", "12")),
    "7.5": raw(following="7.5"),
    "operations missing": CLEAN.replace(f'"operations": {LIST}, ', ""),
    "a name too many": CLEAN[:-1] + ', "perceptual_quality": 8}',
    "one operation of two": raw(operations='[{"operation": "Remove the cup", "score": 9}]'),
    "empty": "",
}


def worth(text):
    """What the two metrics make of it as their only measurement."""
    rule, sample = lambda query: parse_reply(query.form, text), edit(operations=OPERATIONS)
    options = {"n": 1, "max_replacements": 0, "operations": "listed"}
    return [score_of(metric(**options), rule, sample) for metric in ALL[:2]]


@pytest.mark.parametrize(
    ("text", "grades"),
    [*((text, [7, 9]) for text in READ.values()), (raw("0", "10"), [0, 10]), (raw("10", "0"), [10, 0])],
)
def test_a_plain_answer_is_read(text, grades):
    scores = worth(text)
    assert [score.value for score in scores] == grades
    assert [credit.value for credit in scores[0].credits.values()] == [9.0, 5.0]


@pytest.mark.parametrize("name", FAILED)
def test_what_is_no_answer_or_several_is_a_failed_measurement_with_the_words(name):
    text = FAILED[name]
    assert isinstance(parse_reply(judgement_form(2), text), Failure)
    for score in worth(text):
        assert (score.status, score.value) == ("failed", None)
        assert "the judge gave no answer" in score.reason
        assert [item.text for item in score.evidence] == ([text] if text else [])


def test_a_judgement_is_not_mixed_from_draws_of_other_samples():
    rule = lambda query: verdict(9, 9) if query.images[1] == edit().edited else verdict(1, 1)  # noqa: E731
    other = edit("b", edited=edit().source)
    scores, _ = asked(ComplexEditInstructionFollowing(n=5), rule, edit("a"), other)
    assert [score.value for score in scores] == [9.0, 1.0]
