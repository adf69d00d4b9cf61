"""How often a source is asked about, by what Ray's router knows of it: `python -m … [--groups 64] [--rollouts 8]`.

Two replicas. A group has one source and so many rollouts, and each request has two of them; requests of all groups are
sent by eight threads, in order. A replica asks about a source once, so one router that keeps a source together asks
once for each group, and one that does not at most twice.
"""

import argparse
import hashlib
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx2

from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.integrations.serving.ray_serve.deployment import JudgeReplica
from editcritic.integrations.serving.server.settings import JudgeSettings
from editcritic.reward import Card, EditSample, Program, Score, ask
from editcritic.reward.queries import Rate
from studies.load_test.synthetic_reward import synthetic_samples

from .ray_judge import notes, ray_judge

NEEDS = ("ray",)
_IN_A_REQUEST = 2


class SourceAndEdit:
    """Asks about the source, which is the same for a group, and about the edit."""

    card: ClassVar[Card] = Card(
        "source-and-edit", 1, "both numbers", range=(0.0, None), unit="none", kinds={"preference": ("rate",)}
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        before = yield from ask(Rate(sample.sources[0]))
        after = yield from ask(Rate(sample.edited))
        return Score.of((before.value or 0.0) + (after.value or 0.0))


def settings(folder: Path, router: str) -> dict[str, Any]:
    return {
        "rewards": [f"{__spec__.name}:SourceAndEdit"],
        "experts": [f"preference=tests.integrations.serving.ray_serve.ray_judge:Noted?folder={folder}&seconds=0.002"],
        "replicas": "2",
        "cpus": 0.25,
        "router": router,
    }


@contextmanager
def judge(folder: Path, router: str) -> Iterator[str]:
    with ray_judge(**settings(folder, router)) as running:
        yield running.url


@contextmanager
def multiplexed(folder: Path, _: str) -> Iterator[str]:
    """The same with Ray's model multiplexing, in which each source is a model."""
    import ray
    from ray import serve

    class Multiplexed(JudgeReplica):
        @serve.multiplexed(max_num_models_per_replica=4096)
        async def source(self, model_id: str) -> str:
            return model_id

        def __serve_build_asgi_app__(self) -> Any:
            async def app(scope: Any, receive: Any, send: Any) -> None:
                if scope["type"] == "http" and (model_id := serve.get_multiplexed_model_id()):
                    await self.source(model_id)
                await self.judge_app(scope, receive, send)

            return app

    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        options: dict[str, Any] = {"num_replicas": 2, "max_ongoing_requests": 64}
        deployment: Any = serve.deployment(
            serve.ingress()(Multiplexed), name="judge", ray_actor_options={"num_cpus": 0.25}, **options
        )
        serve.run(deployment.bind(JudgeSettings.of(settings(folder, "load"))))
        yield "http://127.0.0.1:8000"
    finally:
        serve.shutdown()
        ray.shutdown()


def measured(
    start: Callable[[Path, str], Any], router: str, folder: Path, groups: int, rollouts: int
) -> tuple[int, dict[str, int]]:
    """Questions about sources in all, and all questions by replica."""
    samples = synthetic_samples(groups * rollouts, size=8, group=rollouts)
    sources = {Rate(sample.sources[0]).digest for sample in samples}
    assert len(sources) == groups
    bodies = []
    for at in range(0, len(samples), _IN_A_REQUEST):
        chunk = samples[at : at + _IN_A_REQUEST]
        session = hashlib.blake2b(chunk[0].group.encode(), digest_size=16).hexdigest()
        headers = {"x-session-id": session, "serve_multiplexed_model_id": session}
        bodies.append((json.dumps(attach_images(request_json(chunk), images_by_digest(chunk))), headers))
    with start(folder, router) as url, httpx2.Client(timeout=60) as client, ThreadPoolExecutor(8) as threads:

        def post(body: tuple[str, dict[str, str]]) -> int:
            return client.post(f"{url}/v1/score", content=body[0], headers=body[1]).status_code

        assert set(threads.map(post, bodies)) == {200}
    by_replica = {path.name: len(path.read_text().split()) for path in folder.glob("asked-*")}
    return sum(digest in sources for digest in notes(folder, "asked")), by_replica


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--rollouts", type=int, default=8)
    options = parser.parse_args()
    for name, start, router in (
        ("load", judge, "load"),
        ("multiplexing", multiplexed, "load"),
        ("source", judge, "source"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            asked, by_replica = measured(start, router, Path(folder), options.groups, options.rollouts)
        shares = "/".join(str(count) for count in sorted(by_replica.values()))
        sys.stdout.write(f"{name}: {asked} questions about {options.groups} sources; by replica {shares}\n")


if __name__ == "__main__":
    main()
