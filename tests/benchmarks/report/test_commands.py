"""`bench report` and `bench compare` as a user runs them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from .synthetic_results import Drawn

Command = Callable[..., Result]

SUITE = ("--suite", f"{Drawn.__module__}:Drawn")


def test_tables_side_by_side_in_three_forms(editcritic: Command, folders: Path, tmp_path: Path) -> None:
    markdown = editcritic("bench", "report", folders, *SUITE)
    assert markdown.exit_code == 0
    assert "**Share of bootstrap samples in which an editor is first**" in markdown.stdout
    comma = editcritic("bench", "report", folders / "good", folders / "bad", *SUITE, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(comma.stdout)))
    assert {row["row"] for row in rows if row["table"] == "leaderboard"} == {"good", "bad"}
    latex = editcritic("bench", "report", folders, *SUITE, "--format", "latex", "--table", "types")
    assert latex.stdout.startswith("% types: By type\n\\begin{tabular}{lrr}")
    editcritic("bench", "report", folders, *SUITE, "--tables", tmp_path / "tables", code=0)
    assert {path.suffix for path in (tmp_path / "tables").glob("leaderboard.*")} == {".md", ".csv", ".tex"}


def test_one_document_of_json_in_which_results_that_are_named_twice_are_one(editcritic: Command, folders: Path) -> None:
    document = json.loads(editcritic("bench", "report", folders, *SUITE, "--json").stdout)
    assert document["editors"] == ["bad", "good"]
    assert document["tables"][0]["rows"]["good"]["following turn 1"]["count"] > 0
    twice = editcritic("bench", "report", folders / "good", folders, folders / "good/result.json", *SUITE, "--json")
    assert json.loads(twice.stdout)["editors"] == ["good", "bad"]


def test_a_report_finds_pictures_where_the_run_found_them(editcritic, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "report.html"
    result = editcritic("bench", "report", folders, *SUITE, "-o", page, "--folder", "--json", code=0)
    document = json.loads(result.stdout)
    assert (document["report"], document["folder"]) == (str(page), str(tmp_path / "report_files"))
    assert len(list((tmp_path / "report_files").glob("*.webp"))) == 5 + 1 + 15
    assert "Latency" in page.read_text(encoding="utf-8")


def test_a_comparison_tells_whether_it_matters(editcritic: Command, folders: Path) -> None:
    editcritic("bench", "compare", folders / "bad", folders / "good", *SUITE, code=0, shows="significant")
    data = json.loads(editcritic("bench", "compare", folders / "bad", folders / "good", *SUITE, "--json").stdout)
    assert (data["a"], data["b"], data["items"]["both"]) == ("bad", "good", 15)
    assert data["provenance"] == {"editor": ["bad", "good"]}


def test_a_comparison_does_without_a_suite_that_is_not_there(editcritic: Command, folders: Path) -> None:
    result = editcritic("bench", "compare", folders / "bad", folders / "good")
    assert result.exit_code == 0
    assert "compared without the suite's tables" in result.stderr
    assert "consistency" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "{}", "--suite", "nothing:Here"), "cannot find nothing:Here"),
        (("report", "{}/good/none"), "/result.json): give one that `bench run -o` wrote"),
        (("report", "{}", *SUITE, "--format", "word"), "expected one of markdown, csv, latex"),
        (("report", "{}", *SUITE, "--table", "unknown"), "there is no table unknown: the tables are leaderboard"),
        (("report", "{}", "--suite", f"{SUITE[1]}?count=4"), "differ from those of the results"),
        (("report", "{}", *SUITE, "--outputs", "good={}"), "are for the page: give -o"),
        (("report", "{}", *SUITE, "-o", "{}/r.html", "--outputs", "good"), "give an editor's name and a folder"),
        (("report", "{}", *SUITE, "-o", "{}/r.html", "--outputs", "good={}/none"), "there is no folder"),
        (("report", "{}", *SUITE, "-o", "{}/none/report.html"), "make it first"),
        (("compare", "{}/bad", *SUITE), "give two result folders A and B"),
        (("compare", "{}", "{}/bad", *SUITE), "expected two folders of results, got 3"),
    ],
)
def test_mistakes_are_told_in_a_line(editcritic, folders, arguments, message):
    editcritic("bench", *(argument.replace("{}", str(folders)) for argument in arguments), code=2, says=message)
