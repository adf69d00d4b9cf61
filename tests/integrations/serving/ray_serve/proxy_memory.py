"""What Ray's proxy holds of bodies while no replica takes them, with and without our limits: `python -m …`.

One replica with one place, which is taken; eight clients send 64 MiB each, in chunks that no length announces, where
bodies have at most 1 MiB.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import ray
from ray import serve

from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.integrations.serving.ray_serve.deployment import application
from editcritic.integrations.serving.ray_serve.proxy import CALLBACK, CALLBACK_VARIABLE
from editcritic.integrations.serving.server.settings import MIB
from studies.load_test.synthetic_reward import synthetic_samples

from ..served import SMALL
from ..test_hostile import peak
from .ray_judge import descendants

_PORT = 8656


def grown(folder: str) -> tuple[int, list[int]]:
    """MiB by which the proxy's peak grows, and the statuses of the answers; 0 for a closed connection or none."""
    expert = f"preference=tests.integrations.serving.ray_serve.ray_judge:Noted?folder={folder}&seconds=20.0"
    metric = "studies.load_test.synthetic_reward:SyntheticMetric"
    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    serve.start(http_options={"port": _PORT})
    serve.run(application({"rewards": [metric], "experts": [expert], "cpus": 0.5, "max_requests": 1, "limits": SMALL}))
    proxy = next(pid for pid, name in descendants(os.getpid()).items() if name.startswith("ray::ProxyActor"))
    before = peak(proxy)
    samples = synthetic_samples(1, size=8)
    taken = attach_images(request_json(samples), images_by_digest(samples))

    def post(content: Iterator[bytes] | None) -> int:
        url = f"http://127.0.0.1:{_PORT}/v1/score"
        try:
            if content is None:
                return httpx2.post(url, json=taken, timeout=60).status_code
            return httpx2.post(url, content=content, timeout=8).status_code
        except httpx2.TransportError:
            return 0

    with ThreadPoolExecutor(9) as threads:
        first = threads.submit(post, None)
        while not list(Path(folder).glob("asked-*")):
            pass
        statuses = list(threads.map(post, [(bytes(MIB) for _ in range(64)) for _ in range(8)]))
        first.result()
    result = (peak(proxy) - before) // MIB
    serve.shutdown()
    ray.shutdown()
    return result, sorted(statuses)


if __name__ == "__main__":
    for limited in (False, True):
        os.environ[CALLBACK_VARIABLE] = CALLBACK if limited else ""
        os.environ["EDITCRITIC_RAY_PROXY"] = '{"limits": {"max_body_bytes": 1048576}}'
        with tempfile.TemporaryDirectory() as notes_folder:
            mib, answers = grown(notes_folder)
        sys.stdout.write(f"{'with' if limited else 'without'} limits: {mib} MiB more, answers {answers}\n")
        sys.stdout.flush()
