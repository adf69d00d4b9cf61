"""Wrong plans are wrong, seeded by sample, and may be hidden from the validator."""

from __future__ import annotations

import random
from functools import cache

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.reward import EditSample, Image
from editcritic.reward.metrics.any_edit.plans import plan_of_task, plan_problems
from editcritic.reward.metrics.edival.task_parser import parse_task
from studies.any_edit.robustness import CORRUPTIONS, annotated_plan, sentence_of, with_wrong_plans, wrong_plan


@cache
def scenes():
    """Samples, and the objects in the source of each."""
    seen = [case for case in cases(60, seed=3) if case.before is not None]
    return [case.sample for case in seen], [case.before.names for case in seen if case.before is not None]


def corrupted(level, **options):
    samples, objects = scenes()
    return with_wrong_plans(samples, objects, level, 5, **options)


def test_every_plan_can_be_wrong():
    for sample, names in zip(*scenes(), strict=True):
        plan = annotated_plan(sample)
        assert all(wrong_plan(random.Random(seed), plan, names) != plan for seed in range(5))


def test_a_lower_level_is_part_of_a_higher_one():
    levels = {level: corrupted(level) for level in (0.0, 0.1, 0.4)}
    right = [sample.plan for sample in levels[0.0][0]]
    assert levels[0.0][1] == 0
    few, many = (
        {n: sample.plan for n, sample in enumerate(levels[level][0]) if sample.plan != right[n]} for level in (0.1, 0.4)
    )
    assert 0 < len(few) == levels[0.1][1] < len(many)
    assert few.items() <= many.items()


def test_an_unnoticed_wrong_plan_has_an_instruction_that_it_accounts_for():
    samples, wrong = corrupted(1.0, unnoticed=True)
    assert wrong == len(samples)
    plans = [(sample.plan, sample.instruction) for sample in samples if sample.plan is not None]
    assert sum(bool(plan_problems(plan, sentence)) for plan, sentence in plans) <= 0.05 * len(samples)
    assert [sample.group for sample in samples] == [sample.group for sample in scenes()[0]]


def test_sentences_of_plans_are_edival_forms():
    for sample in scenes()[0]:
        task = parse_task(sentence_of(annotated_plan(sample)))
        assert task is not None
        assert sample.task is not None
        assert task.type == sample.task.type


def test_operations_and_kept_objects_can_be_left_out():
    two = "Change the background to snow, remain the red circle, blue square unchanged"
    task = parse_task(two)
    assert task is not None
    plan = plan_of_task(task, two)
    shorter = CORRUPTIONS["a kept object dropped"](random.Random(0), plan, ())
    assert shorter is not None
    assert len(shorter.keep) == 1
    assert CORRUPTIONS["a missing operation"](random.Random(0), plan, ()) is None


def test_a_sample_without_annotations_has_no_plan():
    image = Image.of(scenes()[0][0].source)
    with pytest.raises(ValueError, match="no plan"):
        annotated_plan(EditSample("x", "Remove it", (image,), image))
