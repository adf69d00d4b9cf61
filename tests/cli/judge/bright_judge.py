"""A judge that prefers bright pictures, slowly if wanted, and writes down what it was asked."""

import os
import time
import warnings
from collections.abc import Sequence

from editcritic.reward import Expert, Image
from editcritic.reward.queries import Failure, Judge, Reply
from editcritic.reward.queries.answers import Outcome


class BrightJudge(Expert):
    """Says yes to an edit by its level, and of two edits that the brighter one is better.

    paid: a file that gets a line per query.
    """

    id = "bright-judge@1"
    kinds = (Judge,)
    batch = 4

    def __init__(self, paid: str = os.devnull, seconds: float = 0.0) -> None:
        self.paid = paid
        self.seconds = seconds

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Outcome]:
        file = os.open(self.paid, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for query in queries:
            os.write(file, f"{query.digest}\n".encode())
        os.close(file)
        time.sleep(self.seconds)
        return [_reply(query) for query in queries]


class WarningJudge(BrightJudge):
    """Warns of what it does otherwise than it was asked to, as a served judge does."""

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Outcome]:
        warnings.warn("fewer alternatives than asked for", RuntimeWarning, stacklevel=2)
        return super().__call__(queries)


class LoneJudge(BrightJudge):
    """Answers one question at a time."""

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Outcome]:
        return super().__call__(queries) if len(queries) == 1 else [Failure("two questions")] * len(queries)


def _reply(query: Judge) -> Reply:
    levels = [float(part.pixels.mean()) for part in query.messages[-1].content if isinstance(part, Image)]
    if query.topic == "pairwise":
        first, second = levels[-2:]
        return Reply("first" if first > second else "second" if second > first else "same")
    yes = levels[-1] / 255
    return Reply("yes" if yes >= 0.5 else "no", probabilities={"yes": yes, "no": 1 - yes})
