"""The pool: outputs of five editors for the same prompts, each with its truth. Made once per seed and kept on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from editcritic.benchmarks.sceneedit.cases import Case
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.scene_graph import Scene
from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import ScenePrompt
from editcritic.benchmarks.sceneedit.tiny_editor.recovered_truth import recovered_truth
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import Image

from ..five_editors import OutputGeneration, check_folder

TRUTHS = "truths.jsonl"


@dataclass(frozen=True, slots=True)
class PoolEdit:
    """An output of an editor. prompt: seed and item, shared by the outputs of one source and instruction.

    case: its sample, its scenes (`after` is recovered from the pixels), and the truth. unchanged: the share, in [0, 1],
    of pixels outside of the target that are as in the source (`recovered_truth`).
    """

    editor: str
    prompt: str
    case: Case
    unchanged: float

    @property
    def followed(self) -> bool:
        return self.case.truth.followed

    @property
    def worth(self) -> float:
        """The truth that a score is compared with: followed times unchanged, in [0, 1]."""
        return float(self.followed) * self.unchanged


def load_pool(seed: int, prompts: int, out: Path, on_message: Callable[[str], None]) -> list[PoolEdit]:
    """The pool of one seed, editor by editor. out: its folder, as `five_editors` makes it; what is there is reused.

    Raises `InputError` for a folder of other prompts, and without diffusers if outputs are missing.
    """
    check_folder(out, prompts, seed)
    suite = SceneEdit(prompts=prompts, seed=seed)
    folders = OutputGeneration(suite, out, on_message).run()
    known = _read_truths(out / TRUTHS)
    edits = []
    with (out / TRUTHS).open("a", encoding="utf-8") as lines:
        for editor, folder in folders.items():
            for item in suite.items:
                path = suite.find_output(folder, item)
                prompt = prompt_of(item.sample)
                assert path is not None  # made above
                assert prompt is not None  # every item of the suite has one
                edited = Image.of(path)
                key = f"{item.id} {edited.digest}"
                if key not in known:
                    known[key] = _recover(prompt, edited)
                    lines.write(json.dumps({"edit": key, **known[key].to_json()}) + "\n")
                edits.append(_pool_edit(seed, editor, item, prompt, edited, known[key]))
    return edits


@dataclass(frozen=True, slots=True)
class _Truth:
    """`RecoveredTruth`, as it is kept."""

    followed: bool
    unchanged: float
    scene: Scene

    def to_json(self) -> dict[str, object]:
        return {"followed": self.followed, "unchanged": self.unchanged, "scene": self.scene.to_json()}


def _recover(prompt: ScenePrompt, edited: Image) -> _Truth:
    truth = recovered_truth(prompt.request, prompt.before, edited)
    return _Truth(truth.followed, truth.unchanged, truth.recovered)


def _read_truths(path: Path) -> dict[str, _Truth]:
    """The truths found so far; a line that was cut off by an interruption is left out."""
    truths: dict[str, _Truth] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        truths[row["edit"]] = _Truth(row["followed"], row["unchanged"], Scene.from_json(row["scene"]))
    return truths


def _pool_edit(seed: int, editor: str, item: SuiteItem, prompt: ScenePrompt, edited: Image, truth: _Truth) -> PoolEdit:
    sample = replace(item.sample, id=f"{seed}/{editor}/{item.id}", edited=edited, metadata={})
    case = Case(
        sample,
        GroundTruth(truth.followed, None, truth.unchanged),
        prompt.request.task.type,
        before=prompt.before,
        after=truth.scene,
    )
    return PoolEdit(editor, f"{seed}/{item.id}", case, truth.unchanged)


def editors_of(edits: Sequence[PoolEdit]) -> list[str]:
    """The editors, in order."""
    return list(dict.fromkeys(edit.editor for edit in edits))
