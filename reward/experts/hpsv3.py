"""Hpsv3: human preference for an image given a description, from a head on Qwen2-VL 7B.

Paper: HPSv3, ICCV 2025, arXiv 2508.03789; code: MizzenAI/HPSv3.
"""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import Unpack

from ..queries.kinds import Rate
from .loading.checkpoint import LoadOptions
from .loading.reward_head_expert import RewardHeadExpert, RewardInput
from .loading.reward_heads import RewardHeads
from .loading.reward_prompts import RewardPromptTemplate


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

    template: a file with the model's text, with `{prompt}` and `<|Reward|>`. The text here paraphrases the training
    text: only the authors' own reproduces published scores; any other text shifts them.

    name: folder, file or hub name of the weights. base: the backbone, for its configuration, tokenizer and image
    processor. batch: maximum images or rows in a pass. cache_bytes: for the vision tokens of recent images, about 2 MB
    each. loading: see `LoadOptions`; the head is kept in float32. Failures and usage: see `RewardHeadExpert`.
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
