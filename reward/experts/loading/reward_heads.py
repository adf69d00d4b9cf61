"""Heads on a vision-language model that predict a mean and a standard deviation from one token: HPSv3, EditReward.

Their released code applies three linear layers in float32 to the normalised last hidden state at the token
`<|Reward|>`. The first output is the mean, the second the natural logarithm of the standard deviation (the losses take
`exp` of it and add squares). Positions are sequential: images have no row and column positions as in the backbone's own
training, since the released code calls the layers without image sizes.

Sources: MizzenAI/HPSv3, hpsv3/model/qwen2vl_trainer.py; TIGER-AI-Lab/EditReward,
EditReward/model/qwen2_5_vl_trainer.py.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from ...queries.prompts import MAX_PROMPT_BYTES
from ...regular_files import read_text
from .hub_files import find_file, read_state

REWARD = "<|Reward|>"
"""The token whose hidden state is read; appended to the tokenizer's vocabulary."""

_BACKBONES = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}
_WIDE, _NARROW, _OUTPUTS = 1024, 16, 2
_WORDS = "model.language_model.embed_tokens.weight"


class RewardHeads:
    """Loads a checkpoint that is one file of weights; the backbone's configuration is that of `base`. file: its name in
    a folder or on the hub. heads: prefix of the layer names of each head. backbone: model type. Subclasses set them.
    ignored_prefixes: parameters that are not loaded."""

    ignored_prefixes = ("lm_head.",)
    file: ClassVar[str]
    heads: ClassVar[tuple[str, ...]]
    backbone: ClassVar[str]

    @classmethod
    def from_pretrained(
        cls, name: str, *, base: str, revision: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model and transformers' loading info. Raises ValueError for missing or unknown parameters and other
        shapes."""
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(base)
        if config.model_type != cls.backbone:
            raise ValueError(f"base {base} is a {config.model_type}, expected a {cls.backbone}")
        weights = load_published_weights(find_file(name, cls.file, revision))
        if _WORDS in weights:
            config.text_config.vocab_size = len(weights[_WORDS])  # tokens were added to those of the base
        expected = expected_parameters(config, cls.heads)
        if missing := sorted(expected.keys() - weights.keys()):
            raise ValueError(f"{_abbreviate(missing)} missing in {name}: it is another kind of model, or damaged")
        if unknown := sorted(weights.keys() - expected.keys()):
            listed = _abbreviate(unknown)
            raise ValueError(f"{listed} in {name} belong to no part of this model: it is another kind of model")
        for key, shape in expected.items():
            if tuple(weights[key].shape) != shape:
                raise ValueError(
                    f"{key} in {name} is {list(weights[key].shape)}, expected {list(shape)}: the base is not the model "
                    "that it was trained from"
                )
        quantised: Any = options.get("quantization_config")
        if quantised is not None:
            quantised.llm_int8_skip_modules = ["rm_head", "rm_heads"]
        return reward_model(cls.backbone, cls.heads).from_pretrained(None, config=config, state_dict=weights, **options)


def load_published_weights(path: Path) -> dict[str, Any]:
    """Parameters of a checkpoint (safetensors, or a pickle of tensors) under current names, without the unused language
    head. Raises ValueError for anything else."""
    from safetensors import SafetensorError

    try:
        weights = read_state(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error
    used = (name for name in weights if not name.startswith(RewardHeads.ignored_prefixes))
    return {current_parameter_name(name): weights[name] for name in used}


def current_parameter_name(name: str) -> str:
    """A parameter's name in current transformers classes. Up to 4.51 transformers had the vision tower beside the
    language model (`visual.`, `model.`), now both are parts of `model`; checkpoints use either layout."""
    if name.startswith("visual."):
        return f"model.{name}"
    if name.startswith("model.") and not name.startswith(("model.visual.", "model.language_model.")):
        return f"model.language_model.{name.removeprefix('model.')}"
    return name


def expected_parameters(config: Any, heads: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters of a model, built on the meta device."""
    import torch

    with torch.device("meta"):
        model = reward_model(config.model_type, heads)(config)
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def _abbreviate(names: list[str]) -> str:
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} parameters ({listed})"


@functools.cache
def reward_model(backbone: str, heads: tuple[str, ...]) -> Any:
    """The class of a backbone with heads. Modules are named as in published checkpoints: `rm_head`, `rm_heads.<…>`.
    heads: `("rm_head",)`, or `("rm_heads.head_0", "rm_heads.head_1")` and so on."""
    import torch
    import transformers
    from torch import nn

    parent: Any = getattr(transformers, f"{_BACKBONES[backbone]}PreTrainedModel")
    stack: Any = getattr(transformers, f"{_BACKBONES[backbone]}Model")

    def head(hidden: int) -> nn.Module:
        wide, narrow = nn.Linear(hidden, _WIDE), nn.Linear(_WIDE, _NARROW)
        # Dropout does nothing at inference, but its index is part of the names.
        return nn.Sequential(wide, nn.ReLU(), nn.Dropout(0.05), narrow, nn.ReLU(), nn.Linear(_NARROW, _OUTPUTS))

    class RewardModel(parent):  # the parent class is resolved at run time
        # In half precision, visibly different edits may get equal scores.
        _keep_in_fp32_modules_strict: ClassVar[list[str]] = ["rm_head", "rm_heads"]

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.model = stack(config)
            hidden = config.text_config.hidden_size
            if heads == ("rm_head",):
                self.rm_head = head(hidden)
            else:
                self.rm_heads = nn.ModuleDict({name.removeprefix("rm_heads."): head(hidden) for name in heads})
            self.post_init()

        def encode(self, pixels: Any, grids: Any) -> list[Any]:
            """A batch from the image processor -> n x d vision tokens of each image."""
            return list(self.model.get_image_features(pixels, grids, return_dict=True).pooler_output)

        def forward(self, tokens: Any, features: Any, positions: Any, head_indices: Any) -> Any:
            """B x 2 float32: mean and logarithm of the standard deviation. tokens: B x L, padded on the right with any
            token. features: all vision tokens, in order. positions: of the reward token, B. head_indices: B."""
            embedded = self.model.get_input_embeddings()(tokens)
            is_image = (tokens == self.config.image_token_id).unsqueeze(-1).expand_as(embedded)
            embedded = embedded.masked_scatter(is_image, features.to(embedded))
            # Attention is causal: right padding needs no mask, and positions are counted from the left.
            hidden = self.model.language_model(inputs_embeds=embedded, use_cache=False).last_hidden_state
            rows = torch.arange(len(tokens), device=hidden.device)
            states = hidden[rows, positions.to(hidden.device)].float()
            outputs = torch.stack([self.get_submodule(name)(states) for name in heads])
            return outputs[head_indices.to(outputs.device), rows.to(outputs.device)]

    return RewardModel


_SLOTS = ("{prompt}", "{text_prompt}")
_TEXT_MARK = "REWARD-TEXT"
_PIXELS = 256 * 28 * 28  # target pixels of an image, minimum and maximum in one: HPSv3 and EditReward
_MAX_ASPECT_RATIO = 200  # Qwen's preprocessing refuses larger aspect ratios


@dataclass(frozen=True)
class RewardPromptTemplate:
    """A text with one `{prompt}` and one `<|Reward|>`, the token at which the rating is read. custom: from the user.
    `{text_prompt}` is an alias of `{prompt}`, as in the authors' files; nothing else is replaced, stripped or escaped.
    Raises ValueError for a text without them."""

    text: str
    custom: bool = False
    source: str = "the template"

    @staticmethod
    def of(path: str | None, package: str, name: str) -> RewardPromptTemplate:
        """The text of a file; by default the template of that name in a package's `prompts`."""
        if path is None:
            text = (files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
            return RewardPromptTemplate(text.replace("{reward}", REWARD))
        if not Path(path).is_file():
            raise ValueError(f"template {path!r} is no file: give a text file that contains {{prompt}} and {REWARD}")
        try:
            text = read_text(path, MAX_PROMPT_BYTES)
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"template {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        return RewardPromptTemplate(text, True, f"template {path}")

    def __post_init__(self) -> None:
        slots = sum(map(self.text.count, _SLOTS))
        if slots != 1:
            raise ValueError(f"{self.source} has {slots} slots for the prompt, expected one {{prompt}}")
        if self.text.count(REWARD) != 1:
            raise ValueError(
                f"{self.source} has {REWARD} {self.text.count(REWARD)} times, expected once: the rating is read there"
            )

    @cached_property
    def parts(self) -> tuple[str, str]:
        """The texts before and after the prompt."""
        slot = next(slot for slot in _SLOTS if slot in self.text)
        before, after = self.text.split(slot)
        return before, after

    @cached_property
    def digest(self) -> str:
        """Of the text, for an expert's id."""
        return f"{'given' if self.custom else 'ours'}:{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


class RewardProcessor:
    """A backbone's tokenizer with `<|Reward|>` appended, and its image processor. transformers' own processor of both
    requires torchvision, for videos."""

    def __init__(self, tokenizer: Any, image_processor: Any) -> None:
        self.tokenizer = tokenizer
        self.image_processor = image_processor
        tokenizer.add_tokens([REWARD], special_tokens=True)
        self.reward: int = tokenizer.convert_tokens_to_ids(REWARD)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, revision: str | None = None, **options: Any
    ) -> RewardProcessor:
        """options: `backend` of the image processor."""
        from transformers import AutoImageProcessor, AutoTokenizer

        name = pretrained_model_name_or_path
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision)
        if tokenizer.chat_template is None:
            raise ValueError(f"{name} has no chat template, which the text of a reward model needs")
        return cls(tokenizer, AutoImageProcessor.from_pretrained(name, revision=revision, **options))

    def tokens(self, template: RewardPromptTemplate, prompt: str, image_lengths: list[int], image: int) -> list[int]:
        """The conversation: images, then the text. image_lengths: tokens of each image. image: the image token. Raises
        ValueError if the chat template does not place the images. Control tokens in a prompt are read as plain text."""
        image_parts: list[dict[str, str]] = [{"type": "image"} for _ in image_lengths]
        messages = [{"role": "user", "content": [*image_parts, {"type": "text", "text": _TEXT_MARK}]}]
        chat = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        opening, _, ending = chat.partition(_TEXT_MARK)
        before, after = template.parts
        encoded = self._encoded(opening + before, prompt, after + ending)
        if encoded.count(image) != len(image_lengths) or encoded.count(self.reward) != 1:
            raise ValueError(f"the chat template shows {encoded.count(image)} images, expected {len(image_lengths)}")
        counts = iter(image_lengths)
        return [copy for token in encoded for copy in ([token] * next(counts) if token == image else [token])]

    def _encoded(self, before: str, prompt: str, after: str) -> list[int]:
        controls = sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True)
        pieces = re.split(f"({'|'.join(map(re.escape, controls))})", prompt)
        pieces[0] = before + pieces[0]
        pieces[-1] += after  # a prompt without control tokens is tokenized together with the text around it
        return [
            token
            for i, piece in enumerate(pieces)
            for token in self.tokenizer(piece, add_special_tokens=False, split_special_tokens=i % 2 == 1)["input_ids"]
        ]

    @property
    def factor(self) -> int:
        """Side of a vision token in pixels."""
        return int(self.image_processor.patch_size * self.image_processor.merge_size)

    def tokens_of(self, width: int, height: int) -> int:
        """Number of vision tokens of an image. Raises ValueError as `smart_resize` does."""
        wide, high = smart_resize(width, height, self.factor)
        return wide * high // self.factor**2

    def prepared(self, images: list[Any]) -> Any:
        """Inputs of the vision tower for PIL images: `pixel_values`, and a row of `image_grid_thw` each."""
        from PIL.Image import Resampling

        # Resized here, as the authors do, so that the image processor's backend does not matter.
        resized = [
            each.resize(smart_resize(each.width, each.height, self.factor), Resampling.BICUBIC) for each in images
        ]
        return self.image_processor(resized, do_resize=False, return_tensors="pt")


def smart_resize(width: int, height: int, factor: int = 28) -> tuple[int, int]:
    """Width and height of about 200,704 pixels in whole patches, with about the same aspect ratio. As Qwen's
    `smart_resize` with this as minimum and maximum: larger images are rounded down to it, smaller ones up. Raises
    ValueError for an aspect ratio above 200."""
    if max(width, height) > _MAX_ASPECT_RATIO * min(width, height):
        raise ValueError(f"an image of {width} x {height} is narrower than 1 : {_MAX_ASPECT_RATIO}")
    wide, high = (max(1, round(side / factor)) for side in (width, height))
    if wide * high * factor**2 > _PIXELS:
        shrunk = math.sqrt(width * height / _PIXELS)
        wide, high = (max(1, math.floor(side / shrunk / factor)) for side in (width, height))
    elif wide * high * factor**2 < _PIXELS:
        grown = math.sqrt(_PIXELS / (width * height))
        wide, high = (math.ceil(side * grown / factor) for side in (width, height))
    return wide * factor, high * factor
