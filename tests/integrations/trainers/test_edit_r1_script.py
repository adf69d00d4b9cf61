"""Edit-R1's script for editors, restated, with the lines of docs/trainers/edit_r1.md in it; and DiffusionNFT's call."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.trainers import flow_grpo as adapter

from .flow_grpo_rollouts import Log, by_edit, rollouts
from .patched_scripts import patched_script
from .trainer_cases import Judge, batch, check_log, documented, values

EDITS = batch()
MODULES = {"flow_grpo.rewards": "flow_grpo", "flow_grpo.stat_tracking": "edit_r1"}
LINES, CONFIGURATION, STATISTICS = documented("Edit-R1", "diff")[:3]


def run(reward: Any, diffs: Any = (LINES,), left_out: Any = (), adv_mode: str = "all", **sample: Any) -> Any:
    script = patched_script("edit_r1_script", diffs, MODULES, reward=reward)
    config = script.Config()
    vars(config.sample).update(sample)
    config.train.adv_mode = adv_mode
    log = Log()
    result = script.main(config, rollouts(EDITS, 4, left_out), log)
    return SimpleNamespace(
        advantages=by_edit(EDITS, result.advantages, left_out),
        r=by_edit(EDITS, result.r, left_out),
        valid=by_edit(EDITS, result.valid_mask, left_out),
        gradients=by_edit(EDITS, result.gradients, left_out),
        banned=result.tracker.banned_prompts,
        log=log,
    )


@pytest.mark.parametrize("global_std", [True, False])
def test_others_advantages_are_as_if_a_failed_edit_were_not_there(global_std):
    judge = Judge(failing=Judge.always(EDITS.edited[5]), abstaining={EDITS.edited[14].digest})
    got = run(judge.reward(on_failures="none"), [LINES, STATISTICS], global_std=global_std)
    without = run(judge.reward(on_failures="none"), global_std=global_std, left_out=(5,))
    assert got.advantages.pop(5) == 0
    assert got.advantages == pytest.approx(without.advantages, rel=1e-12)
    assert got.advantages[14] < 0
    known = [0.0 if row == 14 else value for row, value in enumerate(values(EDITS)) if row != 5]
    assert [got.log["reward_avg"], got.log["reward_editcritic"]] == pytest.approx([np.mean(known)] * 2)
    assert got.log["mean_reward_100"] == pytest.approx(without.log["mean_reward_100"])
    check_log("Edit-R1", got.log)
    check_log("Edit-R1", run(Judge(parts=False).reward(), [LINES, STATISTICS]).log, parts=False, share=0)
    assert all(math.isfinite(value) for value in got.log.values())


@pytest.mark.parametrize("adv_mode", ["all", "positive_only", "negative_only", "one_only", "binary"])
def test_a_failed_edit_has_no_preference_and_no_gradient_at_the_old_policy(adv_mode):
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    got = run(judge.reward(on_failures="none"), adv_mode=adv_mode)
    assert got.r[5] == 0.5
    assert got.gradients[5] == 0
    assert any(got.gradients.values())
    assert all(math.isfinite(value) for value in (*got.r.values(), *got.gradients.values()))


def test_where_prompts_are_banned_the_failed_edit_is_masked_and_none_is_banned_for_what_is_left():
    judge = Judge(failing=Judge.always(*EDITS.edited[5:8]))
    settings: dict[str, Any] = {"ban_prompt": True, "ban_std_thres": 0.001, "ban_mean_thres": -1.0}
    got = run(judge.reward(on_failures="none"), **settings)
    assert [got.valid[row] for row in range(4, 8)] == [0.0] * 4  # of one value: no deviation
    assert got.banned == set()
    alone = run(judge.reward(on_failures="none"), left_out=(5, 6, 7), **settings)
    assert alone.banned == {EDITS.prompts[4]}
    one = Judge(failing=Judge.always(EDITS.edited[5]))
    masked = run(one.reward(on_failures="none"), ban_prompt=True, ban_std_thres=0.0, ban_mean_thres=2.0)
    assert masked.valid == {row: float(row != 5) for row in range(16)}


def test_with_the_trainers_own_tracker_a_failed_edit_spoils_the_others(monkeypatch):
    monkeypatch.setattr(adapter, "leave_out_missing", lambda tracker: tracker)
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    for global_std, spoiled in ((True, 16), (False, 4)):
        got = run(judge.reward(on_failures="none"), global_std=global_std)
        assert sum(math.isnan(value) for value in got.advantages.values()) == spoiled


@pytest.mark.filterwarnings("ignore:Degrees of freedom")  # the deviation of that group, which is NaN
def test_a_group_without_any_value_has_no_advantage_and_the_others_keep_theirs():
    judge = Judge(failing=Judge.always(*EDITS.edited[4:8]))
    got = run(judge.reward(on_failures="none"), [LINES, STATISTICS])
    assert [got.advantages[row] for row in range(4, 8)] == [0.0] * 4
    assert sum(value != 0 for value in got.advantages.values()) == 12
    assert all(math.isfinite(value) for value in got.log.values())


def test_the_configuration_names_the_reward():
    config = SimpleNamespace()
    exec(CONFIGURATION.removeprefix("+").strip(), {"config": config})
    assert config.reward_fn == {"editcritic": 1.0}
