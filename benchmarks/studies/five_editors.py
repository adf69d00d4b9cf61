"""SceneEdit as a full suite over five editors, with the report: `python -m editcritic.benchmarks.suites.five`.

The tiny editor, the best of 8 of its pictures, and three that draw the scene as they are told, apart from their flaws.
All that is made and judged is kept in the folder: the same command again goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from ...reward import EditSample, Engine, Image, Reward
from ...verifiers import BestOf, Editor, Journal, StepwiseEditor, select
from .. import extras
from ..inputs import InputError
from ..options import at_least_one
from ..sceneedit.critics import experts
from ..sceneedit.editors import honest
from ..sceneedit.failures import mode
from ..sceneedit.learned.card import Prompt
from ..sceneedit.learned.lessons import WORLD
from ..selection.own_noise import OwnNoise
from ..selection.study import REWARD
from ..suite_run.recipe import Recipe
from ..suite_run.running import Asked, How, Ran, carry_out
from ..terminal import say
from .sceneedit import SceneEdit, prompt_of
from .suite import Suite

EXPERTS = "editcritic.benchmarks.sceneedit.critics:experts"
"""For `--experts`: everybody who can be asked about these pictures."""

N = 8
TINY, BEST = "tiny", f"tiny-best-of-{N}"
OUTPUTS, RESULTS, REPORT, JOURNAL = "outputs", "results", "report.html", "journal"
GENERATED = "generated.jsonl"

FLAWS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "copies": {"nothing": 0.5},
        "overdoes": {"over_modification": 0.35, "background_drift": 0.2, "exposure_drift": 0.2},
        "confuses": {"wrong_object": 0.4, "wrong_place": 0.2, "neighbour_too": 0.1},
    }
)
"""Editor -> how often it goes wrong in which way (`sceneedit.failures`), where the request allows for it: one that
often gives the source back, one that changes more than it was asked to, one that takes the wrong thing or place."""


class Flawed:
    """An `Editor` of the pictures of some prompts: a hand that errs in known ways, and is honest otherwise."""

    evaluations = 0
    batch = 64

    def __init__(self, name: str, prompts: Iterable[tuple[EditSample, Prompt]]) -> None:
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
        """See `Editor`. Raises LookupError for what is none of its prompts."""
        asked = zip(images, instructions, seeds, strict=True)
        return [self._edit(sources[0].digest, instruction, seed) for sources, instruction, seed in asked]

    def _edit(self, source: str, instruction: str, seed: int) -> Image:
        prompt = self._prompts[source, instruction]
        chance = random.Random(f"{self.id} {source} {instruction} {seed}")
        drawn = chance.random()
        for name, share in self._flaws.items():
            if drawn < share:
                made = mode(name).edit(chance, prompt.request, prompt.before, WORLD)
                if made is not None:
                    return made.picture
                break
            drawn -= share
        return honest(chance, prompt.request, prompt.before, WORLD).picture


@dataclass(frozen=True)
class Making:
    """Makes the pictures of every editor into `out/outputs/<editor>`, each once. suite: at the tiny editor's size."""

    suite: SceneEdit
    out: Path
    tell: Callable[[str], None] = field(default=lambda said: None)

    def all(self) -> dict[str, Path]:
        """Editor -> folder, the tiny one first. Raises `InputError` without diffusers."""
        found = {name: self._selected(name, count) for name, count in ((TINY, 1), (BEST, N))}
        return found | {name: self._drawn(name) for name in FLAWS}

    def _selected(self, name: str, count: int) -> Path:
        """The best of so many candidates; a smaller number of them are the first of a larger one."""
        folder = self.out / OUTPUTS / name
        if self._is_whole(folder):
            return folder
        self.tell(f"{name}: {count * len(self.suite.items)} pictures")
        with Journal(self.out / JOURNAL) as journal:
            reward = Reward.of(REWARD, experts(), engine=Engine(log=journal.log), on_failures="none")
            samples = [item.sample for item in self.suite.items]
            found = select(BestOf(count), samples, editor=tiny(), reward=reward, journal=journal)
            for item, selection in zip(self.suite.items, found, strict=True):
                picture = selection.picture or selection.candidates[0].picture
                assert picture is not None  # the editor has failed for nothing, or the run would have stopped
                _keep(folder, item.place, item.id, picture, selection.spent.seconds)
        return folder

    def _drawn(self, name: str) -> Path:
        folder = self.out / OUTPUTS / name
        if self._is_whole(folder):
            return folder
        self.tell(f"{name}: {len(self.suite.items)} pictures")
        editor: Editor = Flawed(name, _prompts(self.suite))
        for item in self.suite.items:
            began = time.perf_counter()
            (picture,) = editor.edit([item.sample.sources], [item.sample.instruction], [0])
            _keep(folder, item.place, item.id, picture, time.perf_counter() - began)
        return folder

    def _is_whole(self, folder: Path) -> bool:
        return all(self.suite.find(folder, item) for item in self.suite.items)


def tiny() -> Editor:
    """The tiny editor, with noise of its own for every prompt. Raises `InputError` without diffusers."""
    extras.diffusers()
    from ...integrations.diffusers.editor import editor_of
    from ..sceneedit.learned.pipeline import load

    editor = editor_of(load(), batch=16)
    assert isinstance(editor, StepwiseEditor)
    return OwnNoise(editor)


def _prompts(suite: Suite) -> Iterable[tuple[EditSample, Prompt]]:
    for item in suite.items:
        if (prompt := prompt_of(item.sample)) is not None:
            yield item.sample, prompt


def _keep(folder: Path, place: str, name: str, picture: Image, seconds: float) -> None:
    """A picture, and how long it took, where `bench report` looks for that."""
    path = folder / f"{place}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.pil().save(path)
    with (folder / GENERATED).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"item": name, "file": path.name, "seconds": round(seconds, 4)}) + "\n")


def judged(suite: SceneEdit, folders: Mapping[str, Path], out: Path, tell: Callable[[str], None]) -> dict[str, Ran]:
    """Each editor's outputs judged into `out/results/<editor>`, as `bench run --experts EXPERTS` does."""
    spec = f"{suite.name}?{urlencode(suite.options)}"
    found = {}
    for name, outputs in folders.items():
        tell(f"{name}: judging")
        place = out / RESULTS / name
        how = How(given=Recipe(spec, None, outputs, name, (EXPERTS,)).to_json(place))
        ran = carry_out(Asked(suite, outputs, name, experts()), how, out=place)
        assert ran is not None  # this process is the only one
        found[name] = ran
    return found


def report(suite: SceneEdit, ran: Mapping[str, Ran], folders: Mapping[str, Path], out: Path, command: str) -> Path:
    """The page about all of them, `out/report.html`; the leaderboard goes to standard output."""
    from ..suite_report.material import Material
    from ..suite_report.page import write_page
    from .leaderboards import SideBySide, written

    side = SideBySide.of(suite, [one.results for one in ran.values()])
    write_page(out / REPORT, Material(side, folders), command)
    sys.stdout.write(written(side.computed[:1], "markdown"))
    return out / REPORT


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.suites.five", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="folder of all that is made")
    parser.add_argument("--prompts", type=at_least_one, default=225, help="how many, task types in turn (default: 225)")
    parser.add_argument("--seed", type=int, default=7, help="of the prompts (default: 7)")
    given = parser.parse_args(arguments)
    began = time.monotonic()

    def tell(said: str) -> None:
        say(f"{time.monotonic() - began:6.1f} s  {said}")

    try:
        out: Path = given.out
        check(out, given.prompts, given.seed)
        suite = SceneEdit(prompts=given.prompts, seed=given.seed)
        folders = Making(suite, out, tell).all()
        ran = judged(suite, folders, out, tell)
        command = ["python", "-m", parser.prog, *(sys.argv[1:] if arguments is None else arguments)]
        page = report(suite, ran, folders, out, shlex.join(command))
    except (InputError, OSError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    tell(f"the report is {page}")
    parser.exit(max(one.exit_code for one in ran.values()))


def check(out: Path, prompts: int, seed: int) -> None:
    """Raise `InputError` where the folder holds the pictures of other prompts; make it where it is not there."""
    path = out / "five.json"
    asked: dict[str, Any] = {"prompts": prompts, "seed": seed}
    if path.is_file():
        held = json.loads(path.read_text(encoding="utf-8"))
        if held != asked:
            raise InputError(f"{out} holds the pictures of {held}, not of {asked}: give another --out, or clear it")
        return
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty, and was not made by this command: give another --out")
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asked) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
