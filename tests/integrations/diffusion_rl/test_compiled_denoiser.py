"""Denoisers that torch.compile has compiled, in each of its forms: trained as they are, with the same result."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler
from safetensors.torch import load_file

from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer

from ...pipelines_epsilon import instruct
from .test_diffusion_trainer import edited
from .tiny_trainer import SAMPLES, SMALL, bright, lora, same, untimed


class Counted:
    """A backend of torch.compile that runs its graphs as they are, and counts their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            self.calls += 1
            return graph.forward(*args)

        return run


@pytest.fixture
def backend() -> Iterator[Counted]:
    torch.compiler.reset()
    yield Counted()
    torch.compiler.reset()


def wrapped(pipeline: Any, component: str, backend: Any) -> None:
    setattr(pipeline, component, torch.compile(getattr(pipeline, component), backend=backend))


def in_place(pipeline: Any, component: str, backend: Any) -> None:
    getattr(pipeline, component).compile(backend=backend)


@pytest.mark.parametrize("compiled", [wrapped, in_place])
def test_a_compiled_denoiser_learns_what_the_plain_one_does_to_the_bit(fresh, tmp_path, backend, compiled):
    settings: dict[str, Any] = SMALL | {"groups": 1, "beta": 0.1, "sde_steps": (0,)}
    plain = DiffusionTrainer(fresh(), bright, SAMPLES, DiffusionConfig(tmp_path / "plain", **settings))
    pipeline = fresh()
    compiled(pipeline, "transformer", backend)
    untrained = edited(pipeline)  # the graph of the denoiser without a LoRA exists
    backend.calls = 0
    one = DiffusionTrainer(pipeline, bright, SAMPLES, DiffusionConfig(tmp_path / "run", **settings))
    assert untimed(one.train()) == untimed(plain.train())
    assert backend.calls == 2 * (3 + 2)  # steps of the sampler, and one of them without the LoRA and with it
    assert same(lora(one), lora(plain))
    assert edited(pipeline) == edited(plain.pipeline) != untrained
    assert not any("_orig_mod" in name for name in load_file(tmp_path / "run" / "pytorch_lora_weights.safetensors"))
    loaded = fresh()
    loaded.load_lora_weights(tmp_path / "run")
    assert edited(loaded) == edited(pipeline)


@pytest.mark.parametrize("compiled", [wrapped, in_place])
def test_the_lora_of_a_compiled_unet_is_saved_as_one(tmp_path, backend, compiled):
    pipeline, config = instruct(tmp_path / "made"), DiffusionConfig(tmp_path / "run", **SMALL | {"pipeline_kwargs": {}})
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    compiled(pipeline, "unet", backend)
    DiffusionTrainer(pipeline, bright, SAMPLES, config).save(tmp_path)
    names = load_file(tmp_path / "pytorch_lora_weights.safetensors")
    assert all(name.startswith("unet.") and "_orig_mod" not in name for name in names)
