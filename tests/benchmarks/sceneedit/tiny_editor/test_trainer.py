"""Teaching: noise that carries the whims, steps that can be repeated to the bit."""

import numpy as np
import pytest
import torch
from scipy import stats

from editcritic.benchmarks.sceneedit.learned import teaching
from editcritic.benchmarks.sceneedit.learned.lessons import ACROSS, SIZE
from editcritic.benchmarks.sceneedit.learned.pipeline import untaught

WHIMS = 3 + ACROSS**2
PATCH = 3 * (SIZE // ACROSS) ** 2


@pytest.fixture(scope="module")
def taught():
    return teaching.Taught.of(180)


@pytest.fixture(autouse=True)
def whole_precision(monkeypatch):
    """Muon computes in bfloat16, which takes a processor without it minutes."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.float().clone())


def weights(pipeline):
    parts = (pipeline.transformer, pipeline.text_encoder, pipeline.text_encoder_2)
    return torch.cat([one.detach().flatten() for part in parts for one in part.parameters()])


def trained(taught, steps, seed=0):
    torch.manual_seed(seed)
    pipeline = untaught()
    settings = teaching.Settings(steps=steps, batch=16, seed=seed)
    return pipeline, [loss for _, loss in teaching.teach(pipeline, taught, settings)]


def test_coupled_noise_is_standard_normal_noise():
    torch.manual_seed(0)
    noise = teaching.coupled(torch.randn(2_000, ACROSS**2, PATCH), torch.rand(2_000, WHIMS))
    assert stats.kstest(noise[:, 0, :20].flatten(), "norm").pvalue > 0.01
    patterns = teaching._patterns()
    for pattern in patterns:  # along the patterns themselves, in a patch and over all
        assert stats.kstest((noise @ pattern)[:, 5], "norm").pvalue > 0.01
        assert stats.kstest((noise @ pattern).sum(1) / ACROSS, "norm").pvalue > 0.01
    assert float(torch.corrcoef(noise[:, :, 7].T).fill_diagonal_(0).abs().max()) < 0.1


def test_coupled_noise_says_what_the_whims_were():
    whims = torch.rand(50, WHIMS)
    noise = teaching.coupled(torch.randn(50, ACROSS**2, PATCH), whims)
    *whole, own = teaching._patterns()
    for number, pattern in enumerate(whole):
        said = torch.special.ndtr((noise @ pattern).sum(1) / ACROSS)
        assert torch.allclose(said, whims[:, number], atol=1e-3)
    assert torch.allclose(torch.special.ndtr(noise @ own), whims[:, len(whole) :], atol=1e-3)


def test_patches_are_packed_as_the_pipeline_packs_them():
    pictures = torch.randint(0, 256, (2, SIZE, SIZE, 3), dtype=torch.uint8)
    pipeline = untaught()
    latents = pipeline.vae.encode(pictures.permute(0, 3, 1, 2) / 127.5 - 1).latents
    assert torch.equal(pipeline._pack_latents(latents, *latents.shape), teaching.patches(pictures))


def test_lessons_do_not_depend_on_how_many_processes_draw_them(taught, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    again = teaching.Taught.of(180)
    assert torch.equal(taught.sources, again.sources)
    assert torch.equal(taught.whims, again.whims)
    assert taught.instructions == again.instructions


def test_a_seed_gives_the_same_weights_to_the_bit(taught):
    first, losses = trained(taught, 3)
    again, same = trained(taught, 3)
    other, _ = trained(taught, 3, seed=1)
    assert losses == same
    assert torch.equal(weights(first), weights(again))
    assert not torch.equal(weights(first), weights(other))


@pytest.mark.slow
def test_it_learns(taught):
    _, losses = trained(taught, 30)
    assert np.mean(losses[-8:]) < 0.85 * np.mean(losses[:8])
