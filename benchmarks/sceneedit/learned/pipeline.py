"""The tiny editor as a diffusers pipeline: FLUX.1 Kontext's own, at 32 px."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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

    def __call__(self, image: Any = None, prompt: str | list[str] | None = None, **settings: Any) -> Any:
        """Edited pictures, as `FluxKontextPipeline.__call__` gives them and with its arguments.

        image: one picture of 32 x 32, or one for each prompt. Raises ValueError for another size, or without one.
        """
        if image is None:
            raise ValueError("an editor needs a picture to edit: pass image=")
        height, width = self.image_processor.get_default_height_width(image[0] if isinstance(image, list) else image)
        if (height, width) != (SIZE, SIZE):
            raise ValueError(f"the editor was taught on pictures of {SIZE} x {SIZE} and got {width} x {height}")
        fitting = {"num_inference_steps": STEPS, "max_sequence_length": WORDS, "height": SIZE, "width": SIZE}
        return super().__call__(image, prompt, **fitting | {"max_area": SIZE**2, "_auto_resize": False} | settings)


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
    """The taught editor, in full precision. Raises OSError where there is none."""
    pipeline: SceneEditPipeline = SceneEditPipeline.from_pretrained(path)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
