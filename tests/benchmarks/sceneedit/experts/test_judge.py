"""SceneJudge on edits that are drawn right and wrong."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from statistics import fmean

import pytest

from editcritic.benchmarks.sceneedit.cases import Case, case_of, cases, drift_series, random_scene_request
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.experts.instruction_parser import UnanswerableError
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.experts.judge_question import (
    LEVELS,
    binomial_probabilities,
    grade_reply,
    level_reply,
)
from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneDetector
from editcritic.benchmarks.sceneedit.failure_modes import failure_mode
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Light, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.simulated_edits import SimulatedEdit, honest_edit
from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS
from editcritic.reward import EditSample, Image, Reward
from editcritic.reward.boxes import highest_scoring
from editcritic.reward.metrics.edival.inspector import crop_box
from editcritic.reward.queries import Abstention, Detect, Detections, FreeText, Judge, Message, Reply, YesNo
from editcritic.reward.queries.response_formats import Grade, Levels
from editcritic.reward.sample import TASK_TYPES, Task
from studies.validity.metric_selection import spearman

JUDGE = SceneJudge()
OLD = SceneObject(1, "circle", "red", 0.3, 0.4, 0.3, 0.3)
REST = SceneObject(2, "cross", "teal", 0.75, 0.7, 0.28, 0.28)
BEFORE = Scene((OLD, REST), Backdrop("sand"))
STAR = replace(OLD, id=3, shape="star", colour="blue")


def ask(topic: str, *pictures: Image | Scene, **slots: str) -> Reply | Abstention:
    shown = tuple(render(one) if isinstance(one, Scene) else one for one in pictures)
    query = Judge((Message((*shown, "?")),), YesNo(), topic, tuple(slots.items()))
    (answer,) = JUDGE([query])
    if not isinstance(answer, Abstention):
        query.check(answer)
    return answer  # type: ignore[return-value]


def yes(topic: str, *pictures: Image | Scene, **slots: str) -> float:
    reply = ask(topic, *pictures, **slots)
    assert isinstance(reply, Reply)
    assert reply.text == ("yes" if reply.probabilities["yes"] >= 0.5 else "no")
    assert sum(reply.probabilities.values()) == pytest.approx(1)
    return reply.probabilities["yes"]


@pytest.mark.parametrize("side", [64, 512])
def test_crops_have_the_colour_and_material_of_their_thing_and_no_other(side):
    right = []
    for seed in range(8):
        scene = random_scene(random.Random(seed), SceneConfig.for_size(64))
        image = render(scene).resized(side, side)
        for obj in scene.objects:
            (detections,) = SceneDetector()([Detect(image, (obj.name,))])
            assert isinstance(detections, Detections)
            box = highest_scoring(detections.boxes)
            assert box is not None
            crop = crop_box(image, box, 0.05)
            for topic, options, own in (("color", COLOURS, obj.colour), ("material", MATERIALS, obj.material)):
                answers = {value: yes(f"edival/{topic}", crop, object=obj.name, value=value) for value in options}
                right += [(probability >= 0.5) == (value == own) for value, probability in answers.items()]
    assert sum(right) >= 0.99 * len(right)


def test_of_a_pair_the_second_counts():
    after = BEFORE.with_object(replace(OLD, colour="blue"))
    slots = {"object": "red circle", "value": "blue"}
    assert yes("edival/color_pair", BEFORE, after, **slots) > 0.9
    assert yes("edival/color_pair", after, BEFORE, **slots) < 0.1


LARGE = SceneObject(1, "square", "red", 0.5, 0.5, 0.45**0.5, 0.45**0.5)  # 45 percent of the picture


@pytest.mark.parametrize("kind", BACKDROPS)
def test_the_background_is_what_lies_behind_in_any_light_at_any_size(kind):
    pictures = [render(replace(BEFORE, backdrop=Backdrop(kind, 5)))]
    for number, gain in enumerate((0.85, 1.0, 1.15, 1.25)):
        light = Light(gain, 0.12, number / 4)
        pictures.append(render(Scene((), Backdrop(kind, number), light, noise=4.0, noise_seed=number)))
    pictures += [render(Scene((replace(LARGE, colour=colour),), Backdrop(kind, 3))) for colour in COLOURS]
    for number, (size, side) in enumerate(((32, 32), (128, 128), (64, 512))):
        scene = random_scene(random.Random(number), SceneConfig.for_size(size))
        pictures.append(render(replace(scene, backdrop=Backdrop(kind, number))).resized(side, side))
    for image in pictures:
        probabilities = {value: yes("edival/background", image, value=value) for value in BACKDROPS}
        assert max(probabilities, key=lambda value: probabilities[value]) == kind
    assert yes("edival/background", pictures[0], value=kind) > 0.5
    for shape in ((1, 1), (9, 1), (200, 3)):  # too small to tell, and answered
        assert 0 <= yes("edival/background", pictures[0].resized(*shape), value=kind) <= 1


@pytest.mark.parametrize(
    ("old", "after", "holds"),
    [
        ("red circle", Scene((REST, replace(STAR, x=0.35)), BEFORE.backdrop), True),
        ("red circle", Scene((REST, replace(STAR, colour="green")), BEFORE.backdrop), False),
        ("red circle", Scene((REST, replace(STAR, shape="heart")), BEFORE.backdrop), False),
        ("red circle", Scene((REST, replace(STAR, material="wood")), BEFORE.backdrop), False),
        ("red circle", Scene((REST, replace(STAR, x=0.75, y=0.25)), BEFORE.backdrop), False),
        ("red circle", BEFORE, False),
        ("red circle", BEFORE.with_object(replace(STAR, x=0.5, y=0.5, w=0.25, h=0.25)), False),
        ("green heart", Scene((REST, replace(STAR, w=0.25, h=0.25)), BEFORE.backdrop), False),
    ],
    ids=["done", "colour", "shape", "material", "elsewhere", "nothing", "old still there", "old not there before"],
)
def test_replaced_is_the_new_in_the_place_of_the_old(old, after, holds):
    assert (yes("edival/replaced", BEFORE, after, object=old, new="blue star") >= 0.5) == holds


def test_added_is_new_and_exactly_as_asked_for():
    star = SceneObject(3, "star", "blue", 0.75, 0.25, 0.28, 0.28)
    after = BEFORE.with_object(star)
    assert yes("edival/added", BEFORE, after, new="blue star") > 0.8
    assert yes("edival/added", BEFORE, after, new="pink star") < 0.2
    assert yes("edival/added", BEFORE, after, new="wood blue star") < 0.2
    assert yes("edival/added", after, after, new="blue star") < 0.2
    faded = [BEFORE.with_object(replace(star, opacity=opacity)) for opacity in (0.2, 0.5, 1)]
    fading = [yes("edival/added", BEFORE, one, new="blue star") for one in faded]
    assert fading == sorted(fading)


@pytest.mark.parametrize(("sort", "field", "value"), [("color", "colour", "blue"), ("material", "material", "wood")])
def test_edit_success_looks_where_the_object_was(sort, field, value):
    slots = {"type": sort, "object": "red circle", "value": value}
    twin = replace(OLD, id=3, x=0.75, y=0.2, colour="pink")
    before = BEFORE.with_object(twin)
    assert yes("edival/edit_success", before, before.with_object(replace(OLD, **{field: value})), **slots) > 0.7
    for after in (before.with_object(replace(twin, **{field: value})), before, before.without([1])):
        assert yes("edival/edit_success", before, after, **slots) < 0.3


def test_core_name_leaves_colours_and_materials_out():
    query = Judge((Message(("?",)),), FreeText(), "edival/core_name", (("object", "wood red circle"),))
    assert JUDGE([query]) == [Reply("circle")]


@pytest.mark.parametrize(
    ("topic", "slots", "reason"),
    [
        ("edival/mood", {}, "it knows edival/color"),
        ("", {}, "a question without a topic: it knows edival/…, complexedit/…"),
        ("edival/color", {"object": "dog", "value": "red"}, "'dog' in 'dog' means nothing"),
        ("edival/color", {"object": "red circle", "value": "plaid"}, "it knows red, orange"),
        ("edival/added", {"new": "red circle"}, "by 1 pictures: expected 2"),
        ("any-edit/identity", {"question": "Is it the same person?"}, "it knows any-edit/edited"),
        ("any-edit/edited", {"question": "Is it the same person?"}, "it knows its own questions"),
    ],
)
def test_abstains_on_what_it_does_not_know(topic, slots, reason):
    answer = ask(topic, BEFORE, **slots)
    assert isinstance(answer, Abstention)
    assert reason in answer.reason


# -- any-edit ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def removal() -> EditSample:
    """An honest removal."""
    edits = (case for case in cases(90, seed=1, split="train") if case.task == "subject_remove" and not case.mode)
    return next(case.sample for case in edits if not case.sample.history)


def test_a_question_about_an_image_is_answered_from_that_image(removal) -> None:
    question = f"Is there one {removal.task.object}?"
    assert yes("any-edit/edited", removal.source, question=question) > 0.9
    assert yes("any-edit/edited", removal.edited, question=question) < 0.1


def test_a_question_about_a_pair_may_quote_an_instruction(removal) -> None:
    question = f'Was this done: "{removal.instruction}"?'
    assert yes("any-edit/pair", removal.source, removal.edited, question=question) > 0.9
    assert yes("any-edit/pair", removal.source, removal.source, question=question) < 0.1


def test_differences_have_the_number_of_their_operation(removal) -> None:
    operations = f"1. {removal.instruction}\n2. Change the background to snow"
    for edited, numbers in ((removal.edited, {1}), (removal.source, set())):
        message = Message((removal.source, edited, "see the slots"))
        (reply,) = JUDGE([Judge((message,), FreeText(), "any-edit/differences", (("operations", operations),))])
        assert isinstance(reply, Reply)
        assert {entry["operation"] for entry in json.loads(reply.text)["differences"]} == numbers


def grades(share: float, draws: int, temperature: float = 1.0) -> list[int]:
    form = Grade(0, 10, temperature)
    queries = [Judge((Message(("How good?",)),), form, draw=draw) for draw in range(draws)]
    return [int(grade_reply(share, query).text) for query in queries]


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.87, 1.0])
@pytest.mark.parametrize("steps", [4, 10, 100])
def test_the_expectation_is_what_is_meant(share, steps):
    chances = binomial_probabilities(share, steps)
    assert sum(chances) == pytest.approx(1.0)
    assert sum(place * chance for place, chance in enumerate(chances)) == pytest.approx(share * steps)


def test_draws_scatter_around_the_expectation_but_not_at_the_ends_nor_without_a_temperature():
    drawn = grades(0.6, 400)
    assert len(set(drawn)) > 4
    assert fmean(drawn) == pytest.approx(6.0, abs=0.3)
    assert drawn == grades(0.6, 400)
    assert [set(grades(share, 20)) for share in (0.0, 1.0)] == [{0}, {10}]
    assert grades(0.62, 1, temperature=0.0) == [6]


def test_levels_have_the_expected_weight_and_the_likeliest_word():
    form = Levels(tuple(reversed(LEVELS)), (1.0, 0.75, 0.5, 0.25, 0.0))
    reply = level_reply(0.7, form.options)
    assert form.reply_value(reply) == pytest.approx(0.7)
    assert reply.text == "good"
    with pytest.raises(UnanswerableError, match="which of yes, maybe it is"):
        level_reply(0.8, ("yes", "maybe"))


EXPERTS = scene_experts()
WORLD = SceneConfig.for_size(64)


def values(spec: str, samples: list[EditSample]) -> list[float]:
    scores = Reward.of(spec, EXPERTS)(samples)
    score_values = [score.value for score in scores]
    assert None not in score_values, [score.reason for score in scores if score.value is None]
    return [value for value in score_values if value is not None]


def three(kind: str) -> tuple[EditSample, EditSample, EditSample]:
    """A right edit, the source again, and one in which all but what the request is about is gone."""
    rng = random.Random(f"judged {kind}")
    while True:
        scene, request = random_scene_request(rng, WORLD, kind)  # type: ignore[arg-type]
        if len([obj for obj in scene.objects if obj.id not in request.affected_ids]) >= 2:
            break
    right = honest_edit(rng, request, scene, WORLD)
    kinds = [one for one in ("grass", "sand", "night") if one not in (scene.backdrop.kind, request.task.value)]
    ruined = scene.without(obj.id for obj in scene.objects if obj.id not in request.target_ids)
    wrong = replace(right, after=replace(ruined, backdrop=Backdrop(kinds[0], 3)))
    good, bad = (case_of([edit], name).sample for edit, name in ((right, "right"), (wrong, "wrong")))
    return good, replace(good, id="copy", edited=good.source), bad


COPY_AT_THE_ENDS = {
    f"complex-edit-{metric}?mode={mode}": value
    for metric, value in (("if", 0.0), ("ip", 10.0))
    for mode in ("numeric&n=3", "expected", "token_probability")
}
FOLLOWING = (
    *("judge-yes-no", "judge-levels", "i2i-instruction-following", "dlebench-if?mode=plain", "dlebench-if?mode=tools"),
)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_right_edit_a_copy_and_a_ruin_are_told_apart(kind):
    samples = list(three(kind))
    for spec, value in COPY_AT_THE_ENDS.items():
        assert values(spec, samples[1:2]) == [value], spec
    for mode in ("expected", "token_probability"):
        good, copy, wrong = values(f"complex-edit-o?mode={mode}", samples)
        assert good > copy + 1.0 > wrong + 1.0, mode
    for spec in FOLLOWING:
        good, copy, wrong = values(spec, samples)
        assert good > 0.8, spec
        assert copy == 0.0, spec
        assert wrong < 0.6, spec
    assert values("dlebench-vc?mode=plain", samples) == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("spec", ["complex-edit-ip?mode=expected", "complex-edit-ip?mode=token_probability"])
def test_preservation_falls_as_the_background_drifts(spec):
    for series in drift_series(3):
        scores = values(spec, [case.sample for case in series])
        assert (spearman([(-value, case.severity) for value, case in zip(scores, series, strict=True)]) or 0) > 0.9


@pytest.mark.parametrize("spec", ["complex-edit-pq?mode=expected", "judge-quality", "viescore-pq", "i2i-image-quality"])
def test_quality_falls_as_a_picture_is_degraded(spec):
    rng = random.Random(4)
    scene, request = random_scene_request(rng, WORLD, "color_alter")
    edits = [failure_mode("degraded").edit(rng, request, scene, WORLD, severity=step / 5) for step in range(1, 6)]
    scores = values(spec, [case_of([edit], "d").sample for edit in edits if edit is not None])
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1] + 0.2 * max(scores)


def test_credit_for_a_compound_goes_to_the_steps_that_were_done():
    edits = [case for case in compound_cases(24) if 0 < sum(case.steps_followed) < len(case.steps_followed)]
    assert len(edits) > 4
    grades: dict[bool, list[float]] = {True: [], False: []}
    for case in edits:
        (score,) = Reward.of("complex-edit-if?n=2&operations=listed", EXPERTS)([case.sample])
        for step, credit in zip(case.steps_followed, score.credits.values(), strict=True):
            grades[step].append(credit.value or 0.0)
    assert fmean(grades[True]) > 8.5
    assert fmean(grades[False]) < 5


def test_hints_hold_for_right_edits_and_not_for_copies():
    for edits in (cases(60, small_share=0.0), composition_cases(20)):
        spec = "i2i-multi-world-knowledge" if len(edits[0].sample.sources) > 1 else "i2i-world-knowledge"
        right = [replace(case.sample, dimensions=None) for case in edits if not case.mode]
        scores = values(spec, right)
        assert sum(value >= 0.5 for value in scores) >= 0.95 * len(scores)
        copies = [replace(sample, edited=sample.source) for sample in right]
        assert max(values(spec, copies)) < 0.5


def test_what_is_taken_from_another_source_is_looked_for_there():
    edits = composition_cases(30)
    right = [case.sample for case in edits if not case.mode]
    wrong = [case.sample for case in edits if case.mode == "wrong_source"]
    spec = "i2i-multi-cross-source-attribute"
    assert min(values(spec, right)) > max(values(spec, wrong))


# -- DLEBench's labels ------------------------------------------------------------------------------------------------

CIRCLE = SceneObject(1, "circle", "red", 0.2, 0.25, 0.22, 0.22)
OTHERS = (
    SceneObject(2, "cross", "teal", 0.75, 0.25, 0.22, 0.22),
    SceneObject(3, "square", "blue", 0.25, 0.75, 0.22, 0.22),
    SceneObject(4, "star", "purple", 0.75, 0.75, 0.24, 0.24),
)
SCENE = Scene((CIRCLE, *OTHERS), Backdrop("sand", 3))
DONE = SCENE.with_object(replace(CIRCLE, colour="green"))


def labelled(metric: str, after: Scene) -> str:
    task = Task("color_alter", object="red circle", value="green")
    request = SceneRequest(
        task, "Change the color of red circle to green", (1,), placed=(replace(CIRCLE, colour="green"),)
    )
    case: Case = case_of([SimulatedEdit(request, SCENE, replace(after, noise_seed=9))], "c")
    (score,) = Reward.of(metric, EXPERTS)([case.sample])
    return score.reason.partition(" (")[0].partition(": ")[2] or score.reason.partition(" (")[0]


@pytest.mark.parametrize("way", ["plain", "oracle"])
@pytest.mark.parametrize(
    ("after", "label"),
    [
        (DONE, "Flawless Execution"),
        (SCENE.with_object(replace(CIRCLE, colour="green", opacity=0.4)), "Over Modification"),
        (SCENE.with_object(replace(CIRCLE, colour="pink")), "Wrong Action"),
        (SCENE.without([1]), "Wrong Action"),
        (SCENE, "Localization Failure"),
    ],
    ids=["done", "faint", "another colour", "removed", "nothing"],
)
def test_following_is_labelled_by_what_has_happened_to_the_target(after, label, way):
    assert labelled(f"dlebench-if?mode={way}", after) == label


def test_what_is_done_to_another_thing_is_no_action_on_the_target():
    elsewhere = SCENE.with_object(replace(OTHERS[0], colour="orange"))
    assert labelled("dlebench-if?mode=plain", elsewhere) == "Localization Failure"


@pytest.mark.parametrize("way", ["plain", "oracle"])
@pytest.mark.parametrize(
    ("after", "label"),
    [
        (DONE, "Perfect Consistency"),
        (SCENE, "Perfect Consistency"),
        (DONE.with_object(replace(OTHERS[0], colour="orange")), "Single Anomaly"),
        (DONE.with_object(replace(OTHERS[0], colour="orange")).without([3]), "Multiple Anomalies"),
        (replace(DONE, backdrop=Backdrop("night", 3)), "Scene Collapse"),
        (DONE.without([2, 3, 4]), "Scene Collapse"),
    ],
    ids=["done", "nothing", "one", "two", "another backdrop", "all gone"],
)
def test_consistency_is_labelled_by_the_number_of_other_changes(after, label, way):
    assert labelled(f"dlebench-vc?mode={way}", after) == label
