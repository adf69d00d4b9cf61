"""What a rewarder with heads is asked: a text with a place for the prompt, its tokens, and pictures at its size.

The text a rewarder was trained with is part of it. Ours say the same in other words, since the authors' are theirs:
scores are those that they publish only with their own text, given as a file.
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

from .reward_heads import REWARD

_SLOTS = ("{prompt}", "{text_prompt}")
_HERE = "REWARD-TEXT"
_PIXELS = 256 * 28 * 28
"""Of a picture, more or less: HPSv3's and EditReward's least and most."""
_NARROWEST = 200
"""Longer sides of more than so many shorter ones are refused by Qwen's own preparation."""


@dataclass(frozen=True)
class Template:
    """A text with one `{prompt}` and one `<|Reward|>`, the token at which the rating is read. given: by the user.

    `{text_prompt}` stands for the same, as in the authors' files; nothing else in it is replaced, stripped or escaped.
    Raises ValueError for a text without them.
    """

    text: str
    given: bool = False
    where: str = "the template"

    @staticmethod
    def of(path: str | None, package: str, name: str) -> Template:
        """The text of a file; without one ours, which lies in a package's `prompts` under that name."""
        if path is None:
            ours = (files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
            return Template(ours.replace("{reward}", REWARD))
        if not Path(path).is_file():
            raise ValueError(f"template {path!r} is no file: give one with the text, {{prompt}} and {REWARD} in it")
        return Template(Path(path).read_text(encoding="utf-8"), True, f"template {path}")

    def __post_init__(self) -> None:
        slots = sum(map(self.text.count, _SLOTS))
        if slots != 1:
            raise ValueError(f"{self.where} has {slots} places for the prompt, expected one {{prompt}}")
        if self.text.count(REWARD) != 1:
            raise ValueError(
                f"{self.where} has {self.text.count(REWARD)} times {REWARD}, expected it once: the rating is read there"
            )

    @cached_property
    def parts(self) -> tuple[str, str]:
        """What is before the prompt, and after it."""
        slot = next(slot for slot in _SLOTS if slot in self.text)
        before, after = self.text.split(slot)
        return before, after

    @cached_property
    def digest(self) -> str:
        """Of the text, for an expert's id."""
        return f"{'given' if self.given else 'ours'}:{hashlib.sha256(self.text.encode()).hexdigest()[:12]}"


class RewardProcessor:
    """A backbone's tokenizer, with `<|Reward|>` behind all its tokens, and its image processor.

    Not transformers' own of the two, which cannot be had without torchvision for the sake of videos.
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
            raise ValueError(f"{name} has no chat template, which a rewarder's text goes into")
        return cls(tokenizer, AutoImageProcessor.from_pretrained(name, revision=revision, **options))

    def tokens(self, template: Template, prompt: str, pictures: list[int], image: int) -> list[int]:
        """The conversation: pictures, then the text. pictures: how many tokens each has. image: their token.

        Raises ValueError if the chat template has no place for them. What looks like one of the model's own control
        tokens in a prompt is read as words.
        """
        shown: list[dict[str, str]] = [{"type": "image"} for _ in pictures]
        said = [{"role": "user", "content": [*shown, {"type": "text", "text": _HERE}]}]
        chat = self.tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
        opening, _, ending = chat.partition(_HERE)
        before, after = template.parts
        found = self._encoded(opening + before, prompt, after + ending)
        if found.count(image) != len(pictures) or found.count(self.reward) != 1:
            raise ValueError(f"the chat template shows {found.count(image)} pictures, expected {len(pictures)}")
        counts = iter(pictures)
        return [token for one in found for token in ([one] * next(counts) if one == image else [one])]

    def _encoded(self, before: str, prompt: str, after: str) -> list[int]:
        controls = sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True)
        pieces = re.split(f"({'|'.join(map(re.escape, controls))})", prompt)
        pieces[0] = before + pieces[0]
        pieces[-1] += after  # one text where the prompt has none: words are joined across its ends
        return [
            token
            for i, piece in enumerate(pieces)
            for token in self.tokenizer(piece, add_special_tokens=False, split_special_tokens=i % 2 == 1)["input_ids"]
        ]

    @property
    def factor(self) -> int:
        """Pixels of a side of a vision token."""
        return int(self.image_processor.patch_size * self.image_processor.merge_size)

    def tokens_of(self, width: int, height: int) -> int:
        """How many vision tokens a picture has. Raises ValueError as `fitted` does."""
        wide, high = fitted(width, height, self.factor)
        return wide * high // self.factor**2

    def prepared(self, pictures: list[Any]) -> Any:
        """PIL pictures as the vision tower takes them: `pixel_values`, and `image_grid_thw` one row each."""
        from PIL.Image import Resampling

        # Resized here, as the authors do, so that it does not depend on what else prepares them.
        sized = [each.resize(fitted(each.width, each.height, self.factor), Resampling.BICUBIC) for each in pictures]
        return self.image_processor(sized, do_resize=False, return_tensors="pt")


def fitted(width: int, height: int, factor: int = 28) -> tuple[int, int]:
    """Width and height near 200,704 pixels, in whole patches, with about the same ratio.

    As Qwen's `smart_resize` with that for the least and the most: at most so many where it would be more, at least
    where it would be fewer. Raises ValueError for a side more than 200 times the other.
    """
    if max(width, height) > _NARROWEST * min(width, height):
        raise ValueError(f"a picture of {width} x {height} is narrower than 1 : {_NARROWEST}")
    wide, high = (max(1, round(side / factor)) for side in (width, height))
    if wide * high * factor**2 > _PIXELS:
        shrunk = math.sqrt(width * height / _PIXELS)
        wide, high = (max(1, math.floor(side / shrunk / factor)) for side in (width, height))
    elif wide * high * factor**2 < _PIXELS:
        grown = math.sqrt(_PIXELS / (width * height))
        wide, high = (math.ceil(side * grown / factor) for side in (width, height))
    return wide * factor, high * factor
