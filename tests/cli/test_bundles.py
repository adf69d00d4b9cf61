"""Every command with --experts takes a bundle, and says which there are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from typer.main import get_command

from editcritic.cli.app import app
from editcritic.reward.experts.loading.model_registry import bundles
from editcritic.reward.installation import install_command

from ..benchmarks.conftest import Command


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.png", tmp_path / "b.png"
    for shade, path in zip((90, 200), paths, strict=True):
        PIL.Image.fromarray(np.full((64, 64, 3), shade, np.uint8)).save(path)
    return paths


def commands(group: Any = None, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command with --experts."""
    found: dict[str, Any] = {}
    named: Any = group or get_command(app)
    for name, command in named.commands.items():
        if hasattr(command, "commands"):
            found |= commands(command, (*words, name))
        elif any("--experts" in parameter.opts for parameter in command.params):
            found[" ".join((*words, name))] = command
    return found


NEEDS_RESULTS = {"bench verify", "judge faults", "judge variance", "judge agreement"}
"""They read results, samples or a data set before they bind experts, by the same function."""


def arguments(command: str, pair: tuple[Path, Path]) -> list[Any]:
    a, b = pair
    out = a.parent / "out"
    packs, selector = ("--prompts", "-", "--prompts", a.parent), ("--selector", "best-of?n=2")
    table: dict[str, list[Any]] = {
        "score": ["score", a, b, "make it red"],
        "rank": ["rank", b, "--source", a, "--instruction", "make it red"],
        "edit": ["edit", a, "--instruction", "make it red", "--pipeline", "sceneedit", "-o", out],
        "audit": ["audit", "demo", "--limit", "1"],
        "serve": ["serve", "--port", "0"],
        "estimate": ["estimate", "--limit", "4"],
        "app": ["app", "--port", "0"],
        "doctor": ["doctor"],
        "bench run": ["bench", "run", "sceneedit", "--outputs", a.parent, "-o", out],
        "bench prepare": ["bench", "prepare", "sceneedit", "--stats"],
        "bench prompts": ["bench", "prompts", "sceneedit", *packs, "--outputs", a.parent, "-o", out],
        "bench generate": ["bench", "generate", "sceneedit", "--pipeline", "sceneedit", *selector, "-o", out],
    }
    return table[command]


@pytest.mark.parametrize("command", commands())
def test_every_help_names_the_bundles(command: str) -> None:
    (option,) = (option for option in commands()[command].params if "--experts" in option.opts)
    assert "small" in option.help or command == "bench verify"


@pytest.mark.parametrize("command", sorted(set(commands()) - NEEDS_RESULTS))
def test_an_unknown_bundle_lists_those_there_are(command: str, pair: tuple[Path, Path], editcritic: Command) -> None:
    refused = editcritic(*arguments(command, pair), "--experts", "smal", code=2)
    first, *lines = refused.stderr.removeprefix("editcritic: starting the page with any-edit, smal\n").splitlines()
    assert "did you mean small?" in first
    assert [line.split(":")[0].strip() for line in lines] == list(bundles())


def test_score_with_cpu_is_score(pair: tuple[Path, Path], editcritic: Command) -> None:
    plain, named = (
        json.loads(editcritic("score", *pair, "make it red", *options, "--json").stdout)
        for options in ((), ("--experts", "cpu"))
    )
    assert (named["scores"], named["reward"]) == (plain["scores"], plain["reward"])


def test_the_doctor_tells_of_a_bundle(editcritic: Command) -> None:
    shown = editcritic("doctor", "--experts", "small").stdout
    text = " ".join(shown.split())
    for words in (
        "Bundle small: a first judge of 2B",
        f"{install_command('hf,ocr')} torchvision",
        "cannot answer: masks of objects",
        "Qwen/Qwen3-VL-2B-Instruct",
        "would be downloaded, about 4.0 GiB",
        "To download, with the first query: about 4.9 GiB",
        "need no weights",
    ):
        assert words in text
    document = json.loads(editcritic("doctor", "--experts", "laptop", "--json").stdout)
    by_role = {role: entry for entry in document["experts"] for role in entry["roles"]}
    assert by_role["detector"]["expert"] == "Annotated, which queries GroundingDino"
    assert by_role["detector"]["download"] + by_role["features"]["download"] == 780_000_000
    assert sum(entry["download"] for entry in document["experts"]) <= 1.2e9
    document = json.loads(editcritic("doctor", "--experts", "edival-official", "--json").stdout)
    assert [bundle["name"] for bundle in document["bundles"]] == ["edival-official"]
    by_role = {role: entry for entry in document["experts"] for role in entry["roles"]}
    assert by_role["features"]["gated"]
    assert (by_role["features"]["licence"], by_role["judge"]["download"]) == ("DINOv3 License", 16_582_800_000)
    assert by_role["preference"]["download"] is None


def test_the_doctor_names_the_gate_and_what_large_needs(editcritic: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    editcritic("doctor", "--experts", "large", code=2, says="set EDITCRITIC_JUDGE_URL=http://127.0.0.1:8000/v1")
    monkeypatch.setenv("EDITCRITIC_JUDGE_URL", "http://127.0.0.1:8000/v1")
    text = " ".join(editcritic("doctor", "--experts", "large").stdout.split())
    assert "SAM License, gated: accept its terms on the hub" in text
    assert "server at 127.0.0.1:8000/v1" in text
