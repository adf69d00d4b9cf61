"""The change of docs/trainers/dance_grpo.md in a restated step of DanceGRPO: `restated/dance_grpo`."""

import json
import math
import os
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import PIL.Image
import pytest
import torch
import torch.distributed as dist

from editcritic.integrations.trainers.dance_grpo import DanceGRPOReward, scored_advantages

from ...trainer_pages import hunks
from ..prepared_processes import found_by_both
from .patched_scripts import patched_script
from .trainer_cases import Batch, Judge, batch, documented, values

EDITS = batch()


def changed(name: str, **given: Any) -> types.ModuleType:
    """A restated module with the documented changes."""
    page = hunks("\n".join(f"```diff\n{diff}```" for diff in documented("DanceGRPO", "diff")))
    return patched_script(f"dance_grpo/{name}", [one.patch for one in page if Path(one.file).stem == name], {}, **given)


@dataclass
class Args:
    """Of the script's command line. The first three are the test's."""

    output_dir: str
    prompt_dir: str
    base_image_path: str
    train_batch_size: int
    num_generations: int
    use_hpsv2: bool = False
    sampling_steps: int = 3
    eta: float = 0.3
    timestep_fraction: float = 1.0
    clip_range: float = 1e-4
    adv_clip_max: float = 5.0
    gradient_accumulation_steps: int = 8
    learning_rate: float = 1e-3
    max_grad_norm: float = 1.0
    data_json_path: str = ""


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return self.scale * latents


@dataclass
class VAE:
    """Decodes to the edits, one after another: B x C x F x H x W in [-1, 1]."""

    edits: Batch
    count: int = 0

    def decode(self, latents: torch.Tensor, return_dict: bool) -> tuple[torch.Tensor]:
        assert not return_dict
        pixels = torch.from_numpy(self.edits.edited[self.count].pixels.copy()).permute(2, 0, 1)
        self.count += 1
        return (pixels[None, :, None] / 127.5 - 1,)


@dataclass
class Step:
    """What a step leaves: prints by name, wandb's first row, reward.txt, the weight after it."""

    printed: dict[str, list[Any]] = field(default_factory=dict)
    logged: dict[str, float] = field(default_factory=dict)
    mean_reward: float = math.nan
    weight: float = math.nan

    @property
    def advantages(self) -> list[float]:
        return self.printed["advantage"]


def run_step(folder: Path, edits: Batch, reward: Any) -> Step:
    size = edits.group_size
    rows = []
    for row, source in enumerate(edits.sources[::size]):
        PIL.Image.fromarray(source.pixels).save(folder / f"source-{row}.png")
        rows.append({"source_image": f"source-{row}.png", "instruction": edits.prompts[row * size]})
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "images").mkdir()
    args = Args(str(folder / "rl"), str(folder / "rows.jsonl"), str(folder), len(rows), size)
    args.data_json_path = str(folder / "rl" / "videos2caption.json")
    changed("preprocess_qwenimage_edit_embeddings").main(args)
    step = Step()

    def keep(name: str, value: Any) -> None:
        step.printed.setdefault(name, []).append(value)

    script = changed("train_grpo_qwenimage_edit", reward=reward, print=keep)
    transformer = Transformer()
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    before = Path.cwd()
    os.chdir(folder)
    os.environ["RANK"] = "0"
    try:
        script.main(args, transformer, VAE(edits), changed("latent_qwenimage_edit_rl_datasets"))
    finally:
        os.chdir(before)
        del os.environ["RANK"]
        dist.destroy_process_group()
    (step.logged,) = script.wandb.logged
    step.mean_reward = float((folder / "reward.txt").read_text())
    step.weight = transformer.scale.item()
    return step


def rewarded(judge: Judge, **options: Any) -> DanceGRPOReward:
    return DanceGRPOReward(judge.reward(on_failures="none"), **{"missing": "nan", "outage_timeout_s": 0, **options})


def row(number: int, source: Any = None) -> dict[str, Any]:
    return {"instruction": EDITS.prompts[number], "source_image": source or EDITS.sources[number]}


@pytest.mark.parametrize("caption", ["make it blue", json.dumps({"instruction": "make it blue"}), "[1]"])
def test_a_caption_of_a_data_set_without_sources_says_what_to_do(caption):
    with pytest.raises(ValueError, match=r"a JSON text with instruction and source_image, got .*: prepare the data"):
        rewarded(Judge())([EDITS.edited[0]], [caption])


def test_a_source_that_is_not_there_or_elsewhere_is_named(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path / "data")
    PIL.Image.fromarray(EDITS.sources[0].pixels).save(tmp_path / "a.png")
    (tmp_path / "data" / "link.png").symlink_to(tmp_path / "a.png")
    judge = Judge()
    for name, error, message in (
        ("b.png", FileNotFoundError, "no source image 'b.png': .* absolute path"),
        (str(tmp_path / "a.png"), ValueError, "a.png' is not below .*data: give image_root=FOLDER"),
        ("../a.png", ValueError, "is not below"),
        ("link.png", ValueError, "is not below"),
    ):
        with pytest.raises(error, match=message):
            rewarded(judge)([EDITS.edited[0]], [row(0, name)])
    assert judge.batches == []
    (score,) = rewarded(judge, image_root=str(tmp_path))([EDITS.edited[0]], [row(0, "link.png")]).tolist()
    assert score == pytest.approx(values(EDITS)[0])


def test_a_source_that_is_no_image_fails_its_row_alone(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    PIL.Image.fromarray(EDITS.sources[0].pixels).save(tmp_path / "b.png")
    captions = [row(0, tmp_path / "a.png"), row(1, tmp_path / "b.png")]
    scores = rewarded(Judge(), image_root=tmp_path)(EDITS.edited[:2], captions)
    assert scores.isnan().tolist() == [True, False]


def theirs(rewards: torch.Tensor, num_generations: int) -> torch.Tensor:
    """Without a missing reward: restated in `train_one_step`, too."""
    return torch.cat([(group - group.mean()) / (group.std() + 1e-8) for group in rewards.split(num_generations)])


def test_without_a_missing_reward_advantages_are_theirs():
    rewards = torch.rand(16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(scored_advantages(rewards, 4), theirs(rewards, 4))


def test_groups_of_fewer_than_two_rewards_have_no_advantage():
    nan = math.nan
    rewards = torch.tensor([nan, nan, nan, nan, 0.5, nan, nan, nan, 0.1, 0.3, 0.2, nan])
    ours = scored_advantages(rewards, 4)
    assert ours[:8].tolist() == [0.0] * 8
    torch.testing.assert_close(ours[8:11], theirs(rewards[8:11], 3))
    assert ours[11] == 0


def test_what_is_logged_is_of_all_processes(tmp_path):
    first, second = found_by_both(f"{__name__}:metrics_of_rank", tmp_path)
    assert first == second
    assert first["editcritic/unscored"] == 1 / 16
    assert first["editcritic/guard"] == 1.0


def metrics_of_rank(folder: str) -> None:
    """Leave the metrics of a step in which the second process has the missing score."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    reward = rewarded(Judge(failing=Judge.always(EDITS.edited[13])))
    rows = range(8 * rank, 8 * rank + 8)
    reward([EDITS.edited[number] for number in rows], [row(number) for number in rows])
    Path(folder, f"{rank}.json").write_text(json.dumps(reward.step_metrics()))
    dist.destroy_process_group()
