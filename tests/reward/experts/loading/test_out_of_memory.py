"""Experts recover from out-of-memory errors with smaller batches, and keep the smaller size."""

from typing import Any

import pytest
import torch
from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

from editcritic.reward import Reward
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import Embed, Judge, Message, Region, Reply, YesNo

from ...fakes import picture, sample
from ..device import DEVICE
from ..tiny_vlms import tiny_llava

TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


@pytest.fixture
def dinov2(tmp_path) -> str:
    torch.manual_seed(0)
    Dinov2Model(Dinov2Config(**TINY)).save_pretrained(tmp_path)
    size = {"height": 28, "width": 28}
    BitImageProcessorPil(size={"shortest_edge": 28}, crop_size=size).save_pretrained(tmp_path)
    return str(tmp_path)


def running_out(expert: Any, room: int, monkeypatch) -> list[int]:
    """Limit the model to `room` rows; returns the sizes of attempted passes."""
    tried: list[int] = []
    with expert.checkpoint.use() as loaded:
        forward = type(loaded.model).forward

        def limited(self, *positional, **named):
            (rows,) = {
                len(value) for value in named.values() if isinstance(value, torch.Tensor) and value.dim() > 1
            } or {1}
            tried.append(rows)
            if rows > room:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
            return forward(self, *positional, **named)

        monkeypatch.setattr(loaded.model, "forward", limited.__get__(loaded.model))
    return tried


def test_features_of_many_pictures_come_in_halves_until_they_fit(dinov2, monkeypatch):
    queries = [Embed(picture(number, 28, 28), (Region("cls"),)) for number in range(10)]
    expected = Dino(dinov2, device="cpu")(queries)
    expert = Dino(dinov2, device="cpu", dtype="float32", batch=8, backend="pil")
    tried = running_out(expert, 2, monkeypatch)
    with pytest.warns(UserWarning, match="from now on"):
        outcomes = expert(queries)
    assert tried == [8, 4, 2, 2, 2, 2, 2]
    for one, other in zip(outcomes, expected, strict=True):
        assert one.values == pytest.approx(other.values, abs=1e-4)
    tried.clear()
    expert([Embed(picture(number, 28, 28), (Region("cls"),)) for number in range(20, 24)])
    assert tried == [2, 2]  # the size that failed is not tried again


def test_a_judge_asks_fewer_at_a_time(tmp_path, monkeypatch):
    tiny_llava(tmp_path)
    queries = [
        Judge((Message((f"Is it {colour}?", picture(1, 40, 40))),), YesNo()) for colour in ("red", "new", "old", "big")
    ]
    expected = Vlm(str(tmp_path), device="cpu", min_option_mass=0.0)(queries)
    judge = Vlm(str(tmp_path), device="cpu", min_option_mass=0.0, batch=4, backend="pil")
    judge(queries[:1])
    with judge.checkpoint.use() as loaded:
        generate = loaded.model.generate
    tried = []

    def limited(**named):
        tried.append(len(named["input_ids"]))
        if tried[-1] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return generate(**named)

    monkeypatch.setattr(loaded.model, "generate", limited)
    with pytest.warns(UserWarning, match="from now on"):
        outcomes = judge(queries)
    assert sorted(tried)[-2:] == [2, 4]
    assert judge.microbatcher.size == 1
    assert judge.batch == 4  # unchanged
    for one, other in zip(outcomes, expected, strict=True):
        assert isinstance(one, Reply)
        assert isinstance(other, Reply)
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-4)


def test_one_that_never_fits_is_a_failed_score_with_the_reason(dinov2, monkeypatch):
    expert = Dino(dinov2, device="cpu", batch=4)
    running_out(expert, 0, monkeypatch)
    reward = Reward.of("clip-image", {"features": expert}, on_failures="none")
    with pytest.warns(UserWarning, match="from now on"):
        (score,) = reward([sample(sources=(picture(1, 28, 28),), edited=picture(2, 28, 28))])
    assert score.status == "failed"
    assert "out of memory" in score.reason


def test_a_budget_keeps_passes_small_from_the_first(dinov2):
    queries = [Embed(picture(number, 28, 28), (Region("cls"),)) for number in range(12)]
    free = Dino(dinov2, device="cpu")
    expected = free(queries)
    weights = free.bytes[DEVICE]
    limited_expert = Dino(dinov2, device="cpu", cache_bytes=10_000, max_memory=f"{weights + 10_000 + 400_000}")
    outcomes = limited_expert(queries)
    assert 1 <= limited_expert.microbatcher.size < free.microbatcher.size
    for one, other in zip(outcomes, expected, strict=True):
        assert one.values == pytest.approx(other.values, abs=1e-4)
