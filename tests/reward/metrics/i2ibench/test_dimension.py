"""The pipelines of a judge alone: five levels, two levels, and questions written without a look at the edit."""

import json
from collections import Counter

import pytest

from editcritic.reward.metrics.i2ibench.dimensions import QUESTIONS as QUESTION_FORM
from editcritic.reward.metrics.i2ibench.specialists import COMMANDS, COMMANDS_BY_SOURCE
from editcritic.reward.metrics.i2ibench.specialists import STYLE as STYLE_FORM
from editcritic.reward.queries import Failure, Reply
from editcritic.reward.queries.response_formats import parse_reply

from ...fakes import picture
from .scripted_i2ibench import EDITED, FIRST, QUESTIONS, SECOND, STYLE, World, of, sample_for, several, single

LEVELS = {"excellent": 0.1, "good": 0.2, "fair": 0.3, "poor": 0.3, "bad": 0.1}
BLENDING, ARTIFACTS, FOLLOWING = "blending-naturalness", "editing-artifacts", "instruction-following"


def scored(metric, sample=None, **says):
    """The score where the judge says this, and what it was asked."""
    world = World(says=says)
    (score,) = world.score(metric, sample or single())
    return score, world.judged


@pytest.mark.parametrize(
    ("topic", "name"), [("blending", BLENDING), ("artifacts", ARTIFACTS), ("following", FOLLOWING)]
)
def test_a_level_is_the_expectation_over_the_probabilities(topic, name):
    for metric, sample in ((of(name), single()), (of(f"multi-{name}"), several())):
        score, _ = scored(metric, sample, **{topic: Reply("fair", LEVELS)})
        assert score.value == pytest.approx(0.1 + 0.2 * 0.75 + 0.3 * 0.5 + 0.3 * 0.25)
        (evidence,) = score.evidence
        assert (evidence.what, evidence.text, evidence.image) == (f"judge i2i/{topic}", "fair", EDITED.digest)
        assert evidence.numbers == LEVELS


@pytest.mark.parametrize(
    ("name", "topic", "reply", "value"),
    [
        *((FOLLOWING, "following", word, n / 4) for n, word in enumerate(("bad", "poor", "fair", "good", "excellent"))),
        (FOLLOWING, "following", "2) good (Minor artifacts.)", 0.75),
        (FOLLOWING, "following", "1. excellent\n2. good\n3. fair", None),
        (FOLLOWING, "following", Failure("broken"), None),
        *(
            (name, topic, reply, value)
            for name, topic in (("local-attribute", "success"), ("world-knowledge", "knowledge"))
            for reply, value in (
                (Reply("no", {"yes": 0.375, "no": 0.625}), 0.375),
                *(("Yes.", 1.0), ("no", 0.0), ("yes and no", None), ("No idea.", None)),
            )
        ),
    ],
)
def test_a_word_has_its_weight_and_two_levels_are_the_probability_of_yes(name, topic, reply, value):
    score, _ = scored(of(name), **{topic: reply})
    assert (score.value, score.status) == (value, "failed" if value is None else "scored")
    assert not isinstance(reply, str) or topic == "following" or score.evidence[0].text == reply


def test_the_words_that_a_judge_is_told():
    _, (question,) = scored(of(FOLLOWING, paper=True), single(instruction="xyzzy"))
    system, user = question.messages  # in the paper's protocol the role is a system prompt
    assert (system.role, user.role) == ("system", "user")
    assert system.content[0].startswith("Check with care")
    assert "xyzzy" in user.content[-1]
    _, (question,) = scored(of(BLENDING), single(instruction="xyzzy"))  # which is not told the instruction
    assert (question.slots, "xyzzy" in question.messages[0].content[-1]) == ((), False)
    score, (question,) = scored(of(BLENDING, shown_images="edited"))
    assert (question.images, question.topic, question.slots) == ((EDITED,), "i2i/blending", ())
    assert score.metric == f"i2i-{BLENDING}@2[shown_images=edited]"
    _, (question,) = scored(of("multi-world-knowledge"), several(hint="seven candles"))
    assert dict(question.slots) == {"instruction": "make the cup blue", "hint": "seven candles"}


TRANSFER, CONSISTENCY = "multi-cross-source-attribute", "multi-inter-subject-consistency"


@pytest.mark.parametrize(
    ("dimension", "options", "says"),
    [
        ("physical-plausibility", {"paper": True}, "no system prompt in the paper"),
        (ARTIFACTS, {"shown_images": "edited"}, "shown_images is for blending-naturalness"),
        (BLENDING, {"shown_images": "all"}, "no shown_images 'all': there are both, edited"),
        ("physical-plausibility", {"protocol": "two_levels"}, "no protocol 'two_levels': there are questions"),
        (TRANSFER, {"protocol": "five_levels"}, "no protocol 'five_levels'"),
        (CONSISTENCY, {"protocol": "five_levels", "answering_view": "edited"}, "five_levels asks none"),
        ("physical-plausibility", {"answering_view": "none"}, "no answering_view 'none': there are full, edited"),
    ],
)
def test_options_belong_to_their_dimensions(dimension, options, says):
    with pytest.raises(ValueError, match=says):
        of(dimension, **options)


@pytest.mark.parametrize("prefix", ["", "multi-"])
def test_by_a_judge_alone_their_own_question_is_asked_but_for_artifacts(prefix):
    sample = several() if prefix else single()
    for name, same in ((BLENDING, True), (FOLLOWING, True), (ARTIFACTS, False)):
        full, alone = of(prefix + name), of(prefix + name, judge_only=True)
        (a, (one,)), (b, (other,)) = (scored(metric, sample) for metric in (full, alone))
        assert (one.digest == other.digest, a.value == b.value) == (same, same)
        assert alone.signature == f"i2i-{prefix}{name}@3[judge_only]"


# -- questions

SUBJECTS = {
    "physical-plausibility": "physical",
    "composition-interaction": "composition",
    "multi-physical-plausibility": "physical_multi",
    "multi-composition-interaction": "composition_multi",
    TRANSFER: "transfer_multi",
    CONSISTENCY: "consistency_multi",
}


def no_to(*wrong):
    return lambda query: "no" if dict(query.slots)["question"] in wrong else "yes"


@pytest.mark.parametrize("dimension", SUBJECTS)
def test_the_score_is_the_share_of_yes_and_all_edits_of_a_prompt_get_the_same_questions(dimension, tmp_path):
    world = World(says={"answer": no_to(*QUESTIONS[:2])})
    edits = [sample_for(dimension, name=f"e{n}", edited=picture(20 + n)) for n in range(8)]
    for score in world.score(of(dimension), *edits):
        assert score.value == pytest.approx(4 / 6)
        assert score.reason == f"no to 2 of 6: {QUESTIONS[0]} {QUESTIONS[1]}"
    asked = {f"i2i/questions_{SUBJECTS[dimension]}": 1, "i2i/answer": 8 * len(QUESTIONS)}
    assert Counter(query.topic for query in world.judged) == asked
    world.score(of(dimension), sample_for(dimension, instruction="remove the cup"))
    assert sum("questions_" in query.topic for query in world.judged) == 2
    # a pack may ask for the key that the paper prints
    topic, key = f"questions_{SUBJECTS[dimension]}", f"{SUBJECTS[dimension].removesuffix('_multi')}_questions"
    (tmp_path / f"{topic}.txt").write_text(f"Ask about {{instruction}}, under “{key}”.", encoding="utf-8")
    packed, five, sample = of(dimension, prompts=str(tmp_path)), QUESTIONS[:5], sample_for(dimension)
    says = {topic: {key: five}, "answer": no_to(five[2])}
    assert scored(packed, sample, **says)[0].value == 0.8  # yes yes no yes yes
    assert scored(of(dimension), sample, **says)[0].status == "failed"
    assert scored(packed, sample, **{topic: {"questions": five}})[0].status == "failed"
    (tmp_path / f"{topic}.txt").write_text("Ask about {instruction}.", encoding="utf-8")
    assert scored(of(dimension, prompts=str(tmp_path)), sample)[0].value == 1.0, "in other words it keeps our key"


@pytest.mark.parametrize(
    "written",
    [
        *({"questions": QUESTIONS[:4]}, {"questions": [*QUESTIONS, "Is it?", "Is it so?"]}),
        *({"questions": [*QUESTIONS, " "]}, {"questions": "Is it right?"}, {"physical_questions": QUESTIONS}),
        *("1. Is it right?", Failure("no time")),
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
    replies = iter([Reply("?", {"yes": p, "no": 1 - p}) for p in (0.5, 0.499, 0.9, 0.1, 1.0, 0.0)])
    assert scored(of("physical-plausibility"), answer=lambda query: next(replies))[0].value == 0.5, "a half is a yes"


def test_by_levels_one_question_is_asked_of_all_samples():
    for dimension in (TRANSFER, CONSISTENCY):
        world = World(says={"answer": Reply("yes", {"yes": 0.625, "no": 0.375})})
        metric, other = of(dimension, protocol="two_levels"), several("other", instruction="swap their hats")
        scores = world.score(metric, several(), other)
        assert [(score.value, score.metric) for score in scores] == [(0.625, metric.signature)] * 2
        first, second = world.judged
        assert (first.topic, first.images) == ("i2i/answer", (FIRST, SECOND, EDITED))
        assert dict(first.slots)["question"] == dict(second.slots)["question"]
    score, (question,) = scored(of(CONSISTENCY, protocol="five_levels"), several(), level="good")
    assert (score.value, dict(question.slots)["dimension"]) == (0.75, "Inter-Subject Consistency")
    protocols = [of(name).card.protocols for name in (CONSISTENCY, TRANSFER, "physical-plausibility")]
    assert protocols == [("questions", "five_levels", "two_levels"), ("questions", "two_levels"), ()]


# -- replies in JSON; how any JSON is read is in test_parsing.py

FIVE = QUESTIONS[:5]
CAT = {"source_index": 1, "segmentation_prompt": "Please segment the cat"}
GRADE = {**STYLE, "score": 4}
PLAIN = [
    *((QUESTION_FORM, {"questions": FIVE}), (QUESTION_FORM, {"questions": [*FIVE, "Is 5?", "Is 6?"]})),
    *((COMMANDS, []), (COMMANDS, ["Please segment the table"]), (COMMANDS_BY_SOURCE, [CAT])),
    *((COMMANDS_BY_SOURCE, []), (STYLE_FORM, GRADE), (STYLE_FORM, {**GRADE, "score": 1})),
]


@pytest.mark.parametrize(("form", "value"), PLAIN)
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
