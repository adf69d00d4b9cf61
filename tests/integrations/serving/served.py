"""A judge server in a thread, an honest request to it, and waiting for what it does."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2

from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.integrations.serving.server.app import create_app, serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import MIB, ServerConfig, ServerLimits
from editcritic.integrations.serving.server.trainer_protocols import add_trainer_protocols
from editcritic.reward import Expert, Reward

from ...reward.fakes import Fake, Rated, known, sample

PATIENCE_S = 90.0  # for what is at hand in no time, unless the machine is busy
TOKEN = "the-token-of-the-test"
SMALL: dict[str, Any] = {
    "max_samples": 8, "max_body_bytes": MIB, "max_pixels": MIB, "max_image_pixels": MIB // 4,
    "max_queued_bytes": 8 * MIB,
}  # fmt: skip
ASKED = attach_images(request_json([sample("a")]), images_by_digest([sample("a")]))


class Gated(Fake):
    """Answers nothing before `open` is set; `reached` is set when it is asked."""

    def __init__(self, **options: Any) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        super().__init__(self._when_open, **options)

    def _when_open(self, query: Any) -> Any:
        self.reached.set()
        assert self.open.wait(PATIENCE_S)
        return known(query)


@contextmanager
def serving(
    reward: Reward | Mapping[str, Reward] | None = None,
    protocols: str = "",
    *,
    expert: Expert | None = None,
    limits: Mapping[str, Any] | None = None,
    monitors: Any = None,
    loaded: bool = True,
    on_unscored: str = "refuse",
    **config: Any,
) -> Iterator[tuple[str, ScoringService]]:
    """The URL and the service of a reward (default: what an expert says of the edit). config: of `ServerConfig`."""
    reward = reward or Reward(Rated(), {"preference": expert or Fake()})
    service = ScoringService(reward, limits=ServerLimits(**limits or {}), monitors=monitors)
    settings = ServerConfig(**{"port": 0, **config})
    app = create_app(service, settings)
    if protocols:
        add_trainer_protocols(app, service, protocols, on_unscored=on_unscored)
    with serve_in_thread(service, settings, app, wait_until_loaded=loaded) as url:
        yield url, service
    service.close()


def eventually(happened: Callable[[], Any], what: str = "") -> None:
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.01)


def counted(url: str, *names: str) -> float:
    """The sum of the metrics of a server whose names begin so."""
    lines = httpx2.get(f"{url}/metrics", timeout=60).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(names))


def idle(service: ScoringService) -> bool:
    return not (service.bytes.used or service.samples.used or service.active_requests or service.in_flight)
