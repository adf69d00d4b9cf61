"""Experts whose models run out of memory with too much at once answer all the same, and learn from it."""

from typing import Any

import pytest
import torch
from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

from editcritic.reward import Embed, Judge, Message, Region, Reply, Reward, YesNo
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.vlm import Vlm

from ..experts.tiny_vlms import tiny_llava
from ..fakes import picture, sample

TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


@pytest.fixture
def dinov2(tmp_path) -> str:
    torch.manual_seed(0)
    Dinov2Model(Dinov2Config(**TINY)).save_pretrained(tmp_path)
    size = {"height": 28, "width": 28}
    BitImageProcessorPil(size={"shortest_edge": 28}, crop_size=size).save_pretrained(tmp_path)
    return str(tmp_path)


def running_out(expert: Any, room: int, monkeypatch) -> list[int]:
    """From now on its model has room for so many rows; returns the sizes of the passes that were tried."""
    tried: list[int] = []
    with expert.checkpoint.use() as loaded:
        forward = type(loaded.model).forward

        def limited(self, *given, **named):
            (rows,) = {
                len(value) for value in named.values() if isinstance(value, torch.Tensor) and value.dim() > 1
            } or {1}
            tried.append(rows)
            if rows > room:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
            return forward(self, *given, **named)

        monkeypatch.setattr(loaded.model, "forward", limited.__get__(loaded.model))
    return tried


def test_features_of_many_pictures_come_in_halves_until_they_fit(dinov2, monkeypatch):
    asked = [Embed(picture(number, 28, 28), (Region("cls"),)) for number in range(10)]
    expected = Dino(dinov2, device="cpu")(asked)
    expert = Dino(dinov2, device="cpu", dtype="float32", batch=8, backend="pil")
    tried = running_out(expert, 2, monkeypatch)
    with pytest.warns(UserWarning, match="from now on"):
        found = expert(asked)
    assert tried == [8, 4, 2, 2, 2, 2, 2]
    for one, other in zip(found, expected, strict=True):
        assert one.values == pytest.approx(other.values, abs=1e-4)
    tried.clear()
    expert([Embed(picture(number, 28, 28), (Region("cls"),)) for number in range(20, 24)])
    assert tried == [2, 2]  # what was too much is not tried again


def test_a_judge_asks_fewer_at_a_time(tmp_path, monkeypatch):
    tiny_llava(tmp_path)
    asked = [
        Judge((Message((f"Is it {colour}?", picture(1, 40, 40))),), YesNo()) for colour in ("red", "new", "old", "big")
    ]
    expected = Vlm(str(tmp_path), device="cpu", least_mass=0.0)(asked)
    judge = Vlm(str(tmp_path), device="cpu", least_mass=0.0, batch=4, backend="pil")
    judge(asked[:1])
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
        found = judge(asked)
    assert sorted(tried)[-2:] == [2, 4]
    assert judge.passes.size == 1
    assert judge.batch == 4  # as it was given
    for one, other in zip(found, expected, strict=True):
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
    asked = [Embed(picture(number, 28, 28), (Region("cls"),)) for number in range(12)]
    free = Dino(dinov2, device="cpu")
    expected = free(asked)
    weights = free.bytes["cpu"]
    held = Dino(dinov2, device="cpu", limit_bytes=10_000, memory=f"{weights + 10_000 + 400_000}")
    found = held(asked)
    assert 1 <= held.passes.size < free.passes.size
    for one, other in zip(found, expected, strict=True):
        assert one.values == pytest.approx(other.values, abs=1e-4)
