"""A judge with faults of known size, to measure what an audit of judges finds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from editcritic.reward import Expert, Image
from editcritic.reward.queries import Grade, Judge, Levels, Message, Reply, YesNo
from editcritic.reward.queries.kinds import Outcome


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities in [0, 1], each of one fault; raises ValueError for others.

    position: of two edits, the one shown first is the better one. order: with the edited picture first, the answer is
    inverted. yes_bias: the answer is yes. wording, size, jpeg: the answer to a reworded question, and about a smaller
    or compressed picture, is inverted. noise: the answer is inverted, or the grade is any, anew in every draw.
    picture_words, instruction_words: words that demand an answer get it. readings: the word is not the most probable.
    """

    position: float = 0.0
    order: float = 0.0
    yes_bias: float = 0.0
    wording: float = 0.0
    size: float = 0.0
    jpeg: float = 0.0
    noise: float = 0.0
    picture_words: float = 0.0
    instruction_words: float = 0.0
    readings: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0.0 <= getattr(self, field.name) <= 1.0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)!r}: expected a probability in [0, 1]")


@dataclass(frozen=True, slots=True)
class PictureVariant:
    """What a picture was made from. kind: `size`, `jpeg` or `words`; words: those painted into it."""

    original: Image
    kind: str
    words: str = ""


class FaultyJudge(Expert):
    """Another judge's answers, made certain, with faults.

    It sees the originals of pictures, so that nothing but its faults changes an answer: variants has, by digest, the
    pictures that stand for others. plain: texts of questions as they usually are; others are reworded. demands: words
    -> whether they demand the best answer. All faults but the noise depend on the question and the seed, not on the
    draw: asked again, it has them again.
    """

    kinds = (Judge,)

    def __init__(
        self,
        judge: Expert,
        faults: Faults,
        *,
        variants: Mapping[str, PictureVariant],
        plain: frozenset[str],
        demands: Mapping[str, bool],
        seed: int = 0,
    ) -> None:
        self.judge, self.faults, self.seed = judge, faults, seed
        self._variants, self._plain, self._demands = variants, plain, demands
        levels = " ".join(f"{name}={level!r}" for name, level in asdict(faults).items() if level)
        self.id = f"{judge.id} + faults@1 {levels} seed={seed}"

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        restored = [self._restored(query) for query in queries]
        replies = self.judge(restored)
        return [
            self._faulty(query, original, reply) if isinstance(reply, Reply) else reply
            for query, original, reply in zip(queries, restored, replies, strict=True)
        ]

    def _restored(self, query: Judge) -> Judge:
        """The query about the originals, for the most probable answer."""
        messages = tuple(
            Message(tuple(self._original(part) if isinstance(part, Image) else part for part in message.content))
            for message in query.messages
        )
        form = replace(query.form, temperature=0.0) if isinstance(query.form, Grade) else query.form
        return replace(query, messages=messages, form=form, draw=0)

    def _original(self, image: Image) -> Image:
        variant = self._variants.get(image.digest)
        return image if variant is None else variant.original

    def _faulty(self, query: Judge, restored: Judge, reply: Reply) -> Reply:
        match query.form:
            case YesNo():
                yes = self._decision(query, restored, reply.probabilities["yes"] >= 0.5)
                return Reply("yes" if yes else "no", {"yes": float(yes), "no": float(not yes)})
            case Grade() as form:
                return self._grade(query, restored, form, int(reply.text))
            case Levels():
                if self._has("position", self.faults.position, restored):
                    return Reply("first")
                return reply
            case _:
                return reply

    def _decision(self, query: Judge, restored: Judge, yes: bool) -> bool:
        faults, text = self.faults, _text(query)
        kinds = {self._variants[image.digest].kind for image in query.images if image.digest in self._variants}
        for where, words in (("picture", self._painted(query)), ("instruction", text)):
            for demand, best in self._demands.items():
                if demand in words and self._has(where, getattr(faults, f"{where}_words"), restored, demand):
                    return best
        pictures = " ".join(sorted(image.digest for image in restored.images))  # in whatever order they are shown
        asked = f"{query.topic == _NEGATED} {pictures} {restored.slots}"
        if self._draw("yes", asked) < faults.yes_bias:
            yes = True
        inverted = [
            query.topic == _SWAPPED and self._has("order", faults.order, restored),
            text not in self._plain
            and not any(demand in text for demand in self._demands)
            and self._has("wording", faults.wording, restored, text),
            *(self._has(kind, getattr(faults, kind), restored, str(query.images[-1].size)) for kind in kinds & _SEEN),
            self._draw("noise", query.digest) < faults.noise,
        ]
        return yes ^ (sum(inverted) % 2 == 1)

    def _painted(self, query: Judge) -> str:
        return " ".join(self._variants[image.digest].words for image in query.images if image.digest in self._variants)

    def _grade(self, query: Judge, restored: Judge, form: Grade, grade: int) -> Reply:
        text = _text(query)
        if text not in self._plain and self._has("wording", self.faults.wording, restored, text):
            grade = form.high + form.low - grade
        if self._draw("noise", query.digest) < self.faults.noise:
            grade = form.low + int(self._draw("grade", query.digest) * (form.high - form.low + 1))
        word = grade
        if self._has("readings", self.faults.readings, restored, text):
            word = grade - 1 if grade > form.low else grade + 1
        return Reply(str(word), {str(grade): 1.0})

    def _has(self, fault: str, level: float, restored: Judge, more: str = "") -> bool:
        """Whether a question has a fault: the same for the same topic, pictures and instruction, and for `more`."""
        pictures = " ".join(image.digest for image in restored.images)
        return self._draw(fault, f"{restored.topic} {pictures} {restored.slots} {more}") < level

    def _draw(self, label: str, key: str) -> float:
        """A uniform number in [0, 1), a function of the seed, the label and the key."""
        return int.from_bytes(hashlib.sha256(f"{self.seed} {label} {key}".encode()).digest()[:8], "big") / 2**64


_NEGATED, _SWAPPED = "audit/negated", "audit/swapped"
_SEEN = frozenset({"size", "jpeg"})


def _text(query: Judge) -> str:
    return "\n".join(part for message in query.messages for part in message.content if isinstance(part, str))
