"""Complex-Edit end to end: its published layout, an editor's outputs, a judge, tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.inputs import load_selector
from editcritic.benchmarks.run.output_generation import SelectionConfig, generate_outputs
from editcritic.benchmarks.suites.complexedit.suite import ComplexEdit, images_by_row, level_curve
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Image, Reward, Score
from editcritic.reward.engine.engine import Engine
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.queries.response_formats import Json
from tests.benchmarks.suites.complexedit.layout import ROWS, compound, edited, on_hub, outputs, saved
from tests.benchmarks.suites.tiny_suite import Replying, picture

from ..table_values import values


def graded(query: Judge) -> Reply:
    """Grades fall with the number of operations, and differ by one between draws."""
    slots, odd, fine = dict(query.slots), query.draw % 2, query.topic.endswith("/quality")
    if isinstance(query.form, Json):
        following = 9 - slots["instruction"].count(" and ") + odd
        grades: dict[str, Any] = {"instruction_following": following, "identity_preservation": 4}
        if operations := json.loads(slots["operations"]):
            grades["operations"] = [{"operation": one, "score": following} for one in operations]
        return Reply(json.dumps({"reasoning": "seen", **grades}))
    sure = 7 if fine else 5
    return Reply(str(7 + odd if fine else 5), {str(grade): float(grade == sure) for grade in range(11)})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return on_hub(tmp_path_factory.mktemp("hub") / "Complex-Edit")


def judged(suite: ComplexEdit, folder: Path, judge: Replying, protocol: str | None = None) -> Results:
    def opened(item: SuiteItem) -> Image:
        return Image.open(suite.find_output(folder, item) or "nowhere")

    samples = [suite.edited_sample(item, opened) for item in suite.items]
    with Engine() as engine:
        scores = {
            name: list(Reward.of(spec, {"judge": judge}, engine=engine)(samples))
            for name, spec in suite.metrics(protocol).items()
        }
    rows = [
        ResultRow(item.id, item.case, item.labels, {name: of_metric[place] for name, of_metric in scores.items()})
        for place, item in enumerate(suite.items)
    ]
    return Results("scripted", rows)


def test_items_are_the_levels_of_the_rows(data):
    suite = ComplexEdit(data)
    assert not suite.problems
    assert len(suite.items) == ROWS * 8
    third = suite.by_id["0001/C3"]
    assert third.sample.instruction == compound(1, 3)
    assert [one.instruction for one in third.sample.operations] == [f"Edit number {n} of picture 1" for n in range(3)]
    assert (third.output_path, third.case, third.labels) == ("C3/0001", "0001", {"level": 3, "split": "test_real"})
    assert ComplexEdit(data, levels=3).items[1].output_path == "0001"
    assert [item.labels["level"] for item in ComplexEdit(data, levels="1,7-8").items[:3]] == [1, 7, 8]


def test_it_runs_from_the_published_layout_to_the_tables_and_judges_each_alignment_once(data, tmp_path):
    suite, judge = ComplexEdit(data, levels="1,8", n=4), Replying(graded)
    results = judged(suite, outputs(tmp_path), judge)
    topics = [query.topic for query in judge.queries]
    assert topics.count("complexedit/alignment") == 4 * ROWS * 2, "one judgement for both metrics"
    assert topics.count("complexedit/quality") == 4 * ROWS * 2
    levels = values(suite, results, "levels")
    assert levels["C1"] == pytest.approx({"IF": 9.5, "IP": 4.0, "PQ": 7.5, "O": 7.0})
    assert levels["C8"] == pytest.approx({"IF": 2.5, "IP": 4.0, "PQ": 7.5, "O": 14 / 3})
    assert levels["C8 - C1"] == pytest.approx({"IF": -7.0, "IP": 0.0, "PQ": 0.0, "O": -7 / 3})
    assert values(suite, results, "leaderboard")["all"] == pytest.approx(levels["mean"])
    assert levels["mean"] == pytest.approx({"IF": 6.0, "IP": 4.0, "PQ": 7.5, "O": 17.5 / 3})
    assert values(suite, results, "measurements")["IF"] == pytest.approx(
        {"measurements": 4.0, "standard deviation": 0.5, "replaced": 0.0}
    )


def test_operations_have_a_grade_of_their_own(data, tmp_path):
    suite = ComplexEdit(data, levels="1-2", n=2, operations="listed")
    results = judged(suite, outputs(tmp_path, range(1, 3)), Replying(graded))
    table = next(one for one in suite.tables(results) if one.name == "operations")
    cells = {name: row["IF"] for name, row in ComputedTable.compute(table, None).cells.items()}
    assert {name: (cell.value, cell.count) for name, cell in cells.items()} == {
        "Add an Object": (9.0, 2 * ROWS),  # 9.5 at C1, 8.5 at C2
        "Change Color": (8.5, ROWS),
    }


def test_results_without_a_row_or_without_a_metric_have_no_table_of_it(data):
    suite = ComplexEdit(data, levels="1-2")
    assert suite.tables(Results("nobody", [])) == []
    only = [ResultRow(item.id, item.case, item.labels, {"pq": Score.of(5.0)}) for item in suite.items]
    assert [one.name for one in suite.tables(Results("one", only))] == ["leaderboard", "levels"]
    assert values(suite, Results("one", only), "leaderboard")["all"] == {"IF": None, "IP": None, "PQ": 5.0, "O": None}


def test_one_level_may_lie_in_a_flat_folder(data, tmp_path):
    suite = ComplexEdit(data, levels="8")
    folder = outputs(tmp_path, range(8, 9), flat=True)
    paths = [suite.find_output(folder, item) for item in suite.items]
    assert [Image.open(path) for path in paths if path] == [edited(row, 8) for row in range(ROWS)]
    (folder / "0002.png").unlink()
    assert [suite.find_output(folder, item) is None for item in suite.items] == [False, False, True, False]
    path = outputs(folder, range(8, 9)) / "C8" / "0002.png"  # a folder of the level goes before
    assert suite.find_output(folder, suite.items[2]) == path


@pytest.mark.parametrize(
    ("protocol", "signature"),
    [(None, "expected"), ("paper", "numeric[paper=True]"), ("token_probability", "token_probability")],
)
def test_protocols_are_the_modes_and_the_paper_is_numeric(data: Path, protocol: str | None, signature: str) -> None:
    specs = ComplexEdit(data, levels=1, mode="expected").metrics(protocol)
    metrics = [Reward.of(spec, {"judge": Replying(graded)}).metric for spec in specs.values()]
    assert list(specs) == ["if", "ip", "pq"]
    assert [metric.signature for metric in metrics] == [f"{metric.card.name}@3/{signature}" for metric in metrics]  # type: ignore[attr-defined]


def test_the_expected_mode_asks_three_questions_a_picture(data, tmp_path):
    suite, judge = ComplexEdit(data, levels=2, mode="expected"), Replying(graded)
    results = judged(suite, outputs(tmp_path, range(2, 3)), judge)
    assert len(judge.queries) == 3 * ROWS
    assert values(suite, results, "leaderboard")["all"] == pytest.approx({"IF": 5.0, "IP": 5.0, "PQ": 7.0, "O": 17 / 3})
    assert [one.name for one in suite.tables(results)] == ["leaderboard", "levels"], "nothing was measured repeatedly"


def test_a_step_of_sequential_editing_is_judged_by_the_published_compound(tmp_path):
    """Section 5.4.2. The joined atomic sentences of step 2 would be "Make the cup blue and remove the fork"."""
    import datasets

    atomic = ["Make the cup blue", "Remove the fork", "Add a plum"]
    published = ["Make the cup blue", "Give the table a blue cup and no fork.", "A blue cup and a plum, but no fork."]
    row = {
        "sequence": [{"name": "Change Color", "instruction": text} for text in atomic],
        "compound": [{"reasoning": "why", "compound_instruction": text} for text in published],
    }
    table = datasets.Dataset.from_dict({"image": [picture(1).pil()], "edit": [row]})
    table.cast_column("image", datasets.Image()).to_parquet(tmp_path / "test_real-00000-of-00001.parquet")
    suite, judge = ComplexEdit(tmp_path, levels=3), Replying(graded)
    reward = Reward.of("complex-edit-if?n=1", {"judge": judge})
    selection = SelectionConfig(load_selector("sequential?n=2"), reward)
    report = generate_outputs(suite, tmp_path / "made", Seeded(), selection=selection)
    assert (len(report.generated), report.failed) == (1, [])
    asked = [dict(query.slots)["instruction"] for query in judge.queries if isinstance(query.form, Json)]
    assert asked == [text for text in published for _ in range(2)]


class Seeded:
    """An editor whose images differ by seed."""

    id, nfe, batch_size = "seeded", 1, 1

    def edit(self, images, instructions, seeds, *, history=None):
        return [picture(seed % 997, 5) for seed in seeds]


def test_ablations_are_options_of_the_suite_and_none_is_the_papers_protocol(data: Path) -> None:
    suite = ComplexEdit(data, levels=1, reasoning=False, rubric=False, pq_instruction=True)
    signatures = [Reward.of(spec, {"judge": Replying(graded)}).metric.signature for spec in suite.metrics().values()]  # type: ignore[attr-defined]
    same = "numeric[reasoning=False, rubric=False"
    options_of = {"if": same, "ip": same, "pq": f"{same}, instruction=True"}
    assert signatures == [f"complex-edit-{name}@3/{options}]" for name, options in options_of.items()]
    given = {"reasoning": False, "rubric": False, "pq_instruction": True}
    assert {name: suite.options[name] for name in given} == given
    with pytest.raises(InputError, match="has not pq_instruction=True, reasoning=False, rubric=False: leave it out"):
        suite.metrics("paper")
    assert not given.keys() & ComplexEdit(data, levels=1).options.keys()
    once = ComplexEdit(data, levels=1, sampling="deterministic").metrics()["pq"]
    assert once == {"use": "complex-edit-pq", "mode": "numeric", "sampling": "deterministic"}


def scripted(grade: Callable[[int, int], Score]) -> Results:
    """IF by a function of row and level; IP 6, PQ 6."""
    rows = []
    for row in range(ROWS):
        for level in range(1, 9):
            scores = {"if": grade(row, level), "ip": Score.of(6.0), "pq": Score.of(6.0)}
            rows.append(ResultRow(f"{row:04}/C{level}", f"{row:04}", {"level": level, "split": "test_real"}, scores))
    return Results("scripted", rows)


def test_a_curve_has_a_figure_a_level_and_leaves_out_what_failed(data):
    results = scripted(
        lambda row, level: Score.failed("no judge") if (row, level) == (0, 2) else Score.of(float(level))
    )
    curve = level_curve(results, "if")
    assert [figure.value for figure in curve.values()] == [float(level) for level in range(1, 9)]
    assert (curve[2].count, curve[2].num_missing) == (ROWS - 1, 1)
    overall = level_curve(results)
    assert overall[3].value == pytest.approx(5.0)
    assert (overall[2].count, overall[2].num_missing) == (ROWS - 1, 1)
    suite = ComplexEdit(data, mean="geometric")
    numbers = values(suite, scripted(lambda row, level: Score.of(0.0 if level == 8 else 6.0)), "levels")
    assert (numbers["C8"]["O"], numbers["C1"]["O"]) == pytest.approx((0.0, 6.0))


def test_rows_with_fewer_levels_are_said(tmp_path):
    saved(2, levels=5).to_parquet(tmp_path / "short.parquet")
    suite = ComplexEdit(tmp_path / "short.parquet", levels="4-8")
    assert [item.labels["level"] for item in suite.items] == [4, 5, 4, 5]
    problem = "row 0: has 5 atomic and 5 compound instructions: level C6 and later ones are left out"
    assert str(suite.problems[0]) == problem
    with pytest.raises(InputError, match="none of the 2 rows"):
        ComplexEdit(tmp_path / "short.parquet", levels=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": "0-3"}, "has the levels 1 to 8, got '0-3'"),
        ({"levels": 9}, "has the levels 1 to 8, got 9"),
        ({"levels": "all"}, "levels are written as 1-8, 3 or 1,8, got 'all'"),
        ({"mean": "harmonic"}, "no mean 'harmonic': expected one of arithmetic, geometric"),
        ({"mode": "vibes"}, "no mode 'vibes': there are numeric"),
        ({"mode": "expected", "n": 5}, "mode expected, got n=5"),
        ({"n": 0}, "n >= 1"),
        ({"split": "train"}, "no parquet files of the split 'train'"),
        ({"prompts": "/nowhere"}, "prompt pack '/nowhere' is not a folder"),
    ],
)
def test_options_that_mean_nothing_are_refused_with_what_does(data, options, message):
    with pytest.raises(InputError, match=message):
        ComplexEdit(data, **options)


def test_options_and_digest_say_what_was_asked(data):
    suite = ComplexEdit(data, levels="1-2", seed=3)
    sampling = {"mode": "numeric", "n": 20, "seed": 3, "max_replacements": 2, "mean": "arithmetic"}
    assert suite.options == {"split": "test_real", "levels": "1,2", **sampling}
    assert ComplexEdit(data, levels="1-2").digest == suite.digest
    assert ComplexEdit(data, levels="1-3").digest != suite.digest
    assert ComplexEdit(data, levels="1-2", split="test_syn").digest != suite.digest


def named(folder: Path, *names: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        picture(1, size=4).pil().save(folder / name)
    return folder


@pytest.mark.parametrize(
    ("names", "rows", "by_row"),
    [
        (("0002.png", "0000.png"), 3, {0: "0000.png", 2: "0002.png"}),
        (("10.png", "9.png"), 11, {9: "9.png", 10: "10.png"}),
        (("b.jpg", "a.png", "c.png"), 3, {0: "a.png", 1: "b.jpg", 2: "c.png"}),
        ([f"{number}.png" for number in range(1, 12)], 11, {row: f"{row + 1}.png" for row in range(11)}),
    ],
    ids=["numbers of rows", "without zeros", "other names in their order", "numbers that do not begin at 0"],
)
def test_names_say_whose_row_a_picture_is(tmp_path, names, rows, by_row):
    found = images_by_row(named(tmp_path, *names), rows)
    assert {number: path.name for number, path in found.items()} == by_row


def test_a_folder_that_grows_is_read_anew(tmp_path):
    for rows in ([0], [0, 1]):
        assert [*images_by_row(named(tmp_path, f"{rows[-1]:04}.png"), 3)] == rows


def test_a_wrong_number_of_pictures_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(
        InputError, match=r"contains 2 images for 3 rows, and a\.png is not named after a row: give one"
    ):
        images_by_row(named(tmp_path, "a.png", "b.png"), 3)
    with pytest.raises(InputError, match="several images of row 0"):
        images_by_row(named(tmp_path / "twice", "0000.png", "0.png"), 3)
    assert images_by_row(tmp_path / "none", 3) == {}
