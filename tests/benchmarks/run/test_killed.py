"""A killed run resumes without repeating answered queries, and its results equal those of an undisturbed run.

`python -m … FOLDER` kills a run of 240 samples again and again at random moments, and leaves FOLDER/kills.json."""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from editcritic.benchmarks.run.runner import run_suite

from ..suites.tiny_suite import Toy, outputs
from .conftest import python
from .counting_experts import Paying, experts, files

COUNT, KILLS = 120, 20


def main(folder: Path) -> None:
    suite = Toy(count=COUNT)
    made = outputs(folder / "outputs", suite)
    kills: list[list[int]] = []
    paid = folder / "paid"
    # In questions paid for: one before the first, one at the last, and the others anywhere between, in order.
    moments = [0, *sorted(random.Random(0).sample(range(1, 2 * COUNT), KILLS - 2)), 2 * COUNT]
    chance = random.Random(1)
    for moment in moments:
        child = os.fork()
        if not child:
            judged(suite, made, paid, folder / "killed")
            os._exit(0)
        while lines(paid) < moment and not os.waitpid(child, os.WNOHANG)[0]:
            time.sleep(0.0005)
        time.sleep(chance.random() * 0.005)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills.append([lines(paid), os.WIFSIGNALED(status)])
    judged(suite, made, paid, folder / "killed")
    paid.rename(folder / "paid_when_killed")  # the judge's file is part of its spec, which is part of the results
    judged(suite, made, paid, folder / "straight")
    (folder / "kills.json").write_text(json.dumps(kills))


def judged(suite: Toy, made: Path, paid: Path, out: Path) -> None:
    run_suite(suite, made, experts=experts(Paying(str(paid), 0.001)), metrics=["following"], out=out)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_run_that_is_killed_twenty_times_ends_as_if_it_had_not_been(tmp_path):
    python("-m", __name__, tmp_path)
    kills = json.loads((tmp_path / "kills.json").read_text())
    assert sum(killed for _, killed in kills) == KILLS
    assert len({paid for paid, _ in kills}) > KILLS // 2  # they were spread over the run
    assert files(tmp_path / "killed") == files(tmp_path / "straight")

    paid = (tmp_path / "paid_when_killed").read_text().split()
    assert len(set(paid)) == 2 * COUNT == len((tmp_path / "paid").read_text().split())
    in_flight = {number for count, _ in kills for number in range(count - Paying.batch, count)}
    again = {question for question, times in Counter(paid).items() if times > 1}
    assert again <= {paid[number] for number in in_flight if number >= 0}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
