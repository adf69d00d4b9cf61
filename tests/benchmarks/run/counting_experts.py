"""Whom the tests of runs ask, and what they compare."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from editcritic.reward import Expert, Judge, Reply
from editcritic.reward.reward import no_download

from ..suites.toy import CoinJudge


class Paying(Expert):
    """Says what the coin says, takes a little time, and writes each question that it is paid for into a file."""

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
    """Answers every other question."""

    id = "fails@1"
    kinds = (Judge,)
    batch = 1

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.asked += 1
        if int(queries[0].digest[:8], 16) % 2:
            raise RuntimeError("no answer today")
        return CoinJudge()(queries)


def experts(judge: Expert) -> dict[str, Expert]:
    """Those that need no download, and this judge."""
    return {**no_download(), "judge": judge}


def files(folder: Path) -> dict[str, bytes]:
    """What equal runs have equally."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "run.json" and "journal" not in path.relative_to(folder).parts
    }
