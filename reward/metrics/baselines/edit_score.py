"""EditScore: a reward model for edits that reasons, and then gives two numbers each to two questions.

Paper: EditScore, arXiv 2509.23909; code: VectorSpaceLab/EditScore. Its weights are LoRA adapters for Qwen2.5-VL (7B,
32B, 72B) and Qwen3-VL (4B, 8B, 32B). The questions go back to VIEScore.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar

from ..asking import Asks, ask_each, value_of
from ..card import Card
from ..forms import Json, Message
from ..image import Image
from ..prompts import Prompts
from ..query import Judge
from ..sample import EditSample
from ..score import Evidence, Score

TOP = 10.0
"""The highest score; the lowest is 0."""

DRAWS = 1000
"""Draws that belong to one seed, as in Complex-Edit: seed s has s * DRAWS to s * DRAWS + DRAWS - 1."""


@dataclass(frozen=True)
class EditScore:
    """How good an edit is, from 0 to 10: the geometric mean of how it was carried out and of how it looks.

    The judge sees source, edited picture and instruction, and grades how far the instruction was followed and how far
    all else was left alone; it sees the edited picture by itself, and grades how natural it looks and how free of
    artifacts. Of each pair the lower grade counts. The value is the mean over `draws` of the root of their product;
    `parts` has `following`, `consistency` and `quality` (the lower of its two), each the mean over the draws.

    It goes to the role `judge.editscore`, which the expert bound to `judge` also serves. Any judge can answer; with the
    published weights it is `Vlm("Qwen/Qwen2.5-VL-7B-Instruct", lora="EditScore/EditScore-7B")`. These were trained on
    the words of the authors' questions. Ours ask for the same in other words, so that the numbers are not the ones that
    they publish: for those, give `prompts` a folder with their text in `edit_score.txt` and `edit_score_quality.txt`.

    draws: judgements that are averaged; the authors take 1, 4 or 8. One that fails, or cannot be read, fails the score.
    seed: which draws they are. temperature: the authors' 0.7 (beside which they cut off unlikely words, as no judge
    here does). highest: of the grades that the judge gives, from 0 on; 25 is what the model was trained for.
    same_size: the edited picture is brought to the size of the source first, as in the authors' benchmark.
    prompts: slots are `{instruction}`, `{highest}`, and `{source}` and `{edited}` for the pictures, which come before
    the words where these have no place for them.
    """

    draws: int = 1
    seed: int = 0
    temperature: float = 0.7
    highest: int = 25
    same_size: bool = False
    prompts: str | None = None

    card: ClassVar[Card] = Card(
        "edit-score",
        1,
        "the instruction was followed, all else is as it was, and the edited image looks natural",
        range=(0.0, TOP),
        unit="grade 0-10",
        roles=("judge.editscore",),
        requires=("sources", "edited", "instruction"),
        source=(
            "EditScore (arXiv 2509.23909), as its code (VectorSpaceLab/EditScore) has it: grades from 0 to 25, the "
            "lower of each two, the root of the product, the mean over passes. The questions are ours."
        ),
        gaming=(
            "One model's impression, and one that an editor was trained against: it misses small changes, and words "
            "written into the picture may sway it. Twenty-six grades are coarse: many edits tie."
        ),
        about="overall",
    )

    def __post_init__(self) -> None:
        if not 1 <= self.draws <= DRAWS or self.seed < 0 or self.highest < 1:
            raise ValueError(
                f"edit-score wants draws from 1 to {DRAWS}, seed >= 0 and highest >= 1, got draws={self.draws}, "
                f"seed={self.seed}, highest={self.highest}"
            )
        if self.temperature < 0 or (self.draws > 1 and self.temperature == 0):
            raise ValueError(
                f"{self.draws} draws at temperature {self.temperature:g}: draws that are no repetition need one above 0"
            )
        Prompts(__package__, self.prompts)  # refuses a pack that is no folder

    @cached_property
    def signature(self) -> str:
        """As in `edit-score@1[draws=4]`, with a prompt pack's digest."""
        values = ((option.name, getattr(self, option.name), option.default) for option in fields(self))
        changed = [f"{name}={value}" for name, value, old in values if value != old and name != "prompts"]
        return self.card.signed(options=[*changed, *Prompts(__package__, self.prompts).options])

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if len(sample.sources) > 1:
            why = f"EditScore judges the edit of one picture, and this sample has {len(sample.sources)} sources"
            return Score.not_applicable(f"{why}: use a metric for several").by(self.signature)
        following, quality = self._questions(sample)
        first = self.seed * DRAWS
        drawn = [replace(question, draw=first + n) for n in range(self.draws) for question in (following, quality)]
        replies = yield from ask_each(drawn, role="judge.editscore")
        said = [value_of(question, reply) for question, reply in zip(drawn, replies, strict=True)]
        return _score(said, TOP / self.highest, sample.edited.digest).by(self.signature)

    def _questions(self, sample: EditSample) -> tuple[Judge, Judge]:
        edited = sample.edited.resized(*sample.source.size, "bicubic") if self.same_size else sample.edited
        scale = {"highest": str(self.highest)}
        pictures = {"source": sample.source, "edited": edited}
        return (
            self._question("edit_score", pictures, {"instruction": sample.instruction, **scale}),
            self._question("edit_score_quality", {"edited": edited}, scale),
        )

    def _question(self, topic: str, pictures: Mapping[str, Image], slots: Mapping[str, str]) -> Judge:
        said = _message(Prompts(__package__, self.prompts), topic, pictures, slots)
        form = Json(_schema(self.highest), max_tokens=512, temperature=self.temperature)
        return Judge((said,), form, f"baselines/{topic}", tuple(slots.items()))


def _message(words: Prompts, topic: str, pictures: Mapping[str, Image], slots: Mapping[str, str]) -> Message:
    """A prompt with its slots filled, pictures where they are named, else before the words."""
    # All slots first hold marks: what an instruction says is never taken for one.
    text = words.render(topic, **{name: f"\0{name}\0" for name in (*slots, *pictures)})
    parts: list[str | Image] = []
    for place, part in enumerate(re.split("\0(.+?)\0", text)):
        found = pictures.get(part, slots.get(part, "")) if place % 2 else part
        if parts and isinstance(found, str) and isinstance(parts[-1], str):
            parts[-1] += found
        elif found != "":
            parts.append(found)
    unplaced = [picture for name, picture in pictures.items() if f"\0{name}\0" not in text]
    return Message((*unplaced, *parts))


def _schema(highest: int) -> str:
    grade = {"type": "number", "minimum": 0, "maximum": highest}
    grades = {"type": "array", "items": grade, "minItems": 2, "maxItems": 2}
    properties = {"reasoning": {"type": "string"}, "score": grades}
    return json.dumps(
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    )


def _score(said: Sequence[Mapping[str, Any]], scale: float, image: str) -> Score:
    """Of what was said to both questions, in turns."""
    graded = [tuple(grade * scale for grade in one["score"]) for one in said]
    pairs, looks = graded[::2], graded[1::2]
    values = [math.sqrt(min(pair) * min(look)) for pair, look in zip(pairs, looks, strict=True)]
    found = {
        "following": fmean(pair[0] for pair in pairs),
        "consistency": fmean(pair[1] for pair in pairs),
        "quality": fmean(map(min, looks)),
    }
    named = (("following", "consistency"), ("natural", "no artifacts"))
    evidence = [
        Evidence(
            f"judge {'of the edit' if place % 2 == 0 else 'of its looks'}",
            image,
            text=one["reasoning"],
            numbers={"draw": place // 2, **dict(zip(named[place % 2], grades, strict=True))},
        )
        for place, (one, grades) in enumerate(zip(said, graded, strict=True))
    ]
    return Score.of(
        fmean(values),
        f"mean of {len(values)} draws from {min(values):.3g} to {max(values):.3g}" if len(values) > 1 else "one draw",
        evidence=evidence,
        parts={name: Score.of(value) for name, value in found.items()},
    )
