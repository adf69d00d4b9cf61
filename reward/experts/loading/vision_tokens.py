"""What a vision-language model makes of a picture before it reads a word: computed once, used in every prompt.

The library prepares prompts and places the tokens itself. Only its image processor is stood in for, by one that
prepares and encodes no picture twice, and the model is handed the tokens (`mm_encoder_outputs`) instead of pixels.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class VisionTokens(NamedTuple):
    """Of one picture. inputs: what the image processor gave, of pixels only the shape. features, kind: the model's."""

    inputs: dict[str, Any]
    features: dict[str, Any]
    kind: type


Prepare = Callable[[Any], Mapping[str, Any]]
"""A picture -> what the image processor makes of it alone."""

_FEATURES = ("pooler_output", "deepstack_features")
"""What models read of the output of `get_image_features`."""


def accepts_tokens(model: Any) -> bool:
    """Whether the model can be handed vision tokens. If not, it has to be shown the pixels with every prompt."""
    named = inspect.signature(model.forward).parameters
    return "mm_encoder_outputs" in named and hasattr(model.base_model, "get_image_features")


def encode(model: Any, dtype: Any, prepared: Mapping[str, Any]) -> VisionTokens:
    """The vision tokens of one picture, as the image processor prepared it (alone)."""
    wanted = inspect.signature(model.base_model.get_image_features).parameters
    inputs = {
        name: value.to(model.device, dtype if value.is_floating_point() else None) if _is_tensor(value) else value
        for name, value in prepared.items()
        if name in wanted
    }
    found = model.base_model.get_image_features(**inputs, return_dict=True)
    kept = {
        name: tuple(value.shape) if _is_tensor(value) and value.is_floating_point() else value
        for name, value in prepared.items()
    }
    features = {name: getattr(found, name) for name in _FEATURES if getattr(found, name, None) is not None}
    return VisionTokens(kept, features, type(found))


def together(pictures: Sequence[VisionTokens]) -> Any:
    """The vision tokens of several pictures, in order, as the model takes them."""
    features = [picture.features for picture in pictures]
    joined = {"pooler_output": _joined([each["pooler_output"] for each in features])}
    if "deepstack_features" in features[0]:
        layers = zip(*(each["deepstack_features"] for each in features), strict=True)
        joined["deepstack_features"] = [_joined(layer) for layer in layers]
    return pictures[0].kind(**joined)


def without_pixels(inputs: Mapping[str, Any], pictures: Sequence[VisionTokens]) -> dict[str, Any]:
    """A processor's outputs without what stands for these pictures' pixels."""
    pixels = {name for picture in pictures for name, value in picture.inputs.items() if isinstance(value, tuple)}
    return {name: value for name, value in inputs.items() if name not in pixels}


@contextlib.contextmanager
def standing_in(processor: Any, tokens_of: Callable[[Prepare], Sequence[VisionTokens]]) -> Iterator[None]:
    """Meanwhile the processor is given the inputs of these vision tokens for what its image processor would make.

    tokens_of: gives those of all pictures of the prompt at hand, in order; it is handed a way to prepare those missing.
    """
    real = processor.image_processor
    processor.image_processor = _StandIn(real, tokens_of)
    try:
        yield
    finally:
        processor.image_processor = real


class _StandIn:
    def __init__(self, real: Any, tokens_of: Callable[[Prepare], Sequence[VisionTokens]]) -> None:
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
    """Outputs of an image processor for several pictures. Of pixels only the shape is right: they take no memory."""
    import torch

    if isinstance(values[0], tuple):
        shape = (
            sum(value[0] for value in values),
            *(max(sides) for sides in zip(*(v[1:] for v in values), strict=True)),
        )
        return torch.zeros((), dtype=torch.uint8).expand(shape)
    return _joined(values)


def _joined(values: Sequence[Any]) -> Any:
    import torch

    if _is_tensor(values[0]):
        return torch.cat(list(values))
    return [part for value in values for part in value]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "is_floating_point")
