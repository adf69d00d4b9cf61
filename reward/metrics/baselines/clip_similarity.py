"""Similarity of CLIP features: between source and edited image, and between the image change and the text change."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...card import Card
from ...engine.program import Program, ask
from ...queries.answers import Embeddings, Region
from ...queries.kinds import Embed, EmbedText
from ...sample import EditSample
from ...score import Evidence, Score
from ..edival.task_parser import task_of
from ..prompted_metric import check_choice


def task_type(sample: EditSample) -> str:
    """The type of a sample's task, from its `task` or its instruction; empty if it is none of EdiVal's nine types."""
    task = task_of(sample)
    return "" if task is None else task.type


def tuned_thresholds(
    samples: Sequence[EditSample], scores: Iterable[Score], succeeded: Iterable[bool]
) -> dict[str, float]:
    """For each task type, the threshold of a similarity in [-1, 1] that agrees most often with the labels
    (EdiVal-Agent, figure 4): a midpoint of two values or of an extreme and the end of the range, the middle one of
    equals (of two, the higher). Scores without a value are left out. Raises ValueError if the three differ in
    length."""
    by_type: dict[str, list[tuple[float, bool]]] = {}
    for sample, score, success in zip(samples, scores, succeeded, strict=True):
        if score.value is not None:
            by_type.setdefault(task_type(sample), []).append((score.value, success))
    return {name: _best_threshold(labelled) for name, labelled in sorted(by_type.items()) if name}


def _best_threshold(labelled: Sequence[tuple[float, bool]]) -> float:
    values = sorted({value for value, _ in labelled})
    candidates = [(low + high) / 2 for low, high in pairwise([-1.0, *values, 1.0])]
    candidates[-1] = max(candidates[-1], math.nextafter(values[-1], math.inf))  # above a value of 1.0, too
    agreement = [sum((value >= threshold) == success for value, success in labelled) for threshold in candidates]
    best = [threshold for threshold, count in zip(candidates, agreement, strict=True) if count == max(agreement)]
    return best[len(best) // 2]


ROLE = "features.clip"
"""Falls back to the expert bound as `features`; directional scores fail if it embeds no text."""

_CLS_REGION = (Region("cls"),)

TextSource = Literal["captions", "instruction"]


@dataclass(frozen=True)
class ClipSimilarity(ABC):
    """A cosine in [-1, 1], or with a threshold (by task type, or for all others) a verdict: 1.0 if it is reached,
    else 0.0. With `thresholds` alone, other types are not applicable."""

    _: KW_ONLY
    threshold: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)

    base_card: ClassVar[Card]

    def __post_init__(self) -> None:
        thresholds = [*self.thresholds.values(), *([] if self.threshold is None else [self.threshold])]
        if not all(math.isfinite(threshold) for threshold in thresholds):
            raise ValueError(f"{self.base_card.name}: thresholds must be finite numbers, got {thresholds}")

    @cached_property
    def card(self) -> Card:
        return replace(self.base_card, range=(0.0, 1.0), unit="share") if self._binary else self.base_card

    @property
    def _binary(self) -> bool:
        return self.threshold is not None or bool(self.thresholds)

    @cached_property
    def signature(self) -> str:
        """As in `clip-image@1[threshold=0.8]`, with the options that are not the default."""
        options = self._options()
        options += [] if self.threshold is None else [f"threshold={self.threshold:g}"]
        options += [f"{name}={threshold:g}" for name, threshold in sorted(self.thresholds.items())]
        return self.base_card.signature_with(options=options)

    def _options(self) -> list[str]:
        return []

    def __call__(self, sample: EditSample) -> Program[Score]:
        threshold = self.thresholds.get(task_type(sample), self.threshold)
        if self._binary and threshold is None:
            reason = f"there is no threshold for a {task_type(sample) or 'task of no known type'}: give `threshold`"
            return Score.not_applicable(reason).with_signature(self.signature)
        score = yield from self.cosine(sample)
        if threshold is not None and score.value is not None:
            evidence = Evidence(
                "similarity", sample.edited.digest, numbers={"cosine": score.value, "threshold": threshold}
            )
            score = Score.of(score.value >= threshold, f"{score.value:.4f} against {threshold:g}", evidence=[evidence])
        return score.with_signature(self.signature)

    @abstractmethod
    def cosine(self, sample: EditSample) -> Program[Score]:
        """The cosine, or why there is none."""


@dataclass(frozen=True)
class ClipImage(ClipSimilarity):
    """CLIP_img: the cosine of the features of source and edited image; 1 if nothing changed."""

    base_card: ClassVar[Card] = Card(
        "clip-image",
        1,
        "the edited image has the CLIP features of the source",
        range=(-1.0, 1.0),
        unit="cosine",
        kinds={ROLE: ("embed",)},
        requires=("sources", "edited"),
        source="Complex-Edit (arXiv 2504.13143), section 4.1.6, table 2: correlation with people's preservation 0.523",
        failure_modes=(
            "An unchanged copy wins. Small or fine changes may go unnoticed: features describe meaning, not pixels."
        ),
        aspect="consistency",
    )

    def cosine(self, sample: EditSample) -> Program[Score]:
        before, after = yield from ask(Embed(sample.source, _CLS_REGION), Embed(sample.edited, _CLS_REGION), role=ROLE)
        return Score.of(before.cosine(after, 0))


@dataclass(frozen=True)
class ClipDirectional(ClipSimilarity):
    """CLIP_dir: the cosine between the change of the image features and that of the text features, all normalised
    before they are subtracted (Gal et al., 2022). 0 if the edited image has the features of the source.

    Args:
        text: Source of the text direction. `captions`: from sample.metadata["source_caption"] to
            sample.metadata["target_caption"]; not applicable to samples without captions, or with captions of equal
            features. `instruction`: the features of the instruction itself, without captions.
    """

    text: TextSource = "captions"

    base_card: ClassVar[Card] = Card(
        "clip-directional",
        1,
        "the image has moved in CLIP's space as its description did",
        range=(-1.0, 1.0),
        unit="cosine",
        kinds={ROLE: ("embed", "embed_text")},
        requires=("sources", "edited"),
        source=(
            "EdiVal-Agent (ICLR 2026), figure 4 and table 13: thresholds tuned by task agree with people in 65.4 % of "
            "edits; which texts it compares is unsaid. Complex-Edit (arXiv 2504.13143), table 2: correlation with "
            "people's instruction following 0.182. Gal et al. (2022), StyleGAN-NADA."
        ),
        failure_modes=(
            "Goes by the direction of the change and not by its size: a faint trace of what was asked for scores like "
            "the whole. Letters in the image read like the thing they name. Without captions an instruction is not "
            "a direction, only a text that the change should resemble: a removal is rewarded for showing the object."
        ),
        aspect="following",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.base_card.name, "text", self.text, get_args(TextSource))

    def _options(self) -> list[str]:
        return [] if self.text == "captions" else [f"text={self.text}"]

    def cosine(self, sample: EditSample) -> Program[Score]:
        pictures = (Embed(sample.source, _CLS_REGION), Embed(sample.edited, _CLS_REGION))
        if self.text == "instruction":
            before, after, words = yield from ask(*pictures, EmbedText(sample.instruction), role=ROLE)
            direction = _unit(words)
        else:
            source, target = (sample.metadata.get(f"{kind}_caption", "") for kind in ("source", "target"))
            if not (source and target):
                return Score.not_applicable(
                    'the sample has no captions: give metadata={"source_caption": ..., "target_caption": ...}, or use '
                    'text="instruction"'
                )
            caption_queries = (EmbedText(str(source)), EmbedText(str(target)))
            before, after, first, second = yield from ask(*pictures, *caption_queries, role=ROLE)
            direction = _unit(second) - _unit(first)
        if not direction.any():
            return Score.not_applicable("the text has no direction: both captions have the same features")
        moved = _unit(after) - _unit(before)
        length = float(np.linalg.norm(moved))
        if length == 0:
            return Score.of(0.0, "the edited picture has the features of the source")
        value = float(np.clip(moved @ direction / (length * np.linalg.norm(direction)), -1.0, 1.0))
        return Score.of(value, evidence=[Evidence("moved", sample.edited.digest, numbers={"distance": length})])


def _unit(vectors: Embeddings) -> NDArray[np.float64]:
    values: NDArray[np.float64] = vectors.values[0].astype(np.float64)
    length = float(np.linalg.norm(values))
    return values / length if length > 0 else values
