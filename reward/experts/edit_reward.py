"""EditReward: how people like an edit for its instruction, from two heads on Qwen2.5-VL 7B or MiMo-VL 7B.

Paper: EditReward, ICLR 2026, arXiv 2509.26346; code: TIGER-AI-Lab/EditReward.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from typing_extensions import Unpack

from ..models.checkpoint import Loading
from ..models.reward_heads import RewardHeads
from ..models.reward_rows import RewardExpert, Row
from ..models.reward_texts import Template
from ..query import Rate

_HEADS = {"instruction following": "following", "visual quality": "quality"}
"""Qualities, in the order of the heads, and the names of their templates."""


class EditHeads(RewardHeads):
    """EditReward's one file: all of the backbone's parameters, and a head for each of the two questions."""

    file = "model.safetensors"
    heads: ClassVar[tuple[str, ...]] = ("rm_heads.head_0", "rm_heads.head_1")
    backbone = "qwen2_5_vl"


class EditReward(RewardExpert):
    """Answers `Rate` of an edit: `sources` is the one picture that it was made of, `prompt` the instruction.

    The model reads the pair twice, asked how far the instruction was followed and how the result looks, each with a
    head of its own, and each head states a mean (value) and a standard deviation (sigma). Neither of a head's two
    outputs is a quality beside the other.

    quality: `preference` is what the authors report, the mean of both means; its sigma is as in their training, the
    exponential of the mean of both logarithms. `instruction following` and `visual quality` are one head each. These
    were trained through their mean alone: how it is shared between the two, and where either has its zero, nothing
    has fixed. The scale has no bounds: people preferred the one of two edits with the higher mean.

    template: a folder with the authors' texts, or others, as `following.txt` and `quality.txt`, `{prompt}` and
    `<|Reward|>` in each. Ours restate what it was trained on: only with the authors' own texts are these the numbers
    that they publish, and any other text shifts them.

    name: the folder, file or hub name of the weights. base: of the backbone they were trained from, for its
    configuration, tokenizer and image processor. batch: most pictures or rows in a pass. limit_bytes: for the vision
    tokens of recent pictures, about 2 MB each. loading: see `Loading`; the heads are kept in float32. See
    `RewardExpert` for what fails and what is counted.
    """

    loader = EditHeads
    weights_file = EditHeads.file
    qualities: ClassVar[tuple[str, ...]] = ("preference", *_HEADS)

    def __init__(
        self,
        name: str = "TIGER-Lab/EditReward-Qwen2.5-VL-7B",
        *,
        base: str = "Qwen/Qwen2.5-VL-7B-Instruct",
        template: str | None = None,
        batch: int = 8,
        limit_bytes: int = 512 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        if template is not None and not Path(template).is_dir():
            raise ValueError(f"template {template!r} is not a folder: give one with following.txt and quality.txt")
        self.base = base
        self.template = template
        self.texts = {
            quality: Template.of(
                None if template is None else str(Path(template) / f"{file}.txt"),
                "editcritic.reward.experts",
                f"edit_reward_{file}",
            )
            for quality, file in _HEADS.items()
        }
        super().__init__(name, base=base, batch=batch, limit_bytes=limit_bytes, **loading)

    def options_id(self) -> str:
        return "template=" + ",".join(text.digest for text in self.texts.values())

    def rows(self, query: Rate) -> tuple[Row, ...]:
        if len(query.sources) != 1:
            raise ValueError(
                f"it compares an edit with the one picture it was made of, got {len(query.sources)} sources"
            )
        if not query.prompt:
            raise ValueError("its prompt is the instruction, which is empty")
        shown = (*query.sources, query.image)
        return tuple(
            Row(head, text, shown, query.prompt)
            for head, (quality, text) in enumerate(self.texts.items())
            if query.quality in ("preference", quality)
        )
