"""ImageReward: human preference for an image given its prompt (Xu et al., "ImageReward", 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from ..queries.expert import ExpertDown
from ..queries.kinds import Measurement, Outcome, Rate
from ..queries.outcomes import Failure
from .loading.blip import FILE, ImageRewardInputs, ImageRewardWeights
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert
from .loading.rating_queries import unsupported_rating

MAX_PROMPT_TOKENS = 35
"""Tokens of a prompt, including those for beginning and end."""
MEAN, DEVIATION = 0.16717362830052426, 1.0333394966054072
"""Of the head's output, over the authors' data."""


class ImageReward(LocalExpert[Outcome]):
    """Answers `Rate` of "preference" with the authors' reward, which has mean 0 and deviation 1 over their data.

    It is what github.com/THUDM/ImageReward computes, mostly between -2 and 2. Images are cropped to the central square
    and resized to 224 x 224. Sources are ignored: an edit is rated like any image, by a prompt that describes the
    image.

    name: a folder with `ImageReward.pt`, that file (or the same in safetensors), or a model on the hub; its
    `med_config.json` is not needed. base: the tokenizer, bert-base-uncased; the tokens `[DEC]` and `[ENC]` that BLIP
    adds to it are not used by the reward. truncate_prompt: whether prompts of more than 35 tokens (about 25 words) are
    truncated, as the authors do; else such a query fails. A query without a prompt fails; the authors' code would rate
    it by special tokens alone. cache_bytes: for features of recent images, 0.8 MB each in float32, which are reused for
    other prompts. quantisation and device_map are not supported.

    `usage`: `image_passes` counts images encoded, `joint_passes` pairs of image and prompt, `prompts_cut` queries
    with a truncated prompt.
    """

    kinds = (Rate,)
    loader = ImageRewardWeights
    processor = ImageRewardInputs
    weights_file = FILE
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32", "backend": "pil"}

    def __init__(
        self,
        name: str = "zai-org/ImageReward",
        *,
        base: str = "google-bert/bert-base-uncased",
        truncate_prompt: bool = True,
        batch: int = 32,
        cache_bytes: int = 256 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(name, base=base, batch=batch, cache_bytes=cache_bytes, **loading)
        self.base = base
        self.truncate_prompt = truncate_prompt
        self._joint_passes = 0
        self._cut = 0

    def options_id(self) -> str:
        return "" if self.truncate_prompt else "whole prompts"

    def usage(self) -> Mapping[str, float]:
        return {
            "image_passes": self.feature_cache.computed,
            "joint_passes": self._joint_passes,
            "prompts_cut": self._cut,
        }

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` if the tokenizer is not the one it was trained with."""
        with self.checkpoint.use() as loaded:
            self._check(loaded)

    def answer_batch(self, queries: Sequence[Rate]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        with self.checkpoint.use() as loaded:
            self._check(loaded)
            for n, query in enumerate(queries):
                failure = unsupported_rating(query, self.name, "preference") or self._too_long(loaded, query.prompt)
                if failure is not None:
                    outcomes[n] = failure
            valid = {n: query for n, query in enumerate(queries) if n not in outcomes}
            images = {query.image.digest: query.image for query in valid.values()}
            # Sorted by image, one batch at a time: the features of all images might not fit into memory.
            pairs = sorted({(query.image.digest, query.prompt) for query in valid.values()})
            rewards: dict[tuple[str, str], float] = {}
            for start in range(0, len(pairs), self.batch):
                batch = pairs[start : start + self.batch]
                batch_images = {digest: images[digest] for digest, _ in batch}
                features = self.feature_cache.get_or_compute(
                    batch_images, lambda new: self.run_microbatched(_encode, loaded, new)
                )
                inputs = [(features[digest], prompt) for digest, prompt in batch]
                rewards |= zip(batch, self.run_microbatched(self._rewards, loaded, inputs), strict=True)
        outcomes |= {n: Measurement(rewards[query.image.digest, query.prompt]) for n, query in valid.items()}
        return [outcomes[n] for n in range(len(queries))]

    def _too_long(self, loaded: LoadedModel, prompt: str) -> Failure | None:
        length = len(loaded.processor.tokenizer(prompt, split_special_tokens=True)["input_ids"])
        if length <= MAX_PROMPT_TOKENS:
            return None
        if self.truncate_prompt:
            self._cut += 1
            return None
        return Failure(
            f"a prompt of {length} tokens is longer than the {MAX_PROMPT_TOKENS} that {self.name} reads: shorten it, "
            "or set truncate_prompt=True"
        )

    def _check(self, loaded: LoadedModel) -> None:
        tokenizer_size, vocabulary_size = len(loaded.processor.tokenizer), loaded.model["text"].config.vocab_size
        if not 0 <= vocabulary_size - tokenizer_size <= 2:  # BLIP's two tokens are optional
            raise ExpertDown(
                f"{self.name} was trained with the {vocabulary_size - 2} tokens of bert-base-uncased, {self.base} "
                f"has {tokenizer_size}: give that tokenizer as base"
            )

    def _rewards(self, loaded: LoadedModel, pairs: Sequence[tuple[Any, str]]) -> list[float]:
        """Rewards of pairs of image features and prompt."""
        import torch

        tokens = loaded.processor.tokenizer(
            [prompt for _, prompt in pairs],
            padding="max_length",
            truncation=True,
            max_length=MAX_PROMPT_TOKENS,
            split_special_tokens=True,
            return_tensors="pt",
        ).to(loaded.device)
        features = torch.stack([features for features, _ in pairs])
        states = loaded.model["text"](
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], encoder_hidden_states=features
        ).last_hidden_state[:, 0]
        self._joint_passes += len(pairs)
        rewards = (loaded.model["head"](states.float())[:, 0].double() - MEAN) / DEVIATION
        return [float(reward) for reward in rewards.cpu()]


def _encode(loaded: LoadedModel, images: Sequence[Image]) -> list[Any]:
    """Token features of each image, class token first, 197 x 1024."""
    prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
    pixels = prepared["pixel_values"].to(loaded.device, loaded.dtype)
    return [features.clone() for features in loaded.model["vision"](pixel_values=pixels).last_hidden_state]
