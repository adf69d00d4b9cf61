"""What a suite asks for, counted."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.human_eval.suite_statistics import (
    AREA_BINS,
    TargetArea,
    parse_target,
    suite_statistics,
    target_area_table,
    target_areas,
)
from editcritic.benchmarks.sceneedit.compound_requests import compound_cases
from editcritic.benchmarks.suites.complexedit.construction import CATEGORIES
from editcritic.benchmarks.suites.edival import published_counts
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import Box, EditSample, Expert, Image, Operation, Pools, Task
from editcritic.reward.queries import Detections, Failure, Judge, Reply
from editcritic.reward.queries.kinds import Detect
from tests.benchmarks.suites.tiny_suite import Toy
from tests.reward.metrics.dlebench.scripted_dlebench import noise

GREY = Image.of(np.full((64, 64, 3), 128, np.uint8))
RED = Image.of(np.dstack([np.full((32, 48), 255, np.uint8), *[np.zeros((32, 48), np.uint8)] * 2]))


def suite_of(*samples: EditSample, **labels: Any) -> Toy:
    suite = Toy(count=1)
    suite.items = [SuiteItem(one.id, one.id.partition("/")[0], one.id, one, labels=labels) for one in samples]
    return suite


def sample(name: str, *sources: Image, **fields: Any) -> EditSample:
    images = sources or (GREY,)
    return EditSample(name, "Edit it", images, images[0], **fields)


def table(suite, name):
    return next(one for one in suite_statistics(suite) if one.name == name)


def test_types_are_counted_by_turn():
    counts = table(Toy(count=5), "types")
    assert counts.columns == ["turn 1", "turn 2", "all"]
    assert counts.rows == {"color_alter": [3, 3, 6], "count_change": [2, 2, 4]}


def test_what_follows_what_within_a_compound_and_from_turn_to_turn():
    steps = tuple(Operation(name, name) for name in ("add", "remove", "add", "remove"))
    suite = suite_of(sample("a", operations=steps), sample("b", operations=steps[:1]))
    counts = table(suite, "adjacency")
    assert (counts.columns, counts.rows) == (["add", "remove"], {"add": [0, 2], "remove": [1, 0]})
    operations = table(suite, "operations")
    assert operations.rows["add"] == [3, 3 / 5, 2, 2, 1]
    turns = table(Toy(count=5), "adjacency")
    assert turns.rows["color_alter"] == [3, 0]


def test_levels_of_one_sequence_count_once_and_by_category(monkeypatch):
    """Three levels of one row. By hand: Add, Remove and Change Color once each, and one pair between categories."""
    steps = tuple(Operation(f"{name}!", name) for name in ("Add an Object", "Remove an Object", "Change Color"))
    suite = suite_of(*(sample(f"r/C{level}", operations=steps[:level]) for level in (1, 2, 3)))
    monkeypatch.setattr(suite, "operation_categories", CATEGORIES)
    assert {name: row[0] for name, row in table(suite, "operations").rows.items()} == {step.name: 1 for step in steps}
    assert table(suite, "adjacency").rows["Add an Object"] == [0, 1, 0]
    objects, colour = "Object Manipulation and Transformation", "Color and Tone Adjustments"
    by_category = table(suite, "operations-by-category").rows
    assert {name: row[0] for name, row in by_category.items()} == {objects: 2, colour: 1}
    assert table(suite, "adjacency-by-category").rows == {objects: [1, 1], colour: [0, 0]}


def test_target_areas_are_shares_of_the_picture():
    boxes = (Box(0.5, 0.5, 0.1, 0.05), Box(0.5, 0.5, 0.5, 0.5), Box(0.5, 0.5, 1.0, 1.0))
    counts = table(suite_of(sample("a", targets=boxes), sample("b")), "targets")
    assert counts.rows["0.5 % to 0.8 %"] == [1, pytest.approx(1 / 3), pytest.approx(1 / 3)]
    assert counts.rows["25 % to 100 %"] == [2, pytest.approx(2 / 3), 1.0]
    assert counts.rows["quantile 0.5"] == [None, pytest.approx(0.25), None]
    assert "3 boxes; 1 items have none" in counts.notes
    assert sum(row[0] for row in list(counts.rows.values())[: len(AREA_BINS) - 1]) == 3


def test_objects_of_the_base_images_are_those_that_the_first_turn_did_not_bring():
    cup, chairs = ("red cup", "Two Chairs", "gadget"), ("red cup", "two chairs", "silver kettle")
    first = sample("a/1", pools=Pools(all=(*cup, "blue cup")), task=Task("color_alter", object="red cup", value="blue"))
    other = sample("b/1", pools=Pools(all=(*chairs, "lamp")), task=Task("subject_add", new="lamp"))
    later = sample("a/2", pools=Pools(all=(*cup, "truck")), task=Task("subject_add", new="truck"))
    single = Operation("Add dog", "subject_add", Task("subject_add", new="dog"))
    joint = sample("c/1", pools=Pools(all=("leaves", "dog")), operations=(single,))
    rows = table(suite_of(first, later, other, joint), "objects").rows
    assert {name: row for name, row in rows.items() if row[0]} == {
        "Furniture & Home": [1, 2],
        "Food & Kitchen": [2, 3],
        "Nature & Outdoors": [1, 1],
        "Other": [1, 1],
        "all": [5, 7],
    }
    assert len(rows) == 14, "thirteen categories and their sum"
    assert all(table.name != "objects" for table in suite_statistics(suite_of(sample("a"))))


def test_a_word_has_one_category():
    words = [word for words in published_counts._WORDS.values() for word in words.split()]
    assert len(words) == len(set(words))


def test_light_is_that_of_each_cases_first_source():
    counts = table(suite_of(sample("a/1", GREY, RED), sample("a/2", GREY), sample("b", RED)), "luminance")
    assert counts.rows["mean"] == pytest.approx([(50.196 + 21.26) / 2, 21.26, 50.196], abs=0.01)
    assert counts.rows["standard deviation"] == pytest.approx([0, 0, 0], abs=1e-9)


def test_sources_and_sizes():
    counts = table(suite_of(sample("a", GREY, RED), sample("b", GREY)), "sources")
    assert counts.rows == {"1 source": [1], "2 sources": [1], "64 x 64": [2], "48 x 32": [1]}


def test_labels_with_few_values_are_counted():
    assert table(suite_of(sample("a"), sample("b"), level=3), "labels").rows == {"level 3": [2]}


def test_compounds_of_sceneedit_are_counted():
    suite = suite_of(*(case.sample for case in compound_cases(8)))
    assert sum(table(suite, "size").rows[f"items of {n} operations"][0] for n in range(1, 9)) == 8
    assert sum(row[0] for row in table(suite, "operations").rows.values()) == 36
    assert sum(sum(row) for row in table(suite, "adjacency").rows.values()) == 28


def test_stats_as_a_command(editcritic, tmp_path):
    suite = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
    editcritic("bench", "prepare", suite, "--stats", "--tables", tmp_path / "out", code=0)
    assert (tmp_path / "out" / "types.csv").read_text().splitlines()[1] == "color_alter,2,2,4"
    document = json.loads(editcritic("bench", "prepare", suite, "--stats", "--json").stdout)
    assert [one["name"] for one in document["tables"]] == ["size", "types", "adjacency", "sources", "luminance"]
    assert editcritic("bench", "prepare", "no-such-suite", "--stats").exit_code == 2
    assert editcritic("bench", "prepare", suite, "--stats", "--download").exit_code == 2


SIZE = (1000, 500)


class Names(Expert):
    """Names the last word of an instruction, or the image, or is down."""

    id = "names@1"
    kinds = (Judge,)

    def __call__(self, queries: Sequence[Judge]) -> list[Any]:
        words = [dict(query.slots)["instruction"].split()[-1] for query in queries]
        return [Failure("busy") if word == "down" else Reply(f"[Result]: the {word}") for word in words]


class Sees(Expert):
    """Two boxes for a kite, the better one of 50 x 20 pixels; nothing that is certain for anything else."""

    id = "sees@1"
    kinds = (Detect,)

    def __call__(self, queries: Sequence[Detect]) -> list[Any]:
        kite = Detections(
            (Box.from_corners(0, 0, 900, 400, SIZE, score=0.5), Box.from_corners(10, 10, 60, 30, SIZE, score=0.9))
        )
        doubtful = Detections((Box.from_corners(0, 0, 10, 10, SIZE, score=0.3),))
        return [kite if query.phrases == ("kite",) else doubtful for query in queries]


def asked(name: str, instruction: str, image: Image) -> SuiteItem:
    return SuiteItem(name, name, name, EditSample(name, instruction, (image,), image))


def test_the_best_box_of_the_named_target_is_measured() -> None:
    suite, image = Toy(count=1), noise(1, SIZE)
    texts = {"a": "Remove the kite", "b": "Remove the ant", "c": "Blur the image", "d": "It is down"}
    suite.items = [asked(name, text, image) for name, text in texts.items()]
    areas, problems = target_areas(suite, {"judge": Names(), "detector": Sees()})
    assert areas["a"].name == "kite"
    assert areas["a"].ratio == pytest.approx(0.002)  # 50 x 20 of 1000 x 500
    assert (areas["b"], areas["c"]) == (TargetArea("ant", None), TargetArea("image", 1.0))
    assert list(problems) == ["d"]
    table = target_area_table(list(areas.values()), len(problems))
    assert table.notes[0].startswith("2 targets, of which 1 are the whole image; 1 were not found, and 1 not named")


def test_the_table_is_the_distribution_up_to_each_edge() -> None:
    table = target_area_table([TargetArea("x", ratio) for ratio in (0.002, 0.01, 0.05, 0.30)])
    up_to = {name.partition(" to ")[2]: row[2] for name, row in table.rows.items() if " to " in name}
    assert (up_to["0.07 %"], up_to["0.25 %"], up_to["0.8 %"]) == (0.0, 0.25, 0.25)
    assert (up_to["1 %"], up_to["10 %"], up_to["100 %"]) == (0.5, 0.75, 1.0)


def test_a_name_is_read_from_the_line_of_the_result_and_a_reply_without_one_is_refused() -> None:
    names = {"[Result]: vase": "vase", "I think.\n[result] : The red car.\n": "red car", "[Result]: Image": "image"}
    names["**[Result]: `dog`**"] = "dog"
    assert {reply: parse_target(reply) for reply in names} == names
    for reply in ("vase", "[Result]:", "[Result]: cat\n[Result]: dog", ""):
        with pytest.raises(ValueError, match="one line is expected"):
            parse_target(reply)
