"""What metrics that ask a judge share: options that are checked, prompts that can be replaced, and the signature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cached_property
from typing import Any, ClassVar

from ..card import Card
from ..engine.program import Program
from ..image import Image
from ..queries.kinds import Judge
from ..queries.prompts import Prompts
from ..queries.response_formats import Reply, ResponseFormat
from ..sample import EditSample
from ..score import Evidence, Score


def check_choice(metric: str, option: str, value: object, allowed: Collection[object]) -> None:
    """Raise ValueError for an option that has none of its values."""
    if value not in allowed:
        raise ValueError(f"{metric} has no {option} {value!r}: there are {', '.join(map(str, allowed))}")


def refuse(metric: str, problems: Mapping[str, object]) -> None:
    """Raise ValueError with the first of these problems that there is. problems: text -> whether there is it."""
    for problem, there_is in problems.items():
        if there_is:
            raise ValueError(f"{metric} {problem}")


class PromptedMetric(ABC):
    """A metric with prompts, a data class. prompts: a folder whose `<name>.txt` files replace ours. paper: what the
    paper marks as a system prompt is sent as one."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    prompts: str | None
    paper: bool = False

    package: ClassVar[str]
    """The package that has its prompts."""
    choices: ClassVar[Mapping[str, Collection[object]]] = {}
    """Option -> its values."""
    variant: ClassVar[str] = ""
    """The option that follows name and version in the signature: protocol or mode."""
    flags: ClassVar[tuple[str, ...]] = ()
    """Options that the signature names without their value, before the others."""
    one_picture: ClassVar[str] = ""
    """Name of the benchmark, if it judges edits of one picture only."""

    def __post_init__(self) -> None:
        for option, allowed in self.choices.items():
            check_choice(self.card.name, option, getattr(self, option), allowed)
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @property
    @abstractmethod
    def card(self) -> Card:
        """What it measures, and whom it queries."""

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(self.package, self.prompts)

    def changed_options(self) -> dict[str, Any]:
        """The options with other values than the defaults, but for `variant`, `flags` and `prompts`."""
        unsigned = (self.variant, *self.flags, "prompts")
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self) if one.name not in unsigned}
        return {name: value for name, (value, default) in values.items() if default not in (MISSING, value)}

    @cached_property
    def signature(self) -> str:
        """As in `edival-if@3/paper[dense, threshold=0.3]`, with a prompt pack's digest."""
        options = [flag for flag in self.flags if getattr(self, flag)]
        options += [f"{name}={value}" for name, value in self.changed_options().items()]
        variant = getattr(self, self.variant) if self.variant else ""
        return self.card.signature_with(variant, [*options, *self.prompt_pack.options])

    def __call__(self, sample: EditSample) -> Program[Score]:
        if self.one_picture and len(sample.sources) > 1:
            score = Score.not_applicable(
                f"{self.one_picture} judges the edit of one picture, and this sample has {len(sample.sources)} "
                "sources: use a metric for several"
            )
        else:
            score = yield from self.score(sample)
        return score.with_signature(self.signature)

    @abstractmethod
    def score(self, sample: EditSample) -> Program[Score]:
        """The score of a sample, without its signature."""

    def question(
        self,
        topic: str,
        content: Sequence[str | Image],
        form: ResponseFormat,
        slots: Mapping[str, str],
        *,
        prompt: str = "",
        **words: str,
    ) -> Judge:
        """A query to the judge: content, then the prompt (by default of the end of the topic) with its slots, which are
        part of the query, and other words filled."""
        name = prompt or topic.rpartition("/")[2]
        messages = self.prompt_pack.messages(name, content, {**slots, **words}, paper=self.paper)
        return Judge(messages, form, topic, tuple(slots.items()))


def reply_evidence(question: Judge, reply: Reply, about: str = "") -> Evidence:
    """Evidence of a judge's reply. about: text before that of the reply."""
    numbers = {name: float(p) for name, p in reply.probabilities.items()}
    text = f"{about} {reply.text}".strip()
    return Evidence(f"judge {question.topic}", question.images[-1].digest, text=text, numbers=numbers)


def object_schema(**properties: object) -> dict[str, Any]:
    """The JSON schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
