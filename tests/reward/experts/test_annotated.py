"""Annotated: boxes in the base image, matched objects in edits, and abstentions with reasons."""

from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, EditSample, Expert, Image
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.queries import Abstention, Detect, Detections, Match

from .asking import in_engine
from .pictures import inpainted

ASTRONAUT, COFFEE = skimage.data.astronaut(), skimage.data.coffee()
CUP, SPOON = (170, 20, 415, 290), (395, 65, 428, 120)
FOUND = 0.35
"""A threshold of EdiVal."""


def drawn(corners, photo=COFFEE, **fields):
    x0, y0, x1, y1 = corners
    return Box.from_corners(x0, y0, x1, y1, photo.shape[1::-1], **fields)


def sample(edited, base=COFFEE, **boxes):
    edit_sample = boxes or {"cup": (drawn(CUP),), "spoon": (drawn(SPOON),)}
    return EditSample("s", "Change something", (Image.of(base),), Image.of(edited), boxes=edit_sample)


def outcomes(queries, edit_sample=None, **options) -> list[Any]:
    return in_engine(Annotated(**options), queries, edit_sample)


def look(edited, *phrases, base=COFFEE, **boxes) -> Any:
    edit_sample = sample(edited, base, **boxes)
    (answer,) = outcomes([Detect(edit_sample.edited, phrases)], edit_sample)
    return answer


def bluer(photo, corners):
    x0, y0, x1, y1 = corners
    edited = photo.copy()
    edited[y0:y1, x0:x1] = edited[y0:y1, x0:x1, ::-1]
    return edited


def test_in_the_base_picture_the_drawn_boxes_come_back_and_a_recoloured_thing_is_found_where_it_was():
    boxes = {"cup": (drawn(CUP, score=0.4),), "spoon": (drawn(SPOON),)}
    edit_sample = sample(ASTRONAUT, **boxes)
    source = edit_sample.source
    for picture in (source, source.resized(512, 512), source.resized(99, 80).resized(300, 200)):
        (answer,) = outcomes([Detect(picture, ("spoon", "the cup"))], edit_sample)
        assert answer == Detections((drawn(SPOON, label="spoon"), drawn(CUP, label="the cup")), min_score=0.05)
    answer = look(bluer(COFFEE, CUP), "cup")
    (box,) = answer.above(FOUND)
    assert box.iou(drawn(CUP)) > 0.8
    assert box.label == "cup"
    scores = [each.score for each in answer.boxes]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= answer.min_score == 0.05
    assert Annotated(min_score=0.2).id != Annotated().id
    with pytest.raises(ValueError, match=r"min_score must lie in \[0, 1\), got 1"):
        Annotated(min_score=1)


def test_a_thing_painted_over_is_not_found():
    assert not look(inpainted(COFFEE, CUP), "cup").above(0.3)
    assert look(inpainted(COFFEE, SPOON), "cup").above(0.3)


def test_a_moved_thing_is_found_in_its_new_place():
    x0, y0, x1, y1 = head = (178, 70, 278, 185)
    edited = inpainted(ASTRONAUT, head)
    edited[300 : 300 + y1 - y0, 60 : 60 + x1 - x0] = ASTRONAUT[y0:y1, x0:x1]
    (box,) = look(edited, "head", base=ASTRONAUT, head=(drawn(head, ASTRONAUT),)).above(FOUND)
    assert box.iou(drawn((60, 300, 160, 415), ASTRONAUT)) > 0.7


def test_several_boxes_of_one_name_are_several_things_of_a_kind_each_found_once_and_so_is_a_copy():
    random = np.random.default_rng(4)
    room = np.clip(150 + random.normal(0, 3, (300, 500, 3)), 0, 255).astype(np.uint8)
    places = [(60, 80, 140, 170), (330, 140, 410, 230)]
    thing = cv2.resize(ASTRONAUT[70:185, 178:278], (80, 90))
    for x0, y0, x1, y1 in places:
        room[y0:y1, x0:x1] = thing
    boxes = tuple(drawn(place, room) for place in places)
    edited = room.copy()
    edited[200:290, 200:280] = thing
    assert len(look(edited, "portrait", base=room, portrait=boxes).above(FOUND)) == 3
    edited = room.copy()
    edited[0:20, 0:60] = 0  # elsewhere
    detected = look(edited, "portrait", base=room, portrait=boxes).above(FOUND)
    assert len(detected) == 2
    assert all(max(box.iou(true) for box in detected) > 0.8 for true in boxes)
    x0, y0, x1, y1 = places[0]
    edited[y0:y1, x0:x1] = 150
    (left,) = look(edited, "portrait", base=room, portrait=boxes).above(FOUND)
    assert left.iou(boxes[1]) > 0.8


@pytest.mark.parametrize(
    ("edit", "true"),
    [
        (lambda photo: cv2.resize(photo, (512, 512), interpolation=cv2.INTER_AREA), drawn(CUP)),
        (lambda photo: photo[:, 110:510], Box.from_corners(60, 20, 305, 290, (400, 400))),
        (lambda photo: np.pad(photo, ((100, 100), (0, 0), (0, 0))), Box.from_corners(170, 120, 415, 390, (600, 600))),
        (lambda photo: np.pad(photo, ((0, 0), (60, 180), (0, 0))), Box.from_corners(230, 20, 475, 290, (840, 400))),
    ],
    ids=["stretched", "cut", "letterbox", "pillars"],
)
def test_an_edit_of_another_aspect_ratio_is_searched_as_stretched_cut_and_padded(edit, true):
    box = look(np.ascontiguousarray(edit(bluer(COFFEE, SPOON))), "cup").boxes[0]
    assert box.score > 0.8
    assert box.iou(true) > 0.8


def test_no_edited_picture_is_too_odd_of_a_box_over_the_edge_the_inside_counts_and_of_thousands_none_is_searched():
    for width, height in ((1, 1), (2, 3), (9, 9), (3000, 2), (2, 3000)):
        noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
        assert not look(noise, "cup").above(FOUND)
    outwards = drawn((170, -40, 415, 290))
    (box,) = look(bluer(COFFEE, SPOON), "cup", cup=(outwards,)).above(FOUND)
    assert box.iou(drawn((170, 0, 415, 290))) > 0.8
    x0, y0, x1, y1 = CUP
    boxes = tuple(drawn((x0, y0, x1 + number / 100, y1)) for number in range(129))
    answer = look(COFFEE[::-1].copy(), "cup", cup=boxes)
    assert isinstance(answer, Abstention)
    assert answer.reason.startswith("129 boxes are annotated up to 'cup', and at most 128 objects are searched")


@pytest.mark.parametrize(
    ("phrase", "name", "others"),
    [
        ("cup", "cup", ["cups"]),
        ("cups", "cups", ["cup"]),
        ("Cup .", "cup", ["unlike"]),
        ("the  white\tCUP", "White cup.", []),
        ("a cup", "cup", []),
        ("cups", "cup", []),
        ("cup", "cups", []),
        ("glass", "glasses", []),
        ("glas", "glass", []),
        ("hors", "horses", []),
        ("horse", "horses", []),
        ("cherry", "cherries", []),
        ("Straße", "STRASSE", []),
    ],
)
def test_a_phrase_means_the_name_it_was_drawn_under(phrase, name, others):
    edit_sample = sample(ASTRONAUT, **{name: (drawn(CUP),), **dict.fromkeys(others, (drawn(SPOON),))})
    assert Annotated().rewrite_query(Detect(edit_sample.edited, (phrase,)), edit_sample) == Match(
        edit_sample.edited, edit_sample.base, (drawn(CUP, label=phrase),)
    )


def test_a_phrase_without_a_box_is_abstained_on():
    for phrase in ("lamp", "red cup", "cupboard", "the", "", "."):
        (answer,) = outcomes([Detect(Image.of(ASTRONAUT), (phrase,))], sample(ASTRONAUT))
        cure = f'give boxes={{"{phrase}": [[x0, y0, x1, y1]]}}, in pixels of the source, or bind a detector, as in'
        missing = f"no box for {phrase!r} among the annotations of this sample (cup, spoon)"
        assert answer == Abstention(f'{missing}: {cure} experts="laptop"')


def test_without_boxes_a_sample_or_structure_there_is_nothing_to_look_for():
    picture = Image.of(ASTRONAUT)
    bare = EditSample("s", "Remove the cup", (picture,), picture)
    (answer,) = outcomes([Detect(picture, ("cup",))], bare)
    assert "no box for 'cup' among the annotations of this sample (there are none)" in answer.reason
    (answer,) = outcomes([Detect(picture, ("cup",))])
    assert "no sample" in answer.reason
    flat = COFFEE.copy()
    flat[10:90, 10:90] = 128
    answer = look(bluer(flat, SPOON), "tile", base=flat, tile=(drawn((20, 20, 80, 80)),))
    assert answer.reason.startswith("'tile' cannot be detected: ")


def test_the_boxes_of_the_first_picture_serve_later_turns_and_resized_copies_and_recordings_are_one_question():
    first = sample(bluer(COFFEE, SPOON))
    second = EditSample("s2", "...", (first.edited,), Image.of(bluer(COFFEE, CUP)), boxes=first.boxes, history=(first,))
    (before, after) = outcomes([Detect(second.source, ("cup",)), Detect(second.edited, ("cup",))], second)
    assert all(answer.boxes[0].iou(drawn(CUP)) > 0.8 for answer in (before, after))
    edit_sample = sample(bluer(COFFEE, CUP))
    expert = Annotated()
    query: Any = expert.rewrite_query(Detect(edit_sample.edited, ("cup",)), edit_sample)
    resized: Any = expert.rewrite_query(Detect(edit_sample.edited.resized(512, 512), ("cup",)), edit_sample)
    assert resized.digest == query.digest
    source, edited = (Image.from_digest(image.digest, image.size) for image in (edit_sample.source, edit_sample.edited))
    recorded = EditSample("s", edit_sample.instruction, (source,), edited, boxes=edit_sample.boxes)
    replayed: Any = expert.rewrite_query(Detect(recorded.edited.resized(512, 512), ("cup",)), recorded)
    assert replayed.digest == query.digest


OUTSIDE = "the box of 'cup' lies outside its image: "


@pytest.mark.parametrize(
    ("box", "cure"),
    [
        *((drawn(corners), "correct it") for corners in [(700, 20, 800, 200), (-90, -90, -5, -5), (50, 50, 50, 90)]),
        (Box(120, 80, 260, 240), "a Box is in fractions, and Box.from_corners takes pixels"),
    ],
)
def test_a_box_outside_of_the_picture_is_abstained_on_by_name(box, cure):
    for edited in (ASTRONAUT, COFFEE):
        assert look(edited, "cup", cup=(box,)) == Abstention(OUTSIDE + cure)


@pytest.mark.parametrize("cache_bytes", [2**30, 0])
def test_answers_do_not_depend_on_the_batch_or_on_what_is_kept(cache_bytes):
    edit_sample = sample(ASTRONAUT)
    edits = [COFFEE, bluer(COFFEE, CUP), inpainted(COFFEE, SPOON), np.ascontiguousarray(COFFEE[:, 60:])]
    asked = [("cup",), ("spoon", "cups"), ("lamp",)]
    queries = [Detect(Image.of(edit), phrases) for edit in edits for phrases in asked]
    expert = Annotated(cache_bytes=cache_bytes)
    expert.batch = 3
    answers = in_engine(expert, queries, edit_sample)
    assert answers[::-1] == in_engine(expert, queries[::-1], edit_sample)
    assert answers == [outcomes([query], edit_sample)[0] for query in queries]
    assert isinstance(look(ASTRONAUT, "cup", "lamp"), Abstention)  # one phrase without a box is enough


@given(st.text(st.sampled_from("aesie .cupTH"), max_size=12))
def test_a_name_means_itself_however_it_is_written(name):
    edit_sample = sample(ASTRONAUT, **{name: (drawn(CUP),)})
    for phrase in (name, name.upper(), f" {name} .", f"{name}."):
        assert isinstance(Annotated().rewrite_query(Detect(edit_sample.edited, (phrase,)), edit_sample), Match)


class Elsewhere(Expert):
    """A detector that finds everything in one corner."""

    kinds, batch, id = (Detect,), 3, "elsewhere"

    def __init__(self) -> None:
        self.asked: list[Detect] = []

    def __call__(self, queries):
        self.asked += queries
        return [Detections((Box(0.1, 0.1, 0.1, 0.1, 0.6, query.phrases[0]),), 0.05) for query in queries]


def test_another_detector_is_asked_about_what_has_no_box_or_too_little_structure():
    other = Elsewhere()
    edit_sample = sample(bluer(COFFEE, CUP))
    queries = [Detect(edit_sample.edited, ("cup",)), Detect(edit_sample.edited, ("saucer",))]
    queries += [Detect(edit_sample.source, ("dog",))]
    cup, saucer, dog = outcomes(queries, edit_sample, otherwise=other)
    assert cup == look(edit_sample.edited.pixels, "cup")
    assert {box.label for box in (*saucer.boxes, *dog.boxes)} == {"saucer", "dog"}
    assert other.asked == queries[1:]
    (alone,) = outcomes([Detect(edit_sample.source, ("cup",))], otherwise=other)
    assert alone.boxes[0].cx == 0.1
    flat = np.full((200, 300, 3), 128, np.uint8)
    edited = flat.copy()
    edited[:40, :40] = 255
    box = {"wall": (Box(0.5, 0.5, 0.4, 0.4),)}
    edit_sample = sample(edited, flat, **box)
    queries = [Detect(edit_sample.source, ("wall",)), Detect(edit_sample.edited, ("wall",))]
    (given, found) = outcomes(queries, edit_sample, otherwise=Elsewhere())
    assert given.boxes[0].cx == 0.5
    assert found.boxes[0].cx == 0.1
    assert isinstance(look(edited, "wall", base=flat, **box), Abstention)


def test_each_question_of_a_mixed_call_has_its_own_answer():
    match = Match(Image.of(COFFEE), Image.of(COFFEE), (drawn(CUP, label="cup"),))
    dog = Detect(Image.of(COFFEE), ("dog",))
    for expert in (Annotated(otherwise=Elsewhere()), Annotated()):
        before, matched, after = expert([dog, match, dog])
        assert isinstance(matched, Detections)
        assert matched.boxes[0].label == "cup"
        assert before == after
        assert isinstance(before, Detections if expert.detector else Abstention)
    expert = Annotated(otherwise=Elsewhere())
    assert (expert.id, expert.batch) == ("annotated@1 floor=0.05 otherwise elsewhere", 3)
    with pytest.raises(ValueError, match="needs a detector as otherwise, ColourJudge is none"):
        Annotated(otherwise="colour")
