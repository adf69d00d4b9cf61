"""`toy()`: the same tasks as in the studies, a light import, an editor and the truth."""

import subprocess
import sys

import pytest

from editcritic.benchmarks.sceneedit import toy
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import single_edit_trials
from editcritic.reward import Reward
from editcritic.reward.sample import TASK_TYPES


def test_importing_the_package_loads_no_module_of_it():
    script = (
        "import sys, editcritic.benchmarks.sceneedit as sceneedit\n"
        "loaded = [name for name in sys.modules if name.startswith(sceneedit.__name__ + '.')]\n"
        "assert not loaded and 'torch' not in sys.modules, loaded\n"
        "sceneedit.toy(1)\n"
        "assert 'diffusers' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(ImportError, match="nothing_here"):
        from editcritic.benchmarks.sceneedit import nothing_here  # noqa: F401


def test_samples_are_held_out_tasks_in_turn():
    samples = toy(9, seed=3).samples
    assert [sample.task and sample.task.type for sample in samples] == list(TASK_TYPES)
    assert samples == [trial.sample for trial in single_edit_trials(9, seed=3)]
    assert toy(2, seed=3).samples == samples[:2] != toy(2).samples


def test_tasks_choose_the_task_types():
    drawn = toy(tasks=["color_alter", "subject_remove"])
    assert [drawn.prompts[sample.id].request.task.type for sample in drawn.samples] == ["color_alter", "subject_remove"]
    assert all(sample.boxes and sample.pools is None for sample in drawn.samples)
    with pytest.raises(ValueError, match=r"unknown task types \['colour'\]: expected some of subject_add"):
        toy(tasks=["colour"])  # type: ignore[list-item]


def test_steps_make_a_compound():
    (sample,) = toy(steps=3, seed=5).samples
    assert len(sample.operations) == 3
    assert sample.operations[0].instruction in sample.instruction
    assert sample.boxes
    with pytest.raises(ValueError, match="not both"):
        toy(steps=2, tasks=["color_alter"])


def test_the_truth_knows_a_perfect_edit_from_a_copy():
    drawn = toy(9)
    for sample in drawn.samples:
        prompt = drawn.prompts[sample.id]
        assert drawn.truth(sample, render(prompt.request.apply(prompt.before))).followed
        assert not drawn.truth(sample, sample.source).followed
        assert drawn.truth(sample, sample.source).unchanged == 1.0


def test_experts_score_the_samples():
    drawn = toy(2)
    assert drawn.experts["judge"] is not drawn.experts["judge"]
    assert Reward.of("edit-balanced", drawn.experts)(drawn.samples).values == [0.0, 0.0]  # copies


def test_the_editor_edits():
    pytest.importorskip("diffusers")
    drawn = toy(1)
    (sample,) = drawn.samples
    assert drawn.editor is drawn.editor
    assert drawn.pipeline() is not drawn.pipeline()
    assert (drawn.weights / "model_index.json").is_file()
    (edit,) = drawn.editor.edit([(sample.source,)], [sample.instruction], [0])
    assert drawn.truth(sample, edit).unchanged > 0.5
