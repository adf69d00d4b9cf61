"""How would each installed reward be hacked? `python -m studies.audit.installed_rewards`.

Every reward that SceneEdit's experts can serve is audited with all families on good edits of drawn scenes
(`scene_edits`), beside a plain pixel reward. The variants of an edit are made once and scored by all rewards, which
share one analysis of each picture. Answers of experts are kept in `--out`: a run goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from editcritic.benchmarks.common.terminal import echo, limit_library_threads

if __name__ == "__main__":
    limit_library_threads()  # before numpy and OpenCV are imported

import cv2
import numpy as np

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.sceneedit.cases import Case, case_of, seeded_rng
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_requests import random_request
from editcritic.benchmarks.sceneedit.simulated_edits import SimulatedEdit, honest_edit
from editcritic.reward import BaseReward, Card, EditSample, Engine, Reward, Score, build
from editcritic.reward.audit import AuditedReward, AuditReport, Family, Trial, TrialMaker, Variant, select_families
from editcritic.reward.audit.findings import TOLERANCE, FamilyFinding, Mean, Rate
from editcritic.reward.audit.trials import score_batch, variant_batches
from editcritic.reward.engine.answer_log import AnswerLog
from editcritic.reward.sample import TASK_TYPES, TaskType
from studies.validity.metric_selection import installed_metrics, metrics_by_system

LEVELS = (2, 3)
"""Steps of the compounds, in turn."""


def good_edits(seed: int, *, size: int = 128, per_type: int = 2, others: int = 4) -> list[Case]:
    """Edits that follow their instruction, each of another scene.

    `per_type` of each task type; `others` that are the second turn of a chain, as many compounds, and as many that put
    an object of a second source into the first. size: pixels a side.
    """
    singles = [_chain(seed, number, size, [TASK_TYPES[number % len(TASK_TYPES)]]) for number in range(per_type * 9)]
    turns = [
        _chain(seed, len(singles) + number, size, [TASK_TYPES[(number + 4) % 9], TASK_TYPES[number % 9]])
        for number in range(others)
    ]
    return [*singles, *turns, *_compounds(seed, others, size), *_compositions(seed, others, size)]


def _chain(seed: int, number: int, size: int, types: Sequence[TaskType]) -> Case:
    rng, config = seeded_rng("test", seed, "audited edit", number), SceneConfig.for_size(size)
    while True:
        edits: list[SimulatedEdit] = []
        scene = random_scene(rng, config)
        for task_type in types:
            request = random_request(rng, scene, config, task_type)
            if request is None:
                break
            edits.append(honest_edit(rng, request, scene, config))
            scene = edits[-1].after
        else:
            case = case_of(edits, f"{seed}-{'-'.join(types)}-{number}")
            if case.truth.followed:
                return case


def _compounds(seed: int, count: int, size: int) -> list[Case]:
    return _first_good(count, lambda drawn: compound_cases(drawn, seed=seed, size=size, levels=LEVELS))


def _compositions(seed: int, count: int, size: int) -> list[Case]:
    return _first_good(count, lambda drawn: composition_cases(drawn, seed=seed, size=size))


def _first_good(count: int, draw: Callable[[int], list[Case]]) -> list[Case]:
    """The first good ones; a longer draw begins as a shorter one."""
    drawn = 4 * count
    while len(good := [case for case in draw(drawn) if not case.mode and case.truth.followed]) < count:
        drawn *= 2
    return good[:count]


SEED, SIZE = 3201, 128

PIXELS = "pixels alone"
"""The plain pixel reward, beside the specs of installed ones."""

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


def audited_metrics(seed: int = SEED) -> tuple[list[AuditedMetric], dict[str, str]]:
    """The installed rewards, each in its default protocol and mode, and those that are not audited."""
    cases = good_edits(seed, size=32, per_type=1, others=1)
    metrics, skipped = installed_metrics(scene_experts(), cases)
    audited: dict[str, AuditedMetric] = {}
    for system, members in metrics_by_system(metrics).items():
        for metric in members:
            name = metric.spec.partition("?")[0]
            if metric.card.aspect == "cheating":
                skipped[name] = "a guard: 1 for all that it does not reject, so that no order can be expected"
            else:
                audited.setdefault(name, AuditedMetric(metric.spec, system, metric.card))
    return [*audited.values(), AuditedMetric(PIXELS, "baselines", None)], skipped


# -- the run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EditSet:
    """Good edits of SceneEdit: see `good_edits`; those of several seeds one after another."""

    seeds: tuple[int, ...]
    size: int
    per_type: int
    others: int


@cache
def samples_of(edits: EditSet) -> list[EditSample]:
    """The samples of a set."""
    return [
        case.sample
        for seed in edits.seeds
        for case in good_edits(seed, size=edits.size, per_type=edits.per_type, others=edits.others)
    ]


@dataclass(frozen=True, slots=True)
class EditTrials:
    """Of one reward and one edit: the edit's score, and the trials if it has one."""

    edit: Score
    trials: Sequence[Trial]


def audit_edit(
    number: int, edits: EditSet, specs: Sequence[str], families: Sequence[str], folder: Path
) -> dict[str, EditTrials]:
    """Spec -> trials on the edit of this number. Variants are made once. specs: of installed rewards, or `PIXELS`.
    folder: of the experts' answers, which are kept."""
    cv2.setNumThreads(1)
    samples, experts = samples_of(edits), scene_experts()
    found = {}
    with (
        AnswerLog(folder / f"{samples[number].id}.sqlite") as log,
        Engine(log=log) as engine,
        TemporaryDirectory(prefix="editcritic-audit-") as temporary,
    ):
        # Beside the sample those that can be in any batch with it: with all the fields that it has.
        needed, order = _filled(samples[number]), [*samples[number + 1 :], *samples[:number]]
        beside = [samples[number], *(sample for sample in order if needed <= _filled(sample))]
        maker = TrialMaker(beside, select_families(families), folder=Path(temporary))
        variants = list(maker.variants(0))
        for spec in specs:
            reward = AuditedReward(pixel_similarity, PIXELS)
            if spec != PIXELS:
                reward = AuditedReward(Reward(build(spec), experts, engine=engine, on_failures="none"))
            found[spec] = _trials(number, samples[number], reward, variants)
    return found


def _trials(
    number: int, sample: EditSample, reward: AuditedReward, variants: Sequence[tuple[Family, int, Variant]]
) -> EditTrials:
    scorer = reward.scorer
    if isinstance(scorer, BaseReward) and (missing := scorer.missing_fields(sample)):
        return EditTrials(Score.not_applicable(f"the sample has no {', '.join(missing)}"), ())
    edit = _plain(reward([sample])[0])
    if edit.value is None:
        return EditTrials(edit, ())
    scored = (trial for batch in variant_batches(variants) for trial in score_batch(reward, batch, number, edit))
    return EditTrials(edit, [replace(trial, variant=_plain(trial.variant)) for trial in scored])


def _plain(score: Score) -> Score:
    """Without parts and evidence."""
    return Score(score.value, score.status, score.reason, cause=score.cause)


def _filled(sample: EditSample) -> set[str]:
    return {field.name for field in fields(sample) if getattr(sample, field.name) not in (None, "", (), {})}


def pixel_similarity(samples: Sequence[EditSample]) -> list[float]:
    """1 minus the mean absolute difference from the source, whose size the edited picture must have."""
    levels = [(s.source.pixels.astype(np.float32), s.edited.pixels.astype(np.float32)) for s in samples]
    return [1.0 - float(np.abs(source - edited).mean()) / 255 for source, edited in levels]


def audit_edits(
    edits: EditSet, specs: Sequence[str], families: Sequence[str], folder: Path, count: int | None
) -> tuple[list[EditSample], dict[str, dict[int, EditTrials]]]:
    """The samples that are tried, and by spec and number of the sample its trials. count: of edits, at most."""
    samples = samples_of(edits)
    chosen = random.Random(0).sample(range(len(samples)), len(samples))[:count]  # the first ones are of all kinds
    run = partial(audit_edit, edits=edits, specs=tuple(specs), families=tuple(families), folder=folder)
    by_number: dict[int, dict[str, EditTrials]] = {}
    for number in chosen:
        by_number[number] = run(number)
        echo(f"{len(by_number)} of {len(chosen)} edits")
    numbers = sorted(chosen)
    by_spec = {spec: {new: by_number[old][spec] for new, old in enumerate(numbers)} for spec in specs}
    return [samples[number] for number in numbers], by_spec


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


# -- the command ------------------------------------------------------------------------------------------------------


def replace_section(document: str, name: str, lines: Sequence[str]) -> str:
    """The document with these lines between the comments `<!-- NAME -->` and `<!-- end of NAME -->`.

    Raises ValueError unless each occurs once, in this order.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if (document.count(begin), document.count(end)) != (1, 1):
        raise ValueError(f"the document needs {begin} and {end}, once each")
    pattern = f"{re.escape(begin)}.*{re.escape(end)}"
    text = "\n".join([begin, "", *lines, "", end]).replace("\n\n\n", "\n\n")
    replaced, count = re.subn(pattern, lambda _: text, document, flags=re.DOTALL)
    if not count:
        raise ValueError(f"the document has {end} before {begin}")
    return replaced


def write_section(path: Path, name: str, lines: Sequence[str]) -> None:
    """Replace a section of a file."""
    path.write_text(replace_section(path.read_text(encoding="utf-8"), name, lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study; tables as Markdown on standard output or in a document, all numbers as JSON in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/audit-rewards"), help="folder for scores and numbers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[SEED], help=f"of the edits; default: {SEED}")
    parser.add_argument("--size", type=at_least_one, default=SIZE, help=f"pixels a side; default: {SIZE}")
    parser.add_argument("--per-type", type=at_least_one, default=2, help="single edits of each task type and seed")
    parser.add_argument("--others", type=at_least_one, default=4, help="second turns, compounds and compositions each")
    parser.add_argument("--reward", action="append", default=[], help="only these, by name; may be repeated")
    parser.add_argument("--family", action="append", default=[], help="only these families or relations")
    parser.add_argument("--edits", type=at_least_one, help="number of edits, of all kinds; default: all")
    parser.add_argument("--write", type=Path, help="a document with sections for the tables: docs/audit_figures.md")
    options = parser.parse_args(arguments)
    known, skipped = audited_metrics()
    metrics = [metric for metric in known if not options.reward or metric.name in options.reward]
    if unknown := sorted(set(options.reward) - {metric.name for metric in known}):
        parser.error(f"{unknown[0]} is not audited here: expected some of {', '.join(one.name for one in known)}")
    families = select_families(options.family)
    edits = EditSet(tuple(options.seeds), options.size, options.per_type, options.others)
    options.out.mkdir(parents=True, exist_ok=True)
    specs = [metric.spec for metric in metrics]
    samples, trials = audit_edits(edits, specs, [one.name for one in families], options.out, options.edits)
    reports = {metric.spec: report_of(metric, samples, trials[metric.spec], families) for metric in metrics}
    sections = {
        "installed rewards": list(rewards_lines(metrics, reports, len(samples))),
        "families by reward": list(families_by_reward_lines(reports, families)),
        "not audited": [f"- `{name}`: {reason}" for name, reason in sorted(skipped.items())],
    }
    for name, lines in sections.items():
        if options.write is not None:
            write_section(options.write, name, lines)
        else:
            echo("\n".join([f"## {name}", "", *lines, ""]), stderr=False)


if __name__ == "__main__":
    main()
