"""`editcritic edit` as a user runs it, with numpy editors, and a few times with pipelines."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import PIL.Image
import pytest
from typer.testing import Result

from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward import Expert, Image
from editcritic.reward.installation import install_command
from editcritic.reward.queries import Measurement, Rate
from editcritic.reward.queries.specs import entry_point_names
from editcritic.verifiers import edit_request
from editcritic.verifiers.selection import NoiseSpec

from ..benchmarks.conftest import CHEAP, Command, patched
from ..benchmarks.report.test_ranking import Reader as Page
from ..verifiers.numpy_editor import Graded, Painter, Plain, read

WORTH = """
[reward]
use = "mine:Graded"
[experts]
judge = "mine:Reader"
"""
EVALUATIONS = 8


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the rewards in TOML files here."""
    monkeypatch.setenv("EDITCRITIC_TRUST", "mine")


class Reader(Expert):
    """Reads the quality of an image from its pixels."""

    id = "reader@1"
    kinds = (Rate,)
    broken = False

    def __call__(self, queries: Sequence[Rate]) -> list[Measurement]:
        if Reader.broken:
            raise RuntimeError("the judge is down")
        return [Measurement(read(query.image, query.prompt)) for query in queries]


class Interrupting(Painter):
    """Raises KeyboardInterrupt on its second call."""

    def advance(self, drafts, until_step):
        if len(self.calls) == 1:
            raise KeyboardInterrupt
        return super().advance(drafts, until_step)


class Session:
    """A working folder, and a user's module `mine` with editors."""

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

    def command(self, *more: object, sources: Any = ("source.png",), **options: object) -> list[object]:
        """A command line; an option of None is left out."""
        named = {
            "instruction": "make it blue",
            "pipeline": "mine:painter",
            "reward": self.path / "worth.toml",
            "selector": "best-of?n=6",
            "out": self.out,
        } | options
        arguments = [
            part
            for name, value in named.items()
            if value is not None
            for part in (f"--{name.replace('_', '-')}", value)
        ]
        return ["edit", *(self.path / name for name in sources), *arguments, *more]

    @property
    def report(self) -> Any:
        return json.loads((self.out / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    mine: Any = ModuleType("mine")
    mine.painter = Painter()
    mine.Graded, mine.Reader = Graded, Reader
    monkeypatch.setitem(sys.modules, "mine", mine)
    return Session(tmp_path, mine)


Edit = Callable[..., Result]


@pytest.fixture
def edit(editcritic: Command, session: Session) -> Edit:
    """Runs `editcritic edit` with these options."""

    def run(*more: object, code: int | None = None, says: object = (), shows: object = (), **options: Any) -> Result:
        command = session.command(*more, **options)
        return editcritic(*command, code=code, says=says, shows=shows)

    return run


def test_the_best_candidate_is_written_with_a_report_and_the_same_command_asks_nothing(edit, session):
    result = edit("--seed", 3, code=0)
    (selection,) = session.report["selections"]
    values = {candidate["id"]: candidate["score"]["value"] for candidate in selection["candidates"]}
    assert len(values) == 6
    assert selection["value"] == max(values.values()) == values[selection["winner"]]
    assert read(Image.open(session.out / "edited.png")) == pytest.approx(selection["value"])
    assert session.report["spent"]["nfe"] == session.painter.evaluated == 6 * EVALUATIONS
    assert [seed for _, seed in session.painter.requests] == [*range(3, 9)]
    for text in (f"candidate {selection['winner']}", "48 NFE, 6 judge calls", str(session.out / "candidates.html")):
        assert text in result.stdout
    assert session.report["config"]["editor"] == session.painter.id
    assert session.report["config"]["selector"] == {"use": "best-of", "n": 6}
    made, before = list(session.painter.calls), session.report
    again = edit("--seed", 3, code=0)
    assert (session.painter.calls, session.report) == (made, before | {"cached_cost": before["spent"]})
    assert "48 NFE, 6 judge calls" in again.stdout.partition("of that")[2]
    document = json.loads(edit("--seed", 3, "--json").stdout)
    assert document == session.report | {"out": str(session.out), "exit_code": 0}


def test_a_budget_is_kept_and_options_of_a_selector_are_lists_too(edit: Edit, session: Session) -> None:
    edit(budget="nfe=20", code=0, shows="ended early: 16 of 20 NFE are spent")
    assert session.painter.evaluated == 16
    session.out = session.path / "halved"
    edit(selector="halving?n=4&checkpoints=[2,5]&keep=[2,1]", code=0)
    assert session.painter.evaluated == 16 + 4 * 2 + 2 * 3 + 3
    assert session.report["config"]["selector"]["checkpoints"] == [2, 5]


def test_several_instructions_are_one_compound_and_several_sources_one_edit(edit: Edit, session: Session) -> None:
    more = ["--instruction", "Add a hat."]
    edit(*more, sources=["source.png", "other.png"], instruction="Make it blue.", code=0)
    assert {words for words, _ in session.painter.requests} == {"Make it blue and add a hat"}
    config = session.report["config"]
    assert config["operations"] == ["Make it blue.", "Add a hat."]
    assert config["source"] == [Image.open(session.path / name).digest for name in ("source.png", "other.png")]


def test_ties_are_broken_by_another_reward(edit: Edit, session: Session) -> None:
    session.mine.painter = Painter(levels=1)
    (session.path / "ties.toml").write_text(WORTH.replace("[experts]", 'qualities = ["second"]\n[experts]'))
    edit(tie_breaker=session.path / "ties.toml", code=0)
    (selection,) = session.report["selections"]
    second = {candidate["id"]: candidate["tiebreak_score"]["value"] for candidate in selection["candidates"]}
    assert second[selection["winner"]] == max(second.values())


def test_what_failed_is_told_and_asked_for_again(edit: Edit, session: Session) -> None:
    session.painter.broken = True
    result = edit("--json", code=1, says="run the same command again to resume")
    assert "the editor failed: RuntimeError: no paint" in json.loads(result.stdout)["error"]
    session.painter.broken = False
    session.painter.bad_seeds = {2}
    edit(code=1, says="1 failed; run the same command again to retry them")
    assert (session.out / "edited.png").exists()
    session.painter.bad_seeds = ()
    edit(code=0)
    assert session.painter.requests[-1][1] == 2


def test_nothing_is_written_where_nothing_can_be_chosen(edit: Edit, session: Session, monkeypatch) -> None:
    monkeypatch.setattr(Reader, "broken", True)
    edit(code=1, shows=("no candidate chosen: none of 6 candidates has a score", "the judge is down"))
    assert not (session.out / "edited.png").exists()
    assert session.report["selections"][0]["winner"] is None


def test_an_interrupted_run_goes_on(edit: Edit, session: Session) -> None:
    session.mine.painter = broken_off = Interrupting(batch_size=2)
    edit(code=130, says=f"the candidates are in {session.out / 'journal'}")
    assert not (session.out / "report.json").exists()
    assert broken_off.evaluated == 2 * EVALUATIONS
    session.mine.painter = Painter(batch_size=2)
    assert (edit().exit_code, session.mine.painter.evaluated) == (0, 4 * EVALUATIONS)
    assert session.report["cached_cost"]["nfe"] == 2 * EVALUATIONS


def test_another_run_is_refused_in_the_same_folder_but_for_again(edit: Edit, session: Session) -> None:
    edit()
    before = session.report
    for changed in ({"selector": "best-of?n=8"}, {"instruction": "make it red"}, {"seed": 1}):
        edit(**changed, code=2, says=f"run with another {next(iter(changed))}")
    session.mine.painter = Painter(levels=2)
    edit(code=2, says="run with another editor")
    assert session.report == before
    session.mine.painter = Painter()
    edit("--overwrite", selector="best-of?n=8", code=0)
    assert session.mine.painter.evaluated == 2 * EVALUATIONS  # what the journal knows is used
    assert len(session.report["selections"][0]["candidates"]) == 8


def test_files_that_are_not_ours_are_not_written_over(edit: Edit, session: Session) -> None:
    session.out.mkdir()
    patched(0.5).save(session.out / "edited.png")
    there = (session.out / "edited.png").read_bytes()
    edit(code=2, says="holds edited.png, but no report.json")
    (session.out / "report.json").write_text("[]")
    edit(code=2, says="is not a report")
    edit("--overwrite", sources=["out/edited.png"], code=2, says="is a source")
    assert ((session.out / "edited.png").read_bytes(), session.painter.calls) == (there, [])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "selector": ({"selector": "best-off?n=2"}, "unknown selector 'best-off': did you mean best-of"),
    "option": ({"selector": "best-of?m=2"}, "its options are n"),
    "option's type": ({"selector": "best-of?n=many"}, "n is an integer, got 'many'"),
    "option's value": ({"selector": "best-of?n=0"}, "at least one candidate, got 0"),
    "not a selector": ({"selector": "editcritic.verifiers:Budget"}, "builds Budget, which is not a selector"),
    "reward": ({"reward": "edivl-if"}, "did you mean edival-if"),
    "tie breaker": ({"tie_breaker": "edivl-if"}, "did you mean edival-if"),
    "no form": ({"reward": "edival-if", "instruction": "make it nice"}, "is none of EdiVal's nine forms"),
    "boxes missing": ({"reward": "edival-if", "instruction": "Remove cup"}, "no box of 'cup' in the source: give"),
    "targets missing": ({"reward": "dlebench-if", "instruction": "Remove cup"}, "dlebench-if needs targets"),
    "budget": ({"budget": "evaluation=5"}, "write it as in nfe=64"),
    "budget's number": ({"budget": "nfe=no"}, "a budget of nfe must be a number"),
    "budget's size": ({"budget": "nfe=7"}, "too small: one candidate for each of 1 samples takes 8"),
    "no words": ({"instruction": " "}, "needs a non-empty instruction"),
    "pipeline argument": ({"pipeline_arg": "steps"}, "--pipeline-arg is name=value"),
    "arguments of an editor": ({"pipeline_arg": "steps=2"}, "is an editor, not a pipeline"),
    "no module": ({"pipeline": "nowhere:load"}, "cannot find nowhere:load"),
    "no name": ({"pipeline": "mine:nothing"}, "cannot find mine:nothing"),
    "no editor": ({"pipeline": "mine:__name__"}, "mine:__name__ is str"),
    "no folder": ({"pipeline": "not/there"}, "--download allows downloads"),
    "no pipeline": ({"pipeline": "."}, "has no model_index.json"),
    "size": ({"pipeline": "sceneedit"}, "sceneedit edits images of 32 x 32, got 8 x 8"),
    "no picture": ({"sources": ["bad.png"]}, "bad.png"),
    "no file": ({"sources": ["gone.png"]}, "gone.png: No such file"),
    "a file for a folder": ({"out": "file"}, "file"),
    "a box outside": ({"boxes": '{"cup": [[0, 0, 1, 900]]}'}, "lies outside"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_before_the_work(case: str, edit: Edit, session: Session, monkeypatch) -> None:
    monkeypatch.chdir(session.path)
    (session.path / "bad.png").write_bytes(b"no picture")
    (session.path / "file").touch()
    options, message = REFUSED[case]
    result = edit(**options, code=2, says=message)
    assert (result.stdout, session.painter.calls) == ("", [])


def pipeline_of(folder: Path, name: str) -> Path:
    """A folder as `save_pretrained` leaves it, without any weights."""
    folder.mkdir()
    (folder / "model_index.json").write_text(json.dumps({"_class_name": name, "_diffusers_version": "0.42.1"}))
    return folder


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("FluxPipeline", "FluxPipeline, which does not edit images by instruction: it takes no image"),
        ("NoPipeline", "NoPipeline, which diffusers"),
        ("FluxImg2ImgPipeline", "the supported pipelines are FluxKontextPipeline"),
        ("FluxKontextPipeline", "takes one source image, got 2"),
    ],
)
def test_a_pipeline_that_cannot_edit_this_is_refused_without_its_weights(kind, message, edit, session):
    folder = pipeline_of(session.path / "pipeline", kind)
    edit(pipeline=folder, sources=["source.png", "other.png"], code=2, says=message)
    if kind == "FluxKontextPipeline":
        edit(pipeline=folder, pipeline_arg="num_inference_step=4", code=2, says="did you mean num_inference_steps")
    inverting = pipeline_of(session.path / "inverting", "LEditsPPPipelineStableDiffusion")  # takes an image to invert
    sample = edit_request("remove the hat", session.path / "source.png")
    EditorSpec(str(inverting), {"num_inversion_steps": 4, "edit_guidance_scale": 5.0}).check(sample)


def test_a_pipelines_files_import_no_module(edit: Edit, session: Session) -> None:
    folder = pipeline_of(session.path / "pipeline", "FluxKontextPipeline")
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps({**index, "vae": ["hostile", "Vae"]}))
    (session.path / "hostile.py").write_text("from pathlib import Path; Path('ran').touch()")
    edit(pipeline=folder, code=2, says=("the vae of", "add `--trust hostile`"))
    assert not (session.path / "ran").exists()


def test_without_diffusers_the_extra_is_named_and_a_function_needs_none(edit, session, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    for name in ("sceneedit", "some/pipeline"):
        edit(pipeline=name, code=2, says=install_command("diffusers"))
    session.mine.function = darker
    edit(pipeline="mine:function", selector="best-of?n=2", code=0)
    assert len(session.report["selections"][0]["candidates"]) == 2


def darker(image: PIL.Image.Image, instruction: str, seed: int) -> PIL.Image.Image:
    return image.point(lambda value: value // (2 + seed))


def test_a_pipeline_is_loaded_from_its_folder_and_called_with_the_settings(edit: Edit, session: Session) -> None:
    from ..pipelines import kontext

    kontext(session.path / "pipeline")
    PIL.Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(session.path / "source.png")
    settings = ["height=32", "width=32", "max_area=1024", "_auto_resize=false", "num_inference_steps=2"]
    more = [part for setting in settings for part in ("--pipeline-arg", setting)]
    options: Any = {
        "pipeline": session.path / "pipeline",
        "reward": session.path / "cheap.toml",
        "selector": "best-of?n=3",
    }
    edit(*more, **options, code=0)
    assert Image.open(session.out / "edited.png").size == (32, 32)
    assert session.report["spent"]["nfe"] == 3 * 2
    assert "FluxKontextPipeline" in session.report["config"]["editor"]


def test_the_tiny_editor_is_at_hand(edit: Edit, session: Session) -> None:
    PIL.Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save(session.path / "source.png")
    options: Any = {"pipeline": "sceneedit", "reward": session.path / "cheap.toml", "selector": "best-of?n=2"}
    edit(**options, instruction="Add red circle", code=0)
    assert session.report["spent"]["nfe"] == 2 * EVALUATIONS


def test_a_function_may_make_the_editor(edit: Edit, session: Session) -> None:
    session.mine.made = lambda: session.painter
    edit(pipeline="mine:made", code=0)
    assert session.report["spent"]["nfe"] == session.painter.evaluated == 6 * EVALUATIONS


def test_the_sheet_holds_all_candidates_the_chosen_one_first(edit: Edit, session: Session) -> None:
    session.painter.bad_seeds = {4}
    edit(instruction="make <b>it</b> blue")
    page = Page((session.out / "candidates.html").read_text(encoding="utf-8"))
    words = re.sub(r"\s+", " ", page.words)
    (selection,) = session.report["selections"]
    assert page.tags.count("article") == 6
    assert page.tags.count("img") == len(page.loads) == 2 + 5
    assert all(source.startswith("data:image/jpeg;base64,") for source in page.loads)
    assert "b" not in page.tags
    assert f"chosen: candidate {selection['winner']}" in words
    assert words.index("1 chosen") < words.index("no paint for [4]")
    for text in ["make <b>it</b> blue", "48 NFE, 5 judge calls", "BestOfN(n=6)", session.painter.id, "following"]:
        assert text in words


def test_the_sheet_shows_steps_previews_and_comparisons(tmp_path: Path) -> None:
    from editcritic.benchmarks.report.ranking_sheet import write_selection_sheet
    from editcritic.reward import Score
    from editcritic.verifiers import Candidate, Selection
    from editcritic.verifiers.selection import Cost, Preview, Selections, TournamentMatch

    from ..verifiers.numpy_editor import graded, scenes

    (request,) = scenes(1)
    picture = Image.of(np.zeros((8, 8, 3), np.uint8))
    sample = replace(request, edited=picture)
    preview = Preview(3, picture, Score.of(0.25))
    first = Candidate(
        "1-0", NoiseSpec(0), sample, Score.of(0.5), Cost(8, 1, 0.1), previews=(preview, replace(preview, step=8))
    )
    stopped = Candidate(
        "1-1", NoiseSpec(1), sample, Score.abstained("stopped"), Cost(3), "stopped", previews=(preview,)
    )
    second = Candidate(
        "2-0", NoiseSpec(2), sample, Score.of(0.75), Cost(8), step=2, parent="1-0", tiebreak_score=Score.of(0.125)
    )
    match = TournamentMatch("1-0", "1-1", Score.of(1.0, "it is better"), Cost(0, 2))
    selection = Selection(
        request, second, "because", (first, stopped, second), Cost(24), matches=(match,),
        steps=(first, second), stop_reason="no time", notes=("a note",),
    )  # fmt: skip
    write_selection_sheet(tmp_path / "s.html", Selections((selection,)), graded().card, {"seed": "7"})
    page = Page((tmp_path / "s.html").read_text(encoding="utf-8"))
    words = re.sub(r"\s+", " ", page.words)
    for text in ["Step 1: 2 candidates", "Step 2: 1 candidate,", "continues 1-0", "3: 0.250", "no time", "a note",
                 "tie-breaker: 0.1250", "1 comparison ", "it is better", "seed7"]:  # fmt: skip
        assert text in words
    assert page.tags.count("img") == 2 + 2 + 3 + 3


def test_where_none_is_chosen_none_has_a_rank() -> None:
    from editcritic.benchmarks.report.ranking_sheet import list_attempts
    from editcritic.reward.queries import Abstention
    from editcritic.verifiers import BestOfN, select

    from ..reward.fakes import Fake
    from ..verifiers.numpy_editor import gated, judge, scenes

    def ranks(rejects: float, expert: Fake) -> list[int | None]:
        reward = gated(lambda picture: read(picture) < rejects, expert)
        (selection,) = select(BestOfN(4), scenes(1), editor=Painter(), reward=reward)
        return [attempt.rank for attempt in list_attempts(selection)]

    assert (ranks(0.7, judge()), ranks(1.1, judge())) == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert ranks(0.7, judge(rule=lambda query: Abstention("too bright"))) == [None] * 4


@pytest.mark.parametrize("name", entry_point_names("editcritic.selectors"))
def test_every_selector_is_found_by_name_and_edits(name: str, edit: Edit, session: Session) -> None:
    spec = {"retry": "retry?verifier=0.1&max_attempts=3"}.get(name, name)  # which has no default
    edit("--instruction", "and add a hat", selector=spec, code=0)
    (selection,) = session.report["selections"]
    assert read(Image.open(session.out / "edited.png")) == pytest.approx(selection["value"])
    assert [f"step-{number}.png" for number, _ in enumerate(selection["steps"], 1)] == [
        path.name for path in sorted(session.out.glob("step-*.png"))
    ]


def test_a_selector_that_stops_half_way_needs_an_editor_that_can(edit: Edit, session: Session) -> None:
    session.mine.plain = Plain(session.painter)
    for name in ("halving", "zero-order", "paths", "particles"):
        edit(pipeline="mine:plain", selector=name, code=2, says="plain painter")
    assert session.painter.calls == []
