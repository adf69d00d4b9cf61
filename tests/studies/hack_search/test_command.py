"""The command: mixtures of families, with `--pipeline` also of what a misused editor makes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import PIL.Image
import PIL.ImageOps
import pytest

from editcritic.benchmarks.sceneedit import toy
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.cli.editor_spec import EditorSpec
from studies.hack_search.__main__ import main
from studies.hack_search.audit_editor import audit_editor, weakened_arguments
from studies.hack_search.mixer import Mixer, Mixture
from studies.hack_search.recipe import EDIT, Recipe
from tests.benchmarks.conftest import Folder

CONTRAST = ["--reward", "tests.cli.audited_functions:contrast"]
JUDGE = ["--reward", "judge-yes-no", "--experts", "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"]


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITCRITIC_TRUST", "tests")


def mirrored(image: PIL.Image.Image, instruction: str, seed: int) -> PIL.Image.Image:
    """An editor that is a function."""
    return PIL.ImageOps.mirror(image)


@pytest.fixture
def drawn(folder: Folder) -> Path:
    """Honest edits of two drawn scenes of 32 px, which the tiny editor can edit."""
    data = toy(2, seed=1)
    rows = []
    for number, sample in enumerate(data.samples):
        prompt = data.prompts[sample.id]
        sample.source.pil().save(folder / f"source {number}.png")
        honest_edit(Random(1), prompt.request, prompt.before, EDITOR_SCENES).picture.pil().save(
            folder / f"edit {number}.png"
        )
        files = {"source": f"source {number}.png", "edited": f"edit {number}.png"}
        rows.append(folder.row(id=f"scene {number}", instruction=sample.instruction, **files))
    return folder.samples(*rows)


def test_the_best_mixtures_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    families = [word for name in ("blurred", "over-saturated", "reencoded") for word in ("--family", name)]
    files = ["--json", str(tmp_path / "search.json"), "--pictures", str(tmp_path / "finds")]
    assert main(["demo", *CONTRAST, *families, "--limit", "2", "--evaluations", "12", *files]) == 0
    assert "24 mixtures of families at 2 edits, at most 12 of each" in capsys.readouterr().out
    search = json.loads((tmp_path / "search.json").read_text(encoding="utf-8"))
    assert (search["evaluations"], search["evaluations_per_edit"], search["stopped"]) == (24, 12, "")
    assert search["rate"]["violations"] == 2
    assert all("over-saturated" in edit["best"]["text"] for edit in search["edits"])
    assert len(list((tmp_path / "finds").glob("*.png"))) == 2


def test_the_tiny_editor_is_used_wrongly(drawn: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    mixed: set[str] = set()

    def mix(self: Mixer, recipe: Recipe) -> Mixture | None:
        mixed.add(recipe.base)
        return _mix(self, recipe)

    _mix = Mixer.mix
    monkeypatch.setattr(Mixer, "mix", mix)
    options = ["--family", "lower", "--evaluations", "30", "--pipeline", "sceneedit"]
    figures = tmp_path / "search.json"
    options += ["--pipeline-arg", "num_inference_steps=4", "--json", str(figures)]
    assert main([str(drawn), *CONTRAST, *options]) == 0
    search = json.loads(figures.read_text(encoding="utf-8"))
    assert search["editor_errors"] == {}
    assert search["evaluations"] == 60
    asked = {"asked for another edit", "asked for nothing", "asked for something unrelated", "edited twice"}
    assert mixed == {EDIT, *asked, "edited in 2 steps", "edited without guidance"}


def test_a_pipeline_is_weakened_by_the_arguments_that_it_takes() -> None:
    pytest.importorskip("diffusers")
    (sample,) = toy(1, seed=1).samples
    spec = EditorSpec("sceneedit", {"num_inference_steps": 6})
    assert weakened_arguments(spec)["edited in 2 steps"] == {"num_inference_steps": 2}
    used = audit_editor(spec, [sample])
    assert used.edit_again is not None
    pictures = [edit(sample) for edit in (used.edit_again, *used.weakened.values())]
    assert {picture.size for picture in pictures} == {sample.source.size}
    assert pictures[0] == spec.load().edit([sample.sources], [sample.instruction], [0])[0] != pictures[1]


def test_a_function_of_the_users_is_not_weakened() -> None:
    pytest.importorskip("diffusers")
    (sample,) = toy(1, seed=1).samples
    used = audit_editor(EditorSpec(f"{__name__}:mirrored"), [sample])
    assert used.weakened == {}
    assert used.edit_again is not None
    assert (used.edit_again(sample).pixels == sample.source.pixels[:, ::-1]).all()
    assert audit_editor(None, [sample]).edit_again is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--family", "equal"], "needs families whose variants are worse"),
        (["--family", "fog"], "there is no family 'fog'"),
        (["--pipeline", "nowhere"], "nowhere cannot be loaded"),
        (["--pipeline", "sceneedit"], "sceneedit edits images of 32 x 32, got 512 x 512"),
    ],
)
def test_what_cannot_be_searched_is_said(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--pipeline" in options:
        pytest.importorskip("diffusers")
    with pytest.raises(SystemExit) as ended:
        main(["demo", *CONTRAST, *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_spent_budget_ends_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--family", "over-saturated", "--limit", "1", "--evaluations", "1000", "--budget", "judge_calls=30"]
    assert main(["demo", *JUDGE, *options]) == 1
    assert "the budget of 30 judge calls is spent" in capsys.readouterr().out
