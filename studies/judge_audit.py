"""Which faults an audit finds, and how exactly: `python -m studies.judge_audit`.

SceneEdit's judge gets one fault of known size at a time, on fresh edits for each seed, and is audited. Of each fault
and size it prints how often the truth lies in the 95 % interval, how often the fault is found, and how often another
one is reported instead; and of the judge without a fault, how often any is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.human_eval.judge_audit.findings import JudgeAudit
from editcritic.benchmarks.human_eval.judge_audit.probes import DEMANDS, compressed, painted, scaled
from editcritic.benchmarks.human_eval.judge_audit.questions import (
    GRADED,
    HIGHEST_GRADE,
    NEGATED,
    PLAIN,
    SWAPPED,
    AuditQuestion,
)
from editcritic.benchmarks.human_eval.judge_audit.runner import QUALITIES, SCALES, audit, choose
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.reward import EditSample, Expert
from editcritic.reward.queries import Reply
from editcritic.reward.queries.prompts import Prompts

from .faulty_judge import Faults, FaultyJudge, PictureVariant

SAMPLES = 48
"""Edits of each audit, of as many sources."""

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
"""Dialled fault -> the fault of the audit whose first figure measures it."""

BYPRODUCTS: Mapping[str, frozenset[str]] = {"noise": frozenset({"grade-draws"})}
"""What else a dialled fault really is: noise of answers is noise of grades, too."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One audit. fault, level: as dialled in; an empty fault for none. truth: of its measure. value, low, high: as
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


def audited_samples(seed: int, count: int = SAMPLES) -> list[EditSample]:
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
    """A judge with faults, who knows the originals of all pictures that an audit of these samples shows."""
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


def run_seed(seed: int, count: int, levels: Sequence[float]) -> Iterator[Outcome]:
    """Audits of one set of fresh edits: without a fault, and with each fault at each level."""
    samples = audited_samples(seed, count)
    judge = CachingExpert(SceneJudge())
    for fault, level in [("", 0.0), *((fault, level) for fault in MEASURED for level in levels)]:
        dialled = faulty_judge(judge, Faults(**({fault: level} if fault else {})), samples, seed)
        result = audit(dialled, samples)
        value, low, high = _figure(result, fault)
        questions = sum(cost.calls for cost in result.costs.values())
        truth = expected_measure(fault, level)
        yield Outcome(seed, fault, level, truth, value, low, high, tuple(result.found), questions)


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


def summary(outcomes: Sequence[Outcome]) -> list[str]:
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
    parser = argparse.ArgumentParser(prog="python -m studies.judge_audit", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=20, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--samples", type=at_least_one, default=SAMPLES)
    parser.add_argument("--levels", type=float, nargs="+", default=list(LEVELS))
    parser.add_argument("-o", "--out", type=Path, help="write all outcomes as JSONL")
    options = parser.parse_args(arguments)
    write = write or (lambda text: echo(text, stderr=False))
    outcomes: list[Outcome] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        outcomes += run_seed(seed, options.samples, options.levels)
        echo(f"seed {seed}: {len(outcomes)} audits")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(asdict(outcome)) + "\n" for outcome in outcomes), encoding="utf-8")
    for line in summary(outcomes):
        write(line)
    covered = [outcome.covered for outcome in outcomes if outcome.fault]
    write(f"\ntruth in the interval: {sum(covered)} of {len(covered)}")
    return 0


def _figure(result: JudgeAudit, fault: str) -> tuple[float | None, float | None, float | None]:
    if not fault:
        return None, None, None
    finding = result.of(MEASURED[fault])[0]
    return finding.value, finding.low, finding.high


def _text(question: AuditQuestion, sample: EditSample) -> str:
    return Prompts(question.package).render(question.prompt, instruction=sample.instruction)


if __name__ == "__main__":
    sys.exit(main())
