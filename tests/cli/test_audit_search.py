"""`editcritic audit --search`: mixtures of families, with `--pipeline` also of what a misused editor makes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import PIL.Image
import PIL.ImageOps
import pytest

from editcritic.benchmarks.sceneedit import toy
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import EDITOR_SCENES
from editcritic.cli.audit_editor import audit_editor
from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward.audit.hack_search.mixer import Mixer, Mixture
from editcritic.reward.audit.hack_search.recipe import EDIT, Recipe

from ..benchmarks.conftest import Command, Folder

CONTRAST = ("--reward", "tests.cli.audited_functions:contrast")
FEW = tuple(word for name in ("blurred", "over-saturated", "reencoded") for word in ("--family", name))


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


def test_the_best_mixtures_are_printed_and_on_the_page(editcritic: Command, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    result = editcritic("audit", "demo", *CONTRAST, *FEW, "--limit", "2", "--search", "12", "-o", page)
    assert result.exit_code == 0, result.output
    assert "24 mixtures of families at 2 edits, at most 12 of each" in result.stdout
    written = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    search = written["search"]
    assert (search["evaluations"], search["evaluations_per_edit"], search["stopped"]) == (24, 12, "")
    assert search["scale"] == written["scale"]
    assert search["rate"]["violations"] == 2
    assert all("over-saturated" in edit["best"]["text"] for edit in search["edits"])
    text = page.read_text(encoding="utf-8")
    assert 'id="search"' in text
    assert search["edits"][0]["best"]["text"] in text
    assert "is not made again" not in text


def test_without_the_option_nothing_is_searched(editcritic: Command) -> None:
    result = editcritic("audit", "demo", *CONTRAST, *FEW, "--limit", "1", "--json")
    assert json.loads(result.stdout)["search"] is None


def test_the_tiny_editor_is_used_wrongly(editcritic: Command, drawn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("diffusers")
    mixed: set[str] = set()

    def mix(self: Mixer, recipe: Recipe) -> Mixture | None:
        mixed.add(recipe.base)
        return _mix(self, recipe)

    _mix = Mixer.mix
    monkeypatch.setattr(Mixer, "mix", mix)
    options = ("--family", "lower", "--search", "30", "--pipeline", "sceneedit", "--pipeline-arg")
    result = editcritic("audit", drawn, *CONTRAST, *options, "num_inference_steps=4", "--json")
    assert result.exit_code == 0, result.output
    search: dict[str, Any] = json.loads(result.stdout)["search"]
    assert search["editor_errors"] == {}
    assert search["evaluations"] == 60
    asked = {"asked for another edit", "asked for nothing", "asked for something unrelated", "edited twice"}
    assert mixed == {EDIT, *asked, "edited in 2 steps", "edited without guidance"}


def test_a_pipeline_is_weakened_by_the_arguments_that_it_takes() -> None:
    pytest.importorskip("diffusers")
    (sample,) = toy(1, seed=1).samples
    spec = EditorSpec("sceneedit", {"num_inference_steps": 6})
    editor, weakened = spec.load_weakened(
        {
            "in 2 steps": {"num_inference_steps": 2},
            "without": {"guidance_scale": 1.0, "of_another": 1},
            "none": {"x": 1},
        }
    )
    assert [editor.nfe, *(one.nfe for one in weakened.values())] == [6, 2, 6]
    assert list(weakened) == ["in 2 steps", "without"]
    used = audit_editor(spec, [sample])
    assert used.edit_again is not None
    pictures = [edit(sample) for edit in (used.edit_again, *used.weakened.values())]
    assert {picture.size for picture in pictures} == {sample.source.size}
    assert pictures[0] == editor.edit([sample.sources], [sample.instruction], [0])[0] != pictures[1]


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
        (("--pipeline", "sceneedit"), "--pipeline is for the search: add --search"),
        (("--search", "5", "--dtype", "float16"), "--dtype is for an editor: add --pipeline"),
        (("--search", "5", "--family", "equal"), "--search mixes families whose variants are worse"),
        (("--search", "5", "--pipeline", "nowhere"), "nowhere cannot be loaded"),
        (("--search", "5", "--pipeline", "sceneedit"), "sceneedit edits images of 32 x 32, got 512 x 512"),
    ],
)
def test_what_cannot_be_searched_is_said_before_anything_is_scored(
    editcritic: Command, options: tuple[str, ...], message: str
) -> None:
    if "--pipeline" in options:
        pytest.importorskip("diffusers")
    result = editcritic("audit", "demo", "--reward", "tests.cli.audited_functions:broken", *options)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_spent_budget_ends_the_search(editcritic: Command) -> None:
    judge = ("--reward", "judge-yes-no", "--experts", "judge=tests.benchmarks.suites.tiny_suite:CoinJudge")
    options = ("--family", "over-saturated", "--limit", "1", "--search", "1000", "--budget", "judge_calls=30")
    result = editcritic("audit", "demo", *judge, *options, "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    assert document["stopped"] == ""
    assert "the budget of 30 judge calls is spent" in document["search"]["stopped"]
    assert 0 < document["search"]["evaluations"] < 50


def test_an_outage_in_the_search_is_an_exit_code(editcritic: Command) -> None:
    reward = ("--reward", "tests.cli.audited_functions:down_in_the_search")
    arguments = ("demo", *reward, "--family", "blurred", "--limit", "1", "--search", "12")
    result = editcritic("audit", *arguments)
    assert result.exit_code == 1, result.output
    assert "2 mixtures have no score because an expert could not be asked" in result.stdout
    document = json.loads(editcritic("audit", *arguments, "--json").stdout)
    assert document["infrastructure_failures"] == 0
    assert (document["search"]["infrastructure_failures"], document["search"]["stopped"]) == (2, "")


def test_what_the_search_asks_is_in_the_costs(editcritic: Command) -> None:
    judge = ("--reward", "judge-yes-no", "--experts", "judge=tests.benchmarks.suites.tiny_suite:CoinJudge")
    arguments = ("audit", "demo", *judge, "--family", "over-saturated", "--limit", "1", "--json")
    alone, searched = (json.loads(editcritic(*arguments, *more).stdout) for more in ((), ("--search", "8")))
    (before,), (after,) = alone["expert_costs"], searched["expert_costs"]
    (of_search,) = searched["search"]["expert_costs"]
    assert of_search["queries"] > 0
    assert after["queries"] == before["queries"] + of_search["queries"]
