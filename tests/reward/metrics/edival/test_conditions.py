"""The dense form: at least 0.5 exactly where the verdict is 1, grows with what decides it, silent where that is."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from editcritic.reward.metrics.edival.conditions import Condition, all_hold, any_holds, make_condition, normalize_text
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import POSITIONS, TASK_TYPES, Task

share = st.floats(0, 1)
BOTH = pytest.mark.parametrize("protocol", ["paper", "official"])


# -- the algebra -------------------------------------------------------------------------------------------------------


@st.composite
def findings(draw: st.DrawFn) -> Condition:
    return make_condition(draw(st.booleans()), draw(share), draw(share), "")


@given(st.lists(findings(), min_size=1, max_size=5), st.integers(0, 2))
def test_all_of_holds_when_each_was_looked_at_and_holds(parts: list[Condition], missing: int) -> None:
    whole = all_hold(parts, total=len(parts) + missing)
    assert whole.holds == (all(part.holds for part in parts) and not missing)
    assert whole.holds == (whole.degree >= 0.5)
    assert any_holds(parts).holds == any(part.holds for part in parts)


@given(st.lists(findings(), min_size=1, max_size=5), findings(), st.integers(0, 2))
def test_a_better_part_never_makes_the_whole_worse(parts: list[Condition], better: Condition, missing: int) -> None:
    assume(better.degree >= parts[0].degree)
    count = len(parts) + missing
    assert all_hold([better, *parts[1:]], total=count).degree >= all_hold(parts, total=count).degree
    assert any_holds([better, *parts[1:]]).degree >= any_holds(parts).degree
    assert all_hold([*parts, better], total=count + 1).degree >= all_hold(parts, total=count + 1).degree


def test_a_degree_on_the_wrong_side_of_its_verdict_is_refused() -> None:
    with pytest.raises(ValueError, match="does not hold"):
        Condition(False, 0.5, "a bug")
    with pytest.raises(ValueError, match="holds"):
        Condition(True, 0.49, "a bug")


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)


# -- dense and binary agree --------------------------------------------------------------------------------------------

NAMES = ("red cup", "dog", "hat")
side = st.one_of(st.floats(0.01, 0.6), st.just(0.99))
boxes = st.lists(st.tuples(st.floats(-0.1, 1.1), st.floats(-0.1, 1.1), side, side, share), max_size=4)
pictures = st.fixed_dictionaries({}, optional=dict.fromkeys((*NAMES, "cup"), boxes))
replies = st.builds(
    lambda text, p: Reply(text, {} if p is None else {"yes": p, "no": 1 - p}),
    st.sampled_from(["Yes", "no.", "I think yes", "cannot tell", "dog", ""]),
    st.none() | share,
)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    first, second = draw(st.permutations(NAMES))[:2]
    where = draw(st.none() | st.sampled_from(POSITIONS))
    match draw(st.sampled_from(TASK_TYPES)):
        case "subject_add":
            return Task("subject_add", new=first, position=where, reference=where and second)
        case "subject_remove":
            return Task("subject_remove", object=first)
        case "subject_replace":
            return Task("subject_replace", object=first, new=second)
        case "position_change":
            return Task("position_change", object=first, position=where or "left", reference=second)
        case "count_change":
            return Task("count_change", object=first, count=draw(st.integers(0, 4)))
        case "text_change":
            return Task("text_change", text="OPEN late", object=draw(st.none() | st.just(first)))
        case "background_change":
            return Task(
                "background_change", value="beach", keep=tuple(draw(st.lists(st.sampled_from(NAMES), max_size=2)))
            )
        case kind:
            return Task(kind, object=first, value="blue")


paper_options = st.fixed_dictionaries(
    {},
    optional={
        "position_margin": st.just(0.0),
        "text_match": st.just("substring"),
        "attribute_view": st.sampled_from(["whole", "both"]),
        "judge_replacement": st.just(False),
        "require_old_absent": st.just(True),
        "max_box_size": st.none(),
        "duplicate_iou": st.just(1.0),
    },
)


@BOTH
@given(
    task=tasks(),
    source=pictures,
    edited=pictures,
    reply=replies,
    text=st.sampled_from(["", "open late", "OPEN", "Open late tonight"]),
    unknown=st.sets(st.sampled_from(NAMES), max_size=1),
    broken=st.sets(st.sampled_from(NAMES), max_size=1),
    options=paper_options,
)
def test_dense_and_binary_say_the_same(
    follow, scene, protocol, task, source, edited, reply, text, unknown, broken, options
) -> None:
    if protocol == "official":
        options = {}

    def score(dense: bool) -> Any:
        experts = scene(source, edited, reply, text, tuple(unknown), tuple(broken))
        return follow(task, experts, protocol=protocol, dense=dense, **options)

    binary, dense = score(False), score(True)
    assert (dense.status, dense.reason) == (binary.status, binary.reason)
    assert dense.evidence == binary.evidence
    if binary.status == "scored":
        assert binary.value in (0, 1)
        assert 0 <= dense.value <= 1
        assert (dense.value >= 0.5) == bool(binary.value)
        assert binary.evidence[-1].numbers == {"holds": binary.value, "degree": dense.value}


# -- what decides, and which way ---------------------------------------------------------------------------------------
# Each ladder is a task, and a scene of so many quantities in [0, 1], each of which makes for a better edit as it grows.

Scenery = tuple[dict[str, Any], dict[str, Any], Reply | dict[str, str], str]


def box(score: float, cx: float = 0.5, cy: float = 0.5, size: float = 0.1) -> tuple[float, ...]:
    return (cx, cy, size, size, score)


def says(p: float) -> Reply:
    return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})


def prefix(p: float) -> str:
    return "OPEN LATE"[: round(9 * p)]


SURE = Reply("yes")
LADDERS: dict[str, tuple[str, Task, dict[str, Any], int, Callable[..., Scenery]]] = {
    "add": (
        "paper", Task("subject_add", new="hat"), {}, 2,
        lambda gone, new: ({"hat": [box(1 - gone)]}, {"hat": [box(new)]}, SURE, ""),
    ),
    "add left of": (
        "paper", Task("subject_add", new="hat", position="left", reference="dog"), {}, 4,
        lambda gone, new, other, left: (
            {"hat": [box(1 - gone)]}, {"hat": [box(new, 1 - left)], "dog": [box(other)]}, SURE, "",
        ),
    ),
    "add below": (
        "paper", Task("subject_add", new="hat", position="below", reference="dog"), {"position_margin": 0.0}, 1,
        lambda low: ({}, {"hat": [box(0.9, 0.5, low)], "dog": [box(0.9)]}, SURE, ""),
    ),
    "remove": (
        "paper", Task("subject_remove", object="dog"), {}, 2,
        lambda old, gone: ({"dog": [box(old)]}, {"dog": [box(1 - gone)]}, SURE, ""),
    ),
    "replace": (
        "paper", Task("subject_replace", object="dog", new="cat"), {}, 4,
        lambda old, new, near, p: ({"dog": [box(old, 0.2)]}, {"cat": [box(new, 0.9 - 0.7 * near)]}, says(p), ""),
    ),
    "replace, old gone": (
        "paper", Task("subject_replace", object="dog", new="cat"), {"require_old_absent": True}, 1,
        lambda gone: ({"dog": [box(0.9)]}, {"cat": [box(0.9)], "dog": [box(1 - gone)]}, SURE, ""),
    ),
    "move": (
        "paper", Task("position_change", object="cup", position="left", reference="dog"), {}, 3,
        lambda new, other, left: (
            {"cup": [box(0.9, 0.9)]}, {"cup": [box(new, 1 - left)], "dog": [box(other)]}, SURE, "",
        ),
    ),
    "move, no copies": (
        "paper", Task("position_change", object="cup", position="above", reference="dog"), {}, 2,
        lambda a, b: (
            {"cup": [box(0.9)]},
            {
                "cup": [box(0.95, 0.1, 0.1), box(0.9 * (1 - a), 0.4, 0.1), box(0.9 * (1 - b), 0.7, 0.1)],
                "dog": [box(0.9)],
            },
            SURE, "",
        ),
    ),
    "count, enough": (
        "paper", Task("count_change", object="cup", count=3), {}, 3,
        lambda *scores: ({}, {"cup": [box(score, 0.2 * i) for i, score in enumerate(scores)]}, SURE, ""),
    ),
    "count, not too many": (
        "paper", Task("count_change", object="cup", count=1), {}, 2,
        lambda a, b: (
            {}, {"cup": [box(0.95, 0.1), box(0.9 * (1 - a), 0.4), box(0.9 * (1 - b), 0.7)]}, SURE, "",
        ),
    ),
    "color": (
        "paper", Task("color_alter", object="cup", value="red"), {}, 2,
        lambda there, p: ({}, {"cup": [box(there)]}, says(p), ""),
    ),
    "material, both crops": (
        "paper", Task("material_alter", object="cup", value="wood"), {"attribute_view": "both"}, 3,
        lambda old, there, p: ({"cup": [box(old)]}, {"cup": [box(there)]}, says(p), ""),
    ),
    "text": (
        "paper", Task("text_change", text="Open late", object="sign"), {}, 2,
        lambda there, p: ({}, {"sign": [box(there)]}, SURE, prefix(p)),
    ),
    "text, substring": (
        "paper", Task("text_change", text="Open late"), {"text_match": "substring"}, 1,
        lambda p: ({}, {}, SURE, prefix(p)),
    ),
    "background": (
        "paper", Task("background_change", value="beach"), {}, 1, lambda p: ({}, {}, says(p), ""),
    ),
    "official add": (
        "official", Task("subject_add", new="hat", position="right", reference="dog"), {}, 4,
        lambda p, other, new, right: ({"dog": [box(other)]}, {"hat": [box(new, right)]}, says(p), ""),
    ),
    "official remove": (
        "official", Task("subject_remove", object="dog"), {}, 3,
        lambda old, gone, away: ({"dog": [box(old, 0.2)]}, {"dog": [box(1 - gone, 0.2 + 0.6 * away)]}, SURE, ""),
    ),
    "official remove hat": (
        "official", Task("subject_remove", object="red hat"), {}, 4,
        lambda old, gone, away, bare: (
            {"red hat": [box(old, 0.2)]},
            {"red hat": [box(1 - gone, 0.2 + 0.6 * away)], "hat": [box(1 - bare)]},
            SURE, "",
        ),
    ),
    "official replace": (
        "official", Task("subject_replace", object="dog", new="cat"), {}, 4,
        lambda old, new, near, p: ({"dog": [box(old, 0.2)]}, {"cat": [box(new, 0.9 - 0.7 * near)]}, says(p), ""),
    ),
    "official move": (
        "official", Task("position_change", object="cup", position="left", reference="dog"), {}, 3,
        lambda new, other, left: (
            {"cup": [box(0.9, 0.9)], "dog": [box(0.9)]},
            {"cup": [box(new, 1 - left, 0.2)], "dog": [box(other, 0.5, 0.8)]},
            {"cup": "cup", "dog": "dog"}, "",
        ),
    ),
    "official count": (
        "official", Task("count_change", object="cup", count=3), {}, 4,
        lambda old, *scores: (
            {"cup": [box(old)]}, {"cup": [box(score, 0.2 * i) for i, score in enumerate(scores)]}, SURE, "",
        ),
    ),
    "official color": (
        "official", Task("color_alter", object="cup", value="red"), {}, 1, lambda p: ({}, {}, says(p), ""),
    ),
    "official text": (
        "official", Task("text_change", text="open late", object="sign"), {}, 3,
        lambda old, there, p: ({"sign": [box(old)]}, {"sign": [box(there)]}, SURE, prefix(p)),
    ),
    "official background": (
        "official", Task("background_change", value="beach", keep=("dog", "cup")), {}, 5,
        lambda a, b, small, slim, p: (
            {}, {"dog": [box(a, size=1 - small)], "cup": [box(b, size=1 - slim)]}, says(p), "",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("ladder", LADDERS)
@settings(max_examples=25)  # each is two runs in an engine
@given(data=st.data())
def test_the_degree_grows_with_what_decides(follow, scene, ladder, data) -> None:
    protocol, task, options, count, build = LADDERS[ladder]
    rung = data.draw(st.lists(share, min_size=count, max_size=count), "quantities")
    which = data.draw(st.integers(0, count - 1), "which one grows")
    higher = [*rung[:which], data.draw(st.floats(rung[which], 1), "to"), *rung[which + 1 :]]

    def degree(quantities: list[float]) -> float:
        return follow(task, scene(*build(*quantities)), protocol=protocol, dense=True, **options).value

    assert degree(higher) >= degree(rung)


@pytest.mark.parametrize("ladder", LADDERS)
def test_the_best_edit_succeeds_the_worst_fails_and_those_between_are_told_apart(follow, scene, ladder) -> None:
    protocol, task, options, count, build = LADDERS[ladder]

    def degree(quantity: float) -> float:
        return follow(task, scene(*build(*[quantity] * count)), protocol=protocol, dense=True, **options).value

    degrees = [degree(step / 8) for step in range(9)]
    assert degrees[0] < 0.5 <= degrees[-1]
    assert len(set(degrees)) >= 7
