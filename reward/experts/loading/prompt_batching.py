"""Batches of prompts of different lengths and images for a vision-language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .vision_tokens import VisionTokens, merge_vision_tokens


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """An encoded conversation: the processor's outputs (one row), and its images in order.

    Images are either vision tokens in `pictures`, or pixels among the inputs.
    """

    inputs: Mapping[str, Any]
    pictures: Sequence[VisionTokens]

    @property
    def tokens(self) -> int:
        return int(self.inputs["input_ids"].shape[1])


def batch_prompts(
    prompts: Sequence[tuple[EncodedPrompt, Sequence[int]]], *, pad: int, device: Any, dtype: Any
) -> dict[str, Any]:
    """Inputs for `generate`: each prompt followed by its lead tokens.

    Values per token (ids, attention mask, token types) are padded on the left, so that all rows end together; values
    per image are concatenated. pad: the padding token.
    """
    import torch

    length = max(prompt.tokens + len(lead) for prompt, lead in prompts)
    batch: dict[str, Any] = {}
    for name in dict.fromkeys(name for prompt, _ in prompts for name in prompt.inputs):
        values = [prompt.inputs.get(name) for prompt, _ in prompts]
        if any(
            value is not None and tuple(value.shape) != (1, prompt.tokens)
            for value, (prompt, _) in zip(values, prompts, strict=True)
        ):
            joined = torch.cat([value for value in values if value is not None])
            batch[name] = joined.to(device, dtype if joined.is_floating_point() else None)
            continue
        padded = torch.full((len(prompts), length), pad if name == "input_ids" else 0)
        for i, (value, (prompt, lead)) in enumerate(zip(values, prompts, strict=True)):
            end = length - len(lead)
            if value is not None:
                padded[i, end - prompt.tokens : end] = value[0]
            if name == "input_ids":
                padded[i, end:] = torch.tensor(lead)
            elif name == "attention_mask":
                padded[i, end:] = 1
        batch[name] = padded.to(device)
    pictures = [picture for prompt, _ in prompts for picture in prompt.pictures]
    if pictures:
        batch["mm_encoder_outputs"] = {"image": merge_vision_tokens(pictures)}
    return batch
