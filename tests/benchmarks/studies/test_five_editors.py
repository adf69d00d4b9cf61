"""`make bench`: five editors, of which three err in known ways, made, judged and reported once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from editcritic.benchmarks.sceneedit.learned.verdict import verdict
from editcritic.benchmarks.suites import five
from editcritic.benchmarks.suites.results import Results
from editcritic.benchmarks.suites.sceneedit import FOLLOWED, UNCHANGED, SceneEdit, prompt_of
from editcritic.benchmarks.suites.suite import Item
from editcritic.reward import Image
from editcritic.verifiers import Editor


def edited(editor: Editor, item: Item) -> Image:
    (picture,) = editor.edit([item.sample.sources], [item.sample.instruction], [0])
    return picture


def flawed(name: str, suite: SceneEdit) -> five.Flawed:
    return five.Flawed(name, [(item.sample, prompt) for item in suite.items if (prompt := prompt_of(item.sample))])


def truths(name: str, suite: SceneEdit) -> tuple[float, float]:
    """Shares that are followed and unchanged."""
    editor = flawed(name, suite)
    found = []
    for item in suite.items:
        prompt = prompt_of(item.sample)
        assert prompt is not None
        found.append(verdict(prompt.request, prompt.before, edited(editor, item)))
    return sum(one.followed for one in found) / len(found), sum(one.unchanged for one in found) / len(found)


def test_each_flaw_shows_in_the_truth() -> None:
    suite = SceneEdit(prompts=18)
    copies, overdoes, confuses = (truths(name, suite) for name in five.FLAWS)
    assert copies[0] < 0.7
    assert copies[1] > 0.97
    assert overdoes[0] > 0.75
    assert overdoes[1] < 0.85
    assert 0.4 < confuses[0] < 0.9


def test_a_flawed_editor_is_an_editor_that_makes_the_same_again() -> None:
    suite = SceneEdit(prompts=9)
    editor = flawed("overdoes", suite)
    assert isinstance(editor, Editor)
    assert edited(editor, suite.items[4]) == edited(flawed("overdoes", suite), suite.items[4])
    with pytest.raises(LookupError):
        editor.edit([suite.items[0].sample.sources], ["Do something else"], [0])


def test_five_editors_are_made_judged_and_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def tiny() -> Editor:
        loaded.append("tiny")
        return flawed("confuses", SceneEdit(prompts=3))

    monkeypatch.setattr(five, "tiny", tiny)
    out = tmp_path / "out"
    asked = ["--out", str(out), "--prompts", "3"]
    with pytest.raises(SystemExit) as ended:
        five.main(asked)
    assert ended.value.code == 0
    assert len(loaded) == 2
    table = capsys.readouterr().out
    names = (five.TINY, five.BEST, *five.FLAWS)
    assert all(f"| {name} |" in table for name in names)
    assert "</html>" in (out / five.REPORT).read_text(encoding="utf-8")
    for name in names:
        results = Results.load(out / five.RESULTS / name)
        assert all(row.value(truth) is not None for row in results.rows for truth in (FOLLOWED, UNCHANGED))
        lines = (out / five.OUTPUTS / name / five.GENERATED).read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["item"] for line in lines] == ["0000", "0001", "0002"]

    with pytest.raises(SystemExit):
        five.main(asked)
    assert len(loaded) == 2
    assert capsys.readouterr().out == table

    with pytest.raises(SystemExit) as refused:
        five.main([*asked[:-1], "4"])
    assert refused.value.code == 2
    assert "give another --out" in capsys.readouterr().err
