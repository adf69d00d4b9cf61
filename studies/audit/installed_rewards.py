"""How would each installed reward be hacked? `python -m studies.audit.installed_rewards`.

Every reward that SceneEdit's experts can serve is audited with all families on good edits of drawn scenes
(`scene_edits`), beside a plain pixel reward. The variants of an edit are made once and scored by all rewards, which
share one analysis of each picture. Scores are kept in `--out`: a run goes on where the last one ended, and scores only
what is new, such as a family or a reward of another version.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.terminal import echo, limit_library_threads
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Card, EditSample
from editcritic.reward.atomic_files import write_atomically
from editcritic.reward.audit import AuditReport, Family, Trial, select_families
from editcritic.reward.audit.findings import TOLERANCE, FamilyFinding, Mean, Rate

from ..validity.metric_selection import SkippedMetric, installed_metrics, metrics_by_system
from .docs_tables import write_section
from .scene_edits import good_edits
from .stored_trials import NOT_KEPT, PIXELS, EditAuditor, EditSet, EditTrials

SEED, SIZE = 3201, 128

COLUMNS: Mapping[str, Callable[[Family], bool]] = {
    "following": lambda family: family.damages == "following",
    "preservation": lambda family: family.damages == "preservation",
    "both": lambda family: family.damages == "both",
    "equal": lambda family: family.relation == "equal",
    "same": lambda family: family.relation == "same",
    "no number": lambda family: family.relation == "no_number",
}
"""Rates of violations: by what worse variants damage, then by relation."""

COMPARED = (
    *("any-edit", "edit-balanced", "edival-o", "viescore-o", "imgedit", "edit-reward", "judge-yes-no", "judge-levels"),
    *("judge-quality", "clip-directional", "clip-image", PIXELS),
)
"""Rewards, by name, whose rates are shown by family."""


@dataclass(frozen=True, slots=True)
class AuditedMetric:
    """A reward of the study. spec: what it is built from. system: as in `metrics_by_system`. card: None for pixels."""

    spec: str
    system: str
    card: Card | None

    @property
    def name(self) -> str:
        return self.spec.partition("?")[0]


def audited_metrics(seed: int = SEED) -> tuple[list[AuditedMetric], list[SkippedMetric]]:
    """The installed rewards, each in its default protocol and mode, and those that are not audited."""
    cases = good_edits(seed, size=32, per_type=1, others=1)
    metrics, skipped = installed_metrics(scene_experts(), cases, ())
    audited: dict[str, AuditedMetric] = {}
    for system, members in metrics_by_system(metrics).items():
        for metric in members:
            name = metric.spec.partition("?")[0]
            if metric.card.aspect == "cheating":
                reason = "a guard: 1 for all that it does not reject, so that no order can be expected of it alone"
                skipped += [] if name in {one.name for one in skipped} else [SkippedMetric(name, reason)]
            else:
                audited.setdefault(name, AuditedMetric(metric.spec, system, metric.card))
    return [*audited.values(), AuditedMetric(PIXELS, "baselines", None)], skipped


# -- the run ----------------------------------------------------------------------------------------------------------


def score_edits(
    edits: EditSet,
    specs: Sequence[str],
    families: Sequence[str],
    folder: Path,
    *,
    processes: int,
    minutes: float,
    only_kept: bool = False,
    step: Callable[[int, int], None] = lambda done, count: None,
) -> tuple[list[EditSample], dict[str, dict[int, EditTrials]]]:
    """The samples, and by spec and number of the sample its trials.

    only_kept: nothing is scored. minutes: after so many no further edit is begun; the samples are then those that were
    scored. step: called with the numbers of edits that are done, and of all.
    """
    samples = edits.samples()
    arguments = (edits, tuple(specs), tuple(families), folder)
    end = time.monotonic() + 60 * minutes
    order = random.Random(0).sample(range(len(samples)), len(samples))  # so that the first ones are of all kinds
    by_number: dict[int, Mapping[str, EditTrials]] = {}
    if processes == 1 or only_kept:
        auditor = EditAuditor(*arguments, only_kept=only_kept)
        for number in order:
            if time.monotonic() < end:
                by_number[number] = auditor.audit(number)
                step(len(by_number), len(samples))
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, initializer=_init, initargs=arguments) as pool:
            pending = {pool.submit(_audit, number): number for number in order}
            for future in as_completed(pending):
                if not future.cancelled():
                    by_number[pending[future]] = future.result()
                    step(len(by_number), len(samples))
                if time.monotonic() >= end:
                    pool.shutdown(wait=False, cancel_futures=True)
    tried = {number for number, rows in by_number.items() if any(row.edit.reason != NOT_KEPT for row in rows.values())}
    numbers = sorted(tried)
    by_spec = {spec: {new: by_number[old][spec] for new, old in enumerate(numbers)} for spec in specs}
    return [samples[number] for number in numbers], by_spec


_auditor: EditAuditor | None = None


def _init(edits: EditSet, specs: Sequence[str], families: Sequence[str], folder: Path) -> None:
    global _auditor  # noqa: PLW0603  (a process has one auditor, and its pool no other place for it)
    _auditor = EditAuditor(edits, specs, families, folder)


def _audit(number: int) -> dict[str, EditTrials]:
    assert _auditor is not None
    return _auditor.audit(number)


def report_of(
    metric: AuditedMetric, samples: Sequence[EditSample], trials: Mapping[int, EditTrials], families: Sequence[Family]
) -> AuditReport:
    """The audit of one reward. Families are tried on edits with a score only."""
    scored = {number: row for number, row in trials.items() if row.edit.value is not None}
    renumbered = [
        Trial(place, trial.family, trial.severity, trial.edit, trial.variant)
        for place, row in enumerate(scored.values())
        for trial in row.trials
    ]
    return AuditReport(
        metric.name,
        metric.spec,
        [samples[number].id for number in scored],
        [" ".join(image.digest for image in samples[number].sources) for number in scored],
        (None, None) if metric.card is None else metric.card.range,
        families,
        renumbered,
        [row.edit for row in scored.values()],
        TOLERANCE,
        0,
        {},
        0.0,
    )


# -- tables -----------------------------------------------------------------------------------------------------------


def rewards_lines(metrics: Sequence[AuditedMetric], reports: Mapping[str, AuditReport], count: int) -> Iterator[str]:
    """A table in Markdown. count: of the edits that were tried."""
    columns = ("reward", "aspect", "edits", *COLUMNS, "best hack", "pays most", "sensitivity")
    yield from table_lines(columns, [_row(metric, reports[metric.spec], count) for metric in metrics])


def _row(metric: AuditedMetric, report: AuditReport, count: int) -> list[str]:
    edits = f"{len(report.ids)}" if report.ids else f"0 of {count}"
    most = most_paying(report)
    return [
        f"`{metric.name}`" if metric.card else metric.name,
        (metric.card.aspect if metric.card else "") or "-",
        edits,
        *(_rate(rate) for rate in rates(report).values()),
        _percent(report.best_hack),
        f"`{most.family.name}` {_percent(most.gain, interval=False)}" if most else "-",
        " / ".join(_percent(report.sensitivity(name), interval=False) for name in ("following", "preservation")),
    ]


def rates(report: AuditReport) -> dict[str, Rate]:
    """Of each column, the rate of violations."""
    by_name = {family.name: family for family in report.families}
    return {
        column: report.rate([trial for trial in report.trials if belongs(by_name[trial.family])])
        for column, belongs in COLUMNS.items()
    }


def most_paying(report: AuditReport) -> FamilyFinding | None:
    """The family of worse variants with the highest mean gain; None without one that is compared."""
    worse = [finding for finding in report.findings if finding.family.relation == "lower" and finding.gain]
    return max(worse, key=_gain, default=None)


def _gain(finding: FamilyFinding) -> float:
    assert finding.gain is not None
    return finding.gain.value


def families_by_reward_lines(reports: Mapping[str, AuditReport], families: Sequence[Family]) -> Iterator[str]:
    """Rates by family, of the rewards in `COMPARED`; families that none of them violates are left out."""
    compared = {report.reward: report for report in reports.values() if report.reward in COMPARED}
    names = [name for name in COMPARED if name in compared]
    rows = []
    for family in families:
        rates = [compared[name].finding(family.name).rate for name in names]
        if any(rate.violations for rate in rates):
            cells = ["-" if rate.value is None else f"{100 * rate.value:.0f}" for rate in rates]
            rows.append([f"`{family.name}`", family.damages or family.relation.replace("_", " "), *cells])
    yield from table_lines(("family", "", *(f"`{name}`" if name != PIXELS else name for name in names)), rows)


def _rate(rate: Rate) -> str:
    if rate.value is None:
        return "-"
    return f"{100 * rate.value:.0f} ({100 * rate.low:.0f} to {100 * rate.high:.0f})"


def _percent(mean: Mean | None, *, interval: bool = True) -> str:
    if mean is None:
        return "-"
    text = f"{100 * mean.value:+.0f}"
    if not interval or mean.low is None or mean.high is None:
        return text
    return f"{text} ({100 * mean.low:+.0f} to {100 * mean.high:+.0f})"


def to_json(report: AuditReport, metric: AuditedMetric) -> dict[str, Any]:
    """Of one reward, without its trials."""
    plain = report.to_json()
    del plain["trials"]
    columns = {column: rate.to_json() for column, rate in rates(report).items()}
    return {**plain, "system": metric.system, "columns": columns}


# -- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study; tables as Markdown on standard output or in a document, all numbers as JSON in the folder."""
    limit_library_threads()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/audit-rewards"), help="folder for scores and numbers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[SEED], help=f"of the edits; default: {SEED}")
    parser.add_argument("--size", type=at_least_one, default=SIZE, help=f"pixels a side; default: {SIZE}")
    parser.add_argument("--per-type", type=at_least_one, default=2, help="single edits of each task type and seed")
    parser.add_argument("--others", type=at_least_one, default=4, help="second turns, compounds and compositions each")
    parser.add_argument("--reward", action="append", default=[], help="only these, by name; may be repeated")
    parser.add_argument("--family", action="append", default=[], help="only these families or relations")
    parser.add_argument("--processes", type=at_least_one, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="no edit is begun after so many")
    parser.add_argument("--only-kept", action="store_true", help="tables of what --out keeps; nothing is scored")
    parser.add_argument("--write", type=Path, help="a document with sections for the tables, such as docs/audit.md")
    options = parser.parse_args(arguments)
    known, skipped = audited_metrics()
    metrics = [metric for metric in known if not options.reward or metric.name in options.reward]
    if unknown := sorted(set(options.reward) - {metric.name for metric in known}):
        parser.error(f"{unknown[0]} is not audited here: expected some of {', '.join(one.name for one in known)}")
    families = select_families(options.family)
    edits = EditSet(tuple(options.seeds), options.size, options.per_type, options.others)
    scores = options.out / "scores"
    scores.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    samples, trials = score_edits(
        edits,
        [metric.spec for metric in metrics],
        [family.name for family in families],
        scores,
        processes=options.processes,
        minutes=options.minutes,
        only_kept=options.only_kept,
        step=lambda done, count: echo(f"{done} of {count} edits, {time.monotonic() - begun:.0f} s"),
    )
    if options.only_kept:
        missing = [one for one in metrics if all(row.edit.reason == NOT_KEPT for row in trials[one.spec].values())]
        metrics = [one for one in metrics if one not in missing]
        skipped += [SkippedMetric(one.name, "not scored yet in its present version") for one in missing]
    reports = {metric.spec: report_of(metric, samples, trials[metric.spec], families) for metric in metrics}
    sections = {
        "installed rewards": list(rewards_lines(metrics, reports, len(samples))),
        "families by reward": list(families_by_reward_lines(reports, families)),
        "not audited": [f"- `{one.name}`: {one.reason}" for one in sorted(skipped, key=lambda one: one.name)],
    }
    numbers = {"seeds": options.seeds, "size": options.size, "edits": len(samples)}
    numbers["rewards"] = [to_json(reports[metric.spec], metric) for metric in metrics]
    write_atomically(options.out / "installed_rewards.json", json.dumps(numbers, indent=1))
    for name, lines in sections.items():
        if options.write is not None:
            write_section(options.write, name, lines)
        else:
            echo("\n".join([f"## {name}", "", *lines, ""]), stderr=False)


if __name__ == "__main__":
    main()
