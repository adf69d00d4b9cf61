"""All dimensions: what each asks and shows, to which samples it applies, how it is written down and built again."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from editcritic.reward import build, spec_of
from editcritic.reward.metrics.i2ibench import overall
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.queries import Failure, Judge, Levels, Reply, YesNo
from tests.reward.fakes import picture
from tests.reward.metrics.i2ibench.scripted_i2ibench import (
    EDITED,
    FIRST,
    QUESTIONS,
    SECOND,
    World,
    of,
    sample_for,
    several,
    single,
)

ALL = sorted(DIMENSIONS)
BOTH, SOURCES = "sources, edited", "sources"
DIMENSION = pytest.mark.parametrize("dimension", ALL)


def regions(topic, *named):
    """What is asked of regions: the judge, then each command in source and edited, then features of both."""
    pairs = [picture for source in named for picture in (source, "edited")]
    return [(f"i2i/{topic}", BOTH), *(("segment", p) for p in pairs), *(("embed", p) for p in pairs)]


def questions(subject):
    return [(f"i2i/questions_{subject}", SOURCES), *[("i2i/answer", BOTH)] * len(QUESTIONS)]


def judged(topic):
    return [(f"i2i/{topic}", BOTH)]


DETAILS = regions("segment_details_multi", "source 1", "source 2")
ALIKE = {  # of one source and of several
    "aesthetic-quality": [("rate", "edited")],
    "blending-naturalness": judged("blending"),
    "editing-artifacts": judged("artifacts"),
    "image-quality": [("rate", "edited")],
    "instruction-following": judged("following"),
    "spatial-accuracy": judged("success"),
    "text-content-style": [("read_text", "edited"), ("i2i/text_style", "edited")],
    "world-knowledge": judged("knowledge"),
}
ASKED = {
    **ALIKE,
    **{f"multi-{name}": asked for name, asked in ALIKE.items()},
    **dict.fromkeys(("action-state-change", "local-attribute", "object-manipulation"), judged("success")),
    "composition-interaction": questions("composition"),
    "physical-plausibility": questions("physical"),
    "non-edited-fidelity": [
        *judged("segment_edited"),
        *(("segment", "edited"), ("embed", "source 1"), ("embed", "edited at the source's size")),
    ],
    "subject-identity": regions("segment_unchanged", "source 1", "source 1"),
    "multi-composition-interaction": questions("composition_multi"),
    "multi-cross-source-attribute": questions("transfer_multi"),
    "multi-inter-subject-consistency": questions("consistency_multi"),
    "multi-physical-plausibility": questions("physical_multi"),
    "multi-detail-fidelity": DETAILS,
    "multi-subject-consistency": DETAILS,
    "multi-subject-extraction": [*judged("count"), *DETAILS],
    "multi-non-edited-fidelity": regions("segment_preserved_multi", "source 2"),
}


def pictures_of(names, sample):
    return {
        BOTH: (*sample.sources, sample.edited),
        SOURCES: sample.sources,
        "edited": (sample.edited,),
        "edited at the source's size": (sample.edited.resized(*sample.source.size),),
        "source 1": sample.sources[:1],
        "source 2": sample.sources[1:2],
    }[names]


@DIMENSION
def test_every_expert_sees_the_pictures_it_is_to_see_and_the_card_names_these_experts(dimension):
    world, sample, metric = World(), sample_for(dimension), of(dimension)
    (score,) = world.score(metric, sample)
    assert 0 <= (-1 if score.value is None else score.value) <= 1
    assert score.metric == f"i2i-{dimension}@{metric.card.version}"
    queries = [(query.topic if isinstance(query, Judge) else query.kind, query.images) for _, query in world.queries]
    expected = [(what, pictures_of(names, sample)) for what, names in ASKED[dimension]]
    assert sorted(queries, key=repr) == sorted(expected, key=repr)  # several that are asked at once come in any order
    by_kind = [
        {what: [images for name, images in one if name == what] for what, _ in one} for one in (queries, expected)
    ]
    assert by_kind[0] == by_kind[1]
    card = metric.card
    assert set(card.roles) == {role for role, _ in world.queries}
    assert (card.name, card.range, card.aspect) == (f"i2i-{dimension}", (0.0, 1.0), DIMENSIONS[dimension].aspect)
    assert card.source.startswith("I2I-Bench, ")
    assert card.failure_modes
    for question in world.judged:
        (message,) = question.messages
        assert all(text in message.content[-1] for _, text in question.slots)
        assert "{" not in message.content[-1].replace('{"', "")


@pytest.mark.parametrize(
    ("dimension", "shown"),
    [
        ("multi-world-knowledge", ["Source picture 1:", FIRST, "Source picture 2:", SECOND, "Edited picture:", EDITED]),
        ("world-knowledge", ["Source picture:", FIRST, "Edited picture:", EDITED]),
    ],
)
def test_every_picture_is_named_before_it_is_shown(dimension, shown):
    world = World()
    world.score(of(dimension), sample_for(dimension))
    assert list(world.judged[0].messages[0].content[:-1]) == shown


@DIMENSION
def test_it_applies_to_its_number_of_sources_to_its_dimension_and_with_what_it_needs(dimension):
    known, bare = DIMENSIONS[dimension], dimension.removeprefix("multi-")
    other: Any = single if known.multi else several
    misspelled = {"dimensions": ("object manipulatoin",)}
    for sample in (other(), other(**misspelled)):
        world = World()
        (score,) = world.score(of(dimension), sample)
        assert (score.status, score.metric, world.queries) == ("not_applicable", of(dimension).signature, [])
    (score,) = World().score(of(dimension), sample_for(dimension, **misspelled))
    assert score.status == "failed"
    assert "object manipulatoin" in score.reason
    assert "object-manipulation" in score.reason
    for options in ({}, {"judge_only": True}) if known.required_field else ():
        (score,) = World().score(of(dimension, **options), sample_for(dimension, **{known.required_field: " "}))
        assert (score.status, known.required_field in score.reason) == ("not_applicable", True)
    others = tuple(name for name in ALL if not known.is_called(name) and not DIMENSIONS[name].is_called(dimension))
    names = [
        bare,
        bare.upper(),
        bare.replace("-", " "),
        bare.replace("-", "_").title(),
        known.title,
        f"i2i-{dimension}",
    ]
    names += [*known.aliases, *([dimension, f"Multi {known.title}"] if known.multi else [])]
    named = World().score(of(dimension), *(sample_for(dimension, dimensions=(name, others[0])) for name in names))
    assert {(score.status, score.value) for score in named} == {("scored", named[0].value)}
    left_out = World().score(of(dimension), *(sample_for(dimension, dimensions=names) for names in ((), others)))
    assert {score.status for score in left_out} == {"not_applicable"}


ASKS_FOR_A_LEVEL_ITSELF = ("blending-naturalness", "instruction-following")


@pytest.mark.parametrize("dimension", [n for n in ALL if n.removeprefix("multi-") not in ASKS_FOR_A_LEVEL_ITSELF])
def test_by_a_judge_alone_it_is_one_question_for_a_level(dimension):
    world, sample, known = World(), sample_for(dimension), DIMENSIONS[dimension]
    metric = of(dimension, judge_only=True)
    (score,) = world.score(metric, sample)
    assert (score.value, score.metric) == (0.25, f"i2i-{dimension}@{metric.card.version}[judge_only]")
    assert metric.card.roles == ("judge",)
    ((role, question),) = world.queries
    assert (role, question.topic, question.images) == ("judge", "i2i/level", (*sample.sources, sample.edited))
    assert isinstance(question.form, Levels)
    assert question.form.options == ("excellent", "good", "fair", "poor", "bad")
    needed = {"": {}, "target_text": {"text": "OPEN"}, "hint": {"hint": "blue as the sky"}}[known.required_field]
    assert dict(question.slots) == {"instruction": sample.instruction, "dimension": known.title, **needed}
    assert all(text in question.messages[0].content[-1] for text in (known.meaning, *needed.values()))


def test_the_module_has_the_metric_of_each_dimension_and_of_one_source_none_is_multi():
    assert [getattr(overall, name.replace("-", "_"))().dimension for name in ALL] == ALL
    with pytest.raises(AttributeError, match="beauty"):
        _ = overall.beauty
    (score,) = World().score(of("spatial-accuracy"), single(dimensions=("multi-spatial-accuracy",)))
    assert score.status == "not_applicable"


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


@pytest.mark.parametrize("prefix", ["", "multi-"])
def test_by_a_judge_alone_their_own_question_is_asked_but_for_artifacts(prefix):
    sample = several() if prefix else single()
    for name, same in ((BLENDING, True), (FOLLOWING, True), (ARTIFACTS, False)):
        full, alone = of(prefix + name), of(prefix + name, judge_only=True)
        (a, (one,)), (b, (other,)) = (scored(metric, sample) for metric in (full, alone))
        assert (one.digest == other.digest, a.value == b.value) == (same, same)
        assert alone.signature == f"i2i-{prefix}{name}@3[judge_only]"


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
    assert (score.metric, writing.images) == ("i2i-physical-plausibility@2[answering_view=edited]", (FIRST,))
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


def test_the_module_names_all_dimensions_and_nothing_else():
    assert [getattr(overall, name.replace("-", "_"))().dimension for name in ALL] == list(ALL)
    with pytest.raises(AttributeError, match="has no attribute 'world_knowlege'"):
        _ = overall.world_knowlege


OPTIONS = {
    "blending-naturalness": {"shown_images": "edited"},
    "composition-interaction": {"answering_view": "edited"},
    "multi-inter-subject-consistency": {"protocol": "five_levels"},
    "multi-cross-source-attribute": {"protocol": "two_levels", "answering_view": "edited"},
    "multi-non-edited-fidelity": {"inverted": True},
    "text-content-style": {"content": "part"},
    "image-quality": {"scale": [1, 10]},
}


@DIMENSION
def test_it_can_be_written_down_and_built_again_and_refuses_the_dimensions_of_other_pipelines(dimension, tmp_path):
    (tmp_path / "success.txt").write_text("{instruction}?", encoding="utf-8")
    variants: list[Any] = [{}, {"judge_only": True}, {"prompts": str(tmp_path)}, OPTIONS.get(dimension, {})]
    metrics = [of(dimension, **options) for options in variants]
    for metric in metrics:
        again = build(json.loads(json.dumps(spec_of(metric))))
        assert (again, again.signature, hash(again)) == (metric, metric.signature, hash(metric))
    assert len({metric.signature for metric in metrics}) == len({json.dumps(options) for options in variants})
    other = next(name for name in ALL if DIMENSIONS[name].pipeline != DIMENSIONS[dimension].pipeline)
    with pytest.raises(ValueError, match=f"has no dimension '{other}': it has .*{dimension}"):
        type(metrics[0])(other)


def test_options_in_a_string_reach_it_and_the_ablation_takes_none_of_the_pipeline_it_replaces():
    assert build("i2i-image-quality?scale=[0,10]") == of("image-quality", scale=(0, 10))
    assert build("i2i-object-manipulation?judge_only=true") == of("object-manipulation", judge_only=True)
    with pytest.raises(ValueError, match="judge_only takes no other options, got answering_view=edited"):
        of("physical-plausibility", judge_only=True, answering_view="edited")


def share(digest):
    """A number in [0, 1) that a question or an image has for itself."""
    return int(digest[:4], 16) / 65536


def vary(question):
    sure = share(question.digest)
    if isinstance(question.form, YesNo):
        return Reply("yes" if sure > 0.5 else "no", {"yes": sure, "no": 1 - sure})
    return question.form.options[int(sure * 5)]


VARIED = dict.fromkeys(("success", "knowledge", "answer", "count", "blending", "artifacts", "following"), vary)


@DIMENSION
def test_scores_belong_to_their_samples(dimension):
    ratings = dict.fromkeys(("quality", "aesthetics"), lambda image: 1 + share(image.digest))
    read = lambda image: "open" if share(image.digest) > 0.5 else "closed"  # noqa: E731
    edits = [sample_for(dimension, name=f"e{n}", edited=picture(20 + n, 9, 9)) for n in range(6)]
    forward, backward = (
        World(says=VARIED, read=read, ratings=ratings).score(of(dimension), *each) for each in (edits, edits[::-1])
    )
    assert [score.value for score in forward] == [score.value for score in reversed(backward)]
    assert len({score.value for score in forward}) > 1
