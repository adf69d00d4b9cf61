"""Hpsv3: how people like a picture for a description, from a head on Qwen2-VL 7B.

Paper: HPSv3, ICCV 2025, arXiv 2508.03789; code: MizzenAI/HPSv3.
"""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import Unpack

from ..models.checkpoint import Loading
from ..models.reward_heads import RewardHeads
from ..models.reward_rows import RewardExpert, Row
from ..models.reward_texts import Template
from ..query import Rate


class HpsHead(RewardHeads):
    """HPSv3's one file: all of the backbone's parameters, and one head."""

    file = "HPSv3.safetensors"
    heads: ClassVar[tuple[str, ...]] = ("rm_head",)
    backbone = "qwen2_vl"


class Hpsv3(RewardExpert):
    """Answers `Rate` of quality `preference`: value is the mean that the model states, sigma its standard deviation.

    The scale has no bounds and no zero: people preferred the one of two pictures with the higher mean. The prompt is
    what the picture was made from; it may be empty. HPSv3 was trained on pictures made from text and does not look at
    `sources`.

    template: a file with the text that the model is asked, `{prompt}` and `<|Reward|>` in it. Ours restates what it
    was trained on: only with the authors' own text are these the numbers that they publish, and any other text
    shifts them.

    name: the folder, file or hub name of the weights. base: of the backbone they were trained from, for its
    configuration, tokenizer and image processor. batch: most pictures or rows in a pass. limit_bytes: for the vision
    tokens of recent pictures, about 2 MB each. loading: see `Loading`; the head is kept in float32. See `RewardExpert`
    for what fails and what is counted.
    """

    loader = HpsHead
    weights_file = HpsHead.file
    qualities: ClassVar[tuple[str, ...]] = ("preference",)

    def __init__(
        self,
        name: str = "MizzenAI/HPSv3",
        *,
        base: str = "Qwen/Qwen2-VL-7B-Instruct",
        template: str | None = None,
        batch: int = 8,
        limit_bytes: int = 512 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        self.base = base
        self.template = template
        self.text = Template.of(template, "editcritic.reward.experts", "hpsv3")
        super().__init__(name, base=base, batch=batch, limit_bytes=limit_bytes, **loading)

    def options_id(self) -> str:
        return f"template={self.text.digest}"

    def rows(self, query: Rate) -> tuple[Row, ...]:
        return (Row(0, self.text, (query.image,), query.prompt),)
