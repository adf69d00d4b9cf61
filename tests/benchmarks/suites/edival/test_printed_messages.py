"""What `bench run`, `report` and `compare` print of EdiVal: protocol, what was not computed, missing outputs, modes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from editcritic.benchmarks.run.run_settings import RunSettings
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.suites.complexedit.suite import ComplexEdit
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.benchmarks.suites.edival.suite import PROTOCOLS, EdiVal
from editcritic.benchmarks.suites.missing_values import suite_tables
from editcritic.benchmarks.suites.suite import protocol_text
from editcritic.cli.options import SuiteProtocol
from editcritic.reward import Expert
from editcritic.reward.queries import Failure, Rate
from editcritic.reward.queries.answers import Outcome

from . import layout

Command = Callable[..., Result]

EXPERTS = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
COUNT = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and outputs of both modes, in the published layout."""
    folder, chains = tmp_path_factory.mktemp("edival"), layout.chains(COUNT)
    layout.write_data(folder / "data", chains)
    for mode in ("multipass", "singlepass"):
        layout.write_outputs(folder / "mine", chains, mode)
    return folder


@pytest.fixture
def run(editcritic, folder, tmp_path):
    """`bench run` with options; what it printed, and the folder of its results."""

    def scored(suite: str, name: str, *options: object, outputs: Path | None = None) -> tuple[Result, Path]:
        out = tmp_path / name
        words = ("--data", folder / "data", "--outputs", outputs or folder / "mine", "--experts", EXPERTS, "-o", out)
        return editcritic("bench", "run", suite, *words, *options), out

    return scored


# -- protocols ---------------------------------------------------------------------------------------------------------


def test_a_run_says_its_default_protocol_and_how_to_get_the_released_code(run):
    printed = run("edival", "default", "--metric", "if")[0].stderr
    assert "the protocol of edival is paper (" in printed
    assert "others, by --protocol: official (as the released code computes all)" in printed
    assert "the protocol of edival" not in run("edival", "chosen", "--metric", "if", "--protocol", "official")[0].stderr


def test_help_names_the_protocols_and_each_suite_computes_those_that_it_names(folder):
    (option,) = (part for part in SuiteProtocol.__metadata__ if hasattr(part, "help"))  # type: ignore[attr-defined]
    suite = EdiVal(folder / "data")
    default = next(iter(suite.protocols))
    assert list(suite.protocols) == list(PROTOCOLS)
    assert f"edival, sceneedit: {default} (default)" in option.help
    assert all(name in option.help and suite.metrics(name) for name in suite.protocols)
    assert suite.metrics() == suite.metrics(default)
    for kind, modes in ((ComplexEdit, ("numeric", "expected")), (DleBench, ("oracle", "tools"))):
        for mode in modes:
            other: Any = kind.__new__(kind)
            other.mode = mode
            assert next(iter(other.protocols)) == mode
            assert f"is {mode} (" in protocol_text(other.name, other.protocols)


# -- what was not computed ---------------------------------------------------------------------------------------------


def test_what_was_not_asked_for_is_left_out_and_named(run):
    result, out = run("edival", "if", "--metric", "if")
    assert "none of" not in result.stdout
    assert "| | IF T1 | IF T2 | IF T3 |\n" in result.stdout
    left_out = "CC T1, CC T2, CC T3, O T1, O T2, O T3, O over turns"
    note = f"Not computed: cc, vq (not asked for). Left out, since they need it: {left_out}."
    assert note in result.stdout
    (written,) = out.rglob("leaderboard.md")
    assert note in written.read_text(encoding="utf-8")


def test_a_table_of_which_nothing_was_computed_is_left_out(editcritic, run):
    result, out = run("edival", "vq", "--metric", "vq")
    assert result.stdout.startswith("**Visual quality, multipass**")
    assert "Not computed: if, cc (not asked for)" in result.stdout
    report = editcritic("bench", "report", out, out)
    assert report.exit_code == 0, report.stderr
    assert report.stdout.startswith("**Visual quality, multipass**")


class Refuses(Expert):
    """Rates nothing."""

    id = "refuses@1"
    kinds = (Rate,)

    def __call__(self, queries: Sequence[Rate]) -> list[Outcome]:
        return [Failure("it refuses") for _ in queries]


def test_what_failed_everywhere_is_missing_and_not_left_out(folder):
    """Ratings have no bounds."""
    experts = {**scene_experts(), "preference": Refuses()}
    suite, options = EdiVal(folder / "data"), RunSettings(max_failure_rate=1.0)
    results = run_suite(suite, folder / "mine", experts=experts, metrics=["vq"], options=options)
    tables = {table.name: table for table in suite_tables(suite, results)}
    assert [(one.value, one.num_missing) for one in tables["quality"].rows["VQ"].values()] == [(None, COUNT)] * 3
    (note,) = (note for table in tables.values() for note in table.notes if note.startswith("Not computed: if, cc"))
    assert note.endswith(", O T1, O T2, O T3, O over turns.")


def test_what_no_expert_is_bound_for_says_so(editcritic, folder, tmp_path):
    words = ("--data", folder / "data", "--outputs", folder / "mine", "-o", tmp_path / "out")
    result = editcritic("bench", "run", "edival", *words)  # without an expert for visual quality
    assert "Not computed: " in result.stdout
    assert "vq (no expert is bound to preference)" in result.stdout


# -- missing outputs ---------------------------------------------------------------------------------------------------


def test_a_folder_of_another_layout_is_told_what_is_looked_for(run, folder, tmp_path):
    (tmp_path / "flat").mkdir()
    for name in ("b.png", "a.png"):
        (tmp_path / "flat" / name).write_bytes((folder / "mine/multipass/0_input_raw_turn_1.png").read_bytes())
    result, _ = run("edival", "flat-out", "--metric", "if", outputs=tmp_path / "flat")
    assert result.exit_code == 1
    looked_for = "edival looks for multipass/0_input_raw_turn_1.png, multipass/0_input_raw_turn_2.png, "
    assert looked_for in result.stderr
    assert "holds a.png, b.png" in result.stderr
    assert "| no mean: between 0.00 and 100.00 with what is missing |" in result.stdout
    (tmp_path / "empty").mkdir()
    assert "holds no file" in run("edival", "empty-out", "--metric", "if", outputs=tmp_path / "empty")[0].stderr


# -- two modes ---------------------------------------------------------------------------------------------------------


def test_of_two_modes_the_mode_is_told_and_the_rest_on_request(editcritic, run):
    _, multi = run("edival", "multi")
    _, single = run("edival?mode=singlepass", "single", "--editor-name", "other")
    report = editcritic("bench", "report", multi, single)
    assert report.exit_code == 2
    assert "cannot be compared: mode is multipass and singlepass; " in report.stderr
    assert "`editcritic bench compare A B --settings` lists all " in report.stderr
    compared = editcritic("bench", "compare", multi, single)
    assert (compared.exit_code, compared.stdout) == (2, "")
    assert "the results have no common items: mode is multipass and singlepass; " in compared.stderr
    listed = editcritic("bench", "compare", multi, single, "--settings")
    for name in ("suite_options.mode", "suite_options.compression", "metrics.if.use", "metric_signatures.cc"):
        assert name in listed.stdout


def test_of_two_protocols_the_protocol_is_told(editcritic, run):
    _, paper = run("edival", "paper", "--metric", "if")
    _, named = run("edival", "named", "--metric", "if", "--protocol", "paper")
    _, official = run("edival", "official", "--metric", "if", "--protocol", "official", "--editor-name", "other")
    report = editcritic("bench", "report", paper, official)
    assert "cannot be compared: protocol is paper (the default) and official; " in report.stderr
    assert editcritic("bench", "report", paper, named).exit_code == 0
    short, full = (editcritic("bench", "compare", paper, official, *more) for more in ((), ("--settings",)))
    assert short.exit_code == full.exit_code == 0
    assert "metrics.if.protocol" not in short.stdout
    assert "that follow from these; --settings lists them" in short.stdout
    assert "metrics.if.protocol" in full.stdout
