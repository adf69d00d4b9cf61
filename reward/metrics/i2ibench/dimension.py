"""What the metrics of all dimensions share: to whom they apply, what a judge is shown, and the judge-only ablation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import ClassVar

from ..asking import Asks, ask, value_of
from ..card import Card
from ..forms import Form, Levels, Message, Reply
from ..image import Image
from ..prompts import Prompts
from ..query import Judge
from ..sample import EditSample
from ..score import Evidence, Score
from .table import TABLE, Dimension, Pipeline, unknown

LEVELS = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
"""Of the five-level pipeline (section 3.2.1, equation 1)."""

_LEVEL_GAMING = "A judge that is asked for one level of everything goes by its overall impression of the picture."
PACKAGE = "editcritic.reward.i2ibench"
_PLAIN = ("dimension", "judge_only", "prompts")

Parts = tuple[str | Image, ...]
"""What a judge is shown before the words: pictures, each after its name."""


@dataclass(frozen=True)
class DimensionMetric(ABC):
    """One dimension of I2I-Bench by one pipeline; values in [0, 1].

    dimension: its name in `TABLE`. judge_only: the ablation of section 4.3, one question for a level whatever the
    dimension; takes no other options. prompts: a folder whose `<name>.txt` files replace the prompts of the same names.

    Not applicable to samples with another number of sources, with `dimensions` that leave it out, or without the `hint`
    or `text` it needs. Fails where one of a sample's `dimensions` is none of I2I-Bench.
    """

    dimension: str
    _: KW_ONLY
    judge_only: bool = False
    prompts: str | None = None

    pipeline: ClassVar[Pipeline]
    gaming: ClassVar[str]

    def __post_init__(self) -> None:
        names = [name for name, known in TABLE.items() if known.pipeline == self.pipeline]
        if self.dimension not in names:
            raise ValueError(f"{type(self).__name__} has no dimension {self.dimension!r}: it has {', '.join(names)}")
        if self.judge_only and (changed := self._options()):
            raise ValueError(f"judge_only takes no other options, got {', '.join(changed)}: leave them out")
        Prompts(PACKAGE, self.prompts)  # refuses a pack that is no folder

    @property
    def known(self) -> Dimension:
        """What the table says of its dimension."""
        return TABLE[self.dimension]

    @property
    def roles(self) -> tuple[str, ...]:
        """Whom its pipeline asks."""
        return ("judge",)

    @property
    def protocols(self) -> tuple[str, ...]:
        """The ways the paper has of computing it, default first, where there are several."""
        return ()

    @property
    def card(self) -> Card:
        return Card(
            f"i2i-{self.dimension}",
            1,
            self.known.meaning,
            roles=("judge",) if self.judge_only else self.roles,
            protocols=() if self.judge_only else self.protocols,
            source=f"I2I-Bench, {self.known.section}",
            gaming=_LEVEL_GAMING if self.judge_only else self.gaming,
            about=self.known.about,
        )

    @property
    def signature(self) -> str:
        """As in `i2i-object-manipulation@1[judge_only]`: with what is not the default, and the prompt pack's digest."""
        options = [*(["judge_only"] if self.judge_only else []), *self._options()]
        return self.card.signed(options=[*options, *Prompts(PACKAGE, self.prompts).options])

    def _options(self) -> list[str]:
        values = [(option.name, getattr(self, option.name), option.default) for option in fields(self)]
        return [f"{name}={value}" for name, value, default in values if name not in _PLAIN and value != default]

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if why := self.known.does_not_apply(sample):
            if self.known.takes(sample) and (strange := unknown(sample)):
                names = ", ".join(map(repr, strange))
                why = f"no dimension of I2I-Bench is called {names}: they are {', '.join(TABLE)}"
                return Score.failed(why).by(self.signature)
            return Score.not_applicable(why).by(self.signature)
        score = yield from (self.level(sample) if self.judge_only else self.score(sample))
        return score.by(self.signature)

    @abstractmethod
    def score(self, sample: EditSample) -> Asks[Score]:
        """The pipeline, for a sample that the dimension applies to."""

    def judge(self, topic: str, form: Form, parts: Parts, *, prompt: str = "", **slots: str) -> Judge:
        """A question to the judge on `topic`, in the words of `prompt` (of the topic's name where there is none)."""
        words = self.words(prompt or topic, **slots)
        return Judge((Message((*parts, words)),), form, f"i2i/{topic}", tuple(slots.items()))

    def words(self, prompt: str, **slots: str) -> str:
        """A prompt with its slots filled."""
        return Prompts(PACKAGE, self.prompts).render(prompt, **slots)

    def level(self, sample: EditSample) -> Asks[Score]:
        """The ablation: one question for a level of this dimension."""
        needs = self.known.needs
        slots = {"instruction": sample.instruction, "dimension": self.known.title}
        if needs:
            slots[needs] = getattr(sample, needs)
        words = self.words(f"level_{needs}" if needs else "level", **slots, meaning=self.known.meaning)
        message = Message((*shown(sample.sources, sample.edited), words))
        return (yield from graded(Judge((message,), LEVELS, "i2i/level", tuple(slots.items()))))


def shown(sources: Sequence[Image] = (), edited: Image | None = None) -> Parts:
    """Pictures in order, each after its name; several sources are numbered from 1."""
    parts: list[str | Image] = []
    for number, source in enumerate(sources, start=1):
        parts += [f"Source picture {number}:" if len(sources) > 1 else "Source picture:", source]
    if edited is not None:
        parts += ["Edited picture:", edited]
    return tuple(parts)


def graded(question: Judge) -> Asks[Score]:
    """What one answer of the judge is worth by its form: an expected level, or the probability of yes."""
    reply = yield from ask(question)
    return Score.of(value_of(question, reply), reply.text, evidence=[said(question, reply)])


def said(question: Judge, reply: Reply, about: str = "") -> Evidence:
    """What a judge said to a question, for the evidence."""
    numbers = {name: float(p) for name, p in reply.probabilities.items()}
    text = f"{about} {reply.text}".strip()
    return Evidence(f"judge {question.topic}", question.images[-1].digest, text=text, numbers=numbers)
