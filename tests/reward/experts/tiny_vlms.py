"""Tiny vision-language models of the real classes with random weights, saved as users' checkpoints are."""

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
    """A LLaVA: CLIP's vision tower on images of 28 x 28 pixels, two layers of Llama.

    spread: factor of the last layer; a larger one spreads the model's probabilities.
    width: of the Llama; the vision tower has half of it.
    """
    tokenizer = _tokenizer({"image_token": "<image>"})
    vision = transformers.CLIPVisionConfig(
        hidden_size=width // 2,
        intermediate_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
    )
    text = transformers.LlamaConfig(**_text(tokenizer, width))
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids("<image>")
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


def tiny_qwen2_vl(folder: Path, spread: float = 1.0, seed: int = 0, mlp_ratio: int = 2) -> None:
    """A Qwen2-VL: images of any size in patches of 14 x 14 pixels, four to a token."""
    tokenizer = _tokenizer(QWEN)
    vision = {"depth": 2, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": mlp_ratio}
    config = transformers.Qwen2VLConfig(
        vision_config=vision, text_config=_rotary(tokenizer, {"mrope_section": [2, 1, 1]}), **_qwen(tokenizer)
    )
    processor = transformers.Qwen2VLProcessor(
        transformers.Qwen2VLImageProcessorPil(size={"shortest_edge": 28 * 28, "longest_edge": 112 * 112}),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(),
        chat_template=_QWEN_TEMPLATE,
    )
    _save(folder, transformers.Qwen2VLForConditionalGeneration, config, processor, spread, seed)


def tiny_qwen2_5_vl(folder: Path, spread: float = 1.0, seed: int = 0) -> None:
    """A Qwen2.5-VL: a layer of attention in windows of 2 x 2 tokens, and one over the whole image."""
    tokenizer = _tokenizer(QWEN)
    vision: dict[str, Any] = {"depth": 2, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2}
    vision |= {"out_hidden_size": 32, "window_size": 56, "fullatt_block_indexes": [1]}
    config = transformers.Qwen2_5_VLConfig(
        vision_config=vision, text_config=_rotary(tokenizer, {"mrope_section": [2, 1, 1]}), **_qwen(tokenizer)
    )
    processor = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessorPil(size={"shortest_edge": 28 * 28, "longest_edge": 112 * 112}),
        tokenizer,
        transformers.Qwen2VLVideoProcessor(),
        chat_template=_QWEN_TEMPLATE,
    )
    _save(folder, transformers.Qwen2_5_VLForConditionalGeneration, config, processor, spread, seed)


def tiny_qwen3_vl(folder: Path, spread: float = 1.0, seed: int = 0) -> None:
    """A Qwen3-VL: patches of 16 x 16 pixels, and features of the first vision layer for the first language layer."""
    tokenizer = _tokenizer(QWEN)
    vision: dict[str, Any] = {"depth": 2, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2}
    vision |= {"out_hidden_size": 32, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
    text = _rotary(tokenizer, {"mrope_section": [2, 1, 1], "mrope_interleaved": True}) | {"head_dim": 8}
    config = transformers.Qwen3VLConfig(vision_config=vision, text_config=text, **_qwen(tokenizer))
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessorPil(
            patch_size=16, size={"shortest_edge": 32 * 32, "longest_edge": 128 * 128}
        ),
        tokenizer,
        transformers.Qwen3VLVideoProcessor(),
        chat_template=_QWEN_TEMPLATE,
    )
    _save(folder, transformers.Qwen3VLForConditionalGeneration, config, processor, spread, seed)


def tiny_qwen3_5(folder: Path, spread: float = 1.0, seed: int = 0) -> None:
    """A Qwen3.5: a layer of full attention and one of linear attention; its template thinks unless told not to."""
    tokenizer = _tokenizer(QWEN)
    vision: dict[str, Any] = {"depth": 2, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2}
    vision |= {"out_hidden_size": 32, "num_position_embeddings": 16}
    text = _rotary(tokenizer, {"mrope_section": [1, 1, 0], "mrope_interleaved": True, "partial_rotary_factor": 0.5})
    text |= {"head_dim": 8, "layer_types": ["full_attention", "linear_attention"]}
    text |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    text |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    config = transformers.Qwen3_5Config(vision_config=vision, text_config=text, **_qwen(tokenizer))
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessorPil(
            patch_size=16, size={"shortest_edge": 32 * 32, "longest_edge": 128 * 128}
        ),
        tokenizer,
        transformers.Qwen3VLVideoProcessor(),
        chat_template=_QWEN_TEMPLATE + THINKING,
    )
    _save(folder, transformers.Qwen3_5ForConditionalGeneration, config, processor, spread, seed)


def tiny_internvl(folder: Path, spread: float = 1.0, seed: int = 0) -> None:
    """An InternVL: up to four tiles of 56 x 56 pixels and a thumbnail of each image, four tokens per tile."""
    names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>"}
    tokenizer = _tokenizer({**names, "video_token": "<video>"})
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


TINY_VLMS = {
    "llava": tiny_llava,
    "qwen2_vl": tiny_qwen2_vl,
    "qwen2_5_vl": tiny_qwen2_5_vl,
    "qwen3_vl": tiny_qwen3_vl,
    "qwen3_5": tiny_qwen3_5,
    "internvl": tiny_internvl,
}

QWEN = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}
_QWEN_TEMPLATE = TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>")


def _qwen(tokenizer: Any) -> dict[str, Any]:
    return {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in QWEN.items()}


def _rotary(tokenizer: Any, sections: dict[str, Any]) -> dict[str, Any]:
    return {**_text(tokenizer), "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **sections}}


def _tokenizer(named: dict[str, str]) -> Any:
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[*SPECIAL, *named.values()],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS * 4, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<|im_end|>",
        model_max_length=2048,
        extra_special_tokens=named,
    )


def _text(tokenizer: Any, width: int = 32) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.02 * (32 / width) ** 0.5,  # sums over more inputs are scaled to 32
    }


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
