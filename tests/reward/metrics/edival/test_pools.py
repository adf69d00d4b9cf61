"""Object pools, against chains in the layout of the published instruction file."""

from dataclasses import replace

import pytest

from editcritic.reward.boxes import Box
from editcritic.reward.image import Image
from editcritic.reward.metrics.edival.task_parser import parse_task, pools_of, renamed_object, update_pools
from editcritic.reward.sample import EditSample, Pools, Task

from ....edival_chains import CHAINS


@pytest.fixture(scope="module")
def chains():
    """Per image: the task of each turn, and the published pools after it."""
    return {
        index: [
            (parse_task(row.instruction), Pools(row.all, row.available, row.unchanged, row.background)) for row in rows
        ]
        for index, rows in CHAINS.items()
    }


def objects_at_first(chain):
    """What was in the image before the first turn: what is there after it but for what it brought, the last."""
    task, after = chain[0]
    before = Pools(after.all[:-1], after.all[:-1], after.all[:-1])
    return before.all if update_pools(before, task).all == after.all else after.all


def test_published_pools_follow_from_the_turn_before_in_order_and_first_ones_from_the_objects_of_the_picture(chains):
    steps = [(*chain[turn], chain[turn - 1][1]) for chain in chains.values() for turn in (1, 2)]
    differing = [(task, after, before) for task, after, before in steps if update_pools(before, task) != after]
    assert (len(steps), len(differing)) == (10, 1)
    # As all that differ in the published file, it is a change of background, in one thing: `available` lacks what an
    # earlier turn brought or renamed, though the instruction itself lists it among what is to be kept.
    for task, after, before in differing:
        ours = update_pools(before, task)
        assert task.type == "background_change"
        assert replace(ours, available=after.available) == after
        assert set(after.available) < set(ours.available) <= set(task.keep)
    # All of them do when the original foreground objects are given.
    for chain in chains.values():
        originals = objects_at_first(chain)
        assert update_pools(Pools(originals, originals, originals), chain[0][0]) == chain[0][1]
        for turn in (1, 2):
            task, after = chain[turn]
            foreground = [name for name in task.keep if name in originals]
            assert update_pools(chain[turn - 1][1], task, foreground=foreground) == after


@pytest.mark.parametrize(
    ("kind", "name", "value", "new"),
    [
        ("color_alter", "concrete gray wall", "orange", "concrete orange wall"),
        ("color_alter", "woven tan chair", "gray", "gray woven tan chair"),  # tan is no colour to the file
        ("color_alter", "feathered red bird", "blue", "blue red bird"),  # feathe-red
        ("material_alter", "wooden brown chair", "metal", "metal brown chair"),
        ("material_alter", "fish", "glass", "glass fish"),
    ],
)
def test_renaming(kind, name, value, new):
    assert renamed_object(Task(kind, object=name, value=value)) == new


def sample(instruction, *earlier, **fields):
    image = Image.from_digest("0" * 64, (8, 8))
    return EditSample("s", instruction, (image,), image, history=earlier, **fields)


def test_pools_of_a_chain_begin_with_the_names_of_the_boxes():
    box = (Box(0.5, 0.5, 0.1, 0.1),)
    first = sample("Add a hat above the dog", boxes={"dog": box, "Cat": box, "cup": box})
    second = sample("Remove the cat", first)
    third = sample("Change the color of dog to red", first, second, boxes=first.boxes)
    assert pools_of(first) == Pools(("dog", "Cat", "cup", "hat"), ("dog", "Cat", "cup", "hat"), ("dog", "Cat", "cup"))
    assert pools_of(second) == Pools(("dog", "Cat", "cup", "hat"), ("dog", "cup", "hat"), ("dog", "cup"))
    assert pools_of(third) == Pools(("dog", "Cat", "cup", "hat", "red dog"), ("cup", "hat", "red dog"), ("cup",))


def test_pools_that_are_given_come_first_and_some_nobody_knows():
    pools = Pools(("dog", "hat"), ("dog", "hat"), ("dog",))
    first = sample("Surprise me", pools=pools)
    assert pools_of(first) is pools
    assert pools_of(sample("Remove the dog", first)) == Pools(("dog", "hat"), ("hat",), ())
    assert pools_of(sample("Remove the dog", first, pools=Pools())) == Pools()
    assert pools_of(sample("Remove the dog")) is None
    assert pools_of(sample("Surprise me", boxes={"dog": (Box(0.5, 0.5, 0.1, 0.1),)})) is None


def test_a_background_change_keeps_what_stands_before_it_and_ends_background_scoring():
    before = Pools(("dog", "wall"), ("dog", "wall"), ("dog", "wall"))
    task = Task("background_change", value="beach", keep=("dog",))
    assert update_pools(before, task) == Pools(("dog", "wall"), ("dog",), ("dog",), background=False)
    assert update_pools(before, task, foreground=["wall"]).unchanged == ("wall",)
    assert update_pools(update_pools(before, task), Task("subject_remove", object="dog")).background is False
