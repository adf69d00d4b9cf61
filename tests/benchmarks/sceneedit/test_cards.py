"""Cards name the kinds of queries by role: those that runs of every registered reward ask, no more and no fewer."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar

import pytest

from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditPlan, EditSample, Engine, Kept, PlannedOperation, Target, build
from editcritic.reward.engine.program import Ask, map_asks
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.queries.kinds import Query

from ...reward.fakes import Fake
from ...reward.metrics.dlebench.scripted_dlebench import DETECT, DIFFER, ZOOM, calls, edit, says

Asked = dict[str, set[tuple[str, str]]]
"""Reward -> the roles and kinds of its queries."""

OPTIONS = {"any-edit-preservation": ({"faces": "embedder"},)}
"""Options beside protocols and modes that change what is asked."""


@cache
def names() -> list[str]:
    """Of the rewards that have a card."""
    return [entry.name for entry in list_rewards() if entry.card is not None]


def variants(name: str) -> Iterator[Any]:
    """A reward in each of its protocols and modes."""
    card = build(name).card
    choices = [{"protocol": protocol} for protocol in card.protocols] + [{"mode": mode} for mode in card.modes]
    for choice in (*(choices or [{}]), *OPTIONS.get(name, ())):
        yield build(name, **choice)


def scene_samples() -> list[EditSample]:
    """Edits of scenes: one of several operations or sources, and, beside their tasks, plans and sentences."""
    samples = [case.sample for case in (*cases(18), *compound_cases(2), *composition_cases(3))]
    colour = next(case.sample for case in cases(9) if case.sample.task and case.sample.task.type == "color_alter")
    text = cases(17)[-1].sample  # a text is added
    cup = Target(str(colour.task.object)) if colour.task else Target("it")
    source = colour.source
    plan = EditPlan(
        (PlannedOperation("color_alter", "Paint it blue", target=cup, value="blue"),),
        keep=(Kept("text", words="keep the text"), Kept("identity", cup)),
    )
    return [
        *samples,
        replace(colour, id="kept", task=None, plan=plan, instruction="Paint it blue and keep the text as it is"),
        replace(colour, id="read", task=None, instruction="Give it another colour"),
        replace(text, id="unasked", task=None, instruction="Paint it blue", plan=plan),
        replace(text, id="unasked, read", task=None, instruction="Give it another colour"),
        *(
            replace(colour, id=instruction, task=None, edited=edited, instruction=instruction)
            for instruction, edited in (
                ("Crop the image to the middle", source.crop(8, 8, source.width - 8, source.height - 8)),
                ("Flip the image horizontally", source.turned(0, mirrored=True)),
                ("Make the image brighter", colour.edited),
                ("Give it another look", colour.edited.resized(64, 32)),
            )
        ),
    ]


class ToolJudge(Fake):
    """Uses each of DLEBench's tools, then gives a verdict."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Judge,)

    def __init__(self) -> None:
        super().__init__(self._reply, name="uses tools")

    @staticmethod
    def _reply(query: Judge) -> Reply:
        turn = sum(message.role == "assistant" for message in query.messages)
        return Reply(calls((DIFFER, DETECT, ZOOM)[turn]) if turn < 3 else says("Flawless Execution"))


def note(asked: set[tuple[str, str]], ask: Ask) -> Ask:
    asked |= {(ask.role or query.role, query.kind) for query in ask.queries}
    return ask


@pytest.fixture(scope="module")
def asked() -> Asked:
    """What every registered reward asks, in every protocol and mode, of samples that have the fields it requires."""
    result: Asked = defaultdict(set)
    samples, experts = scene_samples(), scene_experts()
    with_tools = {**experts, "judge": ToolJudge()}
    with Engine() as engine:
        for name in names():
            for metric in variants(name):
                needed = metric.card.requires
                fit = [one for one in samples if all(getattr(one, field) not in (None, "", (), {}) for field in needed)]
                runs = [(one, experts) for one in fit]
                if "tools" in metric.card.modes or name == "small-object":
                    runs.append((edit(), with_tools))
                futures = [
                    engine.submit(map_asks(metric(one), partial(note, result[name])), bound, one) for one, bound in runs
                ]
                for future in futures:
                    future.result(60)
    return result


def on_cards(name: str) -> set[tuple[str, str]]:
    return {(role, kind) for metric in variants(name) for role, kinds in metric.card.kinds.items() for kind in kinds}


def test_a_card_names_what_is_asked_and_nothing_else(asked: Asked) -> None:
    assert {name: asked[name] ^ on_cards(name) for name in names() if asked[name] != on_cards(name)} == {}
    for name in names():
        for metric in variants(name):
            assert tuple(metric.card.kinds) == metric.card.roles, name


def test_every_kind_on_a_card_is_one_of_ours() -> None:
    known = {kind.kind for kind in Query.__subclasses__()}
    assert {kind for name in names() for _, kind in on_cards(name)} <= known
    assert len(names()) >= 66
