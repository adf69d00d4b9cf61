"""EditReward: human preference for an edit, from two heads on Qwen2.5-VL 7B or MiMo-VL 7B.

Paper: EditReward, ICLR 2026, arXiv 2509.26346; code: TIGER-AI-Lab/EditReward.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from typing_extensions import Unpack

from ..queries.kinds import Rate
from .loading.checkpoint import LoadOptions
from .loading.reward_head_expert import RewardHeadExpert, RewardInput
from .loading.reward_heads import RewardHeads
from .loading.reward_prompts import RewardPromptTemplate

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

    template: a folder with the texts `following.txt` and `quality.txt`, each with `{prompt}` and `<|Reward|>`. The
    texts here paraphrase the training texts: only the authors' own reproduce published scores; any other text shifts
    them.

    name: folder, file or hub name of the weights. base: the backbone, for its configuration, tokenizer and image
    processor. batch: maximum images or rows in a pass. cache_bytes: for the vision tokens of recent images, about 2 MB
    each. loading: see `LoadOptions`; the heads are kept in float32. Failures and usage: see `RewardHeadExpert`.
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
