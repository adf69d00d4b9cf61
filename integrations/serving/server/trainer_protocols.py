"""The judge server in the words of trainers that have judges of their own. Off unless named.

    editcritic serve ... --shim edit-r1,verl-omni,unirl

| shim | what it answers | where the words come from |
|---|---|---|
| `edit-r1` | POST /mode/logits_non_cot, /mode/score_continue: pickled `{ref_images, images, prompts, metadatas}` -> pickled `{scores}` | github.com/PKU-YuanGroup/Edit-R1, `flow_grpo/rewards.py` (244883c), `reward_server/reward_server.py` (1b76330) |
| `verl-omni` | POST /verl-omni: pickled `{images, prompts, metadata}` -> pickled `{scores}` | github.com/verl-project/verl-omni, `docs/start/http_scorer.md` (16f9152), `http_scorer_client.py` (0ef63e5) |
| `unirl` | POST /score, GET /health, /rewards: JSON | see `shim_unirl` |

In all of them pictures are bytes of JPEG (or PNG, WebP) files. Pickles are read by `restricted_pickle`, which runs
nothing: PIL images, arrays and all other objects are refused with 400. Flow-GRPO's own remote clients (`deqa_score_
remote`, `geneval_score`, `unifiedreward_score_remote`) speak such pickles too, without a source picture, and some with
prompts as arrays: edits cannot be judged through them, see `integrations.flow_grpo` instead.

Edit-R1. `requirement` in a row's metadata becomes the sample's `hint`. Its client waits as `Retry-After` says on a 503
(urllib3 does, whatever `status_forcelist` is), repeats a 500 for hours, which is never sent, and takes any other
answer for scores: a refusal, which is JSON, ends its run with UnpicklingError, and the reason stands in the server's
log. It sends pictures in parts of 64 and all prompts with each part, so that a part is refused where there are more
than 64: keep `config.sample.train_batch_size` at 64.

verl-omni. Its client sends no source: `metadata` has to have `ref_images`, for each picture the bytes of its source, or
a list of several; `integrations.verl_omni` needs no such changes. The client of 0ef63e5 raises on a refusal; an older
one (2fbad52) makes a score of 0.0 of it, and is not to be used. Set `required=true` beside it: without, verl-omni's
`MultiVisualRewardManager` (061f8b9) makes 0.0 of what the client raises.

Without a score. These two protocols have numbers only, and one for each picture. So nobody gets any: 503 where one
failed (it may succeed when it is sent again; the same request is answered so twice, and the third time by 422), 422
where one is not applicable or abstained, which will not change; the error names the edits. unscored="nan": NaN among
the scores, for trainers that leave it out. In Edit-R1's tracker a NaN makes the advantages of its whole group NaN; in
verl-omni, see `integrations.verl_omni`.

Tokens: these clients send no headers. Where the server has a token, their URL says it: http://any:token@host:8321, for
Edit-R1 REWARD_SERVER=any:token@host:8321.
"""  # noqa: E501  (a table)

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal

from ...reward import EditSample, Score
from ..rollouts import EXTRA, row_of, said_of
from .limits import Busy, Limits
from .restricted_pickle import PickleError, dumps, loads
from .server import unless_gone
from .service import Service
from .unpacking import Parts, request_in
from .wire import SCHEMA, Request, WireError

if TYPE_CHECKING:
    from fastapi import FastAPI, Response
    from fastapi import Request as Asked

SHIMS: Final = ("edit-r1", "verl-omni", "unirl")

OnUnscored = Literal["refuse", "nan"]

_UNSCORED: Final[Mapping[str, OnUnscored]] = {"refuse": "refuse", "nan": "nan"}  # settings are texts

_DEEPEST = 32
_PATIENCE = 2
"""How often a request with a failed score is answered by 503."""

_AGAIN_S = 5.0

log = logging.getLogger("editcritic.serving")

Reader = Callable[[Any, Limits], Request]


def add_shims(app: FastAPI, service: Service, which: str | Sequence[str], *, unscored: str = "refuse") -> None:
    """Add routes to an application of `server.app_of`, behind its token, limits and queue.

    which: of `SHIMS`, with commas between, or a list of them. unscored: see the module; UniRL has words for it. Those
    with pickles need a service of one reward: they have no name for it. Raises ValueError.
    """
    from starlette.routing import Route

    given = [which] if isinstance(which, str) else which
    named = [name.strip() for names in given for name in names.split(",")]
    if unknown := [name for name in named if name not in SHIMS]:
        raise ValueError(f"no shim {unknown[0]!r}: there are {', '.join(SHIMS)}")
    if unscored not in _UNSCORED:
        raise ValueError(f"unscored is 'refuse' or 'nan', and never a number: got {unscored!r}")
    if len(service.rewards) > 1 and set(named) - {"unirl"}:
        raise ValueError(f"{', '.join(named)}: serve one reward, for pickled requests cannot say which they mean")
    routes: dict[str, Reader] = {}
    if "edit-r1" in named:
        routes |= dict.fromkeys(("/mode/logits_non_cot", "/mode/score_continue"), edit_r1)
    if "verl-omni" in named:
        routes["/verl-omni"] = verl_omni
    for path, reader in routes.items():
        app.router.routes.append(Route(path, _pickled(service, reader, _UNSCORED[unscored]), methods=["POST"]))
    if "unirl" in named:
        from .shim_unirl import add_to

        add_to(app, service)


def edit_r1(data: Any, limits: Limits) -> Request:
    """What Edit-R1 asks. Raises `WireError`."""
    table = _table(data)
    images, prompts = _list(table, "images"), _list(table, "prompts")
    sources = _list(table, "ref_images")
    rows = _list(table, "metadatas") if table.get("metadatas") else [{}] * len(images)
    if len(prompts) > len(images) == len(sources):
        raise WireError(
            f"{len(images)} pictures and {len(prompts)} prompts, so that it cannot be known whose they are: this "
            "client sends all prompts with each part of 64 pictures; ask for at most 64 at a time",
            400,
        )
    return _request(images, sources, prompts, rows, limits, hint="requirement")


def verl_omni(data: Any, limits: Limits) -> Request:
    """What verl-omni's generic client asks. Raises `WireError`."""
    table = _table(data)
    images, prompts = _list(table, "images"), _list(table, "prompts")
    metadata = table.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("ref_images"):
        raise WireError(
            "an edit is judged against its source, which verl-omni's own client does not send: use "
            "editcritic.integrations.verl_omni as the scorer, or put the sources' bytes into metadata['ref_images'], "
            "one for each picture",
            422,
        )
    return _request(images, _list(metadata, "ref_images"), prompts, [metadata] * len(images), limits)


# -- pickles ----------------------------------------------------------------------------------------------------------


def _pickled(service: Service, reader: Reader, unscored: OnUnscored) -> Callable[[Asked], Awaitable[Response]]:
    patience = _Patience()

    def read(body: bytearray) -> tuple[Request, str]:
        try:
            data = loads(body, most_items=service.limits.max_items)
        except PickleError as error:
            raise WireError(str(error), 400) from None
        return reader(data, service.limits), sha256(body).hexdigest()

    async def score(request: Asked) -> Response:
        from fastapi import Response

        since = time.monotonic()
        try:
            body = bytearray()
            async for chunk in request.stream():
                body += chunk
            asked, digest = await service.work(read, body)
            body = bytearray()
            found = await unless_gone(request, service, asked, since)
            if found is None:
                return Response(status_code=499)
            values = numbers(asked.samples, found, unscored, lambda: patience.again(digest))
        except WireError as error:
            log.warning("refused a request to %s: %s", request.url.path, error)  # its client does not show it
            raise
        patience.forget(digest)
        return Response(dumps({"scores": values}), media_type="application/octet-stream")

    return score


def numbers(
    samples: Sequence[EditSample], scores: Sequence[Score | None], unscored: OnUnscored, again: Callable[[], bool]
) -> list[float]:
    """The values, NaN among them if that is wanted. again: whether the client may send it once more.

    Raises `Busy` and `WireError`, naming those that have none.
    """
    values = [math.nan if score is None or score.value is None else score.value for score in scores]
    if unscored == "nan" or not any(math.isnan(value) for value in values):
        return values
    said = said_of(samples, scores)
    if any(score is None or score.status == "failed" for score in scores) and again():
        raise Busy(said, _AGAIN_S)
    raise WireError(said, 422)


class _Patience:
    """How often a request has failed. Of one event loop."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._times: OrderedDict[str, int] = OrderedDict()

    def again(self, digest: str) -> bool:
        """Whether it may be sent once more."""
        times = self._times.pop(digest, 0) + 1
        if times > _PATIENCE:
            return False
        self._times[digest] = times
        if len(self._times) > self._most:
            self._times.popitem(last=False)
        return True

    def forget(self, digest: str) -> None:
        self._times.pop(digest, None)


def _request(
    images: list[Any], sources: list[Any], prompts: list[Any], rows: list[Any], limits: Limits, hint: str = ""
) -> Request:
    """A request of lists, one item an edit. hint: the field of a row that tells what is right."""
    counts = {"images": len(images), "sources": len(sources), "prompts": len(prompts), "rows of metadata": len(rows)}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise WireError(f"of each edit one is needed, got {said}", 400)
    if len(images) > limits.max_samples:
        raise WireError(f"{len(images):,} samples: at most {limits.max_samples:,} are taken in one request", 413)
    names: dict[bytes, str] = {}
    left = [limits.max_items]
    written = []
    for number, (edited, before, prompt, row) in enumerate(zip(images, sources, prompts, rows, strict=True)):
        name = f"edit-{number}"
        given = list(before) if isinstance(before, list | tuple) else [before]
        if not given or len(given) > limits.max_turns:
            raise WireError(f"{name} has {len(given)} sources: 1 to {limits.max_turns} are taken", 400)
        held = [_named(one, name, names) for one in (*given, edited)]
        table = row if isinstance(row, dict) else {}
        extra = plain(table.get(EXTRA, {}), left)
        try:
            found = row_of(name, prompt, held[:-1], held[-1], {EXTRA: extra})
        except ValueError as error:
            raise WireError(str(error), 400) from None
        if isinstance(words := table.get(hint), str) and words:
            found.setdefault("hint", words)
        written.append(found)
    parts: Parts = {name: (content, "") for content, name in names.items()}
    return request_in({"schema": SCHEMA, "samples": written}, parts, limits)


def _named(content: Any, sample: str, names: dict[bytes, str]) -> str:
    """The name of a picture; the same bytes have the same."""
    if not isinstance(content, bytes | bytearray):
        raise WireError(
            f"{sample}: a picture is the bytes of a JPEG, PNG or WebP file here, got {type(content).__name__}", 400
        )
    return names.setdefault(bytes(content), f"picture-{len(names)}")


def plain(value: Any, left: list[int], depth: int = 0) -> Any:
    """A copy of what JSON can say. left: how many values more, in a list of one: a pickle may refer to one list many
    times in another, and to that one many times again. Raises `WireError`.
    """
    left[0] -= 1
    if left[0] < 0 or depth > _DEEPEST:
        raise WireError("the metadata has too many values, or layers of them", 413)
    if isinstance(value, dict):
        return {_key(key): plain(inner, left, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, left, depth + 1) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise WireError(f"`{EXTRA}` in the metadata holds what JSON has: no {type(value).__name__}", 400)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise WireError(f"`{EXTRA}` in the metadata has the key {key!r:.80}: keys are texts", 400)
    return key


def _table(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise WireError(f"a request is a pickled dict, got {type(data).__name__}", 400)
    return data


def _list(table: Mapping[str, Any], name: str) -> list[Any]:
    found = table.get(name)
    if not isinstance(found, list | tuple):
        raise WireError(f"`{name}` is a list with an item for each picture, got {type(found).__name__}", 400)
    if not found:
        raise WireError(f"`{name}` is empty", 400)
    return list(found)
