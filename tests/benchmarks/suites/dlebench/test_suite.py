"""DLEBench end to end: data as published, outputs in a folder, labels of a judge, the paper's tables."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.dlebench.suite import IF, VC, DleBench, size_curve
from editcritic.reward import build

from ..table_values import values
from .layout import Labels, judged, written


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "data")


@pytest.fixture
def outputs(data, tmp_path):
    """The references, under the sources' names."""
    folder = tmp_path / "outputs"
    folder.mkdir()
    for path in sorted((data / "Reference_Images").iterdir()):
        shutil.copy(path, folder / path.name.replace("_ref", ""))
    return folder


def number_of(instruction: str) -> int:
    return int(instruction.split()[-3])


def by_size(instruction: str, topic: str) -> str:
    """Edits of large objects succeed, those of small ones do not; their surroundings are unchanged."""
    if "consistency" in topic:
        return "Perfect Consistency"
    return "Flawless Execution" if number_of(instruction) >= 7 else "Localization Failure"


@pytest.mark.parametrize("mode", ["oracle", "tools", "plain"])
def test_each_mode_asks_each_criterion_once(data, outputs, mode):
    judge = Labels(by_size)
    results = judged(DleBench(data, mode=mode), outputs, judge)
    assert sorted(set(judge.queries)) == [f"dlebench/consistency_{mode}", f"dlebench/following_{mode}"]
    assert len(judge.queries) == 28
    assert all(row.value(VC) == 1.0 for row in results.rows)


def test_table_1_is_the_mean_of_both_and_its_average_unweighted(data, outputs):
    suite = DleBench(data)
    results = judged(suite, outputs, Labels(by_size))
    assert values(suite, results, "criteria")["IF"]["Change Color"] == pytest.approx(50.0)
    board = values(suite, results, "leaderboard")["IF and VC"]
    assert board["Change Color"] == board["Average"] == pytest.approx(75.0)
    assert list(board) == [
        *("Change Material", "Change Color", "Change OCR", "Change Shape", "Removal Object", "Replace Object"),
        *("Change Count", "Average"),
    ]
    half = pytest.approx(50.0)
    assert list(values(suite, results, "labels-if")["all"].values()) == [half, 0.0, 0.0, half]


def test_what_gave_no_label_is_in_no_denominator_and_counted(data, outputs):
    (outputs / "13.png").unlink()

    def mumbles(instruction: str, topic: str) -> str:
        return "whatever" if number_of(instruction) == 6 else by_size(instruction, topic)

    suite = DleBench(data)
    results = judged(suite, outputs, Labels(mumbles))
    labels = suite.tables(results)[2].rows["all"]
    assert {label: (share.value, share.count, share.num_missing) for label, share in labels.items()} == {
        "Flawless Execution": (0.5, 12, 2),
        "Over Modification": (0.0, 12, 2),
        "Wrong Action": (0.0, 12, 2),
        "Localization Failure": (0.5, 12, 2),
    }
    figure = suite.tables(results)[1].rows["IF"]["Change Color"]
    assert (figure.count, figure.num_missing) == (2, 0)
    lost = suite.tables(results)[1].rows["IF"]["Change Count"]
    assert (lost.value, lost.count, lost.num_missing) == (None, 0, 2)


def test_the_scale_curve_is_of_windows_over_the_targets_area(data, outputs):
    results = judged(DleBench(data), outputs, Labels(by_size))
    curve = size_curve(results)
    assert len(curve.areas) == 14
    assert curve.areas[0] == pytest.approx((4 / 64) ** 2, abs=1e-6)
    assert curve.window_scores.tolist() == pytest.approx([30, 40, 50, 60, 70])
    assert (curve.r or 0) > 0.99 > 0.01 > (curve.p or 0)
    assert (curve.sample_r or 0) < (curve.r or 0)
    assert size_curve(results, VC).r is None


def test_outputs_are_found_by_id_reference_or_source(data, tmp_path):
    suite = DleBench(data)
    item = suite.items[3]
    assert item.id == "3_ref"
    for name in ("3.jpg", "3_ref.png"):
        (tmp_path / name).touch()
        assert suite.find_output(tmp_path, item) == tmp_path / name
    assert suite.find_output(tmp_path, suite.items[4]) is None
    # a source that two items share names neither of their outputs
    suite = DleBench(written(tmp_path / "shared", 2, lambda line: {**line, "image": "0.png"}))
    (tmp_path / "0.png").touch()
    assert [suite.find_output(tmp_path, item) for item in suite.items] == [None, None]
    assert {item.case for item in suite.items} == {"0.png"}


def test_several_targets_are_judged_alone_and_the_worst_counts(tmp_path):
    two = [[8, 8, 14, 14], [30, 30, 40, 40]]
    suite = DleBench(written(tmp_path / "data", 1, lambda line: {**line, "bbox": two}))
    labels = iter(("Flawless Execution", "Wrong Action"))
    judge = Labels(lambda instruction, topic: "Perfect Consistency" if "consistency" in topic else next(labels))
    results = judged(suite, tmp_path / "data" / "Reference_Images", judge)
    assert results.rows[0].value(IF) == pytest.approx(1 / 3)
    assert suite.items[0].labels["targets"] == 2
    assert suite.items[0].labels["area"] == round(1e6 * (6 / 64) ** 2)


def test_the_metrics_are_built_with_the_suites_options(data: Path) -> None:
    specs = DleBench(data, context=1.5, max_turns=3).metrics()
    assert build(specs[IF]).signature == "dlebench-if@2/oracle[context=1.5]"
    assert build(specs[VC]).signature == "dlebench-vc@2/oracle[max_turns=3]"
    again = DleBench(data, **DleBench(data, context=1.5, max_turns=3).options)  # type: ignore[arg-type]
    assert again.metrics() == specs
    assert build(DleBench(data).metrics("plain")[IF]).signature == "dlebench-if@2/plain"


def test_the_papers_protocol_reaches_the_metrics_that_have_it(data):
    oracle = DleBench(data, object_names="words")
    assert dict(oracle.metrics("paper")) == {
        IF: {"use": IF, "mode": "oracle", "paper": True},  # it has no tools
        VC: {"use": VC, "mode": "oracle", "paper": True, "object_names": "words"},
    }
    assert oracle.options["object_names"] == "words"
    tools = DleBench(data, mode="tools").metrics("paper")
    assert tools[IF] == {"use": IF, "mode": "tools", "paper": True}


def test_what_cannot_be_judged_so_is_refused(data):
    for protocol in ("oracle", "paper"):
        with pytest.raises(InputError, match=f"no protocol '{protocol}' here: expected one of plain, tools"):
            DleBench(data, mode="plain").metrics(protocol)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"object_names": "synonyms"}, "no object_names 'synonyms': there are substring, words"),
        ({"mode": "blind"}, "no mode 'blind': expected one of oracle"),
        ({"context": "wide"}, "context"),
        ({"prompts": "/nowhere"}, "not a folder"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            DleBench(data, **options)


def test_a_prompt_pack_is_named_by_its_digest(data, tmp_path):
    (tmp_path / "answer.txt").write_text("Say it.", encoding="utf-8")
    suite = DleBench(data, prompts=str(tmp_path))
    assert f"prompts={suite.options['prompts']}" in build(suite.metrics()[IF]).signature
