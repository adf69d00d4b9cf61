"""A trainer whose rewards come from models trains as if they had come from nowhere; and it gets its memory back."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import transformers
from torch.nn.modules.module import register_module_forward_hook

from editcritic.integrations.dataset_rows import sample_from_row
from editcritic.integrations.trl.editing_environment import EditingEnvironments, describe_changes
from editcritic.integrations.trl.reward_function import AsyncRewardFunction, RewardFunction
from editcritic.reward import Card, EditSample, Image, Program, Reward, Score, TooManyFailures
from editcritic.reward.engine.program import ask
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.grounding_dino import GroundingDino
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import Detect, Embed, Judge, Message, Region, YesNo

from ..reward.experts.tiny_detectors import grounding_dino
from ..reward.experts.tiny_vlms import tiny_llava
from ..verifiers.numpy_editor import graded, scenes
from .trl_runs import asking

HERE = "cpu:0"
"""Where experts compute in these tests. It stands for an accelerator: weights that are given back go to `cpu`."""


@dataclass(frozen=True)
class Everybody:
    """What a detector, a self-supervised encoder and a vision-language model say of the edited image, added up."""

    card: ClassVar[Card] = Card("everybody", 1, "all are asked", roles=("detector", "features", "judge"))

    def __call__(self, sample: EditSample) -> Program[Score]:
        boxes = yield from ask(Detect(sample.edited, ("cat",)))
        features = yield from ask(Embed(sample.edited, (Region("cls"),)))
        verdict = yield from ask(Judge((Message(("is it good?", sample.edited)),), YesNo()))
        return Score.of(boxes.max_score() + float(np.abs(features.values).mean()) + max(verdict.probabilities.values()))


@dataclass(frozen=True)
class Stubborn(Everybody):
    """Asks everybody, and fails all the same."""

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from super().__call__(sample)
        return Score.failed("no answer is good enough")


def draw() -> None:
    """What libraries do: take numbers from every global generator there is."""
    random.random()
    np.random.rand()  # noqa: NPY002
    torch.rand(3)


class DrawingDino(Dino):
    """One whose model draws, as those with dropout or sampling do."""

    def answer_batch(self, queries: Any) -> Any:
        draw()
        return super().answer_batch(queries)


@dataclass
class Painted:
    """An editor with weights that want gradients, which draws; its images depend on the request alone."""

    id: str = "painted"
    nfe: int = 1
    batch_size: int = 8

    def __post_init__(self) -> None:
        with torch.random.fork_rng(devices=[]):
            self.model = torch.nn.Linear(3, 3)

    def edit(self, images, instructions, seeds, *, history=None):
        edited = []
        for words, seed in zip(instructions, seeds, strict=True):
            draw()
            torch.manual_seed(sum(words.encode()) + seed)
            edited.append(Image.of(self.model(torch.rand(32, 32, 3)).sigmoid().detach()))
        return edited


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("experts")
    with torch.random.fork_rng(devices=[]):
        grounding_dino(place / "detector")
        torch.manual_seed(0)
        tiny: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        encoder = transformers.Dinov2Model(transformers.Dinov2Config(**tiny, image_size=28, patch_size=14))
    encoder.save_pretrained(place / "features")
    pictures = transformers.BitImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    pictures.save_pretrained(place / "features")
    tiny_llava(place / "judge", spread=3.0)
    return place


@pytest.fixture
def reward(folder) -> Iterator[Reward]:
    """A reward whose models are not loaded yet, even if a test before it left the same weights to the collector."""
    experts: dict[str, LocalExpert[Any]] = {
        "detector": GroundingDino(str(folder / "detector"), device=HERE, min_score=0.0),
        "features": DrawingDino(str(folder / "features"), device=HERE),
        "judge": Vlm(str(folder / "judge"), device=HERE, min_option_mass=0.0),
    }
    yield Reward(Everybody(), experts)
    for expert in experts.values():
        expert.unload()


def drawing(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def draws(args: Any) -> Any:
        draw()
        return function(args)

    return draws


def rewarded(reward: Reward) -> list[float | None]:
    return RewardFunction(reward, editor=Painted())(**asking("wash", "dry", "wash\nfold"))


def rolled_out(reward: Reward) -> list[float | None]:
    (scene,) = scenes(1)
    world = EditingEnvironments(
        reward, editor=Painted(), to_sample=drawing(sample_from_row), describe=drawing(describe_changes)
    )
    environments = [world() for _ in range(2)]
    for environment in environments:
        environment.reset(instruction="make it blue", source=scene.source.pil())
        environment.look()
    environments[0].edit("wash")
    environments[1].edit("dry")
    environments[1].undo()
    environments[1].edit("fold")
    return world.reward([""] * 2, [""] * 2, environments=environments)


WAYS = pytest.mark.parametrize("way", [rewarded, rolled_out])


@pytest.fixture
def outputs() -> Iterator[Counter[bool]]:
    """How many tensors modules have put out since, by whether there is a graph behind them."""
    counts: Counter[bool] = Counter()

    def hook(module: Any, args: Any, output: Any) -> None:
        values = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
        for value in values:
            if isinstance(value, torch.Tensor):
                counts[value.requires_grad or value.grad_fn is not None] += 1

    handle = register_module_forward_hook(hook)
    yield counts
    handle.remove()


@WAYS
def test_no_gradient_flows(way, reward, outputs):
    with torch.enable_grad():
        values = way(reward)
        assert torch.is_grad_enabled()
    assert all(type(value) is float for value in values)
    assert outputs[True] == 0
    assert outputs[False] > 100
    for expert in reward.experts.values():
        with expert.checkpoint.use() as loaded:
            assert not any(weight.requires_grad or weight.grad is not None for weight in loaded.model.parameters())


def learned(between: Any) -> list[Any]:
    """Gradients of a module with dropout, after something is done between its forward and its backward pass; and what
    is drawn next."""
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.GELU(), torch.nn.Linear(16, 1))
    first = module(torch.rand(4, 8))
    between()
    second = module(torch.rand(4, 8))
    (first * second).sum().backward()
    gradients = [np.asarray(weight.grad).tobytes() for weight in module.parameters()]
    return [*gradients, random.random(), np.random.rand(), torch.rand(1).item()]  # noqa: NPY002


@WAYS
def test_gradients_of_a_trainer_are_the_same_to_the_bit(way, reward):
    assert learned(lambda: way(reward)) == learned(lambda: None)


def failing(completion: Any, completion_ids: Any, row: Any) -> Any:
    draw()
    raise ValueError("one picture, please")


def test_random_numbers_are_put_back_after_an_error() -> None:
    def wrong() -> None:
        with pytest.raises(ValueError, match="one picture"):
            RewardFunction(graded(), decode_image=failing)(**asking("a"))

    assert learned(wrong) == learned(lambda: None)


@pytest.mark.parametrize("calls", [1, 6])
def test_threads_put_back_what_torch_draws_and_leave_alone_what_the_program_draws(calls: int) -> None:
    reward = AsyncRewardFunction(RewardFunction(graded(), editor=Painted()))

    async def together() -> None:
        await asyncio.gather(*(reward(**asking(f"{number}")) for number in range(calls)))

    def own() -> None:
        for _ in range(calls):  # what the editors drew of Python's and numpy's stays drawn
            random.random()
            np.random.rand()  # noqa: NPY002

    assert learned(lambda: asyncio.run(together())) == learned(own)


class Ledger:
    """Where models were moved, in order, and what each place holds by that."""

    def __init__(self) -> None:
        self.moves: list[str] = []
        self._at: dict[int, tuple[str, int]] = {}

    def moved(self, model: torch.nn.Module, place: Any) -> None:
        self.moves.append(str(place))
        tensors = [*model.parameters(), *model.buffers()]
        self._at[id(model)] = (str(place), sum(tensor.nbytes for tensor in tensors))

    def held(self, place: str) -> int:
        return sum(size for where, size in self._at.values() if where == place)


@pytest.fixture
def ledger(monkeypatch) -> Ledger:
    book = Ledger()
    real = transformers.PreTrainedModel.to

    def to(model: Any, place: Any) -> Any:
        book.moved(model, place)
        return real(model, place)

    monkeypatch.setattr(transformers.PreTrainedModel, "to", to)
    return book


def sizes(reward: Reward, what: str) -> list[int]:
    return [expert.bytes.get(what, 0) for expert in reward.experts.values()]  # type: ignore[attr-defined]


def test_offloading_gives_back_what_the_experts_took(reward, ledger):
    (scene,) = scenes(1)
    scores = reward([scene])
    assert scores.count("scored") == 1, scores[0].reason
    first = scores.values
    assert ledger.moves == [HERE] * 3
    assert ledger.held(HERE) == sum(sizes(reward, "cpu")) > 0
    assert all(sizes(reward, "cache"))

    reward.offload()
    assert ledger.moves == [HERE] * 3 + ["cpu"] * 3
    assert ledger.held(HERE) == sum(sizes(reward, "cache")) == 0
    assert reward([scene]).values == first  # which was known
    assert ledger.held(HERE) == 0

    reward(scenes(2))
    assert ledger.moves == [HERE] * 3 + ["cpu"] * 3 + [HERE] * 3
    assert ledger.held(HERE) == sum(sizes(reward, "cpu"))


def test_who_serves_several_roles_is_offloaded_once_and_who_cannot_be_is_left_alone():
    class Movable:
        offloaded = 0

        def offload(self) -> None:
            self.offloaded += 1

    several, other, plain = Movable(), Movable(), object()
    experts: Any = {"detector": several, "features": other, "judge": several, "pixels": plain}
    Reward(Everybody(), experts).offload()
    assert (several.offloaded, other.offloaded) == (1, 1)


@pytest.mark.parametrize("way", ["function", "rollouts"])
@pytest.mark.parametrize("offload", [True, False])
def test_memory_may_be_given_back_after_each_call(way, offload, reward, ledger):
    function = RewardFunction(reward, editor=Painted(), offload=offload)
    world = EditingEnvironments(reward, editor=Painted(), offload=offload)
    for words in ("wash", "dry"):
        if way == "function":
            function(**asking(words, f"{words} it"))
        else:
            environment = world()
            environment.reset(instruction="make it blue", source=scenes(1)[0].source.pil())
            environment.edit(words)
            world.reward([""], [""], environments=[environment])
    assert Counter(ledger.moves) == ({HERE: 6, "cpu": 6} if offload else {HERE: 3})
    assert (ledger.held(HERE) == 0) is offload


def test_memory_is_given_back_when_the_reward_raises(reward, ledger):
    function = RewardFunction(Reward(Stubborn(), reward.experts), editor=Painted(), offload=True)
    with pytest.raises(TooManyFailures):
        function(**asking(*(f"try {number}" for number in range(20))))
    assert ledger.held(HERE) == 0
    assert ledger.moves[-1] == "cpu"
