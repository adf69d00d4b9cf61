"""Which faults a measurement finds, and how exactly: `python -m studies.judge_faults`.

SceneEdit's judge gets one fault of known size at a time, on fresh edits for each seed, and is measured. Of each fault
and size it prints how often the truth lies in the 95 % interval, how often the fault is found, and how often another
one is reported instead; and of the judge without a fault, how often any is.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import sqrt
from statistics import fmean

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.human_eval.judge_faults.findings import JudgeFaults
from editcritic.benchmarks.human_eval.judge_faults.probes import DEMANDS, compressed, painted, scaled
from editcritic.benchmarks.human_eval.judge_faults.questions import (
    GRADED,
    HIGHEST_GRADE,
    NEGATED,
    PLAIN,
    SWAPPED,
    FaultQuestion,
)
from editcritic.benchmarks.human_eval.judge_faults.runner import QUALITIES, SCALES, choose, measure_faults
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.reward import EditSample, Expert, Image
from editcritic.reward.queries import Grade, Judge, Levels, Message, Reply, YesNo
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.prompts import Prompts


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
        faults, text = self.faults, _answer_text(query)
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
        text = _answer_text(query)
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


def _answer_text(query: Judge) -> str:
    return "\n".join(part for message in query.messages for part in message.content if isinstance(part, str))


SAMPLES = 48
"""Edits of each result, of as many sources."""

LEVELS = (0.2, 0.4)
"""Sizes of each fault."""

MEASURED: Mapping[str, str] = {
    "position": "position",
    "order": "order",
    "yes_bias": "yes-bias",
    "wording": "wording",
    "size": "size",
    "jpeg": "jpeg",
    "noise": "draws",
    "picture_words": "picture-words",
    "instruction_words": "instruction-words",
    "readings": "readings",
}
"""Dialled fault -> the fault of the measurement whose first figure measures it."""

BYPRODUCTS: Mapping[str, frozenset[str]] = {"noise": frozenset({"grade-draws"})}
"""What else a dialled fault really is: noise of answers is noise of grades, too."""


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """One result. fault, level: as dialled in; an empty fault for none. truth: of its measure. value, low, high: as
    measured. found: the reported faults. covered: whether the truth is in the interval."""

    seed: int
    fault: str
    level: float
    truth: float
    value: float | None
    low: float | None
    high: float | None
    found: tuple[str, ...]
    questions: int

    @property
    def covered(self) -> bool:
        return self.low is not None and self.high is not None and self.low - 1e-9 <= self.truth <= self.high + 1e-9


def measured_samples(seed: int, count: int = SAMPLES) -> list[EditSample]:
    """Fresh edits that SceneEdit's judge can answer about: honest ones and failures, of as many sources."""
    judge = SceneJudge()
    drawn = (
        EditSample(case.sample.id, case.sample.instruction, case.sample.sources, case.sample.edited)
        for case in cases(3 * count, seed=seed, turns=1)
        if case.sample.edited.digest != case.sample.source.digest
    )
    return choose(answerable(judge, drawn), count, seed)


def answerable(judge: Expert, samples: Iterator[EditSample]) -> Iterator[EditSample]:
    """The samples about which a judge has an answer to the plain question."""
    for sample in samples:
        if isinstance(judge([PLAIN.query(sample)])[0], Reply):
            yield sample


def faulty_judge(judge: Expert, faults: Faults, samples: Sequence[EditSample], seed: int) -> FaultyJudge:
    """A judge with faults, who knows the originals of all pictures that a measurement of these samples shows."""
    pictures: dict[str, PictureVariant] = {}
    for sample in samples:
        changed = [
            *((scaled(sample, scale), "size") for scale in SCALES),
            *((compressed(sample, quality), "jpeg") for quality in QUALITIES),
        ]
        for variant, kind in changed:
            for original, image in zip(
                (*sample.sources, sample.edited), (*variant.sources, variant.edited), strict=True
            ):
                pictures[image.digest] = PictureVariant(original, kind)
        for words in DEMANDS:
            image = painted(sample, words).edited
            pictures[image.digest] = PictureVariant(sample.edited, "words", words)
    return FaultyJudge(
        judge,
        faults,
        variants=pictures,
        plain=frozenset(
            _text(question, sample) for question in (PLAIN, NEGATED, SWAPPED, GRADED) for sample in samples
        ),
        demands=dict(zip(DEMANDS, (True, False), strict=True)),
        seed=seed,
    )


def run_seed(seed: int, count: int, levels: Sequence[float]) -> Iterator[AuditOutcome]:
    """Measurements of one set of fresh edits: without a fault, and with each fault at each level."""
    samples = measured_samples(seed, count)
    judge = CachingExpert(SceneJudge())
    for fault, level in [("", 0.0), *((fault, level) for fault in MEASURED for level in levels)]:
        dialled = faulty_judge(judge, Faults(**({fault: level} if fault else {})), samples, seed)
        result = measure_faults(dialled, samples)
        value, low, high = _figure(result, fault)
        questions = sum(cost.calls for cost in result.costs.values())
        truth = expected_measure(fault, level)
        yield AuditOutcome(seed, fault, level, truth, value, low, high, tuple(result.found), questions)


def expected_measure(fault: str, level: float) -> float:
    """The audit's measure of a fault of this probability: the same, but for noise, where two answers differ if one of
    them is inverted."""
    return 2 * level * (1 - level) if fault == "noise" else level


def expected_grade_noise(judge: Expert, samples: Sequence[EditSample], level: float) -> float:
    """The standard deviation of a grade that is any of the scale with this probability, as a share of the scale."""
    grades = range(HIGHEST_GRADE + 1)
    square, middle = fmean(grade**2 for grade in grades), fmean(grades)
    spreads = []
    for reply in judge([GRADED.query(sample) for sample in samples]):
        assert isinstance(reply, Reply)
        grade = int(reply.text)
        mean = (1 - level) * grade + level * middle
        spreads.append((1 - level) * grade**2 + level * square - mean**2)
    return sqrt(fmean(spreads)) / HIGHEST_GRADE


def summary(outcomes: Sequence[AuditOutcome]) -> list[str]:
    """The table, in Markdown."""
    clean = [outcome for outcome in outcomes if not outcome.fault]
    accused = sum(bool(outcome.found) for outcome in clean)
    lines = [
        "| fault | size | measured (mean) | truth in the 95 % interval | found | another one reported |",
        "|---|---|---|---|---|---|",
        f"| none | 0 | | | {accused} of {len(clean)} | |",
    ]
    for fault, level in dict.fromkeys((outcome.fault, outcome.level) for outcome in outcomes if outcome.fault):
        rows = [outcome for outcome in outcomes if (outcome.fault, outcome.level) == (fault, level)]
        own = {MEASURED[fault]} | BYPRODUCTS.get(fault, frozenset())
        values = [outcome.value for outcome in rows if outcome.value is not None]
        count = len(rows)
        lines.append(
            f"| {fault.replace('_', ' ')} | {rows[0].truth:.2f} | {fmean(values):.3f} | "
            f"{sum(outcome.covered for outcome in rows)} of {count} | "
            f"{sum(MEASURED[fault] in outcome.found for outcome in rows)} of {count} | "
            f"{sum(bool(set(outcome.found) - own) for outcome in rows)} of {count} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None, write: Callable[[str], None] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m studies.judge_faults", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=20, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--samples", type=at_least_one, default=SAMPLES)
    options = parser.parse_args(arguments)
    write = write or (lambda text: echo(text, stderr=False))
    outcomes: list[AuditOutcome] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        outcomes += run_seed(seed, options.samples, LEVELS)
        echo(f"seed {seed}: {len(outcomes)} measurements")
    for line in summary(outcomes):
        write(line)
    covered = [outcome.covered for outcome in outcomes if outcome.fault]
    write(f"\ntruth in the interval: {sum(covered)} of {len(covered)}")
    return 0


def _figure(result: JudgeFaults, fault: str) -> tuple[float | None, float | None, float | None]:
    if not fault:
        return None, None, None
    finding = result.of(MEASURED[fault])[0]
    return finding.value, finding.low, finding.high


def _text(question: FaultQuestion, sample: EditSample) -> str:
    return Prompts(question.package).render(question.prompt, instruction=sample.instruction)


if __name__ == "__main__":
    sys.exit(main())
