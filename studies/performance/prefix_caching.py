"""Prompt tokens that a server with a prefix cache has computed already, for the requests that metrics send.

    python -m studies.performance.prefix_caching [--json]

Counts, not times. Every judge query of a metric goes out as a real request of `OpenAIJudge` to servers on the loopback
that count as vLLM does: blocks of 16 tokens, each known by all that stands before it, pictures by their content, the
last token always computed. Tokens are words and signs, and a picture has a fixed number. The replies are drawn at
random, since no model answers; so metrics go on as with any judge, and their values mean nothing.

Columns, of the same requests:

- `one`: one server that has every earlier request. With a cache that is never full, no order of sending has more.
- `burst`: as `one`, if a server finds nothing of the 15 requests before, since they are computed at the same time.
- `two`: two servers, as the judge routes requests: by the first picture. `in turn`: two servers that take turns.
- `words first`: one server, if the words stood before the pictures.
- `encoded`: pictures that `two` servers encode, over the different ones.
- `data`: pictures that are sent with their data, of all that are sent, with `media_ids` and one server that keeps all.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from editcritic.benchmarks.sceneedit import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import EditSample, Engine, Expert, build, default_experts
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.queries import AsyncExpert, FreeText, Grade, Judge, Levels, Reply, YesNo
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.outcomes import Failure
from editcritic.reward.queries.response_formats import Json

from .command import parser_of, print_rows

BLOCK = 16
"""Tokens of a block, in vLLM by default."""

CONCURRENCY = 16
_GROUPS = 8  # sources, with 16 edits each
_PICTURE_TOKENS = 1024

METRICS = (
    "any-edit",
    "judge-levels",
    "edival-o",
    "complex-edit-o",
    "viescore-o",
    "imgedit",
    "dlebench-if?mode=plain",
    "i2i-overall",
)

Tokens = Sequence[str]


class PrefixCache:
    """Blocks that were computed, of any number of requests."""

    def __init__(self) -> None:
        self._blocks: set[str] = set()

    def cached(self, tokens: Tokens) -> int:
        """Tokens at the beginning that are known."""
        known = 0
        for number, block in enumerate(_blocks(tokens), 1):
            if block not in self._blocks or number * BLOCK >= len(tokens):  # the last token is always computed
                break
            known = number * BLOCK
        return known

    def add(self, tokens: Tokens) -> None:
        self._blocks.update(_blocks(tokens))


def _blocks(tokens: Tokens) -> Iterator[str]:
    """The digest of every full block and all before it."""
    digest = hashlib.sha256()
    for start in range(0, len(tokens) - len(tokens) % BLOCK, BLOCK):
        digest.update("\0".join(tokens[start : start + BLOCK]).encode())
        yield digest.hexdigest()


@dataclass(frozen=True)
class Request:
    """A request that a server got: its tokens, the same with the words first, and digests of its pictures."""

    tokens: Tokens
    words_first: Tokens
    pictures: Sequence[str]


def read_request(body: Mapping[str, Any], picture_tokens: int, kept: dict[str, str]) -> Request:
    """The tokens of a chat completion's messages. kept: pictures that were sent with an id, by id, for those that come
    without data. Raises KeyError for one that was not sent.
    """
    parts: list[tuple[bool, list[str]]] = []
    pictures: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        parts.append((False, [f"<{message['role']}>"]))
        content_parts: Sequence[Mapping[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        )
        for part in content_parts:
            if part["type"] == "text":
                parts.append((False, re.findall(r"\w+|[^\w\s]", part["text"])))
            else:
                url = kept[part["uuid"]] if part["image_url"] is None else part["image_url"]["url"]
                kept[part.get("uuid", url)] = url
                pictures.append(hashlib.sha256(url.encode()).hexdigest())
                parts.append((True, [pictures[-1]] * picture_tokens))
    ordered = sorted(parts, key=lambda part: part[0])
    return Request(_joined(parts), _joined(ordered), pictures)


def _joined(parts: Iterable[tuple[bool, list[str]]]) -> list[str]:
    return [token for _, tokens in parts for token in tokens]


class CountingServer:
    """A server of chat completions that replies `ok`, counts cached tokens, and reports them."""

    def __init__(self, picture_tokens: int) -> None:
        self.requests: list[Request] = []
        self.cached_tokens = 0
        self._cache = PrefixCache()
        self._kept: dict[str, str] = {}
        self._lock = threading.Lock()
        counting = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                data = json.dumps(counting.answer(read_request(body, picture_tokens, counting._kept))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 4 * CONCURRENCY

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, request: Request) -> dict[str, Any]:
        with self._lock:
            cached = self._cache.cached(request.tokens)
            self._cache.add(request.tokens)
            self.requests.append(request)
            self.cached_tokens += cached
        message = {"role": "assistant", "content": "ok"}
        return {
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {
                "prompt_tokens": len(request.tokens),
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class DrawnJudge(AsyncExpert):
    """Sends every query to a served judge, and replies at random, by the digest of the query."""

    kinds = (Judge,)
    concurrency = CONCURRENCY

    def __init__(self, served: OpenAIJudge) -> None:
        self.served = served
        self.id = f"drawn, sent to {served.id}"

    async def answer(self, query: Judge) -> Outcome:
        # As free text, whose messages are the same, so that any reply can be read and none is asked for again.
        reply = await self.served.answer(replace(query, form=FreeText()))
        return reply if isinstance(reply, Failure) else _drawn(query)

    async def close(self) -> None:
        await self.served.close()

    def usage(self) -> Mapping[str, float]:
        return self.served.usage()


def _drawn(query: Judge) -> Reply:
    share, form = int(query.digest[:8], 16) / 2**32, query.form
    match form:
        case YesNo():
            options: Sequence[str] = ("yes", "no")
        case Levels():
            options = form.options
        case Grade():
            options = form.options
        case Json():
            return Reply(json.dumps(_json_reply(query.topic, share)))
        case _:
            return Reply(_text_reply(query.topic, share))
    chosen = int(share * len(options))
    left = (1 - share) / (len(options) - 1)
    return Reply(options[chosen], {one: share if at == chosen else left for at, one in enumerate(options)})


def _json_reply(topic: str, share: float) -> Any:
    if "questions" in topic:
        return {"questions": [f"Is part {number} as it should be?" for number in range(1, 6)]}
    return {"score": [int(11 * share), int(1100 * share) % 11], "reasoning": "."}


def _text_reply(topic: str, share: float) -> str:
    if topic.startswith("imgedit/"):
        grades = [1 + int(5 * share), 1 + int(500 * share) % 5, 1 + int(50_000 * share) % 5]
        return "Brief reasoning: drawn.\n" + "\n".join(
            f"{name}: {grade}" for name, grade in zip(("Prompt Compliance", "Quality", "Fidelity"), grades, strict=True)
        )
    label = ("Wrong Action", "Flawless Execution", "Single Anomaly", "Perfect Consistency")[int(4 * share)]
    return f"<Start Thinking>.</Start Thinking><Start Final Answer>{label}</Start Final Answer>"


@contextmanager
def counting_servers(number: int, picture_tokens: int) -> Iterator[list[CountingServer]]:
    """Servers on the loopback."""
    with ExitStack() as stack:
        servers = []
        for _ in range(number):
            servers.append(CountingServer(picture_tokens))
            stack.callback(servers[-1].close)
        yield servers


def send(
    metric: str, samples: Sequence[EditSample], servers: Sequence[CountingServer], *, media_ids: bool = False
) -> dict[str, Any]:
    """Score samples with a judge at these servers. Returns what the judge has counted."""
    urls = [server.url for server in servers]
    served = OpenAIJudge("counted", urls, logprobs=False, concurrency=CONCURRENCY, media_ids=media_ids)
    experts: dict[str, Expert] = {**scene_experts(), "judge": DrawnJudge(served)}
    built = build(metric)
    with Engine() as engine:
        list(engine.run([(score_with_signature(built, sample), sample) for sample in samples], experts))
    return dict(served.usage())


def priced_experts() -> dict[str, Expert]:
    """Those that need no download, and a judge at a counting server of this process, with prices: for `--experts`."""
    server = CountingServer(_PICTURE_TOKENS)
    prices = {"usd_per_million_in": 0.2, "usd_per_million_cached_in": 0.02, "usd_per_million_out": 0.8}
    served = OpenAIJudge("counted", server.url, logprobs=False, concurrency=CONCURRENCY, **prices)  # type: ignore[arg-type]
    return {**default_experts(), "judge": DrawnJudge(served)}


def share_cached(requests: Sequence[Tokens], servers: int = 1, in_flight: int = 1) -> float:
    """The share of prompt tokens that servers have in their caches, if they get the requests in turn.

    in_flight: so many requests are computed at the same time, and find nothing of each other.
    """
    caches = [PrefixCache() for _ in range(servers)]
    cached = total = 0
    for start in range(0, len(requests), in_flight):
        burst = [
            (caches[index % servers], requests[index]) for index in range(start, min(start + in_flight, len(requests)))
        ]
        for cache, tokens in burst:
            cached += cache.cached(tokens)
            total += len(tokens)
        for cache, tokens in burst:
            cache.add(tokens)
    return cached / total if total else 0.0


def measure(metric: str, samples: Sequence[EditSample], picture_tokens: int) -> dict[str, Any]:
    """The figures of one metric."""
    with counting_servers(1, picture_tokens) as (server,):
        counts = send(metric, samples, [server])
        requests, cached = list(server.requests), server.cached_tokens
    if not requests:
        return {"metric": metric, "requests": 0}
    total = sum(len(request.tokens) for request in requests)
    if (counts["requests"], counts["prompt_tokens"], counts["cached_tokens"]) != (len(requests), total, cached):
        raise AssertionError(f"the judge counts {counts}, its server {len(requests)} requests and {total} tokens")
    with counting_servers(2, picture_tokens) as servers:
        two = send(metric, samples, servers)
        encoded = sum(len({one for request in server.requests for one in request.pictures}) for server in servers)
    with counting_servers(1, picture_tokens) as servers:
        by_id = send(metric, samples, servers, media_ids=True)
        if _pictures_shown(servers[0].requests) != _pictures_shown(requests):
            raise AssertionError("with ids, the server sees other pictures")
    tokens = [request.tokens for request in requests]
    return {
        "metric": metric,
        "requests": len(requests),
        "prompt_tokens": total,
        "one": cached / total,
        "burst": share_cached(tokens, in_flight=CONCURRENCY),
        "two": two["cached_tokens"] / two["prompt_tokens"],
        "in turn": share_cached(tokens, servers=2),
        "words first": share_cached([request.words_first for request in requests]),
        "encoded": encoded / len({one for request in requests for one in request.pictures}),
        "data": by_id["images_sent"] / (by_id["images_sent"] + by_id["images_by_id"]),
    }


def _pictures_shown(requests: Iterable[Request]) -> list[tuple[str, ...]]:
    return sorted(tuple(request.pictures) for request in requests)


def edits(groups: int) -> list[EditSample]:
    """Groups of 16 edits of one source and instruction, one group after the other."""
    return [
        replace(case.sample, id=f"{number}-{place}")
        for number, group in enumerate(cases.same_truth_groups(groups))
        for place, case in enumerate(group)
    ]


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    options = parser.parse_args()
    samples = edits(_GROUPS)
    rows = [measure(metric, samples, _PICTURE_TOKENS) for metric in METRICS]
    print_rows(options, f"cached share of prompt tokens: {len(samples)} edits of {_GROUPS} sources", rows)


if __name__ == "__main__":
    main()
