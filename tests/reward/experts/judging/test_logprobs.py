"""Option probabilities from tokens and their alternatives are exact, or None."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.experts.judging.logprobs import (
    MAX_UNRESOLVED_SHARE,
    TokenLogprob,
    allowed_logprobs,
    answer_probabilities,
    option_probabilities,
)

YES_NO = ("yes", "no")
GRADES = tuple(map(str, range(11)))
LEVELS = ("very poor", "poor", "good", "very good")
TINY = MAX_UNRESOLVED_SHARE / 2


def of(shares: dict[str, float]) -> TokenLogprob:
    """A token with its alternatives and probabilities; the first one is sampled."""
    pairs = tuple((token, log(share)) for token, share in shares.items())
    return TokenLogprob(*pairs[0], pairs)


@pytest.mark.parametrize(
    ("options", "steps", "shares", "mass"),
    [
        (YES_NO, [{"Yes": 0.4, " yes": 0.1, "YES": 0.1, "No": 0.15, "▁no": 0.05, "Maybe": 0.1}], [0.75, 0.25], 0.8),
        (YES_NO, [{"**": 0.5, "Yes": 0.25, "no": 0.25}, {"No": 0.8, "Yes": 0.2}], [0.35, 0.65], 1.0),
        (YES_NO, [{"yes": 0.5, "none": 0.2, "nothing": 0.1, "no": 0.1}], [5 / 6, 1 / 6], 0.6),
        (("1", "10", "7"), [{"1": 0.5, "7": 0.5}, {"0": 0.6, "<|im_end|>": 0.3, ".": 0.1}], [0.2, 0.3, 0.5], 1.0),
        (("1", "10", "7"), [{"7": 0.6, "1": 0.3, "10": 0.1}], [0.3, 0.1, 0.6], 1.0),  # 10 is a token of its own
        (LEVELS, [{"very": 0.6, "good": 0.3, "poor": 0.1}, {" good": 0.75, " poor": 0.25}], [0.15, 0.1, 0.3, 0.45], 1),
        (("excellent", "poor"), [{"exc": 0.9, "poor": 0.1}, {"ellent": 1.0}], [0.9, 0.1], 1.0),
        *((("7", "6"), [{"7": 0.5, token: 0.5}], [1.0, 0.0], 0.5) for token in ("7.5", "17", "-x")),
        (("7", "1", "10"), [{"7": 1 - TINY, "1": TINY}], [1.0, 0.0, 0.0], 1.0),  # so little may stay untold
        # What the tokens leave open is not guessed.
        (YES_NO, [], None, None),
        (YES_NO, [{"The": 0.9, "Yes": 0.1}, {" answer": 1.0}, {" no": 1.0}], None, None),  # words before the answer
        (GRADES, [{"7": 0.6, "1": 0.4}], None, None),  # 1 or 10
        (GRADES, [{"7": 0.6, "1": 0.4}, {"</s>": 1.0}], None, None),
        (GRADES, [{"1": 0.6, "7": 0.4}], None, None),
        (GRADES, [{"7": 1 - 4 * TINY, "1": 4 * TINY}], None, None),
        (LEVELS, [{"good": 0.7, "very": 0.3}], None, None),
    ],
)
def test_what_tokens_spell_is_summed_over_their_spellings(options, steps, shares, mass):
    known = option_probabilities(options, [of(step) for step in steps])
    if shares is None:
        assert known is None
        return
    assert known is not None
    assert known[0] == pytest.approx(dict(zip(options, shares, strict=True)))
    assert known[1] == pytest.approx(mass, abs=2 * TINY)


THOUGHTS = [of({"<think>": 1.0}), of({"Yes": 0.9, "No": 0.1}), of({", the user wants": 1.0}), of({"</think>": 1.0})]
NO = of({"No": 0.8, "Yes": 0.2})


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("No", [*THOUGHTS, of({"\n\n": 1.0}), NO, of({"<|im_end|>": 1.0})]),
        ("No", [*THOUGHTS, NO, of({"": 1.0})]),
        ("\n\nNo\n", [*THOUGHTS, of({"ĊĊ": 1.0}), NO, of({"Ċ": 1.0})]),
        ("<think>Yes, the user wants</think>No", [*THOUGHTS, NO]),
        ("Yes, the user wants</think>\nNo", [*THOUGHTS[1:], of({"▁": 1.0}), NO, of({"</s>": 1.0})]),
        ("<|begin_of_box|>No<|end_of_box|>", [of({"<|begin_of_box|>": 1.0}), NO, of({"<|end_of_box|>": 1.0})]),
        ("No, it stands there.", [*THOUGHTS, NO, of({", it": 1.0}), of({" stands there.": 1.0})]),
    ],
)
def test_only_the_tokens_that_spell_the_answer_count(text, steps):
    shares, mass = answer_probabilities(YES_NO, text, steps, finished=True)
    assert shares == pytest.approx({"yes": 0.2, "no": 0.8})
    assert mass == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("No", [of({"Yes": 0.9, "No": 0.1})]),
        ("No", [*THOUGHTS[:3], of({"</think>": 1.0})]),
        ("No, it stands there.", [NO]),
        ("No", [*THOUGHTS, NO, of({"pe": 1.0})]),
        ("No", [TokenLogprob("No", -0.1, ())]),
        ("<think>Yes", [of({"<think>": 1.0}), of({"Yes": 1.0})]),
    ],
)
def test_tokens_that_say_something_else_than_the_words_say_nothing(text, steps):
    assert answer_probabilities(YES_NO, text, steps, finished=True) == ({}, None)


LIMITS = {
    "Invalid value for 'top_logprobs': must be less than or equal to 5.": 5,
    "Invalid 'top_logprobs': 20. Expected an integer in range [0, 5]": 5,
    "Requested sample logprobs of 20, which is greater than max allowed: 5 (parameter=logprobs, value=20)": 5,
    "Cannot request more than 5 logprobs.": 5,
    "20 is greater than the maximum of 1 - 'logprobs'": 1,
    "top_logprobs must be between 0 and 8": 8,
    "top_logprobs must be between 0 and 20": 0,
    "422 The deployment doesn't support logprobs request parameter.": 0,
    "Logprobs is not enabled for models/gemini-2.5-flash-lite": 0,
    "Logprobs(True)/top_logprobs(20) requested but not enabled logprobs_mode": 0,
}


def test_the_number_of_alternatives_that_a_server_allows_and_what_is_no_probability():
    assert {message: allowed_logprobs(message, 20) for message in LIMITS} == LIMITS
    for logprob in (float("nan"), 0.5, 40.0, -0.1):
        sampled, says = (-0.1, "sum to") if logprob == -0.1 else (-1.0, "no log-probability")
        with pytest.raises(ValueError, match=says):
            option_probabilities(YES_NO, [TokenLogprob("yes", sampled, (("yes", sampled), ("no", logprob)))])


@given(st.dictionaries(st.sampled_from(GRADES), st.floats(0.05, 1.0), min_size=2), st.data())
def test_a_model_of_single_digits_is_read_exactly_along_what_it_said(weights, data):
    """Against the truth: a distribution over grades, written digit by digit and ended by a token."""
    total = sum(weights.values())
    truth = {grade: weights.get(grade, 0.0) / total for grade in GRADES}
    sampled = data.draw(st.sampled_from(sorted(weights)))
    steps, before = [], ""
    for token in [*sampled, "<|end|>"]:
        here = sum(p for grade, p in truth.items() if grade.startswith(before))
        shares = {c: sum(p for g, p in truth.items() if g.startswith(before + c)) / here for c in "0123456789"}
        shares["<|end|>"] = truth.get(before, 0.0) / here
        ordered = {token: shares[token], **shares}
        steps.append(of({one: share for one, share in ordered.items() if share > 0}))
        before += token
    known = option_probabilities(GRADES, steps)
    if truth["1"] + truth["10"] > 0 and sampled[0] != "1":  # unresolved
        assert known is None
    else:
        assert known is not None
        assert known[0] == pytest.approx(truth, abs=1e-9)
        assert known[1] == pytest.approx(1.0)
