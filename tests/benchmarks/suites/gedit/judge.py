"""A judge of VIEScore's questions without knowledge, which logs what it is asked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

from editcritic.reward import Expert
from editcritic.reward.queries import Judge, Reply


def grades(query: Judge) -> list[int]:
    """Two grades by the digest of the query."""
    number = int(query.digest[:8], 16)
    return [number % 11, number // 11 % 11]


class Grading(Expert):
    """Replies after a delay. paid: a file that gets a line per query; empty for none."""

    id = "grading@1"
    kinds = (Judge,)
    batch = 4

    def __init__(self, paid: str = "", seconds: float = 0.0) -> None:
        self.paid, self.seconds = paid, seconds

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        if self.paid:
            file = os.open(self.paid, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            for query in queries:
                os.write(file, f"{query.digest}\n".encode())
            os.close(file)
        time.sleep(self.seconds)
        return [Reply(json.dumps({"score": grades(query), "reasoning": "seen"})) for query in queries]
