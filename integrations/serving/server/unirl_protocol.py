"""UniRL's reward service protocol on the judge server: POST /score, GET /health and /rewards. docs/trainers/unirl.md
has the lines of a recipe.

Of github.com/Tencent-Hunyuan/UniRL, `unirl-reward-service/reward_service/schemas.py` (cb03dcd) and its README
(03593c4); the client is `unirl/reward/remote.py` (0e713d6). Rewards have their names on the server; an item may require
several.

history: the images in order, each later one edited from the one before by its text, or else by the text of the turn
before; a history of two with different texts is rejected. Only images in base64 are read.

Failed samples are asked again before the answer. An item that still has no value is missing from `results`, with the
reason in `errors`: UniRL then ends the run. A reward has one number in `results`, since the client makes one of all
that it finds. It does not retry 4xx except 429, and 503 three times, a second apart, unless
`max_retries` and `retry_delay` are larger, as a server that loads for minutes needs.

Identities are echoed. `scorer_version` is the reward's signature, joined by + for several; another one that is expected
is rejected. Items that all have an `idempotency_key` are scored once. Groups are of text and images."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ....reward import Score
from ....reward.queries.identity import signature_with_identity
from ....reward.training.advantages import training_values
from ...dataset_rows import sample_row
from ..http_protocol import SCHEMA, APIError, ScoreRequest, from_base64
from .app import read_body, unless_disconnected
from .request_decoding import BodyParts, decode_request_json, read_json
from .service import ScoringService, score_with_retries

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

PROTOCOL = "1"

CLIENT_TIMEOUT_S = 300.0
"""`RemoteRewardSpec.timeout`, by default."""


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


def add_unirl_routes(app: FastAPI, service: ScoringService) -> None:
    """Add the routes to an application of `app.create_app`."""
    from fastapi import Response
    from starlette.routing import Route

    def json_response(data: Any, status: int = 200) -> Response:
        return Response(json.dumps(data, allow_nan=False).encode(), status, media_type="application/json")

    async def score(request: Request) -> Response:
        received_at = time.monotonic()
        batch, score_requests = await read_body(service, request, partial(_read, service))
        times = {"received_at": received_at, "client_timeout_s": CLIENT_TIMEOUT_S}
        scorings = [score_with_retries(service, one, **times) for one in score_requests.values()]
        tasks = [asyncio.create_task(unless_disconnected(request, scoring)) for scoring in scorings]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # if one is refused, the others are cancelled
                task.cancel()
        all_scores = [scores for scores in results if scores is not None]
        if len(all_scores) < len(results):
            return Response(status_code=499)
        return json_response(_answer(service, batch, dict(zip(score_requests, all_scores, strict=True))))

    async def health(_: Request) -> Response:
        ready = bool(service.readiness.report(service.draining)["ready"])
        status = "ready" if ready else "loading"
        rewards = {name: [status] for name in service.rewards}
        return json_response({"status": "ok" if ready else status, "rewards": rewards}, 200 if ready else 503)

    async def rewards(_: Request) -> Response:
        return json_response({"rewards": list(service.rewards)})

    for path, endpoint, method in (("/score", score, "POST"), ("/health", health, "GET"), ("/rewards", rewards, "GET")):
        app.router.routes.append(Route(path, endpoint, methods=[method]))


def _read(service: ScoringService, body: bytearray) -> tuple[_Batch, dict[str, ScoreRequest]]:
    """One request per reward, with the items that require it, in order. Raises `APIError`."""
    data = read_json(bytes(body), service.limits)
    _check_counts(data, service)
    try:
        batch = _Batch.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise APIError(f"{'.'.join(map(str, first['loc'])) or 'request'}: {first['msg']}", 400) from None
    if batch.protocol_version != PROTOCOL:
        raise APIError(f"protocol {batch.protocol_version!r:.80}: expected {PROTOCOL}", 400)
    if batch.grad_mode:
        raise APIError("scores have no gradients: grad_mode must be off", 400)
    if not batch.requests:
        return batch, {}
    parts: BodyParts = {}
    names: dict[str, str] = {}
    for item in batch.requests:
        version = _version(service, item)
        signatures = "+".join(one.partition("#")[0] for one in version.split("+"))  # a client need not know identities
        if item.scorer_version not in (None, version, signatures):
            raise APIError(f"scorer_version {item.scorer_version!r:.80} is expected, but {version} is served", 400)
    rows = [_row(f"edit-{index}", item, names, parts) for index, item in enumerate(batch.requests)]
    decoded = decode_request_json({"schema": SCHEMA, "samples": rows}, parts, service.limits)
    score_requests: dict[str, ScoreRequest] = {}
    for name in dict.fromkeys(name for item in batch.requests for name in item.required_rewards):
        items = [item for item in batch.requests if name in item.required_rewards]
        keys = [item.idempotency_key or "" for item in items]
        samples = (
            sample
            for item, sample in zip(batch.requests, decoded.samples, strict=True)
            if name in item.required_rewards
        )
        key = sha256("\n".join(keys).encode()).hexdigest() if all(keys) else ""
        score_requests[name] = replace(
            decoded, samples=tuple(samples), reward=name, key=key and f"unirl/{key}/{name}"[:512]
        )
    return batch, score_requests


def _check_counts(data: Any, service: ScoringService) -> None:
    """Before validation, which would list every wrong value. Raises `APIError`."""
    items = data.get("requests") if isinstance(data, dict) else None
    if not isinstance(items, list):
        return  # rejected by the validation
    limits = service.limits
    if len(items) > limits.max_samples:
        raise APIError(f"{len(items):,} items: at most {limits.max_samples:,} are accepted", 413)
    for index, item in enumerate(items):
        for field, most in (("history", limits.max_list_length + 2), ("required_rewards", 16 + len(service.rewards))):
            values = item.get(field) if isinstance(item, dict) else None
            if isinstance(values, list) and (
                len(values) > most or any(isinstance(value, dict) and len(value) > 16 for value in values)
            ):
                raise APIError(f"edit-{index}: {len(values):,} values in {field}, or too long ones", 413)


def _row(name: str, item: _Item, names: dict[str, str], parts: BodyParts) -> dict[str, Any]:
    turns = item.history
    if len(turns) < 2:
        raise APIError(f"{name}: an edit needs at least two turns, the source and the edit, got {len(turns)}", 422)
    if len(turns) == 2 and turns[0].text and turns[1].text and turns[0].text != turns[1].text:
        raise APIError(f"{name}: two turns with different texts: the instruction is ambiguous", 422)
    image_names = []
    for turn in turns:
        if turn.image_b64 is None:
            raise APIError(f"{name}: each turn needs its image in image_b64; nothing else is supported", 422)
        if turn.image_b64 not in names:
            names[turn.image_b64] = f"image-{len(names)}"
            parts[names[turn.image_b64]] = (from_base64(name, turn.image_b64), "")
        image_names.append(names[turn.image_b64])
    texts = [turn.text or previous.text for previous, turn in pairwise(turns)]
    try:
        row = sample_row(name, texts[-1], image_names[:1], image_names[-1], item.metadata)
    except ValueError as error:
        raise APIError(str(error), 400) from None
    history = [
        {"instruction": text, "edited": image_name}
        for text, image_name in zip(texts[:-1], image_names[1:-1], strict=True)
    ]
    return {**row, "history": history}


def _version(service: ScoringService, item: _Item) -> str:
    """Signatures of the rewards that an item requires. Raises `APIError` for an unknown one."""
    if not item.required_rewards or len(set(item.required_rewards)) < len(item.required_rewards):
        raise APIError(f"required_rewards must be a list of distinct names, got {item.required_rewards!r:.80}", 400)
    rewards = [service.reward(name or "?") for name in item.required_rewards]
    return "+".join(signature_with_identity(reward.card.signature, service.identity(reward)) for reward in rewards)


def _answer(service: ScoringService, batch: _Batch, scores_by_reward: dict[str, list[Score]]) -> dict[str, Any]:
    results: list[dict[str, dict[str, float]]] = [{} for _ in batch.requests]
    errors: list[dict[str, str]] = [{} for _ in batch.requests]
    for name, scores in scores_by_reward.items():
        indices = [index for index, item in enumerate(batch.requests) if name in item.required_rewards]
        lowest = service.reward(name).card.range[0]
        values = training_values(scores, [""] * len(scores), lowest=lowest)
        for index, score, value in zip(indices, scores, values, strict=True):
            if value is not None:
                results[index][name] = {"score": value}
            else:
                errors[index][name] = f"{score.status}: {score.reason}"
    identities = [
        {**_Identity.model_validate(item.model_dump(include=set(_Identity.model_fields))).model_dump(),
         "scorer_version": _version(service, item)} for item in batch.requests
    ]  # fmt: skip
    return {"protocol_version": PROTOCOL, "results": results, "errors": errors, "identities": identities}
