"""The released code's result files: names, keys, and what stands in them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.run.golden_cases import replay_cases
from editcritic.benchmarks.run.runner import run_suite
from editcritic.benchmarks.suites.edival.suite import EdiVal
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.reward import Score
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.score import Evidence
from tests.benchmarks.suites.edival.layout import chains, write_data
from tests.benchmarks.suites.edival.made_run import MadeAnswers, write_run
from tests.reward.metrics.edival.test_consistency_golden import StandIn


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data", chains(3))


def scores(followed: tuple[float | None, ...]) -> dict[str, Score]:
    """One row's; several values are the credits of singlepass."""
    each = {
        f"operation {n}": Score.failed("no answer") if one is None else Score.of(one, "the reason")
        for n, one in enumerate(followed, 1)
    }
    alone = next(iter(each.values()))
    known = [one for one in followed if one is not None]
    whole = Score.of(sum(known) / len(known), credits=each) if len(known) == len(followed) else alone
    boxes = {"cup": Score.of(0.9), "cup (2)": Score.of(0.7)}
    light = [
        Evidence("luminance of the edited picture", numbers={"99 %": 0.8, "99.9 %": 0.9}),
        Evidence("luminance of the base picture", numbers={"99 %": 0.7, "99.9 %": 0.75}),
    ]
    return {
        "if": alone if len(followed) == 1 else whole,
        "cc": Score.of(
            0.85,
            parts={
                "objects": Score.of(0.8, parts=boxes),
                "background": Score.of(0.9),
                "objects_l1": Score.of(0.95, parts={"cup": Score.of(0.95)}),
                "background_l1": Score.not_applicable("boxes everywhere"),
            },
        ),
        "vq": Score.of(5.0, parts={"base": Score.of(4.4), "change": Score.of(0.6)}, evidence=light),
    }


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def rows(suite: EdiVal, failed: str = "", missing: str = "") -> list[ResultRow]:
    rows = []
    for item in suite.items:
        turn = int(item.labels["turn"])
        one: tuple[float | None, ...] = (float(turn != 2),)
        if suite.mode == "singlepass":
            one = tuple(float(number != 2) for number in range(1, turn + 1))
        scored = {} if item.id == missing else scores((None,) if item.id == failed else one)
        rows.append(ResultRow(item.id, item.case, item.labels, scored, "" if scored else "none"))
    return rows


def test_multipass_has_a_file_a_picture_and_two_of_rates(data, tmp_path):
    suite = EdiVal(data)
    written = suite.write_official_files(Results("x", rows(suite)), tmp_path / "out")
    names = [str(path.relative_to(tmp_path / "out")) for path in written]
    assert names == [
        *(f"multipass/{n}_input_raw.json" for n in (0, 1, 3)),
        "multipass/image_rate.json",
        "multipass/task_rate.json",
    ]
    assert read(written[-2]) == {name: [1, 0, 1] for name in ("0", "1", "3")}
    rates = read(written[-1])
    assert list(rates) == ["overall", "1", "2", "3"]
    assert rates["overall"] == [1, 0, 1] * 3
    kinds = [item.labels["type"] for item in suite.items if item.labels["turn"] == 2]
    assert {kind: rates["2"][kind] for kind in kinds} == {kind: [0] * kinds.count(kind) for kind in kinds}
    assert rates["2"]["plausibility"] == []
    assert rates["2"]["human_preference_score"] == [5.0] * 3


def test_a_pictures_file_says_what_the_released_code_says(data, tmp_path):
    suite = EdiVal(data)
    suite.write_official_files(Results("x", rows(suite)), tmp_path)
    page = read(tmp_path / "multipass" / "0_input_raw.json")
    assert list(page) == ["base_image_quality", "1", "2", "3"]
    assert page["base_image_quality"] == {
        "base_image_human_preference_score": 4.4,
        "base_image_p99": 0.7,
        "base_image_p999": 0.75,
    }
    turn, row = page["2"], suite.turns["0/multipass/2"]
    assert (turn["instruction"], turn["format_instructions"]) == (row.instructions[-1], row.formats[-1])
    assert (turn["instruction_following"], turn["instruction_following_reason"]) == (0, "the reason")
    assert (turn["p999"], turn["human_preference_score"]) == (0.9, 5.0)
    assert turn["meta"]["src_image_path"] == "multipass/0_input_raw_turn_1.png"
    assert turn["meta"]["base_image_path"] == "multipass/0_input_raw.png"
    assert turn["meta"]["eval_bg_consistency"] is row.pools.background


def test_consistency_stands_there_unless_the_background_changes(data, tmp_path):
    suite = EdiVal(data)
    suite.write_official_files(Results("x", rows(suite)), tmp_path)
    pages = [read(tmp_path / "multipass" / f"{n}_input_raw.json")[str(turn)] for n in (0, 1, 3) for turn in (1, 2, 3)]
    kept = [page for page in pages if page["meta"]["eval_bg_consistency"]]
    assert 0 < len(kept) < len(pages), "the chains are to have both"
    for page in kept:
        assert page["object_dinov3_consistency_mean"] == 0.8
        assert page["object_details"]["object_dinov3_consistency"] == [0.9, 0.7]
        assert page["background_dinov3_consistency"] == page["bg_details"]["bg_dinov3_masked_similarity"] == 0.9
        assert page["background_l1_consistency"] is None
    for page in pages:
        if page not in kept:
            assert page["object_dinov3_consistency_mean"] is page["bg_details"] is None


def test_singlepass_has_a_file_a_turn_with_all_its_instructions(data, tmp_path):
    suite = EdiVal(data, mode="singlepass")
    written = suite.write_official_files(Results("x", rows(suite)), tmp_path)
    assert len(written) == 3 * 3 + 2
    page = read(tmp_path / "singlepass" / "1_input_raw_turn_3.json")
    assert page["instruction_following_list"] == [1, 0, 1]
    assert page["instruction_following"] == 1
    assert page["task_types"] == list(suite.turns["1/singlepass/3"].types)
    assert page["meta"]["src_image_path"] == "singlepass/1_input_raw.png"
    assert "base_image_quality" in page
    assert read(tmp_path / "singlepass" / "image_rate.json")["1"] == [1, 0, 1], "the last instruction of each"


def test_a_failure_is_null_and_in_no_rate_and_a_picture_that_lacks_a_turn_is_not_there(data, tmp_path):
    suite = EdiVal(data)
    suite.write_official_files(Results("x", rows(suite, failed="0/multipass/3", missing="1/multipass/3")), tmp_path)
    assert read(tmp_path / "multipass" / "0_input_raw.json")["3"]["instruction_following"] is None
    assert read(tmp_path / "multipass" / "image_rate.json") == {"3": [1, 0, 1]}
    assert read(tmp_path / "multipass" / "task_rate.json")["overall"] == [1, 0, 1, 0, 1]
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
