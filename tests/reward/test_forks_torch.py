"""Forked workers of a DataLoader score, also with models that the parent has loaded and used."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BitImageProcessorPil, Dinov2Config, Dinov2Model

from editcritic.reward import AnswerLog, Engine, Image, Reward, Score, ask
from editcritic.reward.experts.dino import Dino
from editcritic.reward.queries import Embed, ExpertDown, Region

from ..forked import SOON, forked, needs_fork
from .fakes import Fake, Says, known, picture, sample

pytestmark = needs_fork


class Scored(Dataset[float]):
    """A data set that filters its items by a reward."""

    def __init__(self, reward: Reward) -> None:
        self.reward = reward

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> float:
        return self.reward([sample(str(index))])[0].value or 0.0


def test_workers_of_a_data_loader_score_with_a_reward_made_and_used_before(tmp_path: Path) -> None:
    with AnswerLog(tmp_path / "log") as log:
        reward = Reward(Says(number=1), {"preference": Fake(known)}, log=log)
        value = reward([sample()])[0].value
        loader = DataLoader(Scored(reward), batch_size=2, num_workers=2, multiprocessing_context="fork", timeout=60)
        for _ in range(2):  # epochs
            torch.testing.assert_close(
                torch.cat(list(loader)), torch.full((8,), value or 0.0, dtype=torch.float64), rtol=0, atol=0
            )
        assert reward([sample()])[0].value == value
        log.verify()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("tiny-dinov2")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    Dinov2Model(Dinov2Config(**sizes)).save_pretrained(place)
    BitImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}).save_pretrained(place)
    return place


def embedded(engine: Engine, expert: Any, image: Image) -> tuple[str, str, list[float]]:
    vectors: list[float] = []

    def program() -> Any:
        answer = yield from ask(Embed(image, (Region("cls"),)))
        vectors.extend(answer.values[0].tolist())
        return Score.of(1)

    score = engine.submit(program(), {"features": expert}).result(SOON)
    return score.status, score.reason, vectors


def test_a_model_that_the_parent_has_used_computes_the_same_in_the_child(folder: Path) -> None:
    expert = Dino(str(folder), device="cpu")
    with Engine() as engine:
        assert embedded(engine, expert, picture(1, 28, 28))[0] == "scored"
        there = forked(lambda: embedded(engine, expert, picture(2, 28, 28)))
        assert there == embedded(engine, expert, picture(2, 28, 28))
        assert there[0] == "scored"


def test_a_model_in_use_while_the_process_forks_is_loaded_anew_in_the_child(folder: Path) -> None:
    expert = Dino(str(folder), device="cpu")
    began, go_on = threading.Event(), threading.Event()

    def batch() -> None:
        with expert.checkpoint.use():
            began.set()
            go_on.wait(SOON)

    with Engine() as engine:
        expected = embedded(engine, expert, picture(1, 28, 28))
        thread = threading.Thread(target=batch)
        thread.start()
        assert began.wait(SOON)
        before = id(expert.checkpoint.shared_weights)

        def there() -> tuple[Any, bool]:
            with Engine() as fresh:
                return embedded(fresh, expert, picture(1, 28, 28)), id(expert.checkpoint.shared_weights) == before

        try:
            assert forked(there) == (expected, False)
        finally:
            go_on.set()
            thread.join(SOON)
        assert id(expert.checkpoint.shared_weights) == before


def test_a_model_on_an_accelerator_is_down_in_the_child_with_torchs_reason(folder, monkeypatch):
    """Simulates CUDA, which tests do not have: it refuses to work in a process forked from one that used it."""
    expert = Dino(str(folder), device="cpu")
    message = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, use 'spawn'"

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError(message)

    with Engine() as engine:
        assert embedded(engine, expert, picture(1, 28, 28))[0] == "scored"
        loaded = expert.checkpoint._weights.loaded
        object.__setattr__(loaded, "device", torch.device("cuda"))

        def there() -> tuple[str, str, list[float]]:
            monkeypatch.setattr(Dinov2Model, "to", refuse)
            with pytest.raises(ExpertDown, match="Cannot re-initialize CUDA"):
                expert.load()
            return embedded(engine, expert, picture(2, 28, 28))

        status, reason, _ = forked(there)
    assert status == "failed"
    assert message in reason
