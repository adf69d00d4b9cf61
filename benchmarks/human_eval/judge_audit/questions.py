"""The questions of an audit: one of `judge-yes-no`, and variants of it that a sound judge answers alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from ....reward import Card, EditSample, Evidence, Image, Program, Score, ask
from ....reward.engine.program import reply_value
from ....reward.queries import Grade, Judge, Message, Reply, YesNo
from ....reward.queries.parsing import parse_yes_no
from ....reward.queries.prompts import Prompts

YES_NO_PACKAGE = "editcritic.reward.metrics.baselines"
AUDIT_PACKAGE = "editcritic.benchmarks.human_eval.judge_audit"

WORD, EXPECTED, MOST_PROBABLE = "word", "expected", "most-probable"
"""Parts of a score: the answer as written; the expectation over the judge's probabilities; and whether the option that
was written is the most probable one. Each only where the reply has it."""

HIGHEST_GRADE = 10
WORDINGS = 3
"""Paraphrases of each question."""

_TIE = 0.01
"""Probabilities that differ by less are equal: the words and the probabilities may come from two forward passes."""


@dataclass(frozen=True)
class AuditQuestion:
    """How far the instruction was followed, in [0, 1], from one reply of a judge, with its readings in `parts`.

    topic: of the query; what experts without a language model answer. package, prompt: the file of the words.
    graded: the answer is an integer from 0 to 10 instead of yes or no. temperature: of a grade. swapped: the edited
    picture is shown first, and the words say so. appended: words after the instruction, in the text alone: the slots
    keep what was asked for.
    """

    topic: str
    package: str
    prompt: str
    graded: bool = False
    temperature: float = 0.0
    swapped: bool = False
    appended: str = ""

    card: ClassVar[Card] = Card(
        "audit-question",
        1,
        "a judge, asked at once, says that the edited image follows the instruction",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        source="The yes/no question is that of judge-yes-no; its variants are ours",
        failure_modes="Those of judge-yes-no: it exists to measure them.",
        aspect="following",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        query = self.query(sample)
        reply = yield from ask(query)
        value = float(reply_value(query, reply))
        readings = {name: Score.of(number) for name, number in self._readings(query, reply).items()}
        evidence = Evidence(f"judge {self.prompt}", sample.edited.digest, text=reply.text)
        return Score.of(value / self._highest, reply.text, evidence=[evidence], parts=readings)

    def query(self, sample: EditSample) -> Judge:
        """The question about a sample."""
        slots = {"instruction": sample.instruction}
        asked = f"{sample.instruction} {self.appended}" if self.appended else sample.instruction
        text = Prompts(self.package).render(self.prompt, instruction=asked)
        pictures: tuple[Image, ...] = (sample.source, sample.edited)
        if self.swapped:
            pictures = pictures[::-1]
        form = Grade(0, HIGHEST_GRADE, temperature=self.temperature) if self.graded else YesNo()
        return Judge((Message((*pictures, text)),), form, self.topic, tuple(slots.items()))

    @property
    def _highest(self) -> int:
        return HIGHEST_GRADE if self.graded else 1

    def _readings(self, query: Judge, reply: Reply) -> Mapping[str, float]:
        form, readings = query.form, {}
        if isinstance(form, Grade):
            word: str | None
            try:
                word = str(form.parse(reply.text))
            except ValueError:  # a reply of probabilities alone
                word = None
            if word is not None:
                readings[WORD] = int(word) / HIGHEST_GRADE
            if reply.probabilities:
                readings[EXPECTED] = form.expected_value(reply) / HIGHEST_GRADE
        else:
            yes = parse_yes_no(reply.text)
            word = None if yes is None else "yes" if yes else "no"
            if yes is not None:
                readings[WORD] = float(yes)
            if reply.probabilities:
                readings[EXPECTED] = reply.probabilities.get("yes", 0.0)
        if word is not None and reply.probabilities:
            highest = max(reply.probabilities.values())
            readings[MOST_PROBABLE] = float(reply.probabilities.get(word, 0.0) >= highest - _TIE)
        return readings


PLAIN = AuditQuestion("baselines/yes_no", YES_NO_PACKAGE, "yes_no")
NEGATED = AuditQuestion("audit/negated", AUDIT_PACKAGE, "negated")
SWAPPED = AuditQuestion("audit/swapped", AUDIT_PACKAGE, "swapped", swapped=True)
REWORDED = tuple(
    AuditQuestion("baselines/yes_no", AUDIT_PACKAGE, f"yes_no_{number}") for number in range(1, WORDINGS + 1)
)
GRADED = AuditQuestion("audit/grade", AUDIT_PACKAGE, "grade", graded=True)
GRADED_REWORDED = tuple(
    AuditQuestion("audit/grade", AUDIT_PACKAGE, f"grade_{number}", graded=True) for number in range(1, WORDINGS + 1)
)
GRADED_SAMPLED = AuditQuestion("audit/grade", AUDIT_PACKAGE, "grade", graded=True, temperature=1.0)


def differing_pairs(samples: Iterable[EditSample]) -> list[tuple[EditSample, EditSample]]:
    """Two different edits of the same pictures by the same instruction each, for a comparison.

    Edits in the order of the samples, each with the next; an edit that is alone is compared with its unedited source.
    """
    groups: dict[tuple[str, ...], list[EditSample]] = {}
    for sample in samples:
        key = (sample.instruction, *(image.digest for image in sample.sources))
        group = groups.setdefault(key, [])
        if all(sample.edited.digest != other.edited.digest for other in group):
            group.append(sample)
    pairs: list[tuple[EditSample, EditSample]] = []
    for group in groups.values():
        if len(group) > 1:
            pairs += pairwise(group)
        elif group[0].edited.digest != group[0].source.digest:
            pairs.append((group[0], unedited(group[0])))
    return pairs


def unedited(sample: EditSample) -> EditSample:
    """The source, as an edit that changed nothing."""
    return EditSample(f"{sample.id} unedited", sample.instruction, sample.sources, sample.source)
