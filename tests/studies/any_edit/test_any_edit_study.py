"""The whole study, small: it ends, resumes, and writes its tables, numbers and pictures."""

from __future__ import annotations

import json

import pytest

from editcritic.benchmarks.sceneedit.suite import SceneEdit, prompt_of
from studies import five_editors
from studies.any_edit import __main__ as study


@pytest.mark.slow
def test_a_quick_run_measures_every_bar(tmp_path, capsys, monkeypatch):
    def tiny():
        items = [item for seed in (22, 23) for item in SceneEdit(prompts=9, seed=seed).items]
        prompts = [(item.sample, prompt) for item in items if (prompt := prompt_of(item.sample))]
        return five_editors.FlawedEditor("confuses", prompts)

    monkeypatch.setattr(five_editors, "tiny_editor", tiny)
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        study.main(["--quick", "--seeds", "22", "23", "--out", str(out)])
    assert ended.value.code in (0, 1)  # nine prompts decide no bar
    table = capsys.readouterr().out
    assert "| Spearman with followed x unchanged |" in table
    numbers = json.loads((out / study.RESULT).read_text(encoding="utf-8"))
    assert len(numbers["checks"]) == 8
    assert all(check["measured"] is not None for check in numbers["checks"])
    assert {point["level"] for curve in numbers["curves"] for point in curve["points"]} == {0.0, 0.05, 0.1, 0.2}
    for searched in numbers["search"].values():
        assert searched["evaluations"] == sum(one["evaluations"] for one in searched["by_seed"].values()) == 80
        assert searched["finds"] == sum(one["finds"] for one in searched["by_seed"].values())
        assert list(searched["by_seed"]) == ["22", "23"]
    for picture in (study.CURVES, *(study.FINDS.format(reward) for reward in numbers["search"])):
        assert (out / picture).stat().st_size > 1000


def test_a_folder_of_other_prompts_is_refused(tmp_path, capsys):
    folder = tmp_path / "seed-22"
    folder.mkdir()
    (folder / "five.json").write_text('{"prompts": 3, "seed": 22}', encoding="utf-8")
    with pytest.raises(SystemExit) as refused:
        study.main(["--quick", "--seeds", "22", "--out", str(tmp_path)])
    assert refused.value.code == 2
    assert "pass another --out" in capsys.readouterr().err
