"""OmniGen2-RL's step, restated, with the lines of docs/trainers/omnigen2_rl.md, by a judge server and in process."""

import contextlib
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
import yaml  # type: ignore[import-untyped]
from accelerate import Accelerator
from torch.distributed import HashStore  # type: ignore[attr-defined]

from editcritic.integrations.serving.server import service
from editcritic.integrations.trainers.omnigen2_rl import SCORE_KEY, OmniGen2Reward, log_scores, process_grpo_rewards
from editcritic.reward import Reward
from editcritic.reward.image import PixelFormatError
from editcritic.reward.queries import Failure
from editcritic.reward.queries.answers import Measurement
from editcritic.reward.training.judge_variance import JudgeVariance, VarianceEstimate

from ...reward.fakes import Fake
from ..prepared_processes import found_by_both
from .patched_scripts import patched_script
from .restated import omnigen2_rl as theirs
from .trainer_cases import Batch, Judge, Parted, batch, check_log, documented, served, values

EDITS = batch()
MODULES = {"omnigen2.grpo.reward_client_edit": "omnigen2_rl", "omnigen2.grpo.utils": "omnigen2_rl"}
MISSING, LOG, CLIENT, NOISE = documented("OmniGen2-RL", "diff")


@pytest.fixture(scope="module", autouse=True)
def group() -> Iterator[None]:
    """The process group of one process that the script scatters in."""
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@contextlib.contextmanager
def configured(judge: Judge, *, on_unscored: str = "nan", token: str = "", **limits: int) -> Iterator[Any]:
    (line,) = documented("OmniGen2-RL", "text")
    assert "--trainer-protocol omnigen2-rl --config serve.toml" in line
    with served(judge.reward(), "omnigen2-rl", token=token, on_unscored=on_unscored, **limits) as url:
        yield configuration(url, token)


def configuration(url: str, token: str = "") -> Any:
    (text,) = documented("OmniGen2-RL", "yaml")
    config = yaml.safe_load(text)["server"]
    assert config == {"hosts": ["127.0.0.1"], "proxy_port": 8321}
    host = f"any:{token}@{config['hosts'][0]}" if token else config["hosts"][0]
    return SimpleNamespace(server=SimpleNamespace(hosts=[host], proxy_port=int(url.rpartition(":")[2])))


def order_of(edits: Batch) -> list[int]:
    return random.Random(1).sample(range(len(edits.prompts)), len(edits.prompts))


def run(
    config: Any,
    diffs: Sequence[str] = (LOG,),
    *,
    edits: Batch = EDITS,
    left_out: Sequence[int] = (),
    reward: Any = None,
    pictures: Any = None,
    **rl: Any,
) -> Any:
    rows = [row for row in order_of(edits) if row not in left_out]
    script = patched_script("omnigen2_rl_script", diffs, MODULES, **({} if reward is None else {"reward": reward}))
    args = SimpleNamespace(global_batch_size=len(rows), batch_size=len(rows), rl=rl)
    step = {
        "instruction": [f"<|im_start|>{edits.prompts[row]}<|im_end|>" for row in rows],
        "input_images_pil": [[edits.sources[row].pil()] for row in rows],
        "meta_data": [json.dumps({"instruction": edits.prompts[row], "task_type": "color"}) for row in rows],
    }
    log: dict[str, Any] = {}
    images = [edits.edited[row].pil() for row in rows] if pictures is None else pictures
    result = script.train_step(args, Accelerator(cpu=True), config, step, images, 3, log)
    places = {row: place for place, row in enumerate(rows)}
    return SimpleNamespace(
        rewards={row: result.rewards[place].item() for row, place in places.items()},
        advantages={row: result.advantages[place].item() for row, place in places.items()},
        gradients={row: result.gradients[place].item() for row, place in places.items()},
        files={row: result.files[place] for row, place in places.items()},
        log=log,
    )


@pytest.mark.parametrize("std_level", ["group", "batch"])
def test_by_its_client_others_advantages_are_as_if_a_failed_edit_were_not_there(monkeypatch, std_level):
    monkeypatch.setattr(service, "_RETRY_SHARE", 0.0)
    judge = Judge(failing=Judge.always(EDITS.edited[5]), abstaining={EDITS.edited[14].digest})
    with configured(judge) as config:
        got = run(config, std_level=std_level)
        without = run(config, (MISSING,), left_out=(5,), std_level=std_level)
    assert got.advantages.pop(5) == got.gradients[5] == 0
    assert got.advantages == without.advantages
    assert got.advantages[14] < 0
    assert got.rewards[14] == 0.0  # the lowest value of the range
    assert math.isnan(got.rewards[5])
    assert all(math.isfinite(number) for number in (*got.gradients.values(), *got.log.values()))
    check_log("OmniGen2-RL", got.log)
    assert got.log["rewards_mean"] == pytest.approx(without.log["rewards_mean"])
    assert "status: failed\nreward: none\nreason: " in got.files[5]
    assert "the judge did not answer" in got.files[5]
    assert "status: abstained\nreward: 0\n" in got.files[14]
    assert f"following: {values(EDITS)[0]:.4g}\npreservation: {1 - values(EDITS)[0]:.4g}\nguard: 1\n" in got.files[0]
    assert f"'instruction': '{EDITS.prompts[7]}'" in got.files[7]


@pytest.mark.parametrize("std_level", ["group", "batch"])
def test_without_a_missing_score_the_statistics_are_the_trainers(std_level):
    rewards = torch.from_numpy(np.random.default_rng(2).random(48).astype(np.float32))
    rewards[:8] = 0.5
    prompts = [f"prompt {row // 8}" for row in range(48)]
    accelerator = Accelerator(cpu=True)
    advantages, stats = process_grpo_rewards(rewards, prompts, accelerator, std_level)
    expected, expected_stats = theirs.process_grpo_rewards(rewards, prompts, accelerator, std_level)
    assert torch.equal(advantages, expected)
    assert (advantages.dtype, stats) == (expected.dtype, expected_stats)
    assert list(stats) == list(expected_stats)
    with pytest.raises(ValueError, match="std_level must be 'group' or 'batch', got 'all'"):
        process_grpo_rewards(rewards, prompts, accelerator, "all")


def rated(numbers: Sequence[float | None]) -> Reward:
    """A reward that has these values for the edits; None: it fails."""
    by_digest = {image.digest: number for image, number in zip(EDITS.edited, numbers, strict=True)}

    def rule(query: Any) -> Any:
        number = by_digest[query.image.digest]
        return Failure("no answer", infrastructure=True) if number is None else Measurement(number)

    return Reward(Parted(), {"preference": Fake(rule)}, on_failures="none")


def test_groups_within_the_judges_noise_have_no_advantage_and_the_log_says_how_many():
    numbers = [*(0, 0, 0, 0.5), *(0, 0, 0, 0.2), *(0, 0, 0, 0), *(None, 0, 0.4, 0.8)]
    noisy = NOISE.replace("judge_std=0.06", "judge_std=0.15")
    assert noisy != NOISE
    got = run(configuration(":0"), (LOG, CLIENT, noisy), reward=rated(numbers))
    # Variances of the groups (n - 1): 1/16, 1/100, 0 and 4/25, of which 9/400 is noise: sqrt(1/16 - 9/400) = 0.2.
    last = math.sqrt(0.16 - 0.0225) / 0.16 * 0.4
    expected = [*(-0.4, -0.4, -0.4, 1.2), *[0.0] * 4, *[0.0] * 4, *(0.0, -last, 0.0, last)]
    assert [got.advantages[row] for row in range(16)] == pytest.approx(expected, abs=1e-6)
    assert got.log["editcritic/frac_within_noise"] == 1 / 4
    assert got.log["editcritic/noise_variance_share"] == pytest.approx(0.0225 / ((0.1875 + 0.03 + 0.32) / 11))
    plain = run(configuration(":0"), (LOG, CLIENT), reward=rated(numbers))
    lone = [plain.advantages[row] for row in (3, 7)]
    assert lone == pytest.approx([math.sqrt(3)] * 2)  # a lone value is worth the same, however small it is
    assert plain.log["rewards_std"] == got.log["rewards_std"]
    assert "editcritic/frac_within_noise" not in plain.log


def test_the_noise_may_be_what_was_measured_and_one_that_is_unknown_is_refused():
    rewards, prompts, accelerator = torch.tensor([0.0, 2.0, math.nan]), ["a"] * 3, Accelerator(cpu=True)
    measured = JudgeVariance(VarianceEstimate(1.0, None, None, None, 1), {}, 2, 1, 0.0, 1)
    for std_level in ("group", "batch"):
        advantages, stats = process_grpo_rewards(rewards, prompts, accelerator, std_level, judge_std=measured)
        assert advantages.tolist() == [-0.5, 0.5, 0.0]
        assert advantages.dtype == rewards.dtype
        assert stats["a"] == {"min": 0.0, "max": 2.0, "mean": 1.0, "std": 1.0}
    with pytest.raises(ValueError, match="no sample has two values"):
        process_grpo_rewards(rewards, prompts, accelerator, judge_std=replace(measured, overall=None))
    for wrong in (-0.1, math.nan):
        with pytest.raises(ValueError, match="judge_std is a standard deviation"):
            process_grpo_rewards(rewards, prompts, accelerator, judge_std=wrong)


def test_a_refusal_is_words_in_the_trainers_log_and_no_number(monkeypatch, caplog):
    monkeypatch.setattr(service, "_RETRY_SHARE", 0.0)
    with configured(Judge(failing=Judge.always(EDITS.edited[5])), on_unscored="refuse") as config:
        with pytest.raises(TypeError, match="NoneType"):
            run(config)
        assert "1 of 16 edits have no score: edit-" in caplog.text
        assert "did not answer" in caplog.text
    with configured(Judge(), max_samples=8, max_queued_samples=8) as config, pytest.raises(TypeError, match="NoneType"):
        run(config)
    assert "editcritic: HTTP 413: 16 samples: at most 8 are accepted per request" in caplog.text
    caplog.clear()
    with configured(Judge(), token="correct-horse-battery-staple") as config:
        assert len(run(config).rewards) == 16
        config.server.hosts = ["127.0.0.1"]
        with pytest.raises(TypeError, match="NoneType"):
            run(config)
        assert theirs.RewardClient("127.0.0.1", config.server.proxy_port).ping()
    assert "HTTP error: 401" in caplog.text


def test_pictures_that_are_no_rgb_images_are_refused_in_words_before_anything_is_scored(caplog):
    floats = [PIL.Image.fromarray(np.full((8, 8), 200.0, np.float32), "F") for _ in range(16)]
    judge = Judge()
    with configured(judge) as config, pytest.raises(TypeError, match="NoneType"):
        run(config, pictures=floats)
    assert "an image of PIL must have the mode RGB, got 'F': convert it" in caplog.text
    reward = OmniGen2Reward(judge.reward())
    sources, rows = [[EDITS.sources[0].pil()]], [json.dumps({"instruction": "make it blue"})]
    for wrong in (np.full((8, 8, 3), -0.5, np.float32), np.full((8, 8, 3), 200.0, np.float32)):
        with pytest.raises(PixelFormatError):
            reward(sources, [wrong], rows)
    with pytest.raises(ValueError, match="JSON texts or dicts"):
        reward(sources, [EDITS.edited[0].pil()], ["[]"])
    assert judge.batches == []


def test_in_process_the_answer_has_the_shape_of_the_clients():
    with configured(Judge()) as config:
        arguments = (
            [[source.pil()] for source in EDITS.sources],
            [edited.pil() for edited in EDITS.edited],
            [json.dumps({"instruction": prompt}) for prompt in EDITS.prompts],
        )
        over_http: Any = theirs.evaluate_images(*arguments, "127.0.0.1", config.server.proxy_port)
    here: Any = OmniGen2Reward(Judge().reward())(*arguments, proxy_host="x", proxy_port=1, server_type="vlm")
    for answer in (over_http, here):
        for row in answer[3]:
            assert row["editcritic_score"].pop("judge_seconds") >= 0
    assert list(over_http) == list(here)
    assert OmniGen2Reward(Judge().reward())([], [], []) == ([], [], [], [])


def as_a_rank(folder: str) -> None:
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    own = [[0.25, math.nan, 1.0], [0.75, 0.5, math.nan]][accelerator.process_index]
    result: dict[str, Any] = {}
    for level in ("group", "batch"):
        advantages, stats = process_grpo_rewards(torch.tensor(own), ["a", "a", "b"], accelerator, level)
        numbers = {key: {name: float(value) for name, value in row.items()} for key, row in stats.items()}
        result[level] = [advantages.tolist(), numbers]
    corrected, _ = process_grpo_rewards(torch.tensor(own), ["a", "a", "b"], accelerator, judge_std=0.1)
    result["corrected"] = corrected.tolist()
    rows = [{SCORE_KEY: {"unscored": float(math.isnan(x)), **({} if math.isnan(x) else {"reward": x})}} for x in own]
    result["log"] = log_scores(accelerator, rows)
    Path(folder, f"{accelerator.process_index}.json").write_text(json.dumps(result))
    accelerator.wait_for_everyone()
    accelerator.end_training()  # a process group that is left to the interpreter's end may abort it


def test_statistics_are_those_of_all_processes(tmp_path):
    first, second = found_by_both(f"{__name__}:as_a_rank", tmp_path)
    std = {"group": (np.std([0.25, 0.75, 0.5]), 0.0), "batch": (np.std([0.25, 1.0, 0.75, 0.5]),) * 2}
    for level, (std_a, _) in std.items():
        assert first[level][0] == pytest.approx([-0.25 / std_a, 0.0, 0.0], rel=1e-5)
        assert second[level][0] == pytest.approx([0.25 / std_a, 0.0, 0.0], rel=1e-5)
        assert first[level][1] == second[level][1]
        assert first[level][1]["a"]["mean"] == 0.5
        assert first[level][1]["b"] == {"min": 1.0, "max": 1.0, "mean": 1.0, "std": 0.0}
    corrected = 0.25 * math.sqrt(0.25**2 - 0.1**2) / 0.25**2
    assert first["corrected"] == pytest.approx([-corrected, 0.0, 0.0])
    assert second["corrected"] == pytest.approx([corrected, 0.0, 0.0])
    assert first["log"]["editcritic/unscored"] == pytest.approx(2 / 6)
    assert first["log"]["editcritic/reward"] == pytest.approx(2.5 / 4)
    assert set(first["log"]) == {"editcritic/unscored", "editcritic/reward"}, "what no edit has is left out"


def test_parts_that_are_named_and_alarms_of_a_monitor_reach_the_log():
    watched = CLIENT.replace('missing="nan"', 'missing="nan", monitor=16, logged_parts=["guard", "following"]')
    got = run(configuration(":0"), (LOG, watched), reward=Judge().reward())
    assert got.log["editcritic/alarms"] == 0
    assert got.log["editcritic/following"] == pytest.approx(np.mean(values(EDITS)))
    assert f"reward: {values(EDITS)[0]:.4g}\nguard: 1\nfollowing: " in got.files[0]
    assert "editcritic/preservation" not in got.log
