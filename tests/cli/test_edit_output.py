"""`editcritic edit` as a user meets it, with editors made of numpy, and a few times with pipelines."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.pipelines import Named
from editcritic.reward import Expert, Image, Measured, Rate
from editcritic.reward.spec import names
from editcritic.verifiers import Noise, unedited

from ..verifiers.editors import Graded, Painter, Plain, read
from .conftest import CHEAP, Command, patched
from .test_rank import Reader as Page

WORTH = """
[reward]
use = "mine:Graded"
[experts]
judge = "mine:Reader"
"""
EVALUATIONS = 8


class Reader(Expert):
    """Reads off a picture how good it is."""

    id = "reader@1"
    kinds = (Rate,)
    broken = False

    def __call__(self, queries: Sequence[Rate]) -> list[Measured]:
        if Reader.broken:
            raise RuntimeError("the judge is down")
        return [Measured(read(query.image, query.prompt)) for query in queries]


class Interrupting(Painter):
    """Somebody presses Ctrl-C while it paints for the second time."""

    def advance(self, drafts, until):
        if len(self.calls) == 1:
            raise KeyboardInterrupt
        return super().advance(drafts, until)


class Desk:
    """A folder to work in, and a module `mine` of the user's with editors in it."""

    def __init__(self, path: Path, mine: Any) -> None:
        self.path = path
        self.painter = mine.painter
        self.mine = mine
        self.out = path / "out"
        (path / "worth.toml").write_text(WORTH, encoding="utf-8")
        (path / "cheap.toml").write_text(CHEAP, encoding="utf-8")
        self.source("source.png", 0)
        self.source("other.png", 1)

    def source(self, name: str, number: int) -> None:
        pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
        PIL.Image.fromarray(pixels).save(self.path / name)

    def asks(self, *more: object, sources: Any = ("source.png",), **options: object) -> list[object]:
        """A command; options as they are named, None leaves one out."""
        named = {
            "instruction": "make it blue",
            "pipeline": "mine:painter",
            "reward": self.path / "worth.toml",
            "selector": "best-of?n=6",
            "out": self.out,
        } | options
        given = [part for name, value in named.items() if value is not None for part in (f"--{name}", value)]
        return ["edit", *(self.path / name for name in sources), *given, *more]

    @property
    def report(self) -> Any:
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    mine: Any = ModuleType("mine")
    mine.painter = Painter()
    mine.Graded, mine.Reader = Graded, Reader
    monkeypatch.setitem(sys.modules, "mine", mine)
    return Desk(tmp_path, mine)


# -- what comes out ----------------------------------------------------------------------------------------------------


def test_the_best_candidate_is_written_with_a_report_and_a_contact_sheet(editcritic: Command, desk: Desk) -> None:
    result = editcritic(*desk.asks("--seed", 3))
    assert result.exit_code == 0, result.stderr
    (selection,) = desk.report["selections"]
    values = {one["id"]: one["score"]["value"] for one in selection["candidates"]}
    assert len(values) == 6
    assert selection["value"] == max(values.values()) == values[selection["winner"]]
    picture = Image.open(desk.out / "edited.png")
    assert read(picture) == pytest.approx(selection["value"])
    assert desk.report["spent"]["evaluations"] == desk.painter.evaluated == 6 * EVALUATIONS
    assert [seed for _, seed in desk.painter.asked] == [*range(3, 9)]
    assert f"chosen: candidate {selection['winner']}" in result.stdout
    assert "48 evaluations, 6 judge calls" in result.stdout
    assert str(desk.out / "candidates.html") in result.stdout
    assert desk.report["asked"]["editor"] == desk.painter.id
    assert desk.report["asked"]["selector"] == {"use": "editcritic.verifiers.best_of:BestOf", "n": 6}


def test_the_report_is_the_document_on_standard_output(editcritic: Command, desk: Desk) -> None:
    result = editcritic(*desk.asks("--json"))
    document = json.loads(result.stdout)
    assert document == desk.report | {"out": str(desk.out), "exit_code": 0}


def test_the_same_command_again_makes_and_asks_nothing(editcritic: Command, desk: Desk) -> None:
    first = editcritic(*desk.asks())
    made, before = list(desk.painter.calls), desk.report
    second = editcritic(*desk.asks())
    assert first.exit_code == second.exit_code == 0
    assert desk.painter.calls == made
    assert desk.report == before | {"known": before["spent"]}
    assert "48 evaluations, 6 judge calls" in second.stdout.partition("of that")[2]


def test_a_budget_is_kept(editcritic: Command, desk: Desk) -> None:
    result = editcritic(*desk.asks(budget="evaluations=20"))
    assert result.exit_code == 0, result.stderr
    assert desk.painter.evaluated == 16
    assert "ended early: 16 of 20 evaluations are spent" in result.stdout


def test_several_instructions_are_one_compound_and_several_sources_one_edit(editcritic: Command, desk: Desk) -> None:
    more = ["--instruction", "Add a hat."]
    result = editcritic(*desk.asks(*more, sources=["source.png", "other.png"], instruction="Make it blue."))
    assert result.exit_code == 0, result.stderr
    assert {words for words, _ in desk.painter.asked} == {"Make it blue and add a hat"}
    asked = desk.report["asked"]
    assert asked["operations"] == ["Make it blue.", "Add a hat."]
    assert asked["source"] == [Image.open(desk.path / name).digest for name in ("source.png", "other.png")]


def test_ties_are_broken_by_another_reward(editcritic: Command, desk: Desk) -> None:
    desk.mine.painter = Painter(levels=1)
    (desk.path / "ties.toml").write_text(WORTH.replace("[experts]", 'qualities = ["second"]\n[experts]'))
    result = editcritic(*desk.asks(ties=desk.path / "ties.toml"))
    assert result.exit_code == 0, result.stderr
    (selection,) = desk.report["selections"]
    second = {one["id"]: one["tie"]["value"] for one in selection["candidates"]}
    assert second[selection["winner"]] == max(second.values())


def test_what_failed_is_told_and_asked_for_again(editcritic: Command, desk: Desk) -> None:
    desk.painter.bad_seeds = {2}
    result = editcritic(*desk.asks())
    assert result.exit_code == 1
    assert "1 failed; the same command asks for what failed again" in result.stderr
    assert (desk.out / "edited.png").exists()
    desk.painter.bad_seeds = ()
    result = editcritic(*desk.asks())
    assert result.exit_code == 0
    assert desk.painter.asked[-1][1] == 2


def test_nothing_is_written_where_nothing_can_be_chosen(editcritic: Command, desk: Desk, monkeypatch) -> None:
    monkeypatch.setattr(Reader, "broken", True)
    result = editcritic(*desk.asks())
    assert result.exit_code == 1
    assert "nothing was chosen: none of 6 candidates has a score" in result.stdout
    assert "the judge is down" in result.stdout
    assert not (desk.out / "edited.png").exists()
    assert desk.report["selections"][0]["winner"] is None


# -- breaking off and going on -----------------------------------------------------------------------------------------


def test_an_interrupted_run_goes_on(editcritic: Command, desk: Desk) -> None:
    desk.mine.painter = broken_off = Interrupting(batch=2)
    result = editcritic(*desk.asks())
    assert result.exit_code == 130
    assert f"what was made is in {desk.out / 'journal'}" in result.stderr
    assert not (desk.out / "report.json").exists()
    assert broken_off.evaluated == 2 * EVALUATIONS
    desk.mine.painter = Painter(batch=2)
    assert editcritic(*desk.asks()).exit_code == 0
    assert desk.mine.painter.evaluated == 4 * EVALUATIONS
    assert desk.report["known"]["evaluations"] == 2 * EVALUATIONS


def test_an_editor_that_is_down_stops_the_run(editcritic: Command, desk: Desk) -> None:
    desk.painter.broken = True
    result = editcritic(*desk.asks("--json"))
    assert result.exit_code == 1
    assert "the editor failed: RuntimeError: no paint" in json.loads(result.stdout)["error"]
    assert "the same command goes on from there" in result.stderr


def test_another_run_is_refused_in_the_same_folder_but_for_again(editcritic: Command, desk: Desk) -> None:
    editcritic(*desk.asks())
    before = desk.report
    for changed in ({"selector": "best-of?n=8"}, {"instruction": "make it red"}, {"seed": 1}):
        result = editcritic(*desk.asks(**changed))
        assert result.exit_code == 2
        assert f"another {next(iter(changed))}" in result.stderr
    desk.mine.painter = Painter(levels=2)
    result = editcritic(*desk.asks())
    assert result.exit_code == 2
    assert "another editor" in result.stderr
    assert desk.report == before
    desk.mine.painter = Painter()
    result = editcritic(*desk.asks("--again", selector="best-of?n=8"))
    assert result.exit_code == 0
    assert desk.mine.painter.evaluated == 2 * EVALUATIONS  # what the journal knows is used
    assert len(desk.report["selections"][0]["candidates"]) == 8


def test_files_that_are_not_ours_are_not_written_over(editcritic: Command, desk: Desk) -> None:
    desk.out.mkdir()
    patched(0.5).save(desk.out / "edited.png")
    there = (desk.out / "edited.png").read_bytes()
    result = editcritic(*desk.asks())
    assert result.exit_code == 2
    assert "holds edited.png, but no report.json" in result.stderr
    (desk.out / "report.json").write_text("[]")
    result = editcritic(*desk.asks())
    assert result.exit_code == 2
    assert "is not a report" in result.stderr
    result = editcritic(*desk.asks("--again", sources=["out/edited.png"]))
    assert result.exit_code == 2
    assert "is a source" in result.stderr
    assert (desk.out / "edited.png").read_bytes() == there
    assert desk.painter.calls == []


# -- what is refused, before anything is made --------------------------------------------------------------------------

REFUSED = {
    "selector": ({"selector": "best-off?n=2"}, "unknown selector 'best-off': did you mean best-of"),
    "option": ({"selector": "best-of?m=2"}, "its options are ['n']"),
    "option's type": ({"selector": "best-of?n=many"}, "n is a whole number, got 'many'"),
    "option's value": ({"selector": "best-of?n=0"}, "one candidate or more, got 0"),
    "not a selector": ({"selector": "editcritic.verifiers:Budget"}, "makes Budget, which is no selector"),
    "reward": ({"reward": "edivl-if"}, "did you mean edival-if"),
    "ties": ({"ties": "edivl-if"}, "did you mean edival-if"),
    "no form": ({"reward": "edival-if", "instruction": "make it nice"}, "is none of EdiVal's nine forms"),
    "boxes missing": ({"reward": "edival-if", "instruction": "Remove cup"}, "finds 'cup' by a box"),
    "targets missing": ({"reward": "dlebench-if", "instruction": "Remove cup"}, "dlebench-if needs targets"),
    "budget": ({"budget": "evaluation=5"}, "write it as in evaluations=64"),
    "budget's number": ({"budget": "evaluations=no"}, "a budget of evaluations is a number"),
    "budget's size": ({"budget": "evaluations=7"}, "too small: one candidate for each of 1 samples takes 8"),
    "no words": ({"instruction": " "}, "needs an instruction"),
    "setting": ({"setting": "steps"}, "--setting is name=value"),
    "settings of an editor": ({"setting": "steps=2"}, "an editor with settings of its own"),
    "no module": ({"pipeline": "nowhere:load"}, "cannot find nowhere:load"),
    "no name": ({"pipeline": "mine:nothing"}, "cannot find mine:nothing"),
    "no editor": ({"pipeline": "mine:__name__"}, "mine:__name__ is str"),
    "no folder": ({"pipeline": "not/there"}, "--download asks the hub"),
    "no pipeline": ({"pipeline": "."}, "has no model_index.json"),
    "size": ({"pipeline": "sceneedit"}, "sceneedit edits pictures of 32 x 32, got one of 8 x 8"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_before_the_work(case: str, editcritic: Command, desk: Desk, monkeypatch) -> None:
    monkeypatch.chdir(desk.path)
    options, says = REFUSED[case]
    result = editcritic(*desk.asks(**options))
    assert result.exit_code == 2, result.stdout
    assert says in result.stderr
    assert result.stdout == ""
    assert desk.painter.calls == []


def test_pictures_and_folders_that_cannot_be_used_are_named(editcritic: Command, desk: Desk) -> None:
    (desk.path / "bad.png").write_bytes(b"no picture")
    (desk.path / "file").touch()
    for command, says in [
        (desk.asks(sources=["bad.png"]), "bad.png"),
        (desk.asks(sources=["gone.png"]), "gone.png: No such file"),
        (desk.asks(out=desk.path / "file"), "file"),
        (desk.asks(boxes='{"cup": [[0, 0, 1, 900]]}'), "lies outside"),
    ]:
        result = editcritic(*command)
        assert result.exit_code == 2
        assert says in result.stderr
    assert desk.painter.calls == []


def pipeline_of(folder: Path, name: str) -> Path:
    """A folder as `save_pretrained` leaves it, without any weights."""
    folder.mkdir()
    (folder / "model_index.json").write_text(json.dumps({"_class_name": name, "_diffusers_version": "0.42.1"}))
    return folder


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("FluxPipeline", "FluxPipeline, which edits no picture by words: it takes no image"),
        ("NoPipeline", "NoPipeline, which diffusers"),
        ("FluxImg2ImgPipeline", "the known editors are FluxKontextPipeline"),
        ("FluxKontextPipeline", "edits one picture, got 2 sources"),
    ],
)
def test_a_pipeline_that_cannot_edit_this_is_refused_without_its_weights(
    kind: str, says: str, editcritic: Command, desk: Desk
) -> None:
    folder = pipeline_of(desk.path / "pipeline", kind)
    result = editcritic(*desk.asks(pipeline=folder, sources=["source.png", "other.png"]))
    assert result.exit_code == 2
    assert says in result.stderr


def test_an_unknown_setting_gets_the_nearest_names(editcritic: Command, desk: Desk) -> None:
    folder = pipeline_of(desk.path / "pipeline", "FluxKontextPipeline")
    result = editcritic(*desk.asks(pipeline=folder, setting="num_inference_step=4"))
    assert result.exit_code == 2
    assert "did you mean num_inference_steps" in result.stderr


def test_a_pipeline_is_known_that_takes_no_image_but_to_invert_it(desk: Desk) -> None:
    folder = pipeline_of(desk.path / "pipeline", "LEditsPPPipelineStableDiffusion")
    sample = unedited("remove the hat", desk.path / "source.png")
    Named(str(folder), {"num_inversion_steps": 4, "edit_guidance_scale": 5.0}).check(sample)


def test_without_diffusers_the_extra_is_named(editcritic: Command, desk: Desk, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "diffusers", None)
    for name in ("sceneedit", "some/pipeline"):
        result = editcritic(*desk.asks(pipeline=name))
        assert result.exit_code == 2
        assert "pip install 'editcritic[diffusers]'" in result.stderr


# -- pipelines ---------------------------------------------------------------------------------------------------------


def test_a_pipeline_is_loaded_from_its_folder_and_called_with_the_settings(editcritic: Command, desk: Desk) -> None:
    from ..pipelines import kontext

    kontext(desk.path / "pipeline")
    PIL.Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(desk.path / "source.png")
    settings = ["height=32", "width=32", "max_area=1024", "_auto_resize=false", "num_inference_steps=2"]
    more = [part for one in settings for part in ("--setting", one)]
    options: Any = {"pipeline": desk.path / "pipeline", "reward": desk.path / "cheap.toml", "selector": "best-of?n=3"}
    result = editcritic(*desk.asks(*more, **options))
    assert result.exit_code == 0, result.stderr
    assert Image.open(desk.out / "edited.png").size == (32, 32)
    assert desk.report["spent"]["evaluations"] == 3 * 2
    assert "FluxKontextPipeline" in desk.report["asked"]["editor"]


def test_the_tiny_editor_is_at_hand(editcritic: Command, desk: Desk) -> None:
    PIL.Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(desk.path / "source.png")
    options: Any = {"pipeline": "sceneedit", "reward": desk.path / "cheap.toml", "selector": "best-of?n=2"}
    result = editcritic(*desk.asks(**options, instruction="Add red circle"))
    assert result.exit_code == 0, result.stderr
    assert desk.report["spent"]["evaluations"] == 2 * EVALUATIONS


@pytest.mark.parametrize("name", ["edits", "made"])
def test_a_function_is_an_editor_or_makes_one(name: str, editcritic: Command, desk: Desk) -> None:
    def edits(image: PIL.Image.Image, instruction: str, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)

    edits.__module__, edits.__qualname__ = "mine", "edits"
    desk.mine.edits, desk.mine.made = edits, lambda: desk.painter
    result = editcritic(*desk.asks(pipeline=f"mine:{name}"))
    assert result.exit_code == 0, result.stderr
    assert len(desk.report["selections"][0]["candidates"]) == 6


# -- the contact sheet -------------------------------------------------------------------------------------------------


def test_the_sheet_holds_all_candidates_the_chosen_one_first(editcritic: Command, desk: Desk) -> None:
    desk.painter.bad_seeds = {4}
    editcritic(*desk.asks(instruction="make <b>it</b> blue"))
    page = Page((desk.out / "candidates.html").read_text(encoding="utf-8"))
    words = re.sub(r"\s+", " ", page.words)
    (selection,) = desk.report["selections"]
    assert page.tags.count("article") == 6
    assert page.tags.count("img") == len(page.loads) == 2 + 5
    assert all(source.startswith("data:image/jpeg;base64,") for source in page.loads)
    assert "b" not in page.tags
    assert f"chosen: candidate {selection['winner']}" in words
    assert words.index("1 chosen") < words.index("no paint for [4]")
    for text in ["make <b>it</b> blue", "48 evaluations, 5 judge calls", "BestOf(n=6)", desk.painter.id, "following"]:
        assert text in words


def test_the_sheet_shows_steps_previews_and_comparisons(tmp_path: Path) -> None:
    from editcritic.benchmarks.selection_sheet import write_selection_sheet
    from editcritic.reward import Score
    from editcritic.verifiers import Candidate, Cost, Look, Match, Selection, Selections

    from ..verifiers.editors import graded, scenes

    (asked,) = scenes(1)
    picture = Image.of(np.zeros((8, 8, 3), np.uint8))
    sample = replace(asked, edited=picture)
    look = Look(3, picture, Score.of(0.25))
    first = Candidate("1-0", Noise(0), sample, Score.of(0.5), Cost(8, 1, 0.1), looks=(look, replace(look, step=8)))
    stopped = Candidate("1-1", Noise(1), sample, Score.abstained("stopped"), Cost(3), "stopped", looks=(look,))
    second = Candidate("2-0", Noise(2), sample, Score.of(0.75), Cost(8), step=2, parent="1-0", tie=Score.of(0.125))
    match = Match("1-0", "1-1", Score.of(1.0, "it is better"), Cost(0, 2))
    selection = Selection(
        asked, second, "because", (first, stopped, second), Cost(24), matches=(match,),
        steps=(first, second), ended="no time", notes=("a note",),
    )  # fmt: skip
    write_selection_sheet(tmp_path / "s.html", Selections((selection,)), graded().card, {"seed": "7"})
    page = Page((tmp_path / "s.html").read_text(encoding="utf-8"))
    words = re.sub(r"\s+", " ", page.words)
    for text in ["Step 1: 2 candidates", "Step 2: 1 candidate,", "goes on from 1-0", "3: 0.250", "no time", "a note",
                 "asked again for the tie: 0.1250", "1 comparison ", "it is better", "seed7"]:  # fmt: skip
        assert text in words
    assert page.tags.count("img") == 2 + 2 + 3 + 3


# -- selectors by name -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("editcritic.selectors"))
def test_every_selector_is_found_by_name_and_edits(name: str, editcritic: Command, desk: Desk) -> None:
    spec = {"retry": "retry?verifier=0.1&tries=3"}.get(name, name)  # which has no default
    result = editcritic(*desk.asks("--instruction", "and add a hat", selector=spec))
    assert result.exit_code == 0, result.stderr
    (selection,) = desk.report["selections"]
    assert read(Image.open(desk.out / "edited.png")) == pytest.approx(selection["value"])
    assert [f"step-{number}.png" for number, _ in enumerate(selection["steps"], 1)] == [
        path.name for path in sorted(desk.out.glob("step-*.png"))
    ]


def test_options_of_a_selector_are_lists_too(editcritic: Command, desk: Desk) -> None:
    result = editcritic(*desk.asks(selector="halving?n=4&checkpoints=[2,5]&keep=[2,1]"))
    assert result.exit_code == 0, result.stderr
    assert desk.painter.evaluated == 4 * 2 + 2 * 3 + 3
    assert desk.report["asked"]["selector"]["checkpoints"] == [2, 5]


def test_a_selector_that_stops_half_way_needs_an_editor_that_can(editcritic: Command, desk: Desk) -> None:
    desk.mine.plain = Plain(desk.painter)
    for name in ("halving", "zero-order", "paths", "particles"):
        result = editcritic(*desk.asks(pipeline="mine:plain", selector=name))
        assert result.exit_code == 2
        assert "plain painter" in result.stderr
    assert desk.painter.calls == []
