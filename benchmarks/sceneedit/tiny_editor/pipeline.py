"""The tiny editor as a diffusers pipeline: FLUX.1 Kontext's own, at 32 px."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, FluxKontextPipeline
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedTokenizerFast, T5Config, T5EncoderModel

from ..vocabulary import BACKDROPS, COLOURS, LETTERS, MATERIALS, SHAPES, SIGN, TEXT
from .pixel_autoencoder import PixelAutoencoder
from .training_examples import ACROSS, SIZE
from .transformer import SceneEditTransformer

PRETRAINED_PATH = Path(__file__).parent / "weights"
"""The weights that come with this package, as `train` wrote them."""

NUM_INFERENCE_STEPS = 8
"""Denoiser evaluations per image."""

MAX_TOKENS = 24
"""Tokens of an instruction, the end included; the rest is truncated."""

_VOCABULARY = (
    *("Add", "Remove", "Replace", "Change", "and", "then", "the", "of", "to", "with", "on", "in", "left", "right"),
    *("above", "below", "position", "count", "color", "material", "background", "remain", "unchanged"),
)
_PAD, _END, _UNKNOWN = "<pad>", "</s>", "<unk>"


class SceneEditPipeline(FluxKontextPipeline):
    """`FluxKontextPipeline` with its own loop and callbacks, and with defaults for images of 32 px.

    Kontext's defaults resize images to a megapixel and pad instructions to 512 tokens.
    """

    def __init__(  # diffusers compares the annotated types with the components
        self,
        scheduler: FlowMatchEulerDiscreteScheduler,
        vae: PixelAutoencoder,
        text_encoder: CLIPTextModel,
        tokenizer: PreTrainedTokenizerFast,
        text_encoder_2: T5EncoderModel,
        tokenizer_2: PreTrainedTokenizerFast,
        transformer: SceneEditTransformer,
        image_encoder: None = None,
        feature_extractor: None = None,
    ) -> None:
        super().__init__(scheduler, vae, text_encoder, tokenizer, text_encoder_2, tokenizer_2, transformer)

    def __call__(
        self,
        image: Any = None,
        prompt: str | list[str] | None = None,
        *,
        num_inference_steps: int = NUM_INFERENCE_STEPS,
        **settings: Any,
    ) -> Any:
        """Edited images, with the arguments and the output of `FluxKontextPipeline.__call__`.

        image: one image of 32 x 32 or one for each prompt, PIL's or numbers in [0, 1]: arrays (…, 32, 32, 3), tensors
        (…, 3, 32, 32). Raises ValueError for another size, or without an image.
        """
        if image is None:
            raise ValueError("an editor needs an image to edit: pass image=")
        image = _checked(image)
        fitting = {"max_sequence_length": MAX_TOKENS, "height": SIZE, "width": SIZE, "max_area": SIZE**2}
        settings = fitting | {"_auto_resize": False, "num_inference_steps": num_inference_steps} | settings
        return super().__call__(image, prompt, **settings)


def _checked(image: Any) -> Any:
    """The images in a form that Kontext's loop reads: PIL's, or one batch."""
    pictures = image if isinstance(image, list) else [image]
    if not pictures or any(0 in getattr(picture, "shape", ()) for picture in pictures):
        raise ValueError("an editor needs an image to edit, and image= holds none")
    for picture in pictures:
        if (size := _size(picture)) != (SIZE, SIZE):
            raise ValueError(f"the editor was trained on images of {SIZE} x {SIZE}, got {size[0]} x {size[1]}")
    if isinstance(pictures[0], PIL.Image.Image):
        return image
    batches = [picture if picture.ndim == 4 else picture[None] for picture in pictures]
    return torch.cat(batches) if isinstance(batches[0], torch.Tensor) else np.concatenate(batches)


def _size(picture: Any) -> tuple[int, int]:
    if isinstance(picture, PIL.Image.Image):
        return picture.size
    if not isinstance(picture, np.ndarray | torch.Tensor) or picture.ndim not in (3, 4):
        shape = getattr(picture, "shape", "")
        raise ValueError(
            f"expected PIL images, arrays (…, {SIZE}, {SIZE}, 3) or tensors (…, 3, {SIZE}, {SIZE}), "
            f"got {type(picture).__name__}{f' {tuple(shape)}' if shape else ''}"
        )
    height, width = picture.shape[-2:] if isinstance(picture, torch.Tensor) else picture.shape[-3:-1]
    return width, height


def untrained_pipeline() -> SceneEditPipeline:
    """An untrained editor; torch's global generator decides its weights."""
    prompt_tokenizer = tokenizer()
    numbers = {"vocab_size": len(prompt_tokenizer), "pad_token_id": prompt_tokenizer.pad_token_id}
    numbers["eos_token_id"] = prompt_tokenizer.eos_token_id
    pooled, width = 64, 128
    return SceneEditPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=8.0),
        vae=PixelAutoencoder(),
        text_encoder=CLIPTextModel(
            CLIPTextConfig(
                hidden_size=pooled,
                intermediate_size=2 * pooled,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=MAX_TOKENS,
                bos_token_id=prompt_tokenizer.eos_token_id,
                **numbers,
            )
        ),
        tokenizer=prompt_tokenizer,
        text_encoder_2=T5EncoderModel(
            T5Config(
                d_model=width, d_kv=32, d_ff=2 * width, num_layers=2, num_heads=4, dropout_rate=0.0,
                feed_forward_proj="gated-gelu", **numbers,
            )
        ),
        tokenizer_2=prompt_tokenizer,
        transformer=SceneEditTransformer(across=ACROSS, joint_attention_dim=width, pooled_projection_dim=pooled),
    )  # fmt: skip


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of words, and of single letters for text in capitals."""
    words = (word for name in (*COLOURS, *SHAPES, *MATERIALS, *BACKDROPS, SIGN, TEXT) for word in name.split())
    vocabulary = dict.fromkeys((_PAD, _END, _UNKNOWN, *_VOCABULARY, *words, *LETTERS, '"', ","))
    tokenizer_model = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token=_UNKNOWN)
    )
    tokenizer_model.pre_tokenizer = pre_tokenizers.Split(
        Regex(r"[A-Z]?[a-z]+|[A-Z]|\d|[^\s\w]"), "removed", invert=True
    )
    tokenizer_model.post_processor = processors.TemplateProcessing(single=f"$A {_END}", special_tokens=[(_END, 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_model,
        pad_token=_PAD,
        eos_token=_END,
        unk_token=_UNKNOWN,
        model_max_length=MAX_TOKENS,
    )


def load_pretrained(path: Path | str = PRETRAINED_PATH) -> SceneEditPipeline:
    """The trained editor, in full precision. Raises FileNotFoundError for a folder without one; uses no hub."""
    if not (Path(path) / "model_index.json").is_file():
        raise FileNotFoundError(f"no pipeline in {path}: expected a folder with model_index.json")
    pipeline: SceneEditPipeline = SceneEditPipeline.from_pretrained(path, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
