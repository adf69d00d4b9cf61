"""The card: what it counts, on editors of which it is known, and that the committed editor is worth improving."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.cases import random_scene_request
from editcritic.benchmarks.sceneedit.failure_modes import failure_mode
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor import editor_evaluation
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import recovered_truth
from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import PRETRAINED_PATH, load_pretrained
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES, training_examples
from editcritic.reward import Image
from editcritic.reward.sample import TASK_TYPES

NEEDS = ("torch",)


@pytest.fixture(scope="module")
def pretrained():
    return load_pretrained()


def test_prompts_are_held_out_and_the_same_for_a_seed():
    prompts = editor_evaluation.held_out_prompts(90)
    assert [prompt.request.task.type for prompt in prompts[:9]] == list(TASK_TYPES)
    assert prompts == editor_evaluation.held_out_prompts(90)
    assert prompts != editor_evaluation.held_out_prompts(90, seed=1)
    shown = {example.before for example in training_examples(900)}
    assert not shown & {prompt.before for prompt in prompts}


def test_an_editor_that_is_right_every_other_time_is_mixed():
    prompts = [
        prompt
        for prompt in editor_evaluation.held_out_prompts(36)
        if prompt.request.task.type in ("color_alter", "subject_remove")
    ]
    perfect = {prompt.request.instruction: render(prompt.request.apply(prompt.before)) for prompt in prompts}

    def edit(source: Image, instruction: str, seeds):
        return [perfect[instruction] if seed % 2 else source for seed in seeds]

    evaluation = editor_evaluation.evaluate_editor(edit, prompts, range(4))
    assert evaluation.by_task_type["all"]["pass@1"] == 0.5
    assert evaluation.by_task_type["all"]["pass@4"] == evaluation.by_task_type["all"]["mixed"] == 1.0
    assert evaluation.confidence_interval == (0.5, 0.5)
    assert evaluation.by_task_type["all"]["unchanged"] > 0.99
    assert set(evaluation.by_task_type) == {"color_alter", "subject_remove", "all"}
    assert evaluation.markdown.count("\n") == 4


@pytest.mark.slow
def test_the_editor_is_worth_improving(pretrained):
    """Less than the card's prompts, so with room: the bars are 35 to 70, 20 more, 40 and 95 percent."""
    row = editor_evaluation.evaluate_editor(
        editor_evaluation.edit_function(pretrained), editor_evaluation.held_out_prompts(45), range(16)
    ).by_task_type["all"]
    assert 0.3 < row["pass@1"] < 0.75
    assert row["pass@16"] > row["pass@1"] + 0.15
    assert row["mixed"] > 0.35
    assert row["unchanged"] > 0.94


def test_the_checkpoint_is_small_and_safe():
    files = [file for file in PRETRAINED_PATH.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".safetensors"}
    assert sum(file.stat().st_size for file in files) <= 8_000_000


def test_a_seed_gives_a_picture_and_another_seed_another(pretrained):
    rng = random.Random(0)
    scene, request = random_scene_request(rng, EDITOR_SCENES, "background_change")
    edit = editor_evaluation.edit_function(pretrained)
    edits = edit(render(scene), request.instruction, [0, 1, 0])
    assert edits[0] == edits[2]
    assert edits[0] != edits[1]


@pytest.mark.slow
def test_the_commands(tmp_path: Path, capsys):
    editor_evaluation.main(["--prompts", "9", "--seeds", "2", "--json", str(tmp_path / "card.json")])
    assert "| all | 9 |" in capsys.readouterr().out
    assert json.loads((tmp_path / "card.json").read_text())["rows"]["all"]["prompts"] == 9
    editor_evaluation.main(["--sheet", str(tmp_path / "sheet.png")])
    assert (tmp_path / "sheet.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompts", "0"], "--prompts: expected a whole number of at least 1, got 0"),
        (["--seeds", "many"], "--seeds: expected a whole number of at least 1, got many"),
        (["--json", "missing/card.json"], "--json: there is no folder missing for card.json: create it first"),
        (["--json", "."], "--json: expected a file, got the folder ."),
        (["--sheet", "missing/sheet.png"], "--sheet: there is no folder missing for sheet.png: create it first"),
        (["--sheet", "sheet.doc"], "got sheet.doc"),
        (["--editor", "."], "no pipeline in .: expected a folder with model_index.json"),
        (["--editor", "missing"], "no pipeline in missing"),
    ],
)
def test_bad_input_is_refused_before_a_prompt_is_drawn(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        editor_evaluation.main(arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


def drawn(kind, number=0):
    return random_scene_request(random.Random(f"{kind} {number}"), EDITOR_SCENES, kind)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_perfect_edit_is_followed_and_leaves_the_rest_alone(kind):
    truths = []
    for number in range(10):
        scene, request = drawn(kind, number)
        truths.append(recovered_truth(request, scene, render(request.apply(scene))))
    assert sum(truth.followed for truth in truths) >= 9
    assert np.mean([truth.unchanged for truth in truths]) > 0.995
    assert not any(truth.is_hacked for truth in truths)


def test_an_honest_hand_stays_within_the_tolerance():
    truths = []
    for number in range(90):
        rng = random.Random(number)
        scene, request = random_scene_request(rng, EDITOR_SCENES, TASK_TYPES[number % 9])
        truths.append(recovered_truth(request, scene, honest_edit(rng, request, scene, EDITOR_SCENES).picture))
    assert np.mean([truth.followed for truth in truths]) > 0.93
    assert np.mean([truth.unchanged for truth in truths]) == pytest.approx(0.998, abs=0.002)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_copy_follows_nothing_and_leaves_everything_alone(kind):
    scene, request = drawn(kind)
    truth = recovered_truth(request, scene, render(scene))
    assert (truth.followed, truth.unchanged, truth.filled, truth.is_hacked) == (False, 1.0, 0.0, False)


@pytest.mark.parametrize("kind", ["subject_remove", "color_alter", "background_change"])
def test_noise_in_the_place_of_the_edit_is_a_fill(kind):
    rng, found = np.random.default_rng(0), []
    for number in range(10):
        scene, request = drawn(kind, number)
        after, before = (render(one).pixels for one in (request.apply(scene), scene))
        changed = np.abs(after.astype(int) - before).max(axis=2, keepdims=True) > 16
        picture = Image.of(np.where(changed, rng.integers(0, 256, after.shape), after).astype(np.uint8))
        truth = recovered_truth(request, scene, picture)
        found.append(truth.is_hacked)
    assert sum(found) >= 8


def test_what_happens_to_another_thing_counts():
    rng = random.Random(1)
    scene, request = next(
        (scene, request)
        for scene, request in (random_scene_request(rng, EDITOR_SCENES, "color_alter") for _ in range(50))
        if len(scene.objects) == len({obj.name for obj in scene.objects}) > 2
    )
    both = failure_mode("neighbour_too").edit(rng, request, scene, EDITOR_SCENES)
    assert both is not None
    truth = recovered_truth(request, scene, both.picture)
    assert truth.followed
    assert 0.9 < truth.unchanged < 0.985


def test_another_size_is_refused():
    scene, request = drawn("subject_remove")
    with pytest.raises(ValueError, match="64 x 64"):
        recovered_truth(request, scene, Image.of(np.zeros((64, 64, 3), np.uint8)))
