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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from .hub_files import find_file
from .state_dicts import read_state

REWARD = "<|Reward|>"
"""The token whose hidden state is read; appended to the tokenizer's vocabulary."""

_BACKBONES = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}
_WIDE, _NARROW, _OUTPUTS = 1024, 16, 2
_WORDS = "model.language_model.embed_tokens.weight"


class RewardHeads:
    """Loads a checkpoint that is one file of weights; the backbone's configuration is that of `base`.

    file: its name in a folder or on the hub. heads: prefix of the layer names of each head. backbone: model type.
    Subclasses set them. ignored_prefixes: parameters that are not loaded.
    """

    ignored_prefixes = ("lm_head.",)
    file: ClassVar[str]
    heads: ClassVar[tuple[str, ...]]
    backbone: ClassVar[str]

    @classmethod
    def from_pretrained(
        cls, name: str, *, base: str, revision: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model and transformers' loading info.

        Raises ValueError for missing or unknown parameters and other shapes.
        """
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(base)
        if config.model_type != cls.backbone:
            raise ValueError(f"base {base} is a {config.model_type}, expected a {cls.backbone}")
        weights = load_published_weights(find_file(name, cls.file, revision))
        if _WORDS in weights:
            config.text_config.vocab_size = len(weights[_WORDS])  # tokens were added to those of the base
        check_parameters(name, weights, expected_parameters(config, cls.heads))
        quantised: Any = options.get("quantization_config")
        if quantised is not None:
            quantised.llm_int8_skip_modules = ["rm_head", "rm_heads"]
        kind = reward_model(cls.backbone, cls.heads)
        model, info = kind.from_pretrained(None, config=config, state_dict=weights, **options)
        return model, info


def load_published_weights(path: Path) -> dict[str, Any]:
    """Parameters of a checkpoint under current names, without the unused language head.

    path: a safetensors file, or a pickle of tensors. Raises ValueError for anything else.
    """
    from safetensors import SafetensorError

    try:
        weights = read_state(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error
    return {
        current_parameter_name(name): value
        for name, value in weights.items()
        if not name.startswith(RewardHeads.ignored_prefixes)
    }


def current_parameter_name(name: str) -> str:
    """A parameter's name in current transformers classes.

    Up to 4.51 transformers had the vision tower beside the language model (`visual.`, `model.`), now both are parts of
    `model`; checkpoints use either layout.
    """
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


def check_parameters(name: str, weights: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless a checkpoint holds exactly these parameters."""
    missing = sorted(expected.keys() - weights.keys())
    if missing:
        raise ValueError(f"{_abbreviate(missing)} missing in {name}: it is another kind of model, or damaged")
    unknown = sorted(weights.keys() - expected.keys())
    if unknown:
        raise ValueError(
            f"{_abbreviate(unknown)} in {name} belong to no part of this model: it is another kind of model"
        )
    for key, shape in expected.items():
        if tuple(weights[key].shape) != shape:
            raise ValueError(
                f"{key} in {name} is {list(weights[key].shape)}, expected {list(shape)}: the base is not the model "
                "that it was trained from"
            )


def _abbreviate(names: list[str]) -> str:
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} parameters ({listed})"


@functools.cache
def reward_model(backbone: str, heads: tuple[str, ...]) -> Any:
    """The class of a backbone with heads. Modules are named as in published checkpoints: `rm_head`, `rm_heads.<…>`.

    heads: `("rm_head",)`, or `("rm_heads.head_0", "rm_heads.head_1")` and so on.
    """
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
            """B x 2 float32: mean and logarithm of the standard deviation.

            tokens: B x L, padded on the right with any token. features: all vision tokens, in order. positions: of
            the reward token, B. head_indices: B.
            """
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
