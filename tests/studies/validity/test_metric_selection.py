"""The report has every installed metric that can be scored, in each of its protocols, and reasons for the others."""

from functools import cache
from pathlib import Path

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import SpecError
from studies.validity.metric_runner import LocalMetricRunner
from studies.validity.metric_selection import (
    DEGRADED,
    VARIANTS,
    installed_metrics,
    metrics_by_system,
    select_metrics,
    truth_of,
)
from studies.validity.study import ValidityStudy
from tests.studies.validity.fake_metrics import case

CASES = [case("honest"), case("hack", followed=False, kept=0.5, mode="nothing", severity=1.0, is_hack=True)]
POOR = case("poor", mode=DEGRADED, severity=0.3)


@cache
def of_every_form():
    return [*cases(12), *compound_cases(2), *composition_cases(4)]


def test_installed_metrics_are_tried_once_for_each_protocol_and_variant():
    metrics, _ = installed_metrics(scene_experts(), CASES)
    specs = [one.spec for one in metrics]
    assert len(specs) == len(set(specs))
    assert {"edival-if?protocol=paper", "edival-if?protocol=official", "edival-cc?protocol=fixed"} <= set(specs)
    assert {"edit-balanced", "guards", *VARIANTS} <= set(specs)
    assert {one.name for one in metrics} >= {"edival-if paper", "edival-if paper dense", "edival-cc fixed l1", "guards"}


def test_what_cannot_be_asked_is_listed_with_the_reason():
    served = {role: expert for role, expert in scene_experts().items() if role != "preference"}
    _, skipped = installed_metrics(served, CASES)
    reasons = {one.name: one.reason for one in skipped}
    assert reasons["edival-vq"] == "no expert for the role preference"
    assert "composition" in reasons["gate"]


def test_a_metric_somebody_installs_appears_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[editcritic.rewards]\ntheirs = their_metric:Theirs\nlost = lost_one:Lost\n")
    (tmp_path / "their_metric.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from editcritic.reward import Card, Score\n"
        "@dataclass(frozen=True)\n"
        "class Theirs:\n"
        "    protocol: str = 'a'\n"
        "    card: ClassVar = Card('theirs', 1, 'theirs', protocols=('a', 'b'), aspect='consistency')\n"
        "    def __call__(self, sample):\n"
        "        return Score.of(1.0)\n"
        "        yield\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    metrics, skipped = installed_metrics(scene_experts(), CASES)
    theirs = [one for one in metrics if one.card.name == "theirs"]
    assert [(one.name, one.truth_column, one.main_statistic) for one in theirs] == [
        ("theirs a", "kept", "Spearman"),
        ("theirs b", "kept", "Spearman"),
    ]
    assert "lost_one" in next(one.reason for one in skipped if one.name == "lost")


def test_a_metric_is_compared_with_what_its_card_speaks_about():
    metrics, _ = installed_metrics(scene_experts(), CASES)
    truths = {one.spec: (one.truth_column, one.main_statistic) for one in metrics}
    assert truths["edival-if?protocol=paper"] == ("followed", "AUC")
    assert truths["edival-o"] == ("overall", "Spearman")
    assert truths["guards"] == ("clean", "AUC")


def test_the_modes_that_are_treated_apart_exist():
    assert DEGRADED in {one.name for one in FAILURE_MODES}


def test_quality_is_compared_with_degraded_pictures_where_there_are_any():
    assert [one.truth_column for one in select_metrics(["edival-vq"], scene_experts(), CASES)] == ["overall"]
    assert [one.truth_column for one in select_metrics(["edival-vq"], scene_experts(), [*CASES, POOR])] == ["quality"]
    assert [truth_of(one, "quality") for one in (*CASES, POOR)] == [0.0, None, -0.3]
    assert [truth_of(one, "clean") for one in CASES] == [True, False]
    assert [truth_of(one, "overall") for one in CASES] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("spec", "problem"), [("edvial-if", "did you mean"), ("edival-vq", "preference"), ("gate", "gate")]
)
def test_a_chosen_metric_that_cannot_be_asked_is_refused(spec, problem):
    served = {role: expert for role, expert in scene_experts().items() if role != "preference"}
    with pytest.raises(SpecError, match=problem):
        select_metrics([spec], served, CASES)


def test_every_metric_has_a_system_and_systems_stand_together():
    metrics, _ = installed_metrics(scene_experts(), of_every_form())
    groups = metrics_by_system(metrics)
    assert list(groups) == list(dict.fromkeys(one.system for one in metrics))
    assert sum(map(len, groups.values())) == len(metrics)
    assert {"EdiVal", "Complex-Edit", "DLEBench", "I2I-Bench", "I2I-Bench, several sources"} < set(groups)
    assert [one.spec for one in groups["Complex-Edit"]][:2] == [
        "complex-edit-if?mode=numeric&n=4",
        "complex-edit-if?mode=token_probability",
    ]
    assert len(groups["I2I-Bench"]) >= 15
    assert groups["Complex-Edit"][0].name == "complex-edit-if numeric n=4"
    assert "others" not in groups


def test_every_installed_metric_has_a_value_somewhere_and_fails_nowhere():
    served = scene_experts()
    metrics, skipped = installed_metrics(served, of_every_form())
    assert all("composition, which takes" in metric.reason for metric in skipped)
    study = ValidityStudy.of(
        of_every_form(), metrics, LocalMetricRunner(served).run(metrics, (case.sample for case in of_every_form()))
    )
    for metric in metrics:
        coverage = study.statuses(metric)
        reasons = {row.reason for row in study.rows[metric.spec] if row.status == "failed"}
        assert not coverage.failed, (metric.spec, reasons)
        assert coverage.scored, metric.spec
        assert coverage.scored + coverage.not_applicable > 0.5 * len(of_every_form()), metric.spec
