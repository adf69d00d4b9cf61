"""Scripted judges of Complex-Edit's questions, and samples to judge. They stand at the expert boundary."""

import json
from typing import Any

from editcritic.reward import EditSample, Engine, Operation
from editcritic.reward.queries import Grade, Json, Judge, Reply, YesNo
from editcritic.reward.queries.answers import Outcome

from ...fakes import Fake, picture

BEFORE, AFTER = picture(1), picture(2)
OPERATIONS = (Operation("Remove the cup", "Remove an Object"), Operation("Turn the wall green", "Change Color"))


def edit(name: str = "s", **fields: Any) -> EditSample:
    options = {"instruction": "Remove the cup and turn the wall green", "sources": (BEFORE,), "edited": AFTER, **fields}
    return EditSample(id=name, **options)


def verdict(following: int, preservation: int, operations: Any = (), why: str = "I looked") -> Reply:
    """What a judge answers to the alignment judgement; operations: grades of those that were listed."""
    items = [{"operation": f"no. {place}", "score": score} for place, score in enumerate(operations, start=1)]
    reply = {"reasoning": why, **({"operations": items} if items else {})}
    return Reply(json.dumps({**reply, "instruction_following": following, "identity_preservation": preservation}))


def known(query: Judge) -> Outcome:
    """An answer to any question of these metrics, which depends on nothing but the question."""
    number = int(query.digest[:12], 16)
    match query.form:
        case Json():
            count = len(json.loads(dict(query.slots)["operations"]))
            return verdict(number % 11, number // 11 % 11, [number // 121 % 11] * count)
        case YesNo():
            return Reply("yes", {"yes": (number % 101) / 101, "no": 1 - (number % 101) / 101})
        case Grade(temperature=0.0):
            weights = [1 + number // 11**place % 11 for place in range(11)]
            return Reply("5", {str(grade): weight / sum(weights) for grade, weight in enumerate(weights)})
        case _:
            return Reply(str(number % 11))


def drawn(*outcomes: Outcome) -> Any:
    """A rule: the draws 0, 1, … of whatever is asked come to these."""
    return lambda query: outcomes[query.draw]


def asked(metric: Any, rule: Any = known, *samples: EditSample, **options: Any) -> tuple[list[Any], list[Any]]:
    """The scores of samples, side by side in one engine, and the questions that reached the judge, each once."""
    queries: list[Judge] = []

    def answer(query: Judge) -> Outcome:
        queries.append(query)
        return rule(query)

    with Engine() as engine:
        experts = {"judge": Fake(answer, **options)}
        futures = [engine.submit(metric(sample), experts, sample) for sample in samples or [edit()]]
        return [future.result(60) for future in futures], queries


def score_of(metric: Any, rule: Any, sample: EditSample | None = None) -> Any:
    return asked(metric, rule, sample or edit())[0][0]
