"""Human preference by a vision-language model with reward heads: HPSv3 rates images, EditReward edits.

HPSv3: ICCV 2025, arXiv 2508.03789; code: MizzenAI/HPSv3. EditReward: ICLR 2026, arXiv 2509.26346; code:
TIGER-AI-Lab/EditReward.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from ..image import Image
from ..queries.answers import Measurement, Outcome
from ..queries.expert import ExpertDown
from ..queries.kinds import Rate
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert
from .loading.reward_heads import RewardHeads, RewardProcessor, RewardPromptTemplate

HeadOutput = NDArray[np.float64]
"""Mean, and natural logarithm of the standard deviation."""


class RewardInput(NamedTuple):
    """One input row: the images, then a template with the prompt in it. head: its index."""

    head: int
    template: RewardPromptTemplate
    pictures: tuple[Image, ...]
    prompt: str

    @property
    def key(self) -> str:
        digests = " ".join(image.digest for image in self.pictures)
        return f"{self.head} {self.template.digest} {digests} {self.prompt}"


class _TokenizedInput(NamedTuple):
    row: RewardInput
    tokens: list[int]


class RewardHeadExpert(LocalExpert[Outcome]):
    """Answers `Rate` with the mean and standard deviation that the model predicts. Subclasses define the rows.

    A rating of several rows averages their means and the logarithms of their standard deviations. Each image is encoded
    once for all prompts, and each row is read once for all qualities. A query fails for an image narrower than 1 : 200,
    a prompt longer than the model reads, or an output that is not finite.

    `usage`: `image_passes` counts images encoded by the vision tower, `forward_passes` those of the language model,
    `prompt_tokens` its input tokens, without padding.
    """

    kinds = (Rate,)
    processor = RewardProcessor
    counters = ("image_passes", "forward_passes", "prompt_tokens")
    qualities: ClassVar[tuple[str, ...]]

    @abstractmethod
    def rows(self, query: Rate) -> tuple[RewardInput, ...]:
        """The rows of a query for one of the qualities. Raises ValueError if the query lacks an input."""

    def answer_batch(self, queries: Sequence[Rate]) -> list[Outcome]:
        with self.checkpoint.use() as loaded:
            self.check(loaded)
            tokenized = [self._tokenized_rows(loaded, query) for query in queries]
            inputs = {item.row.key: item for rows in tokenized if not isinstance(rows, Failure) for item in rows}
            outputs = self.feature_cache.get_or_compute(inputs, lambda missing: self._read(loaded, missing))
        return [
            rows if isinstance(rows, Failure) else self._answer([outputs[item.row.key] for item in rows])
            for rows in tokenized
        ]

    def _tokenized_rows(self, loaded: LoadedModel, query: Rate) -> list[_TokenizedInput] | Failure:
        if query.quality not in self.qualities:
            return Failure(f"{self.name} rates {', '.join(self.qualities)} only, got {query.quality!r}")
        try:
            return [self._tokenize(loaded, row) for row in self.rows(query)]
        except ValueError as error:
            return Failure(f"{self.name} cannot rate this: {error}")

    def check(self, loaded: LoadedModel) -> None:
        vocabulary, expected = len(loaded.model.get_input_embeddings().weight), len(loaded.processor.tokenizer)
        if vocabulary != expected:
            raise ExpertDown(
                f"{self.name} has {vocabulary} tokens, the tokenizer of {self.checkpoint.base} with <|Reward|> has "
                f"{expected}: the base is not the model that it was trained from"
            )

    def _answer(self, outputs: Sequence[HeadOutput]) -> Outcome:
        mean, log_sigma = np.mean(np.stack(outputs), axis=0).tolist()
        if not (math.isfinite(mean) and log_sigma < _MAX_LOG_SIGMA):
            return Failure(f"{self.name} gave a mean of {mean:g} and a standard deviation of exp({log_sigma:g})")
        return Measurement(mean, sigma=math.exp(log_sigma))

    def _tokenize(self, loaded: LoadedModel, row: RewardInput) -> _TokenizedInput:
        config = loaded.model.config
        sizes = [loaded.processor.tokens_of(image.width, image.height) for image in row.pictures]
        tokens = loaded.processor.tokens(row.template, row.prompt, sizes, config.image_token_id)
        max_tokens = config.text_config.max_position_embeddings
        if len(tokens) > max_tokens:
            raise ValueError(f"it reads up to {max_tokens} tokens, this is {len(tokens)}")
        return _TokenizedInput(row, tokens)

    def _read(self, loaded: LoadedModel, inputs: Sequence[_TokenizedInput]) -> list[HeadOutput]:
        images = {image.digest: image for item in inputs for image in item.row.pictures}
        encoded = self.cached(self._encode, loaded, images)

        def compute(loaded: LoadedModel, batch: Sequence[_TokenizedInput]) -> list[HeadOutput]:
            return self._forward(loaded, batch, encoded)

        # Sorted by length: padding tokens cost as much as text tokens.
        order = sorted(range(len(inputs)), key=lambda index: len(inputs[index].tokens))
        outputs = self.run_microbatched(compute, loaded, [inputs[index] for index in order])
        return [output for _, output in sorted(zip(order, outputs, strict=True), key=lambda pair: pair[0])]

    def _encode(self, loaded: LoadedModel, images: Sequence[Image]) -> list[Any]:
        prepared = loaded.processor.prepared([image.pil() for image in images])
        pixels, grids = prepared["pixel_values"], prepared["image_grid_thw"]
        features = loaded.model.encode(pixels.to(loaded.device, loaded.dtype), grids.to(loaded.device))
        self.counts["image_passes"] += len(images)
        # Cloned: a view would keep the features of the whole batch in memory.
        return [tokens.clone() for tokens in features]

    def _forward(
        self, loaded: LoadedModel, rows: Sequence[_TokenizedInput], encoded: Mapping[str, Any]
    ) -> list[HeadOutput]:
        import torch

        reward = loaded.processor.reward
        tokens = torch.full((len(rows), max(len(item.tokens) for item in rows)), reward)
        for i, item in enumerate(rows):
            tokens[i, : len(item.tokens)] = torch.tensor(item.tokens)
        positions = torch.tensor([item.tokens.index(reward) for item in rows])
        heads = torch.tensor([item.row.head for item in rows])
        features = torch.cat([encoded[image.digest] for item in rows for image in item.row.pictures])
        outputs = loaded.model(tokens.to(loaded.device), features, positions, heads)
        self.counts["forward_passes"] += 1
        self.counts["prompt_tokens"] += sum(len(item.tokens) for item in rows)
        return list(outputs.cpu().numpy().astype(np.float64))


_MAX_LOG_SIGMA = 700.0  # the largest logarithm that `exp` can take


class HpsHeads(RewardHeads):
    """HPSv3's weight file: all parameters of the backbone and one head."""

    file = "HPSv3.safetensors"
    heads: ClassVar[tuple[str, ...]] = ("rm_head",)
    backbone = "qwen2_vl"


class Hpsv3(RewardHeadExpert):
    """Answers `Rate` of quality `preference`: value is the predicted mean, sigma the predicted standard deviation.

    The scale is unbounded and has no zero point; of two images, people preferred the one with the higher mean. The
    prompt is the text that the image was generated from; it may be empty. HPSv3 was trained on text-to-image samples
    and ignores `sources`.

    Args:
        name: Folder, file or hub name of the weights.
        base: The backbone, for its configuration, tokenizer and image processor.
        template: A file with the model's text, with `{prompt}` and `<|Reward|>`. The text here paraphrases the training
            text: only the authors' own reproduces published scores; any other text shifts them.
        batch: Maximum images or rows in a pass.
        cache_bytes: For the vision tokens of recent images, about 2 MB each.
        loading: See `LoadOptions`; the head is kept in float32. Failures and usage: see `RewardHeadExpert`.
    """

    loader = HpsHeads
    weights_file = HpsHeads.file
    qualities: ClassVar[tuple[str, ...]] = ("preference",)

    def __init__(
        self,
        name: str = "MizzenAI/HPSv3",
        *,
        base: str = "Qwen/Qwen2-VL-7B-Instruct",
        template: str | None = None,
        batch: int = 8,
        cache_bytes: int = 512 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        self.base = base
        self.template = template
        self.text = RewardPromptTemplate.of(template, "editcritic.reward.experts", "hpsv3")
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)

    def options_id(self) -> str:
        return f"template={self.text.digest}"

    def rows(self, query: Rate) -> tuple[RewardInput, ...]:
        return (RewardInput(0, self.text, (query.image,), query.prompt),)


_HEADS = {"instruction following": "following", "visual quality": "quality"}
"""Qualities, in the order of the heads, and the names of their templates."""


class EditRewardHeads(RewardHeads):
    """EditReward's weight file: all parameters of the backbone and a head for each of two qualities."""

    file = "model.safetensors"
    heads: ClassVar[tuple[str, ...]] = ("rm_heads.head_0", "rm_heads.head_1")
    backbone = "qwen2_5_vl"


class EditReward(RewardHeadExpert):
    """Answers `Rate` of an edit: `sources` is the single source image, `prompt` the instruction.

    The model reads the pair twice, once for instruction following and once for visual quality, with a head each. Each
    head predicts a mean (value) and a standard deviation (sigma).

    quality: `preference` is the authors' score, the mean of both means; its sigma is as in their training, the
    exponential of the mean of both logarithms. `instruction following` and `visual quality` are one head each. Training
    constrained only the mean of the two: neither their difference nor their zero points are calibrated. The scale is
    unbounded; of two edits, people preferred the one with the higher mean.

    Args:
        name: Folder, file or hub name of the weights.
        base: The backbone, for its configuration, tokenizer and image processor.
        template: A folder with the texts `following.txt` and `quality.txt`, each with `{prompt}` and `<|Reward|>`. The
            texts here paraphrase the training texts: only the authors' own reproduce published scores; any other text
            shifts them.
        batch: Maximum images or rows in a pass.
        cache_bytes: For the vision tokens of recent images, about 2 MB each.
        loading: See `LoadOptions`; the heads are kept in float32. Failures and usage: see `RewardHeadExpert`.
    """

    loader = EditRewardHeads
    weights_file = EditRewardHeads.file
    qualities: ClassVar[tuple[str, ...]] = ("preference", *_HEADS)

    def __init__(
        self,
        name: str = "TIGER-Lab/EditReward-Qwen2.5-VL-7B",
        *,
        base: str = "Qwen/Qwen2.5-VL-7B-Instruct",
        template: str | None = None,
        batch: int = 8,
        cache_bytes: int = 512 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        if template is not None and not Path(template).is_dir():
            raise ValueError(f"template {template!r} is not a folder: give one with following.txt and quality.txt")
        self.base = base
        self.template = template
        self.texts = {
            quality: RewardPromptTemplate.of(
                None if template is None else str(Path(template) / f"{file}.txt"),
                "editcritic.reward.experts",
                f"edit_reward_{file}",
            )
            for quality, file in _HEADS.items()
        }
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)

    def options_id(self) -> str:
        return "template=" + ",".join(text.digest for text in self.texts.values())

    def rows(self, query: Rate) -> tuple[RewardInput, ...]:
        if len(query.sources) != 1:
            raise ValueError(f"it compares an edit with one source image, got {len(query.sources)}")
        if not query.prompt:
            raise ValueError("the prompt, which is the instruction, is empty")
        images = (*query.sources, query.image)
        return tuple(
            RewardInput(head, text, images, query.prompt)
            for head, (quality, text) in enumerate(self.texts.items())
            if query.quality in ("preference", quality)
        )
