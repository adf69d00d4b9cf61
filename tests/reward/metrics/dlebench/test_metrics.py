"""Both metrics: what the judge sees in each mode, what comes of its labels, options, prompts and packs."""

from __future__ import annotations

import pickle
import re
from functools import partial
from pathlib import Path
from string import Formatter

import numpy as np
import pytest

from editcritic.reward import Engine
from editcritic.reward.config import build
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.metrics.dlebench.metrics import PACKAGE, SmallObjectFollowing, VisualConsistency
from editcritic.reward.metrics.dlebench.tools import localize_differences, zoom_in_image
from editcritic.reward.queries import Abstention, Failure, Judge
from editcritic.reward.queries.kinds import Upscale
from editcritic.reward.queries.prompts import Prompts
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.queries.specs import spec_of

from ...fakes import run_all
from .scripted_dlebench import (
    DIFFER,
    EDITED,
    INSTRUCTION,
    PLACE,
    REFERENCE,
    SIZE,
    SOURCE,
    ZOOM,
    Anybody,
    Experts,
    box,
    calls,
    edit,
    noise,
    patched,
    pictures,
    same,
    says,
    words,
)

LABELS = {"Flawless Execution": 1.0, "Over Modification": 2 / 3, "Wrong Action": 1 / 3, "Localization Failure": 0.0}
METRICS = [SmallObjectFollowing, VisualConsistency]
MODES = ["oracle", "tools", "plain"]
Oracle = SmallObjectFollowing
Plain = partial(SmallObjectFollowing, mode="plain")


# -- oracle -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("mode", MODES)
def test_a_label_is_worth_its_share(metric, place, mode):
    label, value = metric.label_scale.labels[place], 1 - place / 3
    score = Experts(says(label)).score(metric(mode=mode))
    assert score.value == pytest.approx(value)
    assert label in score.reason
    assert score.metric == f"{metric.base_card.name}@2/{mode}"
    labels = next(item for item in score.evidence if item.what == "label")
    assert labels.numbers == {"score": pytest.approx(4.0 - place), "of 100": pytest.approx(100 * value)}


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
    for metric in METRICS:
        experts = Experts()
        score = experts.score(metric(), edit(**fields))
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


SECOND = (20, 30, 50, 45)
BEFORE, AFTER, WANTED = noise(1), noise(2), noise(3)


def painted(image, *areas):
    pixels = np.array(image.pixels)
    for x0, y0, x1, y1 in areas:
        pixels[y0:y1, x0:x1] = 255
    return pixels


def noisy(**fields):
    return edit(sources=(BEFORE,), **{"edited": AFTER, "reference": WANTED, **fields})


def test_all_targets_are_white_in_all_three_pictures_and_nothing_else_is_touched():
    experts = Experts(says("Single Anomaly"))
    experts.score(VisualConsistency(), noisy(targets=(box(*PLACE), box(*SECOND))))
    (question,) = experts.judge_queries
    assert same(pictures(question), [painted(image, PLACE, SECOND) for image in (BEFORE, AFTER, WANTED)])
    assert question.topic == "dlebench/consistency_oracle"
    assert "white" in words(question)


def test_a_target_between_pixels_is_covered_and_one_at_the_border_is_cut():
    experts = Experts(says("Single Anomaly"))
    experts.score(VisualConsistency(), noisy(targets=(box(10.4, 20.6, 29.2, 39.9), box(600, -9, 700, 11))))
    expected = painted(BEFORE, (10, 20, 30, 40), (600, 0, 640, 11))
    assert same(pictures(experts.judge_queries[0])[:1], [expected])


def test_the_tools_see_the_painted_pictures():
    experts = Experts(calls(ZOOM, DIFFER), says("Single Anomaly"))
    elsewhere = patched(patched(BEFORE, PLACE), (100, 400, 120, 420))
    experts.score(VisualConsistency(), noisy(edited=elsewhere))
    source, edited = painted(BEFORE, PLACE), painted(elsewhere, PLACE)
    zoomed, differences = zoom_in_image(ZOOM[1]["bbox_2d"], edited), localize_differences(source, edited)
    assert len(differences.pictures) == 1  # the target's own region is gone
    assert same(pictures(experts.judge_queries[1]), [*zoomed.pictures, *differences.pictures])


def test_the_reference_is_no_image_of_the_tools():
    wanted = ("zoom_in_image", {**ZOOM[1], "target_image": "Reference Image"})
    experts = Experts(calls(wanted), says("Single Anomaly"))
    experts.score(VisualConsistency(), noisy())
    assert "there is no image 'Reference Image'" in words(experts.judge_queries[1])
    assert pictures(experts.judge_queries[1]) == []


def test_pictures_of_another_size_are_brought_to_the_sources_before_they_are_painted():
    edited, reference = noise(4, (320, 240)), noise(5, (1280, 960))
    experts = Experts(says("Single Anomaly"))
    score = experts.score(VisualConsistency(), noisy(edited=edited, reference=reference))
    expected = [painted(image.resized(*SIZE), PLACE) for image in (BEFORE, edited, reference)]
    assert same(pictures(experts.judge_queries[0]), expected)
    assert [item.what for item in score.evidence][:2] == ["resized", "resized"]


def test_a_label_of_the_other_criterion_is_no_verdict():
    score = Experts(says("Flawless Execution")).score(VisualConsistency(mode="plain"))
    assert score.status == "failed"
    conversation = Experts(*[says("Flawless Execution")] * 6).score(VisualConsistency())
    assert conversation.status == "failed"
    assert "no verdict in 6 replies" in conversation.reason


ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "reward" / "metrics" / "dlebench" / "prompts"


@pytest.mark.parametrize("metric", METRICS)
def test_a_mode_that_does_not_exist_is_refused_with_those_that_do(metric):
    with pytest.raises(ValueError, match=r"dlebench-.. has no mode 'human': there are oracle, tools, plain"):
        metric(mode="human")


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (SmallObjectFollowing, {"max_turns": 3}),
        (SmallObjectFollowing, {"max_regions": 3}),
        (SmallObjectFollowing, {"detection_threshold": 0.2}),
        (SmallObjectFollowing, {"mode": "tools", "context": 1.0}),
        (SmallObjectFollowing, {"mode": "plain", "min_crop_side": 1}),
        (VisualConsistency, {"mode": "plain", "max_turns": 3}),
        (VisualConsistency, {"mode": "plain", "paper": True}),
        (SmallObjectFollowing, {"object_names": "words"}),
    ],
)
def test_an_option_that_the_mode_does_not_use_is_refused(metric, options):
    name = next(option for option in options if option != "mode")
    with pytest.raises(ValueError, match=f"does not use {name} in mode"):
        metric(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"max_turns": 0},
        {"max_regions": 0},
        {"max_tokens": 0},
        {"detection_threshold": 1.0},
        {"detection_threshold": -0.1},
        {"min_crop_side": -1},
        {"min_crop_side": 100, "paper": True},
        {"object_names": "synonyms"},
        {"prompts": "/nowhere/at/all"},
    ],
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}|not a folder"):
        VisualConsistency(**options)


@pytest.mark.parametrize("metric", METRICS)
def test_the_card_asks_for_what_the_mode_needs(metric):
    oracle, tools, plain = (metric(mode=mode).card for mode in MODES)
    assert oracle.modes == ("oracle", "tools", "plain")
    assert {"targets", "reference"} <= set(oracle.requires)
    assert tools.requires == plain.requires == ("sources", "edited", "instruction")
    assert set(tools.roles) == {"judge", "differences", "detector", "enhancer"}
    assert plain.roles == ("judge",)
    assert oracle.failure_modes
    assert oracle.is_unit_range
    assert oracle.aspect == {"dlebench-if": "following", "dlebench-vc": "consistency"}[oracle.name]


def test_only_the_oracles_consistency_asks_for_tools():
    assert SmallObjectFollowing().card.roles == ("judge", "enhancer")
    assert set(VisualConsistency().card.roles) == {"judge", "differences", "detector", "enhancer"}


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_is_rebuilt_from_its_spec_and_travels(metric):
    made = metric(mode="tools", max_turns=3, max_regions=2, detection_threshold=0.2)
    assert build(spec_of(made)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.signature == f"{made.card.signature}/tools[max_turns=3, max_regions=2, detection_threshold=0.2]"


def test_all_there_is_to_it_reaches_the_judge():
    experts = Experts(says("Wrong Action"))
    experts.score(SmallObjectFollowing(mode="tools", max_tokens=99))
    assert experts.judge_queries[0].form.max_tokens == 99


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_has_the_instruction_the_labels_and_no_slot_left(metric, mode):
    made = metric(mode=mode)
    experts = Experts(says(made.label_scale.labels[0]))
    experts.score(made, edit(instruction="paint {the} cup"))
    text = experts.judge_queries[0].messages[0].content[-1]
    assert "paint {the} cup" in text
    for label in made.label_scale.labels:
        assert text.count(label) >= 2
    assert not re.search(r"\{[a-z_]+\}", text.replace("{the}", ""))
    assert ("<tool_call>" in text) == (mode == "tools" or (mode, made.card.name) == ("oracle", "dlebench-vc"))
    assert ("Reference Image" in text) == (mode == "oracle")


def test_a_prompt_pack_replaces_what_it_has_and_is_signed(tmp_path):
    (tmp_path / "following_plain.txt").write_text("Judge this: {instruction}", encoding="utf-8")
    (tmp_path / "consistency_labels.txt").write_text("Perfect or not.", encoding="utf-8")
    packed = SmallObjectFollowing(mode="plain", prompts=str(tmp_path))
    experts = Experts(says("Wrong Action"), says("Single Anomaly"))
    score = experts.score(packed)
    assert words(experts.judge_queries[0]) == f"Judge this: {INSTRUCTION}"
    digest = Prompts(PACKAGE, str(tmp_path)).digest
    assert score.metric == f"dlebench-if@2/plain[prompts={digest}]"
    other = VisualConsistency(mode="plain", prompts=str(tmp_path))
    experts.score(other)
    assert "Perfect or not." in words(experts.judge_queries[1])
    assert "You judge edits" in words(experts.judge_queries[1])


def rows():
    table = (ROOT / "docs" / "prompts" / "dlebench.md").read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split(" | ") for line in table if line.startswith("| `")]
    return [(prompt.strip(" `"), sentence.strip()) for prompt, _, _, sentence in cells]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_every_word_of_a_prompt_is_in_the_table_of_criteria(path):
    text = " ".join(re.sub(r"=== (system|user) ===", "", path.read_text(encoding="utf-8")).split())
    assert "|" not in text
    for sentence in sorted((sentence for prompt, sentence in rows() if prompt == path.stem), key=len, reverse=True):
        assert sentence in text
        text = text.replace(sentence, "", 1)
    assert not re.search(r"[A-Za-z]", re.sub(r"\{[a-z]+\}", "", text)), text


def test_the_table_is_about_prompts_that_exist_and_their_slots_are_known():
    known = {"instruction", "size", "labels", "checks", "examples", "answer", "tools", "left"}
    assert {prompt for prompt, _ in rows()} == {path.stem for path in FOLDER.glob("*.txt")}
    for path in FOLDER.glob("*.txt"):
        slots = {slot for _, slot, _, _ in Formatter().parse(path.read_text(encoding="utf-8")) if slot is not None}
        assert slots <= known
