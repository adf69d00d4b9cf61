"""Similarity of CLIP features: did the picture move as the text did, and how far did it move?"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..asking import Asks, ask
from ..card import Card
from ..query import Embed, EmbedText, Region, Vectors
from ..sample import EditSample
from ..score import Evidence, Score
from .thresholds import task_type

ROLE = "features.clip"
"""Falls back to the expert bound as `features`; one that embeds no text makes directional scores fail, and says so."""

_WHOLE = (Region("cls"),)

Text = Literal["captions", "instruction"]


@dataclass(frozen=True)
class Similarity(ABC):
    """A cosine in [-1, 1], or a verdict where there is a threshold: 1.0 from it on, else 0.0.

    thresholds: for types of tasks, see `tuned_thresholds`. threshold: for the types that have none there. With
    `thresholds` alone, edits of other types are not applicable.
    """

    _: KW_ONLY
    threshold: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)

    raw: ClassVar[Card]

    def __post_init__(self) -> None:
        given = [*self.thresholds.values(), *([] if self.threshold is None else [self.threshold])]
        if not all(math.isfinite(at) for at in given):
            raise ValueError(f"{self.raw.name}: thresholds must be finite numbers, got {given}")

    @property
    def card(self) -> Card:
        return replace(self.raw, range=(0.0, 1.0), unit="share") if self._binary else self.raw

    @property
    def _binary(self) -> bool:
        return self.threshold is not None or bool(self.thresholds)

    @property
    def signature(self) -> str:
        """As in `clip-image@1[threshold=0.8]`, with the options that are not the default."""
        options = self._options()
        options += [] if self.threshold is None else [f"threshold={self.threshold:g}"]
        options += [f"{name}={at:g}" for name, at in sorted(self.thresholds.items())]
        return self.raw.signed(options=options)

    def _options(self) -> list[str]:
        return []

    def __call__(self, sample: EditSample) -> Asks[Score]:
        at = self.thresholds.get(task_type(sample), self.threshold)
        if self._binary and at is None:
            why = f"there is no threshold for a {task_type(sample) or 'task of no known type'}: give `threshold`"
            return Score.not_applicable(why).by(self.signature)
        score = yield from self.cosine(sample)
        if at is not None and score.value is not None:
            found = Evidence("similarity", sample.edited.digest, numbers={"cosine": score.value, "threshold": at})
            score = Score.of(score.value >= at, f"{score.value:.4f} against {at:g}", evidence=[found])
        return score.by(self.signature)

    @abstractmethod
    def cosine(self, sample: EditSample) -> Asks[Score]:
        """The cosine, or why there is none."""


@dataclass(frozen=True)
class ClipImage(Similarity):
    """CLIP_img: the cosine of the features of source and edited picture, 1 where nothing has changed."""

    raw: ClassVar[Card] = Card(
        "clip-image",
        1,
        "the edited image has the CLIP features of the source",
        range=(-1.0, 1.0),
        unit="cosine",
        roles=(ROLE,),
        requires=("sources", "edited"),
        source="Complex-Edit (arXiv 2504.13143), section 4.1.6, table 2: correlation with people's preservation 0.523",
        gaming="An unchanged copy wins. What is small or fine may change unseen: features tell of meaning, not pixels.",
        about="consistency",
    )

    def cosine(self, sample: EditSample) -> Asks[Score]:
        before, after = yield from ask(Embed(sample.source, _WHOLE), Embed(sample.edited, _WHOLE), role=ROLE)
        return Score.of(before.cosine(after, 0))


@dataclass(frozen=True)
class ClipDirectional(Similarity):
    """CLIP_dir: the cosine between how the picture's features have moved and how the text's did.

    All features have length 1 before they are subtracted (Gal et al., 2022). An edited picture with the features of the
    source has moved nowhere: 0.

    text: where the text's direction comes from. `captions`: from sample.metadata["source_caption"] to
    sample.metadata["target_caption"]; not applicable to samples without them, or with two that CLIP cannot tell apart.
    `instruction`: the features of the instruction itself, for want of captions.
    """

    text: Text = "captions"

    raw: ClassVar[Card] = Card(
        "clip-directional",
        1,
        "the picture has moved in CLIP's space as its description did",
        range=(-1.0, 1.0),
        unit="cosine",
        roles=(ROLE,),
        requires=("sources", "edited"),
        source=(
            "EdiVal-Agent (ICLR 2026), figure 4 and table 13: thresholds tuned by task agree with people in 65.4 % of "
            "edits; which texts it compares is unsaid. Complex-Edit (arXiv 2504.13143), table 2: correlation with "
            "people's instruction following 0.182. Gal et al. (2022), StyleGAN-NADA."
        ),
        gaming=(
            "Goes by the direction of the change and not by its size: a faint trace of what was asked for scores like "
            "the whole. Letters in the picture read like the thing they name. Without captions an instruction is not "
            "a direction, only a text that the change should resemble: a removal is rewarded for showing the object."
        ),
        about="following",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text not in get_args(Text):
            raise ValueError(f"clip-directional takes its text from {' or '.join(get_args(Text))}, got {self.text!r}")

    def _options(self) -> list[str]:
        return [] if self.text == "captions" else [f"text={self.text}"]

    def cosine(self, sample: EditSample) -> Asks[Score]:
        pictures = (Embed(sample.source, _WHOLE), Embed(sample.edited, _WHOLE))
        if self.text == "instruction":
            before, after, words = yield from ask(*pictures, EmbedText(sample.instruction), role=ROLE)
            direction = _unit(words)
        else:
            source, target = (sample.metadata.get(f"{which}_caption", "") for which in ("source", "target"))
            if not (source and target):
                return Score.not_applicable(
                    'the sample has no captions: give metadata={"source_caption": ..., "target_caption": ...}, or use '
                    'text="instruction"'
                )
            asked = (EmbedText(str(source)), EmbedText(str(target)))
            before, after, first, second = yield from ask(*pictures, *asked, role=ROLE)
            direction = _unit(second) - _unit(first)
        if not direction.any():
            return Score.not_applicable("the text has no direction: both captions have the same features")
        moved = _unit(after) - _unit(before)
        length = float(np.linalg.norm(moved))
        if length == 0:
            return Score.of(0.0, "the edited picture has the features of the source")
        value = float(np.clip(moved @ direction / (length * np.linalg.norm(direction)), -1.0, 1.0))
        return Score.of(value, evidence=[Evidence("moved", sample.edited.digest, numbers={"distance": length})])


def _unit(vectors: Vectors) -> NDArray[np.float64]:
    values: NDArray[np.float64] = vectors.values[0].astype(np.float64)
    length = float(np.linalg.norm(values))
    return values / length if length > 0 else values
