"""Sentences about objects: what they ask for can be done, and the plan made by hand says so."""

import random
from functools import cache

import pytest

from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.reward.metrics.any_edit.plans import plan_problems
from editcritic.reward.planners.rule_planner import RulePlanner
from studies.open_language.open_edits import step_followed
from studies.open_language.open_requests import OBJECT_REQUEST_KINDS, random_object_request
from studies.open_language.study import same_plan

CONFIG = SceneConfig.for_size(96)


@cache
def requests(kind, count, first=0):
    return [
        random_object_request(random.Random(f"{kind} {seed}"), CONFIG, kind) for seed in range(first, first + count)
    ]


@pytest.mark.parametrize("kind", OBJECT_REQUEST_KINDS)
def test_a_perfect_edit_follows_every_step_and_a_copy_none(kind):
    for request in requests(kind, 8):
        scenes = request.scenes
        for step, before in zip(request.steps, scenes, strict=False):
            assert step_followed(step, before, scenes[-1]), request.sentence
        assert not all(step_followed(step, request.before, request.before) for step in request.steps), request.sentence


@pytest.mark.parametrize("kind", OBJECT_REQUEST_KINDS)
def test_the_plan_by_hand_is_accepted_and_has_an_operation_for_each_step(kind):
    for request in requests(kind, 8):
        assert plan_problems(request.plan, request.sentence) == (), request.sentence
        assert [operation.type for operation in request.plan.operations] == [step.task.type for step in request.steps]
        for operation in request.plan.operations:
            assert operation.words.casefold() in request.sentence.casefold()


@pytest.mark.parametrize("kind", OBJECT_REQUEST_KINDS)
def test_what_is_kept_is_named_and_no_step_is_about_it(kind):
    for request in requests(kind, 8):
        assert bool(request.kept_ids) == (kind == "keep")
        assert len(request.plan.keep) == len(request.kept_ids)
        assert not set(request.kept_ids) & request.affected_ids


@pytest.mark.parametrize("kind", OBJECT_REQUEST_KINDS)
def test_the_rules_read_what_its_author_meant(kind):
    planner = RulePlanner()
    cases = requests(kind, 30, first=100)
    plans = [planner.plan(request.sentence) for request in cases]
    misread = [
        request.sentence
        for request, plan in zip(cases, plans, strict=True)
        if plan is not None and not same_plan(plan, request.plan)
    ]
    unread = [request.sentence for request, plan in zip(cases, plans, strict=True) if plan is None]
    assert len(misread) <= 0.05 * len(cases), misread
    assert len(unread) <= 0.1 * len(cases), unread


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="unknown kind of request 'riddle': expected one of place, size"):
        random_object_request(random.Random(0), CONFIG, "riddle")  # type: ignore[arg-type]
