"""Tiny vision-language models of the real classes with random weights, saved as users' checkpoints are."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

CORPUS = [
    "Is the red circle left of the blue square? Answer yes or no. Yes. No. yes no YES NO",
    "How well does the picture follow the instruction? Give a grade from 0 to 10: 1 2 3 4 5 6 7 8 9 10.",
    "poor fair good excellent very good terrible, a score of 7 out of 10",
    '{"reasoning": "the colour changed and the rest stayed", "score": 8}',
    "system user assistant tool judge edit image before after",
]
SPECIAL = ["<unk>", "<pad>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools:{% for tool in tools %} {{ tool | tojson }}{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content -%}
{%- if part.type == 'image' %}IMAGE{% elif part.type == 'text' %}{{ part.text }}{% endif -%}
{%- endfor -%}
{%- endif -%}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""

THINKING = """\
{%- if add_generation_prompt %}{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% else %}<think>
{% endif %}{% endif -%}
"""


def tiny_llava(folder: Path, spread: float = 1.0, seed: int = 0, width: int = 32) -> None:
    """A LLaVA: CLIP's vision tower on images of 28 x 28 pixels, two layers of Llama. spread: factor of the last layer;
    a larger one spreads the model's probabilities. width: of the Llama; the vision tower has half of it."""
    tokenizer = made_tokenizer({"image_token": "<image>"})
    vision = {"hidden_size": width // 2, "intermediate_size": width, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**vision, image_size=28, patch_size=14),
        text_config=transformers.LlamaConfig(**_text(tokenizer, width)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE.replace("IMAGE", "<image>"),
    )
    _save(folder, transformers.LlavaForConditionalGeneration, config, processor, spread, seed)


QWEN = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"}
QWEN |= {"vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>"}
QWEN_TEMPLATE = TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")
_VISION = {"depth": 2, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
_LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
QWENS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # Images of any size in patches of 14 x 14 pixels, four to a token.
    "Qwen2VL": ({"depth": 2, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}, {}, {}),
    # A layer of attention in windows of 2 x 2 tokens, and one over the whole image.
    "Qwen2_5_VL": ({**_VISION, "window_size": 56, "fullatt_block_indexes": [1]}, {}, {}),
    # Patches of 16 x 16 pixels, and features of the first vision layer for the first language layer.
    "Qwen3VL": (
        {**_VISION, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]},
        {"head_dim": 8},
        {"mrope_interleaved": True},
    ),
    # A layer of full attention and one of linear attention; its template thinks unless told not to.
    "Qwen3_5": (
        {**_VISION, "num_position_embeddings": 16},
        {"head_dim": 8, "layer_types": ["full_attention", "linear_attention"], **_LINEAR},
        {"mrope_section": [1, 1, 0], "mrope_interleaved": True, "partial_rotary_factor": 0.5},
    ),
}
"""By kind: the configurations of the vision tower, of the language model, and of its rotary positions."""


def qwen_config(kind: str, tokenizer: Any, vision: dict[str, Any], **text: Any) -> Any:
    """vision, text: what differs in the parts."""
    own, words, rope = QWENS[kind]
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], **rope}
    ids = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in QWEN.items()}
    parts = {"vision_config": {**own, **vision}, "text_config": {**_text(tokenizer), "rope_parameters": rope, **words}}
    parts["text_config"] |= text
    return getattr(transformers, f"{kind}Config")(**parts, **ids)


def tiny_qwen(folder: Path, kind: str, spread: float = 1.0, seed: int = 0, **vision: Any) -> None:
    """One of `QWENS`. vision: what differs in its configuration of the tower."""
    tokenizer, patch, is_3 = made_tokenizer(QWEN), 16 if "3" in kind else 14, "3" in kind
    size = {"shortest_edge": (2 * patch) ** 2, "longest_edge": (8 * patch) ** 2}
    processor = getattr(transformers, f"{'Qwen3VL' if is_3 else kind}Processor")(
        transformers.Qwen2VLImageProcessorPil(patch_size=patch, size=size),
        tokenizer,
        (transformers.Qwen3VLVideoProcessor if is_3 else transformers.Qwen2VLVideoProcessor)(),
        chat_template=QWEN_TEMPLATE + THINKING * (kind == "Qwen3_5"),
    )
    config = qwen_config(kind, tokenizer, vision)
    _save(folder, getattr(transformers, f"{kind}ForConditionalGeneration"), config, processor, spread, seed)


tiny_qwen2_5_vl = partial(tiny_qwen, kind="Qwen2_5_VL")
tiny_qwen3_vl = partial(tiny_qwen, kind="Qwen3VL")


def tiny_internvl(folder: Path, spread: float = 1.0, seed: int = 0) -> None:
    """An InternVL: up to four tiles of 56 x 56 pixels and a thumbnail of each image, four tokens per tile."""
    names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    tokenizer = made_tokenizer({**names, "video_token": "<video>"})
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.InternVLConfig(
        vision_config={**vision, "image_size": [56, 56], "patch_size": [14, 14]},
        text_config={"model_type": "qwen2", **_text(tokenizer)},
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessorPil(size={"height": 56, "width": 56}, crop_to_patches=True, max_patches=4),
        tokenizer,
        transformers.InternVLVideoProcessor(size={"height": 56, "width": 56}),
        image_seq_length=4,
        chat_template=TEMPLATE.replace("IMAGE", "<IMG_CONTEXT>"),
    )
    _save(folder, transformers.InternVLForConditionalGeneration, config, processor, spread, seed)


TINY_VLMS: dict[str, Callable[..., Any]] = {
    "llava": tiny_llava,
    **{kind: partial(tiny_qwen, kind=kind) for kind in QWENS},
    "internvl": tiny_internvl,
}


def trained_tokens(size: int, special: list[str], texts: list[str], **model: Any) -> Any:
    """Byte-level BPE with tokens of these texts."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(**model))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    trained.train_from_iterator(texts, trainer)
    return trained


def made_tokenizer(named: dict[str, str]) -> Any:
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained_tokens(400, [*SPECIAL, *named.values()], CORPUS * 4, unk_token="<unk>"),
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<|im_end|>",
        model_max_length=2048,
        extra_special_tokens=named,
    )


def _text(tokenizer: Any, width: int = 32) -> dict[str, Any]:
    sizes = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 2048, "vocab_size": len(tokenizer)}
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    return {**sizes, **ends, "initializer_range": 0.02 * (32 / width) ** 0.5}  # sums over more inputs are scaled to 32


def _save(folder: Path, kind: Any, config: Any, processor: Any, spread: float, seed: int) -> None:
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = kind(config).eval()
    torch.random.set_rng_state(state)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.mul_(5.0)  # with the initial 0.02 the output hardly depends on the input
            if name.startswith("lm_head"):
                weight.mul_(spread)
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=processor.tokenizer.eos_token_id, pad_token_id=processor.tokenizer.pad_token_id
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
