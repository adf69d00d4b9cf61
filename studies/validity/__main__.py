"""Every installed metric compared with the ground truth of synthetic edits: `python -m studies.validity`.

    python -m studies.validity --num-cases 200 --reward edival-if --out validity.html

Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table
from rich.text import Text

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import plain_table, render
from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.reward import Image

from . import metric_selection, validity_run

_SIDE = 128  # pixels of the longer side of a thumbnail

_COLUMNS = {
    **{("followed", name): f"followed: {name}" for name in ("accuracy", "kappa", "AUC")},
    ("kept", "Spearman"): "kept: Spearman",
    ("overall", "Spearman"): "overall: Spearman",
    ("overall", "AUC"): "overall: AUC",
    **{("clean", name): f"no hack: {name}" for name in ("accuracy", "AUC")},
    ("quality", "Spearman"): "quality: Spearman",
}
"""Truth and statistic -> title."""

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; font-size: .86rem; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .5rem; text-align: left; }
article { display: inline-block; width: 24rem; margin: .5rem; vertical-align: top; font-size: .84rem; }
article img { width: 80px; image-rendering: pixelated; }
"""


def write_html(path: Path, result: validity_run.ValidityResult, command: str) -> None:
    """Write the report as one self-contained file. Raises OSError."""
    title = f"Validity of {len(result.study.metrics)} metrics on {result.edit_count} edits, {_extra_cases(result)}"
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    path.write_text("\n".join([f"{head}</head><body>", *_sections(result, command), "</body></html>"]), "utf-8")


def _sections(result: validity_run.ValidityResult, command: str) -> Iterator[str]:
    study, cases, edits = result.study, result.study.cases, result.study.cases[: result.edit_count]
    honest, hacks = sum(not case.mode for case in edits), sum(case.is_hack for case in edits)
    yield f"<h1>Validity of {len(study.metrics)} metrics</h1>"
    flawed = len(edits) - honest - hacks
    yield _paragraph(
        f"{len(edits)} edits of drawn scenes ({honest} honest, {flawed} flawed, {hacks} hacks), and "
        f"{_extra_cases(result)}, with known ground truth: scores are compared with what each edit really did. Made by "
        f"{command}."
    )
    yield _table(
        "Checks",
        ("check", "measured", "threshold", "", "details"),
        ([check.name, *_checked(check), check.note] for check in result.checks),
    )
    yield "<h2>Metrics against the truth</h2>"
    yield _paragraph(
        "followed: the instruction was carried out. kept: the preserved share of what it does not mention. overall: "
        "the geometric mean of both. no hack: the edit does not game a scorer. Accuracy and kappa are taken at 0.5; "
        "AUC is the probability that a right edit has the higher score; Spearman is the rank correlation. A dash: "
        "undefined. A metric is compared on the cases it applies to. Starred: the truth that it estimates."
    )
    yield _by_metric(
        result, ["scored", "no value", "not applicable", *_COLUMNS.values()], lambda metric: _truths(result, metric)
    )
    tasks = metric_selection.kinds(cases)
    counts = Counter(map(metric_selection.kind_of, cases))
    yield "<h2>By task type</h2>"
    yield _paragraph("Each metric against the truth it estimates. A dash: undefined. Empty: no value.")

    def of_tasks(metric: metric_selection.EvaluatedMetric) -> Iterator[str]:
        yield f"{metric.main_statistic}, {metric.truth_column}"
        for task in tasks:
            value, scored = metric_selection.of_kind(study, metric, task)
            yield _number(value) if scored else ""

    yield _by_metric(result, ["statistic", *(f"{task} ({counts[task]})" for task in tasks)], of_tasks)
    if result.verdicts:
        yield _plot(_verdicts_plot, result)
        yield _paragraph(
            "Filled: the share of correct verdicts on instruction following. Hollow: the same with perfect experts, "
            "the upper bound of the protocol's own rules."
        )
    names = metric_selection.modes(cases)
    members = {mode: [case for case in cases if metric_selection.mode_of(case) == mode] for mode in names}
    yield "<h2>By failure mode</h2>"
    yield _paragraph("Mean score, and the share of edits accepted (0.5 and above).")

    def of_modes(metric: metric_selection.EvaluatedMetric) -> Iterator[str]:
        for mode in names:
            mean, accepted = metric_selection.of_mode(study, metric, mode)
            yield ("" if mean is None else _number(mean)) + ("" if accepted is None else f" ({accepted:.0%})")

    heads = [
        f"{mode or 'honest'}{' (hack)' if members[mode][0].is_hack else ''}: {_mode(members[mode])}" for mode in names
    ]
    yield _by_metric(result, heads, of_modes)
    if result.drift:
        yield "<h2>Consistency as the background drifts</h2>" + _plot(_drift_plot, result)
    if validity_run.GUARDED[0] in study.rows:
        yield f"<h2>Values under {validity_run.GUARDED[0]}</h2>" + _plot(_hacks_plot, result)
    for hacking in result.hacking:
        rows = [(cases[hack.case], hack.value, cases[good.case], good.value) for hack, good in hacking.violations]
        yield _table(
            f"Hacks that pay under {hacking.preset}",
            ("hack", "mode", "value", "honest edit", "task", "value"),
            ([a.sample.id, a.mode, _number(v, 4), b.sample.id, b.task, _number(w, 4)] for a, v, b, w in rows),
        )
    if sweep := result.sweep:
        yield "<h2>Noise on experts</h2>"
        yield _paragraph(
            f"{sweep.cases} of the cases again, with noise on the experts' answers. Of {sweep.query_count} queries, "
            f"{sweep.uncached_count} reached the experts underneath. Metrics whose mode or pipeline resembles another "
            f"one's are skipped: {len(study.metrics) - len(sweep.metrics)} of {len(study.metrics)}."
        )
        yield _plot(_noise_plot, result)
        points = [(kind, level) for kind in validity_run.KINDS for level in validity_run.LEVELS]
        yield _table(
            "",
            ("metric", *(f"{kind} {level:g}" for kind, level in points)),
            ([m.name, *(_number(sweep.statistics[m.spec][point]) for point in points)] for m in sweep.metrics),
        )
    for verdicts in result.verdicts.values():
        yield from _disagreements(verdicts, cases)
    yield _table("Not compared", ("metric", "reason"), result.skipped.items())
    yield _paragraph(", ".join(f"{name} {seconds:.1f} s" for name, seconds in result.seconds.items()))


def _truths(result: validity_run.ValidityResult, metric: metric_selection.EvaluatedMetric) -> Iterator[str]:
    counts = result.study.statuses(metric)
    yield from map(str, (counts["scored"], counts["abstained"] + counts["failed"], counts["not_applicable"]))
    found = {
        str(truth): metric_selection.truth_agreement(result.study, metric, truth)
        for truth in metric_selection.TRUTH_COLUMNS
    }
    for truth, statistic in _COLUMNS:
        yield _number(found[truth][statistic]) + ("*" if truth == metric.truth_column else "")


def _mode(members: Sequence[Case]) -> str:
    kept = [case.truth.kept for case in members if case.truth.kept is not None]
    followed = fmean(case.truth.followed for case in members)
    return f"{len(members)} cases, followed {followed:.2f}, kept {_number(fmean(kept) if kept else None)}"


def _disagreements(verdicts: validity_run.MetricVerdicts, cases: Sequence[Case]) -> Iterator[str]:
    counts = Counter(
        (one.cause, str(cases[one.case_index].task), cases[one.case_index].mode, _verdict(one.verdict))
        for one in verdicts.disagreements
    )
    yield _table(
        f"{verdicts.metric.name}: {len(verdicts.disagreements)} wrong verdicts of {verdicts.cases}",
        ("cause", "task", "mode", "verdict", "cases"),
        ([*key, str(count)] for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
    )
    yield _paragraph("expert: right with perfect experts. rule: wrong even then. unknown: they cannot answer.")
    yield from (_card(one, cases[one.case_index]) for one in sorted(verdicts.disagreements, key=lambda one: one.cause))


def _card(one: validity_run.TruthDisagreement, case: Case) -> str:
    words = (
        f"{one.cause}: {case.sample.instruction} | {case.sample.id}; {case.task}; {case.mode or 'honest'} | truth: "
        f"{_verdict(case.truth.followed)}; verdict: {_verdict(one.verdict)}; with perfect experts: "
        f"{_verdict(one.oracle_verdict)} | {one.reason}"
    )
    return f"<article>{_thumbnail(case.sample.source)} {_thumbnail(case.sample.edited)}{_paragraph(words)}</article>"


def _verdict(value: float | None) -> str:
    return "no value" if value is None else "followed" if value >= 0.5 else "not followed"


def _extra_cases(result: validity_run.ValidityResult) -> str:
    counts = Counter(map(metric_selection.kind_of, result.study.cases))
    return f"{counts['compound']} compounds of up to eight steps, {counts['composition']} compositions of two sources"


def _checked(check: validity_run.ReleaseCheck) -> tuple[str, str, str]:
    sign = "<=" if check.is_upper_bound else ">="
    return _number(check.measured, 4), f"{sign} {check.threshold:g}", "passed" if check.passed else "failed"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


# -- HTML -------------------------------------------------------------------------------------------------------------


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """With its title; nothing without rows."""
    lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    if not lines:
        return ""
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<h2>{html.escape(title)}</h2><table><tr>{heads}</tr>\n{body}</table>"


def _by_metric(
    result: validity_run.ValidityResult,
    head: Sequence[str],
    cells: Callable[[metric_selection.EvaluatedMetric], Iterable[str]],
) -> str:
    rows: list[list[str]] = []
    for system, members in metric_selection.metrics_by_system(result.study.metrics).items():
        rows += [[system.upper()], *([metric.name, *cells(metric)] for metric in members)]
    return _table("", ("metric", *head), rows)


def _thumbnail(image: Image) -> str:
    small = image.pil()
    small.thumbnail((_SIDE, _SIDE))
    encoded = io.BytesIO()
    small.save(encoded, "JPEG", quality=85, subsampling=0)
    return f'<img src="data:image/jpeg;base64,{base64.b64encode(encoded.getvalue()).decode("ascii")}">'


def _plot(draw: Callable[[Any, validity_run.ValidityResult], Any], result: validity_run.ValidityResult) -> str:
    """draw: of pyplot and the result, a figure."""
    pyplot, encoded = bench_library("matplotlib.pyplot"), io.BytesIO()
    figure = draw(pyplot, result)
    figure.savefig(encoded, dpi=110)
    pyplot.close(figure)
    return f'<img src="data:image/png;base64,{base64.b64encode(encoded.getvalue()).decode("ascii")}">'


# -- plots ------------------------------------------------------------------------------------------------------------


def _noise_plot(pyplot: Any, result: validity_run.ValidityResult) -> Any:
    """The main statistic of one metric of each system against noise, a panel for each kind."""
    assert result.sweep is not None
    figure, panels = pyplot.subplots(2, 2, figsize=(8.4, 6.2), sharex=True, sharey=True, layout="constrained")
    for kind, axes in zip(validity_run.KINDS, panels.flat, strict=True):
        for members in metric_selection.metrics_by_system(result.sweep.metrics).values():
            metric = max(members, key=lambda metric: len(metric.card.roles))
            points = [(level, result.sweep.statistics[metric.spec][kind, level]) for level in validity_run.LEVELS]
            defined = [(level, value) for level, value in points if value is not None]
            if defined:
                axes.plot(*zip(*defined, strict=True), marker="o", label=metric.name)
        axes.set_title(kind)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _drift_plot(pyplot: Any, result: validity_run.ValidityResult) -> Any:
    """Consistency against background drift: a thin line for each series, and their mean."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    by_level: dict[float, list[float]] = {}
    for points in result.drift:
        if points:
            axes.plot(*zip(*sorted(points), strict=True), color="C0", lw=0.9, alpha=0.5)
        for severity, value in points:
            by_level.setdefault(severity, []).append(value)
    levels = sorted(by_level)
    axes.plot(levels, [fmean(by_level[level]) for level in levels], color="C1", marker="o", label="mean")
    axes.set(xlabel="background drift", ylabel="edival-cc fixed")
    return figure


def _hacks_plot(pyplot: Any, result: validity_run.ValidityResult) -> Any:
    """Cumulative distribution of the guarded value: honest edits, flawed ones, and hacks."""
    edits = result.study.first(result.edit_count)
    values: dict[str, list[float]] = {"hacks": [], "flawed": [], "honest": []}
    for row, case in zip(edits.rows[validity_run.GUARDED[0]], edits.cases, strict=True):
        if row.value is not None:
            values["hacks" if case.is_hack else "flawed" if case.mode else "honest"].append(row.value)
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for name, some in values.items():
        if some:
            axes.ecdf(some, label=name)
    axes.set(xlabel=validity_run.GUARDED[0], ylabel="cumulative share of edits")
    axes.legend()
    return figure


def _verdicts_plot(pyplot: Any, result: validity_run.ValidityResult) -> Any:
    """Agreement with the truth by task type: the paper's protocol and the released code's, and with perfect experts."""
    cases = result.study.cases[: result.edit_count]
    tasks = sorted({case.task for case in cases}, reverse=True)
    figure, axes = pyplot.subplots(figsize=(6.4, 0.42 * len(tasks) + 1.3), layout="constrained")
    for spec, verdicts in result.verdicts.items():
        colour, up = ("C0", 0.14) if spec == validity_run.PAPER else ("C1", -0.14)
        for causes, filled in ((("expert", "rule", "unknown"), True), (("rule",), False)):
            wrong = Counter(cases[one.case_index].task for one in verdicts.disagreements if one.cause in causes)
            totals = Counter(case.task for case in cases)
            shares = [1 - wrong[task] / totals[task] for task in tasks]
            places = [row + up for row in range(len(tasks))]
            label = verdicts.metric.name if filled else None
            axes.plot(shares, places, "o", color=colour, mfc=None if filled else "none", label=label)
    axes.set_yticks(range(len(tasks)), tasks)
    axes.set(xlabel="share of correct verdicts")
    axes.legend()
    return figure


# -- the terminal -----------------------------------------------------------------------------------------------------


def terminal_tables(result: validity_run.ValidityResult) -> list[Table]:
    """Tables of metrics and checks for the terminal."""
    numbers = ("", "scored", "no value", "not applicable")
    columns = ("metric", "truth", "statistic", *numbers)
    title = f"Metrics on {result.edit_count} edits, {_extra_cases(result)}"
    metrics = plain_table(title, *columns, right=numbers, fixed=columns)
    for system, members in metric_selection.metrics_by_system(result.study.metrics).items():
        metrics.add_row(Text(system, style="bold"))
        for metric in members:
            value = _number(result.study.main_statistic(metric), 3)
            counts = list(_truths(result, metric))[:3]
            metrics.add_row(f"  {metric.name}", metric.truth_column, metric.main_statistic, value, *counts)
    checks = plain_table("\nChecks", "check", "measured", "threshold", "", "details")
    for check in result.checks:
        checks.add_row(check.name, *_checked(check), check.note)
    return [metrics, checks]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.validity", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num-cases", type=int, default=2000, help="edits with known ground truth, 8 or more")
    parser.add_argument("--seed", type=int, default=0, help="of scenes, pairs and noise")
    parser.add_argument("--image-size", type=int, default=64, help="side in pixels, 32 or more")
    parser.add_argument("--out", type=Path, default=Path("validity.html"), help="report file (HTML)")
    parser.add_argument("--reward", action="append", default=[], help="only this reward; repeatable (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="worker processes for experts")
    parser.add_argument("--no-noise-sweep", action="store_true", help="leave out the comparison with noisy experts")
    options = parser.parse_args(arguments)
    for library in ("scipy.stats", "matplotlib"):
        bench_library(library)  # what is missing is told before the work
    options.out.touch()
    result = validity_run.run(
        options.num_cases,
        options.seed,
        size=options.image_size,
        specs=options.reward,
        noise=not options.no_noise_sweep,
        processes=options.processes,
    )
    given = sys.argv[1:] if arguments is None else arguments
    write_html(options.out, result, shlex.join(["python", "-m", "studies.validity", *given]))
    for table in terminal_tables(result):
        render(table)
    print(f"\nthe report is {options.out}")
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
