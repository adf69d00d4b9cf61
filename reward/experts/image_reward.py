"""ImageReward: human preference for an image given its prompt (Xu et al., "ImageReward", 2023).

The model is transformers' BLIP: a ViT-L/16 vision tower, a BERT with cross-attention, and a head. The authors' code
builds on BLIP's first release: parameter names and one constant of the vision tower differ from transformers'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from ..queries.expert import ExpertDown
from ..queries.kinds import Rate
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.hub_files import check_load_options, find_file, load_state, read_state, score_head, strip_prefix
from .loading.image_rater import PromptedImageRater

FILE = "ImageReward.pt"
HEAD_WIDTH = 64
"""Width of an attention head in both towers: ViT-L has 16 heads, BERT 12."""

_RENAMED = (
    (r"^cls_token$", "embeddings.class_embedding"),
    (r"^pos_embed$", "embeddings.position_embedding"),
    (r"^patch_embed\.proj\.", "embeddings.patch_embedding."),
    (r"^norm\.", "post_layernorm."),
    (r"^blocks\.", "encoder.layers."),
    (r"\.norm([12])\.", r".layer_norm\1."),
    (r"\.attn\.qkv\.", ".self_attn.qkv."),
    (r"\.attn\.proj\.", ".self_attn.projection."),
)


def vision_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """The vision tower's weights under transformers' names."""
    renamed = {}
    for name, value in state.items():
        for old, new in _RENAMED:
            name = re.sub(old, new, name)
        renamed[name] = value
    return renamed


def towers(vision: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[Any, Any]:
    """A vision and a text tower for weights of these shapes, named as in transformers. Raises KeyError."""
    import transformers

    positions, width = vision["embeddings.position_embedding"].shape[1:]
    patch = vision["embeddings.patch_embedding.weight"].shape[-1]
    vision_config = transformers.BlipVisionConfig(
        hidden_size=width,
        intermediate_size=vision["encoder.layers.0.mlp.fc1.weight"].shape[0],
        num_hidden_layers=_layers(vision, r"encoder\.layers\.(\d+)\."),
        num_attention_heads=width // HEAD_WIDTH,
        image_size=patch * math.isqrt(positions - 1),
        patch_size=patch,
        layer_norm_eps=1e-6,  # the authors' value; transformers' default is 1e-5
    )
    vocabulary, width = text["embeddings.word_embeddings.weight"].shape
    text_config = transformers.BlipTextConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        encoder_hidden_size=text["encoder.layer.0.crossattention.self.key.weight"].shape[1],
        intermediate_size=text["encoder.layer.0.intermediate.dense.weight"].shape[0],
        num_hidden_layers=_layers(text, r"encoder\.layer\.(\d+)\."),
        num_attention_heads=width // HEAD_WIDTH,
        max_position_embeddings=text["embeddings.position_embeddings.weight"].shape[0],
        is_decoder=True,  # here: with cross-attention to the image
    )
    return transformers.BlipVisionModel(vision_config), transformers.BlipTextModel(text_config, add_pooling_layer=False)


class ImageRewardWeights:
    """Loads ImageReward.pt as it is published: a `ModuleDict` of `vision`, `text` and `head`."""

    @staticmethod
    def from_pretrained(
        name: str, *, base: str = "", revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError for another kind of file. Parts that only
        BLIP's own training uses are left out."""
        import torch

        check_load_options(**options)
        state = read_state(find_file(name, FILE, revision))
        vision = vision_names(strip_prefix(state, "blip.visual_encoder."))
        text = strip_prefix(state, "blip.text_encoder.")
        text.pop("embeddings.position_ids", None)  # 0, 1, 2, ...
        try:
            with torch.device("meta"):
                vision_tower, text_tower = towers(vision, text)
        except KeyError as error:
            raise ValueError(f"it has no {error.args[0]}: give {FILE} of zai-org/ImageReward") from error
        head, info = score_head(strip_prefix(state, "mlp.layers."))
        missing = [f"mlp.layers.{key}" for key in info["missing_keys"]]
        for prefix, tower, weights in (("vision", vision_tower, vision), ("text", text_tower, text)):
            missing += [f"{prefix}.{key}" for key in load_state(tower, weights)["missing_keys"]]
        model = torch.nn.ModuleDict({"vision": vision_tower.to(dtype), "text": text_tower.to(dtype), "head": head})
        return model.eval(), {"missing_keys": missing, "unexpected_keys": []}


class ImageRewardInputs:
    """BERT's tokenizer and CLIP's image processor (centre crop, 224 x 224)."""

    def __init__(self, tokenizer: Any, image_processor: Any) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, revision: str | None = None, backend: str = "pil"
    ) -> ImageRewardInputs:
        """The tokenizer (BERT uncased) from a folder or the hub."""
        import transformers

        image_processor = transformers.CLIPImageProcessorPil if backend == "pil" else transformers.CLIPImageProcessor
        tokenizer = transformers.AutoTokenizer.from_pretrained(pretrained_model_name_or_path, revision=revision)
        return cls(tokenizer, image_processor())


def _layers(state: Mapping[str, Any], pattern: str) -> int:
    return 1 + max(int(match[1]) for name in state if (match := re.match(pattern, name)))


MAX_PROMPT_TOKENS = 35
"""Tokens of a prompt, including those for beginning and end."""
MEAN, DEVIATION = 0.16717362830052426, 1.0333394966054072
"""Of the head's output, over the authors' data."""


class ImageReward(PromptedImageRater):
    """Answers `Rate` of "preference" with the authors' reward, which has mean 0 and deviation 1 over their data.

    It is what github.com/THUDM/ImageReward computes, mostly between -2 and 2. Images are cropped to the central square
    and resized to 224 x 224. Sources are ignored: an edit is rated like any image, by a prompt that describes the
    image.

    `usage`: `image_passes` counts images encoded, `joint_passes` pairs of image and prompt, `prompts_cut` queries
    with a truncated prompt.

    Args:
        name: A folder with `ImageReward.pt`, that file (or the same in safetensors), or a model on the hub; its
            `med_config.json` is not needed.
        base: The tokenizer, bert-base-uncased; the tokens `[DEC]` and `[ENC]` that BLIP adds to it are not used by the
            reward.
        truncate_prompt: Whether prompts of more than 35 tokens (about 25 words) are truncated, as the authors do; else
            such a query fails. A query without a prompt fails; the authors' code would rate it by special tokens alone.
        cache_bytes: For features of recent images, 0.8 MB each in float32, which are reused for other prompts.
            quantisation and device_map are not supported.
    """

    loader = ImageRewardWeights
    counters = ("joint_passes", "prompts_cut")
    processor = ImageRewardInputs
    weights_file = FILE
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32", "backend": "pil"}

    def __init__(
        self,
        name: str = "zai-org/ImageReward",
        *,
        base: str = "google-bert/bert-base-uncased",
        truncate_prompt: bool = True,
        batch: int = 32,
        cache_bytes: int = 256 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(
            name, base=base, truncate_prompt=truncate_prompt, batch=batch, cache_bytes=cache_bytes, **loading
        )

    def check(self, loaded: LoadedModel) -> None:
        tokenizer_size, vocabulary_size = len(loaded.processor.tokenizer), loaded.model["text"].config.vocab_size
        if not 0 <= vocabulary_size - tokenizer_size <= 2:  # BLIP's two tokens are optional
            raise ExpertDown(
                f"{self.name} was trained with the {vocabulary_size - 2} tokens of bert-base-uncased, {self.base} "
                f"has {tokenizer_size}: give that tokenizer as base"
            )

    def prompt_tokens(self, loaded: LoadedModel, prompt: str) -> tuple[int, int]:
        tokens = loaded.processor.tokenizer(prompt, split_special_tokens=True)["input_ids"]
        return len(tokens), MAX_PROMPT_TOKENS

    def rate(self, loaded: LoadedModel, queries: Sequence[Rate]) -> list[float]:
        images = {query.image.digest: query.image for query in queries}
        # Sorted by image, one batch at a time: the features of all images might not fit into memory.
        pairs = sorted((query.image.digest, query.prompt) for query in queries)
        rewards: dict[tuple[str, str], float] = {}
        for start in range(0, len(pairs), self.batch):
            batch = pairs[start : start + self.batch]
            batch_images = {digest: images[digest] for digest, _ in batch}
            features = self.cached(_encode, loaded, batch_images)
            inputs = [(features[digest], prompt) for digest, prompt in batch]
            rewards |= zip(batch, self.run_microbatched(self._rewards, loaded, inputs), strict=True)
        return [rewards[query.image.digest, query.prompt] for query in queries]

    def _rewards(self, loaded: LoadedModel, pairs: Sequence[tuple[Any, str]]) -> list[float]:
        """Rewards of pairs of image features and prompt."""
        import torch

        tokens = loaded.processor.tokenizer(
            [prompt for _, prompt in pairs],
            padding="max_length",
            truncation=True,
            max_length=MAX_PROMPT_TOKENS,
            split_special_tokens=True,
            return_tensors="pt",
        ).to(loaded.device)
        features = torch.stack([features for features, _ in pairs])
        states = loaded.model["text"](
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], encoder_hidden_states=features
        ).last_hidden_state[:, 0]
        self.counts["joint_passes"] += len(pairs)
        rewards = (loaded.model["head"](states.float())[:, 0].double() - MEAN) / DEVIATION
        return [float(reward) for reward in rewards.cpu()]


def _encode(loaded: LoadedModel, images: Sequence[Image]) -> list[Any]:
    """Token features of each image, class token first, 197 x 1024."""
    prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
    pixels = prepared["pixel_values"].to(loaded.device, loaded.dtype)
    return [features.clone() for features in loaded.model["vision"](pixel_values=pixels).last_hidden_state]
