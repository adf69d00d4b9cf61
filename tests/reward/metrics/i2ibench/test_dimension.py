"""The pipelines of a judge alone: five levels, two levels, and questions written without a look at the edit."""

import json
from collections import Counter

import pytest

from editcritic.reward.metrics.i2ibench.dimension import QUESTIONS as QUESTION_FORM
from editcritic.reward.metrics.i2ibench.similarity import COMMANDS, COMMANDS_BY_SOURCE
from editcritic.reward.metrics.i2ibench.specialists import STYLE as STYLE_FORM
from editcritic.reward.queries import Failure, Reply
from editcritic.reward.queries.response_formats import parse_reply

from ...fakes import picture
from .scripted_i2ibench import EDITED, FIRST, QUESTIONS, SECOND, STYLE, World, of, sample_for, several, single

LEVELS = {"excellent": 0.1, "good": 0.2, "fair": 0.3, "poor": 0.3, "bad": 0.1}
RATED = {"blending": "blending-naturalness", "artifacts": "editing-artifacts", "following": "instruction-following"}


def scored(metric, sample=None, **says):
    """The score where the judge says this, and what it was asked."""
    world = World(says=says)
    (score,) = world.score(metric, sample or single())
    return score, world.judged


# -- levels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", RATED)
def test_a_level_is_the_expectation_over_the_probabilities(topic):
    for name, sample in ((RATED[topic], single()), (f"multi-{RATED[topic]}", several())):
        score, _ = scored(of(name), sample, **{topic: Reply("fair", LEVELS)})
        assert score.value == pytest.approx(0.1 + 0.2 * 0.75 + 0.3 * 0.5 + 0.3 * 0.25)
        (evidence,) = score.evidence
        assert (evidence.what, evidence.text, evidence.image) == (f"judge i2i/{topic}", "fair", EDITED.digest)
        assert evidence.numbers == LEVELS


@pytest.mark.parametrize(
    ("word", "value"),
    [("excellent", 1), ("good", 0.75), ("fair", 0.5), ("poor", 0.25), ("bad", 0), ("3. fair", 0.5),
     ("2) good (Minor artifacts.)", 0.75), ("1. excellent\n2. good\n3. fair", None), (Failure("broken"), None)],
)  # fmt: skip
def test_without_probabilities_the_word_has_its_weight(word, value):
    score, _ = scored(of("instruction-following"), following=word)
    assert (score.value, score.status) == (value, "failed" if value is None else "scored")


def test_in_the_papers_protocol_the_role_is_a_system_prompt():
    _, (question,) = scored(of("instruction-following", paper=True), single(instruction="xyzzy"))
    system, user = question.messages
    assert (system.role, user.role) == ("system", "user")
    assert system.content[0].startswith("Check with care")
    assert "xyzzy" in user.content[-1]
    with pytest.raises(ValueError, match="no system prompt in the paper"):
        of("physical-plausibility", paper=True)


def test_blending_is_not_told_the_instruction_and_may_be_judged_by_the_edited_picture_alone():
    _, (question,) = scored(of("blending-naturalness"), single(instruction="xyzzy"))
    assert question.slots == ()
    assert "xyzzy" not in question.messages[0].content[-1]
    score, (question,) = scored(of("blending-naturalness", shown_images="edited"))
    assert (question.images, question.topic, question.slots) == ((EDITED,), "i2i/blending", ())
    assert score.metric == "i2i-blending-naturalness@2[shown_images=edited]"
    with pytest.raises(ValueError, match="shown_images is for blending-naturalness"):
        of("editing-artifacts", shown_images="edited")
    with pytest.raises(ValueError, match="no shown_images 'all': there are both, edited"):
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


@pytest.mark.parametrize(("dimension", "topic"), [("local-attribute", "success"), ("world-knowledge", "knowledge")])
def test_two_levels_are_the_probability_of_yes(dimension, topic):
    for reply, value in ((Reply("no", {"yes": 0.375, "no": 0.625}), 0.375), ("Yes.", 1.0), ("no", 0.0)):
        assert scored(of(dimension), **{topic: reply})[0].value == value
    for words in ("yes and no", "No idea.", "It depends"):
        score, _ = scored(of(dimension), **{topic: words})
        assert score.status == "failed"
        assert words in score.reason
        assert score.evidence[0].text == words


def test_knowledge_is_told_the_hint():
    _, (question,) = scored(of("multi-world-knowledge"), several(hint="seven candles"))
    assert dict(question.slots) == {"instruction": "make the cup blue", "hint": "seven candles"}


# -- questions ---------------------------------------------------------------------------------------------------------

SUBJECTS = {
    "physical-plausibility": "physical",
    "composition-interaction": "composition",
    "multi-physical-plausibility": "physical_multi",
    "multi-composition-interaction": "composition_multi",
    "multi-cross-source-attribute": "transfer_multi",
    "multi-inter-subject-consistency": "consistency_multi",
}


def no_to(*wrong):
    return lambda query: "no" if dict(query.slots)["question"] in wrong else "yes"


@pytest.mark.parametrize("dimension", SUBJECTS)
def test_the_score_is_the_share_of_yes_and_all_edits_of_a_prompt_get_the_same_questions(dimension):
    world = World(says={"answer": no_to(*QUESTIONS[:2])})
    edits = [sample_for(dimension, name=f"e{n}", edited=picture(20 + n)) for n in range(16)]
    for score in world.score(of(dimension), *edits):
        assert score.value == pytest.approx(4 / 6)
        assert score.reason == f"no to 2 of 6: {QUESTIONS[0]} {QUESTIONS[1]}"
    asked = {f"i2i/questions_{SUBJECTS[dimension]}": 1, "i2i/answer": 16 * len(QUESTIONS)}
    assert Counter(query.topic for query in world.judged) == asked
    assert set(world.seen.values()) == {1}
    world.score(of(dimension), sample_for(dimension, instruction="remove the cup"))
    assert sum("questions_" in query.topic for query in world.judged) == 2


@pytest.mark.parametrize("dimension", SUBJECTS)
def test_a_pack_may_ask_for_the_key_that_the_paper_prints(dimension, tmp_path):
    topic, key = f"questions_{SUBJECTS[dimension]}", f"{SUBJECTS[dimension].removesuffix('_multi')}_questions"
    (tmp_path / f"{topic}.txt").write_text(f"Ask about {{instruction}}, under “{key}”.", encoding="utf-8")
    packed, five, sample = of(dimension, prompts=str(tmp_path)), QUESTIONS[:5], sample_for(dimension)
    says = {topic: {key: five}, "answer": no_to(five[2])}
    assert scored(packed, sample, **says)[0].value == 0.8  # yes yes no yes yes
    assert scored(of(dimension), sample, **says)[0].status == "failed"
    assert scored(packed, sample, **{topic: {"questions": five}})[0].status == "failed"
    (tmp_path / f"{topic}.txt").write_text("Ask about {instruction}.", encoding="utf-8")
    assert scored(of(dimension, prompts=str(tmp_path)), sample)[0].value == 1.0, "in other words it keeps our key"


def test_a_probability_of_a_half_is_a_yes_and_less_is_none():
    replies = iter([Reply("?", {"yes": p, "no": 1 - p}) for p in (0.5, 0.499, 0.9, 0.1, 1.0, 0.0)])
    assert scored(of("physical-plausibility"), answer=lambda query: next(replies))[0].value == 0.5


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
    score, judged = scored(of("physical-plausibility"), questions_physical=written)
    assert (score.status, len(judged)) == ("failed", 1)


def test_answers_may_be_given_by_the_edited_picture_alone_and_one_that_cannot_be_read_fails_the_score():
    score, (writing, *answers) = scored(of("physical-plausibility", answering_view="edited"))
    assert score.metric == "i2i-physical-plausibility@2[answering_view=edited]"
    assert writing.images == (FIRST,)
    for query, question in zip(answers, QUESTIONS, strict=True):
        assert (query.topic, query.images, query.slots) == ("i2i/answer", (EDITED,), (("question", question),))
    unread = lambda query: "Hard to say" if QUESTIONS[3] in query.messages[0].content[-1] else "yes"  # noqa: E731
    score, _ = scored(of("physical-plausibility"), answer=unread)
    assert (score.status, "Hard to say" in score.reason) == ("failed", True)


@pytest.mark.parametrize("dimension", ["multi-cross-source-attribute", "multi-inter-subject-consistency"])
def test_by_two_levels_one_question_is_asked_of_all_samples(dimension):
    world = World(says={"answer": Reply("yes", {"yes": 0.625, "no": 0.375})})
    metric = of(dimension, protocol="two_levels")
    scores = world.score(metric, several(), several("other", instruction="swap their hats"))
    assert [score.value for score in scores] == [0.625, 0.625]
    assert scores[0].metric == f"i2i-{dimension}@2[protocol=two_levels]"
    first, second = world.judged
    assert (first.topic, first.images) == ("i2i/answer", (FIRST, SECOND, EDITED))
    assert dict(first.slots)["question"] == dict(second.slots)["question"]


def test_a_protocol_belongs_to_its_dimensions():
    consistency, transfer = "multi-inter-subject-consistency", "multi-cross-source-attribute"
    score, (question,) = scored(of(consistency, protocol="five_levels"), several(), level="good")
    assert (score.value, dict(question.slots)["dimension"]) == (0.75, "Inter-Subject Consistency")
    assert of(consistency).card.protocols == ("questions", "five_levels", "two_levels")
    assert of(transfer).card.protocols == ("questions", "two_levels")
    assert of("physical-plausibility").card.protocols == ()
    for dimension, options, says in (
        ("physical-plausibility", {"protocol": "two_levels"}, "no protocol 'two_levels': there are questions"),
        (transfer, {"protocol": "five_levels"}, "no protocol 'five_levels'"),
        (consistency, {"protocol": "five_levels", "answering_view": "edited"}, "five_levels asks none"),
        ("physical-plausibility", {"answering_view": "none"}, "no answering_view 'none': there are full, edited"),
    ):
        with pytest.raises(ValueError, match=says):
            of(dimension, **options)


# -- replies in JSON; how any JSON is read is in test_parsing.py -------------------------------------------------------

FIVE = QUESTIONS[:5]
CAT = {"source_index": 1, "segmentation_prompt": "Please segment the cat"}
GRADE = {**STYLE, "score": 4}


@pytest.mark.parametrize(
    ("form", "value"),
    [(QUESTION_FORM, {"questions": FIVE}), (QUESTION_FORM, {"questions": [*FIVE, "Is 5?", "Is 6?"]}), (COMMANDS, []),
     (COMMANDS, ["Please segment the table"]), (COMMANDS_BY_SOURCE, [CAT]), (COMMANDS_BY_SOURCE, []),
     (STYLE_FORM, GRADE), (STYLE_FORM, {**GRADE, "score": 1})],
)  # fmt: skip
def test_what_is_plain_is_read(form, value):
    for text in (json.dumps(value), f"Here it is:\n```json\n{json.dumps(value)}\n```"):
        reply = parse_reply(form, text)
        assert isinstance(reply, Reply)
        assert form.reply_value(reply) == value


@pytest.mark.parametrize(
    ("form", "value"),
    [
        *((QUESTION_FORM, value) for value in (FIVE, {"questions": FIVE[:4]}, {"questions": [*FIVE, *FIVE[:3]]})),
        *((QUESTION_FORM, value) for value in ({"questions": [*FIVE[:4], 5]}, {"questions": FIVE, "notes": "none"})),
        *((COMMANDS, value) for value in ("Please segment it", [CAT], [["Please"]], ["Please", None])),
        *((COMMANDS_BY_SOURCE, value) for value in (CAT, ["Please segment the cat"], [{**CAT, "source_index": -1}])),
        *((COMMANDS_BY_SOURCE, value) for value in ([{**CAT, "source_index": 0.5}], [{"source_index": 0}])),
        *((STYLE_FORM, value) for value in (4, {"analysis": GRADE}, {"score": 4}, {**GRADE, "score": [4]})),
    ],
)
def test_what_is_not_of_the_form_is_a_failure_with_the_words(form, value):
    failure = parse_reply(form, json.dumps(value))
    assert isinstance(failure, Failure)
    assert failure.raw == json.dumps(value)
