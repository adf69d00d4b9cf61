"""What both DLEBench metrics share: options, the two pictures as a judge sees them, words, and how a judge is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar

from ..asking import Asks, ask
from ..card import Card
from ..forms import FreeText, Message
from ..image import Image
from ..prompts import Prompts
from ..query import Judge
from ..sample import EditSample
from ..score import Evidence, Score
from .conversation import NoVerdict, converse
from .labels import Scale
from .offered import offered
from .tools import ENHANCE_BELOW, REGIONS, THRESHOLD
from .verdicts import said_verdict

MODES = ("oracle", "tools", "plain")
PACKAGE = "editcritic.reward.dlebench"


@dataclass(frozen=True)
class Options:
    """Options of both metrics. All but `mode` and `prompts` are our choices: the paper does not publish them.

    mode: `oracle` (knows where the targets are and a reference), `tools` (the judge may use tools) or `plain` (two
    pictures and the rubric). prompts: a folder whose `<name>.txt` files replace the prompts of the same names.
    max_tokens: of a reply. enhance_below: pixels of a crop's shorter side under which it is enlarged.

    Where there are tools: turns: most replies of the judge. regions: differences shown, the largest. detection: score
    above which something counts as detected. What counts as a difference are options of the expert `Differences`.
    """

    mode: str = "oracle"
    prompts: str | None = None
    turns: int = 6
    regions: int = REGIONS
    detection: float = THRESHOLD
    enhance_below: int = ENHANCE_BELOW
    max_tokens: int = 2048

    base: ClassVar[Card]
    scale: ClassVar[Scale]
    used: ClassVar[Mapping[str, Sequence[str]]]
    """Options that only some modes use, with these modes."""

    def __post_init__(self) -> None:
        name = self.base.name
        if self.mode not in MODES:
            raise ValueError(f"unknown mode {self.mode!r}: {name} has {', '.join(MODES)}")
        for option, modes in self.used.items():
            if self.mode not in modes and option in self._changed():
                raise ValueError(f"{name} does not use {option} in mode {self.mode}: leave it out")
        for option in ("turns", "regions", "max_tokens"):
            if getattr(self, option) < 1:
                raise ValueError(f"{name} wants {option} of at least 1, got {getattr(self, option)}")
        if not 0 <= self.detection < 1:
            raise ValueError(f"{name} wants detection from 0 to 1, got {self.detection}")
        if self.enhance_below < 0:
            raise ValueError(f"{name} wants enhance_below of at least 0, got {self.enhance_below}")
        Prompts(PACKAGE, self.prompts)  # refuses a pack that is no folder

    def _changed(self) -> dict[str, Any]:
        plain = {"mode", "prompts"}
        values = {option.name: (getattr(self, option.name), option.default) for option in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default and name not in plain}

    @cached_property
    def signature(self) -> str:
        """As in `dlebench-if@1/oracle`, with the options that are not the default and the prompt pack's digest."""
        options = [f"{name}={value}" for name, value in self._changed().items()]
        return self.base.signed(self.mode, [*options, *Prompts(PACKAGE, self.prompts).options])

    @property
    def requires(self) -> tuple[str, ...]:
        """Fields of a sample that the mode cannot do without."""
        return ("sources", "edited", "instruction", *(("targets", "reference") if self.mode == "oracle" else ()))

    def lacking(self, sample: EditSample) -> Score | None:
        """The score of a sample that the mode cannot judge; None for one that it can."""
        if self.mode != "oracle":
            return None
        needed = {"targets (boxes in the source)": sample.targets, "reference (a picture)": sample.reference}
        missing = [name for name, value in needed.items() if not value]
        if not missing:
            return None
        return Score.not_applicable(
            f"sample {sample.id!r} has no {' and no '.join(missing)}: give them, or use mode=tools or mode=plain"
        )

    def words(self, sample: EditSample, size: tuple[int, int]) -> str:
        """The prompt of the mode, its parts put in. size: of the pictures that the tools speak about."""
        prompts = Prompts(PACKAGE, self.prompts)
        parts = {name: prompts.render(f"{self._topic}_{name}") for name in ("labels", "checks", "examples")}
        pixels = f"{size[0]} x {size[1]}"
        tools = prompts.render("tools", size=pixels)
        answer = prompts.render("answer", labels=str(self.scale))
        slots = {"instruction": sample.instruction, "size": pixels, "tools": tools, "answer": answer}
        return prompts.render(f"{self._topic}_{self.mode}", **parts, **slots)

    @property
    def _topic(self) -> str:
        return self.base.about

    def question(self, pictures: Sequence[Image], words: str, sample: EditSample) -> Judge:
        form = FreeText(max_tokens=self.max_tokens)
        topic = f"dlebench/{self._topic}_{self.mode}"
        return Judge((Message((*pictures, words)),), form, topic, (("instruction", sample.instruction),))

    def judged(self, pictures: Sequence[Image], sample: EditSample, evidence: list[Evidence]) -> Asks[Score]:
        """The score of one question without tools. What the judge says is evidence."""
        question = self.question(pictures, self.words(sample, pictures[0].size), sample)
        reply = yield from ask(question)
        evidence.append(Evidence("reply", pictures[1].digest, text=reply.text))
        try:
            return self.worth(said_verdict(self.scale, reply.text), evidence)
        except ValueError as error:
            return Score.failed(f"{question.topic}: the judge's verdict is unclear: {error}", evidence=evidence)

    def discussed(
        self, pictures: Sequence[Image], tools: tuple[Image, Image], sample: EditSample, evidence: list[Evidence]
    ) -> Asks[Score]:
        """The score of a conversation. tools: the source and edited picture that the tools see, of one size."""
        question = self.question(pictures, self.words(sample, tools[0].size), sample)
        hands = offered(
            *tools,
            sample.instruction,
            regions=self.regions,
            threshold=self.detection,
            enhance_below=self.enhance_below,
        )
        verdict: Callable[[str], str] = partial(said_verdict, self.scale)
        prompts = Prompts(PACKAGE, self.prompts)

        def below(left: int) -> str:
            return prompts.render("continue", left=str(left), labels=str(self.scale))

        try:
            label = yield from converse(question, hands, verdict, turns=self.turns, words=below, evidence=evidence)
        except NoVerdict as error:
            return Score.failed(f"{question.topic}: {error}", evidence=evidence)
        return self.worth(label, evidence)

    def worth(self, label: str, evidence: Sequence[Evidence]) -> Score:
        """The score of a label, which is its reason."""
        score, share = self.scale.score(label), self.scale.share(label)
        found = Evidence("label", text=label, numbers={"score": float(score), "of 100": 100 * share})
        return Score.of(share, f"{label} ({score} of 4)", evidence=[*evidence, found])


def fitted(image: Image, source: Image, name: str, evidence: list[Evidence]) -> Image:
    """The picture at the source's size, by Lanczos resampling; that it had another one is evidence."""
    if image.size != source.size:
        text = f"the {name} picture was brought from {image.width} x {image.height} to the source's size"
        numbers = {"width": float(source.width), "height": float(source.height)}
        evidence.append(Evidence("resized", image.digest, text=text, numbers=numbers))
    return image.resized(*source.size)
