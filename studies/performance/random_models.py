"""Models with random weights for measuring: real classes, saved and loaded as users' checkpoints are.

Shapes: `full` is the published model's; `half` has its widths and half of all its layers, and is shown smaller
images where the full ones would take a CPU too long; `tiny` is a few thousand weights. The judge's `half` is far less
than half: a 7B judge would take a CPU minutes a question.

| role | model | `full` | `half` |
|---|---|---|---|
| detector | GroundingDINO, SwinT-OGC | 172 M weights, 800 x 800 | 320 x 320 |
| detector | OWLv2, base, patch 16 | 155 M, 960 x 960 | 480 x 480 |
| features | DINOv3, ViT-B/16 | 86 M, 224 x 224 | 224 x 224 |
| judge | LLaVA 1.5: CLIP-L/14 at 336 x 336, Llama | 7 B | 2 layers each, 0.4 B |

Models of the bundles have the published shapes: MM-GroundingDINO tiny or base, DINOv2 small, base or large, Qwen3-VL 2B
or 8B. Tokenizers know letters only. Random weights take as long as trained ones for one pass; text that is generated is
not representative, since it does not end.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from editcritic.benchmarks.sceneedit import vocabulary as scene
from editcritic.reward.experts.loading.cpu_cores import run_in_turn
from editcritic.reward.experts.loading.local_expert import LocalExpert

Shapes = Literal["tiny", "half", "full"]
Detector = Literal["grounding-dino", "owlv2"]
Role = Literal["detector", "features", "judge"]
SHAPES, DETECTORS, ROLES = get_args(Shapes), get_args(Detector), get_args(Role)


@contextlib.contextmanager
def random_models(
    shapes: Shapes, roles: Sequence[Role], *, detector: Detector = "grounding-dino", **options: Any
) -> Iterator[dict[str, LocalExpert[Any]]]:
    """Role -> expert, of checkpoints in a folder that is gone afterwards. options: of all experts (dtype, device)."""
    import torch
    from transformers.utils import logging

    makers: dict[str, Callable[[Path, Shapes, dict[str, Any]], LocalExpert[Any]]] = {
        "detector": _grounding_dino if detector == "grounding-dino" else _owlv2,
        "features": _dinov3,
        "judge": _llava,
    }
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        expert_options = {"backend": "pil", **options}
        # Where the experts will compute: see `cores`.
        yield run_in_turn(
            lambda: {str(role): makers[role](Path(folder) / role, shapes, expert_options) for role in roles}
        )


def _grounding_dino(folder: Path, shapes: Shapes, options: dict[str, Any]) -> LocalExpert[Any]:
    import transformers

    from editcritic.reward.experts.grounding_dino import GroundingDino

    side = {"tiny": 64, "half": 320, "full": 800}[shapes]
    swin: dict[str, Any] = {
        "tiny": {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2], "window_size": 4},
        "half": {"embed_dim": 96, "depths": [1, 1, 3, 1], "num_heads": [3, 6, 12, 24], "window_size": 7},
        "full": {"embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7},
    }[shapes] | {"out_indices": [2, 3, 4]}
    bert: dict[str, Any] = {"tiny": {**_TINY, "vocab_size": 1040}, "half": {"num_hidden_layers": 6}, "full": {}}[shapes]
    layers = {"tiny": 2, "half": 3, "full": 6}[shapes]
    narrow: dict[str, Any] = dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "d_model"), 64) | {"num_queries": 12}
    config = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(**swin),
        text_config=transformers.BertConfig(**bert),
        encoder_layers=layers,
        decoder_layers=layers,
        **(narrow if shapes == "tiny" else {}),
    )
    pictures = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": side, "longest_edge": side * 5 // 3})
    processor = transformers.GroundingDinoProcessor(pictures, bert_letters())
    _save(folder, transformers.GroundingDinoForObjectDetection, config, processor)
    return GroundingDino(str(folder), **options)


def _owlv2(folder: Path, shapes: Shapes, options: dict[str, Any]) -> LocalExpert[Any]:
    import transformers

    from editcritic.reward.experts.owl import Owl

    side = {"tiny": 64, "half": 480, "full": 960}[shapes]
    base: dict[str, Any] = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
    config = transformers.Owlv2Config(
        vision_config={"image_size": side, "patch_size": 16}
        | {"tiny": _TINY, "half": {**base, "num_hidden_layers": 6}, "full": {**base, "num_hidden_layers": 12}}[shapes],
        text_config={"tiny": _TINY, "half": {"num_hidden_layers": 6}, "full": {"num_hidden_layers": 12}}[shapes],
        projection_dim=32 if shapes == "tiny" else 512,
    )
    pictures = transformers.Owlv2ImageProcessorPil(size={"height": side, "width": side})
    _save(folder, transformers.Owlv2ForObjectDetection, config, transformers.Owlv2Processor(pictures, _clip()))
    return Owl(str(folder), **options)


def _dinov3(folder: Path, shapes: Shapes, options: dict[str, Any]) -> LocalExpert[Any]:
    import transformers

    from editcritic.reward.experts.dino import Dino

    side = 64 if shapes == "tiny" else 224
    base: dict[str, Any] = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
    shape: dict[str, Any] = {
        "tiny": _TINY,
        "half": {**base, "num_hidden_layers": 6},
        "full": {**base, "num_hidden_layers": 12},
    }[shapes]
    config = transformers.DINOv3ViTConfig(patch_size=16, image_size=side, num_register_tokens=4, **shape)
    processor = transformers.ViTImageProcessorPil(size={"height": side, "width": side})
    _save(folder, transformers.DINOv3ViTModel, config, processor)
    return Dino(str(folder), **options)


def _llava(folder: Path, shapes: Shapes, options: dict[str, Any]) -> LocalExpert[Any]:
    import transformers

    from editcritic.reward.experts.vlm import Vlm

    side = 56 if shapes == "tiny" else 336
    words = byte_tokens({"image_token": "<image>"})
    eyes: dict[str, Any] = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16}
    mind: dict[str, Any] = {"hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32}
    layers = {"tiny": (2, 2), "half": (2, 2), "full": (24, 32)}[shapes]
    vision: dict[str, Any] = {**(_TINY if shapes == "tiny" else eyes), "num_hidden_layers": layers[0]}
    text: dict[str, Any] = {**(_TINY if shapes == "tiny" else mind), "num_hidden_layers": layers[1]}
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(image_size=side, patch_size=14, **vision),
        text_config=transformers.LlamaConfig(vocab_size=len(words), max_position_embeddings=_LONGEST, **text),
        image_token_index=words.convert_tokens_to_ids("<image>"),
    )
    square = {"height": side, "width": side}
    pictures = transformers.CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size=square)
    template = (
        "{% for message in messages %}{{ message.role }}:{% for part in message.content %}"
        "{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    processor = transformers.LlavaProcessor(
        pictures,
        words,
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=template,
    )
    _save(folder, transformers.LlavaForConditionalGeneration, config, processor)
    return Vlm(str(folder), **{"dtype": "float32", "min_option_mass": 0.0, **options})


_LONGEST = 16384  # tokens of a judge's prompt: its words are spelled byte by byte

_TINY: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def _save(folder: Path, kind: Any, config: Any, processor: Any) -> None:
    kind(config).save_pretrained(folder)
    processor.save_pretrained(folder)


# -- tokenizers over letters: real classes, and words enough for any phrase --------------------------------------------

_ANSWERS = ("yes", "no", "excellent", "good", "fair", "poor", "bad")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789,!:;'\"-()"


def bert_letters() -> Any:
    """A tokenizer of letters; GroundingDINO's code knows the marks that divide a caption by their numbers in BERT."""
    from transformers import BertTokenizer

    marks = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: ".", 1029: "?"}
    letters = iter([*_LETTERS, *(f"##{letter}" for letter in _LETTERS)])
    words = {marks.get(number) or next(letters, f"[unused{number}]"): number for number in range(1040)}
    return BertTokenizer(vocab=words, do_lower_case=True)


def _clip() -> Any:
    """A token a word that SceneEdit's objects are called by, else one a letter: OWLv2 reads 16 tokens a phrase."""
    from transformers import CLIPTokenizer

    tokens = dict.fromkeys([*_LETTERS, *(f"{letter}</w>" for letter in _LETTERS)])
    merges: list[tuple[str, str]] = []
    for word in (*scene.COLOURS, *scene.SHAPES, *scene.MATERIALS, scene.SIGN, scene.TEXT):
        letters = [*word[:-1], f"{word[-1]}</w>"]
        for end in range(1, len(letters)):
            merges.append(("".join(letters[:end]), letters[end]))
            tokens["".join(letters[: end + 1])] = None
    words = [*tokens, "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(
        vocab={word: number for number, word in enumerate(words)},
        merges=list(dict.fromkeys(merges)),
        model_max_length=16,
        pad_token="!",
    )


def byte_tokens(special: Mapping[str, str]) -> Any:
    """A tokenizer: one token a byte, and the words a judge answers with. special: its tokens for pictures, by name."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    merges = [(word[:end], word[end]) for word in _ANSWERS for end in range(1, len(word))]
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = dict.fromkeys(["<unk>", "<pad>", "<eos>", *special.values(), *letters, *(a + b for a, b in merges)])
    model = tokenizers.models.BPE(
        vocab={word: number for number, word in enumerate(words)}, merges=list(dict.fromkeys(merges)), unk_token="<unk>"
    )
    tokenizer = tokenizers.Tokenizer(model)
    # Real judges all but never begin with a space, while to random weights one spelling is as probable as another.
    tokenizer.normalizer = tokenizers.normalizers.Strip(right=False)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        extra_special_tokens=dict(special),
        model_max_length=_LONGEST,
    )


Bundle = Literal["laptop", "small", "standard"]
BUNDLES: tuple[Bundle, ...] = get_args(Bundle)


def model_roles(bundle: Bundle) -> tuple[Role, ...]:
    """The roles that have a model."""
    return ("detector", "features") if bundle == "laptop" else ("detector", "features", "judge")


_SHRUNK = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}


@contextlib.contextmanager
def bundle_models(
    bundle: Bundle, roles: Sequence[Role], *, shrunk: bool = False
) -> Iterator[dict[str, LocalExpert[Any]]]:
    """Role -> expert, of checkpoints in a folder that is gone afterwards. shrunk: few and narrow layers, for tests."""
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    makers = {"detector": _mm_grounding_dino, "features": _dinov2, "judge": _qwen3_vl}
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        yield {role: makers[role](Path(folder) / role, bundle, shrunk) for role in roles}


def _save_model(folder: Path, kind: Any, config: Any, processor: Any, dtype: Any) -> None:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            kind(config).save_pretrained(folder)
    finally:
        torch.set_default_dtype(before)
    processor.save_pretrained(folder)


def _mm_grounding_dino(folder: Path, bundle: Bundle, shrunk: bool) -> LocalExpert[Any]:
    import torch
    import transformers

    from editcritic.reward.experts.grounding_dino import GroundingDino

    swin: dict[str, Any] = {"embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7}
    if bundle == "standard":
        swin = {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 12}
    side, layers = 800, 6
    if shrunk:
        swin |= {"embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 2], "window_size": 4}
        side, layers = 64, 1
    config = transformers.MMGroundingDinoConfig(
        backbone_config=transformers.SwinConfig(
            **swin, image_size=384 if bundle == "standard" else 224, out_indices=[2, 3, 4]
        ),
        text_config=transformers.BertConfig(vocab_size=1040, **(_SHRUNK if shrunk else {})),
        encoder_layers=layers,
        decoder_layers=layers,
        decoder_bbox_embed_share=False,
        decoder_cls_embed_share=False,
        num_queries=12 if shrunk else 900,
    )
    pictures = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": side, "longest_edge": side * 5 // 3})
    processor = transformers.GroundingDinoProcessor(pictures, bert_letters())
    _save_model(folder, transformers.MMGroundingDinoForObjectDetection, config, processor, torch.float32)
    size = None if shrunk or bundle != "laptop" else 480
    return GroundingDino(str(folder), dtype="float32", size=size)


def _dinov2(folder: Path, bundle: Bundle, shrunk: bool) -> LocalExpert[Any]:
    import torch
    import transformers

    from editcritic.reward.experts.dino import Dino

    shape = {
        "laptop": {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6},
        "small": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
        "standard": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16},
    }[bundle]
    config = transformers.Dinov2Config(image_size=518, patch_size=14, **(_SHRUNK if shrunk else shape))
    pictures = transformers.BitImageProcessorPil(size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224})
    _save_model(folder, transformers.Dinov2Model, config, pictures, torch.float32)
    return Dino(str(folder), dtype="float32")


def _qwen3_vl(folder: Path, bundle: Bundle, shrunk: bool) -> LocalExpert[Any]:
    import torch
    import transformers

    from editcritic.reward.experts.vlm import Vlm

    marks = {
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_start_token": "<|vision_start|>",
        "vision_end_token": "<|vision_end|>",
    }
    words = byte_tokens(marks)
    text: dict[str, Any] = {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
    }
    vision: dict[str, Any] = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16}
    vision |= {"deepstack_visual_indexes": [8, 16, 24]}
    if bundle == "small":
        text |= {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16}
        vision |= {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "deepstack_visual_indexes": [5, 11, 17]}
    if shrunk:
        text |= _SHRUNK | {"num_key_value_heads": 2, "vocab_size": len(words) + 8}
        vision |= {"depth": 2, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2}
        vision |= {"deepstack_visual_indexes": [0]}
    config = transformers.Qwen3VLConfig(
        text_config={**text, "tie_word_embeddings": bundle == "small"},
        vision_config={**vision, "out_hidden_size": text["hidden_size"]},
        tie_word_embeddings=bundle == "small",
        **{f"{name}_id": words.convert_tokens_to_ids(mark) for name, mark in marks.items()},
    )
    template = (
        "{% for message in messages %}{{ message.role }}:{% for part in message.content %}{% if part.type == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    processor = transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessorPil(
            patch_size=16, size={"shortest_edge": 65_536, "longest_edge": 16_777_216}
        ),
        words,
        transformers.Qwen3VLVideoProcessor(),
        chat_template=template,
    )
    _save_model(folder, transformers.Qwen3VLForConditionalGeneration, config, processor, torch.bfloat16)
    return Vlm(str(folder), dtype="bfloat16", min_option_mass=0.0, max_pixels=1_048_576)
