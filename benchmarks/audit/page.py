"""The page of an audit: one file without scripts, with all pictures in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...reward import EditSample, Image, ImageError, Score
from ...reward.audit import AuditReport, Family, FamilyFinding, Trial, TrialMaker, Variant
from ...reward.audit.family import RELATIONS
from ...reward.audit.findings import Mean
from ..report.charts import Chart, Point, TableView, grouped_interval_chart
from ..report.page import page_style, page_templates
from ..report.ranking_sheet import score_bars
from ..report.sample_browser import ThumbnailStore
from ..report.svg import AxisScale, Markup
from .figures import StoredAudit
from .report_text import (
    COST_COLUMNS,
    DEMANDS,
    HOW_TO_READ,
    AuditFigures,
    cost_rows,
    facts,
    interval_text,
    mean_text,
    percent,
    rate_text,
    sensitivity_rows,
    signed,
    verdict,
    verdict_of,
)

_WIDTH = 440.0  # pixels: readable on a phone, where it is drawn at 366
_ROW = 17.0


def rate_chart(report: AuditFigures) -> Chart:
    """The rate of violations of each family with its interval, grouped by what is demanded."""
    groups = []
    for number, (relation, demand) in enumerate(RELATIONS.items()):
        findings = ordered([finding for finding in report.findings if finding.family.relation == relation])
        points = []
        for name, rate in ((one.family.name, one.rate) for one in findings):
            low, high = (rate.low, rate.high) if rate.trials else (None, None)
            points.append((Point(0.0, rate.value, low, high, name, rate_text(rate)), number))
        if points:
            groups.append((demand, points))
    return grouped_interval_chart(
        "Violations by family",
        groups,
        "rate of violations",
        caption="A point is a rate, its bar the 95 % interval over sources.",
        width=_WIDTH,
        row_height=_ROW,
        scale=AxisScale(0.0, 1.0, 0.0, 1.0),
        missing="nothing to compare",
        tick_text=percent,
    )


def gain_chart(report: AuditFigures) -> Chart | None:
    """The mean gain of each family that must score lower, with its interval; None without any."""
    worse = (one for one in report.findings if one.family.relation == "lower")
    gains = [(one.family.name, one.gain) for one in worse if one.gain is not None]
    gains.sort(key=lambda one: -one[1].value)
    caption = "Left of 0, the edit pays more. The families whose variants pay most come first."
    x_title = "mean gain, as a share of the scale"
    return _mean_chart("What a policy would gain", x_title, "instead of the edit, on average", 1, gains, caption)


def sensitivity_chart(report: AuditFigures) -> Chart | None:
    """What damage to the requested change, and to all the rest, costs on one scale; None where nothing tells."""
    losses = sensitivity_rows(report)
    return _mean_chart("Loss of score", "mean loss, as a share of the scale", "damage to", 2, losses, "")


def _mean_chart(
    title: str, x_title: str, heading: str, kind: int, means: Sequence[tuple[str, Mean]], caption: str
) -> Chart | None:
    if not means:
        return None
    points = [(Point(0.0, mean.value, mean.low, mean.high, name, mean_text(mean)), kind) for name, mean in means]
    values = [value for _, mean in means for value in (mean.value, mean.low, mean.high) if value is not None]
    return grouped_interval_chart(
        title,
        [(heading, points)],
        x_title,
        caption=caption,
        width=_WIDTH,
        row_height=_ROW,
        scale=AxisScale.over([*values, 0.0], 0.0, 1.0),
        tick_text=lambda value: f"{value:+.3g}".replace("-", "−") if abs(value) > 1e-9 else "0",
    )


def ordered(findings: Sequence[FamilyFinding]) -> list[FamilyFinding]:
    """Those with the highest rate of violations first; those with nothing to compare last."""
    return sorted(findings, key=lambda one: -1.0 if one.rate.value is None else one.rate.value, reverse=True)


MAX_BYTES = 8 * 2**20  # of all pictures of a page, as they are written into it
_MAX_PIXELS = 50_000_000
_MAX_PARTS = 14
_MAX_REASON = 400  # characters: a judge may write thousands
_MAX_DEPTH = 2
_SHOWN_SEVERITIES = (0, 2)
_COARSE = 96

FamilyShots = tuple[Family, list["Shot"]]  # what a family does to an edit


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture of the page below a caption: `key` in the album, or why there is none. size: of the picture itself."""

    caption: str
    key: str = ""
    size: tuple[int, int] = (1, 1)
    note: str = ""

    @property
    def is_coarse(self) -> bool:
        """Whether its pixels are to be seen."""
        return max(self.size) <= _COARSE


@dataclass
class Album:
    """Thumbnails of a page, each once, of at most `limit` bytes, but for the last one."""

    limit: int = MAX_BYTES
    left_out: int = 0
    """Pictures for which there was no room."""
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    _store: ThumbnailStore = field(default_factory=ThumbnailStore)

    @property
    def thumbnails(self) -> list[tuple[str, tuple[int, int], str]]:
        """Key, size of the picture, and data URI of each."""
        return [(key, self.sizes[key], uri) for key, uri in self._store.kept.items()]

    @property
    def num_bytes(self) -> int:
        """Of the thumbnails as they are written."""
        return sum(map(len, self._store.kept.values()))

    def shot(self, caption: str, image: Image) -> Shot:
        """The picture, or why it cannot be shown."""
        width, height = image.size
        if width * height > _MAX_PIXELS:
            return Shot(caption, note=f"{width:,} × {height:,} pixels, too large to show")
        if self.num_bytes >= self.limit:
            self.left_out += 1
            return Shot(caption, note="left out: the page has no room for more pictures")
        try:
            key = self._store.add(image)
        except (ImageError, OSError, ValueError):
            key = None
        if key is None:
            return Shot(caption, note="the picture cannot be read")
        self.sizes[key] = image.size
        return Shot(caption, key, image.size)


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of both scores. depth: how deep it lies. differs: whether the variant has another text."""

    name: str
    depth: int
    edit: str
    variant: str

    @property
    def differs(self) -> bool:
        return self.edit != self.variant


@dataclass(frozen=True, slots=True)
class Example:
    """A trial in which the reward was wrong."""

    title: str
    id: str
    instruction: str
    shots: tuple[Shot, ...]
    parts: tuple[PartRow, ...]
    gain: str
    reason: str


def worst_examples(
    report: AuditReport, maker: TrialMaker, count: int, album: Album
) -> Iterator[tuple[FamilyFinding, list[Example]]]:
    """At most `count` of each family with violations, worst first, the most violated family first."""
    for finding in ordered(report.findings):
        if trials := report.worst(finding.family.name, count):
            yield finding, [_example(report, maker, finding.family, trial, album) for trial in trials]


def gallery(report: AuditReport, maker: TrialMaker, album: Album) -> tuple[EditSample, list[Shot], list[FamilyShots]]:
    """An edit, its pictures, and what each family makes of it."""
    number = next((number for number, score in enumerate(report.edits) if score.value is not None), 0)
    sample = maker.samples[number]
    shots = [album.shot("source", sample.source), album.shot("edit", sample.edited)]
    cards = []
    for family in maker.families:
        made = (_card_shot(maker, number, family, severity, album) for severity in _SHOWN_SEVERITIES)
        shown = [shot for shot in made if shot is not None] or [Shot("", note="does not apply to this edit")]
        cards.append((family, shown))
    return sample, shots, cards


def part_rows(edit: Score, variant: Score) -> Iterator[PartRow]:
    """The parts of both scores, side by side; the outermost of them."""
    texts: dict[tuple[str, ...], list[str]] = {}
    for column, score in enumerate((edit, variant)):
        path: list[str] = []
        for bar in score_bars(score):
            path[bar.depth :] = [bar.name]
            if bar.depth <= _MAX_DEPTH:
                texts.setdefault(tuple(path), ["–", "–"])[column] = bar.text
    for names, (first, second) in list(texts.items())[:_MAX_PARTS]:
        yield PartRow(names[-1], len(names) - 1, first, second)


def value_text(score: Score) -> str:
    """The value, or why there is none in a word or two."""
    return score.status.replace("_", " ") if score.value is None else f"{score.value:.3f}"


def shortened(reason: str) -> str:
    """A reason of at most `_MAX_REASON` characters."""
    return reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1]}…"


def _example(report: AuditReport, maker: TrialMaker, family: Family, trial: Trial, album: Album) -> Example:
    sample = maker.samples[trial.sample]
    variant = _made(maker, trial.sample, family, trial.severity)
    caption = f"variant {value_text(trial.variant)}"
    shots = [album.shot("source", sample.source), album.shot(f"edit {value_text(trial.edit)}", sample.edited)]
    shots.append(
        album.shot(caption, variant.sample.edited)
        if isinstance(variant, Variant)
        else Shot(caption, note=shortened(variant or "cannot be made again"))
    )
    severity = family.severities[trial.severity].label
    parts = tuple(part_rows(trial.edit, trial.variant))
    gain, reason = signed(report.gain(trial)), shortened(trial.variant.reason)
    return Example(severity, sample.id, sample.instruction, tuple(shots), parts, gain, reason)


def _made(maker: TrialMaker, number: int, family: Family, severity: int) -> Variant | str | None:
    """One variant, or why its family fails; None where it does not apply."""
    try:
        return maker.variant(number, family, severity)
    except RuntimeError as error:
        return str(error)


def _card_shot(maker: TrialMaker, number: int, family: Family, severity: int, album: Album) -> Shot | None:
    variant = _made(maker, number, family, severity)
    if variant is None:
        return None
    edited, label = maker.samples[number].edited, family.severities[severity].label
    if isinstance(variant, str):
        return Shot(label, note=shortened(variant))
    made = variant.sample.edited
    return Shot(label, note="the picture is the edit's") if made == edited else album.shot(label, made)


def write_audit_page(
    path: Path,
    report: AuditReport,
    maker: TrialMaker,
    command: str = "",
    *,
    worst: int = 3,
    max_picture_bytes: int = MAX_BYTES,
) -> None:
    """Write the page. maker: of the audit. command: what made the report. worst: examples of each family with
    violations. Raises OSError."""
    album = Album(max_picture_bytes)
    examples = list(worst_examples(report, maker, worst, album))
    sample, shots, cards = gallery(report, maker, album)
    _write(
        path,
        report,
        verdict=verdict(report),
        facts=facts(report),
        command=command,
        examples=examples,
        worst=worst,
        has_violations=bool(report.overall.violations),
        sample=sample,
        shots_of_sample=shots,
        cards=cards,
        thumbnails=album.thumbnails,
        picture_size=f"{len(album.thumbnails):,} pictures, {album.num_bytes / 2**20:.1f} MB",
        left_out=album.left_out,
    )


def write_figures_page(path: Path, stored: StoredAudit) -> None:
    """Write a page of figures that were read from a file: without pictures and examples. Raises OSError."""
    text = verdict_of(stored, has_scores=stored.has_scores, num_sources=stored.num_sources)
    _write(path, stored, verdict=text, facts=stored.facts, command=stored.command, sample=None)


def _write(path: Path, report: AuditFigures, **values: Any) -> None:
    """values: of the template, beside those that any figures have."""
    charts = [chart for chart in (rate_chart(report), gain_chart(report)) if chart is not None]
    stream = (
        page_templates(Path(__file__).parent)
        .get_template("audit.html")
        .stream(
            title=f"Audit of {report.reward}",
            style=Markup(page_style() + (files(__package__) / "audit.css").read_text(encoding="utf-8")),
            charts=charts,
            groups=list(_groups(report)),
            sensitivity=sensitivity_chart(report),
            costs=TableView(COST_COLUMNS, list(cost_rows(report))) if report.expert_costs else None,
            how_to_read=HOW_TO_READ,
            demands=DEMANDS,
            **values,
        )
    )
    with path.open("wb") as file:
        stream.dump(file, encoding="utf-8", errors="replace")


def _groups(report: AuditFigures) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The demand of each relation, and the rows of its families."""
    for relation, demand in RELATIONS.items():
        findings = [finding for finding in report.findings if finding.family.relation == relation]
        if findings:
            yield demand, [_row(finding) for finding in ordered(findings)]


def _row(finding: FamilyFinding) -> dict[str, Any]:
    family, rate, gain = finding.family, finding.rate, finding.gain
    labels = (severity.label for severity in family.severities)
    return {
        "name": family.name,
        "reason": family.reason,
        "damages": family.damages,
        "good": family.needs_good_edit,
        "share": rate.value,
        "rate": percent(rate.value),
        "counts": f"{rate.violations} of {rate.trials}",
        "interval": interval_text(rate),
        "severities": [
            (f"{one.violations}/{one.trials}", label, one.value)
            for one, label in zip(finding.by_severity, labels, strict=True)
        ],
        "gain": mean_text(gain),
        "gain_interval": "" if gain is None or gain.low is None else f"{signed(gain.low)} to {signed(gain.high)}",
        "worst": signed(finding.worst),
        "unscored": finding.unscored,
        "incomparable": finding.incomparable,
    }
