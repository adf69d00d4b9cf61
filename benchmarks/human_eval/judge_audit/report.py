"""The report of an audit, in Markdown and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from ....reward.plain_text import one_line
from ...common.markdown import markdown_text, table_lines
from .findings import Finding, JudgeAudit
from .session import Cost

_FINDING_COLUMNS = ("fault", "condition", "measure", "value (95 %)", "found", "samples")
_COST_COLUMNS = ("asked", "tokens", "USD", "seconds")
_UNKNOWN = "unknown"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Audit of {{ title }}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}th,td{padding:.3rem .7rem;border-bottom:1px solid #ccc;text-align:left}
td{font-variant-numeric:tabular-nums}tr.found td{background:#fdebd8}</style></head><body>
<h1>Audit of {{ title }}</h1>
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


def table(audit: JudgeAudit) -> Table:
    """What was found and what it cost, which stands in the first row of a fault. Costs that are unknown of all faults
    have no column.
    """
    costs = dict(audit.costs)
    rows = []
    for finding in audit.findings:
        cost = costs.pop(finding.fault, None)
        rows.append([*_finding_cells(finding), *(_cost_cells(cost) if cost else [""] * len(_COST_COLUMNS))])
    blank = [""] * (len(_FINDING_COLUMNS) - 1)
    rows += [[fault, *blank, *_cost_cells(cost)] for fault, cost in costs.items()]
    rows.append(["all", *blank, *_cost_cells(_total_cost(audit))])
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


def _total_cost(audit: JudgeAudit) -> Cost:
    """The cost of all faults."""
    costs = list(audit.costs.values())
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


def facts(audit: JudgeAudit) -> Iterator[str]:
    """What was audited, and what was not answered."""
    yield f"{audit.samples} samples of {audit.sources} sources. Draws, pictures and words: {audit.question}."
    scores = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in audit.replies.items())
    yield f"Scores: {scores or 'none'}. Those without a value are left out of every figure."
    reasons = dict.fromkeys(finding.reason for finding in audit.findings if finding.missing and finding.reason)
    for reason in list(reasons)[:3]:
        yield f"Missing: {one_line(reason)[:300]}"
    if audit.exhausted:
        yield f"It ended early: {audit.exhausted}."


def notes(audit: JudgeAudit) -> Iterator[str]:
    """How to read the table."""
    yield (
        "Values are shares of the score's range; 0 is a judge without the fault. Intervals: bootstrap over sources. "
        "Found: the interval for all faults together excludes 0, so that a judge without faults is accused of any in "
        "5 % of audits at most; or, for repeated answers and readings, any difference."
    )
    yield (
        "Asked: questions for a fault, under all of its conditions, that were not answered before, for another fault "
        "or in the answer log."
    )
    for name, value in audit.reliability.items():
        if value is not None:
            yield f"Reliability of one answer ({name}): {value:.2f}."


def markdown(audit: JudgeAudit) -> str:
    """The report in Markdown."""
    lines = [f"# Audit of {markdown_text(audit.judge)}", "", *(f"{markdown_text(line)}\n" for line in facts(audit))]
    findings = table(audit)
    lines += table_lines(findings.columns, ([markdown_text(cell) for cell in cells] for cells in findings.rows))
    lines += ["", "## What to do", "", *(f"- {line}" for line in audit.recommendations)]
    lines += ["", *(f"{line}\n" for line in notes(audit))]
    return "\n".join(lines).rstrip() + "\n"


def html(audit: JudgeAudit) -> str:
    """The report as a page without scripts or links."""
    import jinja2

    findings = table(audit)
    found = [bool(finding.found) for finding in audit.findings]
    template = jinja2.Environment(autoescape=True).from_string(_PAGE)
    return template.render(
        title=one_line(audit.judge),
        facts=list(facts(audit)),
        columns=findings.columns,
        rows=list(zip_longest(found, findings.rows, fillvalue=False)),
        advice=audit.recommendations,
        notes=list(notes(audit)),
    )
