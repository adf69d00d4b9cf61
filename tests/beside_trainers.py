"""Checks by pip's resolver that editcritic can be installed with trainers, for the Python that runs this.

It needs a package index, so `make test`, which runs without network, does not collect it; `make test-lowest` and
`make test-pythons` run it by name. Nothing is installed.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from editcritic.reward.tomllib_compat import tomllib

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TIMEOUT_S = 240


@dataclass(frozen=True)
class Trainer:
    """A package that shares an environment with editcritic, and its requirements that could conflict."""

    name: str
    source: str
    pins: tuple[str, ...]
    newest_python: tuple[int, int] = (3, 13)  # the newest one with wheels for its pins

    def __str__(self) -> str:
        return self.name


TRAINERS = [
    Trainer(
        "Flow-GRPO",
        "setup.py of yifan123/flow_grpo at 94e23ee",
        (
            *("numpy==1.26.4", "pillow==10.4.0", "opencv-python==4.11.0.86", "scipy==1.15.2", "scikit-image==0.25.2"),
            *("matplotlib==3.10.0", "pydantic==2.10.6", "requests==2.32.3", "fastapi==0.115.11", "uvicorn==0.34.0"),
            *("transformers==4.40.0", "tokenizers==0.19.1", "huggingface-hub==0.29.1"),
        ),
        newest_python=(3, 12),
    ),
    Trainer(
        "verl",
        "requirements.txt of volcengine/verl at 035d7a7",
        ("numpy<2.0.0", "pyarrow>=19.0.0", "packaging>=20.0", "pandas", "uvicorn", "fastapi"),
        newest_python=(3, 12),
    ),
    Trainer("gradio 6", "its wheel, which wants pillow < 13", ("gradio>=6,<7",)),
]
HERE = [trainer for trainer in TRAINERS if sys.version_info[:2] <= trainer.newest_python]


def resolved(*requirements: str) -> dict[str, str]:
    """Versions that pip would install for all requirements, by name. Fails with pip's message on a conflict."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--report", "-"]
    run = subprocess.run([*pip, *quiet, *requirements], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert run.returncode == 0, run.stderr
    return {
        package["metadata"]["name"].lower(): package["metadata"]["version"]
        for package in json.loads(run.stdout)["install"]
    }


@pytest.mark.parametrize("trainer", HERE, ids=str)
def test_it_fits_beside(trainer: Trainer) -> None:
    """Includes the client of judge servers, which connects trainers to large judges in other environments."""
    versions = resolved(*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"], *trainer.pins)
    pinned = dict(pin.split("==") for pin in trainer.pins if "==" in pin)
    assert {name: versions[name] for name in pinned} == pinned
    assert {"numpy", "pillow", "pydantic", "httpx2"} <= set(versions)


def test_what_does_not_fit_is_seen() -> None:
    with pytest.raises(AssertionError, match="conflict"):
        resolved(*PROJECT["dependencies"], "pillow<10")
