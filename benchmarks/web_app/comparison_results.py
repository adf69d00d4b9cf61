"""What the tab "Compare" is given, and what it shows of it: settings, metrics, tables and items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ...reward import EditSample, ImageError, Score
from ...reward.score import SCHEMA
from ..common.errors import InputError
from ..common.inputs import SampleSource
from ..common.markdown import markdown_text, table_lines
from ..report.comparison import ItemChange, MetricComparison, ResultsComparison, interval_text, number_text
from ..report.ranking_sheet import boxes_on, data_uri, evidence
from ..report.results_loading import load_result_folders
from ..report.score_comparison import compare_scores
from ..run.editor_outputs import MissingOutput
from ..suites.results import ResultRow, Results, parsed_lines, require_schema
from ..suites.suite import Suite
from .open_files import OpenFiles, ResultPictures
from .question_view import templates

FindSample = Callable[[int, str], EditSample]
"""Side (0 or 1) and id of an item -> its sample. Raises `MissingOutput`."""


@dataclass(frozen=True)
class ComparedInputs:
    """Two results with the same kind of rows. notes: what could not be opened beside them, for the reader."""

    first: Results
    second: Results
    suite: Suite | None
    sample: FindSample
    notes: tuple[str, ...]


def open_inputs(
    files: OpenFiles, names: tuple[str | None, str | None], uploads: tuple[str | None, str | None], pictures: str | None
) -> ComparedInputs:
    """names: of what may be opened; an uploaded score file takes its place. pictures: name of the samples of score
    files; without one, samples that lie beside them. Raises `InputError` for what cannot be opened, and for two without
    a common metric."""
    inputs = _opened(files, names, uploads, pictures)
    metrics = [
        {metric: None for row in results.rows for metric in row.scores} for results in (inputs.first, inputs.second)
    ]
    if metrics[0].keys().isdisjoint(metrics[1]):
        a, b = (", ".join(names) or "none" for names in metrics)
        raise InputError(f"the two have no metric in common: A has {a}; B has {b}")
    return inputs


def _opened(
    files: OpenFiles, names: tuple[str | None, str | None], uploads: tuple[str | None, str | None], pictures: str | None
) -> ComparedInputs:
    folders = set(files.names("results"))
    is_folder = [not upload and name in folders for name, upload in zip(names, uploads, strict=True)]
    if all(is_folder):
        if names[0] == names[1]:
            raise InputError("A and B are the same results: choose two")
        loaded = [one for name in names for one in load_result_folders([files.path("results", name)])[:1]]
        first, second = (one.results for one in loaded)
        suites = [results.provenance.get("suite") for results in (first, second)]
        if suites[0] != suites[1]:
            raise InputError(f"the results are of different suites: {suites[0]} and {suites[1]}")
        found = ResultPictures.find(files, loaded)
        return ComparedInputs(first, second, found.suite, found.sample, found.notes)
    if any(is_folder):
        raise InputError("one is a result folder, the other a score file: choose two of one kind")
    paths = [_score_path(files, name, upload, side) for name, upload, side in zip(names, uploads, "AB", strict=True)]
    named = [path.name if upload else name or "" for path, name, upload in zip(paths, names, uploads, strict=True)]
    if paths[0] == paths[1]:
        raise InputError("A and B are the same file: choose two")
    titles = (named[0], named[1]) if named[0] != named[1] else (f"{named[0]} (A)", f"{named[1]} (B)")
    first, second = (score_results(path, title) for path, title in zip(paths, titles, strict=True))
    samples = _samples(files, pictures, [path for path, upload in zip(paths, uploads, strict=True) if not upload])

    def sample(side: int, item: str) -> EditSample:
        if item not in samples:
            raise MissingOutput("its picture is not known: choose the samples that were scored")
        return samples[item]

    return ComparedInputs(first, second, None, sample, ())


def _score_path(files: OpenFiles, name: str | None, upload: str | None, side: str) -> Path:
    if upload:
        return Path(upload)
    if not name:
        raise InputError(f"{side} is not chosen: pick it from the list, or drop a score file")
    return files.path("scores", name)


def score_results(path: Path, title: str) -> Results:
    """A score file as results: a case an edit; the signatures of metrics and reward are its provenance. Raises
    `InputError` for an invalid line, and for two scores of one metric for an id."""
    rows: dict[str, dict[str, Score]] = {}
    signatures: dict[str, str] = {}
    rewards: dict[str, None] = {}
    try:
        for name, reward, score in parsed_lines(path, "a line of a scores file", _score_line):
            metric = score.metric.partition("@")[0] or "score"
            if metric in rows.setdefault(name, {}):
                raise InputError(f"{title} has two scores of {metric} for {name!r:.100}: expected one per edit")
            rows[name][metric] = score
            signatures.setdefault(metric, score.metric)
            rewards.setdefault(reward)
    except OSError as error:
        raise InputError(f"{title} cannot be read: {error.strerror}") from None
    if not rows:
        raise InputError(f"{title} has no scores: give a file of `editcritic score -o`")
    provenance = {"metric_signatures": signatures, "rewards": ", ".join(rewards)}
    return Results(title, [ResultRow(name, name, {}, scores) for name, scores in rows.items()], provenance)


def _score_line(data: Any) -> tuple[str, str, Score]:
    require_schema(data, SCHEMA)
    return str(data["id"]), str(data.get("reward", "")), Score.from_json(data)


def _samples(files: OpenFiles, name: str | None, beside: list[Path]) -> Mapping[str, EditSample]:
    if name:
        paths = [files.path("samples", name)]
    else:
        folders = {path.parent for path in beside}
        paths = [path for path in files.paths_by_name("samples").values() if path in folders or path.parent in folders]
    samples: dict[str, EditSample] = {}
    for path in paths:
        try:
            entries = [entry.sample for entry in SampleSource.open(path).read() if entry.sample is not None]
        except (InputError, ImageError, OSError):
            if name:
                raise
            continue  # what lies beside the scores need not be theirs
        for sample in entries:
            samples.setdefault(sample.id, sample)
    return samples


Order = Literal["largest change", "largest gain", "largest loss", "changed status"]
ORDERS: tuple[Order, ...] = ("largest change", "largest gain", "largest loss", "changed status")

PICTURE_SIDE = 420
MAX_SETTING = 160  # characters of a setting
MAX_WORDS = 20  # observations of experts that are listed for a score

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
                f"{len(metric.crossed_up):,} up, {len(metric.crossed_down):,} down" if metric.is_share else "–",
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


def p_text(value: float | None) -> str:
    """Three digits, or below the smallest of them."""
    return "< 0.001" if value is not None and value < 5e-4 else number_text(value)


def _p_sentence(value: float) -> str:
    text = p_text(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def items_html(compared: ComparedResults, metric: str | None, order: str, count: int) -> str:
    """The first items of an order, each with its pictures, values and reasons; all texts are escaped."""
    one = compared.metric(metric)
    changes = ordered_changes(one, order)
    items = [_item(compared, one.metric, change) for change in changes[:count]]
    return (
        templates()
        .get_template("comparison_items.html")
        .render(items=items, total=len(changes), order=order, metric=one.metric)
    )


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
