"""The faults of a judge: all probes on the same samples, each with its cost; its advice and its report."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

from ....reward import AnswerLog, EditSample, Engine, Expert, Reward
from ....reward.plain_text import one_line
from ....reward.queries.expert import expert_of_role
from ...common.errors import InputError
from ...common.markdown import markdown_text, table_lines
from ...run.run_budget import BudgetLimits
from .findings import Condition, Finding, JudgeFaults, findings_of, reliability
from .probes import GRADES, GRADES_REWORDED, OF_JUDGE, Tables, probes
from .questions import EXPECTED, PLAIN, WORD, Cost, Session

if TYPE_CHECKING:
    from collections.abc import Iterable


TARGET_RELIABILITY = 0.9  # of the mean of several draws: a tenth of its variance is noise
MAX_DRAWS = 32  # more are not recommended: another judge is cheaper
HARMLESS = 0.1  # a change of the answer that a smaller picture may cost at most, with 95 % confidence


def draws_for(reliability: float) -> int | None:
    """How many draws have a mean of `TARGET_RELIABILITY` (Spearman-Brown); None above `MAX_DRAWS`."""
    if reliability <= 0:
        return None
    target = TARGET_RELIABILITY
    count = max(1, math.ceil(target / (1 - target) * (1 - reliability) / reliability - 1e-9))
    return count if count <= MAX_DRAWS else None


def recommendations(result: JudgeFaults) -> Iterator[str]:
    """Advice from the findings; nothing about what was not measured."""
    yield from _draws(result)
    yield from _reading(result)
    yield from _pictures(result, "size", "Pictures", "larger ones cost tokens for nothing")
    yield from _pictures(result, "jpeg", "JPEG", "lossless pictures are not needed")
    yield from (advice for fault, advice in _ADVICE.items() if fault in result.found)


_ADVICE = {
    "position": "Compare edits in both orders, as `pairwise-judge` does; a single order favours one position.",
    "order": "Show the source first and the edit second: it does not follow words that say otherwise.",
    "yes-bias": "Ask yes/no questions in both phrasings and average the answer with one minus that to the negation, or "
    "compare scores only among themselves: the threshold of 0.5 is off.",
    "wording": "Never compare its scores across prompts; to publish one, name the prompt pack, or average over "
    "several.",
    "picture-words": "It obeys words painted into a picture: put `guard-prompt-injection` before it.",
    "instruction-words": "It obeys words in an instruction: let it judge instructions that you wrote, and no others.",
}
"""What to do about a fault that is found."""


def _draws(result: JudgeFaults) -> Iterator[str]:
    for finding in result.of("draws"):
        if finding.found:
            yield (
                f"It does not repeat its answers ({finding.value:.3f} of the range on average): keep them in an answer "
                "log, and report intervals."
            )
    for finding in result.of("grade-draws"):
        reliability = result.reliability.get(f"{GRADES}, {WORD}")
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


def _reading(result: JudgeFaults) -> Iterator[str]:
    words = result.reliability.get(f"{GRADES_REWORDED}, {WORD}")
    expected = result.reliability.get(f"{GRADES_REWORDED}, {EXPECTED}")
    findings = result.of("readings")
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


def _pictures(result: JudgeFaults, fault: str, subject: str, gain: str) -> Iterator[str]:
    """The strongest reduction up to which none is harmful; findings come from the weakest on."""
    findings = result.of(fault)
    harmless = [*takewhile(lambda one: one.found is False and one.high is not None and one.high <= HARMLESS, findings)]
    if harmless:
        last = harmless[-1]
        yield f"{subject} with {last.condition} change its answers by {last.high:.2f} at most: {gain}."
    elif any(finding.found for finding in findings):
        first = next(finding for finding in findings if finding.found)
        yield f"Send pictures as they are. {subject} with {first.condition} change its answers by {first.value:.2f}."
    elif any(finding.value is not None for finding in findings):
        yield f"{subject}: these samples do not decide which reductions are harmless. Send them as they are."


_FINDING_COLUMNS = ("fault", "condition", "measure", "value (95 %)", "found", "samples")
_COST_COLUMNS = ("asked", "tokens", "USD", "seconds")
_UNKNOWN = "unknown"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Faults of {{ title }}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.3rem .7rem;border-bottom:1px solid #ccc;text-align:left}
td{font-variant-numeric:tabular-nums}tr.found td{background:#fdebd8}</style></head><body>
<h1>Faults of {{ title }}</h1>
{% for line in facts %}<p>{{ line }}</p>{% endfor %}
<table><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for found, cells in rows %}<tr{% if found %} class="found"{% endif %}>
{%- for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
<h2>What to do</h2><ul>{% for line in advice %}<li>{{ line }}</li>{% endfor %}</ul>
{% for line in notes %}<p>{{ line }}</p>{% endfor %}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A row for each finding, then those of faults without any, and one for all faults; cells are texts."""

    columns: tuple[str, ...]
    rows: list[list[str]]


def table(result: JudgeFaults) -> Table:
    """What was found and what it cost, which stands in the first row of a fault. Costs that are unknown of all faults
    have no column."""
    costs = dict(result.costs)
    rows = []
    for finding in result.findings:
        cost = costs.pop(finding.fault, None)
        rows.append([*_finding_cells(finding), *(_cost_cells(cost) if cost else [""] * len(_COST_COLUMNS))])
    blank = [""] * (len(_FINDING_COLUMNS) - 1)
    rows += [[fault, *blank, *_cost_cells(cost)] for fault, cost in costs.items()]
    rows.append(["all", *blank, *_cost_cells(_total_cost(result))])
    names = _FINDING_COLUMNS + _COST_COLUMNS
    known = [number for number, cell in enumerate(rows[-1]) if cell != _UNKNOWN]
    return Table(tuple(names[number] for number in known), [[cells[number] for number in known] for cells in rows])


def _finding_cells(finding: Finding) -> list[str]:
    value = "none" if finding.value is None else f"{finding.value:+.2f}"
    if finding.low is not None and finding.high is not None:
        value += f" ({finding.low:+.2f} to {finding.high:+.2f})"
    found = _UNKNOWN if finding.found is None else "yes" if finding.found else "no"
    samples = f"{finding.samples:,}" + (f", {finding.missing:,} missing" if finding.missing else "")
    return [finding.fault, finding.condition, finding.measure, value, found, samples]


def _cost_cells(cost: Cost) -> list[str]:
    tokens = _UNKNOWN if cost.tokens is None else f"{cost.tokens:,}"
    usd = _UNKNOWN if cost.usd is None else f"{cost.usd:.4f}"
    return [f"{cost.calls:,}", tokens, usd, f"{cost.seconds:.1f}"]


def _total_cost(result: JudgeFaults) -> Cost:
    costs = list(result.costs.values())
    tokens = [cost.tokens for cost in costs if cost.tokens is not None]
    usd = [cost.usd for cost in costs if cost.usd is not None]
    return Cost(
        sum(cost.questions for cost in costs),
        sum(cost.calls for cost in costs),
        sum(cost.judge_calls for cost in costs),
        sum(tokens) if tokens else None,
        sum(usd) if usd else None,
        sum(cost.seconds for cost in costs),
    )


def facts(result: JudgeFaults) -> Iterator[str]:
    """What was measured, and what was not answered."""
    yield f"{result.samples} samples of {result.sources} sources. Draws, pictures and words: {result.question}."
    scores = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in result.replies.items())
    yield f"Scores: {scores or 'none'}. Those without a value are left out of every figure."
    reasons = dict.fromkeys(finding.reason for finding in result.findings if finding.missing and finding.reason)
    for reason in list(reasons)[:3]:
        yield f"Missing: {one_line(reason)[:300]}"
    if result.exhausted:
        yield f"It ended early: {result.exhausted}."


def notes(result: JudgeFaults) -> Iterator[str]:
    """How to read the table."""
    yield (
        "Values are shares of the score's range; 0 is a judge without the fault. Intervals: bootstrap over sources. "
        "Found: the interval for all faults together excludes 0, so that a judge without faults is accused of any in "
        "5 % of measurements at most; or, for repeated answers and readings, any difference."
    )
    yield (
        "Asked: questions for a fault, under all of its conditions, that were not answered before, for another fault "
        "or in the answer log."
    )
    for name, value in result.reliability.items():
        if value is not None:
            yield f"Reliability of one answer ({name}): {value:.2f}."


def markdown(result: JudgeFaults) -> str:
    """The report in Markdown."""
    lines = [f"# Faults of {markdown_text(result.judge)}", "", *(f"{markdown_text(line)}\n" for line in facts(result))]
    findings = table(result)
    lines += table_lines(findings.columns, ([markdown_text(cell) for cell in cells] for cells in findings.rows))
    lines += ["", "## What to do", "", *(f"- {line}" for line in result.recommendations)]
    lines += ["", *(f"{line}\n" for line in notes(result))]
    return "\n".join(lines).rstrip() + "\n"


def html(result: JudgeFaults) -> str:
    """The report as a page without scripts or links."""
    import jinja2

    findings = table(result)
    found = [bool(finding.found) for finding in result.findings]
    template = jinja2.Environment(autoescape=True).from_string(_PAGE)
    return template.render(
        title=one_line(result.judge),
        facts=list(facts(result)),
        columns=findings.columns,
        rows=list(zip_longest(found, findings.rows, fillvalue=False)),
        advice=result.recommendations,
        notes=list(notes(result)),
    )


SCALES = (0.5, 0.25)  # of the sides of pictures, from the mildest on
QUALITIES = (75, 30)  # of JPEG, from the mildest on
REPEATS = 4  # how often the plain question, and a sampled grade, is asked
FAULTS = tuple(probes(SCALES, QUALITIES))


def measure_faults(
    judge: Expert | Reward,
    samples: Sequence[EditSample],
    *,
    faults: Collection[str] | None = None,
    repeats: int = REPEATS,
    scales: Sequence[float] = SCALES,
    qualities: Sequence[int] = QUALITIES,
    limits: BudgetLimits | None = None,
    log: AnswerLog | None = None,
    step: Callable[[], None] = lambda: None,
) -> JudgeFaults:
    """Measure the faults of a judge on edits. No label is needed: each fault is a question answered in two ways. judge:
    an expert for `Judge` queries; or a reward, whose draws, picture sizes and obedience are measured on its own score,
    and the other faults on its judge, if it has one. samples: edits, of several sources; better two or more of each.
    faults: some of `FAULTS`; by default all that can be measured. repeats: of the plain question. scales, qualities:
    reductions of pictures, from the mildest on. limits: what may be asked; beyond, answers are failures, and none is a
    number. log: keeps answers, so that what was interrupted asks nothing again. step: called after each fault. Raises
    `InputError` for no samples, unknown faults, and a reward without a bounded range or whose fields the samples
    lack."""
    asked = selected_faults(faults)
    _check(samples, repeats, scales, qualities)
    if isinstance(judge, Reward):
        metric, experts = judge.metric, dict(judge.experts)
        if None in metric.card.range:
            raise InputError(
                f"{metric.card.name} has no bounded range, so that the size of a change means nothing: give a reward "
                "with one"
            )
        if lacking := sorted({name for sample in samples for name in judge.missing_fields(sample)}):
            raise InputError(f"{metric.card.name} needs {', '.join(lacking)}, which the samples do not all have")
        role = next((role for role in judge.card.roles if role.partition(".")[0] == "judge"), None)
        bound = None if role is None else expert_of_role(judge.experts, role)
        if bound is not None:
            experts["judge"] = bound
        elif faults is None:
            asked = tuple(fault for fault in asked if fault not in OF_JUDGE)
        elif missing := sorted(OF_JUDGE & set(asked)):
            raise InputError(f"{metric.card.name} asks no judge, and {', '.join(missing)} is a fault of judges")
        subject, question = metric.card.name if bound is None else bound.id, metric.card.name
    else:
        metric, experts = PLAIN, {"judge": judge}
        subject, question = judge.id, "the yes/no question of judge-yes-no"
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(log=log))
        session = Session(samples, experts, engine, metric=metric, repeats=repeats, limits=limits)
        tables = Tables()
        conditions: list[Condition] = []
        for fault in asked:
            with session.costs_of(fault):
                conditions += probes(scales, qualities)[fault](session, tables)
            step()
    reliabilities = {
        f"{name}, {reading}": reliability(rows)
        for name, readings in tables.rows.items()
        for reading, rows in readings.items()
    }
    counts = (len(session.samples), len(set(session.sources)))
    replies = dict(sorted(session.replies.items()))
    findings, costs, exhausted = findings_of(conditions), session.costs, session.exhausted
    result = JudgeFaults(subject, question, *counts, findings, costs, reliabilities, replies, exhausted)
    return replace(result, recommendations=tuple(recommendations(result)))


def selected_faults(faults: Collection[str] | None) -> tuple[str, ...]:
    """These faults in the order of the table; all without any. Raises `InputError` for an unknown one."""
    if unknown := sorted(set(faults or ()) - set(FAULTS)):
        raise InputError(f"there is no fault {unknown[0]!r} to measure: it is one of {', '.join(FAULTS)}")
    return tuple(fault for fault in FAULTS if not faults or fault in faults)


def choose(samples: Iterable[EditSample], limit: int, seed: int = 0) -> list[EditSample]:
    """At most `limit` samples of as many sources as possible, two of each where there are two: for comparisons."""
    groups: dict[tuple[str, ...], list[EditSample]] = {}
    for sample in samples:
        groups.setdefault((sample.instruction, *(image.digest for image in sample.sources)), []).append(sample)
    rng = random.Random(seed)
    order = list(groups.values())
    rng.shuffle(order)
    for group in order:
        rng.shuffle(group)
    rounds = [sample for group in order for sample in group[:2]]
    rest = [sample for group in order for sample in group[2:]]
    return [*rounds, *rest][:limit]


def _check(samples: Sequence[EditSample], repeats: int, scales: Sequence[float], qualities: Sequence[int]) -> None:
    if not samples:
        raise InputError("a measurement needs samples, got none: give 30 or more edits, of several sources")
    if repeats < 2:
        raise InputError(f"a measurement asks the plain question 2 or more times, got {repeats}")
    if wrong := [scale for scale in scales if not 0 < scale < 1]:
        raise InputError(f"a scale of pictures is between 0 and 1, got {wrong[0]:g}")
    if wrong_quality := [quality for quality in qualities if not 1 <= quality <= 95]:
        raise InputError(f"a quality of JPEG is 1 to 95, got {wrong_quality[0]}")
