"""Baselines that ask one model: single questions to a judge, EditScore, which reasons and grades, and EditReward.

EditScore (arXiv 2509.23909, VectorSpaceLab/EditScore) gives two grades for each of two prompts, which go back to
VIEScore. Its weights are LoRA adapters for Qwen2.5-VL (7B, 32B, 72B) and Qwen3-VL (4B, 8B, 32B). EditReward (arXiv
2509.26346) is trained on human preferences between two edits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from ...card import Card
from ...engine.program import Program, ask_many, reply_value
from ...image import Image
from ...queries.answers import Measurement
from ...queries.kinds import Judge, Rate
from ...queries.prompts import Prompts
from ...queries.response_formats import Grade, Json, Message, ResponseFormat, YesNo
from ...sample import EditSample
from ...score import Evidence, Score
from ..i2ibench.dimensions import FIVE_LEVELS, judge_value
from ..prompted_metric import PromptedMetric, object_schema


@dataclass(frozen=True)
class SingleQuestionJudge(PromptedMetric):
    """A score from one answer of a judge, who sees what the card requires. prompts: see `PromptedMetric`."""

    prompts: str | None = None

    card: ClassVar[Card]
    topic: ClassVar[str]
    form: ClassVar[ResponseFormat]
    package: ClassVar[str] = __package__

    def score(self, sample: EditSample) -> Program[Score]:
        shown = (*(sample.sources[:1] if "sources" in self.card.requires else ()), sample.edited)
        slots = {"instruction": sample.instruction} if "instruction" in self.card.requires else {}
        return judge_value(self.question(f"baselines/{self.topic}", shown, self.form, slots))


@dataclass(frozen=True)
class JudgeYesNo(SingleQuestionJudge):
    """The probability of yes to whether the edited image follows the instruction; 1.0 or 0.0 without probabilities.

    `Threshold(JudgeYesNo(), 0.5)` gives the binary verdict that EdiVal compares with.
    """

    card: ClassVar[Card] = Card(
        "judge-yes-no",
        2,
        "a judge, asked at once, says that the edited image follows the instruction",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source=(
            "EdiVal-Agent (ICLR 2026), section 2.5: the judge without tools agrees with people in 75.2 % of edits, "
            "EdiVal-IF in 81.3 %. It prints no prompt; ours asks what its raters were asked."
        ),
        failure_modes=(
            "One impression of one judge: it sees objects that are not there and misses positions and counts, and "
            "words written into the image may sway it. What else has changed costs nothing."
        ),
        aspect="following",
    )
    topic: ClassVar[str] = "yes_no"
    form: ClassVar[ResponseFormat] = YesNo()


@dataclass(frozen=True)
class JudgeQuality(SingleQuestionJudge):
    """A judge's grade of the visual quality of the edited image, an integer from 0 to 100, without the instruction."""

    card: ClassVar[Card] = Card(
        "judge-quality",
        2,
        "a judge, asked at once, finds the edited image pleasing and natural",
        range=(0.0, 100.0),
        unit="grade 0-100",
        kinds={"judge": ("judge",)},
        requires=("edited",),
        source="EdiVal-Agent (ICLR 2026), appendix N, figure 27: above 50 even for images with plain artifacts",
        failure_modes="Artifacts that a preference model sees cost nothing here, and beautifying pays.",
        aspect="quality",
    )
    topic: ClassVar[str] = "quality"
    form: ClassVar[ResponseFormat] = Grade(0, 100)


@dataclass(frozen=True)
class JudgeRealism(SingleQuestionJudge):
    """A judge's rating of whether the edited image looks like a photograph: excellent 1, good 0.75, … bad 0.

    Our own question, for sources that are photographs. The expectation over the judge's probabilities of the five
    words; without probabilities, the value of its word.
    """

    card: ClassVar[Card] = Card(
        "judge-realism",
        1,
        "a judge, asked at once, says that the edited image looks like a photograph",
        kinds={"judge": ("judge",)},
        requires=("edited", "instruction"),
        source=(
            "Ours. Complex-Edit (arXiv 2504.13143), table 3 and section 5.3, has a person's stars for realistic style; "
            "it prints no question and no rule, and no figure of this metric is the paper's."
        ),
        failure_modes=(
            "A photograph of anything wins, an unchanged copy included, and so does a rendering that a judge takes for "
            "a photograph. The source is not looked at: a drawing that was edited well has a low value."
        ),
        aspect="quality",
    )
    topic: ClassVar[str] = "realism"
    form: ClassVar[ResponseFormat] = FIVE_LEVELS


@dataclass(frozen=True)
class JudgeLevels(SingleQuestionJudge):
    """A judge's rating of how well the instruction was followed: excellent 1, good 0.75, fair 0.5, poor 0.25, bad 0.

    The expectation over the judge's probabilities of the five words; without probabilities, the value of its word.
    """

    card: ClassVar[Card] = Card(
        "judge-levels",
        2,
        "a judge, asked at once for a level, calls the edit excellent",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source="I2I-Bench, section 4.3 and equation 1: the five-level question for everything, as an ablation",
        failure_modes=(
            "A judge that is asked for one level goes by its overall impression of the image, and words written "
            "into it may sway it."
        ),
        aspect="following",
    )
    topic: ClassVar[str] = "level"
    form: ClassVar[ResponseFormat] = FIVE_LEVELS


MAX_SCORE = 10.0
"""The highest score; the lowest is 0."""

DRAWS_PER_SEED = 1000
"""Samples per seed, as in Complex-Edit: seed s has the DRAWS_PER_SEED samples from s * DRAWS_PER_SEED on."""


@dataclass(frozen=True)
class EditScore(PromptedMetric):
    """Overall quality of an edit, from 0 to 10: the root of the product of the lower grade of the edit (following,
    consistency) and the lower grade of its looks (naturalness, no artifacts), averaged over the draws; `parts` has the
    means. It asks `judge.editscore`, which `judge` also serves. The published weights,
    `Vlm("Qwen/Qwen2.5-VL-7B-Instruct", lora="EditScore/EditScore-7B")`, were trained with the authors' prompts; ours
    differ: to reproduce published values, put the original texts into `edit_score.txt` and `edit_score_quality.txt` of
    `prompts`.

    Args:
        draws: Samples that are averaged; the authors take 1, 4 or 8. If one fails or cannot be parsed, the score fails.
        seed: Selects the samples.
        temperature: The authors' 0.7 (they also truncate unlikely tokens, which no judge here does).
        highest: Grade, from 0 on; the model was trained for 25.
        same_size: Resize the edited image to the size of the source first, as in the authors' benchmark.
        prompts: Slots are `{instruction}`, `{highest}`, and `{source}` and `{edited}` for the images, which come before
            the text if it has no slots for them.
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
    package: ClassVar[str] = __package__
    one_picture: ClassVar[str] = "EditScore"

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
        super().__post_init__()

    def score(self, sample: EditSample) -> Program[Score]:
        edited = sample.edited.resized(*sample.source.size, "bicubic") if self.same_size else sample.edited
        scale = {"highest": str(self.highest)}
        pictures = {"source": sample.source, "edited": edited}
        questions = (
            self._question("edit_score", pictures, {"instruction": sample.instruction, **scale}),
            self._question("edit_score_quality", {"edited": edited}, scale),
        )
        first = self.seed * DRAWS_PER_SEED
        queries = [replace(question, draw=first + n) for n in range(self.draws) for question in questions]
        replies = yield from ask_many(queries, role="judge.editscore")
        values = [reply_value(question, reply) for question, reply in zip(queries, replies, strict=True)]
        return _score(values, MAX_SCORE / self.highest, sample.edited.digest)

    def _question(self, topic: str, pictures: Mapping[str, Image], slots: Mapping[str, str]) -> Judge:
        grade = {"type": "number", "minimum": 0, "maximum": self.highest}
        grades = {"type": "array", "items": grade, "minItems": 2, "maxItems": 2}
        schema = json.dumps(object_schema(reasoning={"type": "string"}, score=grades))
        form = Json(schema, max_tokens=512, temperature=self.temperature)
        message = _message(self.prompt_pack, topic, pictures, slots)
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


def _score(values: Sequence[Mapping[str, Any]], unit: float, image: str) -> Score:
    """The score from the answers to both prompts, alternating."""
    graded = [tuple(grade * unit for grade in value["score"]) for value in values]
    edit_grades, appearance = graded[::2], graded[1::2]
    values_of_draws = [math.sqrt(min(edit) * min(looks)) for edit, looks in zip(edit_grades, appearance, strict=True)]
    following, consistency = map(fmean, zip(*edit_grades, strict=True))
    means = {"following": following, "consistency": consistency, "quality": fmean(map(min, appearance))}
    grade_names = (("following", "consistency"), ("natural", "no artifacts"))
    evidence = []
    for index, (value, grades) in enumerate(zip(values, graded, strict=True)):
        about = "judge of its looks" if index % 2 else "judge of the edit"
        numbers = {"draw": index // 2, **dict(zip(grade_names[index % 2], grades, strict=True))}
        evidence.append(Evidence(about, image, text=value["reasoning"], numbers=numbers))
    reason = "one draw"
    if len(values_of_draws) > 1:
        lowest, highest = min(values_of_draws), max(values_of_draws)
        reason = f"mean of {len(values_of_draws)} draws from {lowest:.3g} to {highest:.3g}"
    parts = {name: Score.of(value) for name, value in means.items()}
    return Score.of(fmean(values_of_draws), reason, evidence=evidence, parts=parts)


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
        names = ("preference", *QUALITIES)
        queries = [Rate(sample.edited, sample.instruction, name, sample.sources) for name in names]
        ratings = yield from ask_many(queries, role=self.card.roles[0])
        overall, *heads = (_rating_score(*rated, sample) for rated in zip(names, ratings, strict=True))
        return replace(overall, parts=dict(zip(QUALITIES, heads, strict=True)), metric=self.card.signature)


def _rating_score(name: str, rating: Measurement, sample: EditSample) -> Score:
    assert rating.value is not None  # `Rate.check` lets no other answer through
    numbers = {"mean": rating.value} | ({} if rating.sigma is None else {"standard deviation": rating.sigma})
    return Score.of(rating.value, evidence=[Evidence(f"rating of {name}", sample.edited.digest, numbers=numbers)])
