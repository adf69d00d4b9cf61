"""The study on edits made by hand: destroyed places, the search for fills, the hand-made set, and the command."""

import json
import random
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Image, Reward, Score
from studies.real_edits.command import main
from studies.real_edits.destroyed import Destroyed, Payment, destroyed, payments
from studies.real_edits.fill_search import best_finds, mutated_fill, random_fill, search_fills
from studies.real_edits.fills import KINDS, kinds_of
from studies.real_edits.folder_edits import folder_edits
from studies.real_edits.hand_edits import HAND_EDITS
from studies.real_edits.hand_report import HandScore, hand_figures, hand_scores
from studies.real_edits.sheet import heat_map
from tests.studies.real_edits.edits_by_hand import edit_by_hand

_REMOVAL = [kind for kind in KINDS if kind.name in ("flat grey", "ghost", "border mean, feathered")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A set in a folder: an honest removal, and one that is not done."""
    path = tmp_path_factory.mktemp("edits")
    edit = edit_by_hand("rocket-gone")
    for name, image in (("before", edit.source), ("after", edit.edited)):
        PIL.Image.fromarray(np.array(image.pixels)).save(path / f"{name}.png")
    row = {
        "id": "done",
        "group": "rocket",
        "base": "rocket",
        "source": "before.png",
        "edited": "after.png",
        "instruction": "Remove the rocket",
        "editor": "a person",
        "followed": "yes",
        "preserved": "yes",
        "boxes": {"rocket": [[214, 97, 300, 342]]},
        "target": ["rocket"],
        "removal": True,
    }
    rows = [row, {**row, "id": "not done", "edited": "before.png", "followed": "no"}]
    (path / "edits.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def test_a_folder_is_read_and_a_wrong_row_is_named(folder, tmp_path):
    done, not_done = folder_edits(folder)
    assert done.edited == edit_by_hand("rocket-gone").edited
    assert (done.operation, done.is_good, not_done.is_good) == ("removal", True, False)
    (row, _) = (folder / "edits.jsonl").read_text(encoding="utf-8").splitlines()
    for change, message in (
        ({"edited": "../after.png"}, "line 1: edited"),
        ({"edited": "lost.png"}, "line 1: .*lost.png"),
        ({"followed": "maybe"}, "followed"),
        ({"target": ["mast"]}, "target"),
    ):
        (tmp_path / "edits.jsonl").write_text(json.dumps({**json.loads(row), **change}), encoding="utf-8")
        for name in ("before.png", "after.png"):
            (tmp_path / name).write_bytes((folder / name).read_bytes())
        with pytest.raises(InputError, match=message):
            folder_edits(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        folder_edits(tmp_path / "nowhere")


def test_the_target_of_an_addition_is_no_object_of_the_source():
    edit = replace(
        edit_by_hand("coin-on-table"),
        boxes={"saucer": [(65, 55, 410, 333)], "coin": [(430, 180, 493, 239)]},
        target=("coin",),
    )
    assert edit.target_boxes == [(430, 180, 493, 239)]
    assert set(edit.sample().boxes) == {"saucer"}
    assert not edit.sample(boxed=False).boxes


def _row(value: float | None, honest: float | None) -> Destroyed:
    scores = [Score.abstained("unknown") if number is None else Score.of(number) for number in (value, honest)]
    edit = edit_by_hand("rocket-gone")
    return Destroyed(edit, KINDS[0], edit.source, *scores)


@pytest.mark.parametrize(
    ("value", "honest", "pays"),
    [(0.5, 0.505, True), (0.5, 0.6, False), (0.0, None, True), (None, None, False), (None, 0.0, False)],
)
def test_a_fill_pays_that_has_a_value_and_no_less_than_the_honest_edit(value, honest, pays):
    assert _row(value, honest).pays is pays


def test_payments_are_by_kind_and_operation_and_a_missing_value_is_0():
    rows = [_row(1.0, 0.9), _row(None, 0.9), _row(0.2, 0.9)]
    (line,) = payments(rows)["operation and kind"]
    assert line == Payment("removal: flat grey", 3, 1, 1, 0.2, line.high)
    assert line.high == pytest.approx(0.92)
    assert [one.name for one in payments(rows)["all"]] == ["all"]


def test_places_are_destroyed_for_good_edits_only_and_not_where_a_reader_finds_it_right():
    reward = Reward.of("any-edit", "cpu", on_failures="none")
    good, bad = edit_by_hand("rocket-gone"), edit_by_hand("rocket-gone", followed="no")
    rows = destroyed(reward, [good, bad], _REMOVAL, without={"rocket-gone/flat grey"})
    assert [row.kind.name for row in rows] == ["border mean, feathered", "ghost"]
    assert rows[0].honest.value is not None
    ghost = rows[1]
    assert ghost.value < 0.5, "half of the rocket is there"
    assert not ghost.pays


def test_recipes_of_the_search_stay_in_their_ranges():
    rng = random.Random(0)
    kinds = kinds_of("removal")
    recipe = random_fill(rng, kinds)
    names = set()
    for _ in range(400):
        recipe = mutated_fill(rng, recipe, kinds)
        names.add(recipe.kind.name)
        assert recipe.values.keys() == {one.name for one in recipe.kind.parameters}
        assert all(one.low <= recipe.values[one.name] <= one.high for one in recipe.kind.parameters)
    assert len(names) > len(kinds) / 2


def test_the_search_keeps_to_its_queries_and_finds_the_same_again():
    reward = Reward.of("any-edit", "cpu", on_failures="none")
    edit = edit_by_hand("rocket-gone")
    small = replace(
        edit,
        source=edit.source.resized(256, 171),
        edited=edit.edited.resized(256, 171),
        boxes={"rocket": [(107, 48, 150, 171)]},
    )
    tried = search_fills(reward, [small], _REMOVAL, queries=8, seed=2)
    assert [one.query for one in tried] == list(range(1, 9))
    assert len({one.fill.picture.digest for one in tried}) == 8
    again = search_fills(reward, [small], _REMOVAL, queries=8, seed=2)
    assert [str(one.recipe) for one in again] == [str(one.recipe) for one in tried]
    (best,) = best_finds(tried)
    assert best.fill.value == max(one.fill.value for one in tried)


def test_the_set_made_by_hand_is_what_it_says():
    assert len(HAND_EDITS) == len({edit.id for edit in HAND_EDITS}) == 40
    assert len({edit.instruction for edit in HAND_EDITS}) == 30
    assert sum(edit.is_honest for edit in HAND_EDITS) == 20
    samples = {edit.id: edit.sample(boxed=True) for edit in HAND_EDITS}
    assert all(sample.edited != sample.source for sample in samples.values())
    for edit in HAND_EDITS:
        width, height = samples[edit.id].source.size
        for x0, y0, x1, y1 in (box for boxes in edit.boxes.values() for box in boxes):
            assert 0 <= x0 < x1 <= width, edit.id
            assert 0 <= y0 < y1 <= height, edit.id


def test_a_score_is_right_on_the_side_of_the_fault_and_counted_so():
    honest, wrong = (next(edit for edit in HAND_EDITS if edit.is_honest == right) for right in (True, False))
    rows = [
        HandScore(honest, True, Score.of(0.5)),
        HandScore(wrong, True, Score.of(0.5)),
        HandScore(wrong, True, Score.of(0.49)),
        HandScore(honest, False, Score.abstained("unknown")),
    ]
    assert [row.is_right for row in rows] == [True, False, True, None]
    assert hand_figures(rows)["with boxes"] == {
        "edits": 3,
        "scored": 3,
        "right": 2,
        "honest scored": 1,
        "honest right": 1,
    }
    assert hand_figures(rows)["without boxes"]["scored"] == 0


def test_edits_made_by_hand_are_scored_without_and_with_boxes():
    reward = Reward.of("any-edit", "cpu", on_failures="none")
    some = [edit for edit in HAND_EDITS if edit.id == "rocket-gone"]
    rows = hand_scores(reward, some)
    assert [row.boxed for row in rows] == [False, True]
    assert rows[1].is_right is True


def test_a_heat_map_is_grey_where_nothing_changed():
    edit = edit_by_hand("rocket-gone")
    pixels = np.asarray(heat_map(edit.source, edit.edited))
    assert (pixels[:80].max(axis=2) == pixels[:80].min(axis=2)).all()
    assert (pixels[150:300, 247:268, 0] > pixels[150:300, 247:268, 2]).mean() > 0.9
    assert heat_map(edit.source, Image.of(np.zeros((40, 40, 3), np.uint8))).size == edit.source.size


def test_the_command_reports_and_writes_agreement_fills_and_finds(folder, tmp_path, capsys):
    main(["agreement", "--folder", str(folder), "--out", str(tmp_path)])
    text = capsys.readouterr().out
    assert "with boxes: 2 of 2 have a value" in text
    assert "reward, with boxes, missing as 0               AUC 1.000" in text
    lines = (tmp_path / "agreement.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["done", "not done"]
    without = tmp_path / "right.txt"
    without.write_text("done/flat grey\n", encoding="utf-8")
    options = ["--folder", str(folder), "--out", str(tmp_path), "--without", str(without)]
    main(["fills", *options, "--kinds", "flat grey", "ghost"])
    assert "removal: ghost" in (text := capsys.readouterr().out)
    assert "flat grey" not in text
    main(["search", *options, "--kinds", "ghost", "--queries", "3"])
    assert "all that was tried" in capsys.readouterr().out
    for name in ("worst_edits.png", "worst_fills.png", "best_finds.png"):
        assert PIL.Image.open(tmp_path / name).width > 500


def test_fills_are_drawn_for_a_reader_and_kinds_of_ones_own_are_tried(folder, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "from studies.real_edits import fills\nKINDS = [kind for kind in fills.KINDS if kind.name == 'smear']\n",
        encoding="utf-8",
    )
    main(["fills", "--folder", str(folder), "--out", str(tmp_path), "--kinds-from", str(own), "--draw-only"])
    assert [path.name for path in tmp_path.glob("*.png")] == ["fills_000.png"]
    own.write_text("KINDS = 3\n", encoding="utf-8")
    with pytest.raises(InputError, match="no KINDS"):
        main(["fills", "--folder", str(folder), "--out", str(tmp_path), "--kinds-from", str(own)])
    with pytest.raises(InputError, match="no fill is named fog"):
        main(["fills", "--folder", str(folder), "--out", str(tmp_path), "--kinds", "fog"])
