"""What both DLEBench metrics share: options, prompts, judge queries and label scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar

from ...card import Card
from ...engine.program import Program, ask
from ...image import Image
from ...queries.kinds import Judge
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText
from ...sample import EditSample
from ...score import Evidence, Score
from .conversation import NoVerdict, run_conversation
from .crops import MAX_CROP_SIDE
from .judge_tools import OBJECT_NAMES, offered_tools
from .labels import LabelScale
from .tools import DETECTION_THRESHOLD, ENHANCE_BELOW, MAX_REGIONS
from .verdict_parsing import parse_verdict

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
