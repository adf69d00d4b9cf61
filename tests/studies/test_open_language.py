"""The study of open language: requests, edits and their truth, plans, figures, and what experts see of pictures."""

import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import seeded_rng
from editcritic.benchmarks.sceneedit.experts.object_segments import detect_objects
from editcritic.benchmarks.sceneedit.experts.picture_looks import CHANGES, PictureChange, is_blurred
from editcritic.benchmarks.sceneedit.experts.picture_looks import LOOKS as SEEN_LOOKS
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.vocabulary import SHAPES
from editcritic.reward import EditPlan, Kept, PlannedOperation, Target
from editcritic.reward.metrics.any_edit.plans import plan_problems
from editcritic.reward.metrics.any_edit.questions import with_questions
from editcritic.reward.planners.rule_planner import RulePlanner
from editcritic.reward.queries import Abstention, Judge
from editcritic.reward.queries.response_formats import Json, Message, YesNo
from studies.open_language import __main__ as command
from studies.open_language import open_edits, whole_picture
from studies.open_language.__main__ import SETTINGS, markdown, measure_best_of_n
from studies.open_language.open_requests import OBJECT_REQUEST_KINDS, random_object_request
from studies.open_language.open_sheet import draw_open_sheet
from studies.open_language.study import MetricResult, OpenRow, OpenStudy, same_plan, score_cases
from studies.open_language.twin_scenes import plain_scene, step_followed

CONFIG = SceneConfig.for_size(96)


# -- objects ----------------------------------------------------------------------------------------------------------


@cache
def requests(kind, count, first=0):
    return [
        random_object_request(random.Random(f"{kind} {seed}"), CONFIG, kind) for seed in range(first, first + count)
    ]


@pytest.mark.parametrize("kind", OBJECT_REQUEST_KINDS)
def test_a_request_can_be_followed_and_its_plan_says_so(kind):
    for request in requests(kind, 8):
        scenes = request.scenes
        for step, before in zip(request.steps, scenes, strict=False):
            assert step_followed(step, before, scenes[-1]), request.sentence
        assert not all(step_followed(step, request.before, request.before) for step in request.steps), request.sentence
        assert plan_problems(request.plan, request.sentence) == (), request.sentence
        assert [operation.type for operation in request.plan.operations] == [step.task.type for step in request.steps]
        assert all(one.words.casefold() in request.sentence.casefold() for one in request.plan.operations)
        assert bool(request.kept_ids) == (kind == "keep")
        assert len(request.plan.keep) == len(request.kept_ids)
        assert not set(request.kept_ids) & request.affected_ids


@pytest.mark.parametrize("kind", OBJECT_REQUEST_KINDS)
def test_the_rules_read_what_its_author_meant(kind):
    cases = requests(kind, 30, first=100)
    plans = [(request, RulePlanner().plan(request.sentence)) for request in cases]
    misread = [one.sentence for one, plan in plans if plan is not None and not same_plan(plan, one.plan)]
    unread = [request.sentence for request, plan in plans if plan is None]
    assert len(misread) <= 0.05 * len(cases), misread
    assert len(unread) <= 0.1 * len(cases), unread


FOLLOWED = {"twin too", "kept thing changed", "other thing changed", "backdrop drifted", "brightened", "shifted"}
NOT_FOLLOWED = {"copy", "wrong twin", "only some of all", "not all operations", "misspelt", "source pasted in"}


@cache
def examples(flaw, count=3):
    """Requests with an honest edit and one with this flaw."""
    found = []
    for seed in range(1500):
        rng = random.Random(f"{flaw} {seed}")
        request = random_object_request(rng, CONFIG, OBJECT_REQUEST_KINDS[seed % len(OBJECT_REQUEST_KINDS)])
        honest, flawed = (
            open_edits.honest_open_edit(rng, request, CONFIG),
            open_edits.flawed_open_edit(rng, request, CONFIG, flaw),
        )
        if flawed is not None and honest.truth.followed:
            found.append((request, honest, flawed))
        if len(found) == count:
            return found
    raise AssertionError(f"no request allows {flaw}")


@pytest.mark.parametrize("flaw", open_edits.OBJECT_FLAWS)
def test_a_flawed_edit_is_worse_than_an_honest_one_and_another_picture(flaw):
    for request, honest, flawed in examples(flaw):
        assert flawed.edit.picture != honest.edit.picture
        worse = flawed.truth.overall < honest.truth.overall or not flawed.truth.followed
        assert worse or flaw in ("noise and blur", "ghost", "wrong value"), request.sentence
        if flaw in FOLLOWED | NOT_FOLLOWED:
            assert flawed.truth.followed == (flaw in FOLLOWED), request.sentence
        if flaw == "kept thing changed":
            assert flawed.truth.kept < honest.truth.kept - 0.04


# -- the whole picture ------------------------------------------------------------------------------------------------


def edits(look, count=6, flaw=None):
    found: list[Any] = []
    for seed in range(200):
        rng = random.Random(f"{look} {flaw} {seed}")
        request = whole_picture.random_whole_picture_request(rng, CONFIG, look)
        edit: Any = whole_picture.honest_whole_picture_edit(rng, request) if flaw is None else None
        if flaw is not None:
            edit = whole_picture.flawed_whole_picture_edit(rng, request, flaw)
        found += [] if edit is None else [edit]
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("look", whole_picture.LOOKS)
def test_an_honest_edit_follows_and_shows_its_look(look):
    for edit in edits(look):
        assert edit.truth.followed
        assert edit.picture != edit.request.source
        assert plan_problems(edit.request.plan, edit.request.sentence) == (), edit.request.sentence
    sentences = {edit.request.sentence for edit in edits(look, 30)}
    unread = [sentence for sentence in sentences if RulePlanner().plan(sentence) is None]
    assert len(unread) <= 0.25 * len(sentences), unread


@pytest.mark.parametrize("flaw", whole_picture.WHOLE_PICTURE_FLAWS)
def test_no_flawed_edit_follows(flaw):
    found = [edit for look in whole_picture.LOOKS for edit in edits(look, 2, flaw)]
    assert found
    for edit in found:
        assert not edit.truth.followed, (edit.request.sentence, flaw)
        if flaw == "object lost":
            assert len(edit.after.objects) == len(edit.request.before.objects) - 1


# -- plans, cases and figures -----------------------------------------------------------------------------------------

OPERATION = PlannedOperation(
    "color_alter", "Paint the left red circles wooden", Target("circle", ("red",), place="left"), value="wood"
)
PLAN = EditPlan((OPERATION,), keep=(Kept("object", Target("star")),))


def whole(*arguments, **slots):
    return EditPlan((PlannedOperation(*arguments, **slots),), scope="whole")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        *(
            (PLAN, replace(PLAN, operations=(replace(OPERATION, **slots),)), same)
            for slots, same in (
                ({"words": ""}, True),
                ({"value": "wooden"}, True),
                ({"target": Target("red circles", place="left")}, True),
                ({"target": Target("circle", ("red",))}, False),
                ({"target": Target("circle", ("blue",), place="left")}, False),
                ({"target": Target("circle", ("red",), place="left", size="largest")}, False),
                ({"value": "metal"}, False),
                ({"type": "material_alter"}, False),
            )
        ),
        (PLAN, replace(PLAN, keep=(Kept("object", Target("stars"), "keep it"),)), True),
        (PLAN, replace(PLAN, keep=()), False),
        (PLAN, replace(PLAN, operations=(OPERATION, OPERATION)), False),
        (whole("weather", value="rain"), whole("particles_add", value="rain"), True),
        (whole("weather", value="rain"), whole("subject_add", new=Target("rain")), False),
        (whole("rotate", target=Target("image")), whole("rotate", target=Target("photo"), value="left"), True),
    ],
)
def test_plans_agree_whatever_the_words(one, other, same):
    assert same_plan(one, other) is same


def test_cases_come_in_pairs_without_annotations_and_are_the_same_for_a_seed():
    cases: Any = open_edits.open_cases(240, seed=3)
    for honest, flawed in zip(cases[::2], cases[1::2], strict=True):
        assert (honest.request, honest.sample.sources) == (flawed.request, flawed.sample.sources)
        assert (honest.flaw, honest.truth.followed) == ("", True)
        assert flawed.flaw in open_edits.FLAWS
        assert not flawed.truth.followed or flawed.truth.kept < honest.truth.kept
        fields = ("task", "pools", "plan", "reference", "mask", "operations", "boxes", "targets", "history", "metadata")
        assert [name for name in fields if getattr(flawed.sample, name)] == []
    assert {kind: sum(case.kind == kind for case in cases) for kind in open_edits.REQUEST_KINDS} == dict.fromkeys(
        open_edits.REQUEST_KINDS, 12
    )
    assert sum(case.flaw in open_edits.LANGUAGE_FLAWS for case in cases) >= 20
    again = [*open_edits.open_cases(40, seed=3), *open_edits.open_cases(40, seed=3, first=20)]
    assert [(case.sample, case.truth) for case in again] == [(case.sample, case.truth) for case in cases[:80]]
    assert len(draw_open_sheet().getcolors(maxcolors=2**24) or ()) > 1000


def row(request, flaw, followed, following, reward, *, kind="plain", read=True, same=True):
    def result(value):
        status: Any = "scored" if value is not None else "abstained"
        return MetricResult(value, status, "" if value else "no 'reason 1' here")

    truth = GroundTruth(followed, 1.0, 1.0)
    return OpenRow(f"{request}/{flaw}", request, "?", kind, flaw, truth, read, same, result(following), result(reward))


def test_figures_of_six_cases_by_hand():
    study = OpenStudy(
        [
            row("a", "", True, 0.9, 0.8),
            row("a", "copy", False, 0.1, 0.0),
            row("b", "", True, 0.3, 0.2, kind="keep"),
            row("b", "shifted", True, 0.9, 0.5, kind="keep", same=False),
            row("c", "", True, None, None, read=False, same=False),
            row("c", "copy", False, None, 0.0, read=False, same=False),
        ]
    )
    figures = (study.scored, study.right, study.ordered, study.plans_read, study.plans_same)
    # A guard's 0 without a plan is no score.
    assert [figure.value for figure in figures] == pytest.approx([4 / 6, 3 / 4, 1 / 2, 4 / 6, 3 / 4])
    assert [pair[1].flaw for pair in study.inversions()] == ["shifted"]
    assert study.missing_reasons() == {"abstained: no … 1' here": 2}
    assert study.of_kind("keep").right.value == pytest.approx(1 / 2)
    assert (len(study.of_flaw("copy").rows), len(study.only("copy").rows)) == (4, 2)


def test_plans_by_hand_score_nearly_everything_right():
    study: Any = OpenStudy(score_cases(open_edits.open_cases(2 * len(open_edits.REQUEST_KINDS), seed=11), "hand"))
    assert study.scored.value >= 0.95
    assert min(study.right.value, study.ordered.value) >= 0.9


def test_the_command_prints_tables(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--seeds", "11", "12", "--cases", "24"])
    assert ended.value.code in (0, 1)  # 24 cases decide no bar
    tables = capsys.readouterr().out
    assert "| share of cases with a score |" in tables
    assert "| none: honest | 12 |" in tables


@pytest.mark.slow
def test_a_small_run_selects_at_least_as_well_as_chance_and_resumes(tmp_path):
    pytest.importorskip("diffusers")
    study = measure_best_of_n([3], 9, tmp_path, candidates=3)
    assert (list(study.chosen), study.single.shape) == (list(SETTINGS), (9,))
    assert all(study.gain(name)[0] >= -0.2 for name in SETTINGS)
    again = measure_best_of_n([3], 9, tmp_path, candidates=3)
    assert all(np.array_equal(study.chosen[name], again.chosen[name]) for name in SETTINGS)
    assert "| any-edit, nothing given |" in markdown(OpenStudy([]), study)


# -- what SceneEdit's experts see of these pictures -------------------------------------------------------------------

PAIRS = 5


@cache
def pairs(look, count=PAIRS):
    return [open_edits.open_pair(seeded_rng("train", 8, f"looks {look}", number), look, "x") for number in range(count)]


@cache
def change(source, edited):
    """One for a pair: what it has found out about the two pictures, it keeps."""
    return PictureChange(source.pixels, edited.pixels, detect_objects(source.pixels))


def change_of(case):
    return change(case.sample.source, case.sample.edited)


@pytest.mark.parametrize(
    "look", [look for look in CHANGES if look not in ("red light", "fog", "pencil drawing", "snowfall", "upside down")]
)
def test_a_change_is_seen_where_it_was_made_and_nowhere_else(look):
    assert sum(change_of(honest).probability(look) >= 0.5 for honest, _ in pairs(look)) >= PAIRS - 1
    for honest, flawed in pairs(look):
        if flawed.flaw in ("copy", "redrawn", "too weak", "wrong look", "half of the picture"):
            assert change_of(flawed).probability(look) < 0.5, flawed.flaw
        seen = change_of(honest)
        assert max(seen.probability(one) for one in CHANGES if one != look) * seen.same_content < 0.5, look


@pytest.mark.parametrize("look", ["night", "sepia", "black and white", "pixel art", "rain", "blur", "deblur"])
def test_a_look_is_there_after_the_edit_and_the_content_as_before_unless_an_object_is_gone(look):
    if look in SEEN_LOOKS and look not in ("blur", "deblur"):
        assert sum(SEEN_LOOKS[look](honest.sample.edited.pixels) >= 0.5 for honest, _ in pairs(look)) >= PAIRS - 1
        assert sum(SEEN_LOOKS[look](honest.sample.source.pixels) >= 0.5 for honest, _ in pairs(look)) <= 1
    assert sum(change_of(honest).same_content >= 0.5 for honest, _ in pairs(look)) >= PAIRS - 1
    spoiled = [flawed for _, flawed in pairs(look, 12) if flawed.flaw in ("object lost", "object moved")]
    assert sum(change_of(case).same_content >= 0.5 for case in spoiled) <= max(1, len(spoiled) // 6)


def test_blur_and_the_window_of_a_crop_are_found_and_equal_pictures_have_no_change():
    for honest, _ in pairs("blur"):
        before, after = honest.sample.source.pixels, honest.sample.edited.pixels
        assert is_blurred(before, detect_objects(before)) < 0.2
        assert is_blurred(after, detect_objects(after)) > 0.5
        same = PictureChange(before, before, detect_objects(before))
        assert (same.same_content, max(same.probability(name) for name in CHANGES) < 0.1) == (1.0, True)
    for number in range(PAIRS):
        honest, _ = open_edits.open_pair(seeded_rng("train", 9, "windows", number), "crop", "x")
        window, source, edited = change_of(honest).window, honest.sample.source, honest.sample.edited
        width, height = round(source.width * window.w), round(source.height * window.h)
        left, top = max(0, round(source.width * window.x0)), max(0, round(source.height * window.y0))
        cut = source.crop(left, top, left + width, top + height).resized(*edited.size)
        assert np.abs(cut.pixels.astype(float) - edited.pixels).mean() < 15


@cache
def judge():
    return scene_experts()["judge"]


def sample_of(look):
    honest, _ = open_edits.open_pair(seeded_rng("train", 12, f"judge {look}", 0), look, "x")
    return honest.sample


def ask(topic, images, form=None, **slots):
    query = Judge((Message((*images, "see the slots")),), form or YesNo(), f"any-edit/{topic}", tuple(slots.items()))
    (answer,) = judge()([query])
    return answer


def yes(topic, images, question):
    return ask(topic, images, question=question).probabilities["yes"]


@pytest.mark.parametrize(
    ("kind", "type_", "words", "value"),
    [
        ("night", "weather", "Make it night", "night"),
        ("sepia", "filter", "Apply a sepia filter", "sepia"),
        ("pixel art", "style", "Turn the image into pixel art", "pixel art"),
        ("rain", "weather", "Add rain to the scene", "rain"),
        ("deblur", "restoration", "Remove the blur", ""),
        ("mirror", "other", "Flip the image horizontally", ""),
    ],
)
def test_the_judge_answers_every_question_of_a_plan_as_expected(kind, type_, words, value):
    sample = sample_of(kind)
    for question in with_questions(whole(type_, words, value=value)).operations[0].questions:
        images = (sample.source, sample.edited) if question.view == "pair" else (sample.edited,)
        before = (sample.source,) * len(images)
        assert (yes(question.view, before, question.text) >= 0.5) == (question.before == "yes"), question.text
        assert (yes(question.view, images, question.text) >= 0.5) == (question.after == "yes"), question.text


def test_a_listed_difference_belongs_to_the_operation_about_what_changed():
    def differences(images, operations):
        form = Json.from_schema({"type": "object"})
        return json.loads(ask("differences", images, form, operations=operations).text)["differences"]

    sample, operations = sample_of("rain"), "1. Make it rain\n2. Turn the image into pixel art"
    assert [entry["operation"] for entry in differences((sample.source, sample.edited), operations)] == [1]
    assert differences((sample.source,) * 2, operations) == []
    honest, _ = open_edits.open_pair(seeded_rng("train", 12, "judge object", 3), "scene phrase", "x")
    words = honest.sample.instruction
    listed = differences((honest.sample.source, honest.sample.edited), f"1. {words}")
    assert {"what": words, "operation": 1} in listed


def test_the_judge_says_what_a_picture_shows_and_nothing_of_words_that_it_does_not_know():
    scene = plain_scene(random.Random(3), CONFIG)
    for obj in scene.objects:
        assert yes("edited", (render(scene),), f"Does the picture show this: {obj.colour} {obj.shape}?") > 0.5
    missing = next(shape for shape in SHAPES if all(obj.shape != shape for obj in scene.objects))
    assert yes("edited", (render(scene),), f"Does the picture show this: {missing}?") < 0.5
    night, sepia = sample_of("night"), sample_of("sepia")
    question = "Does the second picture show this change against the first one: Make it night?"
    assert (
        yes("pair", (night.source, night.edited), question) > 0.5 > yes("pair", (sepia.source, sepia.edited), question)
    )
    for topic, question in (
        ("edited", "Does the whole picture have this look: a cubist painting?"),
        ("pair", "Does the second picture show this change against the first one: make the dog older?"),
        ("crop", "Is this true of the dog: wet?"),
    ):
        images = (night.source, night.edited) if topic == "pair" else (night.edited,)
        assert isinstance(ask(topic, images, question=question), Abstention)
