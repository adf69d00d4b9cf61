"""The queue before the engine: who gets which score, what is refused, and what is not done any more."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from editcritic.integrations.serving.http_protocol import APIError, ScoreRequest
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import MIB, ServerBusy, ServerLimits
from editcritic.reward import Card, EditSample, Engine, Expert, Program, Reward, Score
from editcritic.reward.queries import Failure

from ....reward.fakes import Fake, Rated, asks, known, mixed, picture, sample
from ..served import Gated, idle


def edits(count: int, first: int = 0, name: str = "s") -> list[EditSample]:
    return [sample(f"{name}{number}", edited=picture(first + number)) for number in range(count)]


def score_request(samples: list[EditSample], **fields: Any) -> ScoreRequest:
    return ScoreRequest(tuple(samples), **fields)


def rated(expert: Expert, **options: Any) -> Reward:
    return Reward(Rated(), {"preference": expert}, **options)


def served(expert: Expert, use: Callable[[ScoringService], Awaitable[Any]], **limits: Any) -> Any:
    """What comes of using a service; afterwards nothing of it is left in the queue."""

    async def run() -> Any:
        service = ScoringService(rated(expert), limits=ServerLimits(**limits))
        try:
            result = await use(service)
            await drained(service)
            return result
        finally:
            service.close()

    return asyncio.run(asyncio.wait_for(run(), 60))


async def drained(service: ScoringService) -> None:
    """Wait until the engine has come back with all it was given; room that is lost would keep this waiting."""
    while not idle(service):
        await asyncio.sleep(0.005)


def test_many_requests_at_once_each_get_what_the_reward_gives_their_samples() -> None:
    requests = [edits(7, first=5 * number, name=f"r{number}-") for number in range(12)]

    async def use(service: ScoringService) -> Any:
        return await asyncio.gather(*(service.score(score_request(samples)) for samples in requests))

    all_scores = served(Fake(mixed, jitter_s=0.002), use, max_in_flight=8)
    assert all_scores == [list(rated(Fake(mixed))(samples)) for samples in requests]
    assert {score.status for scores in all_scores for score in scores} == {"scored", "failed", "abstained"}


def test_requests_share_batches_and_answers() -> None:
    expert = Gated(batch=64)

    async def use(service: ScoringService) -> None:
        work = [asyncio.create_task(service.score(score_request(edits(4, first=2 * number)))) for number in range(8)]
        await asyncio.to_thread(expert.reached.wait, 30)
        await asyncio.sleep(0.1)
        expert.open.set()
        await asyncio.gather(*work)

    served(expert, use)
    assert set(expert.seen.values()) == {1}
    assert len(expert.seen) == 2 * 7 + 4
    assert max(expert.calls) > 4  # more than any request has


@pytest.mark.parametrize(
    ("rate", "waiting", "seconds"), [(0.0, 50, 1.0), (10.0, 50, 5.0), (0.1, 50, 60.0), (1e6, 50, 1.0)]
)
def test_when_to_come_back_is_when_what_waits_will_be_done(monkeypatch, rate, waiting, seconds):
    service = ScoringService(rated(Fake()))
    monkeypatch.setattr(service.metrics, "samples_per_second", lambda: rate)
    service.samples.acquire(waiting)
    assert service.retry_after_s() == seconds
    service.close()


def test_room_is_counted_in_bytes_as_well() -> None:
    expert = Gated()
    large = [sample("large", edited=picture(1, 512, 512))]

    async def use(service: ScoringService) -> None:
        first = asyncio.create_task(service.score(score_request(large)))
        await asyncio.to_thread(expert.reached.wait, 30)
        with pytest.raises(ServerBusy, match="bytes"):
            await service.score(score_request([sample("large too", edited=picture(2, 512, 512))]))
        assert service.samples.used == 1
        expert.open.set()
        await first

    served(
        expert,
        use,
        max_body_bytes=MIB // 16,
        max_pixels=MIB // 3,
        max_image_pixels=MIB // 3,
        max_queued_bytes=MIB + MIB // 8,
    )


def test_a_request_that_never_fits_is_refused_for_good() -> None:
    async def use(service: ScoringService) -> None:
        with pytest.raises(APIError, match="at most 2") as refused:
            await service.score(score_request(edits(3)))
        assert refused.value.status == 413

    served(Fake(), use, max_samples=2)


def test_at_the_deadline_what_is_known_is_answered_and_the_rest_is_not_begun() -> None:
    expert = Gated(batch=1)
    samples = edits(20)

    async def use(service: ScoringService) -> list[Score | None]:
        await asyncio.to_thread(rated_before, service, samples[:1])
        scores = await service.score(score_request(samples, deadline_s=0.3))
        expert.open.set()
        return scores

    def rated_before(service: ScoringService, some: list[EditSample]) -> None:
        expert.open.set()
        service.reward()(some)
        expert.open.clear()

    scores = served(expert, use, max_in_flight=3)
    assert scores[0] is not None
    assert scores[1:] == [None] * 19
    assert len(expert.seen) <= 4  # the known one, and those that were in the engine


@pytest.mark.parametrize("in_flight", [2, 256])
def test_what_a_client_that_hangs_up_waited_for_is_given_up(in_flight: int) -> None:
    expert = Gated(batch=1)

    async def use(service: ScoringService) -> None:
        work = asyncio.create_task(service.score(score_request(edits(50))))
        await asyncio.to_thread(expert.reached.wait, 30)
        work.cancel()
        await asyncio.wait([work])
        assert service.samples.used == 50  # the engine holds some of its images still
        expert.open.set()

    served(expert, use, max_in_flight=in_flight)
    assert len(expert.seen) == 1  # the one it was at


def test_a_program_asks_nothing_further_once_nobody_waits() -> None:
    expert = Gated()

    class Long(Rated):
        def __call__(self, sample: EditSample) -> Program[Score]:
            for number in range(10):
                yield from asks(number)
            return Score.of(1)

    async def use() -> None:
        service = ScoringService(Reward(Long(), {"preference": expert}))
        work = asyncio.create_task(service.score(score_request(edits(1))))
        await asyncio.to_thread(expert.reached.wait, 30)
        work.cancel()
        await asyncio.wait([work])
        expert.open.set()
        await drained(service)
        service.close()

    asyncio.run(asyncio.wait_for(use(), 60))
    assert len(expert.seen) == 1


def test_a_request_that_is_sent_again_while_it_runs_joins_and_afterwards_is_replayed() -> None:
    expert = Gated()

    async def use(service: ScoringService) -> None:
        request = score_request(edits(3), key="k")
        work = [asyncio.create_task(service.score(request)) for _ in range(3)]
        await asyncio.to_thread(expert.reached.wait, 30)
        await asyncio.sleep(0.05)
        assert service.samples.used == 3
        work.pop().cancel()
        expert.open.set()
        first, second = await asyncio.gather(*work)
        service.reward().engine.close()  # the next engine knows no answers
        assert await service.score(request) == first == second
        assert None not in first

    served(expert, use)
    assert set(expert.seen.values()) == {1}


def test_a_key_that_somebody_else_guesses_is_still_its_owners() -> None:
    """While the owner's request runs and afterwards: the other one gets its own scores, and the owner its own."""
    expert = Gated()
    owners, others = (score_request(edits(1, first=first), key="k") for first in (0, 1))

    async def use(service: ScoringService) -> None:
        work = asyncio.create_task(service.score(owners))
        await asyncio.to_thread(expert.reached.wait, 30)
        guess = asyncio.create_task(service.score(others))
        await asyncio.sleep(0.1)
        guess.cancel()  # who leaves takes nobody's request along
        expert.open.set()
        first = await work
        guessed = await service.score(others)
        assert None not in (*first, *guessed)
        assert guessed != first
        service.reward().engine.close()  # the next one knows no answers
        assert await service.score(owners) == first

    served(expert, use)
    assert set(expert.seen.values()) == {1}


def test_what_was_late_is_judged_when_it_is_sent_again() -> None:
    expert = Gated()

    async def use(service: ScoringService) -> list[Score | None]:
        assert await service.score(score_request(edits(2), key="k", deadline_s=0.1)) == [None, None]
        expert.open.set()
        return await service.score(score_request(edits(2), key="k", deadline_s=30.0))

    assert None not in served(expert, use)


def test_what_failed_is_judged_when_it_is_sent_again() -> None:
    broken = [True]
    expert = Fake(lambda query: Failure("it broke") if broken[0] else known(query))

    async def use(service: ScoringService) -> list[str]:
        statuses: list[str] = []
        for _ in range(3):
            (score,) = await service.score(score_request(edits(1), key="k"))
            assert score is not None
            statuses.append(score.status)
            broken[0] = False
        return statuses

    assert served(expert, use) == ["failed", "scored", "scored"]


def test_only_so_many_scores_are_remembered() -> None:
    expert = Fake()

    async def use(service: ScoringService) -> None:
        for number in range(20):
            await service.score(score_request(edits(1, first=number), key=f"k{number}"))
        service.reward().engine.close()
        for number in reversed(range(20)):
            await service.score(score_request(edits(1, first=number), key=f"k{number}"))

    served(expert, use, idempotent_scores=10)
    assert sorted(expert.seen.values()) == [1] * 10 + [2] * 10


def test_what_a_reward_raises_is_a_failure_of_that_sample_alone() -> None:
    class Broken(Rated):
        def __call__(self, sample: EditSample) -> Program[Score]:
            if sample.id == "s1":
                raise KeyError("a bug")
            return (yield from super().__call__(sample))

    async def use() -> Any:
        service = ScoringService(Reward(Broken(), {"preference": Fake()}))
        scores = await service.score(score_request(edits(3)))
        service.close()
        return scores

    scores = asyncio.run(use())
    assert [score.status for score in scores] == ["scored", "failed", "scored"]
    assert "a bug" in scores[1].reason


def test_samples_that_lack_what_the_metric_needs_are_refused_before_anything_is_asked() -> None:
    class Needy(Rated):
        @property
        def card(self) -> Card:
            return Card("needy", 1, "needs a mask", roles=("preference",), requires=("mask",))

    expert = Fake()

    async def use() -> None:
        service = ScoringService(Reward(Needy(), {"preference": expert}))
        with pytest.raises(APIError, match="mask") as refused:
            await service.score(score_request(edits(2)))
        assert refused.value.status == 422
        service.close()

    asyncio.run(use())
    assert not expert.seen


def test_a_small_request_does_not_wait_for_a_large_one_before_it() -> None:
    expert = Fake(jitter_s=0.01, batch=2)
    order: list[str] = []

    async def use(service: ScoringService) -> None:
        async def one(name: str, count: int, first: int) -> None:
            await service.score(score_request(edits(count, first=first)))
            order.append(name)

        await asyncio.gather(one("large", 200, 0), one("small", 2, 300))

    served(expert, use, max_in_flight=4)
    assert order == ["small", "large"]


def test_several_rewards_are_asked_by_name_and_share_their_answers() -> None:
    expert = Fake()

    async def use() -> None:
        with Engine() as engine:
            rated_reward, half_reward = (
                rated(expert, engine=engine),
                Reward(Rated(weights=(0.5,)), {"preference": expert}, engine=engine),
            )
            service = ScoringService({"one": rated_reward, "half": half_reward})
            whole: Any = await service.score(score_request(edits(3), reward="one"))
            halves: Any = await service.score(score_request(edits(3), reward="half"))
            assert [score.value / 2 for score in whole] == [score.value for score in halves]
            for name in ("", "other"):
                with pytest.raises(APIError, match="half, one") as refused:
                    await service.score(score_request(edits(1), reward=name))
                assert refused.value.status == 400
            service.close()

    asyncio.run(use())
    assert set(expert.seen.values()) == {1}


@pytest.mark.parametrize("wrong", [{"max_samples": 0}, {"max_queued_samples": 10}, {"max_queued_bytes": MIB}])
def test_limits_that_leave_no_room_for_a_request_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ServerLimits(**wrong)
