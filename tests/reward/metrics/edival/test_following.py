"""The metric as a whole: protocols, options, prompts, and scores without a value."""

from __future__ import annotations

import pickle

import pytest

from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries.kinds import Detect, Judge, ReadText
from editcritic.reward.queries.outcomes import Abstention, Failure
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import Task
from tests.reward.metrics.edival.conftest import EDITED

BOX = (0.5, 0.5, 0.2, 0.2, 0.9)
RECOLOUR = Task("color_alter", object="cup", value="blue")


def test_the_signature_names_protocol_options_and_prompts(tmp_path):
    assert InstructionFollowing().signature == "edival-if@3/paper"
    assert InstructionFollowing("official", dense=True).signature == "edival-if@3/official[dense]"
    (tmp_path / "color.txt").write_text("Is the {object} {value}?", encoding="utf-8")
    packed = InstructionFollowing(position_margin=0.0, prompts=str(tmp_path))
    assert packed.signature.startswith("edival-if@3/paper[position_margin=0.0, prompts=")
    (tmp_path / "color.txt").write_text("Is it {value}?", encoding="utf-8")
    assert InstructionFollowing(position_margin=0.0, prompts=str(tmp_path)).signature != packed.signature
    assert pickle.loads(pickle.dumps(packed)) == packed


@pytest.mark.parametrize("protocol", ["paper", "official"])
def test_an_unknown_form_and_what_experts_cannot_know_or_do_is_no_number(follow, scene, protocol):
    seen = scene()
    score = follow("Make it pop", seen, protocol=protocol)
    assert (score.status, score.value, score.metric) == ("not_applicable", None, f"edival-if@3/{protocol}")
    assert "'Make it pop' is none of EdiVal's nine forms" in score.reason
    assert "task=Task(" in score.reason
    assert not seen.queries
    removal = Task("subject_remove", object="cup")
    for dense in (False, True):
        blind = follow(removal, scene(unknown=("cup",)), protocol=protocol, dense=dense)
        assert (blind.status, blind.value, blind.reason) == ("abstained", None, "cannot look for cup")
        down = follow(removal, scene(broken=("cup",)), protocol=protocol, dense=dense)
        assert (down.status, down.value, "crashed on cup" in down.reason) == ("failed", None, True)
    for outcome, status in ((Abstention("colours only"), "abstained"), (Failure("timed out"), "failed")):
        assert follow(RECOLOUR, scene(edited={"cup": [BOX]}, judge=outcome)).status == status


def test_evidence_tells_what_was_looked_at_and_how_it_was_weighed(follow, scene):
    score = follow(
        RECOLOUR, scene(edited={"cup": [BOX, (*BOX[:4], 0.2)]}, judge=Reply("Yes!", {"yes": 0.8, "no": 0.2}))
    )
    looked, judge_evidence, there, judged, verdict = score.evidence
    assert (looked.what, looked.text, looked.image) == ("detect edited", "cup", "b" * 64)
    assert ([box.score for box in looked.boxes], looked.numbers) == ([0.9], {"threshold": 0.35, "strongest": 0.9})
    assert (judge_evidence.what, judge_evidence.text, judge_evidence.numbers) == (
        "judge color",
        "Yes!",
        {"yes": 0.8, "no": 0.2},
    )
    assert there.text == "cup is in the edited image (0.90 > 0.35)"
    assert (judged.numbers, verdict.what) == ({"holds": 1.0, "degree": pytest.approx(0.8)}, "verdict")
    assert verdict.numbers["degree"] == pytest.approx((judged.numbers["degree"] + there.numbers["degree"]) / 2)
    assert score.reason == f"{there.text}; {judged.text}"


DOG = (0.5, 0.5, 0.2, 0.2, 0.9)


def at(cx: float, cy: float = 0.5, score: float = 0.9, size: float = 0.1) -> tuple[float, ...]:
    return (cx, cy, size, size, score)


def only(scene, kind):
    """The one query of this kind that a scene got."""
    (query,) = scene.of_kind(kind)
    return query


@pytest.mark.parametrize(
    ("task", "threshold"),
    [
        *((Task("subject_remove", object="dog"), 0.30), (Task("subject_add", new="dog"), 0.35)),
        (Task("count_change", object="dog", count=1), 0.35),
        (Task("position_change", object="dog", position="left", reference="cat"), 0.40),
    ],
)
def test_a_score_must_lie_strictly_above_the_threshold_of_its_task(follow, scene, task, threshold):
    before = {} if task.type == "subject_add" else {"dog": [DOG]}
    for score, seen in ((threshold + 0.001, True), (threshold, False)):
        found = scene(source=before, edited={"cat": [at(0.9)], "dog": [at(0.2, score=score)]})
        assert follow(task, found).value == float(seen != (task.type == "subject_remove"))


@pytest.mark.parametrize(
    ("task", "detected", "counts"),
    [  # of table 8: its own threshold, 0.3, 0.4 for all
        (Task("subject_remove", object="dog"), 0.38, (0, 0, 1)),
        (Task("color_alter", object="dog", value="blue"), 0.33, (0, 1, 0)),
        (Task("position_change", object="dog", position="left", reference="cat"), 0.37, (0, 1, 0)),
    ],
)
def test_one_threshold_can_replace_them_all(follow, scene, task, detected, counts):
    edited = {"dog": [at(0.2, score=detected)], "cat": [at(0.9)]}
    weak = scene(source={"dog": [DOG]}, edited=edited)
    assert tuple(follow(task, weak, threshold=one).value for one in (None, 0.30, 0.40)) == counts


@pytest.mark.parametrize(
    ("w", "h", "dropped"), [(0.981, 0.981, True), (0.98, 0.99, False), (0.99, 0.98, False), (1.0, 0.5, False)]
)
def test_boxes_of_nearly_the_whole_picture_are_dropped(follow, scene, w, h, dropped):
    covered = scene(source={"dog": [DOG]}, edited={"dog": [(0.5, 0.5, w, h, 0.9)]})
    score = follow(Task("subject_remove", object="dog"), covered)
    assert score.value == float(dropped)
    assert ("dropped_as_too_large" in score.evidence[1].numbers) is dropped
    assert follow(Task("subject_remove", object="dog"), covered, max_box_size=None).value == 0


ADD, REMOVE = Task("subject_add", new="hat"), Task("subject_remove", object="dog")
ADD_ABOVE = Task("subject_add", new="hat", position="above", reference="dog")
ADD_LEFT = Task("subject_add", new="hat", position="left", reference="dog")
REPLACE = Task("subject_replace", object="dog", new="cat")
MOVE = Task("position_change", object="cup", position="left", reference="dog")
COUNT, NONE = (Task("count_change", object="cup", count=count) for count in (2, 0))
COLOUR = Task("color_alter", object="cup", value="blue")
HAT, HATS, TWO = {"hat": [at(0.5, 0.2)]}, [at(0.8, score=0.8), at(0.1)], {"cup": [at(0.1), at(0.3)], "dog": [DOG]}
DOGS, DOUBLED = {"dog": [at(0.1), at(0.5)]}, {"cup": [at(0.1), at(0.8), at(0.801)]}


@pytest.mark.parametrize(
    ("task", "source", "edited", "options", "value", "reason"),
    [
        # absent before and present after; the reference is looked for in the edited image
        (ADD, {}, {"hat": [at(0.5)]}, {}, 1, ""),
        (ADD, {}, {}, {}, 0, ""),
        (ADD, {"hat": [at(0.2)]}, {"hat": [at(0.2), at(0.8)]}, {}, 0, "hat is in the source image (0.90 > 0.35)"),
        *((ADD_ABOVE, {"dog": [DOG]}, HAT, {}, 0, ""), (ADD_ABOVE, {}, {**HAT, "dog": [DOG]}, {}, 1, "")),
        (ADD_ABOVE, HAT, {**HAT, "dog": [DOG]}, {}, 0, ""),
        # positions go by the boxes of highest score
        (ADD_LEFT, {}, {"hat": HATS, "dog": [at(0.5)]}, {}, 1, ""),
        (ADD_LEFT, {}, {"hat": [at(0.8, score=0.95), *HATS], "dog": [at(0.5)]}, {}, 0, ""),
        (REMOVE, {"dog": [DOG]}, {}, {}, 1, ""),
        (REMOVE, {}, {}, {}, 0, "dog not found in the source image (0.00 <= 0.3)"),
        # any old and new box have to overlap; the old object may have to be gone
        (REPLACE, DOGS, {"cat": [at(0.9), at(0.59)]}, {}, 1, ""),
        *((REPLACE, DOGS, {"cat": [at(0.9), at(0.7)]}, {}, 0, ""), (REPLACE, {}, {"cat": [at(0.5)]}, {}, 0, "")),
        (REPLACE, DOGS, {}, {}, 0, ""),
        (REPLACE, {"dog": [DOG]}, {"cat": [DOG], "dog": [DOG]}, {}, 1, ""),
        (REPLACE, {"dog": [DOG]}, {"cat": [DOG], "dog": [DOG]}, {"require_old_absent": True}, 0, ""),
        # no more of the moved object than before, but for doubles
        (MOVE, {"cup": [at(0.8)]}, TWO, {}, 0, "2 x cup in the edited image: count 2 > 1"),
        (MOVE, {"cup": [at(0.8), at(0.6), at(0.7)]}, TWO, {}, 1, ""),
        (MOVE, {"cup": [at(0.8)]}, {"cup": [at(0.1), at(0.101)], "dog": [DOG]}, {}, 1, ""),
        (COUNT, {}, DOUBLED, {}, 1, ""),
        (COUNT, {}, DOUBLED, {"duplicate_iou": 1.0}, 0, "3 x cup in the edited image: count 3 != 2"),
        (NONE, {}, {}, {}, 1, ""),
        (COLOUR, {}, {}, {}, 0, "cup not found in the edited image (0.00 <= 0.35)"),
        (COLOUR, {}, {"cup": [at(0.8)]}, {"attribute_view": "both"}, 0, ""),
    ],
)
def test_a_task_is_done_where_its_algorithm_says_so(follow, scene, task, source, edited, options, value, reason):
    score = follow(task, scene(source=source, edited=edited), **options)
    assert score.value == value
    assert not reason or score.reason == reason


@pytest.mark.parametrize(
    ("position", "just", "short"),
    [
        *(("left", (0.4699, 0.5), (0.47, 0.5)), ("right", (0.5301, 0.5), (0.53, 0.5))),
        *(("above", (0.5, 0.4699), (0.5, 0.47)), ("below", (0.5, 0.5301), (0.5, 0.53))),
    ],
)
@pytest.mark.parametrize("kind", ["subject_add", "position_change"])
def test_a_centre_must_lie_beyond_the_margin(follow, scene, kind, position, just, short):
    task = Task(kind, new="hat", object="hat", position=position, reference="dog")
    before = {} if kind == "subject_add" else {"hat": [at(0.5)]}

    def verdict(place, **options):
        return follow(task, scene(source=before, edited={"hat": [at(*place)], "dog": [DOG]}), **options).value

    assert ([verdict(just), verdict(short)], verdict(short, position_margin=0.0)) == ([1, 0], 1)
    assert verdict((0.5, 0.5), position_margin=0.0) == 0


def test_replace_asks_the_judge_unless_told_not_to_and_count_looks_at_the_edited_image_alone(follow, scene):
    doubted, unasked = (scene(source={"dog": [DOG]}, edited={"cat": [DOG]}, judge=Reply("No")) for _ in range(2))
    assert follow(REPLACE, doubted).value == 0
    question = only(doubted, Judge)
    assert (question.topic, dict(question.slots)) == ("edival/replaced", {"object": "dog", "new": "cat"})
    assert (len(question.images), follow(REPLACE, unasked, judge_replacement=False).value) == (2, 1)
    assert unasked.of_kind(Judge) == []
    doubled = scene(edited=DOUBLED)
    follow(COUNT, doubled)
    assert [query.image for query in doubled.queries] == [EDITED]


@pytest.mark.parametrize(("kind", "topic"), [("color_alter", "color"), ("material_alter", "material")])
def test_attributes_are_judged_on_the_crop_of_the_object_on_the_whole_image_or_on_both_crops(
    follow, scene, kind, topic
):
    task = Task(kind, object="cup", value="blue")
    shown = scene(edited={"cup": [at(0.25, 0.75, size=0.2)]})
    assert follow(task, shown).value == 1
    question = only(shown, Judge)
    assert (question.topic, dict(question.slots)) == (f"edival/{topic}", {"object": "cup", "value": "blue"})
    assert question.images[0].origin == (EDITED, '["crop", 76, 332, 179, 435]')
    whole = scene()
    assert (follow(task, whole, attribute_view="whole").value, only(whole, Judge).images[0].size) == (1, (512, 512))
    both = scene(source={"cup": [at(0.2)]}, edited={"cup": [at(0.8)]})
    assert follow(task, both, attribute_view="both").value == 1
    assert (only(both, Judge).topic, len(only(both, Judge).images)) == (f"edival/{topic}_pair", 2)


def test_crops_are_widened_and_texts_read_in_the_whole_or_on_their_object(follow, scene):
    for options, size in (({}, 26), ({"min_crop_size": 0.0}, 6)):
        tiny = scene(edited={"cup": [(0.5, 0.5, 0.01, 0.01, 0.9)]})
        follow(COLOUR, tiny, **options)
        assert abs(only(tiny, Judge).images[0].width - size) <= 1
    for box in ((0.0, 0.0, 0.2, 0.2, 0.9), (1.2, 0.5, 0.1, 0.1, 0.9), (-0.3, -0.3, 0.1, 0.1, 0.9)):
        sign = scene(edited={"sign": [box]}, text="open")
        assert follow(Task("text_change", text="OPEN", object="sign"), sign).value == 1
    anywhere = scene(text="OPEN")
    assert follow(Task("text_change", text="OPEN"), anywhere).value == 1
    assert only(anywhere, ReadText).image.size == (512, 512)
    somewhere = scene(edited={"sign": [at(0.5)]}, text="OPEN")
    task = Task("text_change", text="OPEN", object="sign", old="SHUT")
    assert (follow(task, somewhere).value, [type(query) for query in somewhere.queries]) == (1, [Detect, ReadText])
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
        *(("مرحبا!", "مرحبا", 1, 1), ("The text says OPEN.", "OPEN", 0, 1), ("OPE", "OPEN", 0, 0), ("", "OPEN", 0, 0)),
        *(("", "!!!", 0, 0), ("!!!", "! ! !", 1, 1)),
    ],
)
def test_texts_are_compared_without_case_punctuation_and_blanks(follow, scene, read, wanted, exact, substring):
    task = Task("text_change", text=wanted)
    assert follow(task, scene(text=read)).value == exact
    assert follow(task, scene(text=read), text_match="substring").value == substring


BEACH = Task("background_change", value="beach", keep=("dog",))


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        *((Reply("Yes."), 1), (Reply("**NO**, it is red"), 0), (Reply('"yes"'), 1)),
        *((Reply(text), 1) for text in ("<answer>Yes</answer>", "\n<answer> **Yes** </answer>")),
        *((Reply(text), None) for text in ("The cup is blue. <answer>Yes</answer>", "<answer>No idea</answer>")),
        (Reply("Yes", {"yes": 0.4, "no": 0.6}), 0),
        (Reply("?", {"yes": 0.5, "no": 0.5}), 1),
        *((Reply(text), None) for text in ("I cannot tell", "No idea", "Yes and no", "The answer is yes", "Yesterday")),
        *((Reply(text), None) for text in ("nothing", "")),
    ],
)
def test_a_judge_says_yes_or_no_first_or_the_score_fails(follow, scene, reply, value):
    experts = scene(judge=reply)
    score = follow(BEACH, experts)
    (question,) = experts.queries
    assert (question.topic, dict(question.slots)) == ("edival/background", {"value": "beach"})
    assert (score.value, score.status) == (value, "failed" if value is None else "scored")
    assert score.evidence[0].text == reply.text
    assert value is not None or repr(reply.text) in score.reason
