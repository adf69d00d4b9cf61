"""The Markdown of a check, from its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_COLUMNS = ("batch", "a second", "passes", "tokens a second", "TFLOP/s", "share of peak", "peak GiB")

_OF_THROUGHPUT = """\
Random weights; pictures of 512 px, each new. The peak is that of a product of two large matrices in the same \
precision on this device. Tokens are those that the judge's language model reads in all passes of a batch. They are \
more than with trained weights and a published tokenizer: words are spelled, and every spelling of an answer is \
likely, so that a second pass reads them."""
_OF_SHARING = """\
`any-edit` on edits of one source. One by one: a question a call, an edit after the other, nothing cached, as released \
code of papers does. Both score alike. Roles without a model cost nothing here."""


def markdown(report: Mapping[str, Any]) -> str:
    """What was measured, by section; what went wrong; what was left out."""
    sections: Mapping[str, Any] = report["sections"]
    measured = {name: section["figures"] for name, section in sections.items() if "figures" in section}
    parts = [
        "# GPU check",
        _table(("", ""), [(name, value) for name, value in {**report["machine"], "commit": report["commit"]}.items()]),
    ]
    if report["tiny"]:
        parts.append("**Tiny shapes**: this shows that the check runs. Its figures say nothing of models or devices.")
    if rows := [row for figures in measured.values() for row in _throughput(figures)]:
        head = ("bundle", "role", "precision", "peak TFLOP/s", *_COLUMNS)
        parts += ["## Throughput", _table(head, rows), _OF_THROUGHPUT]
    if rows := [row for figures in measured.values() for row in _sharing(figures)]:
        columns = ("bundle", "edits", "role", "questions", "seconds, one by one", "seconds, engine", "ratio")
        parts += ["## One by one, and in the engine", _table(columns, rows), _OF_SHARING]
    for figures in measured.values():
        if "passed" in figures:
            counts = ", ".join(f"{figures[name]} {name}" for name in ("passed", "failed", "skipped"))
            parts += [f"## The experts' tests on {figures['device']}", f"{counts}, of {figures['files']} files."]
            parts += ["\n".join(f"- `{test}`: {reason}" for test, reason in figures["failures"].items())]
    if problems := {name: section["problem"] for name, section in sections.items() if "problem" in section}:
        parts += ["## Without figures", *(f"- {name}: {problem}" for name, problem in problems.items())]
    return "\n\n".join(filter(None, parts)) + "\n"


def _throughput(figures: Any) -> Iterable[Sequence[object]]:
    for role in ("judge", "detector", "features"):
        if isinstance(figures, dict) and role in figures:
            model = figures[role]
            for row in model["rows"]:
                cells = [f"{row[name]:.1%}" if name.startswith("share") else row.get(name, "") for name in _COLUMNS]
                yield (figures["shapes"], role, model["dtype"], model["peak TFLOP/s"], *cells)


def _sharing(figures: Any) -> Iterable[Sequence[object]]:
    for pattern in figures if isinstance(figures, list) else ():
        one_by_one, engine = pattern["released"], pattern["ours"]
        head = (pattern["shapes"], pattern["samples"])
        for role in pattern["distinct"]:
            before, after = one_by_one["seconds_by_role"][role], engine["seconds_by_role"][role]
            questions = f"{one_by_one['queries'][role]}, {engine['queries'][role]}"
            yield (*head, role, questions, before, after, before / after)
        yield (*head, "end to end", "", one_by_one["seconds"], engine["seconds"], pattern["ratio"])


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
