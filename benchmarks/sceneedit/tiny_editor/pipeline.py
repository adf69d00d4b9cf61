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

from ..words import BACKDROPS, COLOURS, LETTERS, MATERIALS, SHAPES, SIGN, TEXT
from .lessons import ACROSS, SIZE
from .pixels import PixelAutoencoder
from .transformer import SceneEditTransformer

TAUGHT = Path(__file__).parent / "weights"
"""The editor that comes with this package, as `train` made it."""

STEPS = 8
"""Denoiser evaluations a picture."""

WORDS = 24
"""Tokens of an instruction, the end included; what goes beyond is not read."""

_SPOKEN = (
    *("Add", "Remove", "Replace", "Change", "and", "then", "the", "of", "to", "with", "on", "in", "left", "right"),
    *("above", "below", "position", "count", "color", "material", "background", "remain", "unchanged"),
)
_PAD, _END, _UNKNOWN = "<pad>", "</s>", "<unk>"


class SceneEditPipeline(FluxKontextPipeline):
    """`FluxKontextPipeline`, its loop and its callbacks as they are, with the defaults that fit a picture of 32 px.

    Kontext would take a picture to a megapixel, and an instruction to 512 tokens.
    """

    def __init__(  # what it is made of, for diffusers, which compares the types
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
        num_inference_steps: int = STEPS,
        **settings: Any,
    ) -> Any:
        """Edited pictures, as `FluxKontextPipeline.__call__` gives them and with its arguments.

        image: one picture of 32 x 32 or one for each prompt, PIL's or numbers in [0, 1]: arrays (…, 32, 32, 3), tensors
        (…, 3, 32, 32). Raises ValueError for another size, or without one.
        """
        if image is None:
            raise ValueError("an editor needs a picture to edit: pass image=")
        image = _checked(image)
        fitting = {"max_sequence_length": WORDS, "height": SIZE, "width": SIZE, "max_area": SIZE**2}
        settings = fitting | {"_auto_resize": False, "num_inference_steps": num_inference_steps} | settings
        return super().__call__(image, prompt, **settings)


def _checked(image: Any) -> Any:
    """The pictures in the forms that Kontext's loop reads: PIL's, or one batch."""
    pictures = image if isinstance(image, list) else [image]
    if not pictures or any(0 in getattr(one, "shape", ()) for one in pictures):
        raise ValueError("an editor needs a picture to edit, and image= holds none")
    for one in pictures:
        if (size := _size(one)) != (SIZE, SIZE):
            raise ValueError(f"the editor was taught on pictures of {SIZE} x {SIZE} and got {size[0]} x {size[1]}")
    if isinstance(pictures[0], PIL.Image.Image):
        return image
    batches = [one if one.ndim == 4 else one[None] for one in pictures]
    return torch.cat(batches) if isinstance(batches[0], torch.Tensor) else np.concatenate(batches)


def _size(picture: Any) -> tuple[int, int]:
    """Width and height."""
    if isinstance(picture, PIL.Image.Image):
        return picture.size
    if not isinstance(picture, np.ndarray | torch.Tensor) or picture.ndim not in (3, 4):
        shape = getattr(picture, "shape", "")
        raise ValueError(
            f"expected PIL pictures, arrays (…, {SIZE}, {SIZE}, 3) or tensors (…, 3, {SIZE}, {SIZE}), "
            f"got {type(picture).__name__}{f' {tuple(shape)}' if shape else ''}"
        )
    height, width = picture.shape[-2:] if isinstance(picture, torch.Tensor) else picture.shape[-3:-1]
    return width, height


def untaught() -> SceneEditPipeline:
    """An editor that knows nothing yet: torch's random numbers decide where it starts from."""
    words = tokenizer()
    numbers = {"vocab_size": len(words), "pad_token_id": words.pad_token_id}
    numbers["eos_token_id"] = words.eos_token_id
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
                max_position_embeddings=WORDS,
                bos_token_id=words.eos_token_id,
                **numbers,
            )
        ),
        tokenizer=words,
        text_encoder_2=T5EncoderModel(
            T5Config(
                d_model=width, d_kv=32, d_ff=2 * width, num_layers=2, num_heads=4, dropout_rate=0.0,
                feed_forward_proj="gated-gelu", **numbers,
            )
        ),
        tokenizer_2=words,
        transformer=SceneEditTransformer(across=ACROSS, joint_attention_dim=width, pooled_projection_dim=pooled),
    )  # fmt: skip


def tokenizer() -> PreTrainedTokenizerFast:
    """Words, and the letters of what is written in capitals."""
    named = (word for name in (*COLOURS, *SHAPES, *MATERIALS, *BACKDROPS, SIGN, TEXT) for word in name.split())
    known = dict.fromkeys((_PAD, _END, _UNKNOWN, *_SPOKEN, *named, *LETTERS, '"', ","))
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(known)}, unk_token=_UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"[A-Z]?[a-z]+|[A-Z]|\d|[^\s\w]"), "removed", invert=True)
    made.post_processor = processors.TemplateProcessing(single=f"$A {_END}", special_tokens=[(_END, 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=_PAD, eos_token=_END, unk_token=_UNKNOWN, model_max_length=WORDS
    )


def load(path: Path | str = TAUGHT) -> SceneEditPipeline:
    """The taught editor, in full precision. Raises FileNotFoundError where there is none: no hub is asked."""
    if not (Path(path) / "model_index.json").is_file():
        raise FileNotFoundError(f"there is no pipeline in {path}: expected a folder with model_index.json")
    pipeline: SceneEditPipeline = SceneEditPipeline.from_pretrained(path, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
