"""The scripts of Flow-GRPO and Edit-R1 for editors, restated, with the lines of docs/trainers/ in them."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from .flow_grpo_rollouts import Log, by_edit, call_order, rollouts
from .patched_scripts import patched_script
from .trainer_cases import Judge, batch, check_log, documented, values

EDITS = batch()
TRACKERS = {"flow_grpo_script": "flow_grpo", "edit_r1_script": "edit_r1"}
TITLES = {"flow_grpo_script": "Flow-GRPO", "edit_r1_script": "Edit-R1"}
DIFFS = {script: documented(title, "diff")[:3] for script, title in TITLES.items()}
"""The lines, the configuration, and the statistics of the log."""

each_script = pytest.mark.parametrize("name", TITLES)


def patched(name: str, reward: Any, *, statistics: bool = False) -> Any:
    lines, _, of_log = DIFFS[name]
    modules = {"flow_grpo.rewards": "flow_grpo", "flow_grpo.stat_tracking": TRACKERS[name]}
    return patched_script(name, [lines, of_log] if statistics else [lines], modules, reward=reward)


def run(
    name: str, reward: Any, left_out: Sequence[int] = (), *, statistics: bool = False, train: Any = (), **sample: Any
) -> Any:
    script = patched(name, reward, statistics=statistics)
    config, log = script.Config(), Log()
    vars(config.sample).update(sample)
    vars(config.train).update(train)
    result = script.main(config, rollouts(EDITS, 4, left_out), log)
    arrays = {key: np.asarray(value) for key, value in vars(result).items() if key not in ("tracker", "mask")}
    by_row = {key: by_edit(EDITS, value, left_out) for key, value in arrays.items()}
    return SimpleNamespace(**by_row, log=log, tracker=getattr(result, "tracker", None))


def failing(*rows: int) -> Any:
    return Judge(failing=Judge.always(*(EDITS.edited[row] for row in rows))).reward(on_failures="none")


@each_script
def test_a_failed_edit_is_in_no_advantage_gradient_or_mean(name):
    got, without = (run(name, failing(5), left, statistics=True, global_std=False) for left in ((), (5,)))
    assert got.advantages.pop(5) == got.gradients[5] == 0
    assert got.advantages == pytest.approx(without.advantages, rel=1e-12)
    known = [value for row, value in enumerate(values(EDITS)) if row != 5]
    assert [got.log["reward_avg"], got.log["reward_editcritic"]] == pytest.approx([np.mean(known)] * 2)
    assert got.log.get("mean_reward_100") == pytest.approx(without.log.get("mean_reward_100"))
    assert all(map(math.isfinite, got.gradients.values()))


@each_script
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("parts", [True, False])
def test_the_log_has_numbers_only_whether_the_reward_has_parts_or_not(name, parts):
    script, log = patched(name, Judge(parts=parts).reward(), statistics=True), Log()
    script.main(script.Config(), rollouts(EDITS, 4), log, evaluated=rollouts(EDITS, 8))
    check_log("Flow-GRPO, evaluation", log, parts=parts, share=0)
    check_log(TITLES[name], log, parts=parts, share=0)


@each_script
def test_the_configuration_names_the_reward(name):
    config = SimpleNamespace()
    exec(DIFFS[name][1].removeprefix("+").strip(), {"config": config})
    assert config.reward_fn == {"editcritic": 1.0}


def test_the_logs_means_of_parts_are_those_of_scored_edits_without_more_changes():
    log = run("flow_grpo_script", failing(5)).log
    assert math.isnan(log["reward_avg"])
    assert math.isnan(log["reward_editcritic"])
    calls = call_order(EDITS).reshape(4, 4)
    known = [[values(EDITS)[row] for row in call if row != 5] for call in calls]
    assert log["reward_editcritic_following"] == pytest.approx(np.mean([np.mean(part) for part in known]))
    assert log["reward_editcritic_unscored"] == 1 / 16


def test_it_trains_beside_a_reward_of_flow_grpo():
    script, log = patched("flow_grpo_script", failing(5)), Log()
    config = script.Config(reward_fn={"editcritic": 1.0, "jpeg_compressibility": 0.5})
    result = script.main(config, rollouts(EDITS, 4), log)
    assert by_edit(EDITS, result.advantages)[5] == 0
    assert np.isfinite(result.advantages).all()
    assert math.isfinite(log["reward_jpeg_compressibility"])
    config = script.Config(reward_fn={"editcritic": 0.0, "jpeg_compressibility": 0.5})  # only logged
    script.main(config, rollouts(EDITS, 4), log)
    assert math.isfinite(log["reward_avg"])


def test_images_of_mixed_precision_are_scored():
    script, log = patched("flow_grpo_script", Judge().reward()), Log()
    images, *rest = rollouts(EDITS, 16)[0]
    config = script.Config()
    config.sample.num_batches_per_epoch = 1
    assert np.isfinite(script.main(config, [(images.bfloat16(), *rest)], log).advantages).all()
    assert log["reward_editcritic_unscored"] == 0


@pytest.mark.parametrize("adv_mode", ["all", "positive_only", "negative_only", "one_only", "binary"])
def test_a_failed_edit_has_no_preference_and_no_gradient_at_the_old_policy(adv_mode):
    got = run("edit_r1_script", failing(5), train={"adv_mode": adv_mode})
    assert got.r[5] == 0.5
    assert got.gradients[5] == 0
    assert any(got.gradients.values())
    assert all(math.isfinite(value) for value in (*got.r.values(), *got.gradients.values()))


def test_where_prompts_are_banned_the_failed_edit_is_masked_and_none_is_banned_for_what_is_left():
    settings: dict[str, Any] = {"ban_prompt": True, "ban_std_thres": 0.001, "ban_mean_thres": -1.0}
    got = run("edit_r1_script", failing(5, 6, 7), **settings)
    assert [got.valid_mask[row] for row in range(4, 8)] == [0.0] * 4  # of one value: no deviation
    assert got.tracker.banned_prompts == set()
    alone = run("edit_r1_script", failing(5, 6, 7), (5, 6, 7), **settings)
    assert alone.tracker.banned_prompts == {EDITS.prompts[4]}
    masked = run("edit_r1_script", failing(5), ban_prompt=True, ban_std_thres=0.0, ban_mean_thres=2.0)
    assert masked.valid_mask == {row: float(row != 5) for row in range(16)}
