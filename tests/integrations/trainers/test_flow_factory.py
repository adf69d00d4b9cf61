"""Calls as Flow-Factory's reward processor makes them."""

import importlib
import importlib.util
import inspect
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.trainers import flow_factory
from editcritic.integrations.trainers.flow_factory import FlowFactoryReward, RewardModelOutput
from editcritic.integrations.trainers.trainer_reward import UnscoredError
from editcritic.reward import Reward
from editcritic.reward.queries import Abstention

from ...reward.fakes import Fake, Rated, known, picture

EDITED = [picture(number) for number in (11, 12, 13)]
SOURCES = [(picture(1),), (picture(1), picture(2)), (picture(3),)]
ROWS = [
    {
        "prompt": prompt,
        "image": after.pil(),
        "condition_images": [one.pil() for one in before],
        "metadata": json.dumps({"image": "a.png", "editcritic": {"target_text": "CAFE"}}),
        "video": None,
        "latents": torch.zeros(4),
    }
    for prompt, after, before in zip(["make it blue", "mix them", "make it red"], EDITED, SOURCES, strict=True)
]


def reward_model(reward: Any = "edit-balanced", **extra: Any) -> Any:
    """As `load_reward_model` does, from a row of the settings."""
    config = SimpleNamespace(name="edits", batch_size=16, extra_kwargs={"reward": reward, **extra})
    return FlowFactoryReward(config=config, accelerator=SimpleNamespace(device=torch.device("cpu")))


def called(model: Any) -> torch.Tensor:
    """As the processor does: with those fields that the signature names and every sample has."""
    named = inspect.signature(model.__call__).parameters
    assert all(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in named.values())
    fields = [name for name in ROWS[0] if name in named and all(row[name] is not None for row in ROWS)]
    assert set(fields) == {"prompt", "image", "condition_images", "metadata"}
    output = model(**{name: [row[name] for row in ROWS] for name in fields})
    return torch.as_tensor(output.rewards, device="cpu", dtype=torch.float32)


def values() -> list[float | None]:
    """Those of the reward for the edits that a call is taken for, which are these."""
    samples: list[Any] = []

    def scored(batch: Any) -> Any:
        samples.extend(batch)
        return [known_score(one) for one in batch]

    called(reward_model(scored))
    assert [one.instruction for one in samples] == [row["prompt"] for row in ROWS]
    assert [one.sources for one in samples] == SOURCES
    assert {one.target_text for one in samples} == {"CAFE"}
    return [known_score(one).value for one in samples]


def known_score(sample: Any) -> Any:
    return Reward(Rated(), {"preference": Fake()})([sample])[0]


def test_a_judge_server_named_in_the_settings_scores_a_batch():
    expected = values()
    service = ScoringService(Reward(Rated(), {"preference": Fake()}))
    with serve_in_thread(service) as url:
        model = reward_model(url)
        assert model.required_fields == ("prompt", "image", "condition_images")
        assert not model.use_tensor_inputs
        rewards = called(model)
    service.close()
    assert rewards.dtype == torch.float32
    assert torch.equal(rewards, torch.tensor(expected))


def test_settings_that_name_no_reward_are_refused():
    with pytest.raises(ValueError, match="no reward"):
        reward_model("")
    with pytest.raises(ValueError, match="must be 'raise' or 'nan'"):
        reward_model(missing="0")


def test_without_sources_there_is_nothing_to_judge():
    with pytest.raises(ValueError, match="condition_images"):
        reward_model()(prompt=["a"], image=[EDITED[0].pil()])


def test_a_missing_score_ends_the_run_or_is_nan():
    def rule(query: Any) -> Any:
        return Abstention("who could know") if query.image == EDITED[1] else known(query)

    reward = Reward(Rated(), {"preference": Fake(rule)})
    with pytest.raises(UnscoredError, match=r"1 of 3 edits have no score: edit-1: abstained \(who could know\)"):
        called(reward_model(reward))
    rewards = called(reward_model(reward, missing="nan")).numpy()
    assert np.isnan(rewards).tolist() == [False, True, False]
    assert math.isnan(np.mean(rewards)), "as every advantage of its group would be"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Our module as it is where flow_factory can be imported: one with the classes that it is said to have."""
    package = tmp_path / "flow_factory"
    (package / "rewards").mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "rewards" / "__init__.py").write_text(
        "class PointwiseRewardModel:\n"
        "    def __init__(self, config, accelerator):\n"
        "        self.config, self.device = config, accelerator.device\n"
        "class RewardModelOutput:\n"
        "    def __init__(self, rewards, extra_info=None):\n"
        "        self.rewards = rewards\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    name = "editcritic.integrations.trainers.flow_factory_installed"
    spec = importlib.util.spec_from_file_location(name, flow_factory.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_it_is_one_of_flow_factorys_pointwise_models_where_that_is_installed(installed):
    theirs = importlib.import_module("flow_factory.rewards")
    PointwiseRewardModel, Theirs = theirs.PointwiseRewardModel, theirs.RewardModelOutput

    assert issubclass(installed.FlowFactoryReward, PointwiseRewardModel)
    config = SimpleNamespace(extra_kwargs={"reward": "edit-balanced"})
    model = installed.FlowFactoryReward(config, SimpleNamespace(device="cpu"))
    model.scorer = lambda samples: [known_score(one) for one in samples]
    assert isinstance(model(["a"], [EDITED[0].pil()], condition_images=[[EDITED[1].pil()]]), Theirs)
    assert isinstance(RewardModelOutput(torch.zeros(1)).rewards, torch.Tensor)
