"""Judge protocols of trainers on the judge server. Off unless selected.

    editcritic serve ... --trainer-protocol edit-r1,verl-omni,omnigen2-rl,unirl

- `edit-r1` (PKU-YuanGroup/Edit-R1 4217f25): POST /mode/logits_non_cot, /mode/score_continue, pickled `{ref_images,
  images, prompts, metadatas}` -> pickled `{scores}`
- `verl-omni` (verl-project/verl-omni a1139ba): POST /verl-omni, pickled `{images, prompts, metadata}` -> `{scores}`
- `omnigen2-rl` (VectorSpaceLab/EditScore 6e0f1b9): POST /, pickled `{input_images, output_image, meta_datas,
  server_type}` -> `{scores, rewards, strict_rewards, reasoning, meta_data}`; GET /ping
- `unirl`: POST /score, GET /health, /rewards: JSON, see `unirl_protocol`

Images are bytes of JPEG, PNG or WebP files, of OmniGen2-RL also images of PIL; `restricted_pickle` refuses other
objects. Failed samples are asked again for half of their client's time-out. An edit without a value fails the whole
request, which names it: 503 if infrastructure failed (the third time 422), 422 if the reward does not apply; or it is
NaN with on_unscored="nan". A repeated request has the scores of the first one: its key is the digest of its body.

Errors, in the words that each client shows:

- Edit-R1 unpickles any response: an error is a pickle that Python's reader refuses with its words. The client repeats a
  500 for hours: an error of this server is a 501. It sends all prompts with each part of 64 images.
- verl-omni raises RuntimeError with the `error` of a pickled dict. It sends no source: `metadata` needs `ref_images`.
  An older client (2fbad52) makes 0.0 of a rejection, and must not be used.
- OmniGen2-RL logs what unpickling raises of a 200, which errors but 401 have; `/metrics` counts their own status.

Clients without headers bear the token in their URL: http://any:token@host:8321."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from ....reward import EditSample, Score
from ....reward.lru_cache import LruCache
from ....reward.training.advantages import training_values
from ...trainers.omnigen2_rl import evaluation
from ...trainers.trainer_reward import describe_unscored
from ..http_protocol import APIError, ScoreRequest
from .app import read_body, unless_disconnected
from .pickled_requests import read_edit_r1, read_omnigen2_rl, read_verl_omni
from .restricted_pickle import PickleError, dumps, error_pickle, loads
from .service import ScoringService, score_with_retries
from .settings import ServerBusy, ServerLimits

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

TRAINER_PROTOCOLS: Final = ("edit-r1", "verl-omni", "omnigen2-rl", "unirl")

OnUnscored = Literal["refuse", "nan"]

_UNSCORED: Final[Mapping[str, OnUnscored]] = {"refuse": "refuse", "nan": "nan"}  # narrows strings to the literal

_REPEATED_VALUES = 50_000
"""Values of the metadata beyond one for each byte of a pickle, which may name a value again: each row may have the
metadata of all. A million in seven kilobytes took seconds."""

_MAX_RETRIES = 2
"""How often a request that infrastructure failed is answered with 503."""

_RETRY_AFTER_S = 5.0

log = logging.getLogger("editcritic.serving")


@dataclass(frozen=True, slots=True)
class _PickledProtocol:
    """read: a value and limits to a request. answer: of scores, values, and seconds. format_error: see
    `middleware.ErrorFormat`. client_timeout_s: how long the client waits. images: whether images of PIL are read."""

    paths: tuple[str, ...]
    read: Callable[[Any, ServerLimits], ScoreRequest]
    answer: Callable[[Sequence[EditSample], Sequence[Score], Sequence[float], float], dict[str, Any]]
    format_error: Callable[[int, str], tuple[int, bytes]]
    client_timeout_s: float
    images: bool = False


def _only_scores(
    samples: Sequence[EditSample], scores: Sequence[Score], values: Sequence[float], seconds: float
) -> dict[str, Any]:
    return {"scores": list(values)}


def _error_pickle(status: int, message: str) -> bytes:
    return error_pickle(f"editcritic: HTTP {status}: {message}")


_PICKLED: Final[Mapping[str, _PickledProtocol]] = {
    "edit-r1": _PickledProtocol(
        ("/mode/logits_non_cot", "/mode/score_continue"),
        read_edit_r1,
        _only_scores,
        lambda status, message: (501 if status == 500 else status, _error_pickle(status, message)),
        360.0,
    ),
    "verl-omni": _PickledProtocol(
        ("/verl-omni",), read_verl_omni, _only_scores, lambda status, error: (status, dumps({"error": error})), 120.0
    ),
    "omnigen2-rl": _PickledProtocol(
        ("/",),
        read_omnigen2_rl,
        evaluation,
        lambda status, message: (401 if status == 401 else 200, _error_pickle(status, message)),
        600.0,
        images=True,
    ),
}


def add_trainer_protocols(
    app: FastAPI, service: ScoringService, protocols: str | Sequence[str], *, on_unscored: str = "refuse"
) -> None:
    """Add routes to an application of `app.create_app`, behind its token, limits and queue.

    Raises ValueError.

    Args:
        protocols: Of `TRAINER_PROTOCOLS`, comma-separated or a list.
        on_unscored: See the module; UniRL reports unscored samples itself. Protocols with pickles need a service with
            one reward: they cannot name one.
    """
    from fastapi import Response
    from starlette.routing import Route

    protocol_lists = [protocols] if isinstance(protocols, str) else protocols
    selected = [name.strip() for names in protocol_lists for name in names.split(",")]
    if unknown := [name for name in selected if name not in TRAINER_PROTOCOLS]:
        raise ValueError(f"no trainer protocol {unknown[0]!r}: there are {', '.join(TRAINER_PROTOCOLS)}")
    if on_unscored not in _UNSCORED:
        raise ValueError(f"on_unscored must be 'refuse' or 'nan', got {on_unscored!r}")
    if len(service.rewards) > 1 and set(selected) - {"unirl"}:
        raise ValueError(f"{', '.join(selected)}: serve one reward, since pickled requests cannot name one")
    for name in dict.fromkeys(name for name in selected if name in _PICKLED):
        endpoint = _endpoint(service, name, _UNSCORED[on_unscored])
        for path in _PICKLED[name].paths:
            app.router.routes.append(Route(path, endpoint, methods=["POST"]))
            app.state.error_formats[path] = _PICKLED[name].format_error
    if "omnigen2-rl" in selected:

        async def ping(_: Request) -> Response:
            return Response(b'{"alive": true}', media_type="application/json")

        app.router.routes.append(Route("/ping", ping, methods=["GET"]))
    if "unirl" in selected:
        from .unirl_protocol import add_unirl_routes

        add_unirl_routes(app, service)


def _endpoint(service: ScoringService, name: str, on_unscored: OnUnscored) -> Callable[[Request], Awaitable[Response]]:
    protocol = _PICKLED[name]
    retries: LruCache[str, int] = LruCache(4096)

    def read(body: bytearray) -> ScoreRequest:
        try:
            data = loads(body, max_items=service.limits.max_json_values, images=protocol.images)
        except PickleError as error:
            raise APIError(str(error), 400) from None
        values = min(service.limits.max_json_values, _REPEATED_VALUES + len(body))
        request = protocol.read(data, service.limits.model_copy(update={"max_json_values": values}))
        return replace(request, key=f"{name}/{sha256(body).hexdigest()}")

    async def score(request: Request) -> Response:
        from fastapi import Response

        received_at = time.monotonic()
        try:
            score_request = await read_body(service, request, read)
            scoring = score_with_retries(
                service, score_request, received_at=received_at, client_timeout_s=protocol.client_timeout_s
            )
            scores = await unless_disconnected(request, scoring)
            if scores is None:
                return Response(status_code=499)
            lowest, may_retry = service.reward().card.range[0], partial(_may_retry, retries, score_request.key)
            values = values_or_error(score_request.samples, scores, lowest, on_unscored, may_retry)
        except (APIError, ServerBusy) as error:
            log.warning("rejected a request to %s: %s", request.url.path, error)  # its client may not show it
            raise
        retries.pop(score_request.key)
        answer = protocol.answer(score_request.samples, scores, values, time.monotonic() - received_at)
        return Response(dumps(answer), media_type="application/octet-stream")

    return score


def values_or_error(
    samples: Sequence[EditSample],
    scores: Sequence[Score],
    lowest: float | None,
    on_unscored: OnUnscored,
    may_retry: Callable[[], bool],
) -> list[float]:
    """With NaN if allowed, else raises `ServerBusy` and `APIError`. lowest: None: that of the edit's group."""
    values = training_values(scores, [sample.group for sample in samples], lowest=lowest)
    lacking = [value is None for value in values]
    if on_unscored == "nan" or not any(lacking):
        return [math.nan if value is None else value for value in values]
    message = describe_unscored(samples, scores, lacking)
    has_failed = any(lacks and score.status == "failed" for lacks, score in zip(lacking, scores, strict=True))
    if has_failed and may_retry():
        raise ServerBusy(message, _RETRY_AFTER_S)
    raise APIError(message, 422)


def _may_retry(retries: LruCache[str, int], key: str) -> bool:
    times = (retries.pop(key) or 0) + 1
    if times <= _MAX_RETRIES:
        retries.put(key, times)
    return times <= _MAX_RETRIES
