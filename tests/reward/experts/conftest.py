"""Fixtures of the detector tests: detector, checkpoint, expert, and transformers' reference outputs."""

from pathlib import Path
from typing import Any

import pytest

from editcritic.reward.queries import Detections

from .detectors import DETECTORS, Answer, Detector


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
