"""Experts of the tests of runs, and the files they compare."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from editcritic.reward import Expert
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.reward import default_experts

from ..suites.tiny_suite import CoinJudge


class Paying(Expert):
    """Replies as `CoinJudge` after a delay, and logs each query to a file."""

    id = "paying@1"
    kinds = (Judge,)
    batch = 4

    def __init__(self, paid: str, seconds: float = 0.0) -> None:
        self.paid = paid
        self.seconds = seconds

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        file = os.open(self.paid, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for query in queries:
            os.write(file, f"{query.digest}\n".encode())
        os.close(file)
        time.sleep(self.seconds)
        return CoinJudge()(queries)


class Fails(Expert):
    """Fails about half of the queries."""

    id = "fails@1"
    kinds = (Judge,)
    batch = 1

    def __init__(self) -> None:
        self.num_queries = 0

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.num_queries += 1
        if int(queries[0].digest[:8], 16) % 2:
            raise RuntimeError("no answer today")
        return CoinJudge()(queries)


class FailsAtFirst(Paying):
    """As `Paying`, but half of the queries fail while there is a file."""

    id = "fails-at-first@1"
    batch = 1

    def __init__(self, paid: str, fails: str) -> None:
        super().__init__(paid)
        self.fails = fails

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        if Path(self.fails).exists() and int(queries[0].digest[:8], 16) % 2:
            raise RuntimeError("no answer today")
        return super().__call__(queries)


def experts(judge: Expert) -> dict[str, Expert]:
    """Those that need no download, and this judge."""
    return {**default_experts(), "judge": judge}


def files(folder: Path) -> dict[str, bytes]:
    """The files that are equal for equal runs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in ("run.json", "run.toml")
        and "journal" not in path.relative_to(folder).parts
    }
