"""A detector, its checkpoint, the expert for it, and what the library says: for the tests of detectors."""

from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import Detections

from .detectors import DETECTORS, Answer, Detector


@pytest.fixture(scope="module", params=list(DETECTORS))
def detector(request) -> Detector:
    """Each of them, unless a file has a fixture of this name for its own."""
    return DETECTORS[request.param]


@pytest.fixture(scope="module")
def folder(detector, tmp_path_factory) -> Path:
    return detector.make(tmp_path_factory.mktemp("detector"))


@pytest.fixture
def expert(detector, folder) -> Any:
    return detector.expert(str(folder), device="cpu", floor=0.0, **detector.options)


@pytest.fixture(scope="module")
def library(detector, folder) -> Answer:
    return detector.library(folder)


@pytest.fixture(scope="module")
def expected(detector, library) -> list[Detections]:
    """What the library says of `detector.mixed`."""
    return [library(query) for query in detector.mixed]
