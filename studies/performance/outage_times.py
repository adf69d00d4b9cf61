"""How long calls take when what scores them is gone: seconds, by `outage_timeout_s`.

    python -m studies.performance.outage_times [--timeouts 5 20 25] [--samples 4 64] [--json]

A judge server is killed after the first call of each client; a judge behind an API is a port where nobody listens, as
its client's retries are by default. Calls of one number of samples wait at the same time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from socket import socket
from typing import Any, ClassVar

from editcritic.integrations.serving.client.remote_reward import RemoteReward
from editcritic.integrations.trainers.trainer_reward import TrainerReward
from editcritic.reward import Card, EditSample, Program, Reward, Score, TooManyFailures, ask
from editcritic.reward.experts.judging.http_errors import openai_package
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import Judge, Message, YesNo

from ..load_test.synthetic_reward import SyntheticServer, synthetic_samples
from .command import parser_of, print_rows

Call = Callable[[Sequence[EditSample]], Any]


class Asked:
    """What a judge says of an edit."""

    card: ClassVar[Card] = Card("asked", 1, "yes", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        reply = yield from ask(Judge((Message((sample.edited, sample.instruction)),), YesNo()))
        return Score.of(YesNo().reply_value(reply))


def main() -> None:
    """The command."""
    parser = parser_of(__doc__)
    parser.add_argument("--timeouts", type=float, nargs="+", default=[5.0, 20.0, 25.0], help="outage_timeout_s")
    parser.add_argument("--samples", type=int, nargs="+", default=[4, 64], help="samples of a call")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    rows = measured(arguments.timeouts, arguments.samples)
    print_rows(arguments, "seconds of a call", rows)


def measured(timeouts: Sequence[float], sample_counts: Sequence[int]) -> list[dict[str, Any]]:
    """By path, number of samples, and time-out: the seconds of a call, and its samples without a score."""
    openai_package()  # imported before the time counts
    return [row for count in sample_counts for row in _measured(timeouts, count)]


def _measured(timeouts: Sequence[float], count: int) -> list[dict[str, Any]]:
    with SyntheticServer() as server:
        calls = [
            (path, call, timeout_s) for timeout_s in timeouts for path, call in _paths(server.url, timeout_s).items()
        ]
        server.process.kill()
        server.process.wait()
        with ThreadPoolExecutor(len(calls)) as threads:
            timed = list(threads.map(lambda row: _timed(row[1], count), calls))
    return [
        {"path": path, "samples": count, "timeout_s": timeout_s, "seconds": round(seconds, 2), "unscored": unscored}
        for (path, _, timeout_s), (seconds, unscored) in zip(calls, timed, strict=True)
    ]


def _paths(url: str, timeout_s: float) -> dict[str, Call]:
    remote: dict[str, Call] = {
        "RemoteReward": RemoteReward(url, outage_timeout_s=timeout_s, on_failures="wait"),
        "TrainerReward(URL)": TrainerReward(url, missing="nan", outage_timeout_s=timeout_s),
        "TrainerReward(URL), on_failures=none": TrainerReward(
            url, missing="nan", outage_timeout_s=timeout_s, on_failures="none"
        ),
    }
    for call in remote.values():
        call(synthetic_samples(1, size=16))
    with closing(socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        judge_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
    local = [
        Reward(Asked(), {"judge": OpenAIJudge("m", judge_url)}, on_failures="wait", outage_timeout_s=timeout_s)
        for _ in range(2)
    ]
    return remote | {
        "TrainerReward(URL), never reached": TrainerReward(
            judge_url.removesuffix("/v1"), missing="nan", outage_timeout_s=timeout_s
        ),
        "Reward, served judge": local[0],
        "TrainerReward(Reward), served judge": TrainerReward(local[1], missing="nan"),
    }


def _timed(call: Call, count: int) -> tuple[float, int]:
    samples = synthetic_samples(count, size=16)
    start = time.perf_counter()
    try:
        scores = call(samples)
    except TooManyFailures as error:
        scores = error
    seconds = time.perf_counter() - start
    return seconds, sum(score.value is None for score in scores.scores)


if __name__ == "__main__":
    main()
