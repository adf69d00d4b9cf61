"""Question sets: written once a prompt, without a look at the edit, and answered one by one."""

from collections import Counter

import pytest

from editcritic.reward.queries import Failure, Reply

from ...fakes import picture
from .scripted_i2ibench import EDITED, FIRST, QUESTIONS, SECOND, World, of, several, single

SUBJECTS = {
    "physical-plausibility": "physical",
    "composition-interaction": "composition",
    "multi-physical-plausibility": "physical_multi",
    "multi-composition-interaction": "composition_multi",
    "multi-cross-source-attribute": "transfer_multi",
    "multi-inter-subject-consistency": "consistency_multi",
}


def sample_for(dimension, **fields):
    return several(**fields) if dimension.startswith("multi-") else single(**fields)


def no_to(*wrong):
    return lambda query: "no" if dict(query.slots)["question"] in wrong else "yes"


@pytest.mark.parametrize("dimension", SUBJECTS)
def test_the_score_is_the_share_of_yes(dimension):
    world = World(says={"answer": no_to(*QUESTIONS[:2])})
    (score,) = world.score(of(dimension), sample_for(dimension))
    assert score.value == pytest.approx(4 / 6)
    assert score.reason == f"no to 2 of 6: {QUESTIONS[0]} {QUESTIONS[1]}"
    assert [dict(query.slots).get("question") for query in world.judged] == [None, *QUESTIONS]


@pytest.mark.parametrize("dimension", SUBJECTS)
def test_sixteen_edits_of_one_prompt_have_their_questions_written_once(dimension):
    world = World()
    edits = [sample_for(dimension, name=f"e{n}", edited=picture(20 + n)) for n in range(16)]
    world.score(of(dimension), *edits)
    assert Counter(query.topic for query in world.judged) == {
        f"i2i/questions_{SUBJECTS[dimension]}": 1,
        "i2i/answer": 16 * len(QUESTIONS),
    }
    assert set(world.seen.values()) == {1}


@pytest.mark.parametrize("dimension", SUBJECTS)
def test_a_pack_may_ask_for_the_key_that_the_paper_prints(dimension, tmp_path):
    topic, key = f"questions_{SUBJECTS[dimension]}", f"{SUBJECTS[dimension].removesuffix('_multi')}_questions"
    (tmp_path / f"{topic}.txt").write_text(f"Ask about {{instruction}}, under “{key}”.", encoding="utf-8")
    pack = str(tmp_path)
    five = QUESTIONS[:5]
    world = World(says={topic: {key: five}, "answer": no_to(five[2])})
    (score,) = world.score(of(dimension, prompts=pack), sample_for(dimension))
    assert score.value == 0.8  # yes yes no yes yes
    (ours,) = world.score(of(dimension), sample_for(dimension))
    assert ours.status == "failed"
    (other,) = World(says={topic: {"questions": five}}).score(of(dimension, prompts=pack), sample_for(dimension))
    assert other.status == "failed"


def test_a_pack_in_other_words_keeps_our_key(tmp_path):
    (tmp_path / "questions_physical.txt").write_text("Ask about {instruction}.", encoding="utf-8")
    (score,) = World().score(of("physical-plausibility", prompts=str(tmp_path)), single())
    assert score.value == 1.0


def test_another_instruction_has_its_own_questions():
    world = World()
    world.score(of("physical-plausibility"), single(), single(instruction="remove the cup"))
    assert sum(query.topic == "i2i/questions_physical" for query in world.judged) == 2


def test_seven_questions_are_seven_shares():
    seven = [*QUESTIONS, "Is thing 7 right?"]
    world = World(says={"questions_physical": {"questions": seven}, "answer": no_to(seven[-1])})
    (score,) = world.score(of("physical-plausibility"), single())
    assert score.value == pytest.approx(6 / 7)


def test_a_probability_of_a_half_is_a_yes_and_less_is_none():
    replies = iter([Reply("?", {"yes": p, "no": 1 - p}) for p in (0.5, 0.499, 0.9, 0.1, 1.0, 0.0)])
    (score,) = World(says={"answer": lambda query: next(replies)}).score(of("physical-plausibility"), single())
    assert score.value == 0.5


def test_an_answer_that_cannot_be_read_fails_the_score():
    says = {"answer": lambda query: "Hard to say" if QUESTIONS[3] in query.messages[0].content[-1] else "yes"}
    (score,) = World(says=says).score(of("physical-plausibility"), single())
    assert score.status == "failed"
    assert "Hard to say" in score.reason


@pytest.mark.parametrize(
    "written",
    [
        {"questions": QUESTIONS[:4]},
        {"questions": [*QUESTIONS, "Is it?", "Is it so?"]},
        {"questions": [*QUESTIONS, " "]},
        {"questions": "Is it right?"},
        {"physical_questions": QUESTIONS},
        "1. Is it right?",
        Failure("no time"),
    ],
)
def test_questions_that_are_not_five_to_seven_fail_the_score(written):
    world = World(says={"questions_physical": written})
    (score,) = world.score(of("physical-plausibility"), single())
    assert score.status == "failed"
    assert len(world.judged) == 1


def test_answers_may_be_given_by_the_edited_picture_alone():
    world = World()
    (score,) = world.score(of("physical-plausibility", answering_view="edited"), single())
    assert score.metric == "i2i-physical-plausibility@2[answering_view=edited]"
    writing, *answers = world.judged
    assert writing.images == (FIRST,)
    for query, question in zip(answers, QUESTIONS, strict=True):
        assert query.topic == "i2i/answer"
        assert query.images == (EDITED,)
        assert query.slots == (("question", question),)


@pytest.mark.parametrize("dimension", ["multi-cross-source-attribute", "multi-inter-subject-consistency"])
def test_by_two_levels_one_question_is_asked_of_all_samples(dimension):
    world = World(says={"answer": Reply("yes", {"yes": 0.625, "no": 0.375})})
    metric = of(dimension, protocol="two_levels")
    scores = world.score(metric, several(), several("other", instruction="swap their hats"))
    assert [score.value for score in scores] == [0.625, 0.625]
    assert scores[0].metric == f"i2i-{dimension}@2[protocol=two_levels]"
    first, second = world.judged
    assert first.topic == "i2i/answer"
    assert first.images == (FIRST, SECOND, EDITED)
    assert dict(first.slots)["question"] == dict(second.slots)["question"]


def test_by_five_levels_it_is_a_level_of_the_dimension():
    world = World(says={"level": "good"})
    (score,) = world.score(of("multi-inter-subject-consistency", protocol="five_levels"), several())
    assert score.value == 0.75
    (question,) = world.judged
    assert dict(question.slots)["dimension"] == "Inter-Subject Consistency"


def test_a_protocol_belongs_to_its_dimensions():
    assert of("multi-inter-subject-consistency").card.protocols == ("questions", "five_levels", "two_levels")
    assert of("multi-cross-source-attribute").card.protocols == ("questions", "two_levels")
    assert of("physical-plausibility").card.protocols == ()
    with pytest.raises(ValueError, match="has no protocol 'two_levels': it has questions"):
        of("physical-plausibility", protocol="two_levels")
    with pytest.raises(ValueError, match="has no protocol 'five_levels'"):
        of("multi-cross-source-attribute", protocol="five_levels")
    with pytest.raises(ValueError, match="five_levels asks none"):
        of("multi-inter-subject-consistency", protocol="five_levels", answering_view="edited")
    with pytest.raises(ValueError, match="answering_view is one of full, edited, got 'none'"):
        of("physical-plausibility", answering_view="none")
