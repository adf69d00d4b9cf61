"""The device of all models, short pauses of judges, and fixtures of the detector tests."""

from pathlib import Path
from typing import Any

import pytest

from editcritic.reward.experts.judging import http_endpoint
from editcritic.reward.experts.loading import checkpoint, devices
from editcritic.reward.queries import Detections
from editcritic.reward.retry import RetryPolicy

from .checkpoints import DEVICE
from .detectors import DETECTORS, Answer, Detector


@pytest.fixture(scope="session", autouse=True)
def models_on_the_device():
    """Models that a test puts on the CPU, or nowhere, are on `DEVICE`, in float32 if it names no precision. So that
    results are those of the CPU but for the order of sums, on a machine with an accelerator too. Reference outputs are
    the library's on the CPU."""

    def resolve(torch: Any, device: str, dtype: str) -> tuple[Any, Any]:
        if not DEVICE.startswith("cpu"):
            torch.backends.cudnn.allow_tf32 = False  # convolutions have it by default, at three decimal digits
        device = DEVICE if device in ("auto", "cpu") else device
        return devices.resolve_device_and_dtype(torch, device, "float32" if dtype == "auto" else dtype)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checkpoint, "resolve_device_and_dtype", resolve)
        yield


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(http_endpoint, "BACKOFF", RetryPolicy(first_pause_s=0.01))


@pytest.fixture(scope="module", params=list(DETECTORS))
def detector(request) -> Detector:
    """Every detector, unless a test file overrides the fixture."""
    return DETECTORS[request.param]


@pytest.fixture(scope="module")
def folder(detector, tmp_path_factory) -> Path:
    return detector.make(tmp_path_factory.mktemp("detector"))


@pytest.fixture
def expert(detector, folder) -> Any:
    return detector.expert(str(folder), device="cpu", min_score=0.0, **detector.options)


@pytest.fixture(scope="module")
def library(detector, folder) -> Answer:
    return detector.library(folder)


@pytest.fixture(scope="module")
def expected(detector, library) -> list[Detections]:
    """Reference detections of `detector.mixed`."""
    return [library(query) for query in detector.mixed]
