"""What the tab "Compare results" shows of a comparison: settings, metrics, tables and items, as Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import jinja2

from ...reward import EditSample, ImageError, Score
from ..common.markdown import markdown_text, table_lines
from ..report.comparison import ItemChange, MetricComparison, ResultsComparison
from ..report.page import page_templates
from ..report.ranking_sheet import boxes_on, data_uri, evidence
from ..report.score_comparison import compare_scores
from ..run.editor_outputs import MissingOutput
from ..suites.results import ResultRow
from .comparison_tab import ComparedInputs

Order = Literal["largest change", "largest gain", "largest loss", "changed status"]
ORDERS: tuple[Order, ...] = ("largest change", "largest gain", "largest loss", "changed status")

PICTURE_SIDE = 420
MAX_SETTING = 160
"""Characters of a setting."""
MAX_WORDS = 20
"""Observations of experts that are listed for a score."""

_DECIDING = frozenset(
    {"protocol", "suite_options", "data_digest", "metrics", "metric_signatures", "experts", "prompts", "rewards"}
)
"""Settings of which a difference says that the two were measured differently."""


@dataclass(frozen=True, eq=False)
class ComparedResults:
    """A comparison with what it was made of."""

    inputs: ComparedInputs
    comparison: ResultsComparison

    @cached_property
    def rows(self) -> tuple[Mapping[str, ResultRow], Mapping[str, ResultRow]]:
        """Rows of both sides by id."""
        first, second = self.inputs.first.rows, self.inputs.second.rows
        return {row.id: row for row in first}, {row.id: row for row in second}

    @property
    def metrics(self) -> list[str]:
        return [metric.metric for metric in self.comparison.metrics]

    def metric(self, name: str | None) -> MetricComparison:
        """That of a name; the first one for an unknown name."""
        metrics = self.comparison.metrics
        return next((metric for metric in metrics if metric.metric == name), metrics[0])


def ordered_changes(metric: MetricComparison, order: str) -> list[ItemChange]:
    """Changed items in an order of `ORDERS`."""
    if order == "changed status":
        return list(metric.status_changes)
    if order == "largest gain":
        return sorted((one for one in metric.largest_changes if one.delta > 0), key=lambda one: -one.delta)
    if order == "largest loss":
        return sorted((one for one in metric.largest_changes if one.delta < 0), key=lambda one: one.delta)
    return list(metric.largest_changes)


# -- the whole ---------------------------------------------------------------------------------------------------------


def summary_text(compared: ComparedResults) -> str:
    """Who is compared, on what, and what was measured differently."""
    comparison = compared.comparison
    a, b = map(markdown_text, comparison.names)
    items = f"**{comparison.common:,} items in both**"
    if comparison.same_output:
        items += f", {comparison.same_output:,} of them with the same image"
    items += "".join(
        f"; {number:,} only in {side}" for side, number in zip("AB", comparison.unmatched, strict=True) if number
    )
    lines = [f"A: **{a}**, B: **{b}**. {items}.", _verdict(comparison)]
    deciding = sorted({name.partition(".")[0] for name in comparison.provenance} & _DECIDING)
    if deciding:
        words = ", ".join(name.replace("_", " ") for name in deciding)
        lines.append(
            f"**The two were measured differently: {words}.** A difference of the values may come from that, and not "
            "from the edits."
        )
    lines += [markdown_text(note) for note in compared.inputs.notes]
    return "\n\n".join(lines)


def _verdict(comparison: ResultsComparison) -> str:
    """Which metrics are higher and lower in B, beyond chance."""
    metrics: dict[str, list[str]] = {"higher": [], "lower": [], "": []}
    for metric in comparison.metrics:
        difference = metric.significance.value or 0.0
        verdict = ("higher" if difference > 0 else "lower") if metric.is_significant else ""
        metrics[verdict].append(markdown_text(metric.metric))
    parts = [
        f"B is **{verdict}** in {', '.join(metrics[verdict])}" for verdict in ("higher", "lower") if metrics[verdict]
    ]
    if metrics[""]:
        parts.append(f"no difference beyond chance is shown in {', '.join(metrics[''])}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def settings_text(compared: ComparedResults) -> str:
    """A table of the differing settings, without those that follow from others."""
    comparison = compared.comparison
    if not comparison.provenance:
        return "All recorded settings of both are the same."
    rows = [
        (markdown_text(name), *(_setting(value) for value in pair))
        for name, pair in comparison.provenance.items()
        if name not in comparison.following
    ]
    rest = f"\n\nand {len(comparison.following)} that follow from these" if comparison.following else ""
    return "\n".join(table_lines(("setting", "A", "B"), rows)) + rest


def _setting(value: Any) -> str:
    text = "–" if value is None else str(value)
    return markdown_text(text if len(text) <= MAX_SETTING else f"{text[: MAX_SETTING - 4]} ...")


def metrics_text(compared: ComparedResults) -> str:
    """A row for each metric: means, paired difference with its interval, and crossings of the threshold."""
    comparison = compared.comparison
    rows = []
    for metric in comparison.metrics:
        test = metric.significance
        rows.append(
            (
                markdown_text(metric.metric),
                f"{metric.both:,}",
                number_text(metric.before),
                number_text(metric.after),
                number_text(test.value, sign=True),
                interval_text(test.simultaneous_low, test.simultaneous_high),
                p_text(test.adjusted_p),
                "**yes**" if metric.is_significant else "no",
                f"{len(metric.crossed_up):,} up, {len(metric.crossed_down):,} down",
                f"{len(metric.status_changes):,}",
            )
        )
    columns = (
        *("metric", "items", "A", "B", "B − A", "95 % interval", "p", "significant"),
        *(f"crossed {comparison.threshold:g}", "status changed"),
    )
    about = (
        "Paired by item; intervals and p-values are simultaneous for all metrics of the table. Without an interval, "
        "there are too few cases, or missing values could turn the sign."
    )
    tests = [
        f"McNemar's exact test of {markdown_text(metric.metric)}: {_p_sentence(metric.mcnemar)}."
        for metric in comparison.metrics
        if metric.mcnemar is not None
    ]
    return "\n".join([*table_lines(columns, rows), "", " ".join([about, *tests])])


def leaderboard_text(compared: ComparedResults) -> str:
    """Differences of the suite's leaderboard, tested separately; empty without the suite."""
    rows = [
        (
            markdown_text(difference.column),
            number_text(difference.value, sign=True),
            interval_text(difference.simultaneous_low, difference.simultaneous_high),
            p_text(difference.adjusted_p),
            "**yes**" if difference.is_significant else "no",
        )
        for difference in compared.comparison.tables
    ]
    return "\n".join(table_lines(("column", "B − A", "95 % interval", "p", "significant"), rows)) if rows else ""


def number_text(value: float | None, *, sign: bool = False) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else f"{value:+.3f}" if sign else f"{value:.3f}"


def p_text(value: float | None) -> str:
    """Three digits, or below the smallest of them."""
    return "< 0.001" if value is not None and value < 5e-4 else number_text(value)


def _p_sentence(value: float) -> str:
    text = p_text(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def interval_text(low: float | None, high: float | None) -> str:
    """Both ends, or a dash."""
    return "–" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


# -- items -------------------------------------------------------------------------------------------------------------


def items_html(compared: ComparedResults, metric: str | None, order: str, count: int) -> str:
    """The first items of an order, each with its pictures, values and reasons; all texts are escaped."""
    one = compared.metric(metric)
    changes = ordered_changes(one, order)
    items = [_item(compared, one.metric, change) for change in changes[:count]]
    return _template().render(items=items, total=len(changes), order=order, metric=one.metric)


def _item(compared: ComparedResults, metric: str, change: ItemChange) -> dict[str, Any]:
    rows = [side[change.id] for side in compared.rows]
    scores = [row.scores.get(metric) for row in rows]
    pictures = list(_pictures(compared, change, rows, metric))
    return {
        "id": change.id,
        "instruction": change.instruction or next((sample.instruction for _, _, sample in pictures if sample), ""),
        "delta": None if change.before is None or change.after is None else f"{change.delta:+.3f}",
        "pictures": [{"caption": caption, "address": address} for caption, address, _ in pictures],
        **_reasons(compared.comparison.names, scores, rows),
    }


def _pictures(
    compared: ComparedResults, change: ItemChange, rows: Sequence[ResultRow], metric: str
) -> Iterator[tuple[str, str, EditSample | None]]:
    """Caption, address and sample of the source, and of both edits; a caption says why there is no picture."""
    edits: list[tuple[str, str, EditSample | None]] = []
    source: EditSample | None = None
    for side, (name, row, value, status) in enumerate(
        zip(compared.comparison.names, rows, (change.before, change.after), change.statuses, strict=True)
    ):
        caption = f"{'AB'[side]} {name}: {status if value is None else number_text(value)}"
        try:
            sample = compared.inputs.sample(side, change.id)
            score = row.scores.get(metric)
            boxes = boxes_on(sample.edited, sample, score) if score is not None else ()
            address = data_uri(sample.edited, boxes, side=PICTURE_SIDE)
        except (MissingOutput, ImageError, OSError) as error:
            edits.append((f"{caption}. No picture: {error}", "", None))
            continue
        source = source or sample
        if row.edited and row.edited != sample.edited.digest:
            caption += " (this picture is not the one that was scored)"
        edits.append((caption, address, sample))
    if source is not None:
        yield "source", data_uri(source.base, side=PICTURE_SIDE), source
    yield from edits


def _reasons(names: tuple[str, str], scores: Sequence[Score | None], rows: Sequence[ResultRow]) -> dict[str, Any]:
    """The sentence, the parts that differ, and what experts said, of two scores."""
    first, second = scores
    if first is None or second is None:
        missing = [
            f"{name} was not scored: {row.missing_reason or 'this metric was not computed'}"
            for name, score, row in zip(names, scores, rows, strict=True)
            if score is None
        ]
        return {"sentence": "; ".join(missing), "parts": [], "words": []}
    comparison = compare_scores(names, first, second)
    reasons = [
        f"{side} {score.reason}" for side, score in zip(("A:", "B:"), (first, second), strict=True) if score.reason
    ]
    return {
        "sentence": comparison.sentence,
        "reasons": reasons,
        "parts": [(pair.path, _value(pair.first), _value(pair.second)) for pair in comparison.differing],
        "words": [
            (side, part, item.what, item.text)
            for side, score in zip("AB", (first, second), strict=True)
            for part, item in list(evidence(score))[:MAX_WORDS]
            if item.text
        ],
    }


def _value(score: Score | None) -> str:
    return "" if score is None else score.status.replace("_", " ") if score.value is None else f"{score.value:.3f}"


@cache
def _template() -> jinja2.Template:
    return page_templates(Path(__file__).parent).get_template("comparison_items.html")
