"""The study of `any-edit`: statistics of a pool, wrong plans, the search against a reward, counts, and a small run."""

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.sceneedit.cases import Case, cases, random_scene_request
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from editcritic.reward.metrics.any_edit.plans import plan_of_task, plan_problems
from editcritic.reward.metrics.edival.task_parser import parse_task
from studies import five_editors
from studies.any_edit import __main__ as study
from studies.any_edit.attack_recipes import (
    FILTERS,
    PERFECT,
    SOURCE,
    Darkroom,
    Layer,
    Recipe,
    mutated,
    random_recipe,
    write_text,
)
from studies.any_edit.attack_search import AttackPlan, search
from studies.any_edit.bars import ROLLOUTS, count_queries
from studies.any_edit.pool import ANY_EDIT, EditScore, PoolEdit, PoolScores, statuses
from studies.any_edit.robustness import CORRUPTIONS, annotated_plan, sentence_of, with_wrong_plans, wrong_plan

(CASE,) = cases(1, seed=1, size=32)


def edit(editor, prompt, followed, unchanged):
    case = Case(CASE.sample, GroundTruth(followed, None, unchanged), "subject_add")
    return PoolEdit(editor, prompt, case, unchanged)


def score(value, *, following=None, preservation=None, rejected=False):
    return EditScore(value, "abstained" if value is None else "scored", rejected, following, preservation, "")


EDITS = [
    edit("a", "1/0", True, 1.0),
    edit("b", "1/0", True, 0.5),
    edit("c", "1/0", False, 1.0),
    edit("a", "2/0", True, 0.9),
    edit("b", "2/0", False, 0.8),
    edit("c", "2/0", True, 0.4),
]


def test_values_in_the_order_of_the_truth_agree_and_an_editor_above_a_better_one_is_named():
    scores = PoolScores(EDITS, [score(one.worth) for one in EDITS])
    values = scores.values()
    assert scores.spearman(values).value == pytest.approx(1.0)
    assert (scores.pair_order(values).value, scores.editor_tau(values).value) == (1.0, 1.0)
    assert scores.inversions(values) == []
    assert ("b", "a") in scores.inversions([0.2, 0.4, 0.1, 0.2, 0.4, 0.1])
    assert [one.prompt for one in scores.of_seed(2).edits] == ["2/0"] * 3


def test_a_tie_is_half_a_pair_and_what_has_no_value_counts_as_the_lowest():
    scores = PoolScores(EDITS[:3], [score(1.0), score(1.0), score(0.0)])
    order = scores.pair_order(scores.values())
    assert order.value == pytest.approx(2.5 / 3)
    assert order.count == 3
    assert scores.pair_order(scores.values(), margin=0.5).count == 1  # more than the margin, not as much
    followed = scores.pair_order(scores.values(), followed_only=True)
    assert (followed.value, followed.count) == (0.5, 1)
    scores = PoolScores(EDITS[:3], [score(None), score(0.5), score(0.2)])
    assert scores.pair_order(scores.values()).value == pytest.approx(1 / 3)


def test_true_parts_replace_one_part_at_a_time():
    both = score(0.3, following=0.6, preservation=0.5)
    scores = PoolScores(EDITS[:3], [both, score(0.0, rejected=True), score(None)])
    assert scores.with_true_following() == [0.5, 0.0, 0.0]
    assert scores.with_true_preservation() == [1.0, 0.0, 0.0]
    assert statuses(scores.scores) == {"scored": 1, "rejected": 1, "abstained": 1, "failed": 0, "not_applicable": 0}


# -- wrong plans ------------------------------------------------------------------------------------------------------


@cache
def scenes() -> Any:
    """Samples, and the objects in the source of each."""
    seen: list[Any] = [case for case in cases(60, seed=3) if case.before is not None]
    return [case.sample for case in seen], [case.before.names for case in seen]


def test_every_plan_can_be_wrong_and_its_sentence_is_a_form_of_edival():
    for sample, names in zip(*scenes(), strict=True):
        plan = annotated_plan(sample)
        assert all(wrong_plan(random.Random(seed), plan, names) != plan for seed in range(5))
        task: Any = parse_task(sentence_of(plan))
        assert task.type == sample.task.type
    two = "Change the background to snow, remain the red circle, blue square unchanged"
    task = parse_task(two)
    plan = plan_of_task(task, two)
    dropped: Any = CORRUPTIONS["a kept object dropped"](random.Random(0), plan, ())
    assert len(dropped.keep) == 1
    assert CORRUPTIONS["a missing operation"](random.Random(0), plan, ()) is None


def test_a_lower_level_is_part_of_a_higher_one_and_wrong_plans_may_be_hidden():
    samples, objects = scenes()
    levels = {level: with_wrong_plans(samples, objects, level, 5) for level in (0.0, 0.1, 0.4)}
    right = [sample.plan for sample in levels[0.0][0]]
    few, many = (
        {n: sample.plan for n, sample in enumerate(levels[level][0]) if sample.plan != right[n]} for level in (0.1, 0.4)
    )
    assert levels[0.0][1] == 0 < len(few) == levels[0.1][1] < len(many)
    assert few.items() <= many.items()
    hidden: Any
    hidden, wrong = with_wrong_plans(samples, objects, 1.0, 5, unnoticed=True)
    assert wrong == len(samples)
    assert sum(bool(plan_problems(one.plan, one.instruction)) for one in hidden) <= 0.05 * len(samples)
    assert [sample.group for sample in hidden] == [sample.group for sample in samples]


# -- the search against a reward --------------------------------------------------------------------------------------

CONFIG = SceneConfig.for_size(32)


def darkroom():
    before, request = random_scene_request(random.Random(0), CONFIG, "color_alter")
    return Darkroom(ScenePrompt(request, before), CONFIG)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_keep_the_size_and_their_input(name):
    pixels = render(darkroom().prompt.before).pixels.astype(np.float64)
    before = pixels.copy()
    for amount in (0.0, 0.3, 1.0):
        filtered = FILTERS[name](pixels, amount, random.Random(1))
        assert filtered.shape == pixels.shape
        assert np.isfinite(filtered).all()
    assert (pixels == before).all()


def test_recipes_are_repeatable_and_layers_lie_over_each_other():
    room, rng = darkroom(), random.Random(2)
    recipe = random_recipe(rng)
    for _ in range(60):
        recipe = mutated(rng, recipe)
        assert 1 <= len(recipe.layers) <= 3
        assert len(recipe.filters) <= 3
        assert recipe.layers[0].opacity == 1.0
        assert room.develop(recipe) == room.develop(recipe)
    source, perfect = (room.develop(Recipe((Layer(name, 0.0, 0),))) for name in (SOURCE, PERFECT))
    assert source == render(room.prompt.before)
    half = room.develop(Recipe((Layer(SOURCE, 0.0, 0), Layer(PERFECT, 0.0, 0, 1.0, "left"))))
    assert (half.pixels[:, 16:] == source.pixels[:, 16:]).all()
    assert (half.pixels[:, :16] == perfect.pixels[:, :16]).all()
    assert write_text(np.zeros((32, 32, 3)), "A VERY LONG SENTENCE", 1.0, rng).shape == (32, 32, 3)


def test_every_seed_is_searched_counted_and_found_again():
    both = search("edival-if?dense=true", scene_experts(), AttackPlan(2, 10, 2, size=32), seeds=[3, 4])
    assert (both.seeds, both.evaluations) == ([3, 4], 2 * 2 * 10)
    assert both.find_count == both.of_seed(3).find_count + both.of_seed(4).find_count
    assert both.highest_margin == max(both.of_seed(3).highest_margin, both.of_seed(4).highest_margin)
    assert all(not candidate.is_good for _, candidate in both.best())
    (other,) = search("edival-if?dense=true", scene_experts(), AttackPlan(1, 10, 2, size=32), seeds=[4]).attacks
    assert both.of_seed(4).attacks[0] == other


# -- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_plan_and_source_are_asked_once_for_sixteen_rollouts():
    counts, single = count_queries(ANY_EDIT), count_queries(ANY_EDIT, rollouts=1)
    assert counts.rollouts == ROLLOUTS == 16
    assert (counts.plan, single.plan, counts.repeated) == (1, 1, 0)
    for role in ("planner", "detector", "judge"):
        assert counts.source.get(role, 0) == single.source.get(role, 0), role


@pytest.mark.slow
def test_a_quick_run_measures_every_bar(tmp_path, capsys, monkeypatch):
    def tiny():
        items = [item for seed in (22, 23) for item in SceneEdit(prompts=9, seed=seed).items]
        prompts = [(item.sample, prompt) for item in items if (prompt := prompt_of(item.sample))]
        return five_editors.FlawedEditor("confuses", prompts)

    monkeypatch.setattr(five_editors, "tiny_editor", tiny)
    with pytest.raises(SystemExit) as ended:
        study.main(["--quick", "--seeds", "22", "23", "--out", str(tmp_path)])
    assert ended.value.code in (0, 1)  # nine prompts decide no bar
    printed = capsys.readouterr().out
    bars = printed.partition("## Agreement")[0].splitlines()[3:]
    assert sum(line.startswith("| ") and " | – | " not in line for line in bars) == 9  # with the header
    assert "80 evaluations for 4 requests" in printed
    assert (tmp_path / study.CURVES).stat().st_size > 1000


def test_a_folder_of_other_prompts_is_refused(tmp_path):
    (tmp_path / "seed-22").mkdir()
    (tmp_path / "seed-22/five.json").write_text('{"prompts": 3, "seed": 22}', encoding="utf-8")
    with pytest.raises(InputError, match="pass another --out"):
        study.main(["--quick", "--seeds", "22", "--out", str(tmp_path)])
