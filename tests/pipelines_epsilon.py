"""Tiny pipelines of the epsilon-predicting editors and of OmniGen: diffusers' classes with random weights, saved and
loaded like users' pipelines.
"""

import string
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    LEditsPPPipelineStableDiffusion,
    LEditsPPPipelineStableDiffusionXL,
    OmniGenPipeline,
    OmniGenTransformer2DModel,
    StableDiffusionInstructPix2PixPipeline,
    StableDiffusionXLInstructPix2PixPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer, LlamaTokenizer

SIZE = 32
"""Of the images, in pixels: what the U-Nets and their time embeddings were made for."""
_BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}  # Stable Diffusion's
_LETTERS = string.ascii_letters + string.digits + string.punctuation


def instruct(folder: Path) -> StableDiffusionInstructPix2PixPipeline:
    """InstructPix2Pix on Stable Diffusion, without a safety checker."""
    scheduler = EulerAncestralDiscreteScheduler(**_BETAS, timestep_spacing="linspace")
    return _editor(StableDiffusionInstructPix2PixPipeline, folder, partial(_unet, 8), scheduler)


def instruct_xl(folder: Path) -> StableDiffusionXLInstructPix2PixPipeline:
    """InstructPix2Pix on Stable Diffusion XL."""
    scheduler = EulerAncestralDiscreteScheduler(**_BETAS, timestep_spacing="leading", steps_offset=1)
    return _editor(StableDiffusionXLInstructPix2PixPipeline, folder, partial(_unet, 8, xl=True), scheduler)


def ledits(folder: Path) -> LEditsPPPipelineStableDiffusion:
    """LEDITS++ on Stable Diffusion: with cross-attention where it is expected, at a quarter of the latents' width."""
    return _editor(LEditsPPPipelineStableDiffusion, folder, partial(_unet, 4, plain=2), _multistep())


def ledits_xl(folder: Path) -> LEditsPPPipelineStableDiffusionXL:
    """LEDITS++ on Stable Diffusion XL."""
    return _editor(LEditsPPPipelineStableDiffusionXL, folder, partial(_unet, 4, plain=2, xl=True), _multistep())


def _editor(kind: Any, folder: Path, unet: Callable[[], UNet2DConditionModel], scheduler: Any) -> Any:
    torch.manual_seed(0)
    parts: dict[str, Any] = {"vae": _autoencoder(2), "text_encoder": CLIPTextModel(_words()), "tokenizer": _tokenizer()}
    if "XL" in kind.__name__:
        parts |= {"text_encoder_2": CLIPTextModelWithProjection(_words()), "tokenizer_2": _tokenizer()}
    else:
        parts |= {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    return _loaded(kind(unet=unet(), scheduler=scheduler, **parts), folder)


def omnigen(folder: Path) -> OmniGenPipeline:
    """OmniGen, with the scheduler's settings of the released model: its time runs from 0 to 1."""
    torch.manual_seed(0)
    words = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for letter in (*_LETTERS, "▁"):
        words[letter] = len(words)
    pipeline = OmniGenPipeline(
        transformer=OmniGenTransformer2DModel(
            in_channels=4, patch_size=2, hidden_size=16, num_attention_heads=2, num_key_value_heads=2,
            intermediate_size=32, num_layers=1, pad_token_id=0, vocab_size=len(words), pos_embed_max_size=8,
            time_step_dim=16, rope_scaling={"short_factor": [1.0] * 4, "long_factor": [1.0] * 4},
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(invert_sigmas=True, num_train_timesteps=1),
        vae=_autoencoder(4),  # an eighth of the width, as the pipeline assumes when it counts tokens
        tokenizer=LlamaTokenizer(vocab=words, merges=[]),
    )  # fmt: skip
    return _loaded(pipeline, folder)


def _loaded(pipeline: Any, folder: Path) -> Any:
    pipeline.save_pretrained(folder)
    loaded = type(pipeline).from_pretrained(folder)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def _autoencoder(levels: int) -> AutoencoderKL:
    """As sure of itself as real ones: what it draws differs from the mean by less than a millionth."""
    autoencoder = AutoencoderKL(
        block_out_channels=(4,) * levels, down_block_types=("DownEncoderBlock2D",) * levels, latent_channels=4,
        up_block_types=("UpDecoderBlock2D",) * levels, norm_num_groups=1, sample_size=SIZE, scaling_factor=0.18215,
    )  # fmt: skip
    with torch.no_grad():
        autoencoder.quant_conv.weight[4:] = 0
        autoencoder.quant_conv.bias[4:] = -30
    return autoencoder


def _unet(channels: int, *, plain: int = 1, xl: bool = False) -> UNet2DConditionModel:
    """With cross-attention after so many `plain` levels."""
    options: dict[str, Any] = {}
    if xl:
        options = {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 6 * 8 + 32,
        }
    return UNet2DConditionModel(
        sample_size=SIZE // 2, in_channels=channels, out_channels=4, layers_per_block=1, norm_num_groups=2,
        block_out_channels=(4,) * plain + (8,), attention_head_dim=2, cross_attention_dim=64 if xl else 32,
        down_block_types=("DownBlock2D",) * plain + ("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D", *("UpBlock2D",) * plain), **options,
    )  # fmt: skip


def _words() -> CLIPTextConfig:
    return CLIPTextConfig(
        hidden_size=32, intermediate_size=37, num_hidden_layers=2, num_attention_heads=2, projection_dim=32,
        max_position_embeddings=77, vocab_size=2 + 2 * len(_LETTERS), bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip


def _tokenizer() -> CLIPTokenizer:
    tokens = ["<|startoftext|>", "<|endoftext|>", *_LETTERS, *(f"{letter}</w>" for letter in _LETTERS)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def _multistep() -> DPMSolverMultistepScheduler:
    return DPMSolverMultistepScheduler(**_BETAS, steps_offset=1, algorithm_type="sde-dpmsolver++", solver_order=2)
