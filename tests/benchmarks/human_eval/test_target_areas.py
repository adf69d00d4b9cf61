"""Area ratios of suites without boxes: a judge names the target, a detector finds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from editcritic.benchmarks.human_eval.suite_statistics import (
    TargetArea,
    parse_target,
    target_area_table,
    target_areas,
)
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import Box, EditSample, Expert, Image
from editcritic.reward.queries import Detections, Failure, Judge, Reply
from editcritic.reward.queries.kinds import Detect

from ...reward.metrics.dlebench.scripted_dlebench import noise
from ..suites.tiny_suite import Toy

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


def sample(name: str, instruction: str, image: Image) -> SuiteItem:
    return SuiteItem(name, name, name, EditSample(name, instruction, (image,), image))


def test_the_best_box_of_the_named_target_is_measured() -> None:
    suite, image = Toy(count=1), noise(1, SIZE)
    texts = {"a": "Remove the kite", "b": "Remove the ant", "c": "Blur the image", "d": "It is down"}
    suite.items = [sample(name, text, image) for name, text in texts.items()]
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


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("[Result]: vase", "vase"),
        ("I think.\n[result] : The red car.\n", "red car"),
        ("[Result]: Image", "image"),
        ("**[Result]: `dog`**", "dog"),
    ],
)
def test_a_name_is_read_from_the_line_of_the_result(reply: str, name: str) -> None:
    assert parse_target(reply) == name


@pytest.mark.parametrize("reply", ["vase", "[Result]:", "[Result]: cat\n[Result]: dog", ""])
def test_a_reply_without_one_name_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match="one line is expected"):
        parse_target(reply)
