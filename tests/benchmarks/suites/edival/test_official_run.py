"""A run in protocol `official`, from instruction file and pictures to result files, is that of the released code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.run.golden_cases import replay_cases
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.edival.suite import EdiVal, Mode
from editcritic.reward.experts.pixel_features import PixelFeatures

from ....reward.metrics.edival.test_consistency_golden import StandIn
from .made_run import MadeAnswers, write_run

GOLDEN = Path(__file__).parents[3] / "golden"
UNMEASURED = {
    "plausibility", "aesthetics", "mean_s", "high_sat_ratio", "sharpness", "contrast", "OEI", "clip_frac",
    "multi_channel_clip_frac", "blown_flat_frac", "tail_std",
}  # fmt: skip
"""Quality figures that are not measured here: empty lists, and not recorded."""


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Any]:
    """Content by file."""
    lines = (GOLDEN / "edival_official_run.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["file"]: entry["content"] for entry in map(json.loads, lines)}


@pytest.mark.parametrize("mode", ["multipass", "singlepass"])
def test_the_result_files_of_a_run_are_those_of_the_released_code(
    mode: Mode, recorded: Mapping[str, Any], tmp_path: Path
) -> None:
    data, outputs = write_run(tmp_path)
    answers = MadeAnswers()
    roles = dict.fromkeys(("detector", "judge", "reader", "preference"), answers)
    experts = {**roles, "features": StandIn(), "pixels": PixelFeatures()}
    run_suite(EdiVal(data, mode=mode), outputs, experts=experts, protocol="official", out=tmp_path / "out")
    folder = next(path for path in (tmp_path / "out").rglob(mode) if path.is_dir())
    written = {f"{mode}/{path.name}": json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()}
    expected = {name: content for name, content in recorded.items() if name.startswith(mode)}
    assert sorted(written) == sorted(expected)
    ours, theirs = (dict(leaves(files)) for files in (written, expected))
    assert len(theirs) > 1000
    assert set(ours) == set(theirs)
    assert {path: (ours[path], value) for path, value in theirs.items() if not alike(ours[path], value)} == {}


def alike(one: Any, other: Any) -> bool:
    return bool(one == (pytest.approx(other, abs=1e-5) if isinstance(other, float) else other))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Path -> value of everything in JSON, but reasons and what is not measured; of an empty list and object too."""
    if isinstance(value, dict | list) and value:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for name, entry in entries:
            if name not in UNMEASURED and "reason" not in str(name):
                yield from leaves(entry, f"{path}/{name}")
    else:
        yield path, value


def test_instructions_of_all_kinds_are_followed_where_the_released_code_says_so() -> None:
    agree, total, disagreements = replay_cases(GOLDEN / "edival_official_cases.jsonl", "official")
    assert (agree, total) == (270, 270), "\n".join(map(str, disagreements[:20]))
