"""A judge server in a process of its own, with experts that take their time; run as the command is."""

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import typer

from editcritic.cli.serve import serve
from editcritic.reward import Expert
from editcritic.reward.queries import Rate
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.kinds import Query

from ...reward.fakes import known


class Slow(Expert):
    """Answers by the question alone, whoever asks, wherever. seconds: what a question takes."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Rate,)
    batch = 8

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.id = f"slow {seconds}"

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        time.sleep(self.seconds * len(queries))
        return [known(query) for query in queries]


if __name__ == "__main__":
    app = typer.Typer()
    app.command()(serve)
    app()
