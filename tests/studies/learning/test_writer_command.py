"""A writer trained by TRL: the editor it writes for, its warm start, the controls, and the loop itself, a few steps."""

import itertools
import json
import random

import pytest

from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import random_scene
from editcritic.reward.bootstrap_intervals import bootstrap_interval, row_means
from studies.learning.rule_based_editor import WRITER_SCENES, RuleBasedEditor, apply_instruction, parse_line
from studies.learning.writer_model import (
    SYNONYMS,
    demonstrations,
    sample_completions,
    split_tasks,
    tokenizer,
    untrained_writer,
    warm_start,
)
from studies.learning.writer_report import figures, lift, plot, table, truths
from studies.learning.writer_study import (
    LOOPS,
    HeldOutEvaluator,
    HeldOutMetrics,
    SeedResult,
    WriterSeedRun,
    format_reward,
    length_reward,
)

NEEDS = ("torch",)


@pytest.fixture(scope="module")
def judge():
    return HeldOutEvaluator.of(split_tasks(12, seed=3, split="test"))


def test_what_is_split_and_worded_rightly_is_done_and_rewarded(judge):
    look = judge.score_completions([task.target_completion for task in judge.tasks])
    assert sum(look.truths) > 11
    assert sum(value for value in look.rewards if value is not None) > 10
    assert set(look.lengths) == set(look.formats) == {1.0}


def test_words_that_the_editor_cannot_read_leave_the_source_and_are_scored(judge):
    look = judge.score_completions([task.instruction for task in judge.tasks])  # two steps a line
    assert look.rewards == look.truths == look.formats == (0.0,) * 12


def test_second_names_are_not_what_the_editor_knows():
    line = "Remove red circle"
    assert parse_line(line) is not None
    for word in line.split()[1:]:
        assert parse_line(line.replace(word, SYNONYMS[word])) is None


@pytest.mark.parametrize(
    "line",
    [
        "Surprise me",
        "Remove circle",
        "Add crimson star",
        "Change the background to mars",
        "Change the count of red star to 40",
        'Add text "wéé"',
        "Remove red circle and remove blue star",
    ],
)
def test_what_is_no_instruction_of_this_world_changes_nothing(line):
    scene = random_scene(random.Random(0), WRITER_SCENES)
    assert parse_line(line) is None
    assert apply_instruction(scene, line) == scene


def test_what_is_not_there_cannot_be_changed():
    scene = random_scene(random.Random(0), WRITER_SCENES)
    assert "red heart" not in scene.names
    for line in (
        "Remove red heart",
        "Change the color of red heart to blue",
        "Change the material of red heart to wood",
        "Replace red heart with blue heart",
        "Change the count of red heart to 3",
        f"Change the position of red heart to the left of {scene.names[0]}",
        "Add blue heart above red heart",
    ):
        assert parse_line(line) is not None
        assert apply_instruction(scene, line) == scene


def test_the_editor_draws_the_same_twice_and_knows_no_strange_pictures():
    scene, other = (random_scene(random.Random(seed), WRITER_SCENES) for seed in range(2))
    hand, line = RuleBasedEditor([scene]), 'Add text "HOT"'
    source = render(scene)
    (first,), (second,) = (hand.edit([(source,)], [line], [seed]) for seed in range(2))
    assert first == second != source
    with pytest.raises(KeyError):
        hand.edit([(render(other),)], [line], [0])


def test_splits_seeds_and_lessons_share_no_compound():
    prompts = [
        {task.prompt for task in split_tasks(30, seed=seed, split=split)}
        for seed in range(2)
        for split in ("train", "test")
    ]
    prompts.append({prompt for prompt, _ in itertools.islice(demonstrations(30, seed=0), 30)})
    assert len(set().union(*prompts)) == 150


def test_the_teacher_guesses_what_second_names_mean():
    examples = list(itertools.islice(demonstrations(50, seed=0), 1000))
    assert not set(SYNONYMS.values()) & set(" ".join(completion for _, completion in examples).split())
    for word, wrong in (("red", "orange"), ("heart", "circle")):
        completions = [
            completion
            for prompt, completion in examples
            if SYNONYMS[word] in prompt and word not in prompt and wrong not in prompt
        ]
        right = sum(word in completion for completion in completions)
        assert 0.3 < right / len(completions) < 0.6


def test_the_writer_has_a_word_for_everything():
    words = tokenizer()
    for task in split_tasks(60, seed=0, split="train"):
        for text in (task.prompt, task.target_completion):
            assert words.unk_token_id not in words(text)["input_ids"]
        decoded = words.decode(words(task.target_completion)["input_ids"])
        assert [line.strip() for line in decoded.splitlines()] == task.target_completion.splitlines()


def test_controls_look_at_words_only():
    targets = ["Remove red circle\nAdd blue star"] * 4
    completions = ["Add pink heart\nRemove teal ring", "Remove red circle", "", "Remove red circle\nMake it nice now"]
    assert length_reward([""] * 4, completions, split=targets) == [1.0, 0.5, 0.0, pytest.approx(5 / 6)]
    assert format_reward([""] * 4, completions) == [1.0, 1.0, 0.0, 0.5]


def test_a_warm_start_teaches_and_differs_between_seeds():
    words = tokenizer()
    models = [untrained_writer(words, seed) for seed in range(2)]
    losses = [warm_start(model, words, seed=seed, steps=12, batch=8) for seed, model in enumerate(models)]
    assert all(one[-1] < 0.8 * one[0] for one in losses)
    assert losses[0] != losses[1]
    prompts = [task.prompt for task in split_tasks(4, seed=0, split="test")]
    assert sample_completions(models[0], words, prompts, seed=1) == sample_completions(
        models[0], words, prompts, seed=1
    )


@pytest.mark.slow
def test_the_study_runs_as_a_whole(tmp_path):
    work = WriterSeedRun(0, held_out=6, warm_start_steps=4, steps=2, prompts=2, generations=2, evaluate_every=1)
    outcome = work.run()
    assert list(outcome.metrics_by_loop) == list(LOOPS)
    for looks in outcome.metrics_by_loop.values():
        assert [look.step for look in looks] == [0, 1, 2]
        assert looks[0] == outcome.metrics_by_loop["reward"][0]
        assert all(len(look.rewards) == 6 for look in looks)
    assert len(list(table([outcome]))) > 5
    assert json.loads(json.dumps(figures([outcome])))["seeds"][0]["curves"]["format"]["step"] == [0, 1, 2]
    plot([outcome], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def looked(*rewards):
    return HeldOutMetrics(0, rewards, tuple(value or 0.0 for value in rewards), (), ())


def test_the_lift_is_paired_and_leaves_out_what_is_unscored():
    looks = {loop: [looked(0.2, None, 0.5, 0.1), looked(0.6, 1.0, None, 0.3)] for loop in LOOPS}
    outcomes = [SeedResult(seed, looks, {}) for seed in range(3)]
    mean, low, high = lift(outcomes, "reward")
    assert mean == pytest.approx(0.3)
    assert 0.2 <= low < mean < high <= 0.4
    assert lift(outcomes, "reward", truths)[0] == pytest.approx((0.4 + 1.0 - 0.5 + 0.2) / 4)


def test_the_interval_of_a_lift_is_over_seeds_and_over_their_compounds():
    def results(*gains):
        looks = [{loop: [looked(*[0.0] * 8), looked(*gain)] for loop in LOOPS} for gain in gains]
        return [SeedResult(seed, metrics, {}) for seed, metrics in enumerate(looks)]

    spread = [0.0, 1.0] * 4
    assert lift(results([0.0] * 8, [1.0] * 8), "reward") == (0.5, 0.0, 1.0)
    assert lift(results(spread), "reward")[1:] == pytest.approx(bootstrap_interval(row_means, spread), abs=0.13)
    assert lift(results(spread, spread), "reward")[1] > lift(results(spread), "reward")[1] > 0
