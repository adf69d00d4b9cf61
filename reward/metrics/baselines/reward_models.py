"""What it holds: to be written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar

from ...card import Card
from ...engine.program import Program, ask, ask_many, reply_value
from ...image import Image
from ...queries.kinds import Judge, Measurement, Rate
from ...queries.prompts import Prompts
from ...queries.response_formats import Json, Message
from ...sample import EditSample
from ...score import Evidence, Score

MAX_SCORE = 10.0
"""The highest score; the lowest is 0."""

DRAWS_PER_SEED = 1000
"""Samples per seed, as in Complex-Edit: seed s has the DRAWS_PER_SEED samples from s * DRAWS_PER_SEED on."""


@dataclass(frozen=True)
class EditScore:
    """Overall quality of an edit, from 0 to 10: the geometric mean of the grades of the edit and of its appearance.

    The judge sees source, edited image and instruction, and grades instruction following and consistency. Then it sees
    the edited image alone, and grades naturalness and freedom from artifacts. Of each pair the lower grade counts. The
    value is the mean over `draws` of the square root of their product; `parts` has `following`, `consistency` and
    `quality` (the lower of its two), each the mean over the draws.

    The queries go to the role `judge.editscore`, which the expert bound to `judge` also serves. Any judge can answer;
    the published weights are `Vlm("Qwen/Qwen2.5-VL-7B-Instruct", lora="EditScore/EditScore-7B")`, trained with the
    authors' prompts. Our prompts ask for the same in other words, so the values differ from the published ones; to
    reproduce those, set `prompts` to a folder with the original text in `edit_score.txt` and `edit_score_quality.txt`.

    draws: samples that are averaged; the authors take 1, 4 or 8. If one fails or cannot be parsed, the score fails.
    seed: selects the samples. temperature: the authors' 0.7 (they also truncate unlikely tokens, which no judge here
    does). highest: grade, from 0 on; the model was trained for 25. same_size: resize the edited image to the size of
    the source first, as in the authors' benchmark. prompts: slots are `{instruction}`, `{highest}`, and `{source}` and
    `{edited}` for the images, which come before the text if it has no slots for them.
    """

    draws: int = 1
    seed: int = 0
    temperature: float = 0.7
    highest: int = 25
    same_size: bool = False
    prompts: str | None = None

    card: ClassVar[Card] = Card(
        "edit-score",
        2,
        "the instruction was followed, all else is as it was, and the edited image looks natural",
        range=(0.0, MAX_SCORE),
        unit="grade 0-10",
        kinds={"judge.editscore": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source=(
            "EditScore (arXiv 2509.23909), as its code (VectorSpaceLab/EditScore) has it: grades from 0 to 25, the "
            "lower of each two, the root of the product, the mean over passes. The questions are ours."
        ),
        failure_modes=(
            "One model's impression, and one that an editor was trained against: it misses small changes, and words "
            "written into the image may sway it. Twenty-six grades are coarse: many edits tie."
        ),
        aspect="overall",
        parts=("following", "consistency", "quality"),
    )

    def __post_init__(self) -> None:
        if not 1 <= self.draws <= DRAWS_PER_SEED or self.seed < 0 or self.highest < 1:
            raise ValueError(
                f"edit-score needs draws from 1 to {DRAWS_PER_SEED}, seed >= 0 and highest >= 1, got "
                f"draws={self.draws}, seed={self.seed}, highest={self.highest}"
            )
        if self.temperature < 0 or (self.draws > 1 and self.temperature == 0):
            raise ValueError(
                f"{self.draws} draws at temperature {self.temperature:g}: independent draws need a temperature above 0"
            )
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(__package__, self.prompts)

    @cached_property
    def signature(self) -> str:
        """As in `edit-score@2[draws=4]`, with a prompt pack's digest."""
        values = ((option.name, getattr(self, option.name), option.default) for option in fields(self))
        changed = [f"{name}={value}" for name, value, default in values if value != default and name != "prompts"]
        return self.card.signature_with(options=[*changed, *self.prompt_pack.options])

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) > 1:
            reason = f"EditScore judges the edit of one picture, and this sample has {len(sample.sources)} sources"
            return Score.not_applicable(f"{reason}: use a metric for several").with_signature(self.signature)
        following, quality = self._questions(sample)
        first = self.seed * DRAWS_PER_SEED
        queries = [replace(question, draw=first + n) for n in range(self.draws) for question in (following, quality)]
        replies = yield from ask_many(queries, role="judge.editscore")
        values = [reply_value(question, reply) for question, reply in zip(queries, replies, strict=True)]
        return _score(values, MAX_SCORE / self.highest, sample.edited.digest).with_signature(self.signature)

    def _questions(self, sample: EditSample) -> tuple[Judge, Judge]:
        edited = sample.edited.resized(*sample.source.size, "bicubic") if self.same_size else sample.edited
        scale = {"highest": str(self.highest)}
        pictures = {"source": sample.source, "edited": edited}
        return (
            self._question("edit_score", pictures, {"instruction": sample.instruction, **scale}),
            self._question("edit_score_quality", {"edited": edited}, scale),
        )

    def _question(self, topic: str, pictures: Mapping[str, Image], slots: Mapping[str, str]) -> Judge:
        message = _message(self.prompt_pack, topic, pictures, slots)
        form = Json(_schema(self.highest), max_tokens=512, temperature=self.temperature)
        return Judge((message,), form, f"baselines/{topic}", tuple(slots.items()))


def _message(words: Prompts, topic: str, pictures: Mapping[str, Image], slots: Mapping[str, str]) -> Message:
    """A prompt with its slots filled, images at their slots, else before the text."""
    # Slots are first filled with markers, so that the text of an instruction is never taken for a slot.
    text = words.render(topic, **{name: f"\0{name}\0" for name in (*slots, *pictures)})
    parts: list[str | Image] = []
    for index, part in enumerate(re.split("\0(.+?)\0", text)):
        content = pictures.get(part, slots.get(part, "")) if index % 2 else part
        if parts and isinstance(content, str) and isinstance(parts[-1], str):
            parts[-1] += content
        elif content != "":
            parts.append(content)
    unplaced = [picture for name, picture in pictures.items() if f"\0{name}\0" not in text]
    return Message((*unplaced, *parts))


def _schema(highest: int) -> str:
    grade = {"type": "number", "minimum": 0, "maximum": highest}
    grades = {"type": "array", "items": grade, "minItems": 2, "maxItems": 2}
    properties = {"reasoning": {"type": "string"}, "score": grades}
    return json.dumps(
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    )


def _score(values: Sequence[Mapping[str, Any]], unit: float, image: str) -> Score:
    """The score from the answers to both prompts, alternating."""
    graded = [tuple(grade * unit for grade in value["score"]) for value in values]
    edit_grades, appearance = graded[::2], graded[1::2]
    draw_values = [
        math.sqrt(min(edit_pair) * min(appearance_pair))
        for edit_pair, appearance_pair in zip(edit_grades, appearance, strict=True)
    ]
    means = {
        "following": fmean(edit_pair[0] for edit_pair in edit_grades),
        "consistency": fmean(edit_pair[1] for edit_pair in edit_grades),
        "quality": fmean(map(min, appearance)),
    }
    grade_names = (("following", "consistency"), ("natural", "no artifacts"))
    evidence = [
        Evidence(
            f"judge {'of the edit' if index % 2 == 0 else 'of its looks'}",
            image,
            text=value["reasoning"],
            numbers={"draw": index // 2, **dict(zip(grade_names[index % 2], grades, strict=True))},
        )
        for index, (value, grades) in enumerate(zip(values, graded, strict=True))
    ]
    return Score.of(
        fmean(draw_values),
        f"mean of {len(draw_values)} draws from {min(draw_values):.3g} to {max(draw_values):.3g}"
        if len(draw_values) > 1
        else "one draw",
        evidence=evidence,
        parts={name: Score.of(value) for name, value in means.items()},
    )


QUALITIES = ("instruction following", "visual quality")
"""The model's two heads, whose mean is the rating."""


@dataclass(frozen=True)
class EditRewardScore:
    """The mean of the two heads' means, as the authors report it; `parts` has each head's own.

    Evidence: the model's standard deviations, in the same unit. The two heads were trained through their mean only, so
    a part alone says little. Not applicable to edits with several sources: the model compares two images.
    """

    card: ClassVar[Card] = Card(
        "edit-reward",
        1,
        "people prefer this edit for its instruction",
        range=(None, None),
        unit="rating",
        kinds={"preference.edit": ("rate",)},
        requires=("sources", "edited", "instruction"),
        source="EditReward (ICLR 2026, arXiv 2509.26346), sections 3 and 4; TIGER-AI-Lab/EditReward",
        failure_modes=(
            "It looks at about 450 x 450 pixels: what is smaller is free. Its parts count alike, so that a beautiful "
            "image makes up for an instruction that was half followed."
        ),
        aspect="overall",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) != 1:
            return Score.not_applicable(
                f"EditReward compares an edit with one source, there are {len(sample.sources)}"
            ).with_signature(self.card.signature)
        overall, *heads = yield from ask(
            self._rate_query(sample, "preference"),
            self._rate_query(sample, QUALITIES[0]),
            self._rate_query(sample, QUALITIES[1]),
            role=self.card.roles[0],
        )
        parts = {name: _rating_score(name, sample, rating) for name, rating in zip(QUALITIES, heads, strict=True)}
        return replace(_rating_score("preference", sample, overall), parts=parts, metric=self.card.signature)

    @staticmethod
    def _rate_query(sample: EditSample, quality: str) -> Rate:
        return Rate(sample.edited, sample.instruction, quality, sample.sources)


def _rating_score(name: str, sample: EditSample, rating: Measurement) -> Score:
    assert rating.value is not None  # `Rate.check` lets no other answer through
    numbers = {"mean": rating.value} | ({} if rating.sigma is None else {"standard deviation": rating.sigma})
    return Score.of(rating.value, evidence=[Evidence(f"rating of {name}", sample.edited.digest, numbers=numbers)])
