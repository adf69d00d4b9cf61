"""Scoring for clients that cannot leave a sample out: failed samples are asked again before the answer, in the rounds
of `reward.retry`. In a pause the request holds no samples of the queue, but the bytes of its images.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from ....reward import EditSample, Score
from ....reward.retry import retry_rounds
from ..http_protocol import ScoreRequest, images_by_digest
from .service import ScoringService

_RETRY_SHARE = 0.5
_ANSWER_SHARE = 0.9
"""Of the client's time-out: when the last round may begin, and when the answer is sent with what is there."""


async def score_with_retries(
    service: ScoringService, request: ScoreRequest, *, received_at: float, client_timeout_s: float
) -> list[Score]:
    """One score per sample, in order; one that is late has failed for reasons of infrastructure. received_at: by
    `time.monotonic`. client_timeout_s: how long its client waits. Raises as `ScoringService.score`.
    """
    until = received_at + _ANSWER_SHARE * client_timeout_s
    late = Score.failed(f"late: not scored within {until - received_at:g} s", cause="infrastructure")

    async def scores_of(samples: Sequence[EditSample]) -> list[Score]:
        remaining = max(0.001, until - time.monotonic())
        asked = replace(request, samples=tuple(samples), deadline_s=remaining)
        return [score or late for score in await service.score(asked)]

    scores = await scores_of(request.samples)
    for pause, rows in retry_rounds(scores, received_at + _RETRY_SHARE * client_timeout_s):
        samples = [request.samples[row] for row in rows]
        await _pause(service, samples, pause)
        if service.draining:
            break
        for row, score in zip(rows, await scores_of(samples), strict=True):
            scores[row] = score
    return scores


async def _pause(service: ScoringService, samples: Sequence[EditSample], seconds: float) -> None:
    if not seconds:
        return
    size = sum(3 * image.width * image.height for image in images_by_digest(samples).values())
    service.bytes.acquire(size, service.retry_after_s())
    try:
        await asyncio.sleep(seconds)
    finally:
        service.bytes.release(size)
