"""Flow-GRPO's script for editors, restated, with the lines of docs/trainers/flow_grpo.md in it."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.trainers import flow_grpo as adapter

from .flow_grpo_rollouts import Log, by_edit, call_order, rollouts
from .patched_scripts import patched_script
from .trainer_cases import Judge, batch, check_log, documented, values

EDITS = batch()
MODULES = {"flow_grpo.rewards": "flow_grpo", "flow_grpo.stat_tracking": "flow_grpo"}
LINES, _, STATISTICS = documented("Flow-GRPO", "diff")


def run(reward: Any, diffs: Any = (LINES,), left_out: Any = (), **sample: Any) -> Any:
    script = patched_script("flow_grpo_script", diffs, MODULES, reward=reward)
    config = script.Config()
    vars(config.sample).update(sample)
    log = Log()
    result = script.main(config, rollouts(EDITS, 4, left_out), log)
    return SimpleNamespace(
        advantages=by_edit(EDITS, result.advantages, left_out),
        gradients=by_edit(EDITS, result.gradients.numpy(), left_out),
        log=log,
    )


@pytest.mark.parametrize("global_std", [True, False])
def test_others_advantages_are_as_if_a_failed_edit_were_not_there(global_std):
    judge = Judge(failing=Judge.always(EDITS.edited[5]), abstaining={EDITS.edited[14].digest})
    got = run(judge.reward(on_failures="none"), global_std=global_std, diffs=[LINES, STATISTICS])
    assert got.advantages[5] == got.gradients[5] == 0
    without = run(judge.reward(on_failures="none"), global_std=global_std, left_out=(5,))
    assert {row: value for row, value in got.advantages.items() if row != 5} == pytest.approx(
        without.advantages, rel=1e-12
    )
    assert all(math.isfinite(value) for value in (*got.advantages.values(), *got.gradients.values()))
    assert got.advantages[14] < 0  # the lowest value of the range
    check_log("Flow-GRPO", got.log)
    known = [0.0 if row == 14 else value for row, value in enumerate(values(EDITS)) if row != 5]
    assert [got.log["reward_avg"], got.log["reward_editcritic"]] == pytest.approx([np.mean(known)] * 2)
    assert all(math.isfinite(value) for value in got.log.values())


def test_with_the_trainers_own_tracker_a_failed_edit_spoils_the_others(monkeypatch):
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    monkeypatch.setattr(adapter, "leave_out_missing", lambda tracker: tracker)
    for global_std, spoiled in ((True, 16), (False, 4)):
        script = patched_script("flow_grpo_script", [LINES], MODULES, reward=judge.reward(on_failures="none"))
        tracked = script.PerPromptStatTracker(global_std)
        rewards = [math.nan if row == 5 else value for row, value in enumerate(values(EDITS))]
        prompts = [f"{prompt} {row // 4}" for row, prompt in enumerate(EDITS.prompts)]
        assert np.isnan(tracked.update(prompts, np.array(rewards)[:, None])).sum() == spoiled


def test_the_logs_means_of_parts_are_those_of_scored_edits_without_more_changes():
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    log = run(judge.reward(on_failures="none")).log
    assert math.isnan(log["reward_avg"])
    assert math.isnan(log["reward_editcritic"])
    calls = call_order(EDITS).reshape(4, 4)
    known = [[values(EDITS)[row] for row in call if row != 5] for call in calls]
    assert log["reward_editcritic_following"] == pytest.approx(np.mean([np.mean(part) for part in known]))
    assert log["reward_editcritic_unscored"] == 1 / 16


def test_a_group_without_any_value_has_no_advantage_and_the_others_keep_theirs():
    judge = Judge(failing=Judge.always(*EDITS.edited[4:8]))
    got = run(judge.reward(on_failures="none"), global_std=True)
    assert [got.advantages[row] for row in range(4, 8)] == [0.0] * 4
    assert len({value for row, value in got.advantages.items() if row not in range(4, 8)} - {0.0}) == 12


def test_evaluation_logs_the_same_columns():
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    script = patched_script("flow_grpo_script", [LINES], MODULES, reward=judge.reward(on_failures="none"))
    log = Log()
    script.main(script.Config(), rollouts(EDITS, 4), log, evaluated=rollouts(EDITS, 8))
    assert log["eval_reward_editcritic_unscored"] == 1 / 16
    assert math.isfinite(log["eval_reward_editcritic_following"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("parts", [True, False])
def test_the_log_has_numbers_only_whether_the_reward_has_parts_or_not(parts):
    reward = Judge(parts=parts).reward()
    script = patched_script("flow_grpo_script", [LINES, STATISTICS], MODULES, reward=reward)
    log = Log()
    script.main(script.Config(), rollouts(EDITS, 4), log, evaluated=rollouts(EDITS, 8))
    check_log("Flow-GRPO, evaluation", log, parts=parts, share=0)
    check_log("Flow-GRPO", log, parts=parts, share=0)


def test_it_trains_beside_a_reward_of_flow_grpo():
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    script = patched_script("flow_grpo_script", [LINES], MODULES, reward=judge.reward(on_failures="none"))
    log = Log()
    config = script.Config(reward_fn={"editcritic": 1.0, "jpeg_compressibility": 0.5})
    result = script.main(config, rollouts(EDITS, 4), log)
    assert by_edit(EDITS, result.advantages)[5] == 0
    assert np.isfinite(result.advantages).all()
    assert math.isfinite(log["reward_jpeg_compressibility"])
    config = script.Config(reward_fn={"editcritic": 0.0, "jpeg_compressibility": 0.5})  # only logged
    result = script.main(config, rollouts(EDITS, 4), log)
    assert math.isfinite(log["reward_avg"])


def test_calls_from_eight_threads_have_their_own_values():
    edits = batch(groups=16)
    judge = Judge()
    service = ScoringService(judge.reward())
    with serve_in_thread(service) as url:
        for reward in (Judge().reward(), url):
            script = patched_script("flow_grpo_script", [LINES], MODULES, reward=reward)
            log = Log()
            config = script.Config()
            config.sample.num_batches_per_epoch = 16
            got = by_edit(edits, script.main(config, rollouts(edits, 4), log).advantages)
            groups = np.array(values(edits)).reshape(16, 4)
            wanted = (groups - groups.mean(axis=1, keepdims=True)) / (groups.std() + 1e-4)
            # the script holds float32
            np.testing.assert_allclose([got[row] for row in range(64)], wanted.ravel(), atol=1e-5)
    service.close()
    assert sum(judge.batches) == 64


def test_images_of_mixed_precision_are_scored():
    script = patched_script("flow_grpo_script", [LINES], MODULES, reward=Judge().reward())
    images, *rest = rollouts(EDITS, 16)[0]
    log = Log()
    config = script.Config()
    config.sample.num_batches_per_epoch = 1
    assert np.isfinite(script.main(config, [(images.bfloat16(), *rest)], log).advantages).all()
    assert log["reward_editcritic_unscored"] == 0


def test_the_configuration_names_the_reward():
    config = SimpleNamespace()
    exec(documented("Flow-GRPO", "diff")[1].removeprefix("+").strip(), {"config": config})
    assert config.reward_fn == {"editcritic": 1.0}
