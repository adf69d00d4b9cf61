"""Subject extraction: the right number of subjects, times subject consistency."""

import pytest

from editcritic.reward.queries import Failure, Reply

from .scripted_i2ibench import EDITED, FIRST, SECOND, World, mask, of, several

COUNTED = Reply("yes", {"yes": 0.75, "no": 0.25})


def scored(world, **fields):
    (score,) = world.score(of("multi-subject-extraction"), several(**fields))
    return score


def vectors(image, inside):
    return {FIRST: (1, 0), SECOND: (3, 4), EDITED: (3, 4)}[image]


def test_it_is_the_product_of_both():
    score = scored(World(says={"count": COUNTED}, vectors=vectors))
    assert score.value == pytest.approx(0.75 * (0.6 + 1.0) / 2)
    assert {name: part.value for name, part in score.parts.items()} == pytest.approx(
        {"count": 0.75, "consistency": 0.8}
    )
    assert score.parts["consistency"].metric == "i2i-multi-subject-consistency@2"


def test_consistency_is_computed_though_it_is_none_of_the_samples_dimensions():
    world = World(says={"count": COUNTED}, vectors=vectors)
    assert scored(world, dimensions=("subject extraction",)).value == pytest.approx(0.6)


@pytest.mark.parametrize("topic", ["count", "segment_details_multi"])
def test_it_fails_where_one_of_both_fails(topic):
    score = scored(World(says={topic: Failure("lost")}))
    assert score.status == "failed"
    assert "lost" in score.reason


def test_a_wrong_number_decides_where_a_subject_was_not_found():
    world = World(says={"count": "no"}, masks={(EDITED, "Please segment the paw"): mask()})
    score = scored(world)
    assert score.value == 0.0
    assert score.parts["consistency"].status == "abstained"


def test_it_asks_what_subject_consistency_asks():
    world = World()
    world.score(of("multi-subject-consistency"), several())
    before = set(world.seen)
    world.score(of("multi-subject-extraction"), several())
    new = {query.digest: query for _, query in world.queries if query.digest not in before}
    assert [query.topic for query in new.values()] == ["i2i/count"]


def test_a_prompt_pack_is_for_both(tmp_path):
    (tmp_path / "count.txt").write_text("How many? {instruction}", encoding="utf-8")
    (tmp_path / "segment_details_multi.txt").write_text("Which? {instruction}", encoding="utf-8")
    world = World()
    world.score(of("multi-subject-extraction", prompts=str(tmp_path)), several())
    assert {query.messages[0].content[-1] for query in world.judged} == {
        "How many? make the cup blue",
        "Which? make the cup blue",
    }
