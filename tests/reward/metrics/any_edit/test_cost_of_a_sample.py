"""A sample builds no card, and one plan, which all parts of the reward share; scores are what they are without that."""

from __future__ import annotations

from typing import Any

import cv2
import pytest

from editcritic.reward import AnswerLog, Box, Card, EditSample, Engine, Expert, Image, Reward, Score, default_experts
from editcritic.reward.edit_plan import EditPlan, PlannedOperation
from editcritic.reward.metrics import Metric
from editcritic.reward.metrics.any_edit import plan_of_sample
from editcritic.reward.metrics.any_edit.following import PlanFollowing
from editcritic.reward.metrics.any_edit.overall import any_edit
from editcritic.reward.metrics.any_edit.questions import with_questions
from editcritic.reward.queries import Abstention, Failure
from editcritic.reward.queries.kinds import Outcome, ReadText, RecognizedText, TextLine

from ...fakes import Fake
from .conftest import PIXELS

SENTENCE = 'Crop the picture to the left half, and write "OPEN"'
WRITTEN = cv2.putText(PIXELS[:, :150].copy(), "OPEN", (10, 60), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (255, 255, 255), 4)
PLAN = EditPlan(
    (
        PlannedOperation("crop", "Crop the picture to the left half", value="left half"),
        PlannedOperation("text_change", 'write "OPEN"', text="OPEN"),
    ),
    scope="whole",
)
INCOMPLETE = EditPlan((PlannedOperation("text_change", 'write "OPEN"', text="OPEN"),))


RECORDED = (
    "id, query_digest, answer from answers join experts on number = expert_number",
    "id, sample_digest, query_digest, rewritten from rewritings join experts on number = expert_number",
    "* from queries",
    "* from derived_images",
)


def cropped_and_written(name: str = "s") -> EditSample:
    """New objects each time. All four parts of the reward need its plan: both guards, following and preservation."""
    return EditSample(name, SENTENCE, (Image.of(PIXELS.copy()),), Image.of(WRITTEN.copy()))


def read(query: ReadText) -> RecognizedText:
    shows_text = bool((query.image.pixels >= 250).all(axis=2).sum() > 300)
    return RecognizedText((TextLine("OPEN", Box(0.4, 0.25, 0.6, 0.2, 0.9)),) if shows_text else ())


@pytest.fixture(scope="module")
def experts() -> dict[str, Expert]:
    return default_experts()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[EditPlan]:
    """The plans that were made to the end, in order."""
    plans: list[EditPlan] = []

    def kept(plan: EditPlan) -> EditPlan:
        plans.append(with_questions(plan))
        return plans[-1]

    monkeypatch.setattr(plan_of_sample, "with_questions", kept)
    return plans


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the cards that were built."""
    names: list[str] = []
    original = Card.__post_init__

    def counted(card: Card) -> None:
        names.append(card.name)
        original(card)

    monkeypatch.setattr(Card, "__post_init__", counted)
    return names


def saucer_turned_blue(name: str) -> EditSample:
    saucer = Box.from_corners(38, 33, 240, 195, (300, 200))
    x0, y0, x1, y1 = saucer.corners((300, 200))
    edited = PIXELS.copy()
    edited[y0:y1, x0:x1] = edited[y0:y1, x0:x1][..., ::-1]
    return EditSample(
        name,
        "Change the color of red saucer to blue.",
        (Image.of(PIXELS.copy()),),
        Image.of(edited),
        boxes={"red saucer": (saucer,)},
    )


def test_with_the_default_experts_a_sample_builds_no_card_and_one_plan_cold_and_warm(experts, made, cards) -> None:
    reward = Reward(any_edit(), experts)
    cards.clear()
    (cold,) = reward([saucer_turned_blue("s")])
    assert (cold.status, len(made), cards) == ("scored", 1, [])
    asked = reward.engine.stats()
    (warm,) = reward([saucer_turned_blue("s")])
    assert warm == cold
    assert (len(made), cards) == (2, [])
    now = reward.engine.stats()
    assert now.unique == asked.unique  # all answers were in memory
    assert now.queries - asked.queries >= 15
    assert now.programs == 2


def test_all_four_parts_that_need_the_plan_get_the_same_one(experts, made) -> None:
    planner = Fake(lambda _: PLAN, name="planner")
    reward = Reward(any_edit(), {**experts, "planner": planner, "reader": Fake(read), "reader.guard": Fake(read)})
    (score,) = reward([cropped_and_written()])
    assert set(score.parts["guard"].parts) == {"guard", "reward"}  # both guards let it pass
    assert score.parts["guard"].value == 1.0
    assert set(score.parts["reward"].parts) == {"following", "preservation", "region"}
    assert len(made) == 1
    assert sum(planner.seen.values()) == 1


@pytest.mark.parametrize("metric", [any_edit(), any_edit(text_guard=False), PlanFollowing()])
@pytest.mark.parametrize(
    "planned",
    [
        PLAN,
        INCOMPLETE,
        Abstention("cannot read this"),
        Failure("lost for words", raw="hm"),
        Failure("timed out", infrastructure=True),
    ],
)
def test_scores_and_what_is_recorded_are_those_of_parts_that_plan_alone(
    metric: Metric, planned: Outcome, experts, monkeypatch, tmp_path
) -> None:
    bound = {
        **experts,
        "planner": Fake(lambda _: planned, name="planner"),
        "reader": Fake(read, name="reader"),
        "reader.guard": Fake(read, name="reader"),
    }

    def outcome(name: str) -> tuple[list[Score], Any]:
        with AnswerLog(tmp_path / f"{name}.sqlite", record_queries=True) as log, Engine(log=log) as engine:
            reward = Reward(metric, bound, engine=engine, on_failures="none")
            scores = [
                *reward([cropped_and_written("a"), cropped_and_written("b")]),
                *reward([cropped_and_written("a")]),
            ]
            with log._database.lock:
                return scores, [sorted(log._db.execute(f"select {what}")) for what in RECORDED]

    shared = outcome("shared")
    monkeypatch.setattr(plan_of_sample, "run_once", lambda part, subject: part(subject))
    assert outcome("alone") == shared
    assert len({score.to_json()["status"] for score in shared[0]}) == 1


def test_a_sample_that_is_scored_twice_is_planned_twice(experts, made) -> None:
    reward = Reward(any_edit(), {**experts, "planner": Fake(lambda _: PLAN, name="planner")})
    sample = cropped_and_written()
    first, second = reward([sample, sample])
    assert first == second
    assert len(made) == 2
