"""The readers of preference sets, on small data in the published layouts."""

import json
import math
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.human_preferences import catalogue, comparison
from editcritic.benchmarks.suites.human_preferences.catalogue import PREFERENCE_SETS
from editcritic.benchmarks.suites.human_preferences.comparison import Comparison, Picture
from editcritic.benchmarks.suites.rows import DataProblem, number, text
from editcritic.reward import ImageError

from . import layouts

Read = Callable[[Path], Iterator[Comparison | DataProblem]]

PARQUET = "train-00000-of-00001.parquet"


def comparisons(read: Read, folder: Path) -> list[Comparison]:
    rows = list(read(folder))
    assert [row for row in rows if isinstance(row, DataProblem)] == []
    return [row for row in rows if isinstance(row, Comparison)]


def level(picture: Picture) -> int:
    return int(picture.open().pixels[-1, -1, 0])


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [layouts.genai_on_hub, layouts.genai_json])
def test_both_layouts_of_genai_bench_say_the_same(tmp_path, make):
    rows = comparisons(catalogue.read_genai_bench, make(tmp_path / "set"))
    assert [row.preferences["left", "right"] for row in rows] == [1, -1, 1, 0, 0, 0, -1, 1]
    assert [tuple(map(level, row.candidates.values())) for row in rows] == [levels for _, levels in layouts.VOTES]
    assert rows[3].instruction == "make it brighter, number 3"
    assert len({row.sources[0].open().digest for row in rows}) == len(rows)
    other = layouts.genai_json(tmp_path / "other", "valid_dataset_1.json")
    for place in (other, other / "valid_dataset_1.json"):
        assert len(comparisons(catalogue.read_genai_bench, place)) == len(layouts.VOTES)


def test_groups_of_edit_reward_bench_are_pairs_in_the_order_of_people(tmp_path):
    by_group = comparisons(catalogue.read_edit_reward_bench, layouts.edit_reward_json(tmp_path / "json"))
    rows = {row.id: row for row in by_group}
    assert len(rows) == 14
    assert rows["2-pair/1"].preferences == {("A", "B"): 0}
    assert rows["2-pair/5"].preferences == {("A", "B"): -1}  # A<B
    assert rows["3-pair/0"].preferences == {("A", "B"): 1, ("A", "C"): -1, ("B", "C"): -1}  # C>A>B
    assert (len(rows["4-pair/2"].preferences), rows["4-pair/2"].preferences["B", "C"]) == (6, -1)  # A>C>B>D
    assert list(map(level, rows["4-pair/1"].candidates.values())) == [11, 22, 33, 44]
    assert {row.labels["size"] for row in rows.values()} == {"2-pair", "3-pair", "4-pair"}
    layouts.write_rows(tmp_path / "hub/data" / PARQUET, layouts.edit_reward_rows())
    groups: dict[str, dict[tuple[str, str], int]] = {}
    for row in comparisons(catalogue.read_edit_reward_bench, tmp_path / "hub"):
        groups.setdefault(row.group, {}).update(row.preferences)
    assert list(groups.values()) == [dict(row.preferences) for row in by_group]


def test_the_first_edit_of_a_pair_of_edit_score_is_the_better_one(tmp_path):
    layouts.write_rows(tmp_path / "data" / PARQUET, layouts.edit_score_rows())
    rows = comparisons(catalogue.read_edit_score_bench, tmp_path)
    assert [row.labels for row in rows[:1]] == [{"dimension": "overall", "task": "color_alter"}]
    assert [set(row.preferences.values()) for row in rows] == [{1}] * 6
    assert [tuple(map(level, row.candidates.values())) for row in rows] == [
        levels for _, _, levels in layouts.SCORED_PAIRS
    ]


def test_winners_of_vc_reward_bench(tmp_path):
    layouts.write_rows(tmp_path / "data" / PARQUET, layouts.vc_reward_rows())
    rows = comparisons(catalogue.read_vc_reward_bench, tmp_path)
    assert [row.preferences["A", "B"] for row in rows] == [1, -1, -1, 1]
    assert [row.labels["task"] for row in rows] == ["color_alteration"] * 2 + ["subject_removal"] * 2


def test_winners_and_ties_of_compass(tmp_path):
    rows = comparisons(catalogue.read_edit_reward_compass, layouts.compass_json(tmp_path))
    assert [row.preferences["winner", "loser"] for row in rows] == [1, 0, 0, 1, 1]
    assert [row.labels["dimension"] for row in rows] == ["IA", "IA", "IA", "VC", "VQ"]
    assert len(comparisons(catalogue.read_edit_reward_compass, tmp_path / "reward_eval.json")) == 5


def test_the_rating_of_an_edit_is_the_mean_of_the_roots_of_three_people(tmp_path):
    museum = comparisons(comparison.read_imagenhub, layouts.imagenhub_museum(tmp_path))
    assert [row.id for row in museum] == [f"sample_{number}_1.jpg" for number in range(4)]
    first = museum[0].ratings
    assert first["MagicBrush"] == pytest.approx((1 + 1 + math.sqrt(0.5)) / 3)
    assert museum[1].ratings["SDEdit"] == pytest.approx((math.sqrt(0.5) + 1 + math.sqrt(0.5)) / 3)
    assert first["Imagic"] == 0
    assert museum[0].preferences == {("MagicBrush", "SDEdit"): 1, ("MagicBrush", "Imagic"): 1, ("SDEdit", "Imagic"): 0}
    assert list(museum[0].others["MagicBrush"][2]) == pytest.approx([math.sqrt(0.5), 1.0])
    rows = layouts.named(
        "instruction input_path output_path score model filename",
        (
            (row.instruction, f"input/{row.id}", f"{model}/{row.id}", rating, model, row.id)
            for row in museum
            for model, rating in row.ratings.items()
        ),
    )
    layouts.write_json(tmp_path, comparison.JSON_FILE, rows)
    processed = comparisons(comparison.read_imagenhub, tmp_path)
    assert [(row.ratings, row.preferences) for row in processed] == [(row.ratings, row.preferences) for row in museum]


# -- what is broken ----------------------------------------------------------------------------------------------------


def test_a_set_is_read_row_by_row(tmp_path):
    rows = layouts.vc_reward_rows()
    layouts.write_rows(tmp_path / PARQUET, rows * 50)
    reader = catalogue.read_vc_reward_bench(tmp_path)
    assert isinstance(reader, Generator)
    assert isinstance(next(reader), Comparison)
    reader.close()


@pytest.mark.parametrize("name", list(PREFERENCE_SETS))
def test_a_folder_without_the_set_is_an_error_that_says_what_is_expected(name, tmp_path):
    with pytest.raises(InputError, match=r"parquet|json"):
        list(PREFERENCE_SETS[name].read(tmp_path))


def test_what_is_no_parquet_file_of_the_set_is_an_error_that_says_so(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "winner"} for row in layouts.vc_reward_rows()]
    layouts.write_rows(tmp_path / PARQUET, rows)
    with pytest.raises(InputError, match=r"lacks the columns winner: expected key, instruction"):
        list(catalogue.read_vc_reward_bench(tmp_path))
    (tmp_path / PARQUET).write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot be read"):
        list(catalogue.read_vc_reward_bench(tmp_path))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"winner": "Image C"}, "expected 'Image A' or 'Image B' or 'Tie' in 'winner', got 'Image C'"),
        ({"instruction": " "}, "expected text in 'instruction'"),
        ({"edited_images": []}, "expected a list of 2 entries in 'edited_images', got 0 entries"),
        ({"key": "color_alteration_pair_0"}, "is also that of"),
    ],
)
def test_a_broken_row_is_one_problem_and_the_others_are_read(change, problem, tmp_path):
    rows = layouts.vc_reward_rows()
    rows[2] |= change
    layouts.write_rows(tmp_path / PARQUET, rows)
    read = list(catalogue.read_vc_reward_bench(tmp_path))
    (invalid,) = [row for row in read if isinstance(row, DataProblem)]
    assert problem in str(invalid)
    assert "row 2" in invalid.location
    assert len(read) == 4


@pytest.mark.parametrize("ranking", ["A>B>C>D", "A=B>C", "A>A>B", "", "A>B", None])
def test_an_order_that_is_none_is_a_problem(ranking, tmp_path):
    layouts.edit_reward_json(tmp_path)
    path = tmp_path / "EditReward_Bench_3pair.json"
    rows = json.loads(path.read_text())
    rows[1]["human_vote"] = {"ranking": ranking}
    path.write_text(json.dumps(rows))
    invalid = [row for row in catalogue.read_edit_reward_bench(tmp_path) if isinstance(row, DataProblem)]
    assert len(invalid) == 1


@pytest.mark.parametrize("text", ["[0.7, 1]", "[1]", "", "__import__('os')", "[0, 1, 1]"])
def test_a_cell_that_is_no_rating_is_a_problem_and_runs_nothing(text, tmp_path):
    path = layouts.imagenhub_museum(tmp_path) / "Text-Guided_IE/Text-Guided_IE_rater2.tsv"
    path.write_text(path.read_text().replace("[0.5, 1]", text, 1))
    read = list(comparison.read_imagenhub(tmp_path))
    assert sum(isinstance(row, DataProblem) for row in read) == 1
    assert len(read) == 4


def test_ratings_of_other_edits_or_of_two_tasks_or_twice_are_refused(tmp_path):
    folder = layouts.imagenhub_museum(tmp_path)
    path = folder / "Text-Guided_IE/Text-Guided_IE_rater3.tsv"
    text = path.read_text()

    def refused(message):
        with pytest.raises(InputError, match=message):
            list(comparison.read_imagenhub(folder))

    path.write_text(text.replace("sample_3_1.jpg", "sample_9_1.jpg"))
    refused("rates other edits than")
    path.write_text(text + text.splitlines()[-1])
    refused("2 times: get the file again")
    path.write_text(text)
    (folder / "Mask-Guided_IE_rater1.tsv").write_text(text)
    refused(r"several tasks \(Mask-Guided_IE, Text-Guided_IE\)")


@pytest.mark.parametrize("name", ["/etc/hostname", "../outside.png", "images/../../outside.png", "a\0b", "", None, 7])
def test_names_of_pictures_lead_into_the_folder_or_nowhere(name, tmp_path):
    (tmp_path / "outside.png").write_bytes(layouts.png(9))
    picture = Picture.of_file(tmp_path / "data", name)
    assert picture.path is None
    with pytest.raises(ImageError):
        picture.open()


@pytest.mark.parametrize("value", [None, {"bytes": None, "path": None}, b"", {"bytes": b"", "path": "no.png"}, 3])
def test_a_cell_without_a_picture_says_so_when_it_is_opened(value, tmp_path):
    with pytest.raises(ImageError):
        Picture.of_cell(tmp_path, value).open()


@pytest.mark.parametrize("content", ["", "{}", "[]", "[[", "\x00"])
def test_a_file_of_no_rows_is_an_error(content, tmp_path):
    (tmp_path / "valid_set2_full.json").write_text(content)
    with pytest.raises(InputError, match=r"valid_set2_full.json"):
        list(catalogue.read_genai_bench(tmp_path))


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), True, "1"])
def test_what_is_no_number_is_no_number_and_half_a_character_no_text(value):
    with pytest.raises(ValueError, match="expected a number"):
        number({"score": value}, "score")
    with pytest.raises(ValueError, match="lone surrogate"):
        text({"prompt": "make \ud800"}, "prompt")
