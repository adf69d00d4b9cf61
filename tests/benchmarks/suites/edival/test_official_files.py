"""The released code's result files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.run.replay import replay_cases
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.edival.suite import EdiVal
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import Score
from editcritic.reward.experts.pixel_features import PixelFeatures
from tests.benchmarks.suites.edival.layout import chains, write_data
from tests.benchmarks.suites.edival.made_run import MadeAnswers, write_run
from tests.reward.metrics.edival.test_consistency_golden import StandIn


def test_a_failure_is_null_and_in_no_rate_and_a_picture_that_lacks_a_turn_is_not_there(tmp_path):
    suite = EdiVal(write_data(tmp_path / "data", chains(3)))

    def score(item: SuiteItem) -> Score:
        failed = item.id == "0/multipass/3"
        return Score.failed("no answer") if failed else Score.of(float(item.labels["turn"] != 2), "the reason")

    rows = [
        ResultRow(item.id, item.case, item.labels, {} if missing else {"if": score(item)}, "none" if missing else "")
        for item in suite.items
        for missing in [item.id == "1/multipass/3"]
    ]
    suite.write_official_files(Results("x", rows), tmp_path)
    page, image, task = (
        json.loads((tmp_path / "multipass" / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("0_input_raw", "image_rate", "task_rate")
    )
    assert [page[turn]["instruction_following"] for turn in "123"] == [1, 0, None]
    assert page["2"]["instruction_following_reason"] == "the reason"
    assert (image, task["overall"], task["2"]["plausibility"]) == ({"3": [1, 0, 1]}, [1, 0, 1, 0, 1], [])
    assert not (tmp_path / "multipass" / "1_input_raw.json").exists()


GOLDEN = Path(__file__).parents[3] / "golden"
UNMEASURED = {
    "plausibility", "aesthetics", "mean_s", "high_sat_ratio", "sharpness", "contrast", "OEI", "clip_frac",
    "multi_channel_clip_frac", "blown_flat_frac", "tail_std",
}  # fmt: skip
"""Quality figures that are not measured here: empty lists, and not recorded."""


@pytest.fixture(scope="module")
def recorded():
    """Content by file."""
    lines = (GOLDEN / "edival_official_run.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["file"]: entry["content"] for entry in map(json.loads, lines)}


@pytest.mark.parametrize("mode", ["multipass", "singlepass"])
def test_the_result_files_of_a_run_are_those_of_the_released_code(mode, recorded, tmp_path):
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


def test_instructions_of_all_kinds_are_followed_where_the_released_code_says_so():
    agree, total, disagreements = replay_cases(GOLDEN / "edival_official_cases.jsonl", "official")
    assert (agree, total) == (270, 270), "\n".join(map(str, disagreements[:20]))
