"""`any-edit` with nothing given but a source, an edit and a sentence:
`python -m studies.open_language --seeds 61 62 63 --cases 2000`.

Plans are made by `RulePlanner`, everything else by experts that see pixels only. Seeds up to 49 were used during
development. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import single_edit_trials, without_annotations
from editcritic.reward import Engine, Reward
from editcritic.reward.queries.specs import Spec
from editcritic.verifiers import BestOfN, Journal, select
from studies.any_edit.pool import REWARDS
from studies.selection.per_prompt_noise import PerPromptNoise
from studies.selection.selection_study import REWARD as JUDGE_REWARD
from studies.selection.selection_study import interval
from studies.validity.validity_run import ReleaseCheck

from .open_edits import FLAWS, REQUEST_KINDS
from .study import PLANS, OpenStudy, measure, open_experts

CANDIDATES = 16


@dataclass(frozen=True)
class _Setting:
    """A reward, and whether samples have task and object pools."""

    reward: Spec
    annotated: bool


SETTINGS: Mapping[str, _Setting] = {
    "judge-yes-no, everything given": _Setting(JUDGE_REWARD, True),
    "any-edit, everything given": _Setting(REWARDS["any-edit"], True),
    "any-edit, nothing given": _Setting(REWARDS["any-edit"], False),
}


@dataclass(frozen=True)
class BestOfStudy:
    """single: of each trial, the share of its candidates that follow. chosen: by reward, whether the chosen candidate
    follows; where none was chosen, `single`. undecided: trials without a choice.
    """

    candidates: int
    single: NDArray[np.float64]
    chosen: Mapping[str, NDArray[np.float64]]
    undecided: Mapping[str, int]

    def gain(self, name: str) -> tuple[float, float, float]:
        """Over a single sample: mean and 95 % interval over trials."""
        return interval(self.chosen[name] - self.single)

    def difference(self, name: str, other: str) -> tuple[float, float, float]:
        """Of two rewards, trial by trial: mean and 95 % interval."""
        return interval(self.chosen[name] - self.chosen[other])


def measure_best_of_n(seeds: Sequence[int], prompts: int, journal: Path, candidates: int = CANDIDATES) -> BestOfStudy:
    """All settings on the held-out prompts of these seeds, one process each. journal: folder that keeps the images and
    answers, so that an interrupted run continues. Takes five minutes a seed. Needs the extra `diffusers`.
    """
    runs = [_SeedRun(seed, prompts, journal / f"seed-{seed}", candidates) for seed in seeds]
    if len(runs) == 1:
        parts = [runs[0].run()]
    else:
        with ProcessPoolExecutor(min(len(runs), os.cpu_count() or 1), get_context("spawn")) as pool:
            parts = list(pool.map(_SeedRun.run, runs))
    return BestOfStudy(
        candidates,
        np.concatenate([part.single for part in parts]),
        {name: np.concatenate([part.chosen[name] for part in parts]) for name in SETTINGS},
        {name: sum(part.undecided[name] for part in parts) for name in SETTINGS},
    )


@dataclass(frozen=True)
class _SeedRun:
    """One seed, run in one process. Picklable."""

    seed: int
    prompts: int
    journal: Path
    candidates: int

    def run(self) -> BestOfStudy:
        import torch

        from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
        from editcritic.integrations.diffusers.pipeline_editor import make_editor
        from editcritic.verifiers.selection import StepwiseEditor

        torch.set_num_threads(1)  # processes share the cores
        trials = single_edit_trials(self.prompts, self.seed)
        chosen: dict[str, NDArray[np.float64]] = {}
        undecided: dict[str, int] = {}
        single = np.zeros(len(trials))
        with Journal(self.journal) as journal:
            made = make_editor(load_pretrained(), batch_size=self.candidates)
            assert isinstance(made, StepwiseEditor)
            editor, engine = PerPromptNoise(made), Engine(log=journal.answer_log)
            for name, setting in SETTINGS.items():
                samples = [trial.sample if setting.annotated else without_annotations(trial.sample) for trial in trials]
                experts = scene_experts() if setting.annotated else open_experts()
                reward = Reward.of(setting.reward, experts, engine=engine, on_failures="none")
                selections = select(BestOfN(self.candidates), samples, editor=editor, reward=reward, journal=journal)
                truths = []
                for index, (trial, selection) in enumerate(zip(trials, selections, strict=True)):
                    pictures = [one.picture for one in selection.candidates if one.picture is not None]
                    single[index] = np.mean([trial.followed_share(picture) for picture in pictures])
                    truths.append(
                        single[index] if selection.picture is None else trial.followed_share(selection.picture)
                    )
                chosen[name] = np.array(truths)
                undecided[name] = sum(selection.picture is None for selection in selections)
        return BestOfStudy(self.candidates, single, chosen, undecided)


MIN_SCORED, MIN_RIGHT = 0.95, 0.95
_MAX_EXAMPLES = 12


def checks(study: OpenStudy) -> list[ReleaseCheck]:
    """The bars."""
    bars = (
        ("share of cases with a score", study.scored, MIN_SCORED),
        ("share of those with the truth's verdict", study.right, MIN_RIGHT),
        ("pairs of one source in the right order", study.ordered, MIN_RIGHT),
    )
    return [ReleaseCheck(name, figure.value, bar, False, f"95 % interval {figure.text}") for name, figure, bar in bars]


def markdown(study: OpenStudy, best_of: BestOfStudy | None) -> str:
    """Tables: bars, by kind of request, by flaw, reasons of missing scores, wrong verdicts."""
    return "\n".join([*_lines(study), *(() if best_of is None else _best_of_lines(best_of))])


def _lines(study: OpenStudy) -> Iterator[str]:
    requests = len({row.request for row in study.rows})
    yield f"{len(study.rows)} edits of {requests} sources, each with one sentence and nothing else."
    yield ""
    rows = [
        (one.name, _number(one.measured), f">= {one.threshold}", "yes" if one.passed else "no", one.note)
        for one in checks(study)
    ]
    yield from table_lines(("bar", "measured", "at least", "met", ""), rows)
    yield ""
    yield f"Sentences with a plan: {study.plans_read.text}; plans that say what was meant: {study.plans_same.text}."
    yield ""
    columns = ("kind of request", "edits", "plan read", "plan right", "scored", "right", "in order")
    yield from table_lines(columns, [_row(kind, study.of_kind(kind)) for kind in REQUEST_KINDS])
    yield ""
    flaw_columns = ("flaw", "edits", "followed", "scored", "right", "below the honest edit")
    yield from table_lines(flaw_columns, [_flaw_row(flaw, study) for flaw in ("", *FLAWS)])
    reasons = study.missing_reasons()
    if reasons:
        yield ""
        yield from table_lines(
            ("why there is no score", "edits"), [(reason, str(count)) for reason, count in reasons.most_common()]
        )
    for title, sentences in (
        (
            "Wrong verdicts",
            [
                f"{row.id} ({row.kind}, {row.flaw or 'honest'}): {row.sentence} {row.following.reason[:200]}"
                for row in study.wrong_cases()
            ],
        ),
        (
            "Wrong order",
            [
                f"{honest.id} ({honest.kind}, {flawed.flaw}): {honest.sentence} "
                f"{honest.reward.value:.3f}, {flawed.reward.value:.3f}"
                for honest, flawed in study.inversions()
            ],
        ),
    ):
        yield ""
        yield f"{title}: {len(sentences)}."
        yield from (f"- {sentence}" for sentence in sentences[:_MAX_EXAMPLES])


def _row(kind: str, study: OpenStudy) -> tuple[str, ...]:
    figures = (study.plans_read, study.plans_same, study.scored, study.right, study.ordered)
    return (kind, str(len(study.rows)), *(_number(figure.value) for figure in figures))


def _flaw_row(flaw: str, study: OpenStudy) -> tuple[str, ...]:
    alone, paired = study.only(flaw), study.of_flaw(flaw)
    followed = sum(row.truth.followed for row in alone.rows)
    order = "" if not flaw else _number(paired.ordered.value)
    return (
        flaw or "none: honest",
        str(len(alone.rows)),
        str(followed),
        _number(alone.scored.value),
        _number(alone.right.value),
        order,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _best_of_lines(study: BestOfStudy) -> Iterator[str]:
    yield ""
    columns = (
        "reward",
        "truly followed, one sample",
        f"best of {study.candidates}",
        "gain (95 %)",
        "trials without a choice",
    )
    rows = []
    for name in study.chosen:
        gain, low, high = (100 * value for value in study.gain(name))
        rows.append(
            (
                name,
                f"{100 * study.single.mean():.1f} %",
                f"{100 * study.chosen[name].mean():.1f} %",
                f"{gain:+.1f} ({low:+.1f} to {high:+.1f})",
                str(study.undecided[name]),
            )
        )
    yield from table_lines(columns, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.open_language", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[61, 62, 63], help="seeds (default: 61 62 63)")
    parser.add_argument("--cases", type=at_least_one, default=2000, help="edits, over all seeds (default: 2000)")
    parser.add_argument("--plans", choices=PLANS, default="rules", help="`hand`: by the author of the sentences")
    parser.add_argument(
        "--best-of", type=Path, metavar="FOLDER", help="select with the tiny editor, too; to resume from"
    )
    parser.add_argument("--prompts", type=at_least_one, default=81, help="of each of these seeds (default: 81)")
    options = parser.parse_args(arguments)
    if options.best_of is not None:
        optional_imports.require_diffusers()
    study = measure(options.seeds, options.cases, options.plans)
    best_of = None
    if options.best_of is not None:
        best_of = measure_best_of_n([10, 11, 12], options.prompts, options.best_of)
    print(markdown(study, best_of))
    parser.exit(int(not all(check.passed for check in checks(study))))


if __name__ == "__main__":
    main()
