"""What it holds: to be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar

from ...boxes import Box
from ...card import Card
from ...engine.program import Program, ask, gather
from ...image import Corners, Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText
from ...sample import EditSample
from ...score import Evidence, Score
from .conversation import OBJECT_NAMES, NoVerdict, offered_tools, run_conversation
from .replies import CONSISTENCY, FOLLOWING, LabelScale, parse_verdict
from .tools import (
    DETECTION_THRESHOLD,
    ENHANCE_BELOW,
    MAX_CROP_SIDE,
    MAX_REGIONS,
    TOOL_KINDS,
    Context,
    check_context,
    context_factor,
    crop_corners,
    enlarge_small_crops,
    touched_pixels,
)

MODES = ("oracle", "tools", "plain")
PACKAGE = "editcritic.reward.metrics.dlebench"


@dataclass(frozen=True)
class DleBenchOptions:
    """Options of both metrics. The defaults of all but `mode` and `prompts` are ours: the paper does not publish them.

    mode: `oracle` (with target boxes and a reference), `tools` (the judge may use tools) or `plain` (two images and the
    rubric). prompts: a folder whose `<name>.txt` files replace the prompts of the same names. max_tokens: of a reply.
    min_crop_side: crops with a shorter side below this, in pixels, are upscaled. paper: instead, all crops of the
    tools are upscaled, however large they are (up to `MAX_CROP_SIDE`), crops for a judge without tools are not, and the
    prompts of judges with tools have worked examples of calls and a system prompt with role and tools (table 16).

    With tools: max_turns: maximum number of replies of the judge. max_regions: maximum number of differences shown, the
    largest first. detection_threshold: minimum score of a detection. object_names: what the detector looks for:
    `substring`, a part of the instruction (table 16), or `words`, words of the instruction in any order, as in the
    paper's own transcripts (table 11). Differences are defined by options of the expert `PixelDifferences`.
    """

    mode: str = "oracle"
    prompts: str | None = None
    max_turns: int = 6
    max_regions: int = MAX_REGIONS
    detection_threshold: float = DETECTION_THRESHOLD
    min_crop_side: int = ENHANCE_BELOW
    object_names: str = "substring"
    paper: bool = False
    max_tokens: int = 2048

    base_card: ClassVar[Card]
    label_scale: ClassVar[LabelScale]
    options_by_mode: ClassVar[Mapping[str, Sequence[str]]]
    """Option -> the modes that use it, for options that not all modes use."""

    def __post_init__(self) -> None:
        name = self.base_card.name
        if self.mode not in MODES:
            raise ValueError(f"unknown mode {self.mode!r}: {name} has {', '.join(MODES)}")
        for option, modes in self.options_by_mode.items():
            if self.mode not in modes and option in self._changed():
                raise ValueError(f"{name} does not use {option} in mode {self.mode}: leave it out")
        for option in ("max_turns", "max_regions", "max_tokens"):
            if getattr(self, option) < 1:
                raise ValueError(f"{name} needs {option} of at least 1, got {getattr(self, option)}")
        if not 0 <= self.detection_threshold < 1:
            raise ValueError(f"{name} needs detection_threshold in [0, 1), got {self.detection_threshold}")
        if self.min_crop_side < 0:
            raise ValueError(f"{name} needs min_crop_side of at least 0, got {self.min_crop_side}")
        if self.paper and "min_crop_side" in self._changed():
            raise ValueError(f"{name} upscales crops as in the paper, or by min_crop_side: leave out one of the two")
        if self.object_names not in OBJECT_NAMES:
            raise ValueError(f"{name} needs object_names of {' or '.join(OBJECT_NAMES)}, got {self.object_names!r}")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @property
    def has_tools(self) -> bool:
        """Whether the judge has tools in this mode."""
        return self.mode in self.options_by_mode["max_turns"]

    @property
    def enhance_below(self) -> int:
        """Crops with a shorter side below this, in pixels, are upscaled."""
        if not self.paper:
            return self.min_crop_side
        return MAX_CROP_SIDE if self.has_tools else 0

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(PACKAGE, self.prompts)

    def _changed(self) -> dict[str, Any]:
        unsigned = {"mode", "prompts"}
        values = {option.name: (getattr(self, option.name), option.default) for option in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default and name not in unsigned}

    @cached_property
    def signature(self) -> str:
        """As in `dlebench-if@2/oracle`, with non-default options and the prompt pack's digest."""
        options = [f"{name}={value}" for name, value in self._changed().items()]
        return self.base_card.signature_with(self.mode, [*options, *self.prompt_pack.options])

    @property
    def requires(self) -> tuple[str, ...]:
        """Sample fields that the mode requires."""
        return ("sources", "edited", "instruction", *(("targets", "reference") if self.mode == "oracle" else ()))

    def not_applicable_score(self, sample: EditSample) -> Score | None:
        """The score of a sample that the mode does not apply to; None if it applies."""
        if self.mode != "oracle":
            return None
        needed = {"targets (boxes in the source)": sample.targets, "reference (a picture)": sample.reference}
        missing = [name for name, value in needed.items() if not value]
        if not missing:
            return None
        return Score.not_applicable(
            f"sample {sample.id!r} has no {' and no '.join(missing)}: give them, or use mode=tools or mode=plain"
        )

    def question(self, pictures: Sequence[Image], sample: EditSample, size: tuple[int, int]) -> Judge:
        """The first query of the mode. size: of the images that the tools refer to."""
        prompts = self.prompt_pack
        parts = {name: prompts.render(f"{self._topic}_{name}") for name in ("labels", "checks", "examples")}
        if self.paper and self.has_tools:
            parts["examples"] += "\n" + prompts.render(f"{self._topic}_calls")
        pixels = f"{size[0]} x {size[1]}"
        tools = prompts.render("tools", size=pixels)
        answer = prompts.render("answer", labels=str(self.label_scale))
        slots = {"instruction": sample.instruction, "size": pixels, "tools": tools, "answer": answer}
        topic = f"{self._topic}_{self.mode}"
        messages = prompts.messages(topic, pictures, {**parts, **slots}, paper=self.paper)
        form = FreeText(max_tokens=self.max_tokens)
        return Judge(messages, form, f"dlebench/{topic}", (("instruction", sample.instruction),))

    @property
    def _topic(self) -> str:
        return self.base_card.aspect

    def score_single_turn(
        self, pictures: Sequence[Image], sample: EditSample, evidence: list[Evidence]
    ) -> Program[Score]:
        """The score from one query without tools. The reply is evidence."""
        question = self.question(pictures, sample, pictures[0].size)
        reply = yield from ask(question)
        evidence.append(Evidence("reply", pictures[1].digest, text=reply.text))
        try:
            return self.label_score(parse_verdict(self.label_scale, reply.text), evidence)
        except ValueError as error:
            return Score.failed(f"{question.topic}: the judge's verdict is unclear: {error}", evidence=evidence)

    def score_conversation(
        self, pictures: Sequence[Image], tools: tuple[Image, Image], sample: EditSample, evidence: list[Evidence]
    ) -> Program[Score]:
        """The score from a conversation. tools: the source and edited image for the tools, of one size."""
        question = self.question(pictures, sample, tools[0].size)
        offered = offered_tools(
            *tools,
            sample.instruction,
            regions=self.max_regions,
            threshold=self.detection_threshold,
            enhance_below=self.enhance_below,
            object_names=self.object_names,
        )
        parse: Callable[[str], str] = partial(parse_verdict, self.label_scale)
        prompts = self.prompt_pack

        def turn_prompt(turns_left: int) -> str:
            return prompts.render("continue", left=str(turns_left), labels=str(self.label_scale))

        try:
            label = yield from run_conversation(
                question, offered, parse, max_turns=self.max_turns, turn_prompt=turn_prompt, evidence=evidence
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
    """DLEBench-IF: (s - 1) / 3 for the label's score s (the paper prints it times 100). Options: `DleBenchOptions`.

    Flawless Execution 4, Over Modification 3, Wrong Action 2, Localization Failure 1.

    `oracle`: for each of the sample's `targets`, the judge sees crops of source, edited image and `reference`, without
    tools; `credits` has each target, and the worst counts. context: size of the crops, see `crop_corners`; the paper
    does not publish the crops of its evaluation, so the default is the formula for making references (Eq. 1). `tools`:
    the judge sees source and edited image in full and may use tools. `plain`: both images without tools, the paper's
    "LMM-as-a-Judge".

    Not applicable in oracle mode without targets and a reference. An unclear verdict is a failed score.
    """

    context: Context = "adaptive"

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
        check_context(self.context)

    @cached_property
    def card(self) -> Card:
        tools: Mapping[str, tuple[str, ...]] = TOOL_KINDS if self.has_tools else {}
        if self.mode == "oracle" and not self.paper:
            tools = {"enhancer": ("upscale",)}
        return replace(self.base_card.with_kinds({"judge": ("judge",), **tools}), requires=self.requires)

    def __call__(self, sample: EditSample) -> Program[Score]:
        not_applicable = self.not_applicable_score(sample)
        if not_applicable is not None:
            return not_applicable.with_signature(self.signature)
        evidence: list[Evidence] = []
        if self.mode == "oracle":
            score = yield from self._each_target(sample)
        elif self.mode == "tools":
            pictures = (sample.source, resize_to_source(sample.edited, sample.source, "edited", evidence))
            score = yield from self.score_conversation(pictures, pictures, sample, evidence)
        else:
            score = yield from self.score_single_turn((sample.source, sample.edited), sample, evidence)
        return score.with_signature(self.signature)

    def _each_target(self, sample: EditSample) -> Program[Score]:
        """The score of the worst target; if one failed or was abstained on, so is the whole."""
        corners_by_target = [touched_pixels(target, sample.source.size) for target in sample.targets]
        valid_corners = [corners for corners in corners_by_target if corners is not None]
        if len(valid_corners) < len(corners_by_target):
            return Score.not_applicable(
                f"target {corners_by_target.index(None) + 1} of sample {sample.id!r} lies outside of the source: "
                "correct its box"
            )
        scores = yield from gather([self._target(sample, corners) for corners in valid_corners])
        credits = {f"target {number}": score for number, score in enumerate(scores, 1)}
        for status in ("failed", "abstained"):
            for name, score in credits.items():
                if score.status == status:
                    return replace(score, reason=f"{name}: {score.reason}", credits=credits, evidence=())
        worst = min(credits, key=lambda name: credits[name].value or 0.0)
        suffix = f", the worst of {len(scores)}" if len(scores) > 1 else ""
        return replace(credits[worst], reason=f"{worst}: {credits[worst].reason}{suffix}", credits=credits)

    def _target(self, sample: EditSample, corners: Corners) -> Program[Score]:
        """The score of one target, from crops of source, edited image and reference."""
        assert sample.reference is not None  # `not_applicable_score` checks it
        source, evidence = sample.source, list[Evidence]()
        edited = resize_to_source(sample.edited, source, "edited", evidence)
        reference = resize_to_source(sample.reference, source, "reference", evidence)
        crop = crop_corners(corners, source.size, self.context)
        crops = [picture.crop(*crop) for picture in (source, edited, reference)]
        pictures = yield from enlarge_small_crops(crops, self.enhance_below)
        shorter = min(corners[2] - corners[0], corners[3] - corners[1])
        x0, y0, x1, y1 = map(float, crop)
        numbers = {"shorter side": float(shorter), "context": context_factor(shorter, self.context)}
        numbers |= {"x0": x0, "y0": y0, "x1": x1, "y1": y1, "enlarged": pictures[0].width / (x1 - x0)}
        target = Box.from_corners(*corners, source.size)
        evidence.append(Evidence("crop of a target", source.digest, (target,), f"context: {self.context}", numbers))
        return (yield from self.score_single_turn(pictures, sample, evidence))


@dataclass(frozen=True)
class VisualConsistency(DleBenchOptions):
    """DLEBench-VC: (s - 1) / 3 for the label's score s (the paper prints it times 100). Options: `DleBenchOptions`.

    Perfect Consistency 4, Single Anomaly 3, Multiple Anomalies 2, Scene Collapse 1.

    `oracle`: the judge sees source, edited image and `reference` with all of the sample's `targets` painted white, and
    may use tools, which see source and edited image in the same way. `tools`: source and edited image unchanged, and
    tools. `plain`: both images without tools, the paper's "LMM-as-a-Judge".

    Not applicable in oracle mode without targets and a reference. An unclear verdict is a failed score.
    """

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

    @cached_property
    def card(self) -> Card:
        tools = TOOL_KINDS if self.has_tools else {}
        return replace(self.base_card.with_kinds({"judge": ("judge",), **tools}), requires=self.requires)

    def __call__(self, sample: EditSample) -> Program[Score]:
        not_applicable = self.not_applicable_score(sample)
        if not_applicable is not None:
            return not_applicable.with_signature(self.signature)
        evidence: list[Evidence] = []
        source = sample.source
        if self.mode == "plain":
            score = yield from self.score_single_turn((source, sample.edited), sample, evidence)
            return score.with_signature(self.signature)
        edited = resize_to_source(sample.edited, source, "edited", evidence)
        pictures = [source, edited]
        if self.mode == "oracle":
            assert sample.reference is not None  # `not_applicable_score` checks it
            areas = [corners for box in sample.targets if (corners := touched_pixels(box, source.size))]
            if len(areas) < len(sample.targets):
                return Score.not_applicable(
                    f"a target of sample {sample.id!r} lies outside of the source"
                ).with_signature(self.signature)
            reference = resize_to_source(sample.reference, source, "reference", evidence)
            pictures = [picture.painted(*areas) for picture in (source, edited, reference)]
            evidence.append(Evidence("painted white", source.digest, sample.targets))
        score = yield from self.score_conversation(pictures, (pictures[0], pictures[1]), sample, evidence)
        return score.with_signature(self.signature)
