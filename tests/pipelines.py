"""Tiny pipelines of diffusers' own classes, with random weights, saved and loaded as users load theirs."""

from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxKontextPipeline,
    FluxTransformer2DModel,
)
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from editcritic.benchmarks.sceneedit.learned.pipeline import WORDS, tokenizer


def kontext(folder: Path) -> FluxKontextPipeline:
    """FLUX.1 Kontext's pipeline at 32 px, loaded from a folder that it was saved in."""
    torch.manual_seed(0)
    words = tokenizer()
    ends = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id, "vocab_size": len(words)}
    made = FluxKontextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKL(
            block_out_channels=(4, 4), down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4,
            up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=1, use_quant_conv=False,
            use_post_quant_conv=False, shift_factor=0.06, scaling_factor=1.5,
        ),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                hidden_size=32, intermediate_size=37, num_hidden_layers=1, num_attention_heads=2,
                max_position_embeddings=WORDS, bos_token_id=words.eos_token_id, **ends,
            )
        ),
        tokenizer=words,
        text_encoder_2=T5EncoderModel(T5Config(d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4, **ends)),
        tokenizer_2=words,
        transformer=FluxTransformer2DModel(
            patch_size=1, in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=16,
            num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=True,
            axes_dims_rope=(4, 4, 8),
        ),
    )  # fmt: skip
    made.save_pretrained(folder)
    loaded: FluxKontextPipeline = FluxKontextPipeline.from_pretrained(folder)
    return loaded
