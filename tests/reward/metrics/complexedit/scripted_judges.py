"""Scripted judges of Complex-Edit's questions, and samples to judge. They stand at the expert boundary."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from editcritic.reward import EditSample, Engine, Score
from editcritic.reward.queries import Grade, Json, Judge, Reply, YesNo
from editcritic.reward.queries.kinds import Outcome
from editcritic.reward.sample import Operation

from ...fakes import Fake, picture

BEFORE, AFTER = picture(1), picture(2)
OPERATIONS = (Operation("Remove the cup", "Remove an Object"), Operation("Turn the wall green", "Change Color"))


def edit(name: str = "s", **fields: Any) -> EditSample:
    options = {"instruction": "Remove the cup and turn the wall green", "sources": (BEFORE,), "edited": AFTER, **fields}
    return EditSample(id=name, **options)


def verdict(following: int, preservation: int, operations: Sequence[int] = (), why: str = "I looked") -> Reply:
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


def drawn(*outcomes: Outcome) -> Callable[[Judge], Outcome]:
    """A rule: the draws 0, 1, … of whatever is asked come to these."""
    return lambda query: outcomes[query.draw]


class Heard(Fake):
    """A fake that keeps the questions that reached it."""

    def __init__(self, rule: Callable[[Any], Any] = known, **options: Any) -> None:
        super().__init__(rule, **options)
        self.queries: list[Judge] = []

    def __call__(self, queries: Sequence[Any]) -> Any:
        self.queries += queries
        return super().__call__(queries)


def scored(metric: Any, judge: Fake, *samples: EditSample) -> list[Score]:
    """The scores of samples, side by side in one engine."""
    with Engine() as engine:
        futures = [engine.submit(metric(sample), {"judge": judge}, sample) for sample in samples]
        return [future.result(60) for future in futures]


def score_of(metric: Any, rule: Callable[[Any], Any], sample: EditSample | None = None) -> Score:
    return scored(metric, Fake(rule), sample or edit())[0]


def numbers(score: Score, what: str) -> dict[str, float]:
    """The numbers of the one evidence of that name."""
    (item,) = [item for item in score.evidence if item.what == what]
    return dict(item.numbers)


def value_of(score: Score) -> float:
    """The value of a score that has one."""
    assert score.value is not None, score.reason
    return score.value


def words(query: Judge) -> str:
    """What the judge is told, after the images."""
    (message,) = query.messages
    text = message.content[-1]
    assert isinstance(text, str)
    return text
