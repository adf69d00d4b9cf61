"""Concurrent calls go together; each has its own result, error or cancellation."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from editcritic.integrations.trainers.verl_omni import CoalescedCalls


class Doubler:
    """Doubles numbers, refuses odd ones above 100, and remembers what it was asked together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.running = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, rows: list[int]) -> list[int | Exception]:
        self.batches.append(rows)
        self.running.set()
        assert self.go_on.wait(30)
        if 666 in rows:
            raise RuntimeError("no server")
        return [ValueError(f"{row} is odd") if row > 100 and row % 2 else 2 * row for row in rows]


async def gather(calls: CoalescedCalls[int, int], rows: range) -> list[int | BaseException]:
    return await asyncio.wait_for(asyncio.gather(*map(calls, rows), return_exceptions=True), 30)


def test_calls_at_once_are_one_call_in_order_and_errors_are_those_of_their_rows():
    doubler = Doubler()
    calls = CoalescedCalls(doubler, quiet_s=0.5, longest_s=10)  # a busy machine may pause for longer than the default
    assert asyncio.run(gather(calls, range(64))) == list(range(0, 128, 2))
    assert doubler.batches == [list(range(64))]
    results = asyncio.run(gather(CoalescedCalls(doubler), range(100, 104)))
    assert [str(result) for result in results] == ["200", "101 is odd", "204", "103 is odd"]
    broken = asyncio.run(gather(CoalescedCalls(doubler), range(665, 668)))
    assert [str(error) for error in broken] == ["no server"] * 3


def test_calls_that_never_pause_are_run_all_the_same():
    doubler = Doubler()
    calls = CoalescedCalls(doubler, quiet_s=0.02, longest_s=0.06)

    async def run() -> list[int]:
        tasks = []
        for row in range(40):
            tasks.append(asyncio.create_task(calls(row)))
            await asyncio.sleep(0.005)
        return await asyncio.gather(*tasks)

    assert asyncio.run(asyncio.wait_for(run(), 30)) == list(range(0, 80, 2))
    assert 1 < len(doubler.batches) < 10


def test_calls_of_several_loops_and_threads_go_together():
    doubler = Doubler()
    calls = CoalescedCalls(doubler, quiet_s=0.1, longest_s=1)
    together = threading.Barrier(4)

    def thread(number: int) -> list[int | BaseException]:
        together.wait(30)
        return asyncio.run(gather(calls, range(number * 10, number * 10 + 10)))

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(thread, range(4)))
    assert results == [list(range(number * 20, number * 20 + 20, 2)) for number in range(4)]
    assert len(doubler.batches) == 1


def test_while_all_are_under_way_calls_gather():
    doubler = Doubler()
    doubler.go_on.clear()
    calls = CoalescedCalls(doubler, concurrency=1)

    async def run() -> list[int]:
        first = asyncio.create_task(calls(0))
        await asyncio.to_thread(doubler.running.wait, 30)
        others = [asyncio.create_task(calls(row)) for row in range(1, 8)]
        await asyncio.sleep(0.05)
        doubler.go_on.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(asyncio.wait_for(run(), 30)) == list(range(0, 16, 2))
    assert doubler.batches == [[0], [*range(1, 8)]]


@pytest.mark.parametrize("when", ["waiting", "running"])
def test_a_cancelled_call_loses_its_own_result_only(when):
    doubler = Doubler()
    if when == "running":
        doubler.go_on.clear()
    calls = CoalescedCalls(doubler)

    async def run() -> list[int | BaseException]:
        tasks = [asyncio.create_task(calls(row)) for row in range(4)]
        await asyncio.sleep(0)
        if when == "running":
            await asyncio.to_thread(doubler.running.wait, 30)
        tasks[1].cancel()
        doubler.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(asyncio.wait_for(run(), 30))
    assert isinstance(results.pop(1), asyncio.CancelledError)
    assert results == [0, 4, 6]
    assert doubler.batches == [[0, 2, 3] if when == "waiting" else [0, 1, 2, 3]]


def test_a_loop_that_has_ended_holds_nobody_up():
    doubler = Doubler()
    doubler.go_on.clear()
    calls = CoalescedCalls(doubler, concurrency=1)

    async def abandon() -> None:
        asyncio.ensure_future(calls(0))  # noqa: RUF006  (its loop ends with it)
        await asyncio.to_thread(doubler.running.wait, 30)

    asyncio.run(abandon())
    doubler.go_on.set()
    assert asyncio.run(gather(calls, range(1, 3))) == [2, 4]
