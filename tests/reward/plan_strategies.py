"""Hypothesis strategies of plans."""

from typing import get_args

from hypothesis import strategies as st

from editcritic.reward import Box, EditPlan, Kept, PlannedOperation, Question, Relation, Target
from editcritic.reward.edit_plan import OPERATION_TYPES, KeptAspect, Place, RelationKind, Scope, SizeRank
from editcritic.reward.sample import POSITIONS

NOUNS = st.text(min_size=1, max_size=8).filter(str.strip)
TEXTS = st.text(max_size=8)
UNIT = st.floats(0, 1)
SIDES = st.sampled_from(["left", "right", "top", "bottom"])
BOXES = st.builds(Box, UNIT, UNIT, UNIT, UNIT, UNIT, TEXTS)


@st.composite
def targets(draw, nesting=2):
    ordered = draw(st.booleans())
    related = nesting > 0 and draw(st.booleans())
    return Target(
        draw(NOUNS),
        tuple(draw(st.lists(TEXTS, max_size=2))),
        draw(st.none() | st.sampled_from(get_args(Place))),
        draw(st.integers(1, 9)) if ordered else None,
        draw(SIDES) if ordered else None,
        draw(st.none() | st.sampled_from(get_args(SizeRank))),
        draw(st.integers(1, 9) | st.sampled_from(["all", "both"])),
        Relation(draw(st.sampled_from(get_args(RelationKind))), draw(targets(nesting - 1))) if related else None,
        tuple(draw(st.lists(BOXES, max_size=2))),
    )


@st.composite
def questions(draw, index):
    near_miss = draw(st.booleans())
    answers = st.sampled_from(["yes", "no"])
    return Question(
        draw(NOUNS),
        draw(answers),
        "no" if near_miss else draw(answers),
        draw(st.sampled_from(["edited", "pair", "crop"])),
        draw(st.none() | st.integers(0, index - 1)) if index else None,
        near_miss,
        draw(TEXTS),
    )


@st.composite
def operations(draw):
    placed = draw(st.booleans())
    return PlannedOperation(
        draw(st.sampled_from(OPERATION_TYPES)),
        draw(TEXTS),
        draw(targets()),
        draw(targets()),
        draw(NOUNS),
        draw(NOUNS),
        draw(TEXTS),
        draw(st.integers(0, 9)),
        draw(st.sampled_from(POSITIONS)) if placed else None,
        draw(targets()) if placed else None,
        tuple(draw(questions(index)) for index in range(draw(st.integers(0, 2)))),
    )


PLANS = st.builds(
    EditPlan,
    st.lists(operations(), min_size=1, max_size=2).map(tuple),
    st.lists(st.builds(Kept, st.sampled_from(get_args(KeptAspect)), targets(), TEXTS), max_size=2).map(tuple),
    st.sampled_from(get_args(Scope)),
    TEXTS,
    UNIT,
)
