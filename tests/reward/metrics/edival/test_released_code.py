"""Habits of the released code that the golden cases cannot show, what we say of them, and how a judge reads texts."""

import json
from pathlib import Path

import numpy as np
import pytest

from editcritic.reward import Box, EditSample, Expert, Image, Reward, Task
from editcritic.reward.experts.judge_adapters import JudgeReader
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.queries import Detect, Detections, Failure, FreeText, Judge, ReadText, Reply

from ...fakes import Fake
from ..scripted import run

BOX = (0.5, 0.5, 0.2, 0.2, 0.9)
RED, REMOVE = Task("color_alter", object="cup", value="red"), Task("subject_remove", object="cup")
HAT, HATTED = Task("subject_remove", object="chat bubble"), Task("subject_remove", object="Hatted Bird")
CHAT, BIRD = {"chat bubble": [BOX]}, {"hatted bird": [BOX]}
MOVE = Task("position_change", object="red cup", position="left", reference="old dog")
CUP_LEFT = Task("position_change", object="cup", position="left", reference="dog")
NAMED = {"cup": "cup", "dog": "dog"}
GARDEN = Task("background_change", value="garden")
KEPT = {"a cup": [BOX], "dog": [BOX], "cup": [BOX]}
PLACES = {"red cup": [(0.2, 0.5, 0.1, 0.1, 0.9)], "cup": [BOX], "old dog": [BOX], "dog": [BOX]}
DOG = (0.5, 0.5, 0.6, 0.6, 0.9)
# The second overlaps the first and the third by more than 0.8, which overlap each other by less.
ROW = [(0.40, 0.5, 0.4, 0.4, 0.5), (0.425, 0.5, 0.4, 0.4, 0.9), (0.45, 0.5, 0.4, 0.4, 0.6)]
TWO = Task("count_change", object="cup", count=2)


def everywhere(boxes):
    return {"source": boxes, "edited": boxes}


def at(cup, dog):
    return everywhere({"cup": [(cup / 512, 0.3, 0.1, 0.1, 0.9)], "dog": [(dog / 512, 0.7, 0.1, 0.1, 0.9)]})


@pytest.mark.parametrize(
    ("task", "shown", "value", "rule"),
    [
        # yes anywhere counts and all else is no; a clear answer needs no remark, and what fails is no no
        (RED, {"judge": Reply("It is, yes.")}, 1, "counts as yes"),
        (RED, {"judge": Reply("Yesterday")}, 1, "counts as yes"),
        (RED, {"judge": Reply("I cannot tell")}, 0, "counts as no"),
        *((RED, {"judge": Reply("")}, 0, "counts as no"), (RED, {"judge": Reply("No.")}, 0, None)),
        (RED, {"judge": Failure("gone")}, None, ""),
        (REMOVE, {"source": {"cup": [BOX]}, "broken": ("cup",)}, None, ""),
        ("Change the background to garden", {}, 0, "names nothing to keep"),
        (HAT, everywhere(CHAT), 1, "'chat bubble' contains 'hat'"),
        (HAT, {"source": CHAT, "edited": {**CHAT, "hat": [BOX]}}, 0, ""),
        (HATTED, {"source": BIRD, "edited": {**BIRD, "hat": [BOX]}}, 1, "contains 'bird'"),
        (HATTED, {"source": BIRD, "edited": {**BIRD, "hat": [BOX], "bird": [BOX]}}, 0, ""),
        (MOVE, {**everywhere(PLACES), "judge": {"red cup": "Cup", "old dog": "dog"}}, 1, ""),
        (MOVE, {"judge": {"red cup": " ", "old dog": "dog"}}, 0, "'red cup' itself is looked for"),
        (
            *(MOVE, {"judge": {"red cup": '["Cup"]', "old dog": "the dog's"}}, 0),
            "brackets and quotes in the name '[\"Cup\"]' are removed",
        ),
        (Task("count_change", object="cup", count=0), {"source": {"cup": [BOX]}}, 0, ""),  # no count is zero
        # the first of near-duplicates counts in the detector's order
        (TWO, everywhere({"cup": ROW}), 1, ""),
        (TWO, everywhere({"cup": ROW[1:] + ROW[:1]}), 0, ""),
        # centres are compared in whole pixels, and one inside the other is nowhere
        *((CUP_LEFT, {**at(*xs), "judge": NAMED}, 1, "") for xs in ((255, 256), (255.9, 256.1))),
        *((CUP_LEFT, {**at(*xs), "judge": NAMED}, 0, "") for xs in ((256.1, 256.9), (256, 256))),
        (CUP_LEFT, {**everywhere({"cup": [(0.4, 0.5, 0.1, 0.1, 0.9)], "dog": [DOG]}), "judge": NAMED}, 0, ""),
        (CUP_LEFT, {**everywhere({"cup": [(0.2, 0.5, 0.1, 0.1, 0.9)], "dog": [DOG]}), "judge": NAMED}, 1, ""),
    ],
)
def test_what_the_released_code_makes_of_it(follow, scene, task, shown, value, rule):
    score = follow(task, scene(**shown), protocol="official")
    assert (score.value, score.status) == (value, "failed" if value is None else "scored")
    rules = "\n".join(item.text for item in score.evidence if item.what == "rule")
    assert (rule or "") in rules
    assert rule is not None or not rules
    if shown.get("edited", {}).get("dog") == [DOG] and not value:
        assert score.reason == "one of cup and dog lies inside the other"


@pytest.mark.parametrize(
    ("task", "shown", "phrases", "value"),
    [
        (Task("subject_remove", object="TV St. Stand"), {"source": {"tv st stand": [BOX]}}, ["tv st stand"] * 2, 1),
        *(  # replaced names lose their last letters
            (
                Task("subject_replace", object=name, new="dogs"),
                *({"source": {phrase: [BOX]}, "edited": {"dog": [BOX]}}, [phrase, "dog"], 1),
            )
            for name, phrase in (("glasses", "glass"), ("horses", "hors"), ("cups", "cup"), ("cat", "cat"))
        ),
        (MOVE, {"judge": {"red cup": " ", "old dog": "dog"}}, ["dog", "red cup"], 0),
        (MOVE, {"judge": {"red cup": '["Cup"]', "old dog": "the dog's"}}, ["the dogs", "cup"], 0),
        (HATTED, {"source": BIRD, "edited": {**BIRD, "hat": [BOX]}}, ["hatted bird", "hatted bird", "hat", "bird"], 1),
        (HATTED, everywhere(BIRD), ["hatted bird", "hatted bird", "hat"], 1),
        ("Change the background to garden", {}, [], 0),
        *(  # a background change is read from its sentence, brackets and all
            ((f"Change the background to {words}", GARDEN), {"edited": KEPT}, phrases, value)
            for words, phrases, value in (
                ("garden, remain the a cup, dog unchanged", ["a cup", "dog"], 1),
                ("[garden], remain the a cup unchanged", ["a cup"], 1),
                ("[garden], remain the [a cup] unchanged", ["[a cup]"], 0),
                ("[a sunny, warm garden], remain the a cup unchanged", [], 1),
                ("[garden]", [], 1),
                ("a sunny, warm garden, remain the a cup unchanged", [], 0),
            )
        ),
    ],
)
def test_what_the_detector_is_asked_for(follow, scene, task, shown, phrases, value):
    seen = scene(**shown)
    score = follow(task, seen, protocol="official")
    assert score.value == value
    assert [query.phrases[0] for query in seen.of_kind(Detect)][: len(phrases) or None] == phrases
    if isinstance(task, Task) and task.type == "subject_replace":
        said = f"{task.object!r} is looked for as {phrases[0]!r}" in str([item.text for item in score.evidence])
        assert said is (task.object != phrases[0])


def test_the_paper_counts_by_falling_score_and_zero(follow, scene):
    for row in (ROW, ROW[1:] + ROW[:1]):
        assert follow(TWO, scene(**everywhere({"cup": row}))).value == 0
    assert follow(Task("count_change", object="cup", count=0), scene(source={"cup": [BOX]})).value == 1


def test_pictures_are_512_and_texts_are_read_where_the_object_was(scene, follow):
    wide, square = Image.of(np.zeros((40, 60, 3), np.uint8)), Image.of(np.full((512, 512, 3), 9, np.uint8))
    sample, judge = EditSample("s", "Change the color of cup to red", (square,), wide), scene()
    score = run(InstructionFollowing("official"), sample, {"judge": judge})
    (question,) = judge.of_kind(Judge)
    assert question.images == (square, wide.resized(512, 512, "lanczos"))
    rules = [item.text for item in score.evidence if item.what == "rule"]
    assert rules == ["released code: the edited image, 60 x 40, is resized to 512 x 512"]
    seen = scene(source={"sign": [(0.25, 0.25, 0.25, 0.25, 0.9)]}, edited={"sign": [BOX]}, text="It says OPEN.")
    score = follow(Task("text_change", text="open", object="sign"), seen, protocol="official")
    (reading,) = seen.of_kind(ReadText)
    assert (score.value, reading.image.origin[1]) == (1, '["crop", 64, 64, 192, 192]')
    assert "cropped where the object was in the source image" in str([item.text for item in score.evidence])


CASES = json.loads((Path(__file__).parent / "released_reading.json").read_text(encoding="utf-8"))["cases"]
SOURCE, EDITED = (Image.of(np.full((512, 512, 3), colour, np.uint8)) for colour in ((10, 20, 30), (200, 100, 50)))


class Boxes(Expert):
    """Finds the object of a case in its boxes."""

    id = "boxes of the case"
    kinds = (Detect,)

    def __init__(self, case):
        self.case = case

    def __call__(self, queries):
        corners = [self.case["source" if query.image == SOURCE else "edited"] for query in queries]
        return [
            Detections((Box.from_corners(it[0], it[1], it[2], it[3], (1, 1), score=0.8),) if it else ())
            for it in corners
        ]


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_the_verdict_and_the_question_are_those_of_the_released_code(case):
    asked = []

    def rule(query):
        asked.append(query)
        return Reply(case["reply"])

    judge = Fake(rule)
    experts = {"detector": Boxes(case), "judge": judge, "reader": JudgeReader(judge)}
    instruction = case["instruction"].replace("[", "").replace("]", "")
    sample = EditSample("s", instruction, (SOURCE,), EDITED, task=parse_task(instruction))
    (score,) = Reward(InstructionFollowing("official"), experts)([sample])
    assert score.value == case["score"]
    for query, recorded in zip(asked, case["asked"], strict=True):
        image, text = query.messages[0].content
        assert (isinstance(text, str), recorded["parts"]) == (True, ["image_url", "text"])
        assert list(image.size) == recorded["size"]
        assert query.form == FreeText(recorded["max_tokens"], recorded["temperature"])
