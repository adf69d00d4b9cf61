"""Every installed metric that can be asked is in the report, under each of its protocols; the others with a reason."""

from pathlib import Path

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compositions import composition_cases
from editcritic.benchmarks.sceneedit.compounds import compound_cases
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.sceneedit.failures import MODES
from editcritic.benchmarks.validity.desk import Desk
from editcritic.benchmarks.validity.metrics import DEGRADED, VARIANTS, chosen, grouped, installed, truth_of
from editcritic.benchmarks.validity.study import Study
from editcritic.reward import SpecError

from .fakes import case

CASES = [case("honest"), case("hack", followed=False, kept=0.5, mode="nothing", severity=1.0, hack=True)]
EVERY = [*cases(18), *compound_cases(3), *composition_cases(9)]
POOR = case("poor", mode=DEGRADED, severity=0.3)


def test_installed_metrics_are_tried_once_for_each_protocol_and_variant():
    tried, _ = installed(experts(), CASES)
    specs = [one.spec for one in tried]
    assert len(specs) == len(set(specs))
    assert {"edival-if?protocol=paper", "edival-if?protocol=official", "edival-cc?protocol=fixed"} <= set(specs)
    assert {"edit-balanced", "guards", *VARIANTS} <= set(specs)
    assert {one.name for one in tried} >= {"edival-if paper", "edival-if paper dense", "edival-cc fixed l1", "guards"}


def test_what_cannot_be_asked_is_listed_with_the_reason():
    served = {role: expert for role, expert in experts().items() if role != "preference"}
    _, left = installed(served, CASES)
    reasons = {one.name: one.reason for one in left}
    assert reasons["edival-vq"] == "nobody for the role preference"
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
        "    card: ClassVar = Card('theirs', 1, 'theirs', protocols=('a', 'b'), about='consistency')\n"
        "    def __call__(self, sample):\n"
        "        return Score.of(1.0)\n"
        "        yield\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    tried, left = installed(experts(), CASES)
    theirs = [one for one in tried if one.card.name == "theirs"]
    assert [(one.name, one.truth, one.main) for one in theirs] == [
        ("theirs a", "kept", "Spearman"),
        ("theirs b", "kept", "Spearman"),
    ]
    assert "lost_one" in next(one.reason for one in left if one.name == "lost")


def test_a_metric_is_compared_with_what_its_card_speaks_about():
    tried, _ = installed(experts(), CASES)
    truths = {one.spec: (one.truth, one.main) for one in tried}
    assert truths["edival-if?protocol=paper"] == ("followed", "AUC")
    assert truths["edival-o"] == ("overall", "Spearman")
    assert truths["guards"] == ("clean", "AUC")


def test_the_modes_that_are_treated_apart_exist():
    assert DEGRADED in {one.name for one in MODES}


def test_quality_is_compared_with_degraded_pictures_where_there_are_any():
    assert [one.truth for one in chosen(["edival-vq"], experts(), CASES)] == ["overall"]
    assert [one.truth for one in chosen(["edival-vq"], experts(), [*CASES, POOR])] == ["quality"]
    assert [truth_of(one, "quality") for one in (*CASES, POOR)] == [0.0, None, -0.3]
    assert [truth_of(one, "clean") for one in CASES] == [True, False]
    assert [truth_of(one, "overall") for one in CASES] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("spec", "problem"), [("edvial-if", "did you mean"), ("edival-vq", "preference"), ("gate", "gate")]
)
def test_a_chosen_metric_that_cannot_be_asked_is_refused(spec, problem):
    served = {role: expert for role, expert in experts().items() if role != "preference"}
    with pytest.raises(SpecError, match=problem):
        chosen([spec], served, CASES)


def test_every_metric_has_a_system_and_systems_stand_together():
    tried, _ = installed(experts(), EVERY)
    groups = grouped(tried)
    assert list(groups) == list(dict.fromkeys(one.system for one in tried))
    assert sum(map(len, groups.values())) == len(tried)
    assert {"EdiVal", "Complex-Edit", "DLEBench", "I2I-Bench", "I2I-Bench, several sources"} < set(groups)
    assert [one.spec for one in groups["Complex-Edit"]][:2] == [
        "complex-edit-if?mode=numeric&n=4",
        "complex-edit-if?mode=token_probability",
    ]
    assert len(groups["I2I-Bench"]) >= 15
    assert groups["Complex-Edit"][0].name == "complex-edit-if numeric n=4"
    assert "others" not in groups


def test_every_installed_metric_has_a_value_somewhere_and_fails_nowhere():
    served = experts()
    tried, left = installed(served, EVERY)
    assert all("composition, which takes" in one.reason for one in left)
    study = Study.of(EVERY, tried, Desk(served).ask(tried, (case.sample for case in EVERY)))
    for one in tried:
        found = study.statuses(one)
        reasons = {row.reason for row in study.rows[one.spec] if row.status == "failed"}
        assert not found.failed, (one.spec, reasons)
        assert found.scored, one.spec
        assert found.scored + found.not_applicable > 0.5 * len(EVERY), one.spec
