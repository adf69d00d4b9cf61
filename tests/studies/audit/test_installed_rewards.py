"""The study of all installed rewards on drawn scenes: its edits, what it keeps, and its tables."""

import json
from pathlib import Path
from weakref import WeakValueDictionary

import pytest

from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.benchmarks.sceneedit.experts.perception import ImagePerception, PerceptionCache
from editcritic.reward import Image, Score, build
from editcritic.reward.audit import AuditedReward, Trial, select_families
from editcritic.reward.sample import TASK_TYPES
from studies.audit import installed_rewards as study
from studies.audit.scene_edits import good_edits
from studies.audit.stored_trials import NOT_KEPT, PIXELS, EditAuditor, EditSet, EditTrials

FEW = EditSet((5,), 32, 1, 1)
FAMILIES = ("unchanged-source", "sample-id", "batch-order", "degenerate-size")


def test_edits_are_good_and_of_all_kinds() -> None:
    cases = good_edits(5, size=32, per_type=1, others=1)
    assert all(case.truth.followed and not case.mode for case in cases)
    assert {case.task for case in cases} == {*TASK_TYPES, "compound"}
    assert max(case.sample.turn for case in cases) == 2
    assert max(len(case.sample.sources) for case in cases) == 2
    assert len({case.sample.source.digest for case in cases}) == len(cases)


def test_every_installed_reward_is_audited_or_listed_with_a_reason() -> None:
    metrics, skipped = study.audited_metrics()
    names = [metric.name for metric in metrics if metric.spec != PIXELS]
    assert sorted([*names, *(one.name for one in skipped)]) == sorted(reward.name for reward in list_rewards())
    assert all(one.reason for one in skipped)
    assert {"any-edit", "judge-yes-no", "judge-quality", "judge-levels", "clip-directional"} <= set(names)


def test_what_is_kept_is_not_scored_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = ("edit-balanced", "judge-yes-no", PIXELS)
    first = EditAuditor(FEW, specs, FAMILIES, tmp_path).audit(0)
    assert {trial.family for trial in first["judge-yes-no"].trials} >= {"unchanged-source", "degenerate-size"}

    def refuse(*_: object) -> None:
        raise AssertionError("scored again")

    monkeypatch.setattr(AuditedReward, "_call", refuse)
    again = EditAuditor(FEW, specs, FAMILIES, tmp_path).audit(0)
    for spec in specs:
        assert [trial.variant.value for trial in again[spec].trials] == [t.variant.value for t in first[spec].trials]


def test_only_what_is_kept_can_be_reported(tmp_path: Path) -> None:
    EditAuditor(FEW, (PIXELS,), ("unchanged-source",), tmp_path).audit(0)
    families = ("unchanged-source", "blank")
    kept = EditAuditor(FEW, (PIXELS, "judge-yes-no"), families, tmp_path, only_kept=True).audit(0)
    assert [trial.family for trial in kept[PIXELS].trials] == 3 * ["unchanged-source"]
    assert (kept["judge-yes-no"].edit.reason, kept["judge-yes-no"].trials) == (NOT_KEPT, ())


def test_a_reward_of_which_nothing_is_kept_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path), "--size", "32", "--per-type", "1", "--others", "1", "--seeds", "5"]
    study.main([*options, "--only-kept", "--reward", "judge-yes-no", "--family", "unchanged-source"])
    printed = capsys.readouterr().out
    assert "- `judge-yes-no`: not scored yet in its present version" in printed
    assert "| `judge-yes-no`" not in printed


def test_rewards_share_one_analysis_of_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    analyse = ImagePerception.__init__

    def recorded(self: ImagePerception, image: Image) -> None:
        seen.append(image.digest)
        analyse(self, image)

    monkeypatch.setattr(ImagePerception, "__init__", recorded)
    monkeypatch.setattr(PerceptionCache, "_living", WeakValueDictionary())  # nothing that other tests have analysed
    EditAuditor(FEW, ("edit-balanced", "judge-yes-no", "edival-o"), ("unchanged-source",), tmp_path).audit(0)
    assert seen
    assert len(seen) == len(set(seen))


def test_an_edit_that_a_reward_does_not_apply_to_has_no_trials(tmp_path: Path) -> None:
    trials = EditAuditor(FEW, ("compound",), ("unchanged-source",), tmp_path).audit(0)["compound"]
    assert trials.edit.value is None
    assert trials.trials == ()


def test_the_command_writes_tables_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--out", str(tmp_path), "--size", "32", "--per-type", "1", "--others", "1", "--processes", "1"]
    options += ["--seeds", "5", "--reward", "judge-yes-no", "--reward", PIXELS, "--family", "unchanged-source"]
    study.main(options)
    printed = capsys.readouterr().out
    rows = {line.split(" | ")[0]: line.split(" | ") for line in printed.splitlines() if line.startswith("| ")}
    assert rows["| `judge-yes-no`"][3] == "0 (0 to 24)"  # of following: the source never pays
    assert rows[f"| {PIXELS}"][3] == "100 (76 to 100)"
    assert "- `gate`: a composition" in printed
    numbers = json.loads((tmp_path / "installed_rewards.json").read_text())
    assert numbers["edits"] == 12
    (pixels,) = (one for one in numbers["rewards"] if one["reward"] == PIXELS)
    assert pixels["columns"]["following"]["violations"] == pixels["columns"]["following"]["trials"] == 36


def test_a_row_has_rates_gains_and_losses_as_shares_of_the_rewards_range() -> None:
    sample = good_edits(5, size=32, per_type=1, others=1)[0].sample
    scored = {"unchanged-source": (0.7, 0.2), "blurred": (0.5, 0.4), "other-edit": (0.3, 0.2), "reencoded": (0.6, 0.4)}
    trials = [
        Trial(0, family, severity, Score.of(0.6), Score.of(value))
        for family, values in scored.items()
        for severity, value in enumerate(values)
    ]
    metric = study.AuditedMetric("judge-yes-no", "judges", build("judge-yes-no").card)
    families = select_families([*scored, "sample-id"])
    report = study.report_of(metric, [sample], {0: EditTrials(Score.of(0.6), trials)}, families)
    half, none = "50 (5 to 95)", "0 (0 to 79)"
    row = ["`judge-yes-no`", "following", "1", half, none, none, half, "-", "-", "+10", "`blurred` -15", "+15 / +15"]
    assert list(study.rewards_lines([metric], {metric.spec: report}, 1))[-1] == f"| {' | '.join(row)} |"


def test_a_run_out_of_time_reports_what_it_has(tmp_path: Path) -> None:
    samples, trials = study.score_edits(FEW, [PIXELS], ["unchanged-source"], tmp_path, processes=1, minutes=0)
    assert (samples, trials) == ([], {PIXELS: {}})
    metric = study.AuditedMetric(PIXELS, "baselines", None)
    report = study.report_of(metric, samples, trials[PIXELS], select_families(["unchanged-source"]))
    assert list(study.rewards_lines([metric], {PIXELS: report}, 0))[-1].startswith(f"| {PIXELS} | - | 0 of 0 | - |")


def test_an_unknown_reward_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        study.main(["--out", str(tmp_path), "--reward", "guard-not-blank"])
    assert "guard-not-blank is not audited here" in capsys.readouterr().err
