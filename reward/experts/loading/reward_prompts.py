"""Inputs of reward models with heads: prompt template, tokens, and images at the model's size.

A reward model is trained with one text. The templates here paraphrase the authors' texts, which are not redistributed:
published scores are reproduced only with the authors' own text, given as a file.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...queries.prompts import MAX_PROMPT_BYTES
from ...regular_files import read_text
from .reward_heads import REWARD

_SLOTS = ("{prompt}", "{text_prompt}")
_TEXT_MARK = "REWARD-TEXT"
_PIXELS = 256 * 28 * 28
"""Target pixels of an image, minimum and maximum in one: HPSv3 and EditReward."""
_MAX_ASPECT_RATIO = 200
"""Qwen's preprocessing refuses larger aspect ratios."""


@dataclass(frozen=True)
class RewardPromptTemplate:
    """A text with one `{prompt}` and one `<|Reward|>`, the token at which the rating is read. custom: from the user.

    `{text_prompt}` is an alias of `{prompt}`, as in the authors' files; nothing else is replaced, stripped or escaped.
    Raises ValueError for a text without them.
    """

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
    """A backbone's tokenizer with `<|Reward|>` appended, and its image processor.

    transformers' own processor of both requires torchvision, for videos.
    """

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
        """The conversation: images, then the text. image_lengths: tokens of each image. image: the image token.

        Raises ValueError if the chat template does not place the images. Control tokens in a prompt are read as plain
        text.
        """
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
    """Width and height of about 200,704 pixels in whole patches, with about the same aspect ratio.

    As Qwen's `smart_resize` with this as minimum and maximum: larger images are rounded down to it, smaller ones up.
    Raises ValueError for an aspect ratio above 200.
    """
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
