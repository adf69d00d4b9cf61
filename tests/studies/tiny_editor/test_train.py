"""The training command: a folder that diffusers loads, and what it refuses."""

import pytest
import torch
from diffusers import FluxKontextPipeline

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import SceneEditPipeline
from studies.tiny_editor import train


@pytest.fixture(autouse=True)
def threads():
    """The command takes two threads for its process, which is that of other tests here."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_it_writes_a_pipeline_that_diffusers_loads(tmp_path, capsys):
    train.main(["--out", str(tmp_path / "editor"), "--steps", "1", "--examples", "20"])
    assert "MB in" in capsys.readouterr().out
    for kind in (SceneEditPipeline, FluxKontextPipeline):
        loaded = kind.from_pretrained(tmp_path / "editor")
        parts = (loaded.transformer, loaded.text_encoder, loaded.text_encoder_2)
        assert {part.dtype for part in parts} == {torch.float32}
    assert not list((tmp_path / "editor").rglob("*.bin"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps: expected a whole number of at least 1, got 0"),
        (["--examples", "-3"], "--examples: expected a whole number of at least 1, got -3"),
        (["--out", "file"], "--out: cannot create the folder file: File exists"),
        (["--out", "file/editor"], "--out: cannot create the folder file/editor: Not a directory"),
    ],
)
def test_bad_input_is_refused_before_a_lesson_is_drawn(arguments, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        train.main(arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out
