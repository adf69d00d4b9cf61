"""The report of an audit, in Markdown and as a page."""

from __future__ import annotations

from collections.abc import Iterator

from ....reward.plain_text import one_line
from .findings import Finding, JudgeAudit
from .session import Cost

COLUMNS = ("fault", "condition", "measure", "value", "95 % interval", "found", "samples", "missing")
COST_COLUMNS = ("fault", "questions", "asked", "tokens", "USD", "seconds")

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
<h2>What it took</h2>
<table><tr>{% for name in cost_columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for cells in costs %}<tr>{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table>
{% for line in notes %}<p>{{ line }}</p>{% endfor %}
</body></html>
"""


def finding_cells(finding: Finding) -> list[str]:
    """The cells of a row, in the order of `COLUMNS`."""
    value = "none" if finding.value is None else f"{finding.value:+.3f}"
    interval = "" if finding.low is None or finding.high is None else f"{finding.low:+.3f} to {finding.high:+.3f}"
    found = "unknown" if finding.found is None else "yes" if finding.found else "no"
    count = str(finding.samples)
    return [finding.fault, finding.condition, finding.measure, value, interval, found, count, str(finding.missing)]


def cost_cells(fault: str, cost: Cost) -> list[str]:
    """The cells of a row, in the order of `COST_COLUMNS`."""
    tokens = "unknown" if cost.tokens is None else f"{cost.tokens:,}"
    usd = "unknown" if cost.usd is None else f"{cost.usd:.4f}"
    return [fault, f"{cost.questions:,}", f"{cost.calls:,}", tokens, usd, f"{cost.seconds:.1f}"]


def total_cost(audit: JudgeAudit) -> Cost:
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
    yield "Questions: asked for a fault; asked: of these, those not answered before, in this audit or its answer log."
    for name, value in audit.reliability.items():
        if value is not None:
            yield f"Reliability of one answer ({name}): {value:.2f}."


def markdown(audit: JudgeAudit) -> str:
    """The report in Markdown."""
    lines = [f"# Audit of {_cell(audit.judge)}", "", *(f"{line}\n" for line in facts(audit))]
    lines += _table(COLUMNS, [finding_cells(finding) for finding in audit.findings])
    lines += ["", "## What to do", "", *(f"- {line}" for line in audit.recommendations)]
    lines += ["", "## What it took", "", *_table(COST_COLUMNS, _cost_rows(audit)), ""]
    lines += [f"{line}\n" for line in notes(audit)]
    return "\n".join(lines).rstrip() + "\n"


def html(audit: JudgeAudit) -> str:
    """The report as a page without scripts or links."""
    import jinja2

    template = jinja2.Environment(autoescape=True).from_string(_PAGE)
    return template.render(
        title=one_line(audit.judge),
        facts=list(facts(audit)),
        columns=COLUMNS,
        rows=[(bool(finding.found), finding_cells(finding)) for finding in audit.findings],
        advice=audit.recommendations,
        cost_columns=COST_COLUMNS,
        costs=_cost_rows(audit),
        notes=list(notes(audit)),
    )


def _cost_rows(audit: JudgeAudit) -> list[list[str]]:
    return [
        *(cost_cells(fault, cost) for fault, cost in audit.costs.items()),
        cost_cells("all", total_cost(audit)),
    ]


def _table(columns: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines]


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
