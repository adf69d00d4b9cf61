"""What samples say beside their images: targets, letters, hints, dimensions, a perfect edit."""

from functools import cache

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.render import render
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS


@cache
def single_edits():
    return cases(90)


@cache
def compounds():
    return compound_cases(16)


@cache
def composed():
    return composition_cases(60)


def test_every_dimension_of_i2i_bench_has_cases_and_every_name_is_one_of_its():
    single = {name for case in (*single_edits(), *compounds()) for name in case.sample.dimensions or ()}
    assert single == {name for name, dimension in DIMENSIONS.items() if not dimension.multi}
    several = {f"multi-{name}" for case in composed() for name in case.sample.dimensions or ()}
    assert several == {name for name, dimension in DIMENSIONS.items() if dimension.multi}


def test_targets_are_the_things_a_request_is_about():
    for case in single_edits():
        task, boxes = case.sample.task, case.sample.targets
        assert task is not None
        assert case.before is not None
        if task.type == "background_change" or (task.type == "subject_add" and task.position is None):
            assert boxes == ()
        if task.type in ("subject_remove", "color_alter", "material_alter", "subject_replace"):
            assert boxes == tuple(obj.box for obj in case.before.named(task.object or ""))
        assert all(0 <= box.cx <= 1 and 0 <= box.cy <= 1 for box in boxes)


def test_the_reference_is_a_perfect_edit():
    for case in single_edits():
        assert case.sample.reference is not None
        assert case.sample.reference.size == case.sample.source.size
        assert case.before is not None
        assert case.sample.reference != render(case.before)


def test_text_and_hint_say_what_is_to_be_seen():
    for case in single_edits():
        task = case.sample.task
        assert task is not None
        assert case.sample.target_text == (task.text or "")
        assert case.sample.hint.endswith(".")
    assert any(case.sample.target_text for case in composed())


def test_compounds_have_an_operation_a_step_and_a_hint_for_each():
    for case in compounds():
        sample = case.sample
        assert len(sample.operations) == len(case.steps_followed)
        assert all(operation.name and operation.task for operation in sample.operations)
        assert len(sample.hint.split(". ")) >= len(sample.operations)
        assert sample.pools is not None
