"""The sections of a report, and their numbers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.report import leaderboard_sections, pareto_sections, status_sections
from editcritic.benchmarks.report.charts import Chart, Point, ScatterPoint, Series, TableView, pareto_front, radar_chart
from editcritic.benchmarks.report.page import build_sections
from editcritic.benchmarks.report.report_data import ReportData, ReportSection, metric_subject, natural_order
from editcritic.benchmarks.report.svg import AxisScale, format_number
from editcritic.benchmarks.suites.leaderboards import EditorComparison
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.tables import Table
from editcritic.reward import Evidence, Score

from .synthetic_results import LABELS, TYPES, Drawn, outputs, scored

SKILLS = {"good": 0.9, "bad": 0.3}


def report_of(suite: Drawn, *results: Results, **places: Path) -> ReportData:
    return ReportData(EditorComparison.of(suite, results, count=100), places)


@pytest.fixture(scope="module")
def report() -> ReportData:
    suite = Drawn()
    return report_of(suite, *(scored(suite, name, skill) for name, skill in SKILLS.items()))


def grids(section: ReportSection | None) -> list[TableView]:
    assert section is not None
    return [block for block in section.blocks if isinstance(block, TableView)]


def charts(section: ReportSection | None) -> list[Chart]:
    assert section is not None
    return [block for block in section.blocks if isinstance(block, Chart)]


def plotted(section: ReportSection | None) -> dict[str, TableView]:
    """The numbers of each chart, by its title."""
    return {chart.title: chart.grid for chart in charts(section) if chart.grid is not None}


def texts(row: Sequence[str | tuple[str, str, float | None]]) -> list[str]:
    return [cell if isinstance(cell, str) else cell[0] for cell in row]


class Plain(Drawn):
    """One row of one column, and rows without labels."""

    def tables(self, results: Results) -> list[Table]:
        return [Table("leaderboard", "Plain", ["all"], {"all": {"all": results.mean(results.rows, _following)}})]


def _following(row: ResultRow) -> float | None:
    return row.value("following")


def test_a_suite_with_one_number_has_the_sections_of_one_number() -> None:
    suite = Plain(count=3, turns=1)
    rows = [ResultRow(item.id, item.case, {}, {"following": Score.of(1.0)}) for item in suite.items]
    items = {item.id: replace(item, sample=replace(item.sample, targets=())) for item in suite.items}
    suite.items = list(items.values())
    assert [one.name for one in build_sections(report_of(suite, Results("one", rows)))] == ["leaderboard"]


def test_what_has_no_value_at_all_has_no_chart() -> None:
    suite = Plain(count=3)
    failed = {"following": Score.failed("RetriesExhausted: no connection")}
    rows = [ResultRow(item.id, item.case, dict(item.labels), failed) for item in suite.items]
    board, *others = build_sections(report_of(suite, Results("one", rows)))
    assert (charts(board), len(grids(board))) == ([], 1)
    assert "turns" not in [one.name for one in others]


def test_the_leaderboard_has_the_best_first_with_its_place(report: ReportData) -> None:
    board = grids(leaderboard_sections.leaderboard_section(report))[0]
    assert [texts(row)[:2] for row in board.rows] == [["good", "1"], ["bad", "2"]]
    assert board.head[:3] == ["", "rank", "first in"]


def test_editors_stand_beside_each_other_where_there_is_room_and_below_where_not(report: ReportData) -> None:
    beside = grids(leaderboard_sections.table_sections(report))[0]
    assert beside.head[1:3] == [("good", "consistency"), ("bad", "consistency")]
    many = [replace(report.results[0], editor=f"number {count}") for count in range(7)]
    below = grids(leaderboard_sections.table_sections(report_of(Drawn(), *many)))[0]
    assert list(below.head) == ["", "consistency", "following"]
    assert [texts(row)[0] for row in below.rows[:3]] == ["color alter", "number 0", "number 1"]


def test_a_radar_is_drawn_of_a_table_by_type(report: ReportData) -> None:
    drawn = plotted(leaderboard_sections.radar_section(report))
    assert list(drawn) == ["By type: consistency", "By type: following"]


def test_turn_curves_have_the_numbers_of_the_suites_own_columns(report: ReportData) -> None:
    drawn = plotted(status_sections.turn_section(report))
    assert list(drawn) == ["consistency, percent", "following, percent"]
    grid = drawn["following, percent"]
    assert grid.head == ["", "1", "2", "3"]
    statistic = report.comparison.leaderboard.rows["good"]["following turn 2"]
    assert float(texts(grid.rows[0])[2]) == pytest.approx(100 * (statistic.value or 0), abs=0.1)


def test_curves_over_levels_are_means_of_metrics_where_no_table_has_them(report: ReportData) -> None:
    drawn = plotted(status_sections.level_section(report))
    assert list(drawn) == ["following", "consistency", "quality"]
    good = report.results[0]
    values = [value for row in good.filter(level="C2") if (value := row.value("quality")) is not None]
    assert float(texts(drawn["quality"].rows[0])[2]) == pytest.approx(sum(values) / len(values), rel=0.01)


def test_steps_are_in_the_order_of_their_numbers() -> None:
    assert (natural_order(["C10", "C2", "C1"]), natural_order([3, 1, 2])) == (["C1", "C2", "C10"], [1, 2, 3])
    assert natural_order(["b", "a1", "c"]) == ["b", "a1", "c"]


def test_the_curve_over_size_counts_samples_that_have_a_value(report: ReportData) -> None:
    rows = grids(pareto_sections.size_section(report))[0].rows
    assert [texts(row)[0] for row in rows] == ["following", "good", "bad", "consistency", "good", "bad"]
    values = [row.value("following") for row in report.results[0].rows]
    assert texts(rows[1])[-1] == str(len(values) - values.count(None))


class ByLevel(Drawn):
    """Rows for levels, their mean and their difference, as Complex-Edit has them; and types as columns."""

    def tables(self, results: Results) -> list[Table]:
        rows = {f"C{level}": {"O": results.mean(results.filter(level=f"C{level}"), _kept)} for level in range(1, 5)}
        last = {"mean": rows["C1"], "C4 - C1": rows["C1"]}
        types = {kind.replace("_", " ").title(): results.mean(results.filter(type=kind), _kept) for kind in TYPES}
        average = {"Average": results.mean(results.rows, _kept)}
        return [
            Table("leaderboard", "Levels", [*types, "Average"], {"IF": types | average}),
            Table("levels", "Levels", ["O"], rows | last),
        ]


def _kept(row: ResultRow) -> float | None:
    return row.value("consistency")


def test_rows_beside_the_levels_are_no_part_of_a_curve(report: ReportData) -> None:
    drawn = plotted(status_sections.level_section(report_of(ByLevel(), *report.results)))
    assert {title: list(grid.head) for title, grid in drawn.items()} == {"O": ["", "C1", "C2", "C3", "C4"]}


def test_a_radar_is_drawn_of_columns_that_are_types_without_what_is_none(report: ReportData) -> None:
    drawn = plotted(leaderboard_sections.radar_section(report_of(ByLevel(), *report.results)))
    axes = ["", "Color Alter", "Count Change", "Subject Add", "Text Change"]
    assert {title: list(grid.head) for title, grid in drawn.items()} == {"Levels": axes}


def test_what_has_no_number_is_on_no_axis_of_a_radar() -> None:
    points = [Point(0.0, 1.0, name="a"), Point(1.0, None, name="b"), Point(2.0, 0.5, name="c"), Point(3.0, 1.0)]
    chart = radar_chart("r", [Series("one", points)], list("abcd"), top=1.0)
    areas = re.findall(r'<path d="([^"]*)" class="area', chart.svg)
    assert [area.count("L") for area in areas] == [2]


def test_names_and_cards_tell_what_is_followed_kept_and_liked(report: ReportData) -> None:
    names = {"EdiVal-IF": "following", "O turn 3": "", "CC turn 3": "consistency", "PQ": "quality", "VC": "consistency"}
    assert {name: metric_subject(name) for name in names} == names
    assert dict(report.subjects) == {"following": "following", "consistency": "consistency", "quality": "quality"}


def test_all_three_are_set_against_each_other_at_each_turn(report: ReportData) -> None:
    """Figures 10, 14 and 15 of EdiVal; a rating without a column is that of the turn, not a mean over turns."""
    grids = list(plotted(pareto_sections.pareto_section(report)).values())
    assert [tuple(grid.head[1:3]) for grid in grids] == [
        pair
        for turn in (3, 2, 1)
        for following, kept in [(f"following turn {turn}, percent", f"consistency turn {turn}, percent")]
        for pair in ((following, kept), (following, f"quality turn {turn}"), (kept, f"quality turn {turn}"))
    ]
    first = report.results[0]
    means = [float(np.mean([row.value("quality") for row in first.filter(turn=turn)])) for turn in (1, 2, 3)]
    assert len(set(means)) == 3, "or this does not tell turns apart"
    shown = [float(texts(grid.rows[0])[2].split()[0]) for grid in (grids[7], grids[4], grids[1])]
    assert shown == pytest.approx(means, abs=0.005)


def test_on_the_front_is_who_is_not_worse_in_both_ways() -> None:
    spots = [
        ScatterPoint(name, 0, x, y) for name, x, y in (("a", 1, 3), ("b", 2, 2), ("c", 1, 1), ("d", 2, 1), ("e", 1, 3))
    ]
    assert [spot.name for spot in pareto_front(spots)] == ["a", "e", "b"]
    assert [spot.name for spot in pareto_front(spots, minimize_x=True)] == ["a", "e"]


def test_latency_is_what_the_pictures_were_made_in(report: ReportData, tmp_path: Path) -> None:
    assert pareto_sections.latency_section(report) is None
    folder = outputs(tmp_path / "good", Drawn(), 0.9)
    with_outputs = report_of(Drawn(), report.results[0], good=folder)
    row = texts(grids(pareto_sections.latency_section(with_outputs))[0].rows[0])
    seconds = pareto_sections.read_generation_times(folder).values()
    assert row[:3] == ["good", "36", f"{sum(seconds) / 36:.2f}"]


def test_a_line_about_latency_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "generated.jsonl").write_text('{"item": "0/1", "seconds": 1.5}\n{"item": "0/2", "seconds": "soon"}\n')
    with pytest.raises(InputError, match=r"generated\.jsonl:2 "):
        pareto_sections.read_generation_times(tmp_path)


def test_labels_are_counted_the_best_first(report: ReportData) -> None:
    section = status_sections.label_section(report)
    (grid,) = plotted(section).values()
    assert list(grid.head[1:]) == list(LABELS)
    counted = grids(section)[0]
    cells = [texts(row)[1:] for row in counted.rows if texts(row)[0] == "good"]
    judged = [row for row in report.results[0].rows if row.value("following") is not None]
    assert sum(int(cell) for row in cells for cell in row) == len(judged)


def test_of_several_targets_the_worst_label_counts() -> None:
    suite = Drawn(count=2, turns=1)
    labels = [Evidence("label", text=LABELS[at], numbers={"score": 4.0 - at}) for at in (0, 3)]
    parts = {f"target {at}": Score.of(1.0, evidence=[label]) for at, label in enumerate(labels)}
    rows = [ResultRow(item.id, item.case, item.labels, {"if": Score.of(0.0, parts=parts)}) for item in suite.items]
    (grid,) = plotted(status_sections.label_section(report_of(suite, Results("one", rows)))).values()
    assert texts(grid.rows[0]) == ["one", "0", "1"]


def test_what_has_no_value_is_counted_with_its_reasons(report: ReportData) -> None:
    section = status_sections.status_section(report)
    counts, reasons = grids(section)
    rows = {texts(row)[0]: texts(row) for row in counts.rows[:2]}
    failed = sum(row.scores["following"].status == "failed" for row in report.results[0].rows)
    assert texts(counts.rows[1]) == ["good", str(36 - failed), "", "", str(failed), "", ""]
    assert list(rows) == ["following", "good"]
    assert any("the judge did not answer" in texts(row) for row in reasons.rows)
    assert counts.notes == ["All edits have a value of: consistency, quality."]


def test_luminance_starts_from_the_input(report: ReportData) -> None:
    grid = next(iter(plotted(status_sections.luminance_section(report)).values()))
    assert list(grid.head) == ["", "input", "turn 1", "turn 2", "turn 3"]
    assert texts(grid.rows[0]) == ["good", "0.85", "0.88", "0.91", "0.94"]


def test_shapes_and_categories_are_means_of_their_rows(report: ReportData) -> None:
    *_, grid = plotted(status_sections.shape_section(report)).values()
    rows = report.results[0].filter(shape="padded")
    assert float(texts(grid.rows[0])[1]) == pytest.approx(
        sum(row.value("quality") or 0 for row in rows) / len(rows), rel=0.01
    )
    table = grids(status_sections.category_section(report))[0]
    assert (table.title, list(table.head)) == ("good", ["", "person", "place"])


def test_edits_of_one_and_of_several_pictures_are_told_apart(report: ReportData) -> None:
    grid = grids(status_sections.source_count_section(report))[0]
    assert list(grid.head) == ["", "single", "multi", "multi − single"]
    row = texts(grid.rows[2])
    several = [r for r in report.results[0].rows if r.id in ("4/1", "9/1") and r.value("consistency") is not None]
    assert row[0] == "consistency"
    assert float(row[2]) == pytest.approx(sum(r.value("consistency") or 0 for r in several) / len(several), rel=0.01)


def test_ticks_are_round_and_within() -> None:
    assert AxisScale(0.13, 0.97, 0, 100).ticks == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert AxisScale(0.002, 0.4, 0, 100, log=True).ticks == pytest.approx([0.003, 0.01, 0.03, 0.1, 0.3])
    assert AxisScale.over([], 0, 1).ticks
    assert AxisScale.over([5.0, 5.0], 0, 1)(5.0) == pytest.approx(0.5)


def test_numbers_are_as_long_as_they_have_to_be() -> None:
    values = {0.0: "0", 12.345: "12.3", 0.5: "0.5", -3.0: "-3", 123.4: "123", 0.00001: "1.00e-05"}
    assert {value: format_number(value) for value in values} == values
    assert (format_number(None), format_number(float("nan"))) == ("–", "–")
