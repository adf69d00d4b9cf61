"""Habits of the released code that the golden cases cannot show, and what we say about them."""

from collections.abc import Sequence

import numpy as np
import pytest

from editcritic.reward.engine.engine import Engine
from editcritic.reward.image import Image
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries.kinds import Detect, Judge, ReadText
from editcritic.reward.queries.outcomes import Failure
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import EditSample, Task

from .conftest import EDITED, SOURCE

BOX = (0.5, 0.5, 0.2, 0.2, 0.9)


def rules(score) -> str:
    return "\n".join(item.text for item in score.evidence if item.what == "rule")


@pytest.mark.parametrize(("answer", "value"), [("It is, yes.", 1), ("Yesterday", 1), ("I cannot tell", 0), ("", 0)])
def test_yes_anywhere_counts_and_all_else_is_no(follow, scene, answer, value) -> None:
    score = follow(Task("color_alter", object="cup", value="red"), scene(judge=Reply(answer)), protocol="official")
    assert score.value == value
    assert f"counts as {'yes' if value else 'no'}" in rules(score)


def test_a_clear_answer_needs_no_remark(follow, scene) -> None:
    score = follow(Task("color_alter", object="cup", value="red"), scene(judge=Reply("No.")), protocol="official")
    assert score.value == 0
    assert not rules(score)


def test_what_fails_is_no_no(follow, scene) -> None:
    removal = Task("subject_remove", object="cup")
    crashed = follow(removal, scene(source={"cup": [BOX]}, broken=("cup",)), protocol="official")
    assert (crashed.status, crashed.value) == ("failed", None)
    silent = follow(Task("color_alter", object="cup", value="red"), scene(judge=Failure("gone")), protocol="official")
    assert (silent.status, silent.value) == ("failed", None)


def test_a_background_change_that_keeps_nothing_scores_nothing(follow, scene) -> None:
    unread = scene()
    score = follow("Change the background to garden", unread, protocol="official")
    assert score.value == 0
    assert "names nothing to keep" in rules(score)
    assert not unread.queries


def test_phrases_are_lower_case_without_full_stops(follow, scene) -> None:
    seen = scene(source={"tv st stand": [BOX]})
    follow(Task("subject_remove", object="TV St. Stand"), seen, protocol="official")
    assert [query.phrases for query in seen.queries] == [("tv st stand",)] * 2


@pytest.mark.parametrize(
    ("name", "phrase"), [("glasses", "glass"), ("horses", "hors"), ("cups", "cup"), ("cat", "cat")]
)
def test_replaced_names_lose_their_last_letters(follow, scene, name, phrase) -> None:
    seen = scene(source={phrase: [BOX]}, edited={"dog": [BOX]})
    score = follow(Task("subject_replace", object=name, new="dogs"), seen, protocol="official")
    assert score.value == 1
    assert (f"{name!r} is looked for as {phrase!r}" in rules(score)) is (name != phrase)


def test_a_name_that_contains_hat_is_looked_for_as_hat(follow, scene) -> None:
    task = Task("subject_remove", object="chat bubble")
    same = {"chat bubble": [BOX]}
    score = follow(task, scene(source=same, edited=same), protocol="official")
    assert score.value == 1
    assert "'chat bubble' contains 'hat'" in rules(score)
    assert follow(task, scene(source=same, edited={**same, "hat": [BOX]}), protocol="official").value == 0


def test_core_names_are_asked_for_and_an_empty_one_is_the_name_itself(follow, scene) -> None:
    task = Task("position_change", object="red cup", position="left", reference="old dog")
    place = {"red cup": [(0.2, 0.5, 0.1, 0.1, 0.9)], "cup": [BOX], "old dog": [BOX], "dog": [BOX]}
    seen = scene(source=place, edited=place, judge={"red cup": "Cup", "old dog": "dog"})
    assert follow(task, seen, protocol="official").value == 1
    phrases = [query.phrases[0] for query in seen.queries if isinstance(query, Detect)]
    assert sorted(phrases) == ["cup", "cup", "dog", "dog", "old dog", "red cup"]
    silent = scene(judge={"red cup": " ", "old dog": "dog"})
    score = follow(task, silent, protocol="official")
    assert score.value == 0
    assert [query.phrases[0] for query in silent.queries if isinstance(query, Detect)][:2] == ["dog", "red cup"]
    assert "'red cup' itself is looked for" in rules(score)


def test_core_names_lose_brackets_and_quotes(follow, scene) -> None:
    task = Task("position_change", object="red cup", position="left", reference="old dog")
    seen = scene(judge={"red cup": '["Cup"]', "old dog": "the dog's"})
    score = follow(task, seen, protocol="official")
    assert [query.phrases[0] for query in seen.queries if isinstance(query, Detect)][:2] == ["the dogs", "cup"]
    assert "brackets and quotes in the name '[\"Cup\"]' are removed" in rules(score)


def test_the_first_of_near_duplicates_counts_in_the_detectors_order(follow, scene) -> None:
    # The second overlaps the first and the third by more than 0.8, which overlap each other by less.
    row = [(0.40, 0.5, 0.4, 0.4, 0.5), (0.425, 0.5, 0.4, 0.4, 0.9), (0.45, 0.5, 0.4, 0.4, 0.6)]
    task = Task("count_change", object="cup", count=2)

    def verdict(protocol: str, boxes: Sequence[tuple[float, ...]]) -> float | None:
        return follow(task, scene(source={"cup": boxes}, edited={"cup": boxes}), protocol=protocol).value

    assert [verdict("official", row), verdict("official", row[1:] + row[:1])] == [1, 0]
    assert [verdict("paper", row), verdict("paper", row[1:] + row[:1])] == [0, 0], "by falling score"


def test_a_name_with_hat_and_bird_in_it_asks_for_both(follow, scene) -> None:
    task = Task("subject_remove", object="Hatted Bird")
    same = {"hatted bird": [BOX]}
    seen = scene(source=same, edited={**same, "hat": [BOX]})
    score = follow(task, seen, protocol="official")
    assert score.value == 1
    assert [query.phrases[0] for query in seen.queries][-2:] == ["hat", "bird"]
    assert "contains 'bird'" in rules(score)
    assert (
        follow(task, scene(source=same, edited={**same, "hat": [BOX], "bird": [BOX]}), protocol="official").value == 0
    )
    early = scene(source=same, edited=same)
    follow(task, early, protocol="official")
    assert early.queries[-1].phrases == ("hat",)


def test_no_count_is_zero(follow, scene) -> None:
    task = Task("count_change", object="cup", count=0)
    gone = scene(source={"cup": [BOX]})
    assert follow(task, gone, protocol="official").value == 0
    assert follow(task, gone, protocol="paper").value == 1


@pytest.mark.parametrize(
    ("sentence", "phrases", "value"),
    [
        ("Change the background to garden, remain the a cup, dog unchanged", ["a cup", "dog"], 1),
        ("Change the background to [garden], remain the a cup unchanged", ["a cup"], 1),
        ("Change the background to [garden], remain the [a cup] unchanged", ["[a cup]"], 0),
        ("Change the background to [a sunny, warm garden], remain the a cup unchanged", [], 1),
        ("Change the background to [garden]", [], 1),
        ("Change the background to a sunny, warm garden, remain the a cup unchanged", [], 0),
    ],
)
def test_a_background_change_is_read_from_its_sentence_brackets_and_all(
    follow, scene, sentence, phrases, value
) -> None:
    seen = scene(edited={"a cup": [BOX], "dog": [BOX], "cup": [BOX]})
    sample = EditSample("s", sentence, (SOURCE,), EDITED, task=Task("background_change", value="garden"))
    metric = InstructionFollowing("official")
    with Engine() as engine:
        score = engine.submit(metric(sample), dict.fromkeys(metric.card.roles, seen), sample).result(timeout=60)
    assert score.value == value
    assert [query.phrases[0] for query in seen.queries if isinstance(query, Detect)] == phrases


def test_pictures_are_forced_to_512_by_512(scene) -> None:
    wide = Image.of(np.zeros((40, 60, 3), np.uint8))
    square = Image.of(np.full((512, 512, 3), 9, np.uint8))
    sample = EditSample("s", "Change the color of cup to red", (square,), wide)
    metric, judge = InstructionFollowing("official"), scene()
    with Engine() as engine:
        score = engine.submit(metric(sample), {"judge": judge}, sample).result(timeout=60)
    (question,) = judge.queries
    assert isinstance(question, Judge)
    assert [image.size for image in question.images] == [(512, 512)] * 2
    assert rules(score) == "released code: the edited image, 60 x 40, is resized to 512 x 512"
    assert question.images[1] == wide.resized(512, 512, "lanczos")


def test_one_inside_the_other_is_nowhere(follow, scene) -> None:
    task = Task("position_change", object="cup", position="left", reference="dog")
    cup, dog = (0.4, 0.5, 0.1, 0.1, 0.9), (0.5, 0.5, 0.6, 0.6, 0.9)
    names = {"cup": "cup", "dog": "dog"}
    inside = {"cup": [cup], "dog": [dog]}
    score = follow(task, scene(source=inside, edited=inside, judge=names), protocol="official")
    assert score.value == 0
    assert score.reason == "one of cup and dog lies inside the other"
    out = {"cup": [(0.2, 0.5, 0.1, 0.1, 0.9)], "dog": [dog]}
    assert follow(task, scene(source=out, edited=out, judge=names), protocol="official").value == 1


def test_centres_are_compared_in_whole_pixels(follow, scene) -> None:
    task = Task("position_change", object="cup", position="left", reference="dog")

    def verdict(cup: float, dog: float) -> float | None:
        place = {"cup": [(cup / 512, 0.3, 0.1, 0.1, 0.9)], "dog": [(dog / 512, 0.7, 0.1, 0.1, 0.9)]}
        score = follow(task, scene(source=place, edited=place, judge={"cup": "cup", "dog": "dog"}), protocol="official")
        return score.value

    assert verdict(255, 256) == 1
    assert verdict(255.9, 256.1) == 1
    assert verdict(256.1, 256.9) == 0
    assert verdict(256, 256) == 0


def test_changed_text_is_read_where_the_object_was_before(follow, scene) -> None:
    seen = scene(source={"sign": [(0.25, 0.25, 0.25, 0.25, 0.9)]}, edited={"sign": [BOX]}, text="It says OPEN.")
    score = follow(Task("text_change", text="open", object="sign"), seen, protocol="official")
    assert score.value == 1
    (reading,) = [query for query in seen.queries if isinstance(query, ReadText)]
    assert reading.image.origin is not None
    assert reading.image.origin[1] == '["crop", 64, 64, 192, 192]'
    assert "cropped where the object was in the source image" in rules(score)
