"""What is recorded of a pipeline's call, and replayed: each pipeline of diffusers' own class, with random weights."""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler
from peft import LoraConfig

from editcritic.integrations.diffusers.partial_denoising import initial_state
from editcritic.integrations.diffusers.pipeline_calls import PipelineCaller
from editcritic.integrations.diffusers.pipeline_families import family_of
from editcritic.integrations.diffusion_rl.trajectories import Trajectory, TrajectoryRecorder, denoiser
from editcritic.integrations.diffusion_rl.transitions import log_likelihood, transitions_of
from editcritic.reward import Image
from editcritic.verifiers.selection.editor import NoiseSpec

from ...pipelines import flux2, flux2_klein, kontext, qwen_edit, qwen_edit_plus, small_qwen
from ...pipelines_epsilon import instruct, instruct_xl
from ..diffusers.editing import KONTEXT, WISHES, picture

STEPS = 3
FLUX2 = {"text_encoder_out_layers": (1,)}
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "kontext": (kontext, KONTEXT),
    "qwen_edit": (qwen_edit, {"true_cfg_scale": 1.0}),
    "qwen_edit_plus": (qwen_edit_plus, {"true_cfg_scale": 1.0}),
    "flux2": (flux2, FLUX2 | {"guidance_scale": 2.5}),
    "flux2_klein": (flux2_klein, FLUX2 | {"guidance_scale": 1.0}),
    "instruct": (instruct, {"guidance_scale": 7.5, "image_guidance_scale": 1.5}),
    "instruct, unguided": (instruct, {"guidance_scale": 1.0}),
    "instruct_xl": (instruct_xl, {"guidance_scale": 5.0, "image_guidance_scale": 1.5}),
    "instruct_xl, unguided": (instruct_xl, {"guidance_scale": 1.0}),
}


@dataclass(frozen=True)
class Case:
    pipeline: Any
    settings: dict[str, Any]

    def calls(self, batch: int = 4, steps: int = STEPS, **more: Any) -> PipelineCaller:
        family = family_of(self.pipeline)
        assert family is not None
        return PipelineCaller(self.pipeline, family, batch, {"num_inference_steps": steps, **self.settings, **more})

    def side(self) -> int:
        return 64 if "Flux2" in type(self.pipeline).__name__ else 32

    def draft(self, seed: int, number: int = 0, words: str = WISHES[0]) -> Any:
        return initial_state((picture(number, self.side()),), words, NoiseSpec(seed))

    def record(
        self, *drafts: Any, chance: Any = None, level: float = 0.7, sampling: Any = "sde", **more: Any
    ) -> tuple[Trajectory, list[Image | str]]:
        generators = [torch.Generator().manual_seed(draft.noise.seed) for draft in drafts]
        moves = transitions_of(self.pipeline, level, sampling)
        with TrajectoryRecorder(self.pipeline, moves, generators, chance, self.settings | more) as trajectory:
            return trajectory, self.calls(len(drafts), **more).generate(drafts, generators)


@pytest.fixture(scope="module")
def load_case(tmp_path_factory):
    cases: dict[str, Case] = {}

    def case(name: str) -> Case:
        if name not in cases:
            make, settings = CASES[name]
            pipeline = make(tmp_path_factory.mktemp("pipeline"))
            pipeline.set_progress_bar_config(disable=True)
            if "instruct" in name:
                pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
            for part in pipeline.components.values():
                if isinstance(part, torch.nn.Module):
                    part.requires_grad_(False)
            module: Any = denoiser(pipeline)  # peft gives it methods
            torch.manual_seed(0)
            targets = ["to_q", "to_k", "to_v", "to_out.0", "to_qkv_mlp_proj"]
            module.add_adapter(LoraConfig(r=2, target_modules=targets, init_lora_weights=False), "default")
            cases[name] = Case(pipeline, settings)
        return cases[name]

    return case


@pytest.fixture(params=CASES)
def case(request, load_case):
    with small_qwen() if "qwen" in request.param else nullcontext():
        yield load_case(request.param)


@pytest.fixture
def small(load_case):
    return load_case("kontext")


def replayed(trajectory: Trajectory, rows: list[int]) -> list[torch.Tensor]:
    """Likelihoods of these rows at each step, by the weights as they are."""
    likelihoods = []
    for step in trajectory.steps:
        mean, std = trajectory.mean(step, rows)
        likelihoods.append(log_likelihood(step.next_state[rows], mean, std))
    return likelihoods


def recorded(trajectory: Trajectory, rows: list[int]) -> list[torch.Tensor]:
    return [step.log_likelihood[rows] for step in trajectory.steps]


def assert_the_same(some: list[torch.Tensor], others: list[torch.Tensor]) -> None:
    """As near as a ratio of likelihoods that is clipped at 1e-4 needs it."""
    assert len(some) == len(others) > 0
    for one, other in zip(some, others, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=5e-6)


def test_likelihoods_replayed_are_those_recorded_for_any_rows_in_any_order(case):
    trajectory, pictures = case.record(*(case.draft(seed) for seed in (3, 4, 5)))
    assert len({one.digest for one in pictures}) == 3
    ends = 1  # the last step of a flow, and DDIM's last, have no chance in them
    assert [step.index for step in trajectory.steps] == list(range(STEPS - ends))
    with torch.no_grad():
        for rows in ([0, 1, 2], [2, 0], [1]):
            assert_the_same(replayed(trajectory, rows), recorded(trajectory, rows))
    likelihoods = torch.stack(recorded(trajectory, [0, 1, 2]))
    assert len({round(float(one), 6) for one in likelihoods.flatten()}) == likelihoods.numel()


def test_gradients_reach_the_lora_and_nothing_else(case):
    trajectory, _ = case.record(case.draft(3), case.draft(4))
    for likelihood in replayed(trajectory, [1]):
        likelihood.sum().backward()
    module = denoiser(case.pipeline)
    having = {name for name, weight in module.named_parameters() if weight.grad is not None}
    trained = {name for name, weight in module.named_parameters() if weight.requires_grad}
    assert trained
    # the last block of a flow model throws away what it makes of the words
    assert {name for name in trained if "add" not in name} == having
    assert all("lora" in name for name in having)
    for name, part in case.pipeline.components.items():
        if isinstance(part, torch.nn.Module) and part is not module:
            assert all(weight.grad is None for weight in part.parameters()), name
    module.zero_grad()


def test_without_chance_the_picture_is_the_pipelines_own(case):
    drafts = [case.draft(3), case.draft(4)]
    trajectory, pictures = case.record(*drafts, chance=())
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    assert trajectory.steps == []
    assert pictures == case.calls(2).generate(drafts, generators)
    _, moved = case.record(*drafts)
    assert all(one != other for one, other in zip(pictures, moved, strict=True))


def test_a_trajectory_is_replayed_as_it_was_after_calls_that_ask_for_something_else(case):
    trajectory, _ = case.record(case.draft(3), case.draft(4))
    more: dict[str, Any] = {"height": 64, "width": 64, "max_area": 64**2} if "height" in case.settings else {}
    more |= {"guidance_scale": 3.3} if "guidance_scale" in case.settings and "Klein" not in str(case.pipeline) else {}
    case.record(case.draft(5), steps=STEPS + 3, **more)
    with torch.no_grad():
        assert_the_same(replayed(trajectory, [0, 1]), recorded(trajectory, [0, 1]))


def test_the_same_seeds_make_the_same_pictures_whoever_is_beside_them(case):
    before = torch.get_rng_state()
    first, pictures = case.record(case.draft(3), case.draft(4))
    again, (alone,) = case.record(case.draft(4))
    assert torch.equal(before, torch.get_rng_state())
    for step, other in zip(first.steps, again.steps, strict=True):
        torch.testing.assert_close(step.next_state[1:], other.next_state, rtol=0, atol=1e-4)
    assert abs(pictures[1].pixels.astype(int) - alone.pixels.astype(int)).max() <= 1


@pytest.mark.parametrize("as_many", ["numbers in an id", "words", "patches"])
def test_rows_are_not_taken_for_words_or_patches(small, as_many):
    """Ids have no rows of their own: one a word, or one a patch of image and source."""
    first, _ = small.record(small.draft(0), steps=2)
    ids = first.steps[0].denoiser_inputs[1]
    rows = {
        "numbers in an id": ids["txt_ids"].shape[1],
        "words": len(ids["txt_ids"]),
        "patches": len(ids["img_ids"]) // 16,  # all of them, in a row for each 16
    }[as_many]
    trajectory, _ = small.record(*(small.draft(seed) for seed in range(rows)), steps=2)
    chosen = [rows - 1, 1]
    with torch.no_grad():
        assert_the_same(replayed(trajectory, chosen), recorded(trajectory, chosen))


@pytest.mark.parametrize("name", ["kontext", "instruct", "instruct_xl", "qwen_edit_plus"])
def test_rows_of_a_call_may_have_sources_and_words_of_their_own_or_several_sources(load_case, name):
    case = load_case(name)
    drafts = [case.draft(3, number, words) for number, words in enumerate(WISHES)]
    if name == "qwen_edit_plus":
        drafts = [initial_state((picture(1), picture(2)), WISHES[0], NoiseSpec(seed)) for seed in (3, 4, 5)]
    with small_qwen(), torch.no_grad():
        trajectory, _ = case.record(*drafts)
        for rows in ([2, 0], [1]):
            assert_the_same(replayed(trajectory, rows), recorded(trajectory, rows))


@pytest.mark.parametrize("sampling", ["sde", "cps"])
@pytest.mark.parametrize(("chance", "numbers"), [((1,), [1]), ((0, 2), [0, 2]), ((3, 9), []), (None, [0, 1, 2])])
def test_only_the_chosen_steps_are_left_to_chance(small, chance, numbers, sampling):
    trajectory, _ = small.record(small.draft(3), small.draft(4), chance=chance, steps=4, sampling=sampling)
    assert [step.index for step in trajectory.steps] == numbers
    with torch.no_grad():
        if numbers:
            assert_the_same(replayed(trajectory, [1]), recorded(trajectory, [1]))


@pytest.mark.parametrize(
    ("name", "settings", "cure"),
    [
        ("qwen_edit", {"true_cfg_scale": 3.0, "negative_prompt": " "}, "true_cfg_scale=1"),
        ("qwen_edit_plus", {"true_cfg_scale": 3.0, "negative_prompt": " "}, "true_cfg_scale=1"),
        ("kontext", {"true_cfg_scale": 3.0, "negative_prompt": "red"}, "true_cfg_scale=1"),
        ("flux2_klein", {"guidance_scale": 4.0}, "guidance_scale=1"),
    ],
)
def test_guidance_that_calls_the_denoiser_twice_is_refused(load_case, name, settings, cure):
    case = load_case(name)
    with small_qwen(), pytest.raises(ValueError, match=f"called its denoiser 2 times for one step.*{cure}"):
        case.record(case.draft(3), **settings)
    assert_untouched(case.pipeline)


def test_guidance_with_rescaling_is_refused(load_case):
    case = load_case("instruct_xl")
    with pytest.raises(ValueError, match="perhaps guidance with rescaling"):
        case.record(case.draft(3), guidance_rescale=0.7)


@pytest.mark.parametrize("name", ["instruct", "instruct_xl"])
def test_guidance_that_nothing_was_said_of_is_the_default_of_the_call(load_case, name):
    case = load_case(name)
    call = {"prompt": WISHES[0], "image": picture(1).pil(), "num_inference_steps": STEPS}
    call |= {"height": 32, "width": 32} if "xl" in name else {}
    generators = [torch.Generator().manual_seed(3)]
    with TrajectoryRecorder(case.pipeline, transitions_of(case.pipeline, 0.7), generators) as trajectory:
        case.pipeline(**call, generator=generators)
    with torch.no_grad():
        assert_the_same(replayed(trajectory, [0]), recorded(trajectory, [0]))
    other = pytest.raises(ValueError, match="computes its guided prediction in an unknown way")
    with other, TrajectoryRecorder(case.pipeline, transitions_of(case.pipeline, 0.7), generators):
        case.pipeline(**call, generator=generators, guidance_scale=2.0)


def test_a_call_with_other_rows_than_generators_is_refused(small):
    drafts = [small.draft(3), small.draft(4)]
    generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
    moves = transitions_of(small.pipeline, 0.7)
    with (
        pytest.raises(ValueError, match="the call has 2 rows, but 1 generators"),
        TrajectoryRecorder(small.pipeline, moves, generators[:1]),
    ):
        small.calls(2).generate(drafts, generators)


def test_a_pipeline_without_a_denoiser_is_refused():
    with pytest.raises(ValueError, match="neither a transformer nor a unet"):
        denoiser(object())


def assert_untouched(pipeline: Any) -> None:
    assert "step" not in vars(pipeline.scheduler)
    assert not denoiser(pipeline)._forward_hooks


def test_nothing_is_left_behind_by_a_call_that_fails(small):
    def fails(*_: Any) -> Any:
        raise RuntimeError("out of paint")

    moves = transitions_of(small.pipeline, 0.7)
    with (
        pytest.raises(RuntimeError, match="out of paint"),
        TrajectoryRecorder(small.pipeline, moves, [torch.Generator()]),
    ):
        small.pipeline(callback_on_step_end=fails, image=picture(1).pil(), prompt="x", **small.settings)
    assert_untouched(small.pipeline)


def test_a_replay_calls_the_denoiser_once_and_no_other_part(case, monkeypatch):
    trajectory, _ = case.record(case.draft(3), case.draft(4))
    counts: Counter[str] = Counter()
    handles = [
        part.register_forward_hook(lambda *_, name=name: counts.update([name]))
        for name, part in case.pipeline.components.items()
        if isinstance(part, torch.nn.Module)
    ]
    with torch.no_grad():
        replayed(trajectory, [0, 1])
    for handle in handles:
        handle.remove()
    assert sum(counts.values()) == len(trajectory.steps)
    assert set(counts) <= {"transformer", "unet"}


def test_a_step_that_is_kept_predicts_for_other_states_what_the_pipeline_would(case):
    """Two calls differ in their noise alone: with the other's state, each predicts what the other did."""
    generators = [[torch.Generator().manual_seed(seed + row) for row in range(2)] for seed in (0, 10)]
    trajectories = []
    for drawn in generators:
        drafts = [case.draft(0), case.draft(1)]
        moves = transitions_of(case.pipeline, 0.7)
        with TrajectoryRecorder(case.pipeline, moves, drawn, (), case.settings, kept_steps=(0, 1)) as trajectory:
            case.calls(2).generate(drafts, drawn)
        trajectories.append(trajectory)
    first, second = trajectories
    assert [step.index for step in first.steps] == [0, 1]
    with torch.no_grad():
        for mine, theirs in zip(first.steps, second.steps, strict=True):
            expected = second.prediction(theirs, [1])
            assert torch.allclose(first.prediction(mine, [1], theirs.state[[1]]), expected, atol=1e-4)
            assert not torch.allclose(first.prediction(mine, [1]), expected, atol=1e-3)
