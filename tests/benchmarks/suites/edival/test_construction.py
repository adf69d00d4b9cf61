"""Making EdiVal chains: what the judge says becomes the published file, or a reason why not."""

import ast
import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.construction.workspace import ConstructionReport, list_numbered_images
from editcritic.benchmarks.suites.edival import construction
from editcritic.benchmarks.suites.edival.construction import ChainState, EdiValAgent, construct, is_feasible
from editcritic.benchmarks.suites.edival.construction_tasks import Grounding, ListedObject
from editcritic.benchmarks.suites.edival.reader import COLUMNS, CSV
from editcritic.benchmarks.suites.suite import is_padded
from editcritic.reward import Box, Image, Pools, Task
from editcritic.reward.metrics.edival.task_parser import parse_task, update_pools
from editcritic.reward.queries import Failure

from ..construction.scripted_experts import Places, Says, Script, lines, photographs

BASKET = "wicker basket"
ONE_CUP = json.dumps({"red cup": {"object": "cup", "color": "red", "foreground": True}})


@pytest.fixture
def photos(tmp_path):
    return photographs(tmp_path / "photos", count=2)


@pytest.fixture(autouse=True)
def small(monkeypatch, request):
    """Pictures of 64 a side, where nobody looks at their size."""
    if "512" not in request.node.name:
        monkeypatch.setattr(construction, "IMAGE_SIDE", 64)


def made(
    photos: Path, out: Path, table: Mapping[str, Says] | None = None, *, detector: Places | None = None, **options: Any
) -> tuple[ConstructionReport, Script]:
    judge = Script(table)
    report = construct(
        list_numbered_images(photos), out, EdiValAgent(**options), judge=judge, detector=detector or Places()
    )
    return report, judge


def rows(out: Path) -> list[dict[str, str]]:
    with (out / CSV).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_file_has_the_published_columns_and_cumulative_lists(photos, tmp_path):
    report, _ = made(photos, tmp_path / "data")
    assert (report.num_constructed, report.num_rejected, report.failures) == (2, 0, {})
    written = rows(tmp_path / "data")
    assert tuple(written[0]) == COLUMNS
    turns = [(row["image_index"], row["turns"]) for row in written]
    assert turns == [(index, turn) for index in "01" for turn in "123"]
    for row in written:
        lists = [ast.literal_eval(row[name]) for name in ("task_type", "instructions", "format_instructions")]
        assert [len(one) for one in lists] == [int(row["turns"])] * 3


def test_pictures_are_512_a_side_padded_with_black_and_named_as_published(photos, tmp_path):
    """A photograph of 96 x 72 becomes 512 x 384, between two bars of 64 rows (appendix P)."""
    made(photos, tmp_path / "data")
    path = tmp_path / "data" / "input_images_resize_512" / "0_input_raw.jpg"
    with PIL.Image.open(path) as picture:
        assert (picture.size, picture.format) == ((512, 512), "JPEG")
        bright = np.asarray(picture).max(axis=(1, 2)) > 32  # JPEG rings by a few levels
    assert (int(bright.argmax()), 512 - int(bright[::-1].argmax())) == (64, 448)
    assert is_padded(Image.open(path))


@pytest.mark.parametrize("seed", range(4))
def test_pools_follow_from_the_instructions_that_readers_parse(photos, tmp_path, seed):
    made(photos, tmp_path / "data", turns=5, seed=seed)
    before = Pools()
    for row in rows(tmp_path / "data"):
        if row["turns"] == "1":
            objects = ("denim blue jacket", "metal yellow sign", "wicker basket")
            before = Pools(objects, objects, objects)
        kind, sentence, form = (
            ast.literal_eval(row[name])[-1] for name in ("task_type", "instructions", "format_instructions")
        )
        assert parse_task(form, type=kind) is not None
        task = parse_task(sentence, type=kind)
        assert task is not None
        before = update_pools(before, task)
        present, available, unchanged = (
            tuple(ast.literal_eval(row[f"{name}_objects"])) for name in ("all", "available", "unchanged")
        )
        assert Pools(present, available, unchanged, row["bg_consistency"] == "True") == before


def test_only_adding_comes_twice_in_a_chain_until_all_types_have(photos, tmp_path):
    made(photos, tmp_path / "data", turns=9)
    longest = [ast.literal_eval(row["task_type"]) for row in rows(tmp_path / "data") if row["turns"] == "9"]
    assert len(longest) == 2
    for kinds in longest:
        others = [kind for kind in kinds if kind != "subject_add"]
        assert len(others) == len(set(others))


def test_the_same_seed_makes_the_same_data_and_another_one_other_data(photos, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        made(photos, tmp_path / name, seed=seed)
    files = {name: (tmp_path / name / CSV).read_bytes() for name in "abc"}
    assert files["a"] == files["b"] != files["c"]


def test_a_background_change_keeps_foreground_objects_and_ends_background_scoring(photos, tmp_path):
    made(photos, tmp_path / "data", turns=1, types=("background_change",))
    first = rows(tmp_path / "data")[0]
    assert first["bg_consistency"] == "False"
    assert ast.literal_eval(first["instructions"]) == [
        "Change the background to meadow, remain the denim blue jacket, wicker basket unchanged"
    ]
    assert ast.literal_eval(first["available_objects"]) == ["denim blue jacket", "wicker basket"]


def test_what_cannot_be_done_becomes_adding_an_object(photos, tmp_path):
    table: dict[str, Says] = {"making/edival/objects": ONE_CUP}
    made(photos, tmp_path / "data", table, turns=1, types=("position_change",))
    assert {row["task_type"] for row in rows(tmp_path / "data")} == {"['subject_add']"}
    assert not is_feasible("count_change", [ListedObject("cup", "cup", count=3)], (3,))


def chains_of_one_cup(photos: Path, out: Path, turns: int, **options: Any) -> list[list[str]]:
    """The types of chains of two images with eight seeds, which begin with one object."""
    table: dict[str, Says] = {
        "making/edival/objects": ONE_CUP,
        "making/edival/add#1": "a lamp",  # the first reply of a second turn is there already
    }
    for seed in range(8):
        made(photos, out / str(seed), table, seed=seed, turns=turns, **options)
    chains = [row for seed in range(8) for row in rows(out / str(seed)) if row["turns"] == str(turns)]
    assert len(chains) == 16
    return [ast.literal_eval(row["task_type"]) for row in chains]


def test_without_an_editable_object_one_is_added_whatever_else_could_be_done(photos, tmp_path):
    """Section 2.3: text and background need no object, and are not taken after the only one is removed. Algorithm 2,
    line 6: a count of one is what all objects have, and a colour could always be changed instead."""
    types = ("subject_remove", "text_change", "background_change")
    chains = chains_of_one_cup(photos, tmp_path / "emptied", 2, types=types)
    emptied = [kinds[1] for kinds in chains if kinds[0] == "subject_remove"]
    assert emptied == ["subject_add"] * len(emptied) != []
    add, color = "subject_add", "color_alter"
    chains = chains_of_one_cup(photos, tmp_path / "counts", 2, types=(add, color, "count_change"), counts=(1,))
    assert {tuple(kinds) for kinds in chains} == {(add, add), (add, color), (color, add)}


def test_objects_that_the_detector_does_not_find_or_finds_too_large_are_left_out(photos, tmp_path):
    huge = (Box(0.5, 0.5, 0.95, 0.3, 0.8),)
    detector = Places({"wicker basket": (), "metal yellow sign": huge})
    made(photos, tmp_path / "data", detector=detector)
    grounding = json.loads((tmp_path / "data/grounding_all_objects/0_input_raw.json").read_text("utf-8"))
    assert grounding["parsed_json"]["Filtered All Objects"] == "denim blue jacket."
    assert grounding["parsed_json"]["All Objects"] == "denim blue jacket. metal yellow sign. wicker basket."
    reasons = [
        one["reason"] for one in lines(tmp_path / "data" / "rejections.jsonl") if one["stage"] == "edival/grounding"
    ]
    assert len(reasons) == 4
    assert Grounding(oversized="both").problem(huge) == ""


def test_a_picture_without_grounded_objects_is_given_up_and_the_reason_kept(photos, tmp_path):
    nothing: dict[str, tuple[Box, ...]] = dict.fromkeys(("denim blue jacket", "metal yellow sign", BASKET), ())
    report, _ = made(photos, tmp_path / "data", detector=Places(nothing))
    assert (report.num_constructed, report.num_rejected, report.exit_code) == (0, 2, 0)
    reason = "the detector finds none of the objects that the judge lists"
    assert lines(tmp_path / "data" / "rejections.jsonl")[-1] == {"id": "1", "stage": "rejected", "reason": reason}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I'm sorry, I can't help with that.", "refused"),
        ("A jacket and a basket.", "not JSON"),
        ('{"man": {"object": "old man", "color": null}}', "is a person"),
        ('{"cup": {"color": "red"}}', "lacks the kind of object"),
        ('{"cup": "red"}', "not a JSON object"),
        ('{"cup": {"object": "cup, and remove lamp"}}', "cannot be named"),
        ('{"All Objects": "cup."}', "lists no object"),
    ],
)
def test_a_list_of_objects_that_is_none_is_asked_for_again(photos, tmp_path, reply, reason):
    table = {"making/edival/objects#0": reply}
    report, judge = made(photos, tmp_path / "data", table, turns=1, types=("subject_remove",))
    assert report.num_constructed == 2
    first = lines(tmp_path / "data" / "rejections.jsonl")[0]
    assert (first["attempt"], first["reply"], reason in first["reason"]) == (0, reply, True)
    assert judge.queries.total() == 4  # two questions a picture: the first was answered with nothing usable


@pytest.mark.parametrize(
    ("kind", "topic", "reply", "reason"),
    [
        ("color_alter", "color", "crimson", "none of red"),
        ("color_alter", "color", "It is blue, and red.", "more than the name"),
        ("material_alter", "material", "", "reply is empty"),
        ("subject_replace", "replace", "wicker basket", "already"),
        ("subject_add", "add", "lamp and table", "more than the name"),
        ("subject_add", "add", "a thing with legs to sit on", "6 words"),
        ("text_change", "text", "FRESH BREAD DAILY", "more than two words"),
        ("text_change", "text", "新鲜面包店", "more than four Chinese"),
        ("background_change", "background", "a very sunny beach", "3 words"),
        ("position_change", "position", f"Change the position of [jacket] to [left] of [{BASKET}]", "none of denim"),
        ("position_change", "position", "Move things around", "no instruction"),
        ("count_change", "count", "Change the count of [wicker basket] to [9]", "were requested, got 9"),
    ],
)
def test_words_that_fit_no_slot_end_the_chain_after_three_answers(photos, tmp_path, kind, topic, reply, reason):
    report, _ = made(photos, tmp_path / "data", {f"making/edival/{topic}": reply}, turns=1, types=(kind,))
    kept = lines(tmp_path / "data" / "rejections.jsonl")
    assert (report.num_constructed, report.num_rejected) == (0, 2)
    assert [one.get("attempt") for one in kept[:4]] == [0, 1, 2, None]
    assert reason in kept[0]["reason"]
    assert reason in kept[3]["reason"]


def test_what_was_not_answered_is_asked_again_by_the_same_command_and_nothing_else(photos, tmp_path):
    whole, asked_once = made(photos, tmp_path / "whole")
    busy = dict.fromkeys((f"making/edival/{topic}" for topic in ("text", "add", "color")), Failure("busy"))
    report, _ = made(photos, tmp_path / "data", busy)
    assert report.exit_code == 1
    assert all("busy" in reason for reason in report.failures.values())
    again, second = made(photos, tmp_path / "data")
    assert (again.num_constructed, again.exit_code) == (whole.num_constructed, 0)
    assert (tmp_path / "data" / CSV).read_bytes() == (tmp_path / "whole" / CSV).read_bytes()
    assert second.queries.total() < asked_once.queries.total()
    assert made(photos, tmp_path / "data")[1].queries.total() == 0


def test_other_options_in_one_folder_and_those_that_make_no_sense_are_refused(photos, tmp_path):
    made(photos, tmp_path / "data")
    with pytest.raises(InputError, match="constructed with another seed"):
        made(photos, tmp_path / "data", seed=1)
    with pytest.raises(InputError, match="not empty"):
        made(photos, photos)
    with pytest.raises(ValueError, match="between 1 and 10"):
        EdiValAgent(counts=(3, 11))
    with pytest.raises(ValueError, match="at least one turn"):
        EdiValAgent(turns=0)


def test_numbers_in_names_are_kept(tmp_path):
    photos = photographs(tmp_path / "photos", side=16)
    for number, path in zip((7, 21, 3), sorted(photos.iterdir()), strict=True):
        path.rename(path.with_name(f"{number}_input_raw.png"))
    assert [one.index for one in list_numbered_images(photos)] == [3, 7, 21]


def test_what_is_known_of_an_object_follows_it_through_edits():
    cup = ListedObject("red cup", "cup", "red", "clay", "TEA", 1, foreground=True)
    state = ChainState(Pools(("red cup",), ("red cup",), ("red cup",)), {"red cup": cup})
    state = state.apply(Task("color_alter", object="red cup", value="blue"))
    state = state.apply(Task("count_change", object="blue cup", count=4))
    state = state.apply(Task("text_change", object="blue cup", text="MILK"))
    (obj,) = state.available
    assert (obj.name, obj.color, obj.count, obj.text) == ("blue cup", "blue", 4, "MILK")
    state = state.apply(Task("subject_replace", object="blue cup", new="jug"))
    assert [(one.name, one.color, one.foreground) for one in state.available] == [("jug", None, True)]
