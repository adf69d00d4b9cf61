"""A minimal suite: chains of two turns over synthetic images, and a judge with pseudo-random replies."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from editcritic.benchmarks.suites.results import Results
from editcritic.benchmarks.suites.suite import Suite, SuiteInfo, SuiteItem
from editcritic.benchmarks.suites.tables import Table
from editcritic.reward import Expert, Image
from editcritic.reward.queries import Abstention, Judge, Reply
from editcritic.reward.queries.specs import Spec
from editcritic.verifiers import edit_request


def picture(*numbers: int, size: int = 32) -> Image:
    """A distinct noise image for each sequence of numbers."""
    chance = np.random.default_rng(numbers)
    return Image.of(np.clip(chance.integers(256, size=3) + chance.integers(-20, 20, (size, size, 3)), 0, 255) / 255)


class Toy(Suite):
    """`count` chains; `data` is ignored."""

    name: ClassVar[str] = "toy"
    info: ClassVar[SuiteInfo] = SuiteInfo("Toy", "nobody, nowhere", "none", "")

    def __init__(self, data: Path | None = None, *, count: int = 4) -> None:
        self.count = count
        self.items: Sequence[SuiteItem] = [
            SuiteItem(
                f"{case}/{turn}",
                str(case),
                f"{case}_turn_{turn}",
                edit_request(f"Make it number {turn}", picture(case), id=f"{case}/{turn}"),
                previous=f"{case}/{turn - 1}" if turn > 1 else "",
                labels={"turn": turn, "type": "count_change" if case % 2 else "color_alter"},
            )
            for case in range(count)
            for turn in (1, 2)
        ]
        self.digest = hashlib.sha256("".join(item.sample.source.digest for item in self.items).encode()).hexdigest()

    @property
    def options(self) -> Mapping[str, str | int]:
        return {"count": self.count}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        return {"following": "judge-yes-no", "guards": "guards"}

    def tables(self, results: Results) -> list[Table]:
        rows = {
            f"turn {turn}": {
                name: results.mean(results.filter(turn=turn), self._of(name)) for name in ("following", "guards")
            }
            for turn in (1, 2)
        }
        return [Table("leaderboard", "Toy", ["following", "guards"], rows, scale=100.0, unit="percent")]

    @staticmethod
    def _of(name: str) -> Callable[[Any], float | None]:
        return lambda row: row.value(name)


def outputs(folder: Path, suite: Suite, *, without: Sequence[str] = ()) -> Path:
    """Write an output image for each item except `without`."""
    for number, item in enumerate(suite.items):
        if item.id not in without:
            path = folder / f"{item.output_path}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(1000, number).pil().save(path)
    return folder


class AbstainingJudge(Expert):
    """A judge that knows nothing."""

    kinds = (Judge,)
    id = "abstaining@1"

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Abstention]:
        return [Abstention("nobody knows") for _ in queries]


class Replying(Expert):
    """A judge that replies as a function says, and records the queries."""

    kinds = (Judge,)

    def __init__(self, reply: Callable[[Judge], Reply], name: str = "replying@1") -> None:
        self.reply, self.id, self.queries = reply, name, list[Judge]()

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.queries += queries
        return [self.reply(query) for query in queries]


class CoinJudge(Expert):
    """Replies yes or no by the digest of the query, and counts queries. Picklable: `CoinJudge()` is its spec."""

    id = "coin@1"
    kinds = (Judge,)

    def __init__(self) -> None:
        self.num_queries = 0

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.num_queries += len(queries)
        return [_answered(query) for query in queries]


def _answered(query: Judge) -> Reply:
    yes = int(query.digest[:8], 16) / 0xFFFFFFFF
    return Reply("yes" if yes >= 0.5 else "no", probabilities={"yes": yes, "no": 1 - yes})
