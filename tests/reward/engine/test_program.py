"""Requests of a program, and its results by outcome; without an engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Score, ask
from editcritic.reward.engine import Abstained, Failed, ask_many, gather
from editcritic.reward.engine.program import Ask, Gather, Unanswered
from editcritic.reward.queries import Abstention, Failure, Measurement

from ..fakes import asks, question

OUTCOMES = st.lists(
    st.one_of(
        st.builds(Measurement, st.floats(0, 1)),
        st.builds(Abstention, st.text(min_size=1)),
        st.builds(Failure, st.text(min_size=1), st.sampled_from(["", "judge"])),
    ),
    min_size=1,
    max_size=5,
).map(tuple)


def answered(program, *answers):
    """Run a program on these answers: its requests, and its return value."""
    requests = [program.send(None)]
    for answer in answers[:-1]:
        requests.append(program.send(answer))  # noqa: PERF401  (a StopIteration here must not end a comprehension unheard)
    with pytest.raises(StopIteration) as stop:
        program.send(answers[-1])
    return requests, stop.value.value


def test_one_question_gives_its_answer_and_several_a_tuple():
    first, second = Measurement(1.0), Measurement(2.0)
    assert answered(ask(question(1)), (first,)) == ([Ask((question(1),))], first)
    assert answered(ask(question(1), question(2)), (first, second)) == (
        [Ask((question(1), question(2)))],
        (first, second),
    )
    assert answered(ask_many([question(1)], role="other"), (first,)) == ([Ask((question(1),), "other")], (first,))
    programs = (asks(1), asks(2))
    scores = (Score.of(1), Score.failed("down"))
    assert answered(gather(programs), scores) == ([Gather(programs)], scores)


@pytest.mark.parametrize("nothing", [ask_many([]), gather([])])
def test_nothing_is_asked_where_there_is_nothing_to_ask(nothing):
    with pytest.raises(StopIteration) as stop:
        next(nothing)
    assert stop.value.value == ()


@given(OUTCOMES)
def test_the_first_failure_is_raised_else_the_first_abstention_with_all_that_was_answered(outcomes):
    program = ask_many([question(number) for number in range(len(outcomes))])
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    abstentions = [outcome for outcome in outcomes if isinstance(outcome, Abstention)]
    if not failures and not abstentions:
        assert answered(program, outcomes)[1] == outcomes
        return
    program.send(None)
    with pytest.raises(Failed if failures else Abstained) as caught:
        program.send(outcomes)
    reasons = [f"{outcome.reason} ({outcome.expert})" if outcome.expert else outcome.reason for outcome in failures]
    reasons += [outcome.reason for outcome in abstentions]
    assert (caught.value.reason, caught.value.outcomes) == (reasons[0], outcomes)


def test_an_unanswered_question_is_no_exception_that_is_caught_by_accident():
    assert not issubclass(Unanswered, Exception)
