"""The judge server in the words of UniRL's reward service: POST /score, GET /health and /rewards.

    backend:
      _target_: unirl.reward.remote.RemoteRewardBackend
      base_device: cpu
      config:
        _target_: unirl.reward.remote.RemoteRewardSpec
        base_url: http://127.0.0.1:8321
        required_rewards: [edit-balanced]

The words are those of github.com/Tencent-Hunyuan/UniRL, `unirl-reward-service/reward_service/schemas.py` (cb03dcd) and
its README (03593c4); the client is `unirl/reward/remote.py` (0e713d6). Rewards go by their names at the server, and
several may be required of one item: each is scored by itself, and has one number, `score`.

history: the pictures in order, the first one before any edit. Each later one was made from the one before it, as its
text says; where it has none, as that of the turn before says, for UniRL's own scorers read a history of two in this
way, and its client puts the same text into both. A history of two with two different texts is refused. Only images in
base64 are read: no videos, no shared memory, no paths. metadata: see `rollouts`.

An item without a score is missing from `results`, and `errors` says why, as in the protocol. UniRL then ends the step,
naming the samples. 4xx, but for 429, it does not send again; 503 three times, a second apart, unless `max_retries` and
`retry_delay` say otherwise: give a server that loads for minutes more.

Identities are echoed. `scorer_version` is the reward's signature, as in edit-balanced@3, joined by + where several are
required; a request that expects another one is refused. Items that all have an `idempotency_key` are not scored twice
when they are sent again together. Groups are made of text and pictures; group_id is only echoed.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ...reward import Score
from ..rollouts import row_of
from .server import unless_gone
from .service import Service
from .unpacking import Parts, read_json, request_in
from .wire import SCHEMA, Request, WireError, from_base64

if TYPE_CHECKING:
    from fastapi import FastAPI, Response
    from fastapi import Request as Asked

PROTOCOL = "1"


class _Identity(BaseModel):
    request_id: str | None = None
    sample_id: str | None = None
    group_id: str | None = None
    source_rank: int | None = None
    policy_version: int | None = None
    scorer_version: str | None = None
    idempotency_key: str | None = None


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    image_b64: str | None = None
    image_ipc: None = None
    video_b64: None = None
    video_path: None = None


class _Item(_Identity):
    history: list[_Turn]
    required_rewards: list[str]
    metadata: dict[str, Any] | None = None


class _Batch(BaseModel):
    protocol_version: str = PROTOCOL
    requests: list[_Item]
    grad_mode: bool = False


def add_to(app: FastAPI, service: Service) -> None:
    """Add the routes to an application of `server.app_of`."""
    from fastapi import Response
    from starlette.routing import Route

    def said(data: Any, status: int = 200) -> Response:
        return Response(json.dumps(data, allow_nan=False).encode(), status, media_type="application/json")

    async def score(request: Asked) -> Response:
        since = time.monotonic()
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
        batch, asked = await service.work(_read, service, body)
        body = bytearray()
        work = [asyncio.create_task(unless_gone(request, service, one, since)) for one in asked.values()]
        try:
            found = await asyncio.gather(*work)
        finally:
            for task in work:  # of one that found no room, the others are not wanted either
                task.cancel()
        known = [scores for scores in found if scores is not None]
        if len(known) < len(found):
            return Response(status_code=499)
        return said(_answer(service, batch, dict(zip(asked, known, strict=True))))

    async def health(_: Asked) -> Response:
        ready = bool(service.readiness.report()["ready"])
        state = "ready" if ready else "loading"
        rewards = {name: [state] for name in service.rewards}
        return said({"status": "ok" if ready else state, "rewards": rewards}, 200 if ready else 503)

    async def rewards(_: Asked) -> Response:
        return said({"rewards": list(service.rewards)})

    for path, endpoint, method in (("/score", score, "POST"), ("/health", health, "GET"), ("/rewards", rewards, "GET")):
        app.router.routes.append(Route(path, endpoint, methods=[method]))


def _read(service: Service, body: bytearray) -> tuple[_Batch, dict[str, Request]]:
    """A request for each reward, with those items that require it, in order. Raises `WireError`."""
    data = read_json(bytes(body), service.limits)
    try:
        batch = _Batch.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise WireError(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}", 400) from None
    if batch.protocol_version != PROTOCOL:
        raise WireError(f"protocol {batch.protocol_version!r:.80}: {PROTOCOL} is spoken here", 400)
    if batch.grad_mode:
        raise WireError("scores have no gradients here: grad_mode has to be off", 400)
    if len(batch.requests) > service.limits.max_samples:
        raise WireError(f"{len(batch.requests):,} items: at most {service.limits.max_samples:,} are taken", 413)
    if not batch.requests:
        return batch, {}
    parts: Parts = {}
    names: dict[str, str] = {}
    for item in batch.requests:
        wanted = _version(service, item)
        if item.scorer_version not in (None, wanted):
            raise WireError(f"scorer_version {item.scorer_version!r:.80} is expected, and {wanted} is served", 400)
    rows = [_row(f"edit-{number}", item, names, parts) for number, item in enumerate(batch.requests)]
    whole = request_in({"schema": SCHEMA, "samples": rows}, parts, service.limits)
    asked: dict[str, Request] = {}
    for name in dict.fromkeys(name for item in batch.requests for name in item.required_rewards):
        theirs = [item for item in batch.requests if name in item.required_rewards]
        keys = [item.idempotency_key or "" for item in theirs]
        samples = (
            one for item, one in zip(batch.requests, whole.samples, strict=True) if name in item.required_rewards
        )
        key = sha256("\n".join(keys).encode()).hexdigest() if all(keys) else ""
        asked[name] = replace(whole, samples=tuple(samples), reward=name, key=key and f"unirl/{key}/{name}"[:512])
    return batch, asked


def _row(name: str, item: _Item, names: dict[str, str], parts: Parts) -> dict[str, Any]:
    turns = item.history
    if len(turns) < 2:
        raise WireError(f"{name}: an edit is two turns at least, the source and what was made: got {len(turns)}", 422)
    if len(turns) == 2 and turns[0].text and turns[1].text and turns[0].text != turns[1].text:
        raise WireError(f"{name}: two texts and one edit: which of them is the instruction?", 422)
    held = []
    for turn in turns:
        if turn.image_b64 is None:
            raise WireError(f"{name}: each turn has its picture in image_b64: nothing else is read here", 422)
        if turn.image_b64 not in names:
            names[turn.image_b64] = f"picture-{len(names)}"
            parts[names[turn.image_b64]] = (from_base64(name, turn.image_b64), "")
        held.append(names[turn.image_b64])
    texts = [turn.text or before.text for before, turn in pairwise(turns)]
    try:
        row = row_of(name, texts[-1], held[:1], held[-1], item.metadata)
    except ValueError as error:
        raise WireError(str(error), 400) from None
    earlier = [{"instruction": text, "edited": made} for text, made in zip(texts[:-1], held[1:-1], strict=True)]
    return {**row, "earlier": earlier}


def _version(service: Service, item: _Item) -> str:
    """Signatures of the rewards that an item requires. Raises `WireError` for one that is not served."""
    if not item.required_rewards or len(set(item.required_rewards)) < len(item.required_rewards):
        raise WireError(f"required_rewards is a list of different names, got {item.required_rewards!r:.80}", 400)
    return "+".join(service.reward(name or "?").card.signature for name in item.required_rewards)


def _answer(service: Service, batch: _Batch, found: dict[str, list[Score | None]]) -> dict[str, Any]:
    results: list[dict[str, dict[str, float]]] = [{} for _ in batch.requests]
    errors: list[dict[str, str]] = [{} for _ in batch.requests]
    for name, scores in found.items():
        left = iter(scores)
        for number, item in enumerate(batch.requests):
            if name in item.required_rewards:
                _put(next(left), name, results[number], errors[number])
    identities = [
        {**_Identity.model_validate(item.model_dump(include=set(_Identity.model_fields))).model_dump(),
         "scorer_version": _version(service, item)} for item in batch.requests
    ]  # fmt: skip
    return {"protocol_version": PROTOCOL, "results": results, "errors": errors, "identities": identities}


def _put(score: Score | None, name: str, results: dict[str, dict[str, float]], errors: dict[str, str]) -> None:
    if score is None:
        errors[name] = "late: not scored in time"
    elif score.value is None:
        errors[name] = f"{score.status}: {score.reason}"
    else:
        results[name] = {"score": score.value}
