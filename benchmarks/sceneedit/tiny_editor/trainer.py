"""How the tiny editor is taught.

Flow matching with a prediction of the clean picture: at noise level sigma the editor sees
`(1 - sigma) * target + sigma * noise` and says what the target is. Where source and target differ weighs more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .lessons import ACROSS, SIZE, lessons_as_arrays
from .pipeline import WORDS, SceneEditPipeline

_CHANGED = 0.06  # on a scale from -1 to 1; what differs by more than that is to be drawn


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how hard.

    pure: share of examples that are nothing but noise. changed: what the pixels to be changed weigh together, where all
    of a picture weighs 1: a small thing as much as a whole backdrop. rate: of AdamW; Muon, for the matrices of the
    blocks, has twice that.
    """

    lessons: int = 100_000
    steps: int = 6_800
    batch: int = 64
    rate: float = 1e-3
    pure: float = 0.3
    changed: float = 0.5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Taught:
    """What is taught. sources, targets: (N, SIZE, SIZE, 3) of bytes. whims: (N, k), each in (0, 1)."""

    sources: Tensor
    targets: Tensor
    whims: Tensor
    instructions: list[str]

    @staticmethod
    def of(count: int, seed: int = 0) -> Taught:
        """So many lessons."""
        *arrays, instructions = lessons_as_arrays(count, seed)
        sources, targets, whims = (torch.from_numpy(one) for one in arrays)
        return Taught(sources, targets, whims, instructions)


def teach(pipeline: SceneEditPipeline, taught: Taught, settings: Settings) -> Iterator[tuple[int, float]]:
    """Teach a pipeline in place; yields the number of each step and its loss. At the end it has the running mean of
    the weights.
    """
    torch.manual_seed(settings.seed)
    parts = nn.ModuleList([pipeline.transformer, pipeline.text_encoder, pipeline.text_encoder_2]).train()
    matrices = [one for name, one in pipeline.transformer.named_parameters() if "blocks." in name and one.ndim == 2]
    others = [one for one in parts.parameters() if not any(one is matrix for matrix in matrices)]
    optimizers: Sequence[torch.optim.Optimizer] = (
        torch.optim.Muon(matrices, lr=2 * settings.rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=settings.rate, betas=(0.9, 0.99), weight_decay=0.01),
    )
    rates = [torch.optim.lr_scheduler.LambdaLR(one, lambda step: _pace(step, settings.steps)) for one in optimizers]
    # A running mean over about the last thousand steps (0.998 ** 1000 is 0.14); a short training keeps its first too.
    mean = torch.optim.swa_utils.AveragedModel(parts, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.998))
    tokens = _tokens(pipeline, taught.instructions)
    order = torch.empty(0, dtype=torch.long)
    for step in range(settings.steps):
        if len(order) < settings.batch:
            order = torch.randperm(len(tokens))
        chosen, order = order[: settings.batch], order[settings.batch :]
        loss = _loss(pipeline, taught, tokens, chosen, settings)
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


def _pace(step: int, steps: int) -> float:
    """The share of the full rate: up in a hundred steps, then down to nothing."""
    return float(min(1.0, (step + 1) / 100) * (1 - step / steps) ** 0.7)


def _loss(pipeline: SceneEditPipeline, taught: Taught, tokens: Tensor, chosen: Tensor, settings: Settings) -> Tensor:
    source, target = patches(taught.sources[chosen]), patches(taught.targets[chosen])
    shift = pipeline.scheduler.config.shift
    sigma = 0.05 + 0.95 * torch.rand(len(chosen))
    sigma = shift * sigma / (1 + (shift - 1) * sigma)
    sigma = torch.where(torch.rand(len(chosen)) < settings.pure, 1.0, sigma)
    noise = coupled(torch.randn_like(target), taught.whims[chosen])
    level = sigma[:, None, None]
    words = pipeline.text_encoder_2(tokens[chosen])[0]
    pooled = pipeline.text_encoder(tokens[chosen]).pooler_output
    with torch.autocast("cpu", torch.bfloat16):
        seen = pipeline.transformer.clean((1 - level) * target + level * noise, source, words, pooled, sigma)
    differs = (target - source).abs().unflatten(2, (3, -1)).amax(2, keepdim=True) > _CHANGED
    share = differs.float().mean(dim=(1, 2, 3), keepdim=True).clamp(min=0.01)
    weight = 1 + (settings.changed * differs / share).expand(-1, -1, 3, -1).flatten(2)
    return ((seen.float() - target).square() * weight).mean()


def _tokens(pipeline: SceneEditPipeline, instructions: list[str]) -> Tensor:
    found = pipeline.tokenizer(
        instructions, padding="max_length", max_length=WORDS, truncation=True, return_tensors="pt"
    )
    tokens: Tensor = found.input_ids
    return tokens


def patches(pictures: Tensor) -> Tensor:
    """Pictures (B, SIZE, SIZE, 3) of bytes as the pipeline packs them: (B, ACROSS squared, numbers a patch)."""
    planes = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
    latents = nn.functional.pixel_unshuffle(planes, SIZE // ACROSS // 2)
    packed: Tensor = SceneEditPipeline._pack_latents(latents, *latents.shape)
    return packed


def coupled(noise: Tensor, whims: Tensor) -> Tensor:
    """Noise that says what the teacher's whims were, and is standard normal noise still if they are uniform.

    noise: (B, N, D). whims: (B, 3 + N). Three stand in the mean of the patches, in the finest checkerboard of each
    channel; one a patch in a stripe of its own. Pictures hold next to nothing of these patterns.
    """
    wanted = torch.special.ndtri(whims.double().clamp(1e-5, 1 - 1e-5)).to(noise.dtype)
    *whole, own = _patterns().to(noise)
    for number, pattern in enumerate(whole):
        there = (noise @ pattern).sum(1) / noise.shape[1] ** 0.5
        noise = noise + ((wanted[:, number] - there) / noise.shape[1] ** 0.5)[:, None, None] * pattern
    return noise + (wanted[:, len(whole) :] - noise @ own)[:, :, None] * own


def _patterns() -> Tensor:
    """Four of the cosine transform's, of length 1 and at right angles, packed like a patch: (4, numbers a patch)."""
    side = SIZE // ACROSS
    waves = torch.cos(torch.pi / side * (torch.arange(side) + 0.5) * torch.arange(side)[:, None])
    waves = waves / waves.norm(dim=1, keepdim=True)
    fine, finest = waves[-2], waves[-1]
    drawn = torch.zeros(4, 3, side, side)
    for channel in range(3):
        drawn[channel, channel] = torch.outer(finest, finest)
    drawn[3, 1] = torch.outer(finest, fine)
    latents = nn.functional.pixel_unshuffle(drawn, side // 2)
    packed: Tensor = SceneEditPipeline._pack_latents(latents, *latents.shape)
    return packed[:, 0]
