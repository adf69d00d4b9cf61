"""RewardExpert: what experts with reward heads are made of: rows of pictures and text, each read by one head."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Image
from ..outcomes import Failure
from ..query import Measured, Outcome, Rate
from .checkpoint import Loaded, Loading
from .local import LocalExpert
from .reward_texts import RewardProcessor, Template

Read = NDArray[np.float64]
"""Mean, and natural logarithm of the standard deviation."""


class Row(NamedTuple):
    """One reading: the pictures, then a template with the prompt in it. head: by number."""

    head: int
    template: Template
    pictures: tuple[Image, ...]
    prompt: str

    @property
    def key(self) -> str:
        shown = " ".join(image.digest for image in self.pictures)
        return f"{self.head} {self.template.digest} {shown} {self.prompt}"


class _Ready(NamedTuple):
    """A row as the model reads it."""

    row: Row
    tokens: list[int]


class RewardExpert(LocalExpert[Outcome]):
    """Answers `Rate` with a mean and the standard deviation that the model states. Subclasses say which rows are read.

    A rating of several rows has the mean of their means, and of the logarithms of their standard deviations. A picture
    is encoded once for all prompts, and a row is read once for all qualities. What fails by itself: a picture narrower
    than 1 : 200, a prompt longer than the model reads, and what is no finite number.

    `meter`: `image_passes` counts pictures put through the vision tower, `forward_passes` those of the language model,
    `prompt_tokens` what it read, without padding.
    """

    kinds = (Rate,)
    processor = RewardProcessor
    qualities: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, *, base: str, batch: int, limit_bytes: int, **loading: Unpack[Loading]) -> None:
        super().__init__(name, base=base, batch=batch, limit_bytes=limit_bytes, **loading)
        self.counts = dict.fromkeys(("image_passes", "forward_passes", "prompt_tokens"), 0)

    @abstractmethod
    def rows(self, query: Rate) -> tuple[Row, ...]:
        """What is read for a query of one of the qualities. Raises ValueError where it lacks something."""

    def meter(self) -> Mapping[str, float]:
        return dict(self.counts)

    def answers(self, queries: Sequence[Rate]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self._check(loaded)
            asked = [self._asked(loaded, query) for query in queries]
            wanted = {ready.row.key: ready for each in asked if not isinstance(each, Failure) for ready in each}
            read = self.remembered.of(wanted, lambda missing: self._read(loaded, missing))
        return [
            each if isinstance(each, Failure) else self._answer([read[ready.row.key] for ready in each])
            for each in asked
        ]

    def _asked(self, loaded: Loaded, query: Rate) -> list[_Ready] | Failure:
        if query.quality not in self.qualities:
            return Failure(f"{self.name} rates {', '.join(self.qualities)} only, not {query.quality!r}")
        try:
            return [self._ready(loaded, row) for row in self.rows(query)]
        except ValueError as error:
            return Failure(f"{self.name} cannot rate this: {error}")

    def _check(self, loaded: Loaded) -> None:
        words, known = len(loaded.model.get_input_embeddings().weight), len(loaded.processor.tokenizer)
        if words != known:
            raise ExpertDown(
                f"{self.name} knows {words} tokens, the tokenizer of {self.checkpoint.base} with <|Reward|> has "
                f"{known}: the base is not the model that it was trained from"
            )

    def _answer(self, read: Sequence[Read]) -> Outcome:
        mean, spread = np.mean(np.stack(read), axis=0).tolist()
        if not (math.isfinite(mean) and spread < _STEEPEST):
            return Failure(f"{self.name} gave a mean of {mean:g} and a standard deviation of exp({spread:g})")
        return Measured(mean, sigma=math.exp(spread))

    # -- reading ------------------------------------------------------------------------------------------------------

    def _ready(self, loaded: Loaded, row: Row) -> _Ready:
        config = loaded.model.config
        sizes = [loaded.processor.tokens_of(image.width, image.height) for image in row.pictures]
        tokens = loaded.processor.tokens(row.template, row.prompt, sizes, config.image_token_id)
        most = config.text_config.max_position_embeddings
        if len(tokens) > most:
            raise ValueError(f"it reads up to {most} tokens, this is {len(tokens)}")
        return _Ready(row, tokens)

    def _read(self, loaded: Loaded, wanted: Sequence[_Ready]) -> list[Read]:
        images = {image.digest: image for ready in wanted for image in ready.row.pictures}
        encoded = self.remembered.of(images, lambda missing: self.in_passes(self._encode, loaded, missing))

        def compute(loaded: Loaded, some: Sequence[_Ready]) -> list[Read]:
            return self._forward(loaded, some, encoded)

        # Rows of one length together: reading what fills up costs what reading words costs.
        order = sorted(range(len(wanted)), key=lambda place: len(wanted[place].tokens))
        made = dict(zip(order, self.in_passes(compute, loaded, [wanted[place] for place in order]), strict=True))
        return [made[place] for place in range(len(wanted))]

    def _encode(self, loaded: Loaded, images: Sequence[Image]) -> list[Any]:
        prepared = loaded.processor.prepared([image.pil() for image in images])
        pixels, grids = prepared["pixel_values"], prepared["image_grid_thw"]
        made = loaded.model.encode(pixels.to(loaded.device, loaded.dtype), grids.to(loaded.device))
        self.counts["image_passes"] += len(images)
        # Of its own each: a part of what several pictures have together would keep all of that.
        return [each.clone() for each in made]

    def _forward(self, loaded: Loaded, rows: Sequence[_Ready], encoded: Mapping[str, Any]) -> list[Read]:
        import torch

        reward = loaded.processor.reward
        tokens = torch.full((len(rows), max(len(ready.tokens) for ready in rows)), reward)
        for i, ready in enumerate(rows):
            tokens[i, : len(ready.tokens)] = torch.tensor(ready.tokens)
        places = torch.tensor([ready.tokens.index(reward) for ready in rows])
        which = torch.tensor([ready.row.head for ready in rows])
        pictures = torch.cat([encoded[image.digest] for ready in rows for image in ready.row.pictures])
        made = loaded.model(tokens.to(loaded.device), pictures, places, which)
        self.counts["forward_passes"] += 1
        self.counts["prompt_tokens"] += sum(len(ready.tokens) for ready in rows)
        return list(made.cpu().numpy().astype(np.float64))


_STEEPEST = 700.0
"""The largest logarithm that `exp` can take."""
