"""Studies of learning: the tiny editor, its gap and gradients, a judge's noise, and a writer."""

import random
from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import random_scene
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import (
    held_out_prompts,
    request_sample,
    without_annotations,
)
from editcritic.reward import Image, Reward
from editcritic.reward.planners.rule_planner import RulePlanner
from studies.learning import editor_gap, editor_study, judge_noise, writer_model, writer_study
from studies.learning.editor_gap import GROUP_SIZE, GroupOutcome, sampled_groups
from studies.learning.editor_study import gain_interval, plot, summary
from studies.learning.editor_worker import HELD_OUT_SEED_OFFSET, NOTHING_GIVEN, REWARDS, TrainingEdits
from studies.learning.gradients import cosine
from studies.learning.judge_noise import (
    FAILED_IS_ZERO,
    TREATMENTS,
    Worth,
    drawn_groups,
    measure,
    worth,
)
from studies.learning.writer_study import plot as plot_writer
from studies.learning.writer_study import table as writer_table

NEEDS = ("torch",)

# -- the tiny editor --------------------------------------------------------------------------------------------------


def test_lessons_are_the_same_for_a_seed_of_the_types_asked_for_and_nothing_held_out():
    one, again, other = TrainingEdits(0), TrainingEdits(0), TrainingEdits(1)
    assert [one[number].group for number in range(4)] == [again[number].group for number in range(4)]
    assert one[0].group != other[0].group
    assert one[0].source == one[0].edited
    lessons = TrainingEdits(0, task_types=("color_alter", "subject_remove"))
    types = [lessons.scene_request(number)[1].task.type for number in range(3)]
    assert types == ["color_alter", "subject_remove", "color_alter"]
    taught = {one[number].source.digest for number in range(60)}
    assert not taught & {render(prompt.before).digest for prompt in held_out_prompts(60, HELD_OUT_SEED_OFFSET)}


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
def test_the_command_trains_and_evaluates(capsys):
    sizes = ["--steps", "2", "--eval-steps", "1", "--prompts", "2", "--images", "2", "--seeds", "7"]
    editor_study.main(sizes)
    assert "| following | 7 |" in capsys.readouterr().out


def outcome(task_type, good, followed, targets):
    return GroupOutcome(task_type, np.array(good, bool), np.array(followed, bool), targets)


def test_shares_are_of_groups_and_of_images():
    some = [1, 1, *[0] * 14]
    targets = [0, 1, *[None] * 14], [0, 1, 0, 1, *[None] * 12]
    groups = [
        outcome("color_alter", some, [1, 0, 1, *[0] * 13], targets),
        outcome("text_change", [0] * 16, [0] * 16, ([None] * 16,) * 2),
    ]
    colour, text, both = (line.strip("| ").split(" | ") for line in list(editor_gap.table(groups))[2:])
    # one image of 16, half of the halves, the group; a judge's two good ones; one of two right, one of two found
    assert colour == ["color_alter", "12", "50", "100", "50", "100", "50", "50", "0", "12"]
    assert text[:6] == ["text_change", "0", "0", "0", "0", "0"]
    assert both[:6] == ["all", "6", "25", "50", "25", "50"]


def test_images_of_the_editor_are_judged_and_compared():
    (group,) = sampled_groups(1, 0)
    assert group.task_type == "subject_add"
    assert group.good.shape == group.followed.shape == (GROUP_SIZE,)
    for passed, targets in zip((group.good, group.followed), group.targets, strict=True):
        assert len(targets) == GROUP_SIZE
        assert all(passed[target] for target in targets if target is not None)


@pytest.mark.slow
def test_the_cosine_is_one_and_the_same_every_time():
    settings = {"objective": "nft", "num_noise_levels": 1}
    similarity = cosine(1, 3, settings)
    assert -1 <= similarity <= 1
    assert cosine(1, 3, settings) == similarity


# -- a judge's noise ---------------------------------------------------------------------------------------------------


def test_advantages_are_counted_by_groups_with_signal_and_without():
    truth = np.array([[0.0, 1.0], [0.0, 0.5], [0.5, 1.0], [0.9, 0.92], [0.0, 0.0]])
    values = np.array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [2.0, -2.0], [0.0, 0.0]])
    found = worth(values, truth)
    assert (found.against, found.lost) == (1 / 3, 1 / 3)
    assert (found.idle, found.idle_weight) == (1 / 2, 8 / 12)
    deviations = np.array([-0.5, 0.5, -0.25, 0.25, -0.25, 0.25, -0.01, 0.01, 0, 0])
    assert found.correlation == pytest.approx((values.ravel() @ deviations) / np.sqrt(12 * (deviations @ deviations)))
    assert worth(0 * values, truth) == Worth(0.0, 1.0, 0.0, 0.0, 0.0)


def test_a_measurement_has_the_noise_as_a_share_of_the_scale_and_all_treatments(tmp_path):
    groups = drawn_groups(5, 5, group_size=4)
    others = [group[0] for group in drawn_groups(8, 6, group_size=1)]
    found = measure(5, "noise 0.2", 1, groups, others)
    assert 0.05 < found.std < 0.25
    assert list(found.worth) == [FAILED_IS_ZERO, *TREATMENTS]
    assert found.worth["shrink"].idle_weight < found.worth["none"].idle_weight
    again = replace(found, seed=6)
    rows = list(judge_noise.table([found, again]))
    assert len(rows) == 2 + len(found.worth) + 1
    value = 100 * found.worth["shrink"].lost
    assert f"| shrink | {100 * found.worth['shrink'].against:.1f} " in rows[2 + 2]
    assert f"| {value:.1f} ({value:.1f} to {value:.1f}) |" in rows[2 + 2]
    judge_noise.plot([found, again], tmp_path / "noise.png")
    assert (tmp_path / "noise.png").read_bytes().startswith(b"\x89PNG")


# -- a writer ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def judge():
    return writer_study.HeldOutEvaluator.of(writer_model.split_tasks(12, seed=3, split="test"))


def test_what_is_split_and_worded_rightly_is_done_and_rewarded(judge):
    look = judge.score_completions([task.target_completion for task in judge.tasks])
    assert sum(look.truths) > 11
    assert sum(value for value in look.rewards if value is not None) > 10
    assert set(look.lengths) == set(look.formats) == {1.0}


def test_words_that_the_editor_cannot_read_leave_the_source_and_are_scored(judge):
    look = judge.score_completions([task.instruction for task in judge.tasks])  # two steps a line
    assert look.rewards == look.truths == look.formats == (0.0,) * 12


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        *((line, False) for line in ("Surprise me", "Remove circle", "Add crimson star", 'Add text "wéé"')),
        ("Change the background to mars", False),
        ("Change the count of red star to 40", False),
        ("Remove red circle and remove blue star", False),
        (f"Remove {writer_model.SYNONYMS['red']} circle", False),
        ("Remove red heart", True),
        ("Change the color of red heart to blue", True),
        ("Replace red heart with blue heart", True),
        ("Change the count of red heart to 3", True),
        ("Add blue heart above red heart", True),
    ],
)
def test_what_is_no_instruction_or_about_nothing_there_changes_nothing(line, is_read):
    scene = random_scene(random.Random(0), writer_model.WRITER_SCENES)
    assert "red heart" not in scene.names
    assert (writer_model.parse_line(line) is not None) is is_read
    assert writer_model.apply_instruction(scene, line) == scene


@pytest.mark.slow
def test_the_study_runs_as_a_whole(tmp_path):
    work = writer_study.WriterSeedRun(
        0, held_out=6, warm_start_steps=4, steps=2, prompts=2, generations=2, evaluate_every=1
    )
    outcome = work.run()
    assert list(outcome.metrics_by_loop) == list(writer_study.LOOPS)
    for looks in outcome.metrics_by_loop.values():
        assert [look.step for look in looks] == [0, 1, 2]
        assert looks[0] == outcome.metrics_by_loop["reward"][0]
        assert all(len(look.rewards) == 6 for look in looks)
    assert len(list(writer_table([outcome]))) > 5
    plot_writer([outcome], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def looked(*rewards):
    return writer_study.HeldOutMetrics(0, rewards, tuple(value or 0.0 for value in rewards), (), ())


def test_the_lift_is_paired_and_leaves_out_what_is_unscored():
    looks = {loop: [looked(0.2, None, 0.5, 0.1), looked(0.6, 1.0, None, 0.3)] for loop in writer_study.LOOPS}
    outcomes = [writer_study.SeedResult(seed, looks, {}) for seed in range(3)]
    mean, low, high = writer_study.lift(outcomes, "reward")
    assert mean == pytest.approx(0.3)
    assert 0.2 <= low < mean < high <= 0.4
    assert writer_study.lift(outcomes, "reward", writer_study.truths)[0] == pytest.approx((0.4 + 1.0 - 0.5 + 0.2) / 4)
