"""All dimensions: what each asks and shows, to which samples it applies, how it is written down and built again."""

import json
from typing import Any

import pytest

from editcritic.reward import build, spec_of
from editcritic.reward.metrics.i2ibench import overall
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.queries.response_formats import Levels, YesNo

from ...fakes import picture
from .scripted_i2ibench import EDITED, FIRST, QUESTIONS, SECOND, World, of, sample_for, several, single

ALL = sorted(DIMENSIONS)
BOTH, SOURCES = "sources, edited", "sources"


def regions(topic, *named):
    """What is asked of regions: the judge, then each command in source and edited, then features of both."""
    pairs = [picture for source in named for picture in (source, "edited")]
    return [(f"i2i/{topic}", BOTH), *(("segment", p) for p in pairs), *(("embed", p) for p in pairs)]


def questions(subject):
    return [(f"i2i/questions_{subject}", SOURCES), *[("i2i/answer", BOTH)] * len(QUESTIONS)]


SUCCESS, TEXT = [("i2i/success", BOTH)], [("read_text", "edited"), ("i2i/text_style", "edited")]
KNOWLEDGE, RATED = [("i2i/knowledge", BOTH)], [("rate", "edited")]
DETAILS = regions("segment_details_multi", "source 1", "source 2")
ASKED = {
    "action-state-change": SUCCESS,
    "aesthetic-quality": RATED,
    "blending-naturalness": [("i2i/blending", BOTH)],
    "composition-interaction": questions("composition"),
    "editing-artifacts": [("i2i/artifacts", BOTH)],
    "image-quality": RATED,
    "instruction-following": [("i2i/following", BOTH)],
    "local-attribute": SUCCESS,
    "non-edited-fidelity": [
        ("i2i/segment_edited", BOTH),
        ("segment", "edited"),
        ("embed", "source 1"),
        ("embed", "edited at the source's size"),
    ],
    "object-manipulation": SUCCESS,
    "physical-plausibility": questions("physical"),
    "spatial-accuracy": SUCCESS,
    "subject-identity": regions("segment_unchanged", "source 1", "source 1"),
    "text-content-style": TEXT,
    "world-knowledge": KNOWLEDGE,
    "multi-aesthetic-quality": RATED,
    "multi-blending-naturalness": [("i2i/blending", BOTH)],
    "multi-composition-interaction": questions("composition_multi"),
    "multi-cross-source-attribute": questions("transfer_multi"),
    "multi-detail-fidelity": DETAILS,
    "multi-editing-artifacts": [("i2i/artifacts", BOTH)],
    "multi-image-quality": RATED,
    "multi-instruction-following": [("i2i/following", BOTH)],
    "multi-inter-subject-consistency": questions("consistency_multi"),
    "multi-non-edited-fidelity": regions("segment_preserved_multi", "source 2"),
    "multi-physical-plausibility": questions("physical_multi"),
    "multi-spatial-accuracy": SUCCESS,
    "multi-subject-consistency": DETAILS,
    "multi-subject-extraction": [("i2i/count", BOTH), *DETAILS],
    "multi-text-content-style": TEXT,
    "multi-world-knowledge": KNOWLEDGE,
}


def pictures_of(image_names, sample):
    return {
        BOTH: (*sample.sources, sample.edited),
        SOURCES: sample.sources,
        "edited": (sample.edited,),
        "edited at the source's size": (sample.edited.resized(*sample.source.size),),
        "source 1": sample.sources[:1],
        "source 2": sample.sources[1:2],
    }[image_names]


@pytest.mark.parametrize("dimension", ALL)
def test_every_expert_sees_the_pictures_it_is_to_see_in_order(dimension):
    world, sample = World(), sample_for(dimension)
    (score,) = world.score(of(dimension), sample)
    assert score.status == "scored"
    assert score.value is not None
    assert 0 <= score.value <= 1
    assert score.metric == f"i2i-{dimension}@{of(dimension).card.version}"
    queries = [(query.topic if isinstance(query, Judge) else query.kind, query.images) for _, query in world.queries]
    expected = [(what, pictures_of(image_names, sample)) for what, image_names in ASKED[dimension]]
    # Several questions that are asked at once go to their experts in any order of these.
    key = repr
    assert sorted(queries, key=key) == sorted(expected, key=key)
    by_kind = {what: [images for name, images in queries if name == what] for what, _ in queries}
    assert by_kind == {what: [images for name, images in expected if name == what] for what, _ in expected}


@pytest.mark.parametrize("dimension", ALL)
def test_its_card_names_the_experts_it_asks_and_no_others(dimension):
    world = World()
    world.score(of(dimension), sample_for(dimension))
    card = of(dimension).card
    assert set(card.roles) == {role for role, _ in world.queries}
    assert card.name == f"i2i-{dimension}"
    assert card.range == (0.0, 1.0)
    assert card.aspect == DIMENSIONS[dimension].aspect
    assert card.source.startswith("I2I-Bench, ")
    assert card.failure_modes


@pytest.mark.parametrize("dimension", [name for name in ALL if DIMENSIONS[name].pipeline != "specialist"])
def test_what_the_judge_is_told_stands_in_its_words(dimension):
    world = World()
    world.score(of(dimension), sample_for(dimension))
    for question in world.judged:
        (message,) = question.messages
        assert isinstance(message.content[-1], str)
        for _, text in question.slots:
            assert text in message.content[-1]
        assert "{" not in message.content[-1].replace('{"', "")


def test_every_picture_is_named_before_it_is_shown():
    world = World()
    world.score(of("multi-world-knowledge"), several())
    *shown, words = world.judged[0].messages[0].content
    assert shown == ["Source picture 1:", FIRST, "Source picture 2:", SECOND, "Edited picture:", EDITED]
    assert isinstance(words, str)
    world = World()
    world.score(of("world-knowledge"), single())
    *shown, words = world.judged[0].messages[0].content
    assert shown == ["Source picture:", FIRST, "Edited picture:", EDITED]


# -- to which samples it applies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", ALL)
def test_it_does_not_apply_to_another_number_of_sources(dimension):
    world = World()
    other = single if DIMENSIONS[dimension].multi else several
    for sample in (other(), other(dimensions=("object manipulatoin",))):
        (score,) = world.score(of(dimension), sample)
        assert score.status == "not_applicable"
        assert score.metric == f"i2i-{dimension}@{of(dimension).card.version}"
    assert world.queries == []


@pytest.mark.parametrize("dimension", ALL)
def test_the_samples_dimensions_decide(dimension):
    others = tuple(
        name for name in ALL if not DIMENSIONS[dimension].is_called(name) and not DIMENSIONS[name].is_called(dimension)
    )
    known = DIMENSIONS[dimension]
    bare = dimension.removeprefix("multi-")
    names = [
        bare,
        bare.upper(),
        bare.replace("-", " "),
        bare.replace("-", "_").title(),
        known.title,
        f"i2i-{dimension}",
    ]
    names += [*known.aliases, *([dimension, f"Multi {known.title}"] if known.multi else [])]
    samples = [sample_for(dimension, dimensions=(name, others[0])) for name in names]
    scores = World().score(of(dimension), *samples)
    assert [score.status for score in scores] == ["scored"] * len(names)
    assert {score.value for score in scores} == {scores[0].value}
    for left_out in ((), others):
        (score,) = World().score(of(dimension), sample_for(dimension, dimensions=left_out))
        assert score.status == "not_applicable"


def test_the_half_of_one_source_is_not_called_multi():
    (score,) = World().score(of("spatial-accuracy"), single(dimensions=("multi-spatial-accuracy",)))
    assert score.status == "not_applicable"


@pytest.mark.parametrize("dimension", ALL)
def test_a_dimension_that_there_is_not_fails_rather_than_being_left_out(dimension):
    misspelled = sample_for(dimension, dimensions=("object manipulatoin",))
    (score,) = World().score(of(dimension), misspelled)
    assert score.status == "failed"
    assert "object manipulatoin" in score.reason
    assert "object-manipulation" in score.reason


@pytest.mark.parametrize("dimension", [name for name in ALL if DIMENSIONS[name].required_field])
def test_it_does_not_apply_without_what_it_needs(dimension):
    needs = DIMENSIONS[dimension].required_field
    for options in ({}, {"judge_only": True}):
        world = World()
        (score,) = world.score(of(dimension, **options), sample_for(dimension, **{needs: " "}))
        assert score.status == "not_applicable"
        assert needs in score.reason
        assert world.queries == []


# -- the ablation -----------------------------------------------------------------------------------------------------


ASKS_FOR_A_LEVEL_ITSELF = ("blending-naturalness", "instruction-following")


@pytest.mark.parametrize("dimension", [n for n in ALL if n.removeprefix("multi-") not in ASKS_FOR_A_LEVEL_ITSELF])
def test_by_a_judge_alone_it_is_one_question_for_a_level(dimension):
    world, sample = World(), sample_for(dimension)
    metric = of(dimension, judge_only=True)
    (score,) = world.score(metric, sample)
    assert score.value == 0.25
    assert score.metric == f"i2i-{dimension}@{metric.card.version}[judge_only]"
    assert metric.card.roles == ("judge",)
    ((role, question),) = world.queries
    assert (role, question.topic) == ("judge", "i2i/level")
    assert question.images == (*sample.sources, sample.edited)
    assert isinstance(question.form, Levels)
    assert question.form.options == ("excellent", "good", "fair", "poor", "bad")
    known = DIMENSIONS[dimension]
    slots = {"": {}, "target_text": {"text": "OPEN"}, "hint": {"hint": "blue as the sky"}}
    needed: dict[str, str] = slots[known.required_field]
    assert dict(question.slots) == {"instruction": sample.instruction, "dimension": known.title, **needed}
    words = question.messages[0].content[-1]
    assert known.meaning in words
    for text in needed.values():
        assert text in words


def test_the_ablation_takes_no_options_of_the_pipeline_it_replaces():
    with pytest.raises(ValueError, match="judge_only takes no other options, got answering_view=edited"):
        of("physical-plausibility", judge_only=True, answering_view="edited")


# -- writing it down --------------------------------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "blending-naturalness": {"shown_images": "edited"},
    "composition-interaction": {"answering_view": "edited"},
    "multi-inter-subject-consistency": {"protocol": "five_levels"},
    "multi-cross-source-attribute": {"protocol": "two_levels", "answering_view": "edited"},
    "multi-non-edited-fidelity": {"inverted": True},
    "text-content-style": {"content": "part"},
    "image-quality": {"scale": [1, 10]},
}


@pytest.mark.parametrize("dimension", ALL)
def test_it_can_be_written_down_and_built_again(dimension, tmp_path):
    (tmp_path / "success.txt").write_text("{instruction}?", encoding="utf-8")
    variants: list[dict[str, Any]] = [{}, {"judge_only": True}, {"prompts": str(tmp_path)}, OPTIONS.get(dimension, {})]
    metrics = [of(dimension, **options) for options in variants]
    for metric in metrics:
        again = build(json.loads(json.dumps(spec_of(metric))))
        assert again == metric
        assert again.signature == metric.signature
        assert hash(again) == hash(metric)
    assert len({metric.signature for metric in metrics}) == len({json.dumps(options) for options in variants})


def test_options_in_a_string_reach_it():
    metric = build("i2i-image-quality?scale=[0,10]")
    assert metric == of("image-quality", scale=(0, 10))
    metric = build("i2i-object-manipulation?judge_only=true")
    assert metric == of("object-manipulation", judge_only=True)


def test_the_module_names_all_dimensions_and_nothing_else():
    named = {name: made() for name, made in vars(overall).items() if isinstance(getattr(made, "args", None), tuple)}
    assert {name: metric.dimension for name, metric in named.items()} == {name.replace("-", "_"): name for name in ALL}


@pytest.mark.parametrize("dimension", ALL)
def test_a_pipeline_refuses_the_dimensions_of_others(dimension):
    metric = of(dimension)
    other = next(name for name in ALL if DIMENSIONS[name].pipeline != DIMENSIONS[dimension].pipeline)
    with pytest.raises(ValueError, match=f"has no dimension '{other}': it has .*{dimension}"):
        type(metric)(other)


def test_a_prompt_pack_replaces_words_and_changes_the_signature(tmp_path):
    (tmp_path / "success.txt").write_text("Now, {instruction}?", encoding="utf-8")
    world, metric = World(), of("object-manipulation", prompts=str(tmp_path))
    (score,) = world.score(metric, single())
    assert world.judged[0].messages[0].content[-1] == "Now, make the cup blue?"
    assert score.metric.startswith("i2i-object-manipulation@2[prompts=")
    with pytest.raises(ValueError, match="not a folder"):
        of("object-manipulation", prompts=str(tmp_path / "none"))


# -- sharing ----------------------------------------------------------------------------------------------------------


def share(digest):
    """A number in [0, 1) that a question or an image has for itself."""
    return int(digest[:4], 16) / 65536


def vary(question):
    sure = share(question.digest)
    if isinstance(question.form, YesNo):
        return Reply("yes" if sure > 0.5 else "no", {"yes": sure, "no": 1 - sure})
    return question.form.options[int(sure * 5)]


@pytest.mark.parametrize("dimension", ALL)
def test_scores_belong_to_their_samples(dimension):
    def world():
        return World(
            says=dict.fromkeys(("success", "knowledge", "answer", "count", "blending", "artifacts", "following"), vary),
            read=lambda image: "open" if share(image.digest) > 0.5 else "closed",
            ratings=dict.fromkeys(("quality", "aesthetics"), lambda image: 1 + share(image.digest)),
        )

    edits = [sample_for(dimension, name=f"e{n}", edited=picture(20 + n, 9, 9)) for n in range(6)]
    forward = world().score(of(dimension), *edits)
    backward = world().score(of(dimension), *reversed(edits))
    assert [score.value for score in forward] == [score.value for score in reversed(backward)]
    assert len({score.value for score in forward}) > 1


def test_accuracy_is_one_question_for_four_dimensions():
    names = ("object-manipulation", "local-attribute", "action-state-change", "spatial-accuracy")
    world = World(says={"success": Reply("yes", {"yes": 0.75, "no": 0.25})})
    values = [score.value for name in names for score in world.score(of(name), single())]
    assert values == [0.75] * 4
    assert len({query.digest for query in world.judged}) == 1
