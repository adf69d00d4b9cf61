"""Annotated: boxes in the base image, matched objects in edits, and abstentions with reasons."""

from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Box, EditSample, Engine, Expert, Image, Program, Score
from editcritic.reward.engine.program import Ask
from editcritic.reward.experts import annotated
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.queries import Abstention, Detect, Detections, Match

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


def outcomes(queries, edit_sample=None, expert=None, *, batch=16) -> tuple[Score, list[Any]]:
    """The score of a program that yields all queries at once, and the outcomes."""
    answers: list[Any] = []

    def program() -> Program[Score]:
        answers.extend((yield Ask(tuple(queries))))
        return Score.of(1.0)

    expert = expert or Annotated()
    expert.batch = batch
    with Engine() as engine:
        return engine.submit(program(), {"detector": expert}, edit_sample).result(timeout=120), answers


def look(edited, *phrases, base=COFFEE, **boxes) -> Any:
    edit_sample = sample(edited, base, **boxes)
    _, (answer,) = outcomes([Detect(edit_sample.edited, phrases)], edit_sample)
    return answer


def inpainted(photo, corners):
    x0, y0, x1, y1 = corners
    mask = np.zeros(photo.shape[:2], np.uint8)
    mask[y0 - 6 : y1 + 6, x0 - 6 : x1 + 6] = 255
    return cv2.inpaint(photo, mask, 5, cv2.INPAINT_TELEA)


def bluer(photo, corners):
    x0, y0, x1, y1 = corners
    edited = photo.copy()
    edited[y0:y1, x0:x1] = edited[y0:y1, x0:x1, ::-1]
    return edited


# -- positions ---------------------------------------------------------------------------------------------------------


def test_in_the_base_picture_the_drawn_boxes_come_back():
    boxes = {"cup": (drawn(CUP, score=0.4),), "spoon": (drawn(SPOON),)}
    edit_sample = sample(ASTRONAUT, **boxes)
    for picture in (
        edit_sample.source,
        edit_sample.source.resized(512, 512),
        edit_sample.source.resized(99, 80).resized(300, 200),
    ):
        _, (answer,) = outcomes([Detect(picture, ("spoon", "the cup"))], edit_sample)
        assert answer == Detections((drawn(SPOON, label="spoon"), drawn(CUP, label="the cup")), min_score=0.05)


def test_a_recoloured_thing_is_found_where_it_was():
    answer = look(bluer(COFFEE, CUP), "cup")
    (box,) = answer.above(FOUND)
    assert box.iou(drawn(CUP)) > 0.8
    assert box.label == "cup"
    assert answer.min_score == 0.05


def test_a_thing_painted_over_is_not_found():
    edited = inpainted(COFFEE, CUP)
    assert not look(edited, "cup").above(0.3)
    assert look(inpainted(COFFEE, SPOON), "cup").above(0.3)


def test_a_moved_thing_is_found_in_its_new_place():
    x0, y0, x1, y1 = head = (178, 70, 278, 185)
    edited = inpainted(ASTRONAUT, head)
    edited[300 : 300 + y1 - y0, 60 : 60 + x1 - x0] = ASTRONAUT[y0:y1, x0:x1]
    (box,) = look(edited, "head", base=ASTRONAUT, head=(drawn(head, ASTRONAUT),)).above(FOUND)
    assert box.iou(drawn((60, 300, 160, 415), ASTRONAUT)) > 0.7


def test_boxes_come_best_first_and_scores_lie_between_floor_and_one():
    boxes = look(bluer(COFFEE, SPOON), "cup", "spoon").boxes
    assert {box.label for box in boxes} >= {"cup"}
    scores = [box.score for box in boxes]
    assert scores == sorted(scores, reverse=True)
    assert all(0.05 <= score <= 1 for score in scores)


def two_things():
    """A plain room with two similar objects of one label, and their boxes."""
    random = np.random.default_rng(4)
    room = np.full((300, 500, 3), 150, np.uint8)
    room = np.clip(room + random.normal(0, 3, room.shape), 0, 255).astype(np.uint8)
    thing = cv2.resize(ASTRONAUT[70:185, 178:278], (80, 90))
    places = [(60, 80, 140, 170), (330, 140, 410, 230)]
    for x0, y0, x1, y1 in places:
        room[y0:y1, x0:x1] = thing
    return room, places


def test_several_boxes_of_one_name_are_several_things_of_a_kind_each_found_once():
    room, places = two_things()
    boxes = tuple(drawn(place, room) for place in places)
    edited = room.copy()
    edited[0:20, 0:60] = 0  # elsewhere
    detected = look(edited, "portrait", base=room, portrait=boxes).above(FOUND)
    assert len(detected) == 2
    assert all(max(box.iou(true) for box in detected) > 0.8 for true in boxes)
    x0, y0, x1, y1 = places[0]
    edited[y0:y1, x0:x1] = 150
    (left,) = look(edited, "portrait", base=room, portrait=boxes).above(FOUND)
    assert left.iou(boxes[1]) > 0.8


def test_a_copy_that_the_edit_made_is_found_too():
    room, places = two_things()
    edited = room.copy()
    x0, y0, x1, y1 = places[0]
    edited[200:290, 200:280] = room[y0:y1, x0:x1]
    boxes = tuple(drawn(place, room) for place in places)
    assert len(look(edited, "portrait", base=room, portrait=boxes).above(FOUND)) == 3


def test_a_like_thing_without_a_box_is_another_thing():
    room, places = two_things()
    edited = room.copy()
    edited[250:280, 0:60] = 0
    (box,) = look(edited, "portrait", base=room, portrait=(drawn(places[0], room),)).above(FOUND)
    assert box.iou(drawn(places[0], room)) > 0.8


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


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 9), (3000, 2), (2, 3000)])
def test_no_edited_picture_is_too_odd(size):
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    assert not look(noise, "cup").above(FOUND)


def test_of_a_box_over_the_edge_the_inside_counts():
    outwards = drawn((170, -40, 415, 290))
    (box,) = look(bluer(COFFEE, SPOON), "cup", cup=(outwards,)).above(FOUND)
    assert box.iou(drawn((170, 0, 415, 290))) > 0.8


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrase", "name"),
    [
        ("cup", "cup"),
        ("Cup .", "cup"),
        ("the  white\tCUP", "White cup."),
        ("a cup", "cup"),
        ("cups", "cup"),
        ("cup", "cups"),
        ("glass", "glasses"),
        ("glas", "glass"),
        ("hors", "horses"),
        ("horse", "horses"),
        ("cherry", "cherries"),
        ("Straße", "STRASSE"),
    ],
)
def test_a_phrase_means_the_name_it_was_drawn_under(phrase, name):
    edit_sample = sample(ASTRONAUT, **{name: (drawn(CUP),), "unlike": (drawn(SPOON),)})
    assert Annotated().rewrite_query(Detect(edit_sample.edited, (phrase,)), edit_sample) == Match(
        edit_sample.edited, edit_sample.base, (drawn(CUP, label=phrase),)
    )


def test_the_exact_name_goes_before_another_number_of_it():
    edit_sample = sample(ASTRONAUT, cup=(drawn(CUP),), cups=(drawn(SPOON),))
    for phrase, corners in [("cup", CUP), ("cups", SPOON)]:
        adapted: Any = Annotated().rewrite_query(Detect(edit_sample.edited, (phrase,)), edit_sample)
        assert adapted.targets == (drawn(corners, label=phrase),)


@pytest.mark.parametrize("phrase", ["lamp", "red cup", "cupboard", "the", "", "."])
def test_a_phrase_without_a_box_is_abstained_on(phrase):
    score, (answer,) = outcomes([Detect(Image.of(ASTRONAUT), (phrase,))], sample(ASTRONAUT))
    assert answer == Abstention(
        f"no box for {phrase!r} among the annotations of this sample (cup, spoon): give "
        f'boxes={{"{phrase}": [[x0, y0, x1, y1]]}}, in pixels of the source, or bind a detector, as in experts="laptop"'
    )
    assert score.value == 1.0  # the program continues after an abstention


def test_one_phrase_of_several_without_a_box_is_enough_to_abstain():
    assert isinstance(look(ASTRONAUT, "cup", "lamp"), Abstention)


def test_without_boxes_or_a_sample_there_is_nothing_to_look_for():
    picture = Image.of(ASTRONAUT)
    bare = EditSample("s", "Remove the cup", (picture,), picture)
    _, (answer,) = outcomes([Detect(picture, ("cup",))], bare)
    assert "no box for 'cup' among the annotations of this sample (there are none)" in answer.reason
    _, (answer,) = outcomes([Detect(picture, ("cup",))])
    assert "no sample" in answer.reason


def test_a_thing_without_structure_is_abstained_on_by_name():
    flat = COFFEE.copy()
    flat[10:90, 10:90] = 128
    answer = look(bluer(flat, SPOON), "tile", base=flat, tile=(drawn((20, 20, 80, 80)),))
    assert answer.reason.startswith("'tile' cannot be detected: ")


@pytest.mark.parametrize("corners", [(700, 20, 800, 200), (-90, -90, -5, -5), (50, 50, 50, 90)])
def test_a_box_outside_of_the_picture_is_abstained_on_by_name(corners):
    for edited in (ASTRONAUT, COFFEE):
        answer = look(edited, "cup", cup=(drawn(corners),))
        assert answer == Abstention("the box of 'cup' lies outside its image: correct it")


def test_a_box_that_was_made_of_pixels_is_told_what_takes_them():
    answer = look(COFFEE, "cup", cup=(Box(120, 80, 260, 240),))
    assert answer.reason.endswith("lies outside its image: a Box is in fractions, and Box.from_corners takes pixels")


def test_the_boxes_of_the_first_picture_serve_later_turns():
    first = sample(bluer(COFFEE, SPOON))
    second = EditSample("s2", "...", (first.edited,), Image.of(bluer(COFFEE, CUP)), boxes=first.boxes, history=(first,))
    _, (before, after) = outcomes([Detect(second.source, ("cup",)), Detect(second.edited, ("cup",))], second)
    assert all(answer.boxes[0].iou(drawn(CUP)) > 0.8 for answer in (before, after))


# -- answers do not depend on batching or caching ----------------------------------------------------------------------


def test_resized_copies_and_recordings_are_one_question():
    edit_sample = sample(bluer(COFFEE, CUP))
    expert = Annotated()
    query: Any = expert.rewrite_query(Detect(edit_sample.edited, ("cup",)), edit_sample)
    resized: Any = expert.rewrite_query(Detect(edit_sample.edited.resized(512, 512), ("cup",)), edit_sample)
    assert resized.digest == query.digest
    source, edited = (Image.from_digest(image.digest, image.size) for image in (edit_sample.source, edit_sample.edited))
    recorded = EditSample("s", edit_sample.instruction, (source,), edited, boxes=edit_sample.boxes)
    replayed: Any = expert.rewrite_query(Detect(recorded.edited.resized(512, 512), ("cup",)), recorded)
    assert replayed.digest == query.digest


def edits():
    return [COFFEE, bluer(COFFEE, CUP), inpainted(COFFEE, SPOON), COFFEE[:, 60:]]


@pytest.fixture(scope="module")
def together():
    edit_sample = sample(ASTRONAUT)
    queries = [
        Detect(Image.of(np.ascontiguousarray(edit)), phrases)
        for edit in edits()
        for phrases in (("cup",), ("spoon", "cups"), ("lamp",))
    ]
    return edit_sample, queries, outcomes(queries, edit_sample, batch=64)[1]


@pytest.mark.parametrize(("batch", "cache_bytes"), [(1, 2**30), (3, 0)])
def test_answers_do_not_depend_on_batches_or_on_what_is_kept(together, batch, cache_bytes):
    edit_sample, queries, expected = together
    expert = Annotated(cache_bytes=cache_bytes)
    assert outcomes(queries, edit_sample, expert, batch=batch)[1] == expected
    assert outcomes(queries[::-1], edit_sample, expert, batch=batch)[1] == expected[::-1]


def test_a_picture_is_analysed_once_as_long_as_there_is_room(monkeypatch):
    analysed, analyse = [], vars(annotated)["Pyramid"]

    def counted(image):
        analysed.append(image.shape)
        return analyse(image)

    monkeypatch.setattr(annotated, "Pyramid", counted)
    images = [Image.of(bluer(COFFEE, (10 * n, 10, 10 * n + 60, 80))) for n in range(12)]
    queries = [Detect(image, (phrase,)) for image in images for phrase in ("cup", "spoon")]
    outcomes(queries, sample(ASTRONAUT), Annotated(), batch=2)
    assert len(analysed) == 1 + 12
    outcomes(queries * 2, sample(ASTRONAUT), expert := Annotated(cache_bytes=0), batch=2)
    outcomes(queries, sample(ASTRONAUT), expert, batch=2)
    assert len(analysed) > 2 * (1 + 12)


def test_options():
    with pytest.raises(ValueError, match=r"min_score must lie in \[0, 1\), got 1"):
        Annotated(min_score=1)
    assert Annotated(min_score=0.2).id != Annotated().id
    assert look(bluer(COFFEE, CUP), "cup").min_score == Annotated().min_score == 0.05


@given(st.text(st.sampled_from("aesie .cupTH"), max_size=12))
def test_a_name_means_itself_however_it_is_written(name):
    edit_sample = sample(ASTRONAUT, **{name: (drawn(CUP),)})
    for phrase in (name, name.upper(), f" {name} .", f"{name}."):
        assert isinstance(Annotated().rewrite_query(Detect(edit_sample.edited, (phrase,)), edit_sample), Match)


def test_of_thousands_of_boxes_of_a_name_none_is_searched():
    x0, y0, x1, y1 = CUP
    boxes = tuple(drawn((x0, y0, x1 + number / 100, y1)) for number in range(129))
    answer = look(COFFEE[::-1].copy(), "cup", cup=boxes)
    assert isinstance(answer, Abstention)
    assert answer.reason.startswith("129 boxes are annotated up to 'cup', and at most 128 objects are searched")


def test_of_an_image_so_many_templates_are_kept(monkeypatch):
    monkeypatch.setattr(annotated, "_MAX_TEMPLATES", 3)
    expert = Annotated()
    x0, y0, x1, y1 = CUP
    names = {f"cup{number}": (drawn((x0, y0, x1 + number, y1)),) for number in range(6)}
    edit_sample = sample(COFFEE[:, ::-1].copy(), **names)
    _, answers = outcomes([Detect(edit_sample.edited, (name,)) for name in names], edit_sample, expert)
    assert all(isinstance(answer, Detections) for answer in answers)
    assert max(len(indexed.templates) for indexed in expert._indexed.values()) == 3


# -- another detector for what has no box ------------------------------------------------------------------------------


class Elsewhere(Expert):
    """A detector that finds everything in one corner."""

    kinds = (Detect,)
    batch = 3
    id = "elsewhere"

    def __init__(self) -> None:
        self.asked: list[Detect] = []

    def __call__(self, queries):
        self.asked += queries
        return [Detections((Box(0.1, 0.1, 0.1, 0.1, 0.6, query.phrases[0]),), 0.05) for query in queries]


def test_another_detector_is_asked_about_what_has_no_box():
    other = Elsewhere()
    expert = Annotated(otherwise=other)
    edit_sample = sample(bluer(COFFEE, CUP))
    queries = [Detect(edit_sample.edited, (name,)) for name in ("cup", "saucer")] + [
        Detect(edit_sample.source, ("dog",))
    ]
    _, (cup, saucer, dog) = outcomes(queries, edit_sample, expert, batch=3)
    assert cup == look(edit_sample.edited.pixels, "cup")
    assert {box.label for box in (*saucer.boxes, *dog.boxes)} == {"saucer", "dog"}
    assert other.asked == queries[1:]
    _, (alone,) = outcomes([Detect(edit_sample.source, ("cup",))], None, expert, batch=3)
    assert alone.boxes[0].cx == 0.1


def test_another_detector_is_asked_about_an_object_with_too_little_structure():
    flat = np.full((200, 300, 3), 128, np.uint8)
    edited = flat.copy()
    edited[:40, :40] = 255
    box = {"wall": (Box(0.5, 0.5, 0.4, 0.4),)}
    edit_sample = sample(edited, flat, **box)
    queries = [Detect(edit_sample.source, ("wall",)), Detect(edit_sample.edited, ("wall",))]
    _, (given, found) = outcomes(queries, edit_sample, Annotated(otherwise=Elsewhere()))
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


def test_what_the_other_detector_is_belongs_to_the_id_and_has_to_detect():
    expert = Annotated(otherwise=Elsewhere())
    assert (expert.id, expert.batch) == ("annotated@1 floor=0.05 otherwise elsewhere", 3)
    with pytest.raises(ValueError, match="needs a detector as otherwise, ColourJudge is none"):
        Annotated(otherwise="colour")
