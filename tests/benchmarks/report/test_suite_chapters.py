"""`bench report` with results of several suites: real suites in their published layouts, scored by real runs."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.report.results_loading import load_result_folders
from editcritic.benchmarks.report.suites_page import SuiteReport, are_of_several_suites, judge_text
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.run.suite_loading import load_suite
from editcritic.benchmarks.suites.results import load_results

from ..chromium import needed, opened
from ..conftest import Command
from ..run.all_suites import HOW, everybody
from ..suites.dlebench import layout as dlebench
from ..suites.tiny_suite import outputs

SCENES = "sceneedit?prompts=9"
SMALL = "dlebench?mode=plain"
COUNT = ("--bootstrap-samples", "100")


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`results/one` with two suites and `results/two` with SceneEdit alone, of which one output is missing."""
    folder = tmp_path_factory.mktemp("suites")
    dlebench.written(folder / "data" / "dlebench", 6)
    (folder / "made").mkdir()
    for editor, specs in {"one": (SCENES, SMALL), "two": (SCENES,)}.items():
        for spec in specs:
            name = spec.partition("?")[0]
            suite = load_suite(spec, folder / "data" / "dlebench" if spec == SMALL else None)
            made = outputs(folder / "made" / editor / name, suite)
            if editor == "two":
                next(iter(sorted(made.rglob("*.png")))).unlink()
            out = folder / "results" / editor / name
            run_suite(suite, made, editor=editor, experts=everybody(), out=out, options=HOW)
            facts = json.loads((out / "run.json").read_text())
            facts["invocation"] = {"data": "../../../data/dlebench"} if spec == SMALL else {}
            (out / "run.json").write_text(json.dumps({**facts, "finished_at": "2026-11-24T01:02:03+00:00"}))
    return folder


@pytest.fixture
def results(scored: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(scored, tmp_path / "copy")
    return tmp_path / "copy" / "results"


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the provenance of a result."""
    document = json.loads((folder / "result.json").read_text())
    change(document["provenance"])
    (folder / "result.json").write_text(json.dumps(document))


def report_of(results: Path) -> SuiteReport:
    return SuiteReport.of(load_result_folders([results]), count=100)


def test_the_summary_has_the_numbers_of_each_suite_s_own_report(editcritic: Command, results: Path) -> None:
    document = json.loads(editcritic("bench", "report", results, "--json", *COUNT).stdout)
    rows = {(row["suite"], row["editor"]): row for row in document["summary"]}
    assert [*rows] == [("dlebench", "one"), ("sceneedit", "one"), ("sceneedit", "two")]
    for suite, folders in (("dlebench", ["one"]), ("sceneedit", ["one", "two"])):
        paths = [results / editor / suite for editor in folders]
        own = json.loads(editcritic("bench", "report", *paths, "--json", *COUNT).stdout)["tables"]
        for editor in folders:
            row = rows[suite, editor]
            cell = own[0]["rows"][editor][row["headline"]]
            assert {name: row[name] for name in ("value", "low", "high")} == {
                name: cell[name] for name in ("value", "low", "high")
            }
        chapter = next(one for one in document["suites"] if one["suite"] == suite)
        assert chapter["tables"] == own
    assert rows["sceneedit", "two"]["value"] is not None


def test_items_are_counted_by_what_became_of_them(results: Path) -> None:
    for row in report_of(results).rows:
        counted = load_results(results / row.editor / row.chapter.comparison.suite.name).rows
        failed = [one for one in counted if any(score.status == "failed" for score in one.scores.values())]
        missing = [one for one in counted if one.missing_reason]
        assert (row.items, row.failed, row.missing) == (len(counted), len(failed), len(missing))
        assert row.scored + row.failed + row.no_value + row.missing == row.items
        assert row.missing == (row.editor == "two")


def test_judge_protocol_and_date_are_those_of_the_run(results: Path) -> None:
    rows = {(row.chapter.name, row.editor): row for row in report_of(results).rows}
    assert {row.judge for row in rows.values()} == {"drawn@1"}
    assert {row.date for row in rows.values()} == {"2026-11-24"}
    assert rows["dlebench", "one"].protocol == "plain (default)"
    (results / "one" / "dlebench" / "run.json").unlink()
    loaded = load_result_folders([results])
    report = SuiteReport.of(loaded, results.parent / "data", count=100)
    assert next(row.date for row in report.rows if row.chapter.name == "dlebench") == ""


def test_several_judges_are_named_with_their_roles() -> None:
    experts = {"judge": {"id": "a@1"}, "judge.quality": {"id": "b@1"}, "detector": {"id": "c@1"}}
    assert judge_text({"experts": experts}) == "judge: a@1; judge.quality: b@1"
    assert judge_text({"experts": {"judge": {"id": "a@1"}, "judge.quality": {"id": "a@1"}}}) == "a@1"
    assert judge_text({"experts": {"detector": {"id": "c@1"}}}) == ""
    assert judge_text({"experts": ["judge"]}) == ""


def test_results_are_named_by_folders_of_any_depth_or_by_their_files(results: Path) -> None:
    one = [loaded.folder for loaded in load_result_folders([results])]
    files = [results / "one" / "dlebench" / "result.json", results / "one" / "sceneedit" / "scores.jsonl"]
    assert sorted(one) == sorted(
        loaded.folder for loaded in load_result_folders([*files, results / "two" / "sceneedit"])
    )


def test_files_of_a_suite_that_are_called_like_ours_are_no_results(results: Path) -> None:
    own = results / "one" / "dlebench" / "authors"
    own.mkdir()
    (own / "result.json").write_text("{}")
    assert [loaded.folder.name for loaded in load_result_folders([results / "one"])] == ["dlebench", "sceneedit"]
    (results / "one" / "dlebench" / "result.json").unlink()  # a run that ended early
    assert [loaded.folder.name for loaded in load_result_folders([results / "one"])] == ["sceneedit"]


def test_what_is_not_there_and_what_differs_is_said(results: Path) -> None:
    changed(results / "two" / "sceneedit", lambda provenance: provenance["experts"]["judge"].update(id="other@1"))
    changed(results / "one" / "dlebench", lambda provenance: provenance.update(complete=False))
    notes = report_of(results).notes
    assert notes[0].startswith("Suites differ in items, metrics and scales")
    assert "DLEBench: no results of two." in notes
    assert "DLEBench, one: partial results; the run ended early." in notes
    assert any("different judges" in note and "one: drawn@1; two: other@1" in note for note in notes)


def test_results_under_another_protocol_stand_apart(results: Path) -> None:
    changed(results / "two" / "sceneedit", lambda provenance: provenance.update(protocol="official"))
    report = report_of(results)
    assert [(chapter.name, chapter.comparison.editors) for chapter in report.chapters] == [
        ("dlebench", ("one",)),
        ("sceneedit", ("one",)),
        ("sceneedit-2", ("two",)),
    ]
    assert report.chapters[2].title == "SceneEdit (protocol=official)"
    assert any("(protocol=official) stands apart" in note and "protocol is paper" in note for note in report.notes)
    assert not any("SceneEdit: no results" in note for note in report.notes)


def test_one_editor_s_two_options_of_one_suite_are_two_chapters(editcritic, results, tmp_path):
    suite = load_suite("sceneedit?prompts=9&seed=8")
    made = outputs(tmp_path / "made", suite)
    other = tmp_path / "results" / "scenes-8"
    run_suite(suite, made, editor="one", experts=everybody(), out=other, options=HOW)
    page = tmp_path / "page.html"
    result = editcritic("bench", "report", results / "one" / "sceneedit", other, "-o", page, "--json", *COUNT, code=0)
    document = json.loads(result.stdout)
    assert [(one["name"], one["editors"]) for one in document["suites"]] == [
        ("sceneedit", ["one"]),
        ("sceneedit-2", ["one"]),
    ]
    assert any(note.startswith("SceneEdit (seed=8) stands apart") for note in document["notes"])
    assert "SceneEdit (seed=8)" in page.read_text(encoding="utf-8")
    compared = editcritic("bench", "report", results / "two" / "sceneedit", other)
    assert compared.exit_code == 2  # two editors, which the user wants to compare
    assert "cannot be compared: seed is 7 and 8" in compared.stderr


def test_the_default_protocol_is_no_variant_of_itself(results: Path) -> None:
    sceneedit = results / "one" / "sceneedit"
    shutil.copytree(sceneedit, results / "again")
    changed(results / "again", lambda provenance: provenance.update(protocol="paper"))
    assert not are_of_several_suites(load_result_folders([sceneedit, results / "again"]))
    changed(results / "again", lambda provenance: provenance.update(protocol="official"))
    assert are_of_several_suites(load_result_folders([sceneedit, results / "again"]))


def test_results_without_their_data_are_named_and_the_others_shown(editcritic: Command, results: Path) -> None:
    shutil.rmtree(results.parent / "data")
    result = editcritic("bench", "report", results, "--json", *COUNT, code=1)
    document = json.loads(result.stdout)
    assert [row["suite"] for row in document["summary"]] == ["sceneedit", "sceneedit"]
    assert any(note.startswith("dlebench, one: not shown: dlebench needs its data") for note in document["notes"])


def test_data_of_all_suites_are_found_below_one_folder(editcritic: Command, results: Path) -> None:
    elsewhere = (results.parent / "data").rename(results.parent / "elsewhere")
    editcritic("bench", "report", results, "--data", elsewhere, "--json", *COUNT, code=0)


def test_a_suite_that_is_not_installed_is_not_run(editcritic: Command, results: Path) -> None:
    changed(results / "one" / "dlebench", lambda provenance: provenance.update(suite="os:system"))
    result = editcritic("bench", "report", results, "--json", *COUNT, code=1)
    assert any("os:system" in note and "--trust" in note for note in json.loads(result.stdout)["notes"])


def test_if_nothing_can_be_shown_the_first_reason_is_told(editcritic: Command, results: Path) -> None:
    for folder in sorted(results.glob("*/*")):
        changed(folder, lambda provenance: provenance.update(data_digest="another"))
    editcritic("bench", "report", results, code=2, says="none of the results can be shown")


def test_tables_are_printed_and_written_by_suite(editcritic: Command, results: Path, tmp_path: Path) -> None:
    shown = editcritic("bench", "report", results, "--tables", tmp_path / "tables", *COUNT).stdout
    assert shown.startswith("**Summary**")
    assert "## DLEBench" in shown
    assert (tmp_path / "tables" / "sceneedit" / "leaderboard.csv").is_file()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "tables" / "summary.csv").read_text())))
    assert [row["editor"] for row in rows] == ["one", "one", "two"]
    comma = editcritic("bench", "report", results, "--format", "csv", "--table", "leaderboard", *COUNT).stdout
    names = {row["table"] for row in csv.DictReader(io.StringIO(comma))}
    assert names == {"dlebench/leaderboard", "sceneedit/leaderboard"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--table", "unknown"), "there is no table unknown: the tables are"),
        (("--suite", "sceneedit"), "are for results of one suite"),
        (("-o", "{}/page.html", "--one-file"), "are for results of one suite"),
    ],
)
def test_mistakes_are_told_in_a_line(editcritic, results, options, message):
    editcritic("bench", "report", results, *(one.replace("{}", str(results)) for one in options), code=2, says=message)


def test_the_page_is_one_file_without_scripts(editcritic: Command, results: Path, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    page = tmp_path / "page" / "report.html"
    assert editcritic("bench", "report", results, "-o", page, *COUNT).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert (list(page.parent.iterdir()), re.findall(r'(?:src|href)="(?!#)[^"]*"', text)) == ([page], [])
    assert "<script" not in text
    assert "default-src 'none'" in text
    anchors = re.findall(r'href="#([^"]*)"', text)
    assert anchors == ["summary", "dlebench", "sceneedit"]
    names = re.findall(r' id="([^"]*)"', text)
    assert len(names) == len(set(names))
    assert {*anchors, "dlebench-leaderboard", "sceneedit-leaderboard", "sceneedit-tables"} <= set(names)


@needed
def test_the_page_shows_summary_tables_and_what_cannot_be_compared(editcritic, results, tmp_path):
    page = tmp_path / "report.html"
    assert editcritic("bench", "report", results, "-o", page, *COUNT).exit_code == 0
    shown = opened(page)
    assert (shown.title, shown.console) == ("2 editors: 2 suites", [])
    summary = shown.text("summary")
    assert "drawn@1" in summary
    assert "DLEBench: no results of two." in summary
    assert "2026-11-24" in summary
    assert "truth-followed" in shown.text("sceneedit-leaderboard")
