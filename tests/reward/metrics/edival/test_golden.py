"""The official protocol, against the verdicts the released code reached on recorded answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.run.golden_cases import GoldenCase, GoldenExpert, detector_calls, read_cases, replay_cases
from editcritic.reward.engine.program import Ask
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries.kinds import Detect, Query
from editcritic.reward.score import Score


@pytest.fixture(scope="module")
def golden() -> Path:
    return Path(__file__).parents[3] / "golden" / "edival_instruction_following.jsonl"


def test_all_golden_cases_agree_in_verdict_and_detector_calls(golden: Path) -> None:
    agree, total, disagreements = replay_cases(golden, "official")
    assert (agree, total) == (2730, 2730), "\n".join(map(str, disagreements[:20]))


def test_the_detector_is_asked_in_the_order_of_the_released_code(golden: Path) -> None:
    """What the evidence says was asked is what was asked: the program is stepped through by hand."""
    cases = list(read_cases(golden))
    recorded = GoldenExpert(cases)
    metric = InstructionFollowing("official")
    for case in cases:
        score, queries = by_hand(metric, case, recorded)
        names = {case.picture(name).digest: name for name in ("source", "edited")}
        assert [(names[query.image.digest], *query.phrases) for query in queries] == [call[:2] for call in case.calls]
        assert detector_calls(score, case) == case.calls
        assert score.value == case.expected


def by_hand(metric: InstructionFollowing, case: GoldenCase, recorded: GoldenExpert) -> tuple[Score, list[Detect]]:
    program, answers, queries = metric(case.sample), None, []
    try:
        while True:
            request = program.send(answers)
            assert isinstance(request, Ask)
            queries += [query for query in request.queries if isinstance(query, Detect)]
            adapted = [recorded.rewrite_query(query, case.sample) for query in request.queries]
            answers = tuple(recorded([query for query in adapted if isinstance(query, Query)]))
    except StopIteration as stop:
        return stop.value, queries


def test_the_dense_form_agrees_with_every_golden_verdict(golden: Path) -> None:
    metric = InstructionFollowing("official", dense=True)
    cases = list(read_cases(golden))
    recorded = GoldenExpert(cases)
    degrees = {}
    for case in cases:
        score, _ = by_hand(metric, case, recorded)
        assert score.value is not None
        assert (score.value >= 0.5) == bool(case.expected)
        degrees[case.id] = score.value
    assert len(set(degrees.values())) > 1000  # judge-only verdicts tie where the judge gives no probability


def line_of(golden: Path, number: int) -> dict[str, Any]:
    with golden.open(encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(number + 1), lines, strict=False)][number]


def test_a_case_that_comes_out_otherwise_is_told(golden: Path, tmp_path: Path) -> None:
    wrong, shuffled, silent = (line_of(golden, number) for number in range(3))
    wrong["expected"] = 1 - wrong["expected"]
    shuffled["detector_calls"].reverse()
    silent["vlm"] = {}
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in (wrong, shuffled, silent)), encoding="utf-8")
    agree, total, disagreements = replay_cases(file, "official")
    assert (agree, total) == (0, 3)
    lines = [str(item) for item in disagreements]
    assert lines[0].startswith(f"{wrong['id']}: expected {wrong['expected']}, got {1 - wrong['expected']}")
    assert "expected detector calls" in lines[1]
    assert "got failed (golden edival-if: no answer is recorded for 'added')" in lines[2]


def test_calls_do_not_count_for_other_protocols(golden: Path) -> None:
    agree, total, disagreements = replay_cases(golden, "paper")
    assert total == 2730
    assert agree + len(disagreements) == total
    assert all(item.score.value != item.case.expected for item in disagreements)


def test_a_line_that_is_no_case_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text('{"id": "1"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="line 1: not a golden case"):
        replay_cases(file, "official")
    with pytest.raises(ValueError, match="paper and official"):
        replay_cases(file, "fixed")
