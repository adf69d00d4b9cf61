"""The paper's rules, one hand-made case each. Boxes are (cx, cy, w, h, score)."""

from __future__ import annotations

import pytest

from editcritic.reward.image import Image
from editcritic.reward.metrics.edival.inspector import leading_yes_no
from editcritic.reward.queries.kinds import Detect, Judge, ReadText
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import Task

EDITED = Image.from_digest("b" * 64, (512, 512))
DOG = (0.5, 0.5, 0.2, 0.2, 0.9)
WHOLE = (0.5, 0.5, 0.99, 0.99, 0.9)


def at(cx: float, cy: float = 0.5, score: float = 0.9, size: float = 0.1) -> tuple[float, ...]:
    return (cx, cy, size, size, score)


# -- detections --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "threshold"),
    [
        (Task("subject_remove", object="dog"), 0.30),
        (Task("subject_add", new="dog"), 0.35),
        (Task("count_change", object="dog", count=1), 0.35),
        (Task("position_change", object="dog", position="left", reference="cat"), 0.40),
    ],
)
def test_a_score_must_lie_strictly_above_the_threshold_of_its_task(follow, scene, task, threshold) -> None:
    there = {"cat": [at(0.9)], "dog": [at(0.2, score=threshold + 0.001)]}
    equal = {"cat": [at(0.9)], "dog": [at(0.2, score=threshold)]}
    before = {} if task.type == "subject_add" else {"dog": [DOG]}
    detection_score = 0.0 if task.type == "subject_remove" else 1.0
    assert follow(task, scene(source=before, edited=there)).value == detection_score
    assert follow(task, scene(source=before, edited=equal)).value == 1.0 - detection_score


@pytest.mark.parametrize(
    ("task", "detected", "counts"),
    [  # of table 8: its own threshold, 0.3, 0.4 for all
        (Task("subject_remove", object="dog"), 0.38, (0, 0, 1)),
        (Task("color_alter", object="dog", value="blue"), 0.33, (0, 1, 0)),
        (Task("position_change", object="dog", position="left", reference="cat"), 0.37, (0, 1, 0)),
    ],
)
def test_one_threshold_can_replace_them_all(follow, scene, task, detected, counts) -> None:
    edited = {"dog": [at(0.2, score=detected)], "cat": [at(0.9)]}
    weak = scene(source={"dog": [DOG]}, edited=edited)
    assert tuple(follow(task, weak, threshold=one).value for one in (None, 0.30, 0.40)) == counts


@pytest.mark.parametrize(
    ("w", "h", "dropped"), [(0.981, 0.981, True), (0.98, 0.99, False), (0.99, 0.98, False), (1.0, 0.5, False)]
)
def test_boxes_of_nearly_the_whole_picture_are_dropped(follow, scene, w, h, dropped) -> None:
    score = follow(
        Task("subject_remove", object="dog"), scene(source={"dog": [DOG]}, edited={"dog": [(0.5, 0.5, w, h, 0.9)]})
    )
    assert score.value == float(dropped)
    assert ("dropped_as_too_large" in score.evidence[1].numbers) is dropped


def test_the_large_box_filter_can_be_left_out(follow, scene) -> None:
    covered = scene(source={"dog": [DOG]}, edited={"dog": [WHOLE]})
    assert follow(Task("subject_remove", object="dog"), covered, max_box_size=None).value == 0


# -- algorithm by algorithm --------------------------------------------------------------------------------------------


def test_add_wants_it_absent_before_and_present_after(follow, scene) -> None:
    task = Task("subject_add", new="hat")
    assert follow(task, scene(edited={"hat": [at(0.5)]})).value == 1
    assert follow(task, scene()).value == 0
    already = follow(task, scene(source={"hat": [at(0.2)]}, edited={"hat": [at(0.2), at(0.8)]}))
    assert already.value == 0
    assert already.reason == "hat is in the source image (0.90 > 0.35)"


def test_add_looks_for_the_reference_in_the_edited_image(follow, scene) -> None:
    task = Task("subject_add", new="hat", position="above", reference="dog")
    hat = {"hat": [at(0.5, 0.2)]}
    assert follow(task, scene(source={"dog": [DOG]}, edited=hat)).value == 0
    assert follow(task, scene(edited={**hat, "dog": [DOG]})).value == 1
    assert follow(task, scene(source=hat, edited={**hat, "dog": [DOG]})).value == 0


@pytest.mark.parametrize(
    ("position", "just", "short"),
    [
        ("left", (0.4699, 0.5), (0.47, 0.5)),
        ("right", (0.5301, 0.5), (0.53, 0.5)),
        ("above", (0.5, 0.4699), (0.5, 0.47)),
        ("below", (0.5, 0.5301), (0.5, 0.53)),
    ],
)
@pytest.mark.parametrize("kind", ["subject_add", "position_change"])
def test_a_centre_must_lie_beyond_the_margin(follow, scene, kind, position, just, short) -> None:
    task = Task(kind, new="hat", object="hat", position=position, reference="dog")
    before = {} if kind == "subject_add" else {"hat": [at(0.5)]}

    def verdict(place, **options):
        return follow(task, scene(source=before, edited={"hat": [at(*place)], "dog": [DOG]}), **options).value

    assert verdict(just) == 1
    assert verdict(short) == 0
    assert verdict(short, position_margin=0.0) == 1
    assert verdict((0.5, 0.5), position_margin=0.0) == 0


def test_positions_go_by_the_boxes_of_highest_score(follow, scene) -> None:
    task = Task("subject_add", new="hat", position="left", reference="dog")
    hats = [at(0.8, score=0.8), at(0.1, score=0.9)]
    assert follow(task, scene(edited={"hat": hats, "dog": [at(0.5)]})).value == 1
    assert follow(task, scene(edited={"hat": [at(0.8, score=0.95), *hats], "dog": [at(0.5)]})).value == 0


def test_remove_wants_it_present_before(follow, scene) -> None:
    task = Task("subject_remove", object="dog")
    assert follow(task, scene(source={"dog": [DOG]})).value == 1
    never = follow(task, scene())
    assert never.value == 0
    assert never.reason == "dog not found in the source image (0.00 <= 0.3)"


def test_replace_wants_any_old_and_new_box_to_overlap(follow, scene) -> None:
    task = Task("subject_replace", object="dog", new="cat")
    before = {"dog": [at(0.1), at(0.5)]}
    assert follow(task, scene(source=before, edited={"cat": [at(0.9), at(0.59)]})).value == 1
    assert follow(task, scene(source=before, edited={"cat": [at(0.9), at(0.7)]})).value == 0
    assert follow(task, scene(edited={"cat": [at(0.5)]})).value == 0
    assert follow(task, scene(source=before)).value == 0


def test_replace_asks_the_judge_unless_told_not_to(follow, scene) -> None:
    task = Task("subject_replace", object="dog", new="cat")
    doubted = scene(source={"dog": [DOG]}, edited={"cat": [DOG]}, judge=Reply("No, that is a dog."))
    assert follow(task, doubted).value == 0
    (question,) = [query for query in doubted.queries if isinstance(query, Judge)]
    assert question.topic == "edival/replaced"
    assert dict(question.slots) == {"object": "dog", "new": "cat"}
    assert len(question.images) == 2
    unasked = scene(source={"dog": [DOG]}, edited={"cat": [DOG]}, judge=Reply("No"))
    assert follow(task, unasked, judge_replacement=False).value == 1
    assert not any(isinstance(query, Judge) for query in unasked.queries)


def test_replace_can_want_the_old_object_gone(follow, scene) -> None:
    task = Task("subject_replace", object="dog", new="cat")
    both = scene(source={"dog": [DOG]}, edited={"cat": [DOG], "dog": [DOG]})
    assert follow(task, both).value == 1
    assert follow(task, both, require_old_absent=True).value == 0


def test_position_refuses_more_of_the_moved_object_than_before(follow, scene) -> None:
    task = Task("position_change", object="cup", position="left", reference="dog")
    two = {"cup": [at(0.1), at(0.3)], "dog": [DOG]}
    copied = follow(task, scene(source={"cup": [at(0.8)]}, edited=two))
    assert copied.value == 0
    assert copied.reason == "2 x cup in the edited image: count 2 > 1"
    assert follow(task, scene(source={"cup": [at(0.8), at(0.6), at(0.7)]}, edited=two)).value == 1
    double = {"cup": [at(0.1), at(0.101)], "dog": [DOG]}
    assert follow(task, scene(source={"cup": [at(0.8)]}, edited=double)).value == 1


def test_count_looks_at_the_edited_image_alone_and_counts_doubles_once(follow, scene) -> None:
    task = Task("count_change", object="cup", count=2)
    doubled = scene(edited={"cup": [at(0.1), at(0.8), at(0.801)]})
    assert follow(task, doubled).value == 1
    assert [query.image.digest[0] for query in doubled.queries] == ["b"]
    literally = follow(task, doubled, duplicate_iou=1.0)
    assert literally.value == 0
    assert literally.reason == "3 x cup in the edited image: count 3 != 2"
    assert follow(Task("count_change", object="cup", count=0), scene()).value == 1


@pytest.mark.parametrize(("kind", "topic"), [("color_alter", "color"), ("material_alter", "material")])
def test_attributes_are_judged_on_the_crop_of_the_object(follow, scene, kind, topic) -> None:
    task = Task(kind, object="cup", value="blue")
    shown = scene(edited={"cup": [at(0.25, 0.75, size=0.2)]})
    assert follow(task, shown).value == 1
    (question,) = [query for query in shown.queries if isinstance(query, Judge)]
    assert question.topic == f"edival/{topic}"
    assert dict(question.slots) == {"object": "cup", "value": "blue"}
    (crop,) = question.images
    assert crop.origin == (EDITED, '["crop", 76, 332, 179, 435]')
    missing = follow(task, scene())
    assert missing.value == 0
    assert missing.reason == "cup not found in the edited image (0.00 <= 0.35)"


def test_attributes_can_be_judged_on_the_whole_image_or_on_both_crops(follow, scene) -> None:
    task = Task("color_alter", object="cup", value="blue")
    whole = scene()
    assert follow(task, whole, attribute_view="whole").value == 1
    (question,) = whole.queries
    assert question.images[0].size == (512, 512)
    both = scene(source={"cup": [at(0.2)]}, edited={"cup": [at(0.8)]})
    assert follow(task, both, attribute_view="both").value == 1
    (question,) = [query for query in both.queries if isinstance(query, Judge)]
    assert question.topic == "edival/color_pair"
    assert len(question.images) == 2
    assert follow(task, scene(edited={"cup": [at(0.8)]}), attribute_view="both").value == 0


def test_crops_of_tiny_objects_are_widened(follow, scene) -> None:
    task = Task("color_alter", object="button", value="blue")
    for options, size in (({}, 26), ({"min_crop_size": 0.0}, 6)):
        tiny = scene(edited={"button": [(0.5, 0.5, 0.01, 0.01, 0.9)]})
        follow(task, tiny, **options)
        (question,) = [query for query in tiny.queries if isinstance(query, Judge)]
        assert abs(question.images[0].width - size) <= 1


def test_a_crop_lies_inside_of_the_picture(follow, scene) -> None:
    task = Task("text_change", text="OPEN", object="sign")
    for box in ((0.0, 0.0, 0.2, 0.2, 0.9), (1.2, 0.5, 0.1, 0.1, 0.9), (-0.3, -0.3, 0.1, 0.1, 0.9)):
        assert follow(task, scene(edited={"sign": [box]}, text="open")).value == 1


def test_added_text_is_read_in_the_whole_image_and_changed_text_on_its_object(follow, scene) -> None:
    anywhere = scene(text="OPEN")
    assert follow(Task("text_change", text="OPEN"), anywhere).value == 1
    (reading,) = anywhere.queries
    assert isinstance(reading, ReadText)
    assert reading.image.size == (512, 512)
    somewhere = scene(edited={"sign": [at(0.5)]}, text="OPEN")
    task = Task("text_change", text="OPEN", object="sign", old="SHUT")
    assert follow(task, somewhere).value == 1
    assert [type(query) for query in somewhere.queries] == [Detect, ReadText]
    assert somewhere.queries[1].image.width < 100
    assert follow(task, scene(text="OPEN")).value == 0


@pytest.mark.parametrize(
    ("read", "wanted", "exact", "substring"),
    [
        ("open", "OPEN", 1, 1),
        ("T - shirt!", "t-shirt", 1, 1),
        ("“Caf\u00e9”", "CAFE\u0301", 1, 1),  # composed and not
        ("STRASSE", "straße", 1, 1),
        ("停 车。", "停车", 1, 1),
        ("\uff2f\uff30\uff25\uff2e", "open", 1, 1),  # full width
        ("ΣΊΣΥΦΟΣ", "σίσυφος", 1, 1),  # final sigma
        ("مرحبا!", "مرحبا", 1, 1),
        ("The text says OPEN.", "OPEN", 0, 1),
        ("OPE", "OPEN", 0, 0),
        ("", "OPEN", 0, 0),
        ("", "!!!", 0, 0),
        ("!!!", "! ! !", 1, 1),
    ],
)
def test_texts_are_compared_without_case_punctuation_and_blanks(follow, scene, read, wanted, exact, substring) -> None:
    task = Task("text_change", text=wanted)
    assert follow(task, scene(text=read)).value == exact
    assert follow(task, scene(text=read), text_match="substring").value == substring


def test_background_is_a_question_about_the_edited_image(follow, scene) -> None:
    task = Task("background_change", value="beach", keep=("dog",))
    experts = scene()
    assert follow(task, experts).value == 1
    (question,) = experts.queries
    assert question.topic == "edival/background"
    assert dict(question.slots) == {"value": "beach"}
    assert follow(task, scene(judge=Reply("no"))).value == 0


# -- what a judge may say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (Reply("Yes."), 1),
        (Reply("**NO**, it is red"), 0),
        (Reply('"yes"'), 1),
        (Reply("Yes", {"yes": 0.4, "no": 0.6}), 0),
        (Reply("?", {"yes": 0.5, "no": 0.5}), 1),
        (Reply("I cannot tell"), None),
        (Reply("No idea"), None),
        (Reply("Yes and no"), None),
        (Reply("The answer is yes"), None),
        (Reply("Yesterday"), None),
        (Reply("nothing"), None),
        (Reply(""), None),
    ],
)
def test_a_judge_says_yes_or_no_first_or_the_score_fails(follow, scene, reply, value) -> None:
    score = follow(Task("background_change", value="beach"), scene(judge=reply))
    assert score.value == value
    assert score.status == ("failed" if value is None else "scored")
    assert score.evidence[0].text == reply.text
    if value is None:
        assert repr(reply.text) in score.reason


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>Yes</answer>", True),
        ("\n<answer> **No** </answer>", False),
        ("Yes.", True),
        ("The cup is blue. <answer>Yes</answer>", None),
        ("<answer>No idea</answer>", None),
        ('{"answer": "yes"', None),
    ],
)
def test_a_reply_may_begin_with_its_answer_in_a_tag(text, answer):
    assert leading_yes_no(text) is answer
