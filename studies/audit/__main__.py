"""How is a reward hacked on photographs? `python -m studies.audit --set development`."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from editcritic.benchmarks.common import terminal

if __name__ == "__main__":
    terminal.limit_library_threads()  # before numpy and OpenCV are imported

from editcritic.benchmarks.audit import report_text
from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.inputs import load_reward, spec_argument
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.reward import EditSample, Reward
from editcritic.reward.audit import AuditReport, AuditRun, Family, select_families

from .development_edits import development_edits, held_back_edits
from .good_edits import GoodEdit, require_packages

SETS: Mapping[str, Callable[[], tuple[GoodEdit, ...]]] = {
    "development": development_edits,
    "held-back": held_back_edits,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="studies.audit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=SETS, default="development", help="the edits; default: development")
    parser.add_argument("--reward", default="any-edit", help="a name, name?option=value or a TOML file")
    parser.add_argument("--experts", action="append", help="as of `editcritic score`; default: those without downloads")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of what is random in variants; default: 0")
    parser.add_argument("--images", type=at_least_one, help="number of edits, of as many pictures as possible")
    parser.add_argument("--edit", action="append", help="only this edit; repeatable")
    parser.add_argument("--family", action="append", help="only this family, or all of a relation; repeatable")
    options = parser.parse_args(arguments)
    try:
        families = select_families(options.family or ())
    except ValueError as error:
        parser.error(f"--family: {error}")
    edits = {edit.name: edit for edit in SETS[options.set]()}
    if unknown := [name for name in options.edit or () if name not in edits]:
        parser.error(f"--edit: there is no {unknown[0]!r} in the set: expected some of {', '.join(edits)}")
    try:
        chosen = [edits[name] for name in options.edit or edits]
        require_packages(edit.photo for edit in chosen)
        samples = [edit.sample() for edit in chosen]
        reward = load_reward(spec_argument(options.reward), bindings=options.experts, on_failures="none")
        begun = time.process_time()
        reports = list(_audits(reward, of_many_pictures(samples, options.images), families, options.seeds))
        seconds = time.process_time() - begun
        report = of_all_seeds(reports)
    except terminal.user_errors() as error:
        parser.exit(2, f"{parser.prog}: error: {terminal.user_error_text(error)}\n")
    terminal.echo("\n".join(_markdown(options.set, report, reports, seconds)), stderr=False)


def of_many_pictures(samples: Sequence[EditSample], limit: int | None) -> list[EditSample]:
    """At most `limit`, in their order, of as many pictures as possible."""
    earlier: Counter[str] = Counter()
    rounds = []
    for sample in samples:
        rounds.append(earlier[sample.source.digest])
        earlier[sample.source.digest] += 1
    chosen = sorted(range(len(samples)), key=rounds.__getitem__)[:limit]
    return [samples[number] for number in sorted(chosen)]


def of_all_seeds(reports: Sequence[AuditReport]) -> AuditReport:
    """Reports of one reward and set, with other seeds of variants, as one: with the trials of all."""
    costs: dict[str, Counter[str]] = {}
    for report in reports:
        for name, counts in report.costs.items():
            costs.setdefault(name, Counter()).update(counts)
    return replace(
        reports[0],
        trials=tuple(trial for report in reports for trial in report.trials),
        costs=costs,
        seconds=sum(report.seconds for report in reports),
        reward_seconds=sum(report.reward_seconds for report in reports),
        scored=sum(report.scored for report in reports),
    )


def _audits(
    reward: Reward, samples: Sequence[EditSample], families: Sequence[Family], seeds: Sequence[int]
) -> Iterator[AuditReport]:
    with terminal.progress_bar(len(samples) * len(seeds), "auditing") as (step, _):
        for seed in seeds:
            with AuditRun(reward, samples, families=families, seed=seed) as run:
                run.run(step)
                yield run.report()


def _markdown(name: str, report: AuditReport, reports: Sequence[AuditReport], seconds: float) -> Iterator[str]:
    seeds = [f"seed {one.seed}" for one in reports] if len(reports) > 1 else []
    yield f"## {report.reward} on the {name} edits\n"
    yield from table_lines(("", ""), [fact for fact in report_text.facts(report) if fact[0] != "seconds"])
    yield f"\n{report_text.verdict(report)}\n"
    rows = [
        [
            *report_text.finding_cells(finding),
            *(report_text.percent(one.finding(finding.family.name).rate.value) for one in reports if seeds),
        ]
        for finding in report_text.by_violations(report)
    ]
    yield from table_lines((*report_text.COLUMNS, *seeds), rows)
    if seeds:
        overall = ", ".join(f"{one.seed}: {report_text.percent(one.overall.value)}" for one in reports)
        yield f"\nViolations of all families by seed: {overall}."
    making = f"{report.seconds - report.reward_seconds:.0f} s made variants"
    scoring = f"{report.reward_seconds:.0f} s scored {report.scored:,} samples"
    yield f"\n{report.seconds:.0f} s, {seconds:.0f} s of CPU: {making}, {scoring}.\n"
    yield from table_lines(report_text.COST_COLUMNS, report_text.cost_rows(report))


if __name__ == "__main__":
    main()
