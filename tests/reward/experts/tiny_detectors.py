"""Tiny random checkpoints of the real detectors, as users load them: configuration, weights, processor.

With initial weights outputs hardly depend on the input. These are scaled until images and words make a difference,
which tests assert first.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import transformers

from editcritic.reward import Image
from editcritic.reward.queries import Detect, Detections

WORDS = (
    *("a", "an", "the", "cat", "dog", "cup", "red", "blue", "round", "teapot", "on", "table", "left", "of", "big"),
    *("hat", "with", "green", "small"),
)


def scene(seed: int, size: tuple[int, int]) -> Image:
    """An image of soft blobs, different for every seed."""
    noise = np.random.default_rng(seed).random((size[1], size[0], 3))
    soft = cv2.GaussianBlur(noise, (0, 0), 6).reshape(noise.shape)
    return Image.of((255 * (soft - soft.min()) / max(np.ptp(soft), 1e-9)).astype(np.uint8))


def detections(expert: Any, *queries: Detect) -> list[Detections]:
    """The detections; asserts that there are no failures."""
    answers = expert(queries)
    for answer in answers:
        assert isinstance(answer, Detections), answer
    return list(answers)


def furthest(one: Detections, other: Detections, *, labels: bool = True) -> float:
    """The largest distance of a box to the nearest of the other set, in fractions of the sides and in score."""
    assert len(one.boxes) == len(other.boxes) > 0
    first, second = (np.array([[b.cx, b.cy, b.w, b.h, b.score] for b in each.boxes]) for each in (one, other))
    apart = np.abs(first[:, None] - second).max(2)
    if labels:
        apart += np.array([[a.label != b.label for b in other.boxes] for a in one.boxes])
    return float(max(apart.min(0).max(), apart.min(1).max()))


def apart(answers: Sequence[Any], expected: Sequence[Detections]) -> float:
    """The largest error of any answer."""
    return max(furthest(one, other) for one, other in zip(answers, expected, strict=True))


def bert_tokenizer() -> Any:
    """A BERT tokenizer. Grounding DINO's code hard-codes the ids of [CLS], [SEP], the dot and the question mark."""

    fixed = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", 1012: ".", 1029: "?", 1011: "-"}
    free_ids = iter(number for number in range(1040) if number not in fixed)
    table = {next(free_ids): word for word in (*WORDS, "##s", *"xyz[]!")}
    table |= {number: f"[unused{number}]" for number in free_ids} | fixed
    return transformers.BertTokenizer(
        vocab={word: number for number, word in sorted(table.items())}, do_lower_case=True
    )


def grounding_dino(folder: Path, *, mm: bool = False) -> Path:
    """A GroundingDINO, or an MM-GroundingDINO; one megabyte, 15 ms per query."""

    torch.manual_seed(1)
    kind = "MMGroundingDino" if mm else "GroundingDino"
    swin: Any = transformers.SwinConfig  # its `out_indices` are unknown to type checkers
    backbone = swin(
        image_size=64, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 2, 2, 2], window_size=4, out_indices=[2, 3, 4]
    )
    text = transformers.BertConfig(
        vocab_size=1040, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    each = {"layers": 2, "ffn_dim": 64, "attention_heads": 4, "n_points": 2}
    config = getattr(transformers, f"{kind}Config")(
        **{f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in each.items()},
        backbone_config=backbone,
        text_config=text,
        d_model=64,
        num_queries=30,
    )
    model = getattr(transformers, f"{kind}ForObjectDetection")(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            fused = any(part in name for part in ("text", "vision_proj", "sampling", "attention_weights", "fusion"))
            if weight.ndim > 1 and "embeddings" in name:
                weight.normal_(0, 1)
            elif weight.ndim > 1 and fused:
                weight.normal_(0, (2 / weight.shape[-1]) ** 0.5)
            elif name.endswith(("vision_param", "text_param")):
                weight.fill_(1)
        for part in model.modules():
            if type(part).__name__.endswith("MLPPredictionHead"):
                for layer in part.layers:
                    layer.weight.normal_(0, layer.in_features**-0.5)
            if mm and type(part).__name__.endswith("ContrastiveEmbedding"):
                part.bias.fill_(-1)
        if not mm:
            model.model.decoder.layer_norm.weight.fill_(0.1)
    model.save_pretrained(folder)
    pictures = transformers.GroundingDinoImageProcessorPil(size={"shortest_edge": 64, "longest_edge": 112})
    transformers.GroundingDinoProcessor(pictures, bert_tokenizer()).save_pretrained(folder)
    return folder


def clip_tokenizer(longest: int) -> Any:
    """A CLIP tokenizer: words of `WORDS` are one token, others single letters; the end token comes last."""

    letters = [chr(code) for code in range(33, 127)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    merges: dict[Any, None] = {}
    for word in WORDS:
        prefix, *rest = [*word[:-1], f"{word[-1]}</w>"]
        for letter in rest:
            merges[prefix, letter] = None
            prefix += letter
            tokens.append(prefix)
    tokens = [*dict.fromkeys(tokens), "<|startoftext|>", "<|endoftext|>"]
    return transformers.CLIPTokenizer(
        vocab={token: number for number, token in enumerate(tokens)},
        merges=list(merges),
        pad_token="!",
        model_max_length=longest,
    )


def owl(folder: Path, *, v2: bool = False) -> Path:
    """An OWL-ViT, which resizes images to a square, or an OWLv2, which pads them."""

    torch.manual_seed(1)
    kind = "Owlv2" if v2 else "OwlViT"
    tokenizer = clip_tokenizer(16)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64}
    ends = {"bos_token_id": len(tokenizer) - 2, "eos_token_id": len(tokenizer) - 1}
    config = getattr(transformers, f"{kind}Config")(
        text_config={**sizes, **ends, "vocab_size": len(tokenizer), "max_position_embeddings": 16},
        vision_config={**sizes, "image_size": 48, "patch_size": 8},
        projection_dim=32,
    )
    model = getattr(transformers, f"{kind}ForObjectDetection")(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0, 1 if "embedding" in name else weight[0].numel() ** -0.5)
        model.class_head.logit_scale.bias.fill_(2)
    model.save_pretrained(folder)
    pictures = getattr(transformers, f"{kind}ImageProcessorPil")(size={"height": 48, "width": 48})
    getattr(transformers, f"{kind}Processor")(pictures, tokenizer).save_pretrained(folder)
    return folder


def sam3(folder: Path) -> Path:
    """A SAM 3 whose images are 56 pixels a side; its processor needs torchvision, as the real one does."""

    torch.manual_seed(1)
    tokenizer = clip_tokenizer(32)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    ends = {"bos_token_id": len(tokenizer) - 2, "eos_token_id": len(tokenizer) - 1}
    backbone: dict[str, Any] = {**sizes, "model_type": "sam3_vit_model", "num_hidden_layers": 2, "image_size": 56}
    backbone |= {"patch_size": 7, "window_size": 4, "global_attn_indexes": [1], "pretrain_image_size": 28}
    features = {"fpn_hidden_size": 32, "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]]}
    text: dict[str, Any] = {**sizes, **ends, "model_type": "clip_text_model", "vocab_size": len(tokenizer)}
    text |= {"num_hidden_layers": 2, "max_position_embeddings": 32, "projection_dim": 32}
    config = transformers.Sam3Config(
        vision_config={"backbone_config": backbone, **features},
        text_config=text,
        geometry_encoder_config={**sizes, "num_layers": 1},
        detr_encoder_config={**sizes, "num_layers": 2},
        detr_decoder_config={**sizes, "num_layers": 2, "num_queries": 12},
        mask_decoder_config={"hidden_size": 32, "num_attention_heads": 2},
    )
    model = transformers.Sam3Model(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0, 1 if "embed" in name and weight.ndim == 2 else (2 / weight[0].numel()) ** 0.5)
    model.save_pretrained(folder)
    pictures = transformers.Sam3ImageProcessor(size={"height": 56, "width": 56})
    transformers.Sam3Processor(pictures, tokenizer).save_pretrained(folder)
    return folder
