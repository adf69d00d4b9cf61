"""Both metrics: what the judge sees in each mode, what comes of its labels, options, prompts and packs."""

import pickle
import re
from pathlib import Path
from string import Formatter

import pytest

from editcritic.reward.config import build
from editcritic.reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from editcritic.reward.metrics.dlebench.tools import localize_differences, zoom_in_image
from editcritic.reward.queries import Abstention, Differ, Failure, Reply, Upscale, spec_of

from ..scripted import heard, words
from .scripted_dlebench import (
    DIFFER,
    EDITED,
    INSTRUCTION,
    PLACE,
    REFERENCE,
    SIZE,
    SOURCE,
    ZOOM,
    Experts,
    box,
    calls,
    edit,
    noise,
    patched,
    pictures,
    same,
    says,
)

METRICS = [SmallObjectFollowing, VisualConsistency]
MODES = ["oracle", "tools", "plain"]
Oracle = SmallObjectFollowing
WRONG, ANOMALY = says("Wrong Action"), says("Single Anomaly")
SMALL = (box(300, 200, 316, 216),)
TWO = (box(*PLACE), box(50, 50, 90, 80))
BEFORE, AFTER, WANTED = noise(1), noise(2), noise(3)


def noisy(**fields):
    return edit(sources=(BEFORE,), **{"edited": AFTER, "reference": WANTED, **fields})


def painted(image, *areas):
    return patched(image, *areas, colour=(255, 255, 255)).pixels


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


@pytest.mark.parametrize("metric", METRICS)
def test_plain_shows_both_pictures_as_they_are_and_tools_at_the_sources_size(metric):
    small, label = noise(4, (320, 240)), says(metric.label_scale.labels[1])
    for mode, shown in (("plain", small), ("tools", small.resized(*SIZE))):
        experts = Experts(label)
        score = experts.score(metric(mode=mode, max_tokens=99), edit(edited=small, targets=(), reference=None))
        (question,) = experts.judged
        assert same(pictures(question), [SOURCE, shown])
        assert ("tool_call" in words(question)) == (mode == "tools")
        assert question.topic == f"dlebench/{metric.base_card.aspect}_{mode}"
        assert (question.slots, question.form.max_tokens) == ((("instruction", INSTRUCTION),), 99)
        assert (score.status, score.evidence[0].what == "resized") == ("scored", mode == "tools")


@pytest.mark.parametrize("reply", ["", "no idea", says("not Flawless Execution"), WRONG + says("Label"), ANOMALY])
@pytest.mark.parametrize("mode", ["oracle", "plain"])
def test_an_unclear_verdict_is_a_failed_score_with_the_words_in_the_evidence(mode, reply):
    score = Experts(reply).score(SmallObjectFollowing(mode=mode))
    assert (score.status, score.value) == ("failed", None)
    assert "unclear" in score.reason
    evidence = [*score.evidence, *(item for credit in score.credits.values() for item in credit.evidence)]
    assert [item.text for item in evidence if item.what == "reply"] == [reply]
    assert "no verdict in 6" in Experts(*[says("Flawless Execution")] * 6).score(VisualConsistency()).reason


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
        assert (score.status, why in score.reason, experts.queries) == ("not_applicable", True, [])


def test_the_judge_sees_a_crop_of_source_edit_and_reference_and_nothing_else():
    place = (100, 100, 300, 400)  # s = 200: 6 - 5.7 x 168 / 224 = 1.725, so 172.5 across and 258.75 down
    source, edited, reference = (noise(seed, (800, 900)) for seed in (1, 2, 3))
    targets = (box(*place, (800, 900)),)
    experts = Experts(WRONG)
    score = experts.score(Oracle(), edit(sources=(source,), edited=edited, reference=reference, targets=targets))
    (question,) = experts.judged
    assert len(experts.queries) == 1
    crop = (slice(0, 659), slice(0, 473))
    assert same(pictures(question), [picture.pixels[crop] for picture in (source, edited, reference)])
    assert question.messages[0].content[:3] == tuple(pictures(question))
    numbers = score.evidence[0].numbers
    assert (numbers["x0"], numbers["y0"], numbers["x1"], numbers["y1"]) == (0, 0, 473, 659)
    assert numbers["context"] == pytest.approx(1.725)
    assert "adaptive" in score.evidence[0].text
    assert INSTRUCTION in words(question)
    assert (question.topic, question.slots) == ("dlebench/following_oracle", (("instruction", INSTRUCTION),))


def test_small_crops_are_enlarged_and_the_context_is_an_option():
    for options, side, factor in (({}, 448, 3), ({"min_crop_side": 0}, 112, 0), ({"paper": True}, 112, 0)):
        experts = Experts(WRONG)
        experts.score(Oracle(**options), edit(targets=SMALL))
        crops = [picture.crop(252, 152, 364, 264).resized(side, side) for picture in (SOURCE, EDITED, REFERENCE)]
        assert same(pictures(experts.judged[0]), crops)
        assert experts.count(Upscale) == factor
    assert Oracle(paper=True).card.roles == ("judge",)
    experts = Experts(WRONG)
    score = experts.score(Oracle(context=0.5, min_crop_side=0), edit(targets=(box(100, 100, 200, 140),)))
    assert same(pictures(experts.judged[0])[:1], [SOURCE.pixels[90:150, 75:225]])
    assert score.evidence[0].text == "context: 0.5"
    assert score.metric == "dlebench-if@2/oracle[min_crop_side=0, context=0.5]"
    rule = lambda query: Failure("out of memory") if isinstance(query, Upscale) else Reply(WRONG)  # noqa: E731
    score, _ = heard(Oracle(), rule, edit())
    assert (score.status, "out of memory" in score.reason) == ("failed", True)


def test_edit_and_reference_of_another_size_are_brought_to_the_sources_and_that_is_evidence():
    edited, reference = noise(1, (320, 240)), noise(2, (1280, 960))
    sample = edit(edited=edited, reference=reference, targets=(box(100, 100, 400, 400),))
    at_size = [SOURCE, edited.resized(*SIZE), reference.resized(*SIZE)]
    following, consistency = Experts(WRONG), Experts(ANOMALY)
    scores = following.score(Oracle(min_crop_side=0), sample), consistency.score(VisualConsistency(), sample)
    assert same(pictures(following.judged[0]), [picture.crop(55, 55, 445, 445) for picture in at_size])
    white = [painted(picture, (100, 100, 400, 400)) for picture in at_size]
    assert same(pictures(consistency.judged[0]), white)
    for score in scores:
        assert [item.text for item in score.evidence if item.what == "resized"] == [
            "the edited picture was brought from 320 x 240 to the source's size",
            "the reference picture was brought from 1280 x 960 to the source's size",
        ]


@pytest.mark.parametrize("labels", [("Flawless Execution", "Wrong Action"), ("Wrong Action", "Flawless Execution")])
def test_the_worst_of_several_targets_counts_and_each_is_judged_alone(labels):
    experts = Experts(*map(says, labels))
    score = experts.score(Oracle(), edit(sources=(BEFORE,), targets=TWO))
    assert score.value == pytest.approx(1 / 3)
    values = {"Flawless Execution": 1.0, "Wrong Action": 1 / 3}
    assert {name: credit.value for name, credit in score.credits.items()} == {
        f"target {number}": pytest.approx(values[label]) for number, label in enumerate(labels, 1)
    }
    assert f"target {labels.index('Wrong Action') + 1}: Wrong Action" in score.reason
    # 40 x 30 pixels grow by 6 x 20 and 6 x 15 to each side
    crops = [BEFORE.crop(180, 110, 460, 320), BEFORE.crop(0, 0, 210, 170)]
    larger = [crop.resized(4 * crop.width, 4 * crop.height) for crop in crops]
    assert same([pictures(question)[0] for question in experts.judged], larger)


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (says("Localization Failure"), "no idea", "failed"),
        (says("Localization Failure"), Failure("no connection"), "failed"),
        (says("Localization Failure"), Abstention("no"), "abstained"),
        (Abstention("who knows"), "no idea", "failed"),
    ],
)
def test_one_target_that_cannot_be_told_has_the_whole_do_so(first, second, status):
    score = Experts(first, second).score(Oracle(), edit(targets=TWO))
    assert (score.status, score.value) == (status, None)
    assert score.reason.startswith("target 2: ")
    assert score.credits["target 1"].value == (None if isinstance(first, Abstention) else 0.0)


@pytest.mark.parametrize(
    ("targets", "areas"),
    [
        ((box(*PLACE), box(20, 30, 50, 45)), [PLACE, (20, 30, 50, 45)]),
        # between pixels it is covered, at the border it is cut
        ((box(10.4, 20.6, 29.2, 39.9), box(600, -9, 700, 11)), [(10, 20, 30, 40), (600, 0, 640, 11)]),
    ],
)
def test_all_targets_are_white_in_all_three_pictures_and_nothing_else_is_touched(targets, areas):
    experts = Experts(ANOMALY)
    experts.score(VisualConsistency(), noisy(targets=targets))
    (question,) = experts.judged
    assert same(pictures(question), [painted(image, *areas) for image in (BEFORE, AFTER, WANTED)])
    assert question.topic == "dlebench/consistency_oracle"
    assert "white" in words(question)


def test_the_tools_see_the_painted_pictures_at_one_size_and_not_the_reference():
    reference = ("zoom_in_image", {**ZOOM[1], "target_image": "Reference Image"})
    experts = Experts(calls(ZOOM, DIFFER, reference), ANOMALY)
    elsewhere = patched(patched(BEFORE, PLACE), (100, 400, 120, 420))
    experts.score(VisualConsistency(), noisy(edited=elsewhere))
    source, edited = painted(BEFORE, PLACE), painted(elsewhere, PLACE)
    zoomed, differences = zoom_in_image(ZOOM[1]["bbox_2d"], edited), localize_differences(source, edited)
    assert len(differences.pictures) == 1  # the target's own region is gone
    assert same(pictures(experts.judged[1]), [*zoomed.pictures, *differences.pictures])
    assert "there is no image 'Reference Image'" in words(experts.judged[1])
    experts = Experts(calls(DIFFER), ANOMALY)
    experts.score(VisualConsistency(mode="tools"), edit(edited=EDITED.resized(1280, 960)))
    assert len(pictures(experts.judged[1])) == experts.count(Differ) == 1
    assert "brought" not in words(experts.judged[1])


@pytest.mark.parametrize("metric", METRICS)
def test_card_signature_and_spec_say_what_a_metric_is(metric):
    oracle, tools, plain = (metric(mode=mode).card for mode in MODES)
    assert oracle.modes == ("oracle", "tools", "plain")
    assert {"targets", "reference"} <= set(oracle.requires)
    assert tools.requires == plain.requires == ("sources", "edited", "instruction")
    assert (set(tools.roles), plain.roles) == ({"judge", "differences", "detector", "enhancer"}, ("judge",))
    assert oracle.roles == (("judge", "enhancer") if metric is SmallObjectFollowing else tools.roles)
    assert oracle.failure_modes
    assert oracle.is_unit_range
    assert oracle.aspect == {"dlebench-if": "following", "dlebench-vc": "consistency"}[oracle.name]
    made = metric(mode="tools", max_turns=3, max_regions=2, detection_threshold=0.2)
    assert build(spec_of(made)) == pickle.loads(pickle.dumps(made)) == made
    assert made.signature == f"{made.card.signature}/tools[max_turns=3, max_regions=2, detection_threshold=0.2]"


ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "reward" / "metrics" / "dlebench" / "prompts"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_has_the_instruction_the_labels_and_no_slot_left(metric, mode):
    made, experts = metric(mode=mode), Experts(says(metric.label_scale.labels[0]))
    experts.score(made, edit(instruction="paint {the} cup"))
    text = words(experts.judged[0])
    assert "paint {the} cup" in text
    for label in made.label_scale.labels:
        assert text.count(label) >= 2
    assert not re.search(r"\{[a-z_]+\}", text.replace("{the}", ""))
    assert ("<tool_call>" in text) == made.has_tools
    assert ("Reference Image" in text) == (mode == "oracle")


TABLE = (ROOT / "docs" / "prompts" / "dlebench.md").read_text(encoding="utf-8").splitlines()
CELLS = [line.strip("|").split(" | ") for line in TABLE if line.startswith("| `")]
ROWS = [(prompt.strip(" `"), sentence.strip()) for prompt, _, _, sentence in CELLS]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_every_word_of_a_prompt_is_in_the_table_of_criteria(path):
    text = " ".join(re.sub(r"=== (system|user) ===", "", path.read_text(encoding="utf-8")).split())
    assert "|" not in text
    for sentence in sorted((sentence for prompt, sentence in ROWS if prompt == path.stem), key=len, reverse=True):
        assert sentence in text
        text = text.replace(sentence, "", 1)
    assert not re.search(r"[A-Za-z]", re.sub(r"\{[a-z]+\}", "", text)), text


def test_the_table_is_about_prompts_that_exist_and_their_slots_are_known():
    known = {"instruction", "size", "labels", "checks", "examples", "answer", "tools", "left"}
    assert {prompt for prompt, _ in ROWS} == {path.stem for path in FOLDER.glob("*.txt")}
    for path in FOLDER.glob("*.txt"):
        slots = {slot for _, slot, _, _ in Formatter().parse(path.read_text(encoding="utf-8")) if slot is not None}
        assert slots <= known
