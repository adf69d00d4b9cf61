"""Trains the tiny editor from scratch: `make sceneedit-editor`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import (
    MAX_TOKENS,
    PRETRAINED_PATH,
    SceneEditPipeline,
    untrained_pipeline,
)
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import ACROSS, SIZE, training_arrays

_CHANGE_THRESHOLD = 0.06  # on a scale from -1 to 1; larger differences are changed pixels


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """Hyperparameters.

    pure_noise_share: share of examples at sigma 1. changed_pixel_weight: total weight of the changed pixels, relative
    to 1 for the whole image, whatever their number. learning_rate: of AdamW; Muon, for the matrices of the blocks, has
    twice that.
    """

    examples: int = 100_000
    steps: int = 6_800
    batch: int = 64
    learning_rate: float = 1e-3
    pure_noise_share: float = 0.3
    changed_pixel_weight: float = 0.5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Training data. sources, targets: (N, SIZE, SIZE, 3), uint8. latents: (N, k), each in (0, 1)."""

    sources: Tensor
    targets: Tensor
    latents: Tensor
    instructions: list[str]

    @staticmethod
    def of(count: int, seed: int = 0) -> TrainingData:
        """Data of `count` training examples."""
        *arrays, instructions = training_arrays(count, seed)
        sources, targets, latents = (torch.from_numpy(array) for array in arrays)
        return TrainingData(sources, targets, latents, instructions)


def train_editor(
    pipeline: SceneEditPipeline, data: TrainingData, config: TrainingConfig
) -> Iterator[tuple[int, float]]:
    """Train a pipeline in place; yields the number of each step and its loss. At the end the pipeline has the running
    mean of the weights.
    """
    torch.manual_seed(config.seed)
    parts = nn.ModuleList([pipeline.transformer, pipeline.text_encoder, pipeline.text_encoder_2]).train()
    matrices = [
        parameter
        for name, parameter in pipeline.transformer.named_parameters()
        if "blocks." in name and parameter.ndim == 2
    ]
    others = [parameter for parameter in parts.parameters() if not any(parameter is matrix for matrix in matrices)]
    optimizers: Sequence[torch.optim.Optimizer] = (
        torch.optim.Muon(matrices, lr=2 * config.learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=config.learning_rate, betas=(0.9, 0.99), weight_decay=0.01),
    )
    rates = [
        torch.optim.lr_scheduler.LambdaLR(parameter, lambda step: _learning_rate_factor(step, config.steps))
        for parameter in optimizers
    ]
    # A running mean over about the last thousand steps (0.998 ** 1000 is 0.14); a short training includes its start.
    mean = torch.optim.swa_utils.AveragedModel(parts, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.998))
    tokens = _tokens(pipeline, data.instructions)
    order = torch.empty(0, dtype=torch.long)
    for step in range(config.steps):
        if len(order) < config.batch:
            order = torch.randperm(len(tokens))
        batch_indices, order = order[: config.batch], order[config.batch :]
        loss = _loss(pipeline, data, tokens, batch_indices, config)
        loss.backward()
        nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            optimizer.step()
            rate.step()
            optimizer.zero_grad()
        mean.update_parameters(parts)
        yield step, float(loss.detach())
    parts.load_state_dict(mean.module.state_dict())
    parts.train(mode=False)


def _learning_rate_factor(step: int, steps: int) -> float:
    """The share of the full rate: linear warm-up over a hundred steps, then decay to 0."""
    return float(min(1.0, (step + 1) / 100) * (1 - step / steps) ** 0.7)


def _loss(
    pipeline: SceneEditPipeline, data: TrainingData, tokens: Tensor, indices: Tensor, config: TrainingConfig
) -> Tensor:
    source, target = pack_patches(data.sources[indices]), pack_patches(data.targets[indices])
    shift = pipeline.scheduler.config.shift
    sigma = 0.05 + 0.95 * torch.rand(len(indices))
    sigma = shift * sigma / (1 + (shift - 1) * sigma)
    sigma = torch.where(torch.rand(len(indices)) < config.pure_noise_share, 1.0, sigma)
    noise = coupled_noise(torch.randn_like(target), data.latents[indices])
    level = sigma[:, None, None]
    embeddings = pipeline.text_encoder_2(tokens[indices])[0]
    pooled = pipeline.text_encoder(tokens[indices]).pooler_output
    with torch.autocast("cpu", torch.bfloat16):
        predicted = pipeline.transformer.clean((1 - level) * target + level * noise, source, embeddings, pooled, sigma)
    differs = (target - source).abs().unflatten(2, (3, -1)).amax(2, keepdim=True) > _CHANGE_THRESHOLD
    share = differs.float().mean(dim=(1, 2, 3), keepdim=True).clamp(min=0.01)
    weight = 1 + (config.changed_pixel_weight * differs / share).expand(-1, -1, 3, -1).flatten(2)
    return ((predicted.float() - target).square() * weight).mean()


def _tokens(pipeline: SceneEditPipeline, instructions: list[str]) -> Tensor:
    encoding = pipeline.tokenizer(
        instructions, padding="max_length", max_length=MAX_TOKENS, truncation=True, return_tensors="pt"
    )
    tokens: Tensor = encoding.input_ids
    return tokens


def pack_patches(pictures: Tensor) -> Tensor:
    """Images (B, SIZE, SIZE, 3), uint8, as the pipeline packs them: (B, ACROSS squared, numbers a patch)."""
    planes = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
    latents = nn.functional.pixel_unshuffle(planes, SIZE // ACROSS // 2)
    packed: Tensor = SceneEditPipeline._pack_latents(latents, *latents.shape)
    return packed


def coupled_noise(noise: Tensor, latents: Tensor) -> Tensor:
    """Noise that encodes the teacher's latents; still standard normal noise if they are uniform.

    noise: (B, N, D). latents: (B, 3 + N). Three are in the mean of the patches, in the finest checkerboard of each
    channel; one per patch is in a stripe of its own. Images have almost no energy in these patterns.
    """
    normal_latents = torch.special.ndtri(latents.double().clamp(1e-5, 1 - 1e-5)).to(noise.dtype)
    *global_patterns, cell_pattern = _patterns().to(noise)
    for number, pattern in enumerate(global_patterns):
        projection = (noise @ pattern).sum(1) / noise.shape[1] ** 0.5
        noise = noise + ((normal_latents[:, number] - projection) / noise.shape[1] ** 0.5)[:, None, None] * pattern
    return noise + (normal_latents[:, len(global_patterns) :] - noise @ cell_pattern)[:, :, None] * cell_pattern


def _patterns() -> Tensor:
    """Four orthonormal patterns of the cosine transform, packed like a patch: (4, numbers a patch)."""
    side = SIZE // ACROSS
    waves = torch.cos(torch.pi / side * (torch.arange(side) + 0.5) * torch.arange(side)[:, None])
    waves = waves / waves.norm(dim=1, keepdim=True)
    fine, finest = waves[-2], waves[-1]
    patterns = torch.zeros(4, 3, side, side)
    for channel in range(3):
        patterns[channel, channel] = torch.outer(finest, finest)
    patterns[3, 1] = torch.outer(finest, fine)
    latents = nn.functional.pixel_unshuffle(patterns, side // 2)
    packed: Tensor = SceneEditPipeline._pack_latents(latents, *latents.shape)
    return packed[:, 0]


_THREADS = 2  # as for the committed weights: sums in floating point depend on it


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.tiny_editor.train", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the pipeline (default: the package's)")
    parser.add_argument("--seed", type=int, default=0, help="of the examples and of the training (default: 0)")
    parser.add_argument("--steps", type=at_least_one, help="training steps (default: those of the package's editor)")
    parser.add_argument("--examples", type=at_least_one, help="training examples (default: as of the package's)")
    options = parser.parse_args(arguments)

    defaults, out = TrainingConfig(), options.out or PRETRAINED_PATH
    config = TrainingConfig(
        seed=options.seed, steps=options.steps or defaults.steps, examples=options.examples or defaults.examples
    )
    torch.set_num_threads(_THREADS)
    torch.manual_seed(config.seed)
    began = time.monotonic()
    data = TrainingData.of(config.examples, config.seed)
    print(f"{config.examples} examples rendered in {time.monotonic() - began:.0f} s", flush=True)
    pipeline, losses = untrained_pipeline(), list[float]()
    for step, loss in train_editor(pipeline, data, config):
        losses.append(loss)
        if (step + 1) % 200 == 0:
            recent = sum(losses[-200:]) / 200
            progress = f"step {step + 1} of {config.steps}, loss {recent:.4f}, {time.monotonic() - began:.0f} s"
            print(progress, flush=True)
    pipeline.transformer.half()  # on disk; `load_pretrained` loads full precision
    pipeline.save_pretrained(out)
    size = sum(file.stat().st_size for file in out.rglob("*.safetensors")) / 1e6
    print(f"{out}: {size:.1f} MB in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
