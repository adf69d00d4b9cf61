"""What SceneJudge makes of edits, through the metrics that ask it: right ones, copies, wrong ones, worse and worse."""

import random
from dataclasses import replace
from statistics import fmean

import pytest

from editcritic.benchmarks.sceneedit.cases import Case, case_of, cases, drift_series, random_scene_request
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.failure_modes import failure_mode
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.scene_graph import Backdrop, Scene, SceneObject
from editcritic.benchmarks.sceneedit.scene_requests import SceneRequest
from editcritic.benchmarks.sceneedit.simulated_edits import SimulatedEdit, honest_edit
from editcritic.reward import EditSample, Reward
from editcritic.reward.sample import TASK_TYPES, Task
from studies.validity.metric_selection import spearman

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
    "judge-yes-no",
    "judge-levels",
    "i2i-instruction-following",
    "dlebench-if?mode=plain",
    "dlebench-if?mode=tools",
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
