"""What to do about a judge's faults: how to ask it, how often, and how to read it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from .findings import Finding, JudgeAudit
from .probes import GRADES, GRADES_REWORDED
from .questions import EXPECTED, WORD

TARGET_RELIABILITY = 0.9
"""Of the mean of several draws: a tenth of its variance is noise."""

MAX_DRAWS = 32
"""More are not recommended: another judge is cheaper."""

HARMLESS = 0.1
"""A change of the answer that a smaller picture may cost at most, with 95 % confidence."""


def draws_for(reliability: float, target: float = TARGET_RELIABILITY) -> int | None:
    """How many draws have a mean of this reliability (Spearman-Brown); None above `MAX_DRAWS`."""
    if reliability <= 0:
        return None
    count = max(1, math.ceil(target / (1 - target) * (1 - reliability) / reliability - 1e-9))
    return count if count <= MAX_DRAWS else None


def recommendations(audit: JudgeAudit) -> Iterator[str]:
    """Advice from the findings; nothing about what was not measured."""
    yield from _draws(audit)
    yield from _reading(audit)
    yield from _pictures(audit, "size", "Pictures", "larger ones cost tokens for nothing")
    yield from _pictures(audit, "jpeg", "JPEG", "lossless pictures are not needed")
    if "position" in audit.found:
        yield "Compare edits in both orders, as `pairwise-judge` does; a single order favours one position."
    if "order" in audit.found:
        yield "Show the source first and the edit second: it does not follow words that say otherwise."
    if "yes-bias" in audit.found:
        yield (
            "Ask yes/no questions in both phrasings and average the answer with one minus that to the negation, or "
            "compare scores only among themselves: the threshold of 0.5 is off."
        )
    if "wording" in audit.found:
        yield "Never compare its scores across prompts; to publish one, name the prompt pack, or average over several."
    for fault, where in (("picture-words", "painted into a picture"), ("instruction-words", "in an instruction")):
        if fault in audit.found:
            guard = (
                "put `guard-prompt-injection` before it"
                if fault == "picture-words"
                else "let it judge instructions that you wrote, and no others"
            )
            yield f"It obeys words {where}: {guard}."


def _draws(audit: JudgeAudit) -> Iterator[str]:
    for finding in audit.of("draws"):
        if finding.found:
            yield (
                f"It does not repeat its answers ({finding.value:.3f} of the range on average): keep them in an answer "
                "log, and report intervals."
            )
    for finding in audit.of("grade-draws"):
        reliability = audit.reliability.get(f"{GRADES}, {WORD}")
        if finding.value is not None and finding.found is False:
            yield "One draw of a sampled grade is enough: all draws are equal."
        elif reliability is not None:
            count = draws_for(reliability)
            if count is None:
                yield (
                    f"Sampled grades of one edit differ as much as those of different edits (reliability "
                    f"{reliability:.2f}): {MAX_DRAWS} draws would not help."
                )
            else:
                yield (
                    f"Average {count} draw{'s' * (count > 1)} of a sampled grade for a reliability of "
                    f"{TARGET_RELIABILITY:g}; one has {reliability:.2f}."
                )


def _reading(audit: JudgeAudit) -> Iterator[str]:
    words = audit.reliability.get(f"{GRADES_REWORDED}, {WORD}")
    expected = audit.reliability.get(f"{GRADES_REWORDED}, {EXPECTED}")
    findings = audit.of("readings")
    if not findings:
        return
    if findings[0].value is None:
        if "no probabilities" in findings[0].reason:
            yield "Read its words: it gives no probabilities."
        return
    if findings[0].found:
        yield f"Read its words: in {findings[0].value:.0%} of replies they are not what its probabilities say."
    elif words is not None and expected is not None:
        better = "probabilities" if expected >= words else "words"
        yield (
            f"Read its {better}: over paraphrases, the expected grade has a reliability of {expected:.2f}, the written "
            f"one of {words:.2f}."
        )


def _pictures(audit: JudgeAudit, fault: str, subject: str, gain: str) -> Iterator[str]:
    """The strongest reduction up to which none is harmful; findings come from the weakest on."""
    harmless: Finding | None = None
    findings: Sequence[Finding] = audit.of(fault)
    for finding in findings:
        if finding.found is not False or finding.high is None or finding.high > HARMLESS:
            break
        harmless = finding
    if harmless is not None:
        yield f"{subject} with {harmless.condition} change its answers by {harmless.high:.2f} at most: {gain}."
    elif any(finding.found for finding in findings):
        first = next(finding for finding in findings if finding.found)
        yield f"Send pictures as they are. {subject} with {first.condition} change its answers by {first.value:.2f}."
    elif any(finding.value is not None for finding in findings):
        yield f"{subject}: these samples do not decide which reductions are harmless. Send them as they are."
