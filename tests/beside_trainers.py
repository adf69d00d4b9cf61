"""Whether editcritic can be installed beside a trainer: pip says so, for the Python that runs this.

It asks a package index, so `make test` does not collect it: its tests need no network. `make test-lowest` and
`make test-pythons`, which have just installed from an index, start it by its name. Nothing is installed.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from editcritic.reward.toml import tomllib

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TIMEOUT_S = 240


@dataclass(frozen=True)
class Trainer:
    """What shares an environment with editcritic, and those of its requirements that could bar it."""

    name: str
    source: str
    pins: tuple[str, ...]
    newest_python: tuple[int, int] = (3, 13)  # the last one that its pins have wheels for

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
    """What pip would install for all of them together, by name. Fails, as pip says, where they exclude each other."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--only-binary", ":all:"]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--report", "-"]
    run = subprocess.run([*pip, *quiet, *requirements], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert run.returncode == 0, run.stderr
    return {one["metadata"]["name"].lower(): one["metadata"]["version"] for one in json.loads(run.stdout)["install"]}


@pytest.mark.parametrize("trainer", HERE, ids=str)
def test_it_fits_beside(trainer: Trainer) -> None:
    """With the client of judge servers, which is how a trainer of another environment is rewarded by large judges."""
    versions = resolved(*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["serve"], *trainer.pins)
    pinned = dict(pin.split("==") for pin in trainer.pins if "==" in pin)
    assert {name: versions[name] for name in pinned} == pinned
    assert {"numpy", "pillow", "pydantic", "httpx2"} <= set(versions)


def test_what_does_not_fit_is_seen() -> None:
    with pytest.raises(AssertionError, match="conflict"):
        resolved(*PROJECT["dependencies"], "pillow<10")
