"""ImageReward: how well does a picture please those who wrote its prompt? (Xu et al., "ImageReward", 2023)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Image
from ..models.blip import FILE, ImageRewardInputs, ImageRewardWeights
from ..models.checkpoint import Loaded, Loading
from ..models.local import LocalExpert
from ..models.rating import refused
from ..outcomes import Failure
from ..query import Measured, Outcome, Rate

READS = 35
"""Tokens of a prompt, marks of its beginning and end included."""
MEAN, DEVIATION = 0.16717362830052426, 1.0333394966054072
"""Of what the head gives, over the authors' data."""


class ImageReward(LocalExpert[Outcome]):
    """Answers `Rate` of "preference" with the authors' reward, which has mean 0 and deviation 1 over their data.

    It is what github.com/THUDM/ImageReward computes, mostly between -2 and 2. Pictures are cut to the square in their
    middle, and seen at 224 pixels a side. Sources are passed over: an edit is rated like any picture, by what the
    prompt says it shows.

    name: a folder with `ImageReward.pt`, that file (or the same in safetensors), or a model on the hub; its
    `med_config.json` is not needed. base: the tokenizer, bert-base-uncased; the marks `[DEC]` and `[ENC]` that BLIP
    adds to it are not used by the reward. cut: whether only the beginning of a prompt of more than 35 tokens (about 25
    words) is read, as the authors do; else such a query fails. A query without a prompt fails: the authors' code would
    rate it by marks alone. limit_bytes: for features of recent pictures, 0.8 MB each in float32, so that another prompt
    on a picture does not encode it again. It is loaded whole: there is no quantisation and no device_map for it.

    `meter`: `image_passes` counts pictures encoded, `joint_passes` pairs of picture and prompt, `prompts_cut` queries
    with a longer prompt.
    """

    kinds = (Rate,)
    loader = ImageRewardWeights
    processor = ImageRewardInputs
    weights_file = FILE
    usual: ClassVar[Loading] = {"dtype": "float32", "backend": "pil"}

    def __init__(
        self,
        name: str = "zai-org/ImageReward",
        *,
        base: str = "google-bert/bert-base-uncased",
        cut: bool = True,
        batch: int = 32,
        limit_bytes: int = 256 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, base=base, batch=batch, limit_bytes=limit_bytes, **loading)
        self.base = base
        self.cut = cut
        self._joint_passes = 0
        self._cut = 0

    def options_id(self) -> str:
        return "" if self.cut else "whole prompts"

    def meter(self) -> Mapping[str, float]:
        return {
            "image_passes": self.remembered.computed,
            "joint_passes": self._joint_passes,
            "prompts_cut": self._cut,
        }

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where the tokenizer is not the one it was trained with."""
        with self.checkpoint.use() as loaded:
            self._check(loaded)

    def answers(self, queries: Sequence[Rate]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        with self.checkpoint.use() as loaded:
            self._check(loaded)
            for n, query in enumerate(queries):
                why = refused(query, self.name, "preference") or self._too_long(loaded, query.prompt)
                if why is not None:
                    outcomes[n] = why
            asked = {n: query for n, query in enumerate(queries) if n not in outcomes}
            images = {query.image.digest: query.image for query in asked.values()}
            # By picture, and a pass at a time: features of all pictures at once might not fit.
            pairs = sorted({(query.image.digest, query.prompt) for query in asked.values()})
            found: dict[tuple[str, str], float] = {}
            for start in range(0, len(pairs), self.batch):
                some = pairs[start : start + self.batch]
                shown = {digest: images[digest] for digest, _ in some}
                seen = self.remembered.of(shown, lambda new: self.in_passes(_pictures, loaded, new))
                wanted = [(seen[digest], prompt) for digest, prompt in some]
                found |= zip(some, self.in_passes(self._rewards, loaded, wanted), strict=True)
        outcomes |= {n: Measured(found[query.image.digest, query.prompt]) for n, query in asked.items()}
        return [outcomes[n] for n in range(len(queries))]

    def _too_long(self, loaded: Loaded, prompt: str) -> Failure | None:
        length = len(loaded.processor.tokenizer(prompt, split_special_tokens=True)["input_ids"])
        if length <= READS:
            return None
        if self.cut:
            self._cut += 1
            return None
        return Failure(
            f"a prompt of {length} tokens is longer than the {READS} that {self.name} reads: shorten it, or give "
            "cut=True"
        )

    def _check(self, loaded: Loaded) -> None:
        has, knows = len(loaded.processor.tokenizer), loaded.model["text"].config.vocab_size
        if not 0 <= knows - has <= 2:  # BLIP's marks may be in it or not
            raise ExpertDown(
                f"{self.name} was trained with the {knows - 2} tokens of bert-base-uncased, and {self.base} "
                f"has {has}: give the tokenizer as base"
            )

    def _rewards(self, loaded: Loaded, pairs: Sequence[tuple[Any, str]]) -> list[float]:
        """Of a picture's features and a prompt each."""
        import torch

        tokens = loaded.processor.tokenizer(
            [prompt for _, prompt in pairs],
            padding="max_length",
            truncation=True,
            max_length=READS,
            split_special_tokens=True,
            return_tensors="pt",
        ).to(loaded.device)
        features = torch.stack([features for features, _ in pairs])
        read = loaded.model["text"](
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], encoder_hidden_states=features
        ).last_hidden_state[:, 0]
        self._joint_passes += len(pairs)
        rewards = (loaded.model["head"](read.float())[:, 0].double() - MEAN) / DEVIATION
        return [float(reward) for reward in rewards.cpu()]


def _pictures(loaded: Loaded, images: Sequence[Image]) -> list[Any]:
    """Features of each patch after the class token, 197 x 1024 each."""
    prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
    pixels = prepared["pixel_values"].to(loaded.device, loaded.dtype)
    return [one.clone() for one in loaded.model["vision"](pixel_values=pixels).last_hidden_state]
