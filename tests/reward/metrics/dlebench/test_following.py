"""Instruction Following: what the judge sees in each mode, and what comes of its labels."""

from functools import partial

import numpy as np
import pytest

from editcritic.reward import Engine, Image
from editcritic.reward.engine.program import Gather
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.metrics.dlebench.metrics import SmallObjectFollowing
from editcritic.reward.queries import Abstention, Failure, Judge
from editcritic.reward.queries.kinds import Upscale
from editcritic.reward.queries.response_formats import Reply

from ...fakes import run_all
from .scripted_dlebench import (
    EDITED,
    INSTRUCTION,
    PLACE,
    REFERENCE,
    SIZE,
    SOURCE,
    Anybody,
    Experts,
    box,
    edit,
    noise,
    patched,
    pictures,
    same,
    says,
    words,
)

LABELS = {"Flawless Execution": 1.0, "Over Modification": 2 / 3, "Wrong Action": 1 / 3, "Localization Failure": 0.0}
Oracle = SmallObjectFollowing
Plain = partial(SmallObjectFollowing, mode="plain")


# -- oracle -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "value"), LABELS.items())
@pytest.mark.parametrize("mode", ["oracle", "tools", "plain"])
def test_a_label_is_worth_its_share(label, value, mode):
    score = Experts(says(label)).score(SmallObjectFollowing(mode=mode))
    assert score.value == pytest.approx(value)
    assert label in score.reason
    labels = next(item for item in score.evidence if item.what == "label")
    assert labels.numbers == {"score": 1 + 3 * score.value, "of 100": pytest.approx(100 * value)}


def test_the_judge_sees_a_crop_of_source_edit_and_reference_and_nothing_else():
    place = (100, 100, 300, 400)  # s = 200: 6 - 5.7 x 168 / 224 = 1.725, so 172.5 across and 258.75 down
    source, edited, reference = (noise(seed, (800, 900)) for seed in (1, 2, 3))
    targets = (box(*place, (800, 900)),)
    experts = Experts(says("Wrong Action"))
    score = experts.score(Oracle(), edit(sources=(source,), edited=edited, reference=reference, targets=targets))
    (question,) = experts.judge_queries
    crop = (slice(0, 659), slice(0, 473))
    assert same(pictures(question), [picture.pixels[crop] for picture in (source, edited, reference)])
    assert question.messages[0].content[:3] == tuple(pictures(question))
    assert experts.count(Judge) == len(experts.queries) == 1
    numbers = score.evidence[0].numbers
    assert (numbers["x0"], numbers["y0"], numbers["x1"], numbers["y1"]) == (0, 0, 473, 659)
    assert numbers["context"] == pytest.approx(1.725)
    assert "adaptive" in score.evidence[0].text
    assert INSTRUCTION in words(question)
    assert "tool_call" not in words(question)
    assert (question.topic, question.slots) == ("dlebench/following_oracle", (("instruction", INSTRUCTION),))


def test_small_crops_are_enlarged_all_three_alike():
    experts = Experts(says("Wrong Action"))
    experts.score(Oracle(), edit(targets=(box(300, 200, 316, 216),)))
    crop = (252, 152, 364, 264)
    assert same(
        pictures(experts.judge_queries[0]), [p.crop(*crop).resized(448, 448) for p in (SOURCE, EDITED, REFERENCE)]
    )
    assert experts.count(Upscale) == 3
    plain = Experts(says("Wrong Action"))
    plain.score(Oracle(min_crop_side=0), edit(targets=(box(300, 200, 316, 216),)))
    assert same(pictures(plain.judge_queries[0]), [p.crop(*crop) for p in (SOURCE, EDITED, REFERENCE)])
    assert plain.count(Upscale) == 0


def test_in_the_papers_protocol_nothing_invents_detail_for_a_judge_of_crops():
    experts = Experts(says("Wrong Action"))
    sample = edit(sources=(noise(1),), edited=noise(2), reference=noise(3), targets=(box(300, 200, 380, 280),))
    score = experts.score(Oracle(paper=True, context=0), sample)
    assert [picture.size for picture in pictures(experts.judge_queries[0])] == [(80, 80)] * 3
    assert experts.count(Upscale) == 0
    assert Oracle(paper=True).card.roles == ("judge",)
    assert score.metric == "dlebench-if@2/oracle[paper=True, context=0]"


def test_the_context_is_an_option_that_the_evidence_and_the_signature_tell():
    metric = Oracle(context=0.5, min_crop_side=0)
    experts = Experts(says("Wrong Action"))
    score = experts.score(metric, edit(targets=(box(100, 100, 200, 140),)))
    assert same(pictures(experts.judge_queries[0])[:1], [SOURCE.pixels[90:150, 75:225]])
    assert score.evidence[0].text == "context: 0.5"
    assert score.metric == "dlebench-if@2/oracle[min_crop_side=0, context=0.5]"


def test_edit_and_reference_of_another_size_are_brought_to_the_sources_and_that_is_evidence():
    metric = Oracle(min_crop_side=0)
    experts = Experts(says("Wrong Action"))
    edited, reference = noise(1, (320, 240)), noise(2, (1280, 960))
    score = experts.score(metric, edit(edited=edited, reference=reference, targets=(box(100, 100, 400, 400),)))
    crop = (55, 55, 445, 445)
    expected = [SOURCE, edited.resized(*SIZE), reference.resized(*SIZE)]
    assert same(pictures(experts.judge_queries[0]), [picture.crop(*crop) for picture in expected])
    texts = [item.text for item in score.evidence if item.what == "resized"]
    assert texts == [
        "the edited picture was brought from 320 x 240 to the source's size",
        "the reference picture was brought from 1280 x 960 to the source's size",
    ]


TWO = (box(*PLACE), box(50, 50, 90, 80))


@pytest.mark.parametrize("labels", [("Flawless Execution", "Wrong Action"), ("Wrong Action", "Flawless Execution")])
def test_the_worst_of_several_targets_counts_and_each_is_judged_alone(labels):
    experts = Experts(*map(says, labels))
    source = noise(1)
    score = experts.score(Oracle(), edit(sources=(source,), targets=TWO))
    assert score.value == pytest.approx(1 / 3)
    assert [credit.value for credit in score.credits.values()] == [LABELS[label] for label in labels]
    assert list(score.credits) == ["target 1", "target 2"]
    assert f"target {labels.index('Wrong Action') + 1}: Wrong Action" in score.reason
    # 40 x 30 pixels grow by 6 x 20 and 6 x 15 to each side
    crops = [source.crop(180, 110, 460, 320), source.crop(0, 0, 210, 170)]
    larger = [crop.resized(4 * crop.width, 4 * crop.height) for crop in crops]
    assert same([pictures(question)[0] for question in experts.judge_queries], larger)


def test_targets_are_asked_about_side_by_side():
    gathered = next(Oracle()(edit(targets=TWO)))
    assert isinstance(gathered, Gather)
    assert len(gathered.programs) == 2


@pytest.mark.parametrize(
    ("reply", "status"), [("no idea", "failed"), (Failure("no connection"), "failed"), (Abstention("no"), "abstained")]
)
def test_one_target_that_cannot_be_told_has_the_whole_do_so(reply, status):
    score = Experts(says("Localization Failure"), reply).score(Oracle(), edit(targets=TWO))
    assert (score.status, score.value) == (status, None)
    assert score.reason.startswith("target 2: ")
    assert score.credits["target 1"].value == 0.0


def test_a_target_that_failed_goes_before_one_that_was_abstained_on():
    score = Experts(Abstention("who knows"), "no idea").score(Oracle(), edit(targets=TWO))
    assert score.status == "failed"
    assert score.reason.startswith("target 2: ")


def test_an_enhancer_that_fails_fails_the_score():
    class Broken(Experts):
        def __call__(self, query):
            return Failure("out of memory") if isinstance(query, Upscale) else super().__call__(query)

    score = Broken(says("Flawless Execution")).score(Oracle())
    assert score.status == "failed"
    assert "out of memory" in score.reason


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"targets": ()}, "no targets (boxes in the source): give them"),
        ({"reference": None}, "no reference (a picture): give them"),
        ({"targets": (), "reference": None}, "and no reference"),
        ({"targets": (box(*PLACE), box(900, 0, 950, 50))}, "target 2 of sample 's' lies outside"),
    ],
)
def test_oracle_mode_does_not_apply_without_targets_and_reference(fields, why):
    experts = Experts()
    score = experts.score(Oracle(), edit(**fields))
    assert score.status == "not_applicable"
    assert why in score.reason
    assert experts.queries == []


@pytest.mark.parametrize("mode", ["tools", "plain"])
def test_the_other_modes_need_neither(mode):
    sample = edit(targets=(), reference=None)
    assert Experts(says("Wrong Action")).score(SmallObjectFollowing(mode=mode), sample).status == "scored"


# -- plain and tools --------------------------------------------------------------------------------------------------


def test_plain_mode_shows_both_pictures_as_they_are_and_offers_no_tools():
    edited = noise(1, (320, 240))
    experts = Experts(says("Wrong Action"))
    experts.score(Plain(), edit(edited=edited))
    (question,) = experts.judge_queries
    assert same(pictures(question), [SOURCE, edited])
    assert "tool_call" not in words(question)
    assert question.topic == "dlebench/following_plain"


def test_tools_mode_shows_the_edit_at_the_sources_size_so_that_pixels_mean_the_same():
    edited = noise(1, (320, 240))
    experts = Experts(says("Wrong Action"))
    score = experts.score(SmallObjectFollowing(mode="tools"), edit(edited=edited))
    assert same(pictures(experts.judge_queries[0]), [SOURCE, edited.resized(*SIZE)])
    assert experts.judge_queries[0].topic == "dlebench/following_tools"
    assert score.evidence[0].what == "resized"


@pytest.mark.parametrize("reply", ["", "no idea", says("not Flawless Execution"), says("Wrong Action") + says("Label")])
@pytest.mark.parametrize("mode", ["oracle", "plain"])
def test_an_unclear_verdict_is_a_failed_score_with_the_words_in_the_evidence(mode, reply):
    score = Experts(reply).score(SmallObjectFollowing(mode=mode))
    assert (score.status, score.value) == ("failed", None)
    assert "unclear" in score.reason
    evidence = [*score.evidence, *(item for credit in score.credits.values() for item in credit.evidence)]
    assert [item.text for item in evidence if item.what == "reply"] == [reply]


@pytest.mark.parametrize("mode", ["oracle", "tools", "plain"])
def test_an_edit_that_is_the_source_reaches_the_judge_as_it_is(mode):
    experts = Experts(says("Localization Failure"))
    experts.score(SmallObjectFollowing(mode=mode), edit(edited=SOURCE))
    first, second, *_ = pictures(experts.judge_queries[0])
    assert first == second
    if mode != "oracle":
        assert first == SOURCE


# -- through an engine ------------------------------------------------------------------------------------------------


def judged_by_pixels(query):
    """A judge that sees whether the last image but the reference is blue at its centre."""
    if not isinstance(query, Judge):
        return Experts()(query)
    seen = pictures(query)[1].pixels
    blue = seen[seen.shape[0] // 2, seen.shape[1] // 2, 2] > 200
    return Reply(says("Flawless Execution" if blue else "Localization Failure"))


def test_swapping_two_samples_swaps_their_scores_and_what_is_shared_is_asked_once():
    good, bad = edit(), edit(edited=patched(SOURCE, PLACE, colour=(250, 0, 0)))
    labels = []
    for samples in ([good, bad], [bad, good]):
        expert = Anybody(judged_by_pixels)
        with Engine() as engine:
            scores = run_all(engine, [score_with_signature(Oracle(), s) for s in samples], expert, enhancer=expert)
        labels.append([score.value for score in scores])
        # three crops a sample are enlarged, those of source and reference once; and two questions to the judge
        assert sum(expert.seen.values()) == 4 + 2
    assert labels == [[1.0, 0.0], [0.0, 1.0]]


def test_a_crop_that_was_never_seen_can_be_asked_about():
    names = [Image.from_digest(letter * 64, SIZE) for letter in "abc"]
    program = Oracle()(edit(sources=(names[0],), edited=names[1], reference=names[2]))
    gathered = next(program)
    assert isinstance(gathered, Gather)
    request = next(gathered.programs[0])
    assert [query.image.size for query in request.queries] == [(280, 210)] * 3  # 40 x 30, and six times that around it


def test_areas_of_numbers_are_plain_ones():
    experts = Experts(says("Wrong Action"))
    score = experts.score(Oracle(), edit(targets=(box(*np.array(PLACE)),)))
    assert all(type(value) is float for value in score.evidence[0].numbers.values())
