"""Five levels and two levels: what an answer is worth, with and without probabilities."""

import pytest

from editcritic.reward.queries import Failure, Reply

from .scripted_i2ibench import EDITED, World, of, several, single

LEVELS = {"excellent": 0.1, "good": 0.2, "fair": 0.3, "poor": 0.3, "bad": 0.1}


@pytest.mark.parametrize("topic", ["blending", "artifacts", "following"])
def test_a_level_is_the_expectation_over_the_probabilities(topic):
    dimension = {"blending": "blending-naturalness", "artifacts": "editing-artifacts"}.get(
        topic, "instruction-following"
    )
    for name, sample in ((dimension, single()), (f"multi-{dimension}", several())):
        (score,) = World(says={topic: Reply("fair", LEVELS)}).score(of(name), sample)
        assert score.value == pytest.approx(0.1 + 0.2 * 0.75 + 0.3 * 0.5 + 0.3 * 0.25)


@pytest.mark.parametrize(
    ("word", "value"), [("excellent", 1), ("good", 0.75), ("fair", 0.5), ("poor", 0.25), ("bad", 0)]
)
def test_without_probabilities_the_word_has_its_weight(word, value):
    (score,) = World(says={"following": word}).score(of("instruction-following"), single())
    assert score.value == value


def test_in_the_papers_protocol_the_role_is_a_system_prompt():
    world = World()
    world.score(of("instruction-following", paper=True), single(instruction="xyzzy"))
    (question,) = world.judged
    system, user = question.messages
    assert (system.role, user.role) == ("system", "user")
    assert system.content[0].startswith("Check with care")
    assert "xyzzy" in user.content[-1]
    with pytest.raises(ValueError, match="no system prompt in the paper"):
        of("physical-plausibility", paper=True)


def test_blending_is_not_told_the_instruction():
    world = World()
    world.score(of("blending-naturalness"), single(instruction="xyzzy"))
    (question,) = world.judged
    assert question.slots == ()
    assert "xyzzy" not in question.messages[0].content[-1]


def test_blending_may_be_judged_by_the_edited_picture_alone():
    world = World()
    (score,) = world.score(of("blending-naturalness", shown_images="edited"), single())
    (question,) = world.judged
    assert question.images == (EDITED,)
    assert (question.topic, question.slots) == ("i2i/blending", ())
    assert score.metric == "i2i-blending-naturalness@2[shown_images=edited]"
    with pytest.raises(ValueError, match="shown_images is for blending-naturalness"):
        of("editing-artifacts", shown_images="edited")
    with pytest.raises(ValueError, match="shown_images is one of both, edited, got 'all'"):
        of("blending-naturalness", shown_images="all")


@pytest.mark.parametrize("prefix", ["", "multi-"])
def test_by_a_judge_alone_their_own_question_is_asked_but_for_artifacts(prefix):
    sample = several() if prefix else single()
    for name, same in (("blending-naturalness", True), ("instruction-following", True), ("editing-artifacts", False)):
        world = World()
        full, alone = of(prefix + name), of(prefix + name, judge_only=True)
        scores = [world.score(metric, sample)[0] for metric in (full, alone)]
        assert (len({query.digest for query in world.judged}) == 1) is same
        assert (scores[0].value == scores[1].value) is same
        assert alone.signature == f"i2i-{prefix}{name}@3[judge_only]"


def test_a_level_may_repeat_its_number_in_the_prompt():
    for reply, value in (("3. fair", 0.5), ("2) good (Minor artifacts.)", 0.75)):
        (score,) = World(says={"artifacts": reply}).score(of("editing-artifacts"), single())
        assert score.value == value
    (score,) = World(says={"artifacts": "1. excellent\n2. good\n3. fair"}).score(of("editing-artifacts"), single())
    assert score.status == "failed"


@pytest.mark.parametrize(("dimension", "topic"), [("local-attribute", "success"), ("world-knowledge", "knowledge")])
def test_two_levels_are_the_probability_of_yes(dimension, topic):
    for reply, value in ((Reply("no", {"yes": 0.375, "no": 0.625}), 0.375), ("Yes.", 1.0), ("no", 0.0)):
        (score,) = World(says={topic: reply}).score(of(dimension), single())
        assert score.value == value


def test_knowledge_is_told_the_hint():
    world = World()
    world.score(of("multi-world-knowledge"), several(hint="seven candles"))
    (question,) = world.judged
    assert dict(question.slots) == {"instruction": "make the cup blue", "hint": "seven candles"}


@pytest.mark.parametrize("words", ["yes and no", "No idea.", "It depends"])
def test_an_answer_that_is_neither_yes_nor_no_fails_with_the_words(words):
    (score,) = World(says={"success": words}).score(of("object-manipulation"), single())
    assert score.status == "failed"
    assert words in score.reason
    assert score.evidence[0].text == words


def test_a_judge_that_fails_fails_the_score():
    (score,) = World(says={"artifacts": Failure("out of order")}).score(of("editing-artifacts"), single())
    assert score.status == "failed"
    assert "out of order" in score.reason


def test_the_evidence_holds_what_was_said():
    (score,) = World(says={"following": Reply("fair", LEVELS)}).score(of("instruction-following"), single())
    (evidence,) = score.evidence
    assert (evidence.what, evidence.text, evidence.image) == ("judge i2i/following", "fair", EDITED.digest)
    assert evidence.numbers == LEVELS
