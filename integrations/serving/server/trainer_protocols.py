"""Judge protocols of trainers on the judge server. Off unless selected.

    editcritic serve ... --trainer-protocol edit-r1,verl-omni,unirl

| protocol | endpoints | source |
|---|---|---|
| `edit-r1` | POST /mode/logits_non_cot, /mode/score_continue: pickled `{ref_images, images, prompts, metadatas}` -> pickled `{scores}` | github.com/PKU-YuanGroup/Edit-R1, `flow_grpo/rewards.py` (244883c), `reward_server/reward_server.py` (1b76330) |
| `verl-omni` | POST /verl-omni: pickled `{images, prompts, metadata}` -> pickled `{scores}` | github.com/verl-project/verl-omni, `docs/start/http_scorer.md` (16f9152), `http_scorer_client.py` (0ef63e5) |
| `unirl` | POST /score, GET /health, /rewards: JSON | see `unirl_protocol` |

In all of them images are bytes of JPEG (or PNG, WebP) files. Pickles are read by `restricted_pickle`, which executes
nothing: PIL images, arrays and all other objects are refused with 400. Flow-GRPO's own remote clients (`deqa_score_
remote`, `geneval_score`, `unifiedreward_score_remote`) send such pickles too, without a source image, and some with
prompts as arrays: they cannot score edits, use `integrations.trainers.flow_grpo` instead.

Edit-R1. `requirement` in a row's metadata becomes the sample's `hint`. Its client waits on a 503 as `Retry-After` says
(urllib3 does, whatever `status_forcelist` is), repeats a 500 for hours (never sent here), and parses any other response
as scores: a rejection, which is JSON, ends its run with UnpicklingError; the server logs the reason. It sends images in
parts of 64 with all prompts in each part, so parts are rejected if there are more than 64: keep
`config.sample.train_batch_size` at 64.

verl-omni. Its client sends no source: `metadata` needs `ref_images`, for each image the bytes of its source, or a list
of several; `integrations.trainers.verl_omni` needs no such changes. The client of 0ef63e5 raises on a rejection; an
older one (2fbad52) turns it into a score of 0.0 and must not be used. Also set `required=true`: otherwise verl-omni's
`MultiVisualRewardManager` (061f8b9) turns the client's exception into 0.0.

Edits without a score: these two protocols only have numbers, one per image. So the whole request fails: with 503 if a
sample failed (it may succeed on a retry; the third time it is 422), with 422 if one is not applicable or abstained,
which is final; the error names the edits. on_unscored="nan": NaN among the scores, for trainers that ignore NaN. In
Edit-R1's tracker a NaN makes the advantages of its whole group NaN; for verl-omni, see
`integrations.trainers.verl_omni`.

Tokens: these clients send no headers. If the server has a token, put it into their URL: http://any:token@host:8321, for
Edit-R1 REWARD_SERVER=any:token@host:8321.
"""  # noqa: E501  (a table)

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from ....reward import EditSample, Score
from ...trainers.trainer_batches import METADATA_KEY, sample_row
from ...trainers.trainer_reward import describe_unscored
from ..http_protocol import SCHEMA, APIError, ScoreRequest
from .app import score_unless_disconnected
from .capacity import ServerBusy
from .limits import ServerLimits
from .request_decoding import BodyParts, decode_request_json
from .restricted_pickle import PickleError, dumps, loads
from .service import ScoringService

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

TRAINER_PROTOCOLS: Final = ("edit-r1", "verl-omni", "unirl")

OnUnscored = Literal["refuse", "nan"]

_UNSCORED: Final[Mapping[str, OnUnscored]] = {"refuse": "refuse", "nan": "nan"}  # narrows strings to the literal

_MAX_DEPTH = 32
_TEXT_OF_A_VALUE = 64
"""Characters of text that count as one value: checking text takes time in its length."""

_REPEATED_VALUES = 50_000
"""Values of the metadata beyond one for each byte of a pickle, which may name a value again: each row may have the
metadata of all. A million in seven kilobytes took seconds."""

_MAX_RETRIES = 2
"""How often a request with a failed score is answered with 503."""

_RETRY_AFTER_S = 5.0

log = logging.getLogger("editcritic.serving")

RequestReader = Callable[[Any, ServerLimits], ScoreRequest]


def add_trainer_protocols(
    app: FastAPI, service: ScoringService, protocols: str | Sequence[str], *, on_unscored: str = "refuse"
) -> None:
    """Add routes to an application of `app.create_app`, behind its token, limits and queue.

    protocols: of `TRAINER_PROTOCOLS`, comma-separated or a list. on_unscored: see the module; UniRL reports unscored
    samples itself. Protocols with pickles need a service with one reward: they cannot name one. Raises ValueError.
    """
    from starlette.routing import Route

    protocol_lists = [protocols] if isinstance(protocols, str) else protocols
    selected = [name.strip() for names in protocol_lists for name in names.split(",")]
    if unknown := [name for name in selected if name not in TRAINER_PROTOCOLS]:
        raise ValueError(f"no trainer protocol {unknown[0]!r}: there are {', '.join(TRAINER_PROTOCOLS)}")
    if on_unscored not in _UNSCORED:
        raise ValueError(f"on_unscored must be 'refuse' or 'nan', got {on_unscored!r}")
    if len(service.rewards) > 1 and set(selected) - {"unirl"}:
        raise ValueError(f"{', '.join(selected)}: serve one reward, since pickled requests cannot name one")
    routes: dict[str, RequestReader] = {}
    if "edit-r1" in selected:
        routes |= dict.fromkeys(("/mode/logits_non_cot", "/mode/score_continue"), read_edit_r1)
    if "verl-omni" in selected:
        routes["/verl-omni"] = read_verl_omni
    for path, reader in routes.items():
        app.router.routes.append(Route(path, _pickled(service, reader, _UNSCORED[on_unscored]), methods=["POST"]))
    if "unirl" in selected:
        from .unirl_protocol import add_unirl_routes

        add_unirl_routes(app, service)


def read_edit_r1(data: Any, limits: ServerLimits) -> ScoreRequest:
    """Decode a request of Edit-R1. Raises `APIError`."""
    payload = _check_dict(data)
    images, prompts = _list(payload, "images"), _list(payload, "prompts")
    sources = _list(payload, "ref_images")
    rows = _list(payload, "metadatas") if payload.get("metadatas") else [{}] * len(images)
    if len(prompts) > len(images) == len(sources):
        raise APIError(
            f"{len(images)} images and {len(prompts)} prompts, so they cannot be matched: this client sends all "
            "prompts with each part of 64 images; send at most 64 images at a time",
            400,
        )
    return _request(images, sources, prompts, rows, limits, hint="requirement")


def read_verl_omni(data: Any, limits: ServerLimits) -> ScoreRequest:
    """Decode a request of verl-omni's generic client. Raises `APIError`."""
    payload = _check_dict(data)
    images, prompts = _list(payload, "images"), _list(payload, "prompts")
    metadata = payload.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("ref_images"):
        raise APIError(
            "an edit is scored against its source, which verl-omni's own client does not send: use "
            "editcritic.integrations.trainers.verl_omni as the scorer, or put the sources' bytes into "
            "metadata['ref_images'], one for each image",
            422,
        )
    return _request(images, _list(metadata, "ref_images"), prompts, [metadata] * len(images), limits)


# -- pickles ----------------------------------------------------------------------------------------------------------


def _pickled(
    service: ScoringService, reader: RequestReader, on_unscored: OnUnscored
) -> Callable[[Request], Awaitable[Response]]:
    retry_counter = _RetryCounter()

    def read(body: bytearray) -> tuple[ScoreRequest, str]:
        try:
            data = loads(body, max_items=service.limits.max_json_values)
        except PickleError as error:
            raise APIError(str(error), 400) from None
        values = min(service.limits.max_json_values, _REPEATED_VALUES + len(body))
        return reader(data, replace(service.limits, max_json_values=values)), sha256(body).hexdigest()

    async def score(request: Request) -> Response:
        from fastapi import Response

        received_at = time.monotonic()
        try:
            body = bytearray()
            async for chunk in request.stream():
                body += chunk
            score_request, digest = await service.run_in_decoder(read, body)
            body = bytearray()
            scores = await score_unless_disconnected(request, service, score_request, received_at)
            if scores is None:
                return Response(status_code=499)
            values = values_or_error(
                score_request.samples, scores, on_unscored, lambda: retry_counter.may_retry(digest)
            )
        except APIError as error:
            log.warning("rejected a request to %s: %s", request.url.path, error)  # its client does not show it
            raise
        retry_counter.forget(digest)
        return Response(dumps({"scores": values}), media_type="application/octet-stream")

    return score


def values_or_error(
    samples: Sequence[EditSample],
    scores: Sequence[Score | None],
    on_unscored: OnUnscored,
    may_retry: Callable[[], bool],
) -> list[float]:
    """The values, with NaN if allowed. may_retry: whether the client may repeat the request.

    Raises `ServerBusy` and `APIError`, naming the edits without a score.
    """
    values = [math.nan if score is None or score.value is None else score.value for score in scores]
    if on_unscored == "nan" or not any(math.isnan(value) for value in values):
        return values
    message = describe_unscored(samples, scores)
    if any(score is None or score.status == "failed" for score in scores) and may_retry():
        raise ServerBusy(message, _RETRY_AFTER_S)
    raise APIError(message, 422)


class _RetryCounter:
    """Counts failures of requests. For one event loop."""

    def __init__(self, max_entries: int = 4096) -> None:
        self._max_entries = max_entries
        self._counts: OrderedDict[str, int] = OrderedDict()

    def may_retry(self, digest: str) -> bool:
        """Whether the request may be repeated once more."""
        times = self._counts.pop(digest, 0) + 1
        if times > _MAX_RETRIES:
            return False
        self._counts[digest] = times
        if len(self._counts) > self._max_entries:
            self._counts.popitem(last=False)
        return True

    def forget(self, digest: str) -> None:
        self._counts.pop(digest, None)


def _request(
    images: list[Any], sources: list[Any], prompts: list[Any], rows: list[Any], limits: ServerLimits, hint: str = ""
) -> ScoreRequest:
    """A request from lists with one item per edit. hint: the metadata field with the expected result."""
    counts = {"images": len(images), "sources": len(sources), "prompts": len(prompts), "rows of metadata": len(rows)}
    if len(set(counts.values())) > 1:
        got = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise APIError(f"lists of equal length are needed, got {got}", 400)
    if len(images) > limits.max_samples:
        raise APIError(f"{len(images):,} samples: at most {limits.max_samples:,} are accepted per request", 413)
    names = _ImageNames()
    values_left = [limits.max_json_values]
    samples = []
    for number, (edited, row_sources, prompt, row) in enumerate(zip(images, sources, prompts, rows, strict=True)):
        name = f"edit-{number}"
        if not isinstance(prompt, str):  # a nested list may have no end when it is printed
            raise APIError(f"{name}: the prompt must be a string, got {type(prompt).__name__}", 400)
        source_contents = row_sources if isinstance(row_sources, list | tuple) else [row_sources]
        if not source_contents or len(source_contents) > limits.max_list_length:
            raise APIError(
                f"{name} has {len(source_contents)} sources: 1 to {limits.max_list_length} are accepted", 400
            )
        image_names = [names.of(content, name) for content in (*source_contents, edited)]
        metadata = row if isinstance(row, dict) else {}
        extra = to_plain_json(metadata.get(METADATA_KEY, {}), values_left)
        try:
            sample = sample_row(name, prompt, image_names[:-1], image_names[-1], {METADATA_KEY: extra})
        except ValueError as error:
            raise APIError(str(error), 400) from None
        if isinstance(text := metadata.get(hint), str) and text:
            sample.setdefault("hint", text)
        samples.append(sample)
    parts: BodyParts = {name: (image_content, "") for image_content, name in names.by_content.items()}
    return decode_request_json({"schema": SCHEMA, "samples": samples}, parts, limits)


class _ImageNames:
    """The names of images; equal bytes have one name. A pickle may have one image in thousands of places: each object
    is copied and hashed once. For contents that are alive as long as this.
    """

    def __init__(self) -> None:
        self.by_content: dict[bytes, str] = {}
        self._by_object: dict[int, str] = {}

    def of(self, content: Any, sample: str) -> str:
        if id(content) in self._by_object:
            return self._by_object[id(content)]
        if not isinstance(content, bytes | bytearray):
            raise APIError(
                f"{sample}: an image must be the bytes of a JPEG, PNG or WebP file, got {type(content).__name__}", 400
            )
        name = self.by_content.setdefault(bytes(content), f"image-{len(self.by_content)}")
        self._by_object[id(content)] = name
        return name


def to_plain_json(value: Any, values_left: list[int], depth: int = 0) -> Any:
    """A copy of JSON values. values_left: the remaining number of values, in a list of one: a pickle may repeat a list
    many times within another, and that one many times again. A long text counts as several. Raises `APIError`.
    """
    values_left[0] -= 1 + (len(value) // _TEXT_OF_A_VALUE if isinstance(value, str) else 0)
    if values_left[0] < 0 or depth > _MAX_DEPTH:
        raise APIError("the metadata has too many values or levels", 413)
    if isinstance(value, dict):
        return {_key(key, values_left): to_plain_json(inner, values_left, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_json(inner, values_left, depth + 1) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise APIError(f"`{METADATA_KEY}` in the metadata must have JSON values, got {type(value).__name__}", 400)


def _key(key: Any, values_left: list[int]) -> str:
    if not isinstance(key, str):
        raise APIError(f"`{METADATA_KEY}` in the metadata has a key of {type(key).__name__}: keys must be strings", 400)
    values_left[0] -= len(key) // _TEXT_OF_A_VALUE
    return key


def _check_dict(payload: Any) -> Mapping[str, Any]:
    if not isinstance(payload, dict):
        raise APIError(f"a request must be a pickled dict, got {type(payload).__name__}", 400)
    return payload


def _list(payload: Mapping[str, Any], name: str) -> list[Any]:
    items = payload.get(name)
    if not isinstance(items, list | tuple):
        raise APIError(f"`{name}` must be a list with one item per image, got {type(items).__name__}", 400)
    if not items:
        raise APIError(f"`{name}` is empty", 400)
    return list(items)
