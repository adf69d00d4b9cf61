"""A judge server in a thread, and waiting for what it does."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from editcritic.integrations.serving.server.app import create_app, serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig, ServerLimits
from editcritic.integrations.serving.server.trainer_protocols import add_trainer_protocols
from editcritic.reward import Expert, Reward

from ...reward.fakes import Fake, Rated

PATIENCE_S = 90.0  # for what is at hand in no time, unless the machine is busy
TOKEN = "the-token-of-the-test"


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


def idle(service: ScoringService) -> bool:
    return not (service.bytes.used or service.samples.used or service.active_requests or service.in_flight)
