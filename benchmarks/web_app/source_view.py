"""The source of the tab "Score and rank" as a picture, on which boxes of the plan's objects are drawn."""

from __future__ import annotations

from ...reward import EditPlan, Image
from ...reward.metrics.any_edit.instruction_words import all_targets
from ...reward.metrics.any_edit.plans import words_of_plan
from ...reward.planners.rule_planner import RulePlanner
from ...reward.queries.kinds import Plan
from .question_view import PictureStore, templates

SHOWN_SIDE = 1280
"""Pixels: larger pictures are shown at this side. Boxes are those of the whole picture."""


def source_html(source: Image, store: PictureStore) -> str:
    """The picture, to draw on. Raises `ImageError` and OSError."""
    return (
        templates()
        .get_template("source.html")
        .render(address=store.address(source, SHOWN_SIDE), width=source.width, height=source.height)
    )


def plan_html(instruction: str) -> str:
    """What the rules read a sentence as, and the objects that boxes are drawn around; all texts are escaped."""
    if not instruction.strip():
        return ""
    (outcome,) = RulePlanner()([Plan((), instruction.strip())])
    plan = outcome if isinstance(outcome, EditPlan) else None
    names = [] if plan is None else list(dict.fromkeys(target.phrase for target in all_targets(plan)))
    return templates().get_template("plan.html").render(text=plan and words_of_plan(plan), names=names)
