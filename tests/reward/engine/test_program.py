"""What a program yields when it asks, and what comes of the answers; no engine in sight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Abstained, Abstention, Failed, Failure, Measured, Score, ask, ask_each, gather
from editcritic.reward.asking import Ask, Gather, Unanswered

from .fakes import asks, question


def answered(program, *answers):
    """Run a program on these answers: what it asked, and what it returned."""
    asked = [program.send(None)]
    for answer in answers[:-1]:
        asked.append(program.send(answer))  # noqa: PERF401  (a StopIteration here must not end a comprehension unheard)
    with pytest.raises(StopIteration) as stop:
        program.send(answers[-1])
    return asked, stop.value.value


def test_one_question_gives_its_answer_and_several_a_tuple():
    one, two = Measured(1.0), Measured(2.0)
    assert answered(ask(question(1)), (one,)) == ([Ask((question(1),))], one)
    assert answered(ask(question(1), question(2)), (one, two)) == ([Ask((question(1), question(2)))], (one, two))
    assert answered(ask_each([question(1)], role="other"), (one,)) == ([Ask((question(1),), "other")], (one,))


def test_programs_are_gathered_into_their_scores():
    programs = (asks(1), asks(2))
    scores = (Score.of(1), Score.failed("down"))
    assert answered(gather(programs), scores) == ([Gather(programs)], scores)


@pytest.mark.parametrize("nothing", [ask_each([]), gather([])])
def test_nothing_is_asked_where_there_is_nothing_to_ask(nothing):
    with pytest.raises(StopIteration) as stop:
        next(nothing)
    assert stop.value.value == ()


OUTCOMES = st.lists(
    st.one_of(
        st.builds(Measured, st.floats(0, 1)),
        st.builds(Abstention, st.text(min_size=1)),
        st.builds(Failure, st.text(min_size=1), st.sampled_from(["", "judge"])),
    ),
    min_size=1,
    max_size=5,
).map(tuple)


@given(OUTCOMES)
def test_the_first_failure_is_raised_else_the_first_abstention_with_all_that_was_answered(outcomes):
    program = ask_each([question(number) for number in range(len(outcomes))])
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    abstentions = [outcome for outcome in outcomes if isinstance(outcome, Abstention)]
    if not failures and not abstentions:
        assert answered(program, outcomes)[1] == outcomes
        return
    program.send(None)
    with pytest.raises(Failed if failures else Abstained) as caught:
        program.send(outcomes)
    said = [f"{one.expert}: {one.reason}" if one.expert else one.reason for one in failures]
    said += [one.reason for one in abstentions]
    assert (caught.value.reason, caught.value.outcomes) == (said[0], outcomes)


def test_an_unanswered_question_is_no_exception_that_is_caught_by_accident():
    assert not issubclass(Unanswered, Exception)
