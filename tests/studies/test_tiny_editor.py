"""Teaching the tiny editor: noise that carries the latents, steps that can be repeated to the bit, the command."""

import numpy as np
import pytest
import torch
from diffusers import FluxKontextPipeline

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import SceneEditPipeline, untrained_pipeline
from editcritic.benchmarks.sceneedit.tiny_editor.training_examples import ACROSS, SIZE
from studies.tiny_editor import train

LATENTS = 3 + ACROSS**2
PATCH = 3 * (SIZE // ACROSS) ** 2


@pytest.fixture(scope="module")
def data():
    return train.TrainingData.of(180)


@pytest.fixture(autouse=True)
def whole_precision(monkeypatch):
    """Muon computes in bfloat16, which takes a processor without it minutes."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.float().clone())


@pytest.fixture(autouse=True)
def threads():
    """The command takes two threads for its process, which is that of other tests here."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def weights(pipeline):
    parts = (pipeline.transformer, pipeline.text_encoder, pipeline.text_encoder_2)
    return torch.cat([one.detach().flatten() for part in parts for one in part.parameters()])


def trained(data, steps, seed=0):
    torch.manual_seed(seed)
    pipeline = untrained_pipeline()
    config = train.TrainingConfig(steps=steps, batch=16, seed=seed)
    return pipeline, [loss for _, loss in train.train_editor(pipeline, data, config)]


def test_coupled_noise_says_what_the_latents_were():
    latents = torch.rand(50, LATENTS)
    noise = train.coupled_noise(torch.randn(50, ACROSS**2, PATCH), latents)
    *whole, own = train._patterns()
    for number, pattern in enumerate(whole):
        decoded = torch.special.ndtr((noise @ pattern).sum(1) / ACROSS)
        assert torch.allclose(decoded, latents[:, number], atol=1e-3)
    assert torch.allclose(torch.special.ndtr(noise @ own), latents[:, len(whole) :], atol=1e-3)


def test_lessons_do_not_depend_on_how_many_processes_draw_them(data, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    again = train.TrainingData.of(180)
    assert torch.equal(data.sources, again.sources)
    assert torch.equal(data.latents, again.latents)
    assert data.instructions == again.instructions


def test_a_seed_gives_the_same_weights_to_the_bit(data):
    first, losses = trained(data, 3)
    again, same = trained(data, 3)
    other, _ = trained(data, 3, seed=1)
    assert losses == same
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


@pytest.mark.slow
def test_it_learns(data):
    _, losses = trained(data, 30)
    assert np.mean(losses[-8:]) < 0.85 * np.mean(losses[:8])


def test_it_writes_a_pipeline_that_diffusers_loads(tmp_path, capsys):
    train.main(["--out", str(tmp_path / "editor"), "--steps", "1", "--examples", "20"])
    assert "MB in" in capsys.readouterr().out
    for kind in (SceneEditPipeline, FluxKontextPipeline):
        loaded = kind.from_pretrained(tmp_path / "editor")
        parts = (loaded.transformer, loaded.text_encoder, loaded.text_encoder_2)
        assert {part.dtype for part in parts} == {torch.float32}
    assert not list((tmp_path / "editor").rglob("*.bin"))
