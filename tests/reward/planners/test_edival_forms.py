"""EdiVal's nine forms are planned without a model; other sentences are abstained on."""

import pytest

from editcritic.reward import EditPlan, PlannedOperation, Target, default_experts
from editcritic.reward.planners.edival_forms import EdiValForms
from editcritic.reward.queries import Abstention, Plan

from ..fakes import picture


def planned(instruction):
    (outcome,) = EdiValForms()([Plan((picture(0),), instruction)])
    return outcome


def test_a_sentence_of_a_form_is_planned():
    plan = planned("Change the color of cup to blue")
    words = "Change the color of cup to blue"
    assert plan == EditPlan((PlannedOperation("color_alter", words, target=Target("cup"), value="blue"),))


@pytest.mark.parametrize("instruction", ["Paint the cup blue", "", "Remove cup and add fork", "把杯子变成蓝色"])
def test_other_sentences_are_abstained_on(instruction):
    outcome = planned(instruction)
    assert isinstance(outcome, Abstention)
    assert "bind a planner" in outcome.reason


def test_words_that_are_too_long_for_a_plan_are_abstained_on():
    outcome = planned(f"Remove {'x' * 2001}")
    assert isinstance(outcome, Abstention)
    assert "at most 2000" in outcome.reason


def test_it_is_the_default_planner():
    assert isinstance(default_experts()["planner"], EdiValForms)
    assert Plan.role == "planner"
