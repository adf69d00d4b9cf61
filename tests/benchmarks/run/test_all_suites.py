"""`bench run all`: which suites are scored, what they share, and what one of them cannot do to the others."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.suite_loading import find_suites, load_suite
from editcritic.benchmarks.suites.results import Results, load_results
from editcritic.benchmarks.suites.tables import Table
from editcritic.cli.app import app
from editcritic.reward.queries.specs import Spec

from ..conftest import Command
from ..suites.complexedit import layout as complexedit
from ..suites.dlebench import layout as dlebench
from ..suites.tiny_suite import Toy, outputs
from .all_suites import EVERYBODY
from .counting_experts import files

TOY = "tests.benchmarks.suites.tiny_suite:Toy"
BROKEN = "tests.benchmarks.run.test_all_suites:Broken"


class Broken(Toy):
    """A suite whose tables have a bug."""

    name: ClassVar[str] = "broken"

    def tables(self, results: Results) -> list[Table]:
        raise KeyError("a bug of the suite")


class WithProtocol(Toy):
    """A suite that has a protocol."""

    name: ClassVar[str] = "with-protocol"

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        if protocol not in (None, "official"):
            raise InputError(f"with-protocol has no protocol {protocol!r}")
        return super().metrics()


@pytest.fixture
def made(tmp_path):
    """The outputs of an editor for two toy suites: the pictures of the small one are also in the large one."""
    outputs(tmp_path / "mine" / "small", Toy())
    outputs(tmp_path / "mine" / "large", Toy(count=6))
    return tmp_path / "mine"


def scored(made: Path, *options: object, paid: str = "paid") -> tuple[object, ...]:
    """The arguments of a run of all with a judge that logs what it is asked."""
    judge = f"judge=tests.benchmarks.run.counting_experts:Paying?paid={made.parent / paid}"
    out = made.parent / "results"
    return "bench", "run", "all", "--outputs", made, "-o", out, "--experts", judge, "--json", *options


def run_all(editcritic: Command, made: Path, *options: object) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON."""
    result = editcritic(*scored(made, "--data", made.parent / "data", *options))
    return result.exit_code, json.loads(result.stdout)


BOTH = ("--suite", f"small={TOY}", "--suite", f"large={TOY}?count=6")


def asked(made: Path, paid: str = "paid") -> list[str]:
    path = made.parent / paid
    return path.read_text().split() if path.exists() else []


# -- what is scored ---------------------------------------------------------------------------------------------------


def test_published_layouts_are_found_by_the_names_of_the_registry(editcritic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dlebench.written(Path("data/dlebench"), 4)
    complexedit.on_hub(Path("data/complex-edit"))
    outputs(Path("made/dlebench"), load_suite("dlebench?mode=plain", Path("data/dlebench")))
    outputs(Path("made/sceneedit"), load_suite("sceneedit?prompts=9"))
    outputs(Path("made/edival"), Toy())
    result = editcritic("bench", "run", "all", "--outputs", "made", "-o", "results/mine", "--experts", EVERYBODY)
    assert result.exit_code == 1  # SceneEdit has 225 prompts, and outputs of nine
    lines = {words[0]: line for line in result.stdout.splitlines() if (words := line.split())}
    assert [lines["dlebench"].split()[at] for at in (2, 4)] == ["4", "0"]
    assert [lines["sceneedit"].split()[at] for at in (1, 2, 4)] == ["incomplete", "225", "216"]
    assert "left out" in lines["edival"]
    assert "--data" in lines["edival"]  # its outputs are there
    assert "there is no folder made/complex-edit" in lines["complex-edit"]
    assert "there is no folder made/i2ibench" in lines["i2ibench"]
    assert "editcritic: 2 of " in result.stdout
    assert sorted(path.parent.name for path in Path("results/mine").glob("*/result.json")) == ["dlebench", "sceneedit"]
    assert load_results("results/mine/dlebench").editor == "made"


def test_data_may_be_in_the_folder_of_the_suite_or_in_that_of_its_other_name(tmp_path):
    for name in ("data/edival", "data/mine", "made"):
        (tmp_path / name).mkdir(parents=True)
    texts = ("edival", "single=edival?mode=singlepass", "mine=edival")
    found = find_suites(texts, tmp_path / "data", tmp_path / "made", tmp_path / "out")
    assert [(one.name, one.spec, one.data and one.data.name, one.out.name) for one in found] == [
        ("edival", "edival", "edival", "edival"),
        ("single", "edival?mode=singlepass", "edival", "single"),
        ("mine", "edival", "mine", "mine"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--suite", "edival", "--suite", "edival?mode=singlepass"), "two suites edival: name one of them"),
        (("--suite", "../up=edival"), "give a suite, as in edival?mode=singlepass, or NAME=SUITE"),
        (("--suite", f"{TOY}?count=2"), "or NAME=SUITE"),
        (("--metric", "edival-if"), "metrics: `bench run all` takes what holds for every suite"),
        (("--journal", "elsewhere"), "journal: `bench run all`"),
        (("--write-lock", "lock.toml"), "a lock is of one suite"),
    ],
)
def test_mistakes_are_told_in_a_line(editcritic, made, options, message):
    run = ("bench", "run", "--outputs", made, "-o", made.parent / "results")
    editcritic(*run, "all", *options, code=2, says=message)
    assert not (made.parent / "results").exists()
    editcritic(*run, "sceneedit", "--suite", "edival", code=2, says="give it with `bench run all`")
    (made.parent / "empty").mkdir()
    editcritic(*run, "all", "--outputs", made.parent / "empty", code=2, shows="editcritic: 0 of ")


# -- what the suites share --------------------------------------------------------------------------------------------


def test_what_two_suites_ask_is_asked_once_and_the_results_are_those_of_each_alone(editcritic, made):
    code, document = run_all(editcritic, made, *BOTH)
    assert code == 0
    assert [one["state"] for one in document["suites"]] == ["complete", "complete"]
    assert len(asked(made)) == len(set(asked(made))) == 12  # eight of the small suite, all of them in the large one
    judge = f"judge=tests.benchmarks.run.counting_experts:Paying?paid={made.parent / 'alone'}"
    for name, spec in (("small", TOY), ("large", f"{TOY}?count=6")):
        alone = made.parent / "alone-results" / name
        run = ("bench", "run", spec, "--outputs", made / name, "-o", alone, "--editor-name", "mine")
        assert editcritic(*run, "--experts", judge).exit_code == 0
        rows = (alone / "scores.jsonl").read_bytes()
        assert rows == (made.parent / "results" / name / "scores.jsonl").read_bytes()
    assert len(asked(made, "alone")) == 20


def test_the_same_command_asks_nothing_again_and_scores_what_is_new(editcritic, made):
    (made / "large" / "5_turn_2.png").rename(made.parent / "later.png")
    code, document = run_all(editcritic, made, *BOTH)
    assert (code, document["suites"][1]["missing"]) == (1, 1)
    before = files(made.parent / "results" / "small")
    assert len(asked(made)) == 11
    (made.parent / "later.png").rename(made / "large" / "5_turn_2.png")
    code, document = run_all(editcritic, made, *BOTH)
    assert code == 0
    assert len(asked(made)) == 12
    assert files(made.parent / "results" / "small") == before


def test_the_budget_is_one_for_all_suites_and_all_runs(editcritic, made):
    code, document = run_all(editcritic, made, *BOTH, "--budget", "seconds=0.000001")
    assert (code, [one["state"] for one in document["suites"]]) == (1, ["incomplete", "incomplete"])
    assert asked(made) == []
    code, document = run_all(editcritic, made, *BOTH, "--budget", "judge_calls=10")
    assert (code, [one["state"] for one in document["suites"]]) == (1, ["complete", "incomplete"])
    assert "the budget of 10 judge calls is spent (10 by now)" in document["suites"][1]["reason"]
    assert len(asked(made)) == 10
    for calls, ends in ((10, 1), (12, 0)):
        assert run_all(editcritic, made, *BOTH, "--budget", f"judge_calls={calls}")[0] == ends
        assert len(asked(made)) == calls
    settings = made.parent / "results" / "large" / "run.toml"  # repeats its suite alone
    editcritic("bench", "run", "--config", settings, "--trust", settings, code=0)
    assert len(asked(made)) == 12


@pytest.mark.parametrize(("has_data", "state"), [(False, "left out"), (True, "not run")])
def test_a_suite_that_was_asked_for_and_cannot_be_read_is_an_error(has_data, state, editcritic, made):
    outputs(made / "edival", Toy())
    if has_data:
        (made.parent / "data" / "edival").mkdir(parents=True)
    code, document = run_all(editcritic, made, "--suite", "edival", *BOTH)
    states = {one["name"]: (one["state"], one["exit_code"]) for one in document["suites"]}
    assert (code, states) == (2, {"edival": (state, 2), "small": ("complete", 0), "large": ("complete", 0)})
    assert not has_data or "oai_instruction_generation_output.csv" in document["suites"][0]["reason"]


# -- what one suite cannot do to the others ---------------------------------------------------------------------------


def test_a_suite_with_a_bug_does_not_stop_the_others(made):
    outputs(made / "broken", Toy())
    texts = [str(one) for one in scored(made, "--suite", f"broken={BROKEN}", *BOTH)]
    result = CliRunner().invoke(app, texts)
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert [one["state"] for one in document["suites"]] == ["not run", "complete", "complete"]
    assert document["suites"][0]["reason"] == "KeyError: 'a bug of the suite'"
    assert "Traceback" in result.stderr  # a bug, and no mistake of the user
    assert not (made.parent / "results" / "broken" / "result.json").exists()


@pytest.mark.parametrize("name", ["answers.sqlite", "answers.sqlite-wal", "small"])
def test_nothing_is_written_through_a_link(editcritic, made, name):
    elsewhere = made.parent / "elsewhere"
    elsewhere.mkdir() if name == "small" else elsewhere.write_text("precious\n")
    (made.parent / "results").mkdir()
    (made.parent / "results" / name).symlink_to(elsewhere)
    run = ("bench", "run", "all", "--outputs", made, "-o", made.parent / "results", "--suite", f"small={TOY}")
    editcritic(*run, code=2, says="it is a link, and nothing is written through links")
    assert list(elsewhere.iterdir()) == [] if name == "small" else elsewhere.read_text() == "precious\n"


def test_a_protocol_is_for_the_suites_that_have_it(editcritic, made):
    for name, protocol, code, entry, said in (
        ("with", "official", 0, "state", "complete"),
        ("lacks", "other", 2, "reason", "with-protocol has no protocol 'other'"),
    ):
        outputs(made / name, Toy())
        suite = f"{name}={WithProtocol.__module__}:WithProtocol"
        ends, document = run_all(editcritic, made, "--suite", suite, "--protocol", protocol)
        assert (ends, document["suites"][0][entry]) == (code, said)
    assert load_results(made.parent / "results" / "with").provenance["protocol"] == "official"
