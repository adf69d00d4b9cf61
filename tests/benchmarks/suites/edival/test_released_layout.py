"""Protocol `official` on folders in the released layout, beside what the released code made of the same files."""

import csv
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.report.results_loading import load_result_folders, load_suite_of
from editcritic.benchmarks.run.editor_outputs import MissingOutput, Outputs
from editcritic.benchmarks.run.run_config import RunConfig
from editcritic.benchmarks.run.run_settings import RunSettings
from editcritic.benchmarks.run.runner import execute
from editcritic.benchmarks.suites.edival.reader import COLUMNS, CSV
from editcritic.benchmarks.suites.edival.suite import EdiVal
from editcritic.benchmarks.suites.results import OUTPUTS_ENTRY, ResultRow, Results
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Score
from editcritic.reward.score import Evidence

from . import layout
from .layout import chains

LOOKERS = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
RECORDED = Path(__file__).parent / "released_layout.json"
MODES = ("multipass", "singlepass")


@cache
def recorded() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return record


CASES = list(recorded()["cases"])


def picture(number: int) -> PIL.Image.Image:
    return PIL.Image.fromarray(np.full((8, 8, 3), 20 * number, np.uint8))


def write_data(folder: Path, turns: Mapping[str, list[int]]) -> Path:
    folder.mkdir()
    with (folder / CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(row for row in recorded()["rows"] if row["turns"] in turns[str(row["image_index"])])
    for index in turns:
        picture(int(index)).save(folder / f"{index}_input_raw.jpg")
    return folder


def write_outputs(folder: Path, mode: str, names: list[str]) -> Path:
    (folder / mode).mkdir(parents=True)
    for name in names:
        picture(int(name.partition("_")[0])).save(folder / mode / name)
    return folder


def suite_of(tmp_path: Path, case: str, mode: str, protocol: str | None, **options: Any) -> tuple[EdiVal, Path]:
    """The suite, and the folder of outputs."""
    case_record = recorded()["cases"][case]
    data = write_data(tmp_path / "data", case_record["chains"])
    suite = EdiVal(data, mode=mode, **options).under(protocol)  # type: ignore[arg-type]
    return suite, write_outputs(tmp_path / "made", mode, case_record["files"])


def scores(suite: EdiVal, item: SuiteItem) -> dict[str, Score]:
    """As the models in the recording."""
    row = suite.turns[item.id]
    index, turn = row.index, row.number
    followed = {
        f"{number}": Score.of(float((5 * index + 3 * turn + 2 * number) % 4 != 0)) for number in range(1, turn + 1)
    }
    value = round(0.9 - index / 100 - turn / 10, 4)
    rating = round(index + turn / 10, 4)
    halves = dict.fromkeys(("objects", "background", "objects_l1", "background_l1"), Score.of(value))
    light = [Evidence("luminance of the edited picture", numbers={"99 %": rating, "99.9 %": rating})]
    return {
        "if": Score.of(0.5, credits=followed) if suite.mode == "singlepass" else followed[str(turn)],
        "cc": Score.of(value, parts=halves).with_signature("edival-cc@3/official"),
        "vq": Score.of(rating, parts={"base": Score.of(0.0), "change": Score.of(rating)}, evidence=light),
    }


def results_of(suite: EdiVal, folder: Path) -> Results:
    outputs, rows = Outputs(suite, folder), []
    for item in suite.items:
        try:
            outputs.sample(item)
            rows.append(ResultRow(item.id, item.case, item.labels, scores(suite, item)))
        except MissingOutput as error:
            rows.append(ResultRow(item.id, item.case, item.labels, {}, str(error)))
    return Results("mine", rows, {OUTPUTS_ENTRY: dict(suite.output_facts(folder))})


def rates(suite: EdiVal, results: Results, name: str = "rates") -> dict[str, list[float | None]]:
    table = next(one for one in suite.tables(results) if one.name == name)
    return {
        row: [None if cell.value is None else round(cell.value, 2) for cell in cells.values()]
        for row, cells in ComputedTable.compute(table, None).cells.items()
    }


def notes(suite: EdiVal, results: Results) -> str:
    return " ".join(suite.tables(results)[0].notes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_files_and_tables_are_those_of_the_released_code_and_the_authors_notebook(case, mode, tmp_path):
    suite, folder = suite_of(tmp_path, case, mode, "official")
    results, expected = results_of(suite, folder), recorded()["cases"][case][mode]
    paths = suite.write_official_files(results, tmp_path / "out")
    assert sorted(path.name for path in paths) == expected["written"]
    made = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    assert made["image_rate.json"] == expected["image_rate"]
    lists = {
        key: {name: each for name, each in value.items() if each} if isinstance(value, dict) else value
        for key, value in made["task_rate.json"].items()
    }
    assert lists == expected["task_rate"]
    summary, found = expected["summary"], rates(suite, results)
    by_turn = {key: [summary[turn].get(key) for turn in "123"] for key in set().union(*summary.values())}
    if case == "a picture not in the file" and mode == "multipass":
        shown = ", ".join(f"{rate:.2f}" for rate in by_turn["image_rate"])
        assert f"its image success is {shown} by turn. Here they do not count." in notes(suite, results)
        by_turn["image_rate"] = [80.0, 60.0, 40.0]
    keys = {"image success": "image_rate", "task rate": "overall_task_rate"}
    keys |= {"marginal task rate": "marginal_mean"} if mode == "singlepass" else {}
    assert {name: found[name] for name in keys} == {name: by_turn[key] for name, key in keys.items()}
    for name, values in rates(suite, results, "types").items():
        assert values == [rate for rate in by_turn[name] if rate is not None], "a turn without the type has no cell"
    consistency = rates(suite, results, "consistency")["objects, features"]
    assert consistency == by_turn["object_dinov3_consistency"]
    rating = rates(suite, results, "quality")["VQ"]
    assert [None if one is None else round(100 * one, 2) for one in rating] == by_turn["human_preference_score"]


@pytest.mark.parametrize(
    ("case", "stated"),
    [
        ("a missing turn 3", "1 of 5 images lack a turn and are left out of all turns (incomplete=drop)"),
        ("a missing base", "1 of 5 images lack a turn"),
        ("a base as png and jpg", "1 image (2) with base pictures as .png and as .jpg: the released code scores"),
        ("a turn as jpg", "1 of 5 images lack a turn"),
        ("a turn as png and jpg", "1 picture (2_input_raw_turn_3.jpg) beside a .png of the same name: the .png counts"),
        ("a picture not in the file", "1 image (7) with outputs, but without a row in the instruction file"),
        ("an unfinished picture not in the file", "1 image (7) with outputs, but with neither a row in the"),
        ("a chain of two rows", "1 of 5 images have fewer turns in the data, and count at those; the image success"),
        ("all there", "Base pictures: those beside the outputs."),
    ],
)  # fmt: skip
def test_what_the_files_are_is_stated(case, stated, tmp_path):
    suite, folder = suite_of(tmp_path, case, "multipass", "official")
    assert stated in notes(suite, results_of(suite, folder))


def test_a_missing_file_is_named(tmp_path):
    for case, name, other in (
        ("a missing turn 3", "2_input_raw_turn_3.png", ""),
        ("a turn as jpg", "2_input_raw_turn_3.png", "; 2_input_raw_turn_3.jpg does not count, which is no PNG"),
        ("a missing base", "2_input_raw.png or .jpg", ""),
    ):
        (tmp_path / name / case).mkdir(parents=True)
        suite, folder = suite_of(tmp_path / name / case, case, "multipass", "official")
        reasons = {row.missing_reason for row in results_of(suite, folder).rows if row.missing_reason}
        assert reasons == {f"the released code leaves image 2 out, which lacks multipass/{name}{other}"}


@pytest.mark.parametrize("case", ["a missing turn 3", "a chain of two rows", "a chain of two rows and pictures"])
def test_elsewhere_a_chain_keeps_the_turns_that_it_has(case, tmp_path):
    suite, folder = suite_of(tmp_path, case, "multipass", None)
    found = rates(suite, results_of(suite, folder))
    assert found["image success"] == [80.0, 60.0, 50.0], "3 of 5 at turn 2, 2 of 4 at turn 3"


@pytest.mark.parametrize(
    ("case", "stated"),
    [
        ("a turn as jpg", ""),
        ("a turn as png and jpg", "1 picture (2_input_raw_turn_3.jpg) beside a .png"),
        ("an unfinished picture not in the file", "1 image (7) with outputs, but without a row"),
    ],
)
def test_elsewhere_any_format_counts_and_files_are_stated(case, stated, tmp_path):
    suite, folder = suite_of(tmp_path, case, "multipass", None)
    results = results_of(suite, folder)
    assert not any(row.missing_reason for row in results.rows)
    assert stated in notes(suite, results)
    assert "Base pictures" not in notes(suite, results)


def test_options_say_otherwise(tmp_path):
    options: dict[str, Any] = {"incomplete": "later", "pictures": "upright"}
    suite, folder = suite_of(tmp_path, "a missing turn 3", "multipass", "official", **options)
    assert (suite.options.items() >= options.items(), suite.reading) == (True, "upright")
    assert rates(suite, results_of(suite, folder))["image success"] == [80.0, 60.0, 50.0]
    options = {"incomplete": "drop", "pictures": "stored"}
    assert EdiVal(tmp_path / "data", **options).options.items() >= options.items()


def test_edits_are_compared_with_the_base_beside_the_outputs(tmp_path):
    suite, folder = suite_of(tmp_path, "all there", "multipass", "official")
    picture(9).save(folder / "multipass" / "1_input_raw.png")
    outputs = Outputs(suite, folder)
    third = outputs.sample(suite.by_id["1/multipass/3"])
    assert third.base.pixels.max() == 180
    assert third.source.pixels.max() == 20
    (folder / "multipass" / "1_input_raw.png").write_bytes(b"no picture")
    with pytest.raises(MissingOutput, match=r"^multipass/1_input_raw\.png is not an image"):
        Outputs(suite, folder).sample(suite.by_id["1/multipass/3"])
    ours = EdiVal(tmp_path / "data")
    assert Outputs(ours, folder).sample(ours.by_id["1/multipass/3"]).base == ours.by_id["1/multipass/3"].sample.source


def test_bases_beside_the_outputs_count_once_and_else_those_of_the_data(tmp_path):
    suite, folder = suite_of(tmp_path, "a base as png and jpg", "multipass", "official")
    assert suite.output_facts(folder) == {"twice": [2], "bases": "outputs"}
    (folder / "multipass" / "2_input_raw_turn_1.png").unlink()
    assert suite.output_facts(folder) == {"bases": "outputs"}, "an unfinished image counts no time"
    for path in [*folder.rglob("*_input_raw.png"), *folder.rglob("*_input_raw.jpg")]:
        path.unlink()
    results = results_of(suite, folder)
    assert [row.id for row in results.rows if row.missing_reason and not row.id.startswith("2/")] == []
    assert "Base pictures: those of the data, since none lies beside the outputs." in notes(suite, results)


def test_pictures_are_read_as_the_released_code_reads_them(tmp_path):
    suite, folder = suite_of(tmp_path, "all there", "multipass", None)
    PIL.Image.new("RGBA", (8, 8), (10, 20, 30, 0)).save(folder / "multipass" / "0_input_raw_turn_1.png")
    turned = PIL.Image.Exif()
    turned[0x0112] = 6
    (folder / "multipass" / "0_input_raw.png").unlink()
    for place in (tmp_path / "data", folder / "multipass"):
        PIL.Image.new("RGB", (12, 8)).save(place / "0_input_raw.jpg", exif=turned)
    ours = EdiVal(tmp_path / "data")
    released = ours.under("official")
    for one, size, pixel in ((ours, (8, 12), [255, 255, 255]), (released, (12, 8), [10, 20, 30])):
        sample = Outputs(one, folder).sample(one.by_id["0/multipass/1"])
        assert (sample.source.size, sample.edited.pixels[0, 0].tolist()) == (size, pixel)
    assert (ours.released, released.released, released.options["pictures"]) == (False, True, "stored")
    assert released.by_id["0/multipass/1"].sample.source.size == (12, 8)
    assert released.digest != ours.digest == released.under(None).digest
    assert released.under("official") is released
    assert suite.under("paper") is suite


def test_facts_of_a_stranger_are_numbers_and_names_of_files_or_nothing(tmp_path):
    suite, folder = suite_of(tmp_path, "all there", "multipass", "official")
    results = results_of(suite, folder)
    bad = "0_input_raw.\x1b[31mpng"
    for facts in ([1], "x", {"unlisted": {"7": 1}}, {"unlisted": ["7", True, -1, 10**12, 1.5], "ignored": [bad, 3]}):
        text = notes(suite, Results("mine", results.rows, {OUTPUTS_ENTRY: facts}))
        assert "\x1b" not in text
        assert "without a row" not in text
        assert "beside a .png" not in text


def test_a_run_records_what_its_outputs_are_and_scores_again_what_starts_from_another_base(tmp_path):
    chained = chains(2)
    data, folder = layout.write_data(tmp_path / "data", chained), layout.write_outputs(tmp_path / "made", chained)
    names = ("9_input_raw.png", *(f"9_input_raw_turn_{turn}.png" for turn in (1, 2, 3)), "0_input_raw_turn_2.jpg")
    for name in names:
        picture(1).save(folder / "multipass" / name)
    out = tmp_path / "out"
    settings = RunSettings(
        suite="edival?vq=false", data=data, outputs=folder, out=out, editor_name="mine", experts=(LOOKERS,),
        protocol="official", metrics=("cc",), bootstrap_samples=0,
    )  # fmt: skip
    first: Any = execute(RunConfig.build(settings))
    provenance = json.loads((out / "result.json").read_text(encoding="utf-8"))["provenance"]
    assert provenance["outputs"] == {"unlisted": [9], "ignored": ["0_input_raw_turn_2.jpg"], "bases": "outputs"}
    assert provenance["suite_options"]["pictures"] == "stored"
    printed = first.tables[0].markdown()
    assert "1 image (9) with outputs" in printed
    assert "1 picture (0_input_raw_turn_2.jpg) beside a .png" in printed
    chained[0][0].source.pil().transpose(PIL.Image.Transpose.ROTATE_180).save(folder / "multipass" / "0_input_raw.jpg")
    second: Any = execute(RunConfig.build(settings))
    reused = [[process["reused"] for process in run.run_facts["processes"]] for run in (first, second)]
    assert reused == [[0], [3]], "the three turns of the other image"
    before, after = ([row.value("cc", "background") for row in run.results.rows] for run in (first, second))
    assert before[3:] == after[3:]
    assert before[:3] != after[:3]
    suite = load_suite_of(load_result_folders([out]), None)
    assert isinstance(suite, EdiVal)
    assert suite.released
