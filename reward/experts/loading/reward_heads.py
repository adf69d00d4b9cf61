"""Heads on a vision-language model that read a mean and a standard deviation off one token: HPSv3, EditReward.

What their released code computes: the hidden state of the last layer, normalised, at the token `<|Reward|>`, through
three linear layers in float32; of the two outputs the first is the mean, the second the natural logarithm of the
standard deviation (the losses take `exp` of it and add squares). Positions are counted through: pictures have no rows
and columns as in the backbone's own training, since the released code calls the layers without their sizes.

Sources: MizzenAI/HPSv3, hpsv3/model/qwen2vl_trainer.py; TIGER-AI-Lab/EditReward,
EditReward/model/qwen2_5_vl_trainer.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from .published import find_file
from .states import read_state

REWARD = "<|Reward|>"
"""The token whose hidden state is read; it is added to the tokenizer behind all others."""

_BACKBONES = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}
_WIDE, _NARROW, _OUTPUTS = 1024, 16, 2
_WORDS = "model.language_model.embed_tokens.weight"


class RewardHeads:
    """Loads a checkpoint that is one file of weights; the backbone's configuration lies elsewhere, at `base`.

    file: its name in a folder or on the hub. heads: what comes before the layers' names, one for each head. backbone:
    the kind of model below. Subclasses fill them in. leaves_out: what of the file is not loaded.
    """

    leaves_out = ("lm_head.",)
    file: ClassVar[str]
    heads: ClassVar[tuple[str, ...]]
    backbone: ClassVar[str]

    @classmethod
    def from_pretrained(
        cls, name: str, *, base: str, revision: str | None = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model and what transformers says of its loading.

        Raises ValueError where parameters are lacking, unknown, or of another shape.
        """
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(base)
        if config.model_type != cls.backbone:
            raise ValueError(f"base {base} is a {config.model_type}, its heads sit on a {cls.backbone}")
        weights = published(find_file(name, cls.file, revision))
        if _WORDS in weights:
            config.text_config.vocab_size = len(weights[_WORDS])  # tokens were added to those of the base
        check(name, weights, parameters(config, cls.heads))
        quantised: Any = options.get("quantization_config")
        if quantised is not None:
            quantised.llm_int8_skip_modules = ["rm_head", "rm_heads"]
        kind = reward_model(cls.backbone, cls.heads)
        model, info = kind.from_pretrained(None, config=config, state_dict=weights, **options)
        return model, info


def published(path: Path) -> dict[str, Any]:
    """Parameters of a checkpoint, under the names of today's classes; those of the unused language head are left out.

    path: of safetensors, or of a pickle of tensors. Raises ValueError for anything else.
    """
    from safetensors import SafetensorError

    try:
        weights = read_state(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged: {error}") from error
    return {renamed(name): value for name, value in weights.items() if not name.startswith(RewardHeads.leaves_out)}


def renamed(name: str) -> str:
    """A parameter's name in today's classes.

    Up to 4.51 transformers had the vision tower beside the language model (`visual.`, `model.`), now both are parts of
    `model`; checkpoints have either.
    """
    if name.startswith("visual."):
        return f"model.{name}"
    if name.startswith("model.") and not name.startswith(("model.visual.", "model.language_model.")):
        return f"model.language_model.{name.removeprefix('model.')}"
    return name


def parameters(config: Any, heads: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters of a model, which takes no memory."""
    import torch

    with torch.device("meta"):
        model = reward_model(config.model_type, heads)(config)
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def check(name: str, weights: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError, in plain words, unless a checkpoint holds exactly these parameters."""
    missing = sorted(wanted.keys() - weights.keys())
    if missing:
        raise ValueError(f"{_some(missing)} missing in {name}: it is another kind of model, or damaged")
    unknown = sorted(weights.keys() - wanted.keys())
    if unknown:
        raise ValueError(f"{_some(unknown)} in {name} belong to no part of this model: it is another kind of model")
    for key, shape in wanted.items():
        if tuple(weights[key].shape) != shape:
            raise ValueError(
                f"{key} in {name} is {list(weights[key].shape)}, expected {list(shape)}: the base is not the model "
                "that it was trained from"
            )


def _some(names: list[str]) -> str:
    named = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} parameters ({named})"


@functools.cache
def reward_model(backbone: str, heads: tuple[str, ...]) -> Any:
    """The class of a backbone with heads. Its parts are named as in published checkpoints: `rm_head`, `rm_heads.<…>`.

    heads: `("rm_head",)`, or `("rm_heads.head_0", "rm_heads.head_1")` and so on.
    """
    import torch
    import transformers
    from torch import nn

    parent: Any = getattr(transformers, f"{_BACKBONES[backbone]}PreTrainedModel")
    stack: Any = getattr(transformers, f"{_BACKBONES[backbone]}Model")

    def head(hidden: int) -> nn.Module:
        wide, narrow = nn.Linear(hidden, _WIDE), nn.Linear(_WIDE, _NARROW)
        # The drop-out does nothing after training, but counts in the names.
        return nn.Sequential(wide, nn.ReLU(), nn.Dropout(0.05), narrow, nn.ReLU(), nn.Linear(_NARROW, _OUTPUTS))

    class RewardModel(parent):  # type: ignore[misc]  # the parent is known at run time
        # In half precision two edits that a person can tell apart may have one score.
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
            """Pictures as an image processor prepared them together -> for each, its n x d vision tokens."""
            return list(self.model.get_image_features(pixels, grids, return_dict=True).pooler_output)

        def forward(self, tokens: Any, pictures: Any, places: Any, which: Any) -> Any:
            """B x 2 float32: mean and logarithm of the standard deviation.

            tokens: B x L, filled up on the right with anything. pictures: all vision tokens, in order. places: of the
            token that is read, B. which: head for each row, B.
            """
            embedded = self.model.get_input_embeddings()(tokens)
            shown = (tokens == self.config.image_token_id).unsqueeze(-1).expand_as(embedded)
            embedded = embedded.masked_scatter(shown, pictures.to(embedded))
            # No token looks ahead: what fills up needs no mask, and positions are counted from the left.
            hidden = self.model.language_model(inputs_embeds=embedded, use_cache=False).last_hidden_state
            rows = torch.arange(len(tokens), device=hidden.device)
            read = hidden[rows, places.to(hidden.device)].float()
            made = torch.stack([self.get_submodule(name)(read) for name in heads])
            return made[which.to(made.device), rows.to(made.device)]

    return RewardModel
