"""Tiny pipelines of diffusers' classes, with random weights, saved and loaded like users' pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLFlux2,
    AutoencoderKLQwenImage,
    DiffusionPipeline,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinPipeline,
    Flux2Pipeline,
    Flux2Transformer2DModel,
    FluxKontextPipeline,
    FluxTransformer2DModel,
    QwenImageEditPipeline,
    QwenImageEditPlusPipeline,
    QwenImageTransformer2DModel,
)
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    PixtralImageProcessorPil,
    PixtralProcessor,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5EncoderModel,
)

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import MAX_TOKENS, tokenizer

from .reward.experts.tiny_vlms import TEMPLATE, tiny_qwen2_5_vl

_HEADS: dict[str, Any] = {"attention_head_dim": 16, "num_attention_heads": 2, "num_layers": 1}


def kontext(folder: Path) -> FluxKontextPipeline:
    """FLUX.1 Kontext's pipeline at 32 px, loaded from a folder that it was saved in."""
    torch.manual_seed(0)
    words = tokenizer()
    ends = {"eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id, "vocab_size": len(words)}
    pipeline = FluxKontextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKL(
            block_out_channels=(4, 4), down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4,
            up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=1, use_quant_conv=False,
            use_post_quant_conv=False, shift_factor=0.06, scaling_factor=1.5,
        ),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                hidden_size=32, intermediate_size=37, num_hidden_layers=1, num_attention_heads=2,
                max_position_embeddings=MAX_TOKENS, bos_token_id=words.eos_token_id, **ends,
            )
        ),
        tokenizer=words,
        text_encoder_2=T5EncoderModel(T5Config(d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4, **ends)),
        tokenizer_2=words,
        transformer=FluxTransformer2DModel(
            patch_size=1, in_channels=16, num_single_layers=1, joint_attention_dim=32, pooled_projection_dim=32,
            guidance_embeds=True, axes_dims_rope=(4, 4, 8), **_HEADS,
        ),
    )  # fmt: skip
    return _loaded(pipeline, folder)


def qwen_edit(folder: Path) -> QwenImageEditPipeline:
    """Qwen-Image-Edit's pipeline. It resizes to a megapixel: call it within `small_qwen`."""
    return _qwen(QwenImageEditPipeline, folder)


def qwen_edit_plus(folder: Path) -> QwenImageEditPlusPipeline:
    """Qwen-Image-Edit-2509's pipeline, which takes several images. Call it within `small_qwen`."""
    return _qwen(QwenImageEditPlusPipeline, folder)


@contextmanager
def small_qwen(side: int = 32) -> Iterator[None]:
    """Have Qwen's pipelines take images to side x side pixels, where they would take them to a megapixel."""
    calculate_dimensions = pipeline_qwenimage_edit.calculate_dimensions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pipeline_qwenimage_edit, "calculate_dimensions", lambda _, ratio: calculate_dimensions(side**2, ratio)
        )
        patch.setattr(
            pipeline_qwenimage_edit_plus,
            "calculate_dimensions",
            lambda _, ratio: calculate_dimensions(side**2, ratio)[:2],
        )
        yield


def flux2(folder: Path) -> Flux2Pipeline:
    """FLUX.2's pipeline, whose text encoder is a Mistral. Pass `text_encoder_out_layers=(1,)`."""
    torch.manual_seed(0)
    words = _with_template()
    words.add_special_tokens({"additional_special_tokens": ["[IMG]", "[IMG_BREAK]", "[IMG_END]"]})
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return _flux2(
        Flux2Pipeline,
        folder,
        guidance_embeds=True,
        text_encoder=Mistral3ForConditionalGeneration(
            Mistral3Config(
                vision_config={"model_type": "pixtral", "image_size": 28, "patch_size": 14, **vision},
                text_config={"model_type": "mistral", "head_dim": 16, **_language(words)},
                image_token_index=words.convert_tokens_to_ids("[IMG]"),
            )
        ),
        tokenizer=PixtralProcessor(
            PixtralImageProcessorPil(size={"longest_edge": 28}, patch_size=14),
            words,
            patch_size=14,
            chat_template=words.chat_template,
        ),
    )


def flux2_klein(folder: Path) -> Flux2KleinPipeline:
    """FLUX.2 Klein's pipeline, whose text encoder is a Qwen3. Pass `text_encoder_out_layers=(1,)`."""
    torch.manual_seed(0)
    words = _with_template()
    encoder = Qwen3ForCausalLM(Qwen3Config(head_dim=16, **_language(words)))
    return _flux2(Flux2KleinPipeline, folder, guidance_embeds=False, text_encoder=encoder, tokenizer=words)


def _qwen(kind: Any, folder: Path) -> Any:
    tiny_qwen2_5_vl(folder / "encoder")
    torch.manual_seed(0)
    processor = Qwen2_5_VLProcessor.from_pretrained(folder / "encoder")
    pipeline = kind(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, shift_terminal=0.02),
        vae=AutoencoderKLQwenImage(
            base_dim=4, z_dim=4, dim_mult=[1, 1], num_res_blocks=1, temperal_downsample=[False],
            latents_mean=[0.1] * 4, latents_std=[1.5] * 4,
        ),
        text_encoder=Qwen2_5_VLForConditionalGeneration.from_pretrained(folder / "encoder"),
        tokenizer=processor.tokenizer,
        processor=processor,
        transformer=QwenImageTransformer2DModel(
            in_channels=16, out_channels=4, joint_attention_dim=32, axes_dims_rope=(8, 4, 4), **_HEADS
        ),
    )  # fmt: skip
    return _loaded(pipeline, folder / "pipeline")


def _flux2(kind: Any, folder: Path, *, guidance_embeds: bool, **parts: Any) -> Any:
    pipeline = kind(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=AutoencoderKLFlux2(
            block_out_channels=(4,) * 4, layers_per_block=1, latent_channels=4, norm_num_groups=1
        ),
        transformer=Flux2Transformer2DModel(
            in_channels=16, num_single_layers=1, joint_attention_dim=32, timestep_guidance_channels=16,
            axes_dims_rope=(4, 4, 4, 4), guidance_embeds=guidance_embeds, **_HEADS,
        ),
        **parts,
    )  # fmt: skip
    return _loaded(pipeline, folder)


def _with_template() -> Any:
    """The tiny editor's tokenizer, with a chat template."""
    words = tokenizer()
    words.chat_template = TEMPLATE
    words.model_max_length = 1024
    return words


def _language(words: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(words), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 1024,
        "bos_token_id": None, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id,
    }  # fmt: skip


def _loaded(pipeline: DiffusionPipeline, folder: Path) -> Any:
    pipeline.save_pretrained(folder)
    return type(pipeline).from_pretrained(folder)
