"""The training of the tiny editor: what it is trained on and tried on, its rewards, and the command from end to end."""

import json
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import held_out_prompts
from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
from editcritic.benchmarks.sceneedit.trials import request_sample, without_annotations
from editcritic.reward import Image, Reward
from editcritic.reward.planners.rule_planner import RulePlanner
from studies.learning import editor_worker
from studies.learning.editor_report import gain_interval, plot, summary
from studies.learning.editor_study import main
from studies.learning.editor_tasks import HELD_OUT_SEED_OFFSET, NOTHING_GIVEN, REWARDS, TrainingEdits, evaluate_held_out

NEEDS = ("torch",)


@pytest.fixture(scope="module")
def pipeline():
    return load_pretrained()


def test_lessons_are_the_same_every_time_and_others_for_another_seed():
    one, again, other = TrainingEdits(0), TrainingEdits(0), TrainingEdits(1)
    assert [one[number].group for number in range(4)] == [again[number].group for number in range(4)]
    assert one[0].group != other[0].group
    assert one[0].source == one[0].edited


def test_lessons_are_of_the_types_that_are_asked_for():
    lessons = TrainingEdits(0, task_types=("color_alter", "subject_remove"))
    assert [lessons.scene_request(number)[1].task.type for number in range(3)] == [
        "color_alter",
        "subject_remove",
        "color_alter",
    ]
    before, request = lessons.scene_request(1)
    assert lessons[1].instruction == request.instruction
    assert lessons[1].source.digest == render(before).digest


def test_what_is_held_out_is_no_lesson():
    taught = {TrainingEdits(0)[number].source.digest for number in range(60)}
    assert not taught & {render(prompt.before).digest for prompt in held_out_prompts(60, HELD_OUT_SEED_OFFSET)}


def test_prompts_are_shared_out_among_processes(pipeline):
    whole = evaluate_held_out(pipeline, 4, 2, HELD_OUT_SEED_OFFSET)
    parts = [evaluate_held_out(pipeline, 4, 2, HELD_OUT_SEED_OFFSET, shard=part, shard_count=2) for part in range(2)]
    assert whole.followed.shape == (4, 2)
    for name in ("followed", "unchanged", "hacked"):
        rows = [getattr(part, name) for part in parts]
        assert np.allclose(np.stack(rows, axis=1).reshape(4, 2), getattr(whole, name))


def test_a_copy_wins_without_guards_and_is_rejected_with_them():
    prompt = held_out_prompts(9, HELD_OUT_SEED_OFFSET)[5]
    copied = request_sample("copy", prompt.request, prompt.before)
    edited = replace(copied, edited=render(prompt.request.apply(prompt.before)))
    scores = {name: Reward(make(), scene_experts())([copied, edited]) for name, make in REWARDS.items()}
    copy, edit = (score.value or 0.0 for score in scores["hackable"])
    assert copy > edit > 0
    assert scores["guarded"][0].value == 0
    assert scores["guarded"][1].value == pytest.approx(edit)
    assert [score.value for score in scores["following"]] == [0, 1]


def test_noise_in_the_place_of_a_removal_pays_little_with_the_third_part_and_without():
    experts, rng = scene_experts() | {"planner": RulePlanner()}, np.random.default_rng(0)
    prompts = [prompt for prompt in held_out_prompts(45) if prompt.request.task.type == "subject_remove"]
    honest, filled = [], []
    for number, prompt in enumerate(prompts):
        source, clean = (render(scene).pixels for scene in (prompt.before, prompt.request.apply(prompt.before)))
        changed = np.abs(clean.astype(int) - source).max(axis=2, keepdims=True) > 16
        noise = np.where(changed, rng.integers(0, 256, clean.shape), clean).astype(np.uint8)
        sample = without_annotations(request_sample(str(number), prompt.request, prompt.before))
        honest.append(replace(sample, edited=Image.of(clean)))
        filled.append(replace(sample, edited=Image.of(noise)))
    both = [
        [score.value or 0.0 for score in Reward(REWARDS[name](), experts)([*honest, *filled])] for name in NOTHING_GIVEN
    ]
    assert both[0] == pytest.approx(both[1], abs=0.01)
    assert np.mean(both[0][: len(prompts)]) > 0.8
    assert np.median(both[0][len(prompts) :]) < 0.2


def run(reward="following", seed=0, rise=0.2, alarms=()):
    before, after = np.zeros((10, 2)), np.zeros((10, 2))
    before[:5], after[: int(10 * (0.5 + rise))] = 1, 1
    kept = {"unchanged": np.full((10, 2), 0.9).tolist(), "hacked": np.full((10, 2), 0.25).tolist()}
    log = [{"step": step, "reward": 0.5 + step / 100} for step in range(20)]
    log[9]["truth/followed"] = 0.6
    return {
        "seed": seed, "reward": reward, "cpu_minutes": 3.0, "log": log, "alarms": list(alarms),
        "before": {"followed": before.tolist(), **kept}, "after": {"followed": after.tolist(), **kept},
    }  # fmt: skip


def test_the_table_has_each_run_and_all_seeds_together(tmp_path):
    runs = [run(seed=0), run(seed=1, rise=0.0, alarms=[{"step": 7, "name": "saturation"}])]
    lines = list(summary(runs))
    assert "| following | 0 | 50.0 % | 70.0 % | +20.0" in lines[2]
    assert "saturation, step 7" in lines[3]
    assert "| 25.0 % | 25.0 % |" in lines[4]
    assert "| following | all | 50.0 % | 60.0 % | +10.0" in lines[4]
    assert len(list(summary([run("hackable"), run("guarded")]))) == 4
    plot(runs, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_the_interval_of_all_seeds_is_over_seeds_and_prompts():
    rng = np.random.default_rng(3)
    seeds_differ = rng.normal(size=(5, 1)) + np.zeros((5, 40))
    mean, low, high = gain_interval(seeds_differ)
    assert mean == pytest.approx(seeds_differ.mean())
    # More prompts, all alike within a seed, add no knowledge.
    assert (low, high) == pytest.approx(gain_interval(seeds_differ[:, :2])[1:])
    assert high - low == pytest.approx(2 * 1.96 * seeds_differ.std() / 5**0.5, rel=0.15)
    prompts_differ = rng.normal(size=(5, 40))
    _, low, high = gain_interval(prompts_differ)
    _, one_low, one_high = gain_interval(prompts_differ[:1])
    assert 2 * 1.96 / 200**0.5 < high - low < one_high - one_low
    assert np.isnan(gain_interval(np.zeros((2, 1)))[1:]).all()


@pytest.mark.slow
def test_the_command_trains_in_two_processes_and_does_not_train_twice(tmp_path, capsys):
    options = [
        "--seeds",
        "7",
        "--processes",
        "2",
        "--steps",
        "2",
        "--eval-steps",
        "1",
        "--prompts",
        "2",
        "--images",
        "2",
    ]
    main([*options, "--runs", str(tmp_path / "runs"), "--json", str(tmp_path / "all.json")])
    assert "| following | 7 |" in capsys.readouterr().out
    (run_json,) = json.loads((tmp_path / "all.json").read_text())
    assert run_json["settings"]["processes"] == 2
    assert [row["step"] for row in run_json["log"]] == [0, 1]
    assert all("truth/followed" in row for row in run_json["log"])
    assert np.array(run_json["after"]["followed"]).shape == (2, 2)
    written_at = (tmp_path / "runs" / "following-7.json").stat().st_mtime_ns
    main([*options, "--runs", str(tmp_path / "runs")])
    assert (tmp_path / "runs" / "following-7.json").stat().st_mtime_ns == written_at
    with pytest.raises(SystemExit, match="prompts was 2 and is 3"):
        main([*options, "--prompts", "3", "--runs", str(tmp_path / "runs")])


@pytest.mark.parametrize(
    ("setting", "message"), [("max_steps", "--set: "), ("leaps=3", "leaps"), ("groups=0", "at least 1")]
)
def test_a_run_refuses_settings_that_are_none_before_any_work(tmp_path, capsys, setting, message):
    options = ["--seed", "0", "--steps", "1", "--eval-steps", "1", "--prompts", "1", "--images", "1"]
    with pytest.raises(SystemExit) as ended:
        editor_worker.main([*options, "--out", str(tmp_path / "run.json"), "--set", setting])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_first_pictures_are_the_same_whoever_looks(pipeline):
    whole, first = (
        evaluate_held_out(pipeline, 2, 3, HELD_OUT_SEED_OFFSET),
        evaluate_held_out(pipeline, 2, 3, HELD_OUT_SEED_OFFSET, max_pictures=2),
    )
    assert np.array_equal(first.unchanged, whole.unchanged[:, :2])
