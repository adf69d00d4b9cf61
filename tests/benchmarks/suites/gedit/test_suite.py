"""GEdit-Bench end to end: its published layout, an editor's outputs, a judge, tables, official files."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.gedit.suite import TYPES, GEditBench, gedit_tables
from editcritic.benchmarks.suites.results import ResultRow, Results, load_results
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Score
from editcritic.reward.metrics.viescore.metrics import overall
from editcritic.reward.reward import default_experts

from .judge import Grading
from .layout import KEYS, key_of, on_hub, outputs, rows

GOLDEN = Path(__file__).parents[3] / "golden" / "gedit_released_statistics.json"
SMALL = ("subject-add", "text_change")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `data`, all types, and `made`."""
    path = tmp_path_factory.mktemp("gedit")
    on_hub(path / "data")
    outputs(path / "made")
    return path


def run(suite: GEditBench, made: Path, out: Path, protocol: str | None = None) -> dict[str, Any]:
    experts = {**default_experts(), "judge": Grading()}
    run_suite(suite, made, editor="mine", experts=experts, protocol=protocol, out=out)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result


def tables_of(result: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    return {table["name"]: table["rows"] for table in result["tables"]}


def test_it_runs_from_the_published_layout_to_the_tables_with_intervals(folder: Path, tmp_path: Path) -> None:
    result = run(GEditBench(folder / "data"), folder / "made", tmp_path / "out")
    tables = tables_of(result)
    assert list(tables) == [
        "leaderboard", "intersection", "grades", "types-en", "types-cn", "types-en-intersection",
        "types-cn-intersection",
    ]  # fmt: skip
    results = load_results(tmp_path / "out")
    for name, language, chosen in (
        ("types-en", "en", results.filter(language="en")),
        ("types-cn-intersection", "cn", results.filter(language="cn", intersection=1)),
    ):
        expected = {}
        for kind in TYPES:
            scores = [row.scores for row in chosen if row.labels["type"] == kind]
            pairs = [(one["sc"].value or 0.0, one["pq"].value or 0.0) for one in scores]
            means = [fmean(numbers) for numbers in zip(*pairs, strict=True)]
            expected[kind] = dict(
                zip(("SC", "PQ", "O"), [*means, fmean(overall(*pair) for pair in pairs)], strict=True)
            )
        expected["Average"] = {column: fmean(row[column] for row in expected.values()) for column in ("SC", "PQ", "O")}
        values = {kind: {column: cell["value"] for column, cell in row.items()} for kind, row in tables[name].items()}
        assert values == {kind: pytest.approx(row) for kind, row in expected.items()}
        board = tables["intersection" if name.endswith("intersection") else "leaderboard"]["all"]
        assert board[f"{language.upper()} O"]["value"] == pytest.approx(expected["Average"]["O"])
    for cell in (tables["leaderboard"]["all"]["EN O"], tables["types-cn"]["text_change"]["SC"]):
        assert cell["low"] < cell["value"] < cell["high"]
    assert list(tables["grades"]) == ["English", "Chinese"]
    assert result["provenance"]["protocol"] in (None, "fixed")
    assert result["provenance"]["metric_signatures"]["sc"].startswith("viescore-sc@1")


def test_outputs_that_are_missing_are_counted_and_bound_the_means(folder: Path, tmp_path: Path) -> None:
    made = outputs(tmp_path / "made")
    (made / "fullset" / "text_change" / "en" / f"{key_of('text_change', 0)}.png").unlink()
    (made / "fullset" / "style_change" / "cn" / f"{key_of('style_change', 3)}.png").write_bytes(b"no picture")
    result = run(GEditBench(folder / "data"), made, tmp_path / "out")
    assert result["counts"]["num_missing"] == 2
    tables = tables_of(result)
    cell = tables["types-en"]["text_change"]["O"]
    assert (cell["count"], cell["num_missing"]) == (3, 1)
    bounds = (cell["value"] * 3 / 4, (cell["value"] * 3 + 10) / 4)
    assert (cell["lowest"], cell["highest"]) == pytest.approx(bounds)
    assert tables["leaderboard"]["all"]["EN O"]["num_missing"] == 1
    assert tables["intersection"]["all"]["CN O"]["num_missing"] == 0
    notes = result["tables"][0]["notes"]
    assert any("2 of 88 items were not scored" in note for note in notes)


def test_types_that_the_data_lack_are_said(tmp_path: Path) -> None:
    suite = GEditBench(on_hub(tmp_path / "data", rows(SMALL)), language="en")
    result = run(suite, outputs(tmp_path / "made", SMALL), tmp_path / "out")
    assert list(tables_of(result)["types-en"]) == [*SMALL, "Average"]
    assert list(tables_of(result)["leaderboard"]["all"]) == ["EN SC", "EN PQ", "EN O"]
    assert any(
        note.startswith("English: the data have no edits of background_change,") and note.endswith("over 2.")
        for note in result["tables"][0]["notes"]
    )
    assert gedit_tables(Results("nobody", [])) == []


def test_outputs_may_lie_without_the_folder_fullset_and_in_other_formats(folder: Path, tmp_path: Path) -> None:
    suite = GEditBench(folder / "data")
    made = outputs(tmp_path / "whole", SMALL) / "fullset"
    item = suite.by_id[f"en.text_change.{key_of('text_change', 0)}"]
    path = suite.find_output(made, item)
    assert path == made / "text_change" / "en" / f"{key_of('text_change', 0)}.png"
    assert path is not None
    path.rename(path.with_suffix(".webp"))
    assert suite.find_output(made, item) == path.with_suffix(".webp")
    assert suite.under("official").find_output(made, item) is None
    assert suite.find_output(made, suite.by_id[f"en.style_change.{key_of('style_change', 0)}"]) is None


def test_official_takes_the_sources_beside_the_outputs_and_says_how_many(folder: Path, tmp_path: Path) -> None:
    suite = GEditBench(folder / "data")
    made = outputs(tmp_path / "made")
    item = suite.by_id[f"en.text_change.{key_of('text_change', 0)}"]
    own = made / "fullset" / "text_change" / "en" / f"{key_of('text_change', 0)}_SRCIMG.png"
    PIL.Image.new("RGB", (20, 30), (1, 2, 3)).save(own)
    (made / "fullset" / "color_alter" / "cn" / f"{key_of('color_alter', 1)}_SRCIMG.png").unlink()
    released = suite.under("official")
    assert released.find_source(made, item) == own
    assert suite.find_source(made, item) is None
    assert released.under("fixed").find_source(made, item) is None
    assert (released.reading, suite.reading) == ("stored", "upright")
    result = run(suite, made, tmp_path / "out", "official")
    notes = " ".join(result["tables"][0]["notes"])
    assert "87 of 88 sources are beside the outputs" in notes
    assert "a random grade" in notes
    assert result["provenance"]["outputs"] == {"sources_beside_outputs": 87}
    assert result["counts"]["num_missing"] == 0
    fixed = run(suite, made, tmp_path / "fixed")
    scores = [load_results(tmp_path / name).rows for name in ("out", "fixed")]
    changed = [one.id for one, other in zip(*scores, strict=True) if one.scores["pq"].evidence[0].image
               != other.scores["pq"].evidence[0].image]  # fmt: skip
    assert changed == [item.id], "the edited picture is judged at the size of the source beside it"
    assert not any("beside the outputs" in note for note in fixed["tables"][0]["notes"])


def test_official_files_have_a_line_for_each_score(folder: Path, tmp_path: Path) -> None:
    made = outputs(tmp_path / "made")
    (made / "fullset" / "text_change" / "en" / f"{key_of('text_change', 1)}.png").unlink()
    result = run(GEditBench(folder / "data"), made, tmp_path / "out")
    assert len(result["files"]) == len(TYPES) + 1
    combined = read_csv(tmp_path / "out" / "eval_results_new" / "mine_combined_gpt_score.csv")
    assert len(combined) == 2 * KEYS * len(TYPES) - 1
    lines = read_csv(tmp_path / "out" / "eval_results_new" / "mine_text_change_gpt_score.csv")
    assert [line["instruction_language"] for line in lines] == ["en", "cn", "cn", "en", "cn", "en", "cn"]
    key = key_of("text_change", 0)
    row = load_results(tmp_path / "out").rows[[one.id for one in GEditBench(folder / "data").items].index(
        f"en.text_change.{key}")]  # fmt: skip
    assert lines[0] == {
        "source_image": f"fullset/text_change/en/{key}_SRCIMG.png",
        "edited_image": f"fullset/text_change/en/{key}.png",
        "instruction": "Edit number 0 of the type text_change",
        "sementics_score": str(row.scores["sc"].value),
        "quality_score": str(row.scores["pq"].value),
        "intersection_exist": "True",
        "instruction_language": "en",
    }


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def recorded_results() -> Results:
    rows = []
    for name, kind, language, intersection, sc, pq in json.loads(GOLDEN.read_text())["rows"]:
        labels = {"type": kind, "language": language, "intersection": intersection}
        rows.append(ResultRow(name, name, labels, {"sc": Score.of(sc), "pq": Score.of(pq)}))
    return Results("mine", rows)


@pytest.mark.parametrize("language", ["en", "cn"])
@pytest.mark.parametrize("subset", ["full", "intersection"])
def test_the_tables_are_what_the_released_statistics_make_of_the_same_scores(language: str, subset: str) -> None:
    expected = json.loads(GOLDEN.read_text())["statistics"][language][subset]
    name = f"types-{language}" + ("" if subset == "full" else "-intersection")
    tables = {table.name: ComputedTable.compute(table, None) for table in gedit_tables(recorded_results())}
    for column, by_type in expected.items():
        got = {kind: row[column].value for kind, row in tables[name].cells.items()}
        assert got == pytest.approx(by_type, abs=1e-12)
    board = tables["leaderboard" if subset == "full" else "intersection"].cells["all"]
    assert {column: board[f"{language.upper()} {column}"].value for column in expected} == pytest.approx(
        {column: by_type["Average"] for column, by_type in expected.items()}, abs=1e-12
    )


def test_an_edit_without_one_of_the_scores_has_no_o() -> None:
    results = recorded_results()
    first = results.rows[0]
    failed = ResultRow(first.id, first.case, first.labels, {**first.scores, "pq": Score.failed("no reply")})
    (table,) = [one for one in gedit_tables(Results("mine", [failed, *results.rows[1:]])) if one.name == "types-en"]
    row = table.rows[str(first.labels["type"])]
    assert {column: figure.num_missing for column, figure in row.items()} == {"SC": 0, "PQ": 1, "O": 1}


def test_grades_above_the_scale_are_counted_in_a_note() -> None:
    results = recorded_results()
    first = results.rows[0]
    above = ResultRow(first.id, first.case, first.labels, {"sc": Score.of(85.0), "pq": Score.of(8.0)})
    (note,) = [one for one in gedit_tables(Results("mine", [above, *results.rows[1:]]))[0].notes if "scale" in one]
    assert note == "1 edit has a grade above 10, where the scale ends: as released, it counts."
    assert not any("scale" in one for one in gedit_tables(results)[0].notes)
