"""Vision tokens of a vision-language model: computed once per image, used in every prompt; batches of prompts.

transformers prepares the prompts and inserts the tokens. Only its image processor is patched, with one that encodes
each image once, and the model receives the tokens (`mm_encoder_outputs`) instead of pixels.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .local_expert import LocalExpert, patched_parts


class VisionTokens(NamedTuple):
    """Of one image. inputs: the image processor's outputs, pixels as shape only. features, kind: the model's."""

    inputs: dict[str, Any]
    features: dict[str, Any]
    kind: type


PrepareImage = Callable[[Any], Mapping[str, Any]]
"""An image -> the image processor's outputs for it alone."""

_FEATURES = ("pooler_output", "deepstack_features")  # the outputs of `get_image_features` that models use


def accepts_tokens(model: Any) -> bool:
    """Whether the model accepts vision tokens. If not, it needs the pixels with every prompt."""
    parameters = inspect.signature(model.forward).parameters
    return "mm_encoder_outputs" in parameters and hasattr(model.base_model, "get_image_features")


def encode(model: Any, dtype: Any, prepared: Mapping[str, Any]) -> VisionTokens:
    """The vision tokens of one image, prepared alone by the image processor."""
    parameters = inspect.signature(model.base_model.get_image_features).parameters
    inputs = {
        name: value.to(model.device, dtype if value.is_floating_point() else None) if _is_tensor(value) else value
        for name, value in prepared.items()
        if name in parameters
    }
    outputs = model.base_model.get_image_features(**inputs, return_dict=True)
    placeholders = {
        name: tuple(value.shape) if _is_tensor(value) and value.is_floating_point() else value
        for name, value in prepared.items()
    }
    features = {name: getattr(outputs, name) for name in _FEATURES if getattr(outputs, name, None) is not None}
    return VisionTokens(placeholders, features, type(outputs))


def cached_tokens(
    expert: LocalExpert[Any], model: Any, dtype: Any, images: Mapping[str, Any], prepare: PrepareImage
) -> dict[str, VisionTokens]:
    """The vision tokens of images, by key: those in the expert's cache are not encoded again."""

    def encoded(image: Any) -> VisionTokens:
        prepared = prepare(image)
        expert.counts["image_passes"] += 1
        return encode(model, dtype, prepared)

    return expert.feature_cache.get_or_compute(images, lambda missing: [encoded(each) for each in missing])


def merge_vision_tokens(images: Sequence[VisionTokens]) -> Any:
    """The vision tokens of several images, in order, as model input."""
    merged = {"pooler_output": _joined([image.features["pooler_output"] for image in images])}
    if "deepstack_features" in images[0].features:
        layers = zip(*(image.features["deepstack_features"] for image in images), strict=True)
        merged["deepstack_features"] = [_joined(layer) for layer in layers]
    return images[0].kind(**merged)


def without_pixels(inputs: Mapping[str, Any], images: Sequence[VisionTokens]) -> dict[str, Any]:
    """A processor's outputs without the placeholders of these images' pixels."""
    pixels = {name for image in images for name, value in image.inputs.items() if isinstance(value, tuple)}
    return {name: value for name, value in inputs.items() if name not in pixels}


def patched_image_processor(
    processor: Any, tokens_of: Callable[[PrepareImage], Sequence[VisionTokens]]
) -> contextlib.AbstractContextManager[None]:
    """Context in which the processor uses the inputs of these vision tokens instead of its image processor's.
    tokens_of: returns those of all images of the prompt, in order; its argument prepares the missing ones."""
    return patched_parts(processor, image_processor=_PrecomputedImageProcessor(processor.image_processor, tokens_of))


class _PrecomputedImageProcessor:
    def __init__(self, real: Any, tokens_of: Callable[[PrepareImage], Sequence[VisionTokens]]) -> None:
        self._real = real
        self._tokens_of = tokens_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __call__(self, images: Any, **options: Any) -> Any:
        from transformers import BatchFeature

        options["return_tensors"] = "pt"
        inputs = [each.inputs for each in self._tokens_of(lambda image: self._real([[image]], **options))]
        return BatchFeature({name: _stacked([each[name] for each in inputs]) for name in inputs[0]})


def _stacked(values: Sequence[Any]) -> Any:
    """Outputs of an image processor for several images. Pixels have the right shape only and take no memory."""
    import torch

    if not isinstance(values[0], tuple):
        return _joined(values)
    counts, *sides = zip(*values, strict=True)
    return torch.zeros((), dtype=torch.uint8).expand(sum(counts), *map(max, sides))


def _joined(values: Sequence[Any]) -> Any:
    import torch

    if _is_tensor(values[0]):
        return torch.cat(list(values))
    return [part for value in values for part in value]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point")


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """An encoded conversation: the processor's outputs (one row), and its images in order. Images are either vision
    tokens in `pictures`, or pixels among the inputs."""

    inputs: Mapping[str, Any]
    pictures: Sequence[VisionTokens]

    @property
    def tokens(self) -> int:
        return int(self.inputs["input_ids"].shape[1])


def batch_prompts(
    prompts: Sequence[tuple[EncodedPrompt, Sequence[int]]], *, pad: int, device: Any, dtype: Any
) -> dict[str, Any]:
    """Inputs for `generate`: each prompt followed by its lead tokens. Values per token (ids, attention mask, token
    types) are padded on the left, so that all rows end together; values per image are concatenated. pad: the padding
    token."""
    import torch

    length = max(prompt.tokens + len(lead) for prompt, lead in prompts)
    batch: dict[str, Any] = {}
    for name in dict.fromkeys(name for prompt, _ in prompts for name in prompt.inputs):
        values = [prompt.inputs.get(name) for prompt, _ in prompts]
        per_token = zip(values, (prompt.tokens for prompt, _ in prompts), strict=True)
        if any(value is not None and tuple(value.shape) != (1, tokens) for value, tokens in per_token):
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
