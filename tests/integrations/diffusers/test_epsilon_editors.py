"""InstructPix2Pix, OmniGen and LEDITS++ as editors: what they are called with, in pieces, in batches, whole."""

import inspect
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    PNDMScheduler,
)

from editcritic.integrations.diffusers import editor_of, ledits, omnigen
from editcritic.integrations.diffusers.families import LEDITS, OMNIGEN, family_of
from editcritic.reward import Image
from editcritic.verifiers.editor import Noise, StepwiseEditor

from ... import pipelines_epsilon as tiny

STEPS = 4
WISHES = ("Make it winter", "Remove the red cup", "Turn the small lamp beside the window into a candle")
SEEDS = (3, 4, 5)

SOLVERS = {
    "ancestral": partial(EulerAncestralDiscreteScheduler.from_config),
    "ancestral, leading": partial(EulerAncestralDiscreteScheduler.from_config, timestep_spacing="leading"),
    "ancestral, v": partial(EulerAncestralDiscreteScheduler.from_config, prediction_type="v_prediction"),
    "euler": partial(EulerDiscreteScheduler.from_config),
    "euler, karras": partial(EulerDiscreteScheduler.from_config, use_karras_sigmas=True),
    "euler, v": partial(EulerDiscreteScheduler.from_config, prediction_type="v_prediction"),
    "ddim": partial(DDIMScheduler.from_config, clip_sample=False),
    "ddim, clipped": partial(DDIMScheduler.from_config, clip_sample=True),
    "ddim, v": partial(DDIMScheduler.from_config, clip_sample=False, prediction_type="v_prediction"),
    "ddpm": partial(DDPMScheduler.from_config, clip_sample=False),
}
"""One that makes a solver of the settings of another, each."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The tiny pipeline of a name, loaded once."""
    found = {}

    def load(name):
        if name not in found:
            found[name] = getattr(tiny, name)(tmp_path_factory.mktemp(name))
        return found[name]

    return load


def with_solver(pipeline, solver, **more):
    """The same pipeline with another solver."""
    parts = {**pipeline.components, "scheduler": SOLVERS[solver](pipeline.scheduler.config, **more)}
    if "safety_checker" in parts:
        parts["requires_safety_checker"] = False
    made = type(pipeline)(**parts)
    made.set_progress_bar_config(disable=True)
    return made


def picture(seed, size=tiny.SIZE):
    return Image.of(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def sources(count=3):
    return [(picture(seed),) for seed in range(count)]


def generators(seeds=SEEDS):
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def in_pieces(editor, noises, images, wishes, stops=(1, 3, STEPS)):
    drafts, pictures = editor.begin(images, wishes, noises), []
    for stop in stops:
        moved = editor.advance(drafts, stop)
        drafts, pictures = [draft for draft, _ in moved], [made for _, made in moved]
    return drafts, pictures


def apart(some, others):
    """The largest difference of two lists of pictures, of 255."""
    pairs = zip(some, others, strict=True)
    return max(np.abs(a.pixels.astype(int) - b.pixels.astype(int)).max() for a, b in pairs)


# -- InstructPix2Pix ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "solver"),
    [*(("instruct", solver) for solver in SOLVERS), ("instruct_xl", "ancestral, leading"), ("instruct_xl", "ddim")],
)
def test_pieces_make_what_one_go_and_the_plain_call_make(loaded, name, solver):
    pipeline = with_solver(loaded(name), solver)
    editor = editor_of(pipeline, num_inference_steps=STEPS)
    size = {"height": tiny.SIZE, "width": tiny.SIZE} if name == "instruct_xl" else {}
    plain = pipeline(
        prompt=list(WISHES), image=[row[0].pil() for row in sources()], generator=generators(),
        num_inference_steps=STEPS, **size,
    ).images  # fmt: skip
    whole = editor.edit(sources(), WISHES, SEEDS)
    _, pieces = in_pieces(editor, [Noise(seed) for seed in SEEDS], sources(), WISHES)
    assert [Image.of(one) for one in plain] == whole == pieces
    assert len({one.digest for one in whole}) == 3


def test_ddim_that_adds_noise_goes_on_with_its_own_random_numbers(loaded):
    pipeline = with_solver(loaded("instruct"), "ddim")
    editor = editor_of(pipeline, num_inference_steps=STEPS, eta=1.0)
    _, pieces = in_pieces(editor, [Noise(3)], sources(1), WISHES[:1])
    assert pieces == editor.edit(sources(1), WISHES[:1], [3])
    calm = editor_of(pipeline, num_inference_steps=STEPS)
    assert pieces != calm.edit(sources(1), WISHES[:1], [3])


@pytest.mark.parametrize("solver", SOLVERS)
def test_previews_show_what_the_formula_says(loaded, solver, monkeypatch):
    pipeline = with_solver(loaded("instruct"), solver)
    seen = []
    step = type(pipeline.scheduler).step

    def spied(self, output, timestep, sample, *args, **named):
        seen.append((output.clone(), timestep, sample.clone()))
        return step(self, output, timestep, sample, *args, **named)

    monkeypatch.setattr(type(pipeline.scheduler), "step", spied)
    editor = editor_of(pipeline, num_inference_steps=STEPS)
    ((draft, shown),) = editor.advance(editor.begin(sources(1), WISHES[:1], [Noise(3)]), 3)
    output, timestep, sample = seen[-1]
    expected = formula(pipeline.scheduler, 2, timestep, sample, output)
    assert len(seen) == 3
    assert np.abs(draft.arrays["clean"] - expected[0].numpy()).max() < 1e-3
    with torch.no_grad():
        decoded = pipeline.vae.decode(expected / pipeline.vae.config.scaling_factor).sample
    assert apart([shown], [Image.of(pipeline.image_processor.postprocess(decoded)[0])]) <= 1


def formula(scheduler, index, timestep, sample, output):
    """The picture that the state `sample` and the model's `output` are about, before step `index`."""
    velocity = scheduler.config.prediction_type == "v_prediction"
    if hasattr(scheduler, "sigmas"):
        sigma = scheduler.sigmas[index]
        if velocity:
            return sample / (sigma**2 + 1) - output * sigma / (sigma**2 + 1).sqrt()
        return sample - sigma * output
    signal = scheduler.alphas_cumprod[int(timestep)]
    if velocity:
        return signal.sqrt() * sample - (1 - signal).sqrt() * output
    clean = (sample - (1 - signal).sqrt() * output) / signal.sqrt()
    return clean.clamp(-1, 1) if scheduler.config.clip_sample else clean


@pytest.mark.parametrize("solver", ["ancestral", "euler", "ddim", "ddpm"])
def test_a_batch_makes_what_each_makes_alone(loaded, solver):
    editor = editor_of(with_solver(loaded("instruct"), solver), num_inference_steps=STEPS)
    noises = [Noise(seed) for seed in SEEDS]
    together, pictures = in_pieces(editor, noises, sources(), WISHES)
    for row, (noise, images, wish) in enumerate(zip(noises, sources(), WISHES, strict=True)):
        (alone,), shown = in_pieces(editor, [noise], [images], [wish])
        assert np.abs(alone.arrays["clean"] - together[row].arrays["clean"]).max() < 1e-3
        assert apart(shown, pictures[row : row + 1]) <= 1


@pytest.mark.parametrize("name", ["instruct", "instruct_xl"])
def test_pictures_of_one_size_share_a_call(loaded, name, monkeypatch):
    pipeline = loaded(name)
    calls = []
    unet = type(pipeline.unet)
    forward = unet.forward
    monkeypatch.setattr(unet, "forward", lambda self, x, *a, **k: calls.append(len(x)) or forward(self, x, *a, **k))
    images = [(picture(0),), (picture(1, 40),), (picture(2),)]
    made = editor_of(pipeline, num_inference_steps=2).edit(images, WISHES, SEEDS)
    assert calls == [6, 6, 3, 3]  # guidance has three branches
    assert [one.width for one in made] == [32, 40, 32]


def test_words_that_go_with_the_prompt_go_with_each_of_a_batch(loaded):
    editor = editor_of(loaded("instruct"), num_inference_steps=2, negative_prompt="blurry")
    together = editor.edit(sources(), WISHES, SEEDS)
    assert apart(together[1:2], editor.edit(sources()[1:2], WISHES[1:2], SEEDS[1:2])) <= 1
    assert together != editor_of(loaded("instruct"), num_inference_steps=2).edit(sources(), WISHES, SEEDS)


@pytest.mark.parametrize("spacing", ["linspace", "leading"])
def test_neighbours_are_as_noisy_as_what_they_are_near_to(loaded, spacing):
    """The noise of Euler's solvers is scaled: so must that of neighbours be."""
    pipeline = with_solver(loaded("instruct"), "euler", timestep_spacing=spacing)
    editor = editor_of(pipeline, num_inference_steps=STEPS)
    noises = [Noise(3), Noise(3).near(9, 1.0), Noise(9), Noise(3).near(9, 1e-4)]
    _, (first, far, other, near) = in_pieces(editor, noises, sources(1) * 4, WISHES[:1] * 4, stops=(STEPS,))
    assert apart([far], [other]) <= 1
    assert apart([near], [first]) <= 1
    assert apart([first], [other]) > 1


@pytest.mark.parametrize("solver", ["ancestral", "euler", "ddim", "ddpm"])
def test_a_draft_that_goes_back_takes_another_way(loaded, solver):
    editor = editor_of(with_solver(loaded("instruct"), solver), num_inference_steps=STEPS)
    drafts, _ = in_pieces(editor, [Noise(3)], sources(1), WISHES[:1], stops=(3,))
    again = editor.back(drafts * 2, 1, [7, 8])
    assert {draft.step for draft in again} == {1}
    (one, first), (_, second) = editor.advance(again, STEPS)
    assert first != second
    assert np.isfinite(one.arrays["clean"]).all()


MULTISTEP = {
    "dpm": (DPMSolverMultistepScheduler, STEPS),
    "pndm": (partial(PNDMScheduler, skip_prk_steps=True), STEPS + 1),
}


@pytest.mark.parametrize("solver", MULTISTEP)
def test_a_solver_that_remembers_makes_whole_pictures_only(loaded, solver):
    make, evaluations = MULTISTEP[solver]
    pipeline = with_solver(loaded("instruct"), "euler")
    pipeline.scheduler = make(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
    editor = editor_of(pipeline, num_inference_steps=STEPS)
    assert editor.evaluations == evaluations
    assert not isinstance(editor, StepwiseEditor)
    with pytest.raises(AttributeError, match="keeps more than the latents from step to step"):
        editor.begin(sources(1), WISHES[:1], [Noise(3)])
    plain = pipeline(
        list(WISHES), [row[0].pil() for row in sources()], generator=generators(), num_inference_steps=STEPS
    ).images
    assert [Image.of(one) for one in plain] == editor.edit(sources(), WISHES, SEEDS)


# -- OmniGen -----------------------------------------------------------------------------------------------------------


def test_omnigens_prompt_has_a_mark_for_each_picture():
    first, second = "<img><|image_1|></img>", "<img><|image_2|></img>"
    assert omnigen.prompt("Add snow", 1) == f"{first} Add snow"
    assert omnigen.prompt("Put the cup in", 2) == f"{first} {second} Put the cup in"
    placed = f"Put the cup of {second} into the room of {first}"
    assert omnigen.prompt(placed, 2) == placed
    assert omnigen.prompt(f"Add the cup of {second}", 2) == f"{first} Add the cup of {second}"


@pytest.mark.parametrize("images", [((0, 32),), ((0, 32), (1, 48))], ids=["one source", "two sources"])
def test_omnigen_in_pieces_makes_what_one_go_and_the_plain_call_make(loaded, images):
    pipeline = loaded("omnigen")
    editor = editor_of(pipeline, num_inference_steps=STEPS)
    given = tuple(picture(seed, size) for seed, size in images)
    plain = pipeline(
        [omnigen.prompt(WISHES[0], len(given))] * 2, [[image.pil() for image in given]] * 2,
        use_input_image_size_as_output=True, generator=generators(SEEDS[:2]), num_inference_steps=STEPS,
    ).images  # fmt: skip
    whole = editor.edit([given] * 2, WISHES[:1] * 2, SEEDS[:2])
    _, pieces = in_pieces(editor, [Noise(seed) for seed in SEEDS[:2]], [given] * 2, WISHES[:1] * 2)
    assert pieces == whole
    assert whole[0] != whole[1]
    assert apart(whole, [Image.of(one) for one in plain]) <= 1  # it draws sources, and draws them close to the mean
    assert (whole[0].width, whole[0].height) == (32, 32)


def test_omnigens_previews_show_where_the_straight_line_ends(loaded, monkeypatch):
    pipeline = loaded("omnigen")
    seen = []
    step = FlowMatchEulerDiscreteScheduler.step

    def spied(self, output, timestep, sample, *args, **named):
        seen.append((output.clone(), sample.clone()))
        return step(self, output, timestep, sample, *args, **named)

    monkeypatch.setattr(FlowMatchEulerDiscreteScheduler, "step", spied)
    editor = editor_of(pipeline, num_inference_steps=STEPS)
    ((draft, _),) = editor.advance(editor.begin(sources(1), WISHES[:1], [Noise(3)]), 3)
    output, sample = seen[-1]
    time = pipeline.scheduler.sigmas[2]
    assert 0 < time < 1
    assert np.abs(draft.arrays["clean"] - (sample + (1 - time) * output)[0].numpy()).max() < 1e-5
    assert draft.arrays["noise"][0] == 1
    assert draft.arrays["noise"][2] == pytest.approx(1 - float(time))
    ((whole, _),) = editor.advance(editor.back([draft], 1, [7]), STEPS)
    assert np.isfinite(whole.arrays["clean"]).all()


def test_omnigen_is_asked_for_one_prompt_at_a_time(loaded, monkeypatch):
    pipeline = loaded("omnigen")
    calls = []
    forward = type(pipeline.transformer).forward

    def spied(self, hidden_states, *args, **named):
        calls.append(len(hidden_states))
        return forward(self, hidden_states, *args, **named)

    monkeypatch.setattr(type(pipeline.transformer), "forward", spied)
    editor = editor_of(pipeline, num_inference_steps=1)
    made = editor.edit([*sources(2), *sources(1)], [*WISHES[:2], WISHES[0]], SEEDS)
    assert sorted(calls) == [3, 6]  # guidance has three branches; the first and the last want the same
    for row in range(3):
        alone = editor.edit([[*sources(2), *sources(1)][row]], [[*WISHES[:2], WISHES[0]][row]], SEEDS[row : row + 1])
        assert apart(alone, made[row : row + 1]) <= 1


# -- LEDITS++ ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Remove the red cup", [("red cup", True)]),
        ("Add a dog on the left of the tree", [("dog", False)]),
        ("Replace the cat with a dog.", [("cat", True), ("dog", False)]),
        ("Change the color of cup to blue", [("blue cup", False)]),
        ("Change the background to a beach", [("beach", False)]),
        ("Change the count of cup to 3", [("Change the count of cup to 3", False)]),
        ("Make it look like a watercolour", [("Make it look like a watercolour", False)]),
        ("Get rid of the fog in the valley", [("fog in the valley", True)]),
        ("Remove the cup and add a vase. Then change the color of wall to red",
         [("cup", True), ("vase", False), ("red wall", False)]),
        ("Remove salt and pepper", [("salt and pepper", True)]),
        ("erase the cup, then erase the cup", [("cup", True)]),
    ],
)  # fmt: skip
def test_instructions_are_read_as_concepts(instruction, expected):
    assert ledits.concepts(instruction) == expected


def test_an_empty_instruction_has_no_concepts():
    with pytest.raises(ValueError, match="an instruction has words"):
        ledits.concepts(" . ")


SETTINGS = {"num_inversion_steps": 3, "skip": 0.34, "edit_guidance_scale": 4.0}


# DDIM's way to noise on Stable Diffusion raises in diffusers 0.42: its add_noise wants timesteps that are whole.
@pytest.mark.parametrize(("name", "solver"), [("ledits", "dpm"), ("ledits_xl", "dpm"), ("ledits_xl", "ddim")])
def test_ledits_goes_to_noise_and_back(loaded, name, solver):
    pipeline = loaded(name) if solver == "dpm" else with_solver(loaded(name), "ddim")
    editor = editor_of(pipeline, use_intersect_mask=False, **SETTINGS)
    made = editor.edit(sources(), WISHES, SEEDS)
    for row, (words, away) in enumerate([("Make it winter", False), ("red cup", True)]):
        pipeline.invert(image=sources()[row][0].pil(), num_inversion_steps=3, skip=0.34, generator=generators()[row])
        plain = pipeline(
            editing_prompt=[words], reverse_editing_direction=[away], edit_guidance_scale=4.0, use_intersect_mask=False
        ).images
        assert made[row] == Image.of(plain[0])
    assert made[0] != editor.edit(sources(1), WISHES[:1], [9])[0]


@pytest.mark.parametrize("name", ["ledits", "ledits_xl"])
def test_ledits_pays_for_the_way_there_too(loaded, name, monkeypatch):
    pipeline = loaded(name)
    calls = []
    unet = type(pipeline.unet)
    forward = unet.forward
    monkeypatch.setattr(unet, "forward", lambda self, x, *a, **k: calls.append(len(x)) or forward(self, x, *a, **k))
    editor = editor_of(pipeline, **SETTINGS)
    editor.edit(sources(2), ["Replace the cup with a vase", "Remove the cup"], SEEDS[:2])
    assert calls == [1, 1, 1, 3, 3, 3, 1, 1, 1, 2, 2, 2]  # a branch without words, and one a concept
    assert editor.evaluations == 6
    assert not isinstance(editor, StepwiseEditor)
    with pytest.raises(AttributeError, match="by the noise that it met"):
        editor.advance([], 1)


@pytest.mark.parametrize("name", ["ledits", "ledits_xl"])
def test_ledits_looks_where_the_words_are_looked_at_not_their_padding(loaded, name):
    pipeline = loaded(name)
    pipeline.batch_size = 1
    named = {"device": "cpu", "num_images_per_prompt": 1, "enable_edit_guidance": True}
    named["editing_prompt"] = ["cup", "red vase"]
    *_, counts = ledits._counted(pipeline, pipeline.encode_prompt, named)
    assert counts.tolist() == [3, 7]  # letters: the tiny tokenizer knows no words
    assert pipeline.encode_prompt(**named)[-1].tolist() == [75, 75]


@pytest.mark.parametrize("name", ["ledits", "ledits_xl"])
def test_ledits_with_the_attention_mask_makes_the_same_picture_again(loaded, name):
    editor = editor_of(loaded(name), use_intersect_mask=True, **SETTINGS)
    first = editor.edit(sources(1), WISHES[1:2], [3])
    assert (first[0].width, first[0].height) == (32, 32)
    editor.edit(sources(1), WISHES[:1], [4])
    assert first == editor.edit(sources(1), WISHES[1:2], [3])


def test_ledits_rounds_sides_down_to_what_it_can_edit(loaded):
    editor = editor_of(loaded("ledits"), **SETTINGS)
    assert editor.edit([(picture(0, 70),)], WISHES[:1], [3])[0].width == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_inference_steps": 3}, "takes no num_inference_steps here; it takes .*num_inversion_steps"),
        ({"editing_prompt": ["cup"]}, "takes no editing_prompt here"),
        ({"num_inversion_steps": 0}, "a whole number from 1, got 0"),
    ],
)
def test_ledits_refuses_settings_it_does_not_know(loaded, settings, message):
    with pytest.raises(ValueError, match=message):
        editor_of(loaded("ledits"), **settings)


def test_instructions_can_be_read_otherwise(loaded):
    read = replace(LEDITS, arguments=partial(ledits.arguments, read=lambda words: [("snow", False)]))
    editor = editor_of(loaded("ledits"), family=read, id="snow", **SETTINGS)
    made = editor.edit(sources(1) * 2, WISHES[:2], [3, 3])
    assert made[0] == made[1]


# -- all of them -------------------------------------------------------------------------------------------------------

NAMES = {
    "instruct": {"num_inference_steps": 2},
    "instruct_xl": {"num_inference_steps": 2},
    "omnigen": {"num_inference_steps": 2},
    "ledits": SETTINGS,
    "ledits_xl": SETTINGS,
}


@pytest.mark.parametrize("name", NAMES)
def test_the_global_random_numbers_neither_matter_nor_move(loaded, name):
    editor = editor_of(loaded(name), **NAMES[name])
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = editor.edit(sources(1), WISHES[:1], [3])
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert first == editor.edit(sources(1), WISHES[:1], [3])


@pytest.mark.parametrize("name", NAMES)
def test_an_editor_leaves_the_pipeline_its_methods(loaded, name):
    pipeline = loaded(name)
    editor_of(pipeline, **NAMES[name]).edit(sources(1), WISHES[:1], [3])
    methods = {one for one in vars(pipeline) if callable(getattr(type(pipeline), one, None))}
    assert not methods
    assert not {"step", "set_timesteps"} & set(vars(pipeline.scheduler))


RELIED_ON = {
    "instruct": {
        "__call__": {"prompt", "image", "generator", "num_inference_steps", "negative_prompt", "output_type", "eta"},
        "prepare_latents": {"generator", "latents"},
    },
    "instruct_xl": {
        "__call__": {"prompt", "image", "height", "width", "generator", "num_inference_steps", "negative_prompt_2"},
        "prepare_latents": {"generator", "latents"},
    },
    "omnigen": {
        "__call__": {"prompt", "input_images", "use_input_image_size_as_output", "num_images_per_prompt", "generator"},
        "prepare_latents": {"generator", "latents"},
        "encode_input_images": {"input_pixel_values", "device"},
    },
    "ledits": {
        "__call__": {"editing_prompt", "reverse_editing_direction", "output_type"},
        "invert": {"image", "num_inversion_steps", "generator", "height", "width", "skip"},
        "encode_prompt": {"editing_prompt"},
    },
    "ledits_xl": {
        "__call__": {"editing_prompt", "reverse_editing_direction", "output_type"},
        "invert": {"image", "num_inversion_steps", "generator", "height", "width", "skip"},
        "encode_prompt": {"editing_prompt"},
    },
}


@pytest.mark.parametrize("name", RELIED_ON)
def test_what_is_relied_on_is_there(loaded, name):
    pipeline = loaded(name)
    assert family_of(pipeline) is not None
    assert (family_of(pipeline) is OMNIGEN) == (name == "omnigen")
    for method, arguments in RELIED_ON[name].items():
        known = inspect.signature(getattr(type(pipeline), method)).parameters
        assert arguments <= known.keys(), method
    assert not name.startswith("instruct") or callable(pipeline.image_processor.get_default_height_width)
    for method in ("set_timesteps", "step"):
        assert callable(getattr(pipeline.scheduler, method))
