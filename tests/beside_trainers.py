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
from packaging.requirements import Requirement
from packaging.version import Version

from editcritic.reward.toml_files import tomllib

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TIMEOUT_S = 240
DIFFUSION_NFT = (
    *("numpy==1.26.4", "pillow==10.4.0", "opencv-python==4.11.0.86", "scipy==1.15.2", "scikit-image==0.25.2"),
    *("matplotlib==3.10.0", "pydantic==2.10.6", "fastapi==0.115.11", "uvicorn==0.34.0", "aiohttp==3.11.13"),
    *("albumentations==1.4.10", "wandb==0.18.7", "huggingface-hub==0.29.1", "tokenizers==0.19.1"),
)
EXTRAS = PROJECT["optional-dependencies"]


@dataclass(frozen=True)
class Trainer:
    """A package that shares an environment with editcritic.

    name: as docs/trainers.md has it. source: where its requirements were read. pins: those that could conflict with
    ours. models: those on what runs models, which pip is not asked about; the table of the page names the one that
    keeps the extra `hf` away. pythons: the oldest and the newest one with wheels for its pins.
    """

    name: str
    source: str
    pins: tuple[str, ...]
    models: tuple[str, ...] = ()
    pythons: tuple[tuple[int, int], tuple[int, int]] = ((3, 10), (3, 13))

    def __str__(self) -> str:
        return self.name


TRAINERS = [
    Trainer("Flow-GRPO", "setup.py at 94e23ee", (*DIFFUSION_NFT, "requests==2.32.3"),
            ("transformers==4.40.0", "torch==2.6.0"), ((3, 10), (3, 12))),
    Trainer("Edit-R1", "setup.py at 4217f25",
            tuple(pin for pin in DIFFUSION_NFT if not pin.startswith(("numpy", "huggingface-hub", "tokenizers"))),
            pythons=((3, 10), (3, 12))),
    Trainer("DiffusionNFT", "setup.py at 24af555", DIFFUSION_NFT, ("transformers==4.40.0", "torch==2.6.0"),
            ((3, 10), (3, 12))),
    Trainer(
        "Flow-Factory", "pyproject.toml at a0b2bc5",
        ("numpy>=1.26.4", "pillow>=10.4.0", "pydantic>=2.8.0", "requests>=2.31.0", "protobuf>=6.33.2",
         "tokenizers>=0.22.1", "huggingface-hub>=0.35.3", "datasets>=3.3.2", "imageio[ffmpeg]>=2.37.2"),
        ("transformers>=4.57.1", "torch>=2.6.0", "accelerate>=1.11.0", "peft>=0.17.0"),
    ),
    Trainer(
        "verl-omni", "pyproject.toml at a1139ba, and vllm 0.27.0, which it pins",
        ("pyarrow>=19.0.0,<25.0.0", "packaging>=20.0", "pandas", "uvicorn", "ray[default]", "hydra-core",
         "fastapi[standard]<0.137.0,>=0.133.0", "starlette>=1.0.1", "pydantic>=2.12.0", "openai>=2.0.0",
         "prometheus-client>=0.18.0", "prometheus-fastapi-instrumentator>=8.0.0", "setuptools<81.0.0,>=77.0.3",
         "opencv-python-headless>=4.13.0", "numba==0.65.0", "safetensors>=0.8.0", "jsonschema>=4.23.0"),
        ("transformers<=5.14.1", "torch==2.13.0", "llguidance<1.8.0,>=1.7.0"),
    ),
    Trainer(
        "UniRL", "pyproject.toml at 1a7b501, and sglang 0.5.12.post1, which it pins",
        ("numpy>=1.24,<3", "ray[default]>=2.9,<2.55", "pillow>=10", "wandb>=0.16,<0.20", "openai==2.6.1",
         "opencv-python-headless==4.10.0.84", "pyyaml==6.0.1", "scikit-image==0.25.2", "outlines==0.1.11",
         "av==16.1.0", "imageio==2.36.0", "prometheus-client>=0.20.0", "cloudpickle==3.1.2", "fastapi"),
        ("transformers==5.6.0", "torch==2.11.0", "llguidance<0.8.0,>=0.7.11"), ((3, 12), (3, 12)),
    ),
    Trainer(
        "OmniGen2-RL", "examples/OmniGen2-RL/requirements.txt of EditScore at 6e0f1b9, and torch as its README has it",
        ("omegaconf", "pandas", "wandb", "matplotlib", "flask", "python-dotenv", "datasets", "json-repair"),
        ("torch==2.7.1",),
    ),
    Trainer(
        "DanceGRPO", "pyproject.toml at 15cc71d, in the fork for Kontext (fcc4583) the same",
        ("numpy==1.26.3", "pillow==10.2.0", "pydantic==2.9.2", "fastapi==0.115.3", "uvicorn==0.32.0",
         "idna==3.6", "requests==2.31.0", "urllib3==2.2.0", "scipy==1.13.0", "matplotlib==3.9.2",
         "opencv-python==4.10.0.84", "opencv-python-headless==4.10.0.84", "albumentations==1.4.20",
         "pyyaml==6.0.1", "tqdm==4.66.5", "protobuf==5.28.3", "wandb==0.18.5", "huggingface-hub==0.26.1"),
        ("transformers==4.46.1", "torch==2.5.0", "accelerate==1.0.1", "peft==0.13.2"), ((3, 10), (3, 12)),
    ),
    Trainer(
        "TRL", "the wheel of 1.16.0",
        ("datasets>=4.7.0", "huggingface-hub>=0.34.0", "numpy>=1.26.0", "pandas>=2.1.1", "psutil>=5.9.4",
         "pyarrow>=21.0.0", "pyyaml>=6.0.1"),
        ("transformers>=4.56.2", "accelerate>=1.10.1"), ((3, 11), (3, 13)),
    ),
    Trainer(
        "verl", "setup.py at 1dda039",
        ("numpy>=2.0.0", "pyarrow>=19.0.0", "packaging>=20.0", "pandas", "uvicorn", "fastapi", "ray[default]>=2.41.0"),
        ("transformers>=5.5.3,!=5.6.0,<5.11",),
    ),
    Trainer("gradio 6", "its wheel, which wants pillow < 13", ("gradio>=6,<7",)),
]  # fmt: skip
HERE = [one for one in TRAINERS if one.pythons[0] <= sys.version_info[:2] <= one.pythons[1]]


def conflicts_with_models(trainer: Trainer) -> list[str]:
    """The pins that the lower bound of a requirement of our extra `hf` does not meet. None of them has a cap."""
    ours = {one.name: one for one in map(Requirement, EXTRAS["hf"])}
    found = []
    for text in trainer.models:
        pin = Requirement(text)
        ((operator, lowest),) = ((one.operator, Version(one.version)) for one in ours[pin.name].specifier)
        assert operator == ">="
        caps = [one for one in pin.specifier if one.operator in ("==", "<", "<=")]
        if any(Version(cap.version) <= lowest and not cap.contains(lowest) for cap in caps):
            found.append(text)
    return found


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
    """Includes the client of judge servers, which connects trainers to large judges in other environments, and what
    scores without models."""
    versions = resolved(*PROJECT["dependencies"], *EXTRAS["serve"], *EXTRAS["ocr"], *trainer.pins)
    pinned = dict(pin.split("==") for pin in trainer.pins if "==" in pin)
    assert {name: versions[name] for name in pinned} == pinned
    assert {"numpy", "pillow", "pydantic", "httpx2"} <= set(versions)


def test_what_does_not_fit_is_seen() -> None:
    with pytest.raises(AssertionError, match="conflict"):
        resolved(*PROJECT["dependencies"], "pillow<10")


def test_the_page_says_beside_which_ones_models_can_run() -> None:
    """The rows of the table in docs/trainers.md: trainer, oldest Python, source, models in its process."""
    page = (Path(__file__).parents[1] / "docs" / "trainers.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## Installation\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    expected = []
    for trainer in TRAINERS:
        conflicts = " and ".join(f"`{pin}`" for pin in conflicts_with_models(trainer))
        models = f"no: {conflicts}" if conflicts else "yes"
        expected.append([trainer.name, "{}.{}".format(*trainer.pythons[0]), trainer.source, models])
    assert rows[2:] == expected
