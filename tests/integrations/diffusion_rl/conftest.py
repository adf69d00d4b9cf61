"""A trainer of a tiny Kontext, made anew for each test."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from diffusers import FluxKontextPipeline

from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer

from ...pipelines import kontext
from .tiny_trainer import SAMPLES, SMALL, bright, quiet


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Any:
    return quiet(kontext(tmp_path_factory.mktemp("kontext")))


@pytest.fixture
def fresh(loaded) -> Callable[[], Any]:
    """The editor as it was before any training. What is not trained is shared."""

    def make() -> Any:
        own = {name: copy.deepcopy(getattr(loaded, name)) for name in ("transformer", "scheduler")}
        return quiet(FluxKontextPipeline(**{**loaded.components, **own}))

    return make


@pytest.fixture
def trainer(fresh, tmp_path) -> Callable[..., DiffusionTrainer]:
    def make(reward: Any = bright, *, more: dict[str, Any] | None = None, **settings: Any) -> DiffusionTrainer:
        config = DiffusionConfig(tmp_path / "run", **SMALL | settings)
        return DiffusionTrainer(fresh(), reward, SAMPLES, config, **more or {})

    return make
