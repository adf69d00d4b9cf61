"""Which of several boxes a colour means: detectors find the blue mug too when asked for the red one."""

from editcritic.reward import Box, Engine, Score, Target
from editcritic.reward.metrics.any_edit.targets import LocatedTarget, locate_targets
from editcritic.reward.queries import Abstention, Detect, Detections, Judge, Reply
from editcritic.reward.queries.expert import Expert

from .conftest import PHOTO

LEFT, RIGHT, FAR = Box(0.2, 0.5, 0.1, 0.1, 0.9), Box(0.8, 0.5, 0.1, 0.1, 0.6), Box(0.5, 0.2, 0.1, 0.1, 0.5)


class Eyes(Expert):
    """Finds these boxes for any phrase, and knows the probability of the colour of each, by the order of questions."""

    kinds = (Detect, Judge)
    id = "eyes"

    def __init__(self, boxes, colours):
        self.boxes, self.colours, self.asked = boxes, colours, []

    def __call__(self, queries):
        return [self._answer(query) for query in queries]

    def _answer(self, query):
        if isinstance(query, Detect):
            return Detections(tuple(self.boxes), min_score=0.05)
        self.asked.append(dict(query.slots))
        if self.colours is None:
            return Abstention("no idea of colours")
        p = self.colours[len(self.asked) - 1]
        return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})


def located(target, boxes, colours):
    eyes = Eyes(boxes, colours)
    found: dict[Target, LocatedTarget] = {}

    def program():
        found.update((yield from locate_targets(PHOTO, [target])))
        return Score.of(True)

    with Engine() as engine:
        engine.submit(program(), {"detector": eyes, "judge": eyes}).result(30)
    return found[target], eyes


def test_a_box_of_another_colour_is_none_of_the_target():
    found, eyes = located(Target("mug", ("red",)), (LEFT, RIGHT), (0.9, 0.05))
    assert found.boxes == (LEFT,)
    assert found.others == (RIGHT,)
    assert eyes.asked == [{"object": "red mug", "value": "red"}] * 2


def test_place_and_number_count_among_boxes_of_the_colour():
    found, _ = located(Target("mug", ("red",), place="right"), (LEFT, RIGHT, FAR), (0.9, 0.05, 0.8))
    assert found.boxes == (FAR,)
    found, _ = located(Target("mug", ("red",), quantity="all"), (LEFT, RIGHT, FAR), (0.9, 0.05, 0.8))
    assert set(found.boxes) == {LEFT, FAR}


def test_nothing_is_asked_about_one_box_or_without_a_colour():
    for target, boxes in ((Target("mug", ("red",)), (LEFT,)), (Target("mug"), (LEFT, RIGHT))):
        found, eyes = located(target, boxes, ())
        assert found.boxes == boxes
        assert eyes.asked == []


def test_boxes_stay_where_the_judge_sees_the_colour_nowhere_or_does_not_know():
    for colours in ((0.1, 0.2), None):
        found, _ = located(Target("mug", ("red",)), (LEFT, RIGHT), colours)
        assert found.boxes == (LEFT, RIGHT)


def test_a_doubtful_colour_counts():
    found, _ = located(Target("mug", ("red",)), (LEFT, RIGHT), (0.9, 0.4))
    assert found.boxes == (LEFT, RIGHT)
