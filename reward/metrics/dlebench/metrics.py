"""DLEBench's metrics: Instruction Following and Visual Consistency of edits of small objects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

from ...boxes import Box
from ...card import Card
from ...engine.program import Program, ask, gather
from ...image import Corners, Image
from ...queries.kinds import Judge
from ...queries.response_formats import FreeText
from ...sample import EditSample
from ...score import Evidence, Score
from ..prompted_metric import PromptedMetric, refuse
from . import tools
from .conversation import (
    CONSISTENCY,
    FOLLOWING,
    OBJECT_NAMES,
    LabelScale,
    NoVerdict,
    offered_tools,
    parse_verdict,
    run_conversation,
)

MODES = ("oracle", "tools", "plain")
PACKAGE = "editcritic.reward.metrics.dlebench"


@dataclass(frozen=True)
class DleBenchOptions(PromptedMetric):
    """Options of both metrics; the defaults of all but `mode` and `prompts` are ours. mode: `oracle` (with target boxes
    and a reference), `tools` (the judge may use tools) or `plain`. max_tokens: of a reply. min_crop_side: crops with a
    shorter side below, in pixels, are upscaled; paper: instead, all crops of the tools are (up to `MAX_CROP_SIDE`),
    others are not, and prompts have worked examples and a system prompt with role and tools (table 16). With tools:
    max_turns, of replies; max_regions, of differences shown; detection_threshold, of a score; object_names: what the
    detector looks for, a `substring` of the instruction (table 16), or `words` of it in any order (table 11)."""

    mode: str = "oracle"
    prompts: str | None = None
    max_turns: int = 6
    max_regions: int = tools.MAX_REGIONS
    detection_threshold: float = tools.DETECTION_THRESHOLD
    min_crop_side: int = tools.ENHANCE_BELOW
    object_names: str = "substring"
    paper: bool = False
    max_tokens: int = 2048

    package: ClassVar[str] = PACKAGE
    variant: ClassVar[str] = "mode"
    choices: ClassVar[Mapping[str, Collection[object]]] = {"mode": MODES, "object_names": OBJECT_NAMES}
    base_card: ClassVar[Card]
    label_scale: ClassVar[LabelScale]
    options_by_mode: ClassVar[Mapping[str, Sequence[str]]]
    """Option -> the modes that use it, for options that not all modes use."""

    def __post_init__(self) -> None:
        super().__post_init__()
        changed = self.changed_options()
        problems: dict[str, object] = {
            f"does not use {option} in mode {self.mode}: leave it out": self.mode not in modes and option in changed
            for option, modes in self.options_by_mode.items()
        }
        for option in ("max_turns", "max_regions", "max_tokens"):
            value = getattr(self, option)
            problems[f"needs {option} of at least 1, got {value}"] = value < 1
        threshold, side = self.detection_threshold, self.min_crop_side
        problems |= {
            f"needs detection_threshold in [0, 1), got {threshold}": not 0 <= threshold < 1,
            f"needs min_crop_side of at least 0, got {side}": side < 0,
            "upscales crops as in the paper, or by min_crop_side: leave out one of the two": (
                self.paper and "min_crop_side" in changed
            ),
        }
        refuse(self.base_card.name, problems)

    @cached_property
    def card(self) -> Card:
        kinds = {"judge": ("judge",), **(tools.TOOL_KINDS if self.has_tools else {})}
        return replace(self.base_card.with_kinds(kinds), requires=self.requires)

    @property
    def has_tools(self) -> bool:
        """Whether the judge has tools in this mode."""
        return self.mode in self.options_by_mode["max_turns"]

    @property
    def enhance_below(self) -> int:
        """Crops with a shorter side below this, in pixels, are upscaled."""
        if not self.paper:
            return self.min_crop_side
        return tools.MAX_CROP_SIDE if self.has_tools else 0

    @property
    def requires(self) -> tuple[str, ...]:
        """Sample fields that the mode requires."""
        return ("sources", "edited", "instruction", *(("targets", "reference") if self.mode == "oracle" else ()))

    def score(self, sample: EditSample) -> Program[Score]:
        evidence: list[Evidence] = []
        if self.mode == "plain":
            return (yield from self.single_turn((sample.source, sample.edited), sample, evidence))
        edited = resize_to_source(sample.edited, sample.source, "edited", evidence)
        if self.mode == "tools":
            return (yield from self.conversation((sample.source, edited), sample, evidence))
        needed = {"targets (boxes in the source)": sample.targets, "reference (a picture)": sample.reference}
        if missing := [name for name, value in needed.items() if not value]:
            reason = f"sample {sample.id!r} has no {' and no '.join(missing)}"
            return Score.not_applicable(f"{reason}: give them, or use mode=tools or mode=plain")
        assert sample.reference is not None
        areas = [tools.touched_pixels(target, sample.source.size) for target in sample.targets]
        if None in areas:
            number = areas.index(None) + 1
            return Score.not_applicable(
                f"target {number} of sample {sample.id!r} lies outside of the source: correct its box"
            )
        reference = resize_to_source(sample.reference, sample.source, "reference", evidence)
        pictures = (sample.source, edited, reference)
        return (yield from self.oracle_score(pictures, [area for area in areas if area], sample, evidence))

    @abstractmethod
    def oracle_score(
        self, pictures: Sequence[Image], areas: Sequence[Corners], sample: EditSample, evidence: list[Evidence]
    ) -> Program[Score]:
        """The score in mode `oracle`. pictures: source, edit and reference at one size. areas: of the targets."""

    def first_question(self, pictures: Sequence[Image], sample: EditSample) -> Judge:
        """The first query of the mode, to which the tools refer by the size of the first picture."""
        prompts, topic = self.prompt_pack, self.base_card.aspect
        parts = {name: prompts.render(f"{topic}_{name}") for name in ("labels", "checks", "examples")}
        if self.paper and self.has_tools:
            parts["examples"] += "\n" + prompts.render(f"{topic}_calls")
        pixels = f"{pictures[0].width} x {pictures[0].height}"
        return self.question(
            f"dlebench/{topic}_{self.mode}",
            pictures,
            FreeText(max_tokens=self.max_tokens),
            {"instruction": sample.instruction},
            size=pixels,
            tools=prompts.render("tools", size=pixels),
            answer=prompts.render("answer", labels=str(self.label_scale)),
            **parts,
        )

    def single_turn(self, pictures: Sequence[Image], sample: EditSample, evidence: list[Evidence]) -> Program[Score]:
        """The score from one query without tools. The reply is evidence."""
        question = self.first_question(pictures, sample)
        reply = yield from ask(question)
        evidence.append(Evidence("reply", pictures[1].digest, text=reply.text))
        try:
            return self.label_score(parse_verdict(self.label_scale, reply.text), evidence)
        except ValueError as error:
            return Score.failed(f"{question.topic}: the judge's verdict is unclear: {error}", evidence=evidence)

    def conversation(self, pictures: Sequence[Image], sample: EditSample, evidence: list[Evidence]) -> Program[Score]:
        """The score from a conversation. pictures: the source and the edited image, which the tools see, and others."""
        question = self.first_question(pictures, sample)
        offered = offered_tools(
            pictures[0],
            pictures[1],
            sample.instruction,
            regions=self.max_regions,
            threshold=self.detection_threshold,
            enhance_below=self.enhance_below,
            object_names=self.object_names,
        )

        def turn_prompt(turns_left: int) -> str:
            return self.prompt_pack.render("continue", left=str(turns_left), labels=str(self.label_scale))

        try:
            label = yield from run_conversation(
                question,
                offered,
                partial(parse_verdict, self.label_scale),
                max_turns=self.max_turns,
                turn_prompt=turn_prompt,
                evidence=evidence,
            )
        except NoVerdict as error:
            return Score.failed(f"{question.topic}: {error}", evidence=evidence)
        return self.label_score(label, evidence)

    def label_score(self, label: str, evidence: Sequence[Evidence]) -> Score:
        """The score of a label; the label is its reason."""
        score, share = self.label_scale.rubric_score(label), self.label_scale.normalized_score(label)
        label_evidence = Evidence("label", text=label, numbers={"score": float(score), "of 100": 100 * share})
        return Score.of(share, f"{label} ({score} of 4)", evidence=[*evidence, label_evidence])


def resize_to_source(image: Image, source: Image, name: str, evidence: list[Evidence]) -> Image:
    """The image at the source's size, by Lanczos resampling; a different size is added as evidence."""
    if image.size != source.size:
        text = f"the {name} picture was brought from {image.width} x {image.height} to the source's size"
        numbers = {"width": float(source.width), "height": float(source.height)}
        evidence.append(Evidence("resized", image.digest, text=text, numbers=numbers))
    return image.resized(*source.size)


@dataclass(frozen=True)
class SmallObjectFollowing(DleBenchOptions):
    """DLEBench-IF: (s - 1) / 3 for the label's score s (the paper prints it times 100). `oracle`: the judge sees crops
    of source, edit and `reference` about each of the `targets`, without tools; `credits` has each, and the worst
    counts. Without both not applicable. An unclear verdict is a failed score.

    Args:
        context: Size of the crops, see `crop_corners`; the paper does not publish the crops of its evaluation, so the
            default is the formula for making references (Eq. 1). `tools`: the judge sees source and edited image in
            full and may use tools. `plain`: both images without tools, the paper's "LMM-as-a-Judge".
    """

    context: tools.Context = "adaptive"

    base_card: ClassVar[Card] = Card(
        name="dlebench-if",
        version=2,
        summary="the small object was edited as asked and kept all else about it",
        modes=MODES,
        source="DLEBench, section 4, appendix 7 and tables 16-19, 22-24, 27-29",
        failure_modes=(
            "Looks at the target and at nothing else: whatever happens to the rest of the image is free, so that "
            "repainting the scene around a right target, or removing its neighbours with it, costs nothing. In oracle "
            "mode the crop hides a second edit elsewhere; words written beside the target can sway the judge. Without "
            "boxes a judge overlooks small objects, and an edit of a larger look-alike can pass. Reward it together "
            "with dlebench-vc."
        ),
        aspect="following",
    )
    label_scale: ClassVar[LabelScale] = FOLLOWING
    options_by_mode: ClassVar[Mapping[str, Sequence[str]]] = {
        "context": ("oracle",),
        "min_crop_side": ("oracle", "tools"),
        "max_turns": ("tools",),
        "max_regions": ("tools",),
        "detection_threshold": ("tools",),
        "object_names": ("tools",),
        "paper": ("oracle", "tools"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        tools.check_context(self.context)

    @cached_property
    def card(self) -> Card:
        if self.mode != "oracle" or self.paper:
            return super().card
        return replace(
            self.base_card.with_kinds({"judge": ("judge",), "enhancer": ("upscale",)}), requires=self.requires
        )

    def oracle_score(
        self, pictures: Sequence[Image], areas: Sequence[Corners], sample: EditSample, evidence: list[Evidence]
    ) -> Program[Score]:
        """The score of the worst target; if one failed or was abstained on, so is the whole."""
        scores = yield from gather([self._target(pictures, area, sample, [*evidence]) for area in areas])
        credits = {f"target {number}": score for number, score in enumerate(scores, 1)}
        for status in ("failed", "abstained"):
            for name, score in credits.items():
                if score.status == status:
                    return replace(score, reason=f"{name}: {score.reason}", credits=credits, evidence=())
        worst = min(credits, key=lambda name: credits[name].value or 0.0)
        suffix = f", the worst of {len(scores)}" if len(scores) > 1 else ""
        return replace(credits[worst], reason=f"{worst}: {credits[worst].reason}{suffix}", credits=credits)

    def _target(
        self, pictures: Sequence[Image], corners: Corners, sample: EditSample, evidence: list[Evidence]
    ) -> Program[Score]:
        source = pictures[0]
        crop = tools.crop_corners(corners, source.size, self.context)
        crops = yield from tools.enlarge_small_crops([picture.crop(*crop) for picture in pictures], self.enhance_below)
        shorter = min(corners[2] - corners[0], corners[3] - corners[1])
        x0, y0, x1, y1 = map(float, crop)
        numbers = {"shorter side": float(shorter), "context": tools.context_factor(shorter, self.context)}
        numbers |= {"x0": x0, "y0": y0, "x1": x1, "y1": y1, "enlarged": crops[0].width / (x1 - x0)}
        target = Box.from_corners(*corners, source.size)
        evidence.append(Evidence("crop of a target", source.digest, (target,), f"context: {self.context}", numbers))
        return (yield from self.single_turn(crops, sample, evidence))


@dataclass(frozen=True)
class VisualConsistency(DleBenchOptions):
    """DLEBench-VC: (s - 1) / 3 for the label's score s (the paper prints it times 100). `oracle`: the judge sees
    source, edit and `reference` with all `targets` painted white, and may use tools on the first two. `tools`:
    unchanged, with tools. `plain`: both images alone. Without targets and reference, `oracle` is not applicable. An
    unclear verdict is a failed score."""

    base_card: ClassVar[Card] = Card(
        name="dlebench-vc",
        version=2,
        summary="nothing but the object to edit has changed",
        modes=MODES,
        source="DLEBench, section 4, appendix 7 and tables 16, 20-21, 25-26, 30-31",
        failure_modes=(
            "Doing nothing scores 1.0: reward it together with dlebench-if. One anomaly costs as much as the target's "
            "whole surroundings ruined in one piece, and two as much as twenty. Grain, filters and other changes of "
            "the whole image are free by the rubric. In oracle mode what is painted white is not looked at, so that "
            "anything may be put there."
        ),
        aspect="consistency",
    )
    label_scale: ClassVar[LabelScale] = CONSISTENCY
    options_by_mode: ClassVar[Mapping[str, Sequence[str]]] = dict.fromkeys(
        ("min_crop_side", "max_turns", "max_regions", "detection_threshold", "object_names", "paper"),
        ("oracle", "tools"),
    )

    def oracle_score(
        self, pictures: Sequence[Image], areas: Sequence[Corners], sample: EditSample, evidence: list[Evidence]
    ) -> Program[Score]:
        """The score of a conversation on all pictures with the targets painted white."""
        evidence.append(Evidence("painted white", pictures[0].digest, sample.targets))
        return self.conversation([picture.painted(*areas) for picture in pictures], sample, evidence)
