"""SceneEdit as a full suite over five editors, with the report: `python -m studies.five_editors`.

The tiny editor, best-of-8 with it, and three simulated editors with known flaws. All outputs and scores are kept in the
folder: the same command resumes an interrupted run.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.run.runner import RunConfig, RunResult, RunSettings, execute
from editcritic.benchmarks.sceneedit.failure_modes import failure_mode
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.benchmarks.suites.suite import Suite
from editcritic.reward import EditSample, Engine, Image, Reward
from editcritic.verifiers import BestOfN, Editor, Journal, select
from editcritic.verifiers.selection import StepwiseEditor

from .selection.per_prompt_noise import PerPromptNoise
from .selection.selection_study import REWARD

EXPERTS = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
"""For `--experts`: experts for these images."""

BEST_OF_N = 8
TINY, BEST = "tiny", f"tiny-best-of-{BEST_OF_N}"
OUTPUTS, RESULTS, REPORT, JOURNAL = "outputs", "results", "report.html", "journal"
GENERATED = "generated.jsonl"

FLAWS: Mapping[str, Mapping[str, float]] = {
    "copies": {"nothing": 0.5},
    "overdoes": {"over_modification": 0.35, "background_drift": 0.2, "exposure_drift": 0.2},
    "confuses": {"wrong_object": 0.4, "wrong_place": 0.2, "neighbour_too": 0.1},
}
"""Editor -> rate of each failure mode (`sceneedit.failure_modes`), where the request allows it: one editor often
returns the source, one changes more than requested, one confuses objects and places.
"""


class FlawedEditor:
    """A simulated `Editor` for the images of some prompts: it fails in known modes, and is honest otherwise."""

    nfe = 0
    batch_size = 64

    def __init__(self, name: str, prompts: Iterable[tuple[EditSample, ScenePrompt]]) -> None:
        """name: one of `FLAWS`."""
        self.id = f"sceneedit-{name}@1"
        self._flaws = FLAWS[name]
        self._prompts = {(sample.source.digest, sample.instruction): prompt for sample, prompt in prompts}

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> Sequence[Image]:
        """See `Editor`. Raises LookupError for an image and instruction that are none of its prompts."""
        requests = zip(images, instructions, seeds, strict=True)
        return [self._edit(sources[0].digest, instruction, seed) for sources, instruction, seed in requests]

    def _edit(self, source: str, instruction: str, seed: int) -> Image:
        prompt = self._prompts[source, instruction]
        rng = random.Random(f"{self.id} {source} {instruction} {seed}")
        draw = rng.random()
        for name, share in self._flaws.items():
            if draw < share:
                edit = failure_mode(name).edit(rng, prompt.request, prompt.before, EDITOR_SCENES)
                if edit is not None:
                    return edit.picture
                break
            draw -= share
        return honest_edit(rng, prompt.request, prompt.before, EDITOR_SCENES).picture


def make_outputs(suite: SceneEdit, out: Path) -> dict[str, Path]:
    """Makes the outputs of every editor in `out/outputs/<editor>`, each once: editor -> folder, the tiny editor first.

    suite: at the tiny editor's size. Raises `InputError` without diffusers.
    """
    folders = {name: out / OUTPUTS / name for name in (TINY, BEST, *FLAWS)}
    for name, folder in folders.items():
        if not all(suite.find_output(folder, item) for item in suite.items):
            echo(f"{name}: {len(suite.items)} images")
            if name in FLAWS:
                _draw(suite, name, folder)
            else:
                _select(suite, out, BEST_OF_N if name == BEST else 1, folder)
    return folders


def _select(suite: SceneEdit, out: Path, count: int, folder: Path) -> None:
    """Outputs of best-of-N with `count` candidates; larger counts reuse the candidates of smaller ones."""
    with Journal(out / JOURNAL) as journal:
        reward = Reward.of(REWARD, scene_experts(), engine=Engine(log=journal.answer_log), on_failures="none")
        samples = [item.sample for item in suite.items]
        selections = select(BestOfN(count), samples, editor=tiny_editor(), reward=reward, journal=journal)
        for item, selection in zip(suite.items, selections, strict=True):
            picture = selection.picture or selection.candidates[0].picture
            assert picture is not None  # the run stops if the editor fails
            _save_output(folder, item.output_path, item.id, picture, selection.spent.seconds)


def _draw(suite: SceneEdit, name: str, folder: Path) -> None:
    editor = FlawedEditor(name, _prompts(suite))
    for item in suite.items:
        began = time.perf_counter()
        (picture,) = editor.edit([item.sample.sources], [item.sample.instruction], [0])
        _save_output(folder, item.output_path, item.id, picture, time.perf_counter() - began)


def tiny_editor() -> Editor:
    """The tiny editor, with separate noise for every prompt. Raises `InputError` without diffusers."""
    optional_imports.require_diffusers()
    from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
    from editcritic.integrations.diffusers.pipeline_editor import make_editor

    editor = make_editor(load_pretrained(), batch_size=16)
    assert isinstance(editor, StepwiseEditor)
    return PerPromptNoise(editor)


def _prompts(suite: Suite) -> Iterable[tuple[EditSample, ScenePrompt]]:
    for item in suite.items:
        if (prompt := prompt_of(item.sample)) is not None:
            yield item.sample, prompt


def _save_output(folder: Path, output_path: str, item_id: str, picture: Image, seconds: float) -> None:
    """Write an image and its duration, which `bench report` reads."""
    path = folder / f"{output_path}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.pil().save(path)
    with (folder / GENERATED).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"item": item_id, "file": path.name, "seconds": round(seconds, 4)}) + "\n")


def score_outputs(suite: SceneEdit, folders: Mapping[str, Path], out: Path) -> dict[str, RunResult]:
    """Each editor's outputs scored into `out/results/<editor>`, as `bench run --experts EXPERTS` does."""
    spec = f"{suite.name}?{urlencode(suite.options)}"
    results = {}
    for name, outputs in folders.items():
        echo(f"{name}: scoring")
        settings = RunSettings(
            suite=spec, outputs=outputs, editor_name=name, experts=(EXPERTS,), out=out / RESULTS / name
        )
        run = execute(RunConfig.build(settings, scene_experts(), suite))
        assert run is not None  # None only in other processes
        results[name] = run
    return results


def report(
    suite: SceneEdit, runs: Mapping[str, RunResult], folders: Mapping[str, Path], out: Path, command: str
) -> Path:
    """The report on all editors, `out/report.html`; the leaderboard goes to standard output."""
    from editcritic.benchmarks.report.page import write_page
    from editcritic.benchmarks.report.report_data import ReportData
    from editcritic.benchmarks.suites.leaderboards import EditorComparison, format_tables

    comparison = EditorComparison.of(suite, [run.results for run in runs.values()])
    write_page(out / REPORT, ReportData(comparison, folders), command)
    sys.stdout.write(format_tables(comparison.computed[:1], "markdown"))
    return out / REPORT


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.five_editors", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="output folder (default: bench-out)")
    parser.add_argument("--prompts", type=at_least_one, default=225, help="number of prompts (default: 225)")
    parser.add_argument("--seed", type=int, default=7, help="of the prompts (default: 7)")
    options = parser.parse_args(arguments)
    out: Path = options.out
    check_folder(out, options.prompts, options.seed)
    suite = SceneEdit(prompts=options.prompts, seed=options.seed)
    folders = make_outputs(suite, out)
    runs = score_outputs(suite, folders, out)
    command = ["python", "-m", parser.prog, *(sys.argv[1:] if arguments is None else arguments)]
    echo(f"the report is {report(suite, runs, folders, out, shlex.join(command))}")
    parser.exit(max(run.exit_code for run in runs.values()))


def check_folder(out: Path, prompts: int, seed: int) -> None:
    """Raise `InputError` where the folder holds the outputs of other prompts; create a missing folder."""
    path = out / "five.json"
    settings: dict[str, Any] = {"prompts": prompts, "seed": seed}
    if path.is_file():
        existing = json.loads(path.read_text(encoding="utf-8"))
        if existing != settings:
            raise InputError(
                f"{out} holds the outputs of {existing}, not of {settings}: pass another --out, or clear it"
            )
        return
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty, and was not made by this command: pass another --out")
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
