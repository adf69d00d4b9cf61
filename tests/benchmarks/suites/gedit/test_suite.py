"""GEdit-Bench end to end: its published layout, an editor's outputs, a judge, tables, official files."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites import split_files
from editcritic.benchmarks.suites.gedit.suite import TYPES, GEditBench, gedit_tables
from editcritic.benchmarks.suites.results import ResultRow, Results, load_results
from editcritic.benchmarks.suites.tables import ComputedTable, Table
from editcritic.reward import Score
from editcritic.reward.metrics.viescore.metrics import overall
from editcritic.reward.reward import default_experts
from editcritic.reward.sample import MAX_INSTRUCTION

from ..tiny_suite import Replying
from .layout import KEYS, graded, halves, instruction, key_of, on_hub, outputs, parquet, row, rows, source

GOLDEN = Path(__file__).parents[3] / "golden" / "gedit_released_statistics.json"
SMALL = ("subject-add", "text_change")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With `data`, all types, and `made`."""
    path = tmp_path_factory.mktemp("gedit")
    on_hub(path / "data")
    outputs(path / "made")
    return path


def run(suite: GEditBench, made: Path, out: Path, protocol: str | None = None) -> dict[str, Any]:
    experts = {**default_experts(), "judge": Replying(graded)}
    run_suite(suite, made, editor="mine", experts=experts, protocol=protocol, out=out)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result


def tables_of(result: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    return {table["name"]: table["rows"] for table in result["tables"]}


def test_it_runs_from_the_published_layout_to_the_tables(folder, tmp_path):
    result = run(GEditBench(folder / "data"), folder / "made", tmp_path / "out")
    tables = tables_of(result)
    assert list(tables) == [
        "leaderboard", "intersection", "grades", "types-en", "types-cn", "types-en-intersection",
        "types-cn-intersection",
    ]  # fmt: skip
    results = load_results(tmp_path / "out")
    for name, board, language, chosen in (
        ("types-en", "leaderboard", "en", results.filter(language="en")),
        ("types-cn-intersection", "intersection", "cn", results.filter(language="cn", intersection=1)),
    ):
        expected = {}
        for kind in TYPES:
            scores = [row.scores for row in chosen if row.labels["type"] == kind]
            pairs = [(one["sc"].value or 0.0, one["pq"].value or 0.0) for one in scores]
            consistent, perceived = (fmean(numbers) for numbers in zip(*pairs, strict=True))
            expected[kind] = {"SC": consistent, "PQ": perceived, "O": fmean(overall(*pair) for pair in pairs)}
        expected["Average"] = {column: fmean(row[column] for row in expected.values()) for column in ("SC", "PQ", "O")}
        values = {kind: {column: cell["value"] for column, cell in row.items()} for kind, row in tables[name].items()}
        assert values == {kind: pytest.approx(row) for kind, row in expected.items()}
        whole = tables[board]["all"][f"{language.upper()} O"]["value"]
        assert whole == pytest.approx(expected["Average"]["O"])
    assert list(tables["grades"]) == ["English", "Chinese"]
    assert result["provenance"]["protocol"] in (None, "fixed")
    assert result["provenance"]["metric_signatures"]["sc"].startswith("viescore-sc@1")


def test_outputs_that_are_missing_are_counted_and_bound_the_means(folder, tmp_path):
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


def test_types_that_the_data_lack_are_said(tmp_path):
    suite = GEditBench(on_hub(tmp_path / "data", rows(SMALL)), language="en")
    result = run(suite, outputs(tmp_path / "made", SMALL), tmp_path / "out")
    assert list(tables_of(result)["types-en"]) == [*SMALL, "Average"]
    assert list(tables_of(result)["leaderboard"]["all"]) == ["EN SC", "EN PQ", "EN O"]
    assert any(
        note.startswith("English: the data have no edits of background_change,") and note.endswith("over 2.")
        for note in result["tables"][0]["notes"]
    )
    assert gedit_tables(Results("nobody", [])) == []


def test_outputs_may_lie_without_the_folder_fullset_and_in_other_formats(folder, tmp_path):
    suite = GEditBench(folder / "data")
    made = outputs(tmp_path / "whole", SMALL) / "fullset"
    item, other = (suite.by_id[f"en.{kind}.{key_of(kind, 0)}"] for kind in ("text_change", "style_change"))
    path = made / "text_change" / "en" / f"{key_of('text_change', 0)}.png"
    assert (suite.find_output(made, item), suite.find_output(made, other)) == (path, None)
    path.rename(path.with_suffix(".webp"))
    assert suite.find_output(made, item) == path.with_suffix(".webp")
    assert suite.under("official").find_output(made, item) is None


def test_official_takes_the_sources_beside_the_outputs_and_says_how_many(folder, tmp_path):
    suite, made = GEditBench(folder / "data"), outputs(tmp_path / "made")
    item = suite.by_id[f"en.text_change.{key_of('text_change', 0)}"]
    own = made / "fullset" / "text_change" / "en" / f"{key_of('text_change', 0)}_SRCIMG.png"
    PIL.Image.new("RGB", (20, 30), (1, 2, 3)).save(own)
    (made / "fullset" / "color_alter" / "cn" / f"{key_of('color_alter', 1)}_SRCIMG.png").unlink()
    released = suite.under("official")
    found = [one.find_source(made, item) for one in (released, suite, released.under("fixed"))]
    assert found == [own, None, None]
    assert (released.reading, suite.reading) == ("stored", "upright")
    official, fixed = run(suite, made, tmp_path / "out", "official"), run(suite, made, tmp_path / "fixed")
    notes, others = (" ".join(result["tables"][0]["notes"]) for result in (official, fixed))
    assert "87 of 88 sources are beside the outputs" in notes
    assert "a random grade" in notes
    assert "beside the outputs" not in others
    assert official["provenance"]["outputs"] == {"sources_beside_outputs": 87}
    assert official["counts"]["num_missing"] == 0
    judged = [
        {row.id: row.scores["pq"].evidence[0].image for row in load_results(tmp_path / name).rows}
        for name in ("out", "fixed")
    ]
    changed = [name for name, image in judged[0].items() if image != judged[1][name]]
    assert changed == [item.id], "the edited picture is judged at the size of the source beside it"


def test_official_files_have_a_line_for_each_score(folder, tmp_path):
    made = outputs(tmp_path / "made")
    (made / "fullset" / "text_change" / "en" / f"{key_of('text_change', 1)}.png").unlink()
    result = run(GEditBench(folder / "data"), made, tmp_path / "out")
    assert len(result["files"]) == len(TYPES) + 1

    def lines(name: str) -> list[dict[str, str]]:
        with (tmp_path / "out/eval_results_new" / f"mine_{name}_gpt_score.csv").open(
            encoding="utf-8", newline=""
        ) as file:
            return list(csv.DictReader(file))

    assert len(lines("combined")) == 2 * KEYS * len(TYPES) - 1
    assert [line["instruction_language"] for line in lines("text_change")] == ["en", "cn", "cn", "en", "cn", "en", "cn"]
    key = key_of("text_change", 0)
    (row,) = (one for one in load_results(tmp_path / "out").rows if one.id == f"en.text_change.{key}")
    assert lines("text_change")[0] == {
        "source_image": f"fullset/text_change/en/{key}_SRCIMG.png",
        "edited_image": f"fullset/text_change/en/{key}.png",
        "instruction": "Edit number 0 of the type text_change",
        "sementics_score": str(row.scores["sc"].value),
        "quality_score": str(row.scores["pq"].value),
        "intersection_exist": "True",
        "instruction_language": "en",
    }


def recorded_results() -> Results:
    rows = []
    for name, kind, language, intersection, sc, pq in json.loads(GOLDEN.read_text())["rows"]:
        labels = {"type": kind, "language": language, "intersection": intersection}
        rows.append(ResultRow(name, name, labels, {"sc": Score.of(sc), "pq": Score.of(pq)}))
    return Results("mine", rows)


@pytest.mark.parametrize("language", ["en", "cn"])
@pytest.mark.parametrize("subset", ["full", "intersection"])
def test_the_tables_are_what_the_released_statistics_make_of_the_same_scores(language, subset):
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


def test_an_edit_without_one_of_the_scores_has_no_o_and_grades_above_the_scale_are_noted():
    first, *others = recorded_results().rows

    def with_first(sc: Score, pq: Score) -> dict[str, Table]:
        changed = replace(first, scores={"sc": sc, "pq": pq})
        return {table.name: table for table in gedit_tables(Results("mine", [changed, *others]))}

    failed = with_first(first.scores["sc"], Score.failed("no reply"))
    row = failed["types-en"].rows[str(first.labels["type"])]
    assert {column: figure.num_missing for column, figure in row.items()} == {"SC": 0, "PQ": 1, "O": 1}
    assert not any("scale" in note for note in failed["leaderboard"].notes)
    (note,) = (note for note in with_first(Score.of(85.0), Score.of(8.0))["leaderboard"].notes if "scale" in note)
    assert note == "1 edit has a grade above 10, where the scale ends: as released, it counts."


# -- data -------------------------------------------------------------------------------------------------------------

KIND = "subject-add"


def one_file(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    return parquet(folder / "any.parquet", written)


def flat(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    parquet(folder / "flat" / "train-00000-of-00001.parquet", written)
    return folder / "flat"


def converted_by_the_hub(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    for part, part_rows in enumerate(halves(written)):
        parquet(folder / "converted" / "default" / "train" / f"{part:04}.parquet", part_rows)
    return folder / "converted"


def saved_to_disk(folder: Path, written: Sequence[Mapping[str, Any]]) -> Path:
    """As published: Arrow streams, with `state.json` beside them."""
    arrow = bench_library("pyarrow")
    (folder / "saved").mkdir()
    names = [f"data-{part:05}-of-00002.arrow" for part in range(2)]
    for name, part_rows in zip(names, halves(written), strict=True):
        table = arrow.Table.from_pylist(list(part_rows))
        with arrow.OSFile(str(folder / "saved" / name), "wb") as sink, arrow.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (folder / "saved" / "state.json").write_text(json.dumps(state))
    return folder / "saved"


@pytest.mark.parametrize("write", [on_hub, one_file, flat, converted_by_the_hub, saved_to_disk])
def test_every_layout_gives_the_same_items(tmp_path, write):
    suite = GEditBench(write(tmp_path, rows([KIND, "text_change"])))
    assert not suite.problems
    assert [item.id for item in suite.items] == [
        f"{language}.{kind}.{start}{number}aa"
        for kind, start in ((KIND, "060"), ("text_change", "090"))
        for number in range(4)
        for language in ("en", "cn")
    ]
    item = suite.by_id[f"cn.{KIND}.0601aa"]
    assert item.output_path == f"fullset/{KIND}/cn/0601aa"
    assert item.labels == {"type": KIND, "language": "cn", "intersection": 1}
    assert (item.sample.instruction, item.sample.source) == (instruction(KIND, 1, "cn"), source(KIND, 1))
    assert item.case == f"en.{KIND}.0601aa", "both languages of a source are one case"
    assert suite.digest == GEditBench(on_hub(tmp_path / "again", rows([KIND, "text_change"]))).digest


def test_a_language_or_other_pictures_are_chosen(tmp_path):
    data = one_file(tmp_path, rows([KIND]))
    suite = GEditBench(data, language="cn")
    assert {item.labels["language"] for item in suite.items} == {"cn"}
    raw = GEditBench(data, sources="input_image_raw")
    assert raw.items[0].sample.source != suite.items[0].sample.source
    assert len({one.digest for one in (suite, raw, GEditBench(data))}) == 3
    assert raw.options == {"language": "both", "sources": "input_image_raw"}


_ODD: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "type": ({"task_type": "magic"}, "expected 'background_change' or .* in 'task_type', got 'magic'"),
    "language": ({"instruction_language": "zh"}, "expected 'en' or 'cn' in 'instruction_language', got 'zh'"),
    "path": ({"key": "../x"}, "'../x' is not a file name"),
    "folder": ({"key": "a/b"}, "'a/b' is not a file name"),
    "dots": ({"key": ".."}, r"'\.\.' is not a file name"),
    "control": ({"key": "a\x1b[2J"}, r"control character U\+001B"),
    "long": ({"key": "k" * 500}, "is not a file name"),
    "no key": ({"key": ""}, "expected text in 'key', got ''"),
    "silent": ({"instruction": " "}, "expected text in 'instruction', got ' '"),
    "picture": ({"input_image": {"bytes": b"none", "path": ""}}, "input_image: encoded image is not an image"),
    "elsewhere": ({"input_image": {"bytes": None, "path": "../secret.png"}}, "input_image: .*leads out of"),
    "again": ({"key": "0600aa"}, "the id 'en.subject-add.0600aa' is also that of .*row 0: make it unique"),
    "talkative": ({"instruction": "x" * (MAX_INSTRUCTION + 1)}, "instruction"),
}


@pytest.mark.parametrize("name", _ODD)
def test_a_row_that_cannot_be_used_is_named_and_the_others_are_there(tmp_path, name):
    change, message = _ODD[name]
    (tmp_path / "data").mkdir()
    suite = GEditBench(one_file(tmp_path / "data", [row(KIND, 0, "en"), {**row(KIND, 1, "en"), **change}]))
    assert [item.id for item in suite.items] == [f"en.{KIND}.0600aa"]
    (problem,) = map(str, suite.problems)
    assert re.search(message, problem), problem
    assert len(problem) < 600


def test_a_text_of_many_megabytes_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(split_files, "MAX_CELL_BYTES", 20_000)
    written = [row(KIND, 0, "en"), {**row(KIND, 1, "en"), "instruction": "x" * 30_000}]
    suite = GEditBench(one_file(tmp_path, written))
    assert [item.id for item in suite.items] == [f"en.{KIND}.0600aa"]
    assert re.search(r"instruction has 30,0\d\d bytes, more than .*: it is not read", str(suite.problems[0]))


def test_options_that_mean_nothing_and_data_that_cannot_be_used_are_refused(tmp_path):
    without = [{name: cell for name, cell in one.items() if name != "key"} for one in rows([KIND])]
    english = [one for one in rows([KIND]) if one["instruction_language"] == "en"]
    data = one_file(tmp_path, rows([KIND]))
    for path, options, message in (
        (data, {"language": "zh"}, "gedit has no language 'zh': expected one of en, cn, both"),
        (data, {"sources": "image"}, "no column of sources 'image': expected one of input_image, input_image_raw"),
        (data, {"prompts": "/nowhere"}, "prompt pack '/nowhere' is not a folder"),
        (tmp_path / "nothing", {}, "GEdit-Bench's parquet files"),
        (parquet(tmp_path / "a.parquet", without), {}, "lacks the columns key: expected task_type, key, instruction"),
        (parquet(tmp_path / "b.parquet", english), {"language": "cn"}, "has no usable rows in Chinese: it has none"),
    ):
        with pytest.raises(InputError, match=message):
            GEditBench(path, **options)
