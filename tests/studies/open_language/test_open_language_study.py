"""The study in small: scores with nothing given, figures by hand, tables and numbers."""

import json

import pytest

from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.reward.planners.rule_planner import RulePlanner
from studies.open_language import __main__ as command
from studies.open_language.open_cases import REQUEST_KINDS, open_cases
from studies.open_language.study import MetricResult, OpenRow, OpenStudy, open_experts, score_cases


def row(request, flaw, followed, following, reward, *, kind="plain", read=True, same=True):
    def result(value):
        return MetricResult(
            value, "scored" if value is not None else "abstained", "" if value else "no 'reason 1' here"
        )

    truth = GroundTruth(followed, 1.0, 1.0)
    return OpenRow(f"{request}/{flaw}", request, "?", kind, flaw, truth, read, same, result(following), result(reward))


STUDY = OpenStudy(
    [
        row("a", "", True, 0.9, 0.8),
        row("a", "copy", False, 0.1, 0.0),
        row("b", "", True, 0.3, 0.2, kind="keep"),
        row("b", "shifted", True, 0.9, 0.5, kind="keep", same=False),
        row("c", "", True, None, None, read=False, same=False),
        row("c", "copy", False, None, 0.0, read=False, same=False),
    ]
)


def test_figures_of_six_cases_by_hand():
    assert STUDY.scored.value == pytest.approx(4 / 6)  # a guard's 0 without a plan is no score
    assert STUDY.right.value == pytest.approx(3 / 4)
    assert STUDY.ordered.value == pytest.approx(1 / 2)
    assert STUDY.plans_read.value == pytest.approx(4 / 6)
    assert STUDY.plans_same.value == pytest.approx(3 / 4)
    assert [pair[1].flaw for pair in STUDY.inversions()] == ["shifted"]
    assert STUDY.missing_reasons() == {"abstained: no … 1' here": 2}
    assert STUDY.of_kind("keep").right.value == pytest.approx(1 / 2)
    assert len(STUDY.of_flaw("copy").rows) == 4
    assert len(STUDY.only("copy").rows) == 2


def test_experts_see_pixels_and_the_rules_read():
    experts = open_experts()
    assert isinstance(experts["planner"], RulePlanner)
    assert experts["judge"].id == "scene-judge@3"


def test_plans_by_hand_score_nearly_everything_right():
    study = OpenStudy(score_cases(open_cases(2 * len(REQUEST_KINDS), seed=11), "hand"))
    assert (study.scored.value or 0) >= 0.95
    assert (study.right.value or 0) >= 0.9
    assert (study.ordered.value or 0) >= 0.9


def test_the_command_writes_tables_and_numbers(tmp_path, capsys):
    out = tmp_path / "open.json"
    with pytest.raises(SystemExit) as ended:
        command.main(["--seeds", "11", "12", "--cases", "24", "--processes", "2", "--json", str(out)])
    assert ended.value.code in (0, 1)  # 24 cases decide no bar
    tables = capsys.readouterr().out
    assert "| share of cases with a score |" in tables
    assert "| none: honest | 12 |" in tables
    numbers = json.loads(out.read_text(encoding="utf-8"))
    assert len(numbers["rows"]) == 24
    assert len({row["id"] for row in numbers["rows"]}) == 24
    assert set(numbers["kinds"]) == set(REQUEST_KINDS)
    assert numbers["command"].endswith(f"--json {out}")
    assert numbers["figures"]["scored"]["count"] == 24
