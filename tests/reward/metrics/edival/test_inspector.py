"""The dense form: at least 0.5 exactly where the verdict is 1, grows with what decides it, silent where that is."""

from inspect import signature
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from editcritic.reward.metrics.edival.inspector import Condition, all_hold, any_holds, make_condition, normalize_text
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import POSITIONS, Task

share = st.floats(0, 1)
findings = st.builds(make_condition, st.booleans(), share, share, st.just(""))
some = st.lists(findings, min_size=1, max_size=5)


@given(some, findings, st.integers(0, 2))
def test_all_of_holds_when_each_was_looked_at_and_holds_and_a_better_part_never_makes_it_worse(parts, better, missing):
    total = len(parts) + missing
    whole = all_hold(parts, total=total)
    assert whole.holds == (all(part.holds for part in parts) and not missing) == (whole.degree >= 0.5)
    assert any_holds(parts).holds == any(part.holds for part in parts)
    assume(better.degree >= parts[0].degree)
    assert all_hold([better, *parts[1:]], total=total).degree >= whole.degree
    assert any_holds([better, *parts[1:]]).degree >= any_holds(parts).degree
    assert all_hold([*parts, better], total=total + 1).degree >= all_hold(parts, total=total + 1).degree


@pytest.mark.parametrize(("holds", "degree", "says"), [(False, 0.5, "does not hold"), (True, 0.49, "holds")])
def test_a_degree_on_the_wrong_side_of_its_verdict_is_refused(holds, degree, says):
    with pytest.raises(ValueError, match=says):
        Condition(holds, degree, "a bug")


@given(st.text())
def test_normalising_twice_changes_nothing(text):
    assert normalize_text(normalize_text(text)) == normalize_text(text)


NAMES = ("red cup", "dog", "hat")
side = st.one_of(st.floats(0.01, 0.6), st.just(0.99))
boxes = st.lists(st.tuples(st.floats(-0.1, 1.1), st.floats(-0.1, 1.1), side, side, share), max_size=4)
pictures = st.fixed_dictionaries({}, optional=dict.fromkeys((*NAMES, "cup"), boxes))
replies = st.builds(
    lambda text, p: Reply(text, {} if p is None else {"yes": p, "no": 1 - p}),
    st.sampled_from(["Yes", "no.", "I think yes", "cannot tell", "dog", ""]),
    st.none() | share,
)
names, places, first, second = (
    st.sampled_from(NAMES),
    st.sampled_from(POSITIONS),
    *map(st.sampled_from, (NAMES[:2], NAMES[1:])),
)
tasks = st.one_of(
    st.builds(Task, st.just("subject_add"), new=names),
    st.builds(Task, st.just("subject_add"), new=st.just("hat"), position=places, reference=first),
    st.builds(Task, st.just("subject_remove"), object=names),
    st.builds(Task, st.just("subject_replace"), object=first, new=st.just("hat")),
    st.builds(Task, st.just("position_change"), object=st.just("red cup"), position=places, reference=second),
    st.builds(Task, st.just("count_change"), object=names, count=st.integers(0, 4)),
    st.builds(Task, st.just("text_change"), text=st.just("OPEN late"), object=st.none() | names),
    st.builds(Task, st.just("background_change"), value=st.just("beach"), keep=st.lists(names, max_size=2).map(tuple)),
    st.builds(Task, st.sampled_from(["color_alter", "material_alter"]), object=names, value=st.just("blue")),
)
paper_options = {
    "position_margin": st.just(0.0),
    "text_match": st.just("substring"),
    "attribute_view": st.sampled_from(["whole", "both"]),
    "judge_replacement": st.just(False),
    "require_old_absent": st.just(True),
    "max_box_size": st.none(),
    "duplicate_iou": st.just(1.0),
}


@pytest.mark.parametrize("protocol", ["paper", "official"])
@given(
    task=tasks,
    seen=st.tuples(pictures, pictures, replies, st.sampled_from(["", "open late", "OPEN", "Open late tonight"])),
    missed=st.tuples(*[st.sets(names, max_size=1).map(tuple)] * 2),
    options=st.fixed_dictionaries({}, optional=paper_options),
)
def test_dense_and_binary_say_the_same(follow, scene, protocol, task, seen, missed, options):
    options = options if protocol == "paper" else {}
    binary, dense = (
        follow(task, scene(*seen, *missed), protocol=protocol, dense=dense, **options) for dense in (False, True)
    )
    assert (dense.status, dense.reason, dense.evidence) == (binary.status, binary.reason, binary.evidence)
    if binary.status == "scored":
        assert binary.value in (0, 1)
        assert 0 <= dense.value <= 1
        assert (dense.value >= 0.5) == bool(binary.value)
        assert binary.evidence[-1].numbers == {"holds": binary.value, "degree": dense.value}


# Each ladder is a task, and a scene of quantities in [0, 1], each of which makes for a better edit as it grows.


def box(score, cx=0.5, cy=0.5, size=0.1):
    return (cx, cy, size, size, score)


def says(p):
    return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})


def prefix(p):
    return "OPEN LATE"[: round(9 * p)]


def row(*scores):
    return {"cup": [box(score, 0.2 * i) for i, score in enumerate(scores)]}


SURE, NAMED, DOG = Reply("yes"), {"cup": "cup", "dog": "dog"}, {"dog": [box(0.9)]}
SIGN, ANYWHERE = Task("text_change", text="Open late", object="sign"), Task("text_change", text="Open late")
KEEP, THREE = Task("background_change", value="beach", keep=("dog", "cup")), Task("count_change", object="cup", count=3)
MOVE, MOVE_UP = (Task("position_change", object="cup", position=at, reference="dog") for at in ("left", "above"))
NEW_CAT = lambda old, new, near, p: ({"dog": [box(old, 0.2)]}, {"cat": [box(new, 0.9 - 0.7 * near)]}, says(p))  # noqa: E731
REPLACE = Task("subject_replace", object="dog", new="cat")
ADD_LEFT = Task("subject_add", new="hat", position="left", reference="dog")
LADDERS: dict[str, Any] = {
    "add left of": (
        *(ADD_LEFT, {}),
        lambda gone, new, other, left: ({"hat": [box(1 - gone)]}, {"hat": [box(new, 1 - left)], "dog": [box(other)]}),
    ),
    "replace": (REPLACE, {}, NEW_CAT),
    "move, no copies": (
        *(MOVE_UP, {}),
        lambda a, b: (
            {"cup": [box(0.9)]},
            {"cup": [box(0.95, 0.1, 0.1), box(0.9 - 0.9 * a, 0.4, 0.1), box(0.9 - 0.9 * b, 0.7, 0.1)], **DOG},
        ),
    ),
    "count, enough": (THREE, {}, lambda a, b, c: ({}, row(a, b, c))),
    "text": (SIGN, {}, lambda there, p: ({}, {"sign": [box(there)]}, SURE, prefix(p))),
    "text, substring": (ANYWHERE, {"text_match": "substring"}, lambda p: ({}, {}, SURE, prefix(p))),
    "official remove hat": (
        *(Task("subject_remove", object="red hat"), {}),
        lambda old, gone, away, bare: (
            {"red hat": [box(old, 0.2)]},
            {"red hat": [box(1 - gone, 0.2 + 0.6 * away)], "hat": [box(1 - bare)]},
        ),
    ),
    "official move": (
        *(MOVE, {}),
        lambda new, other, left: (
            {"cup": [box(0.9, 0.9)], **DOG},
            {"cup": [box(new, 1 - left, 0.2)], "dog": [box(other, 0.5, 0.8)]},
            NAMED,
        ),
    ),
    "official count": (THREE, {}, lambda old, a, b, c: ({"cup": [box(old)]}, row(a, b, c))),
    "official background": (
        *(KEEP, {}),
        lambda a, b, small, slim, p: ({}, {"dog": [box(a, size=1 - small)], "cup": [box(b, size=1 - slim)]}, says(p)),
    ),
}


def degree_of(follow, scene, ladder):
    task, options, build = LADDERS[ladder]
    protocol = "official" if ladder.startswith("official") else "paper"
    return lambda quantities: follow(task, scene(*build(*quantities)), protocol=protocol, dense=True, **options).value


def count(ladder):
    return len(signature(LADDERS[ladder][2]).parameters)


@pytest.mark.parametrize("ladder", LADDERS)
@settings(max_examples=25)  # each is two runs in an engine
@given(data=st.data())
def test_the_degree_grows_with_what_decides(follow, scene, ladder, data):
    degree = degree_of(follow, scene, ladder)
    rung = data.draw(st.lists(share, min_size=count(ladder), max_size=count(ladder)), "quantities")
    which = data.draw(st.integers(0, len(rung) - 1), "which one grows")
    higher = [*rung[:which], data.draw(st.floats(rung[which], 1), "to"), *rung[which + 1 :]]
    assert degree(higher) >= degree(rung)


@pytest.mark.parametrize("ladder", LADDERS)
def test_the_best_edit_succeeds_the_worst_fails_and_those_between_are_told_apart(follow, scene, ladder):
    degree = degree_of(follow, scene, ladder)
    degrees = [degree([step / 8] * count(ladder)) for step in range(9)]
    assert degrees[0] < 0.5 <= degrees[-1]
    assert len(set(degrees)) >= 7
