"""`make bench`: five editors, of which three err in known ways, made, judged and reported once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.sceneedit.suite import FOLLOWED, UNCHANGED, SceneEdit, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import recovered_truth
from editcritic.benchmarks.suites.results import load_results
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import Image
from editcritic.verifiers import Editor
from studies import five_editors


def edited(editor: Editor, item: SuiteItem) -> Image:
    (picture,) = editor.edit([item.sample.sources], [item.sample.instruction], [0])
    return picture


def flawed(name: str, suite: SceneEdit) -> five_editors.FlawedEditor:
    return five_editors.FlawedEditor(
        name, [(item.sample, prompt) for item in suite.items if (prompt := prompt_of(item.sample))]
    )


def truths(name: str, suite: SceneEdit) -> tuple[float, float]:
    """Shares that are followed and unchanged."""
    editor = flawed(name, suite)
    results = []
    for item in suite.items:
        prompt = prompt_of(item.sample)
        assert prompt is not None
        results.append(recovered_truth(prompt.request, prompt.before, edited(editor, item)))
    return sum(truth.followed for truth in results) / len(results), sum(truth.unchanged for truth in results) / len(
        results
    )


def test_each_flaw_shows_in_the_truth() -> None:
    suite = SceneEdit(prompts=18)
    copies, overdoes, confuses = (truths(name, suite) for name in five_editors.FLAWS)
    assert copies[0] < 0.7
    assert copies[1] > 0.97
    assert overdoes[0] > 0.75
    assert overdoes[1] < 0.85
    assert 0.4 < confuses[0] < 0.9


def test_five_editors_are_made_judged_and_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def tiny() -> Editor:
        loaded.append("tiny")
        return flawed("confuses", SceneEdit(prompts=3))

    monkeypatch.setattr(five_editors, "tiny_editor", tiny)
    out = tmp_path / "out"
    options = ["--out", str(out), "--prompts", "3"]
    with pytest.raises(SystemExit) as ended:
        five_editors.main(options)
    assert ended.value.code == 0
    assert len(loaded) == 2
    table = capsys.readouterr().out
    names = (five_editors.TINY, five_editors.BEST, *five_editors.FLAWS)
    assert all(f"| {name} |" in table for name in names)
    assert "</html>" in (out / five_editors.REPORT).read_text(encoding="utf-8")
    for name in names:
        results = load_results(out / five_editors.RESULTS / name)
        assert all(row.value(truth) is not None for row in results.rows for truth in (FOLLOWED, UNCHANGED))
        lines = (out / five_editors.OUTPUTS / name / five_editors.GENERATED).read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["item"] for line in lines] == ["0000", "0001", "0002"]

    with pytest.raises(SystemExit):
        five_editors.main(options)
    assert len(loaded) == 2
    assert capsys.readouterr().out == table

    with pytest.raises(InputError, match="pass another --out"):
        five_editors.main([*options[:-1], "4"])
