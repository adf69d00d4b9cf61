"""Editors of flow-matching pipelines, each of diffusers' own class with random weights."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    Flux2KleinKVPipeline,
    FluxPipeline,
    UniPCMultistepScheduler,
)
from diffusers.pipelines.flux import pipeline_flux_kontext

from editcritic.integrations.diffusers import make_editor
from editcritic.integrations.diffusers.partial_denoising import patched
from editcritic.integrations.diffusers.pipeline_editor import pipeline_id
from editcritic.integrations.diffusers.pipeline_families import KONTEXT
from editcritic.reward import EditSample, Image
from editcritic.verifiers import Editor
from editcritic.verifiers.selection import NoiseSpec, StepwiseEditor
from tests.colour_profiles import DISPLAY_P3
from tests.integrations.diffusers import editing
from tests.integrations.diffusers.editing import apart, in_pieces
from tests.pipelines import flux2, flux2_klein, kontext, qwen_edit, qwen_edit_plus, small_qwen
from tests.reward.fakes import picture

STEPS = 4
WORDS = ["Remove red star", "Change the color of blue circle to green", "Add cat"]


@dataclass(frozen=True)
class Case:
    name: str
    pipeline: Any
    side: int
    settings: dict[str, Any]

    def editor(self, **more: Any) -> Any:
        return make_editor(self.pipeline, num_inference_steps=STEPS, **self.settings | more)

    def picture(self, number: int = 0) -> Image:
        return picture(number, self.side, self.side)

    def plain(self, sources: tuple[Image, ...], words: str, seed: int, **more: Any) -> Any:
        image: Any = [source.pil() for source in sources] if len(sources) > 1 else sources[0].pil()
        call = {"num_inference_steps": STEPS, **self.settings, **more}
        return self.pipeline(image=image, prompt=words, generator=torch.Generator().manual_seed(seed), **call).images[0]


FLUX2 = {"text_encoder_out_layers": (1,)}
CASES: dict[str, tuple[Callable[..., Any], int, dict[str, Any]]] = {
    "kontext": (kontext, 32, editing.KONTEXT),
    "qwen_edit": (qwen_edit, 32, {"negative_prompt": " ", "true_cfg_scale": 3.0}),
    "qwen_edit_plus": (qwen_edit_plus, 32, {"negative_prompt": " ", "true_cfg_scale": 3.0}),
    "flux2": (flux2, 64, FLUX2),
    "flux2_klein": (flux2_klein, 64, FLUX2),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    make, side, settings = CASES[request.param]
    pipeline = make(tmp_path_factory.mktemp(request.param))
    pipeline.set_progress_bar_config(disable=True)
    with small_qwen() if "qwen" in request.param else nullcontext():
        yield Case(request.param, pipeline, side, settings)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    make, side, settings = CASES["kontext"]
    return Case("kontext", make(tmp_path_factory.mktemp("small")), side, settings)


def same(one: Image, other: Image) -> bool:
    """Up to a level: 1e-3 of the range, and how it was rounded."""
    return one.size == other.size and apart([one], [other]) <= 1


def calls_of(pipeline) -> Any:
    rows: list[int] = []

    def spy(original, *args, **kwargs):
        output = original(*args, **kwargs)
        rows.append(len(output[0]))
        return output

    return rows, patched(pipeline, "prepare_latents", spy)


def test_pieces_one_go_and_the_plain_call_make_the_same_picture(case):
    editor, source = case.editor(), case.picture()
    assert isinstance(editor, StepwiseEditor)
    _, (image,) = in_pieces(editor, [NoiseSpec(3)], [(source,)], WORDS[:1])
    (whole,) = editor.edit([(source,)], WORDS[:1], [3])
    assert image == whole == Image.of(case.plain((source,), WORDS[0], 3))
    assert whole != Image.of(case.plain((source,), WORDS[0], 4))


def test_batch_companions_change_nothing(case):
    editor = case.editor()
    sources = [(case.picture(number % 2),) for number in range(5)]
    words = [WORDS[number // 2 % 2] for number in range(5)]
    together = editor.edit(sources, words, range(5))
    assert len({image.digest for image in together}) == 5
    for number in range(5):
        (alone,) = editor.edit([sources[number]], [words[number]], [number])
        assert same(together[number], alone)


def test_candidates_for_one_edit_share_a_call(case):
    editor = case.editor(batch_size=2)
    rows, spying = calls_of(case.pipeline)
    with spying:
        editor.edit([(case.picture(),)] * 3, WORDS[:1] * 3, range(3))
    assert rows == [2, 1]


def test_in_half_the_bits_it_works_as_well(case):
    before = case.pipeline.dtype
    case.pipeline.to(torch.bfloat16)
    try:
        editor, source = case.editor(), case.picture()
        drafts = editor.begin([(source,)], WORDS[:1], [NoiseSpec(3)])
        ((draft, look),) = editor.advance(drafts, 2)
        assert draft.arrays["latents"].dtype == np.float32
        ((_, image),) = editor.advance([draft], STEPS)
        assert image == Image.of(case.plain((source,), WORDS[0], 3))
        assert look.size == image.size
    finally:
        case.pipeline.to(before)


GRID = [(24, 48), (32, 32), (44, 24), (48, 24)]
"""Width and height, in place of Kontext's training sizes of a megapixel."""


def test_kontext_keeps_the_proportions_of_each_source_in_its_own_sizes(small, monkeypatch):
    monkeypatch.setattr(pipeline_flux_kontext, "PREFERRED_KONTEXT_RESOLUTIONS", GRID)
    settings: dict[str, Any] = {"num_inference_steps": 2, "max_sequence_length": 24}
    editor = make_editor(small.pipeline, **settings)
    sizes = {(96, 54): (44, 24), (64, 64): (32, 32), (45, 90): (24, 48), (90, 44): (48, 24)}
    sources = [picture(number, *size) for number, size in enumerate(sizes)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edited = editor.edit([(source,) for source in sources], ["Add cat"] * 4, range(4))
    assert [image.size for image in edited] == list(sizes.values())
    width, height = edited[0].size
    call = {"height": height, "width": width, "max_area": height * width, **settings}
    assert edited[0] == Image.of(replace(small, settings={}).plain((sources[0],), "Add cat", 0, **call))


@pytest.mark.parametrize("size", [(1920, 1080), (3024, 4032), (512, 512), (1000, 700), (800, 1700)])
def test_kontext_makes_pictures_of_the_size_that_it_gives_the_source(small, size):
    arguments = KONTEXT.arguments(small.pipeline, [(picture(0, *size),)], ["Add cat"], {})
    width, height = arguments["width"], arguments["height"]
    assert (width, height) in pipeline_flux_kontext.PREFERRED_KONTEXT_RESOLUTIONS
    assert abs(width * size[1] / (height * size[0]) - 1) < 0.08
    # as the pipeline computes its size: it must not leave the grid again
    assert round((arguments["max_area"] * width / height) ** 0.5) == width


def test_without_its_grid_kontext_has_the_proportions_of_the_source(small):
    settings = {name: value for name, value in small.settings.items() if name not in ("height", "width")}
    editor = make_editor(small.pipeline, num_inference_steps=2, **settings)
    (image,) = editor.edit([(picture(0, 96, 54),)], ["Add cat"], [0])
    assert image.size == (40, 24)  # the multiples of 4 below 42.7 and 24, of 32 x 32 pixels


def test_a_fixed_size_that_distorts_a_source_is_said_once(small):
    editor = small.editor()
    sources = [(picture(0, 96, 54),), (picture(1, 64, 64),)]
    says = r"made 32 x 32 pixels of a source of 96 x 54: .* squeezed by 78%, .* Leave out height and width"
    with pytest.warns(UserWarning, match=says):
        editor.edit(sources, WORDS[:2], [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        editor.edit(sources, WORDS[:2], [0, 1])


def test_the_first_of_several_sources_decides_the_proportions(tmp_path):
    with small_qwen(91):
        editor = make_editor(qwen_edit_plus(tmp_path), num_inference_steps=2, negative_prompt=" ")
        (image,) = editor.edit([(picture(0, 128, 64), picture(1, 64, 64))], WORDS[:1], [0])
    assert image.size == (128, 64)


def test_a_source_with_a_colour_profile_is_handed_over_in_srgb(small):
    encoded = io.BytesIO()
    small.picture().pil().save(encoded, "PNG", icc_profile=DISPLAY_P3)
    source = Image.of(encoded.getvalue())
    assert source != source.raw == small.picture()
    editor = small.editor()
    assert editor.edit([(source,)], WORDS[:1], [0]) == editor.edit([(Image.of(source.pixels),)], WORDS[:1], [0])
    assert make_editor(lambda image, *_: image, id="same").edit([(source,)], [""], [0]) == [Image.of(source.pixels)]


def test_several_sources_are_handed_over_where_the_pipeline_takes_them(case):
    editor, sources = case.editor(), (case.picture(0), case.picture(1))
    if case.name in ("kontext", "qwen_edit"):
        with pytest.raises(ValueError, match="edits one image, got 2 sources"):
            editor.edit([sources], WORDS[:1], [0])
    else:
        (image,) = editor.edit([sources], WORDS[:1], [0])
        assert image == Image.of(case.plain(sources, WORDS[0], 0))


def test_pictures_of_earlier_turns_are_handed_over_behind_the_source_where_they_can_be(case):
    base, now = case.picture(0), case.picture(1)
    turn = EditSample(id="1", instruction=WORDS[1], sources=(base,), edited=now)
    (image,) = case.editor().edit([(now,)], WORDS[:1], [0], history=[(turn,)])
    shown = (now,) if case.name in ("kontext", "qwen_edit") else (now, base)
    assert image == Image.of(case.plain(shown, WORDS[0], 0))


def test_the_evaluations_are_known_beforehand_and_checked(small):
    assert small.editor().nfe == STEPS
    assert make_editor(small.pipeline).nfe == 28
    assert make_editor(small.pipeline, sigmas=[1.0, 0.6, 0.2]).nfe == 3
    editor = small.editor()
    editor.nfe = editor._calls.nfe = 3  # as if the scheduler made something else of it
    with pytest.raises(ValueError, match="took 4 evaluations, expected 3"):
        editor.edit([(small.picture(),)], WORDS[:1], [0])


def test_a_call_that_hides_its_steps_has_to_be_told(small):
    class Hiding(type(small.pipeline)):  # type: ignore[misc]
        def __call__(self, image, prompt, **settings):
            return super().__call__(image, prompt, **settings)

    hiding = Hiding(**small.pipeline.components)
    with pytest.raises(ValueError, match="pass num_inference_steps"):
        make_editor(hiding)
    assert make_editor(hiding, num_inference_steps=3).nfe == 3


def test_the_name_says_all_that_pictures_depend_on(small):
    name = small.editor().id
    assert name == small.editor().id == small.editor(batch_size=3).id
    assert "FluxKontextPipeline" in name
    changed = {small.editor(guidance_scale=7.0).id}
    components = small.pipeline.components
    for part in (
        {"scheduler": FlowMatchEulerDiscreteScheduler(shift=3.0)},
        {"transformer": type(small.pipeline.transformer)(**small.pipeline.transformer.config)},
    ):
        other = type(small.pipeline)(**{**components, **part})
        changed.add(make_editor(other, num_inference_steps=STEPS, **small.settings).id)
    assert len(changed | {name}) == 4
    spelt_out = type(small.pipeline)(**{**components, "scheduler": FlowMatchEulerDiscreteScheduler(shift=1.0)})
    assert make_editor(spelt_out, num_inference_steps=STEPS, **small.settings).id.split(" weights ")[1] in name
    assert small.editor(id="mine").id == "mine"


def test_settings_and_pipelines_that_edit_nothing_are_refused_at_once(small):
    for settings, message in (
        ({"strength": 0.5}, r"takes no strength; it takes .*guidance_scale"),
        ({"generator": None}, "generator is set by the editor itself"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            small.editor(**settings)
    with pytest.raises(ValueError, match=r"FluxPipeline is no instruction editor: its call has no image. Supported:"):
        make_editor(FluxPipeline(**small.pipeline.components))
    with pytest.raises(ValueError, match="got str"):
        make_editor("black-forest-labs/FLUX.1-Kontext-dev")


def test_everything_else_is_left_as_it_was(small, capfd):
    small.pipeline.set_progress_bar_config(desc="mine")
    random, settings = torch.random.get_rng_state(), dict(small.pipeline.scheduler.config)
    small.editor().edit([(small.picture(),)], WORDS[:1], [0])
    assert torch.equal(torch.random.get_rng_state(), random)
    assert dict(small.pipeline.scheduler.config) == settings
    assert "progress_bar" not in vars(small.pipeline)
    assert capfd.readouterr().err == ""
    small.plain((small.picture(),), WORDS[0], 0)
    assert "mine" in capfd.readouterr().err


def test_calls_of_one_pipeline_do_not_cross_each_other(small):
    editors = [small.editor(), small.editor(guidance_scale=9.0)]
    requests = [(editors[number % 2], number) for number in range(6)]

    def made(item):
        editor, number = item
        return editor.edit([(small.picture(number % 3),)], [WORDS[number % 3]], [number])[0]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(made, requests)) == [made(item) for item in requests]


def test_models_that_were_moved_meanwhile_can_still_be_trained(small):
    move = small.pipeline.transformer.register_forward_pre_hook(
        lambda module, _: module.to(torch.float64).to(torch.float32) and None  # as offloading moves them
    )
    small.editor().edit([(small.picture(),)], WORDS[:1], [0])
    move.remove()
    calls: list[dict[str, Any]] = []
    hook = small.pipeline.transformer.register_forward_pre_hook(
        lambda _, a, named: calls.append(named), with_kwargs=True
    )
    small.plain((small.picture(),), WORDS[0], 0)
    hook.remove()
    small.pipeline.transformer(**{**calls[0], "hidden_states": calls[0]["hidden_states"].clone()})[0].sum().backward()
    assert any(weight.grad is not None for weight in small.pipeline.transformer.parameters())
    small.pipeline.transformer.zero_grad(set_to_none=True)


def test_a_solver_with_a_memory_makes_whole_pictures_and_one_that_was_exchanged_is_noticed(small):
    pipeline = type(small.pipeline)(**small.pipeline.components)
    before: Any = make_editor(pipeline, num_inference_steps=STEPS, **small.settings)
    pipeline.scheduler = UniPCMultistepScheduler(use_flow_sigmas=True, prediction_type="flow_prediction")
    with pytest.raises(TypeError, match=r"replaced by a UniPCMultistepScheduler .*: create a new editor"):
        before.edit([(small.picture(),)], WORDS[:1], [0])
    editor: Any = make_editor(pipeline, num_inference_steps=STEPS, **small.settings)
    with pytest.raises(AttributeError, match="cannot pause: UniPCMultistepScheduler keeps more"):
        editor.begin([(small.picture(),)], WORDS[:1], [NoiseSpec(0)])
    assert isinstance(editor, Editor)
    assert not isinstance(editor, StepwiseEditor)
    assert editor.nfe == STEPS
    edited = editor.edit([(small.picture(),)] * 2, WORDS[:1] * 2, [0, 1])
    alone = replace(small, pipeline=pipeline).plain((small.picture(),), WORDS[0], 1)
    assert same(edited[1], Image.of(alone))
    assert edited[0] != edited[1]


def test_what_looks_at_the_sources_once_a_call_is_not_stopped(tmp_path):
    pipeline = Flux2KleinKVPipeline(**flux2_klein(tmp_path).components)
    pipeline.set_progress_bar_config(disable=True)
    cached = Case("cached", pipeline, 64, FLUX2)
    editor = cached.editor()
    assert not isinstance(editor, StepwiseEditor)
    assert "first step of a call only" in editor.single_pass_reason
    (image,) = editor.edit([(cached.picture(),)], WORDS[:1], [0])
    assert image == Image.of(cached.plain((cached.picture(),), WORDS[0], 0))


def brighten(image, instruction, seed):
    return np.clip(np.asarray(image).astype(int) + seed, 0, 255).astype(np.uint8)


def brighten_all(images, instructions, seeds):
    return [brighten(*item) for item in zip(images, instructions, seeds, strict=True)]


@pytest.mark.parametrize(("function", "batched"), [(brighten, False), (brighten_all, True)])
def test_a_function_is_an_editor(function, batched):
    editor = make_editor(function, batched=batched, batch_size=2)
    assert isinstance(editor, Editor)
    assert not isinstance(editor, StepwiseEditor)
    assert (editor.id, editor.nfe) == (f"{__name__}:{function.__qualname__}", 0)
    edited = editor.edit([(picture(0),)] * 3, WORDS, range(3))
    assert list(edited) == [Image.of(brighten(picture(0).pil(), "", seed)) for seed in range(3)]


def test_a_function_is_shown_all_sources_and_needs_a_name_that_lasts():
    editor = make_editor(lambda images, instruction, seed: images[seed], id="pick")
    assert list(editor.edit([(picture(0), picture(1))], ["pick"], [1])) == [picture(1)]
    with pytest.raises(ValueError, match="pass id="):
        make_editor(lambda image, instruction, seed: image)
    with pytest.raises(ValueError, match="takes no settings, got strength"):
        make_editor(brighten, strength=1.0)


def test_importing_the_package_loads_neither_torch_nor_diffusers():
    code = (
        "import sys, editcritic.integrations.diffusers; sys.exit('torch' in sys.modules or 'diffusers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def identified(betas: np.ndarray) -> str:
    pipeline = SimpleNamespace(scheduler=DDIMScheduler(trained_betas=betas), components={}, name_or_path="tiny")
    return pipeline_id(pipeline, {"num_inference_steps": 4})


def test_solvers_that_differ_within_a_long_array_differ():
    betas = np.linspace(1e-4, 0.02, 2000)
    changed = betas.copy()
    changed[1000] *= 2
    assert str(betas) == str(changed)
    assert identified(betas) == identified(betas.copy())
    assert identified(betas) != identified(changed)
