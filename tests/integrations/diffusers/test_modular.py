import numpy as np
import pytest
import torch
from diffusers import FluxKontextAutoBlocks
from diffusers.modular_pipelines import SequentialPipelineBlocks

from editcritic.integrations.diffusers.callbacks import Previews, VerifierCallback
from editcritic.integrations.diffusers.modular import with_previews
from editcritic.reward import Image, Reward
from editcritic.verifiers import unedited
from editcritic.verifiers.verifier import Verifier, at_least
from tests import pipelines
from tests.reward.fakes import Fake, Rated, picture

HEIGHT, WIDTH, STEPS = 32, 64, 4
SOURCE = picture(0, WIDTH, HEIGHT)
SAMPLE = unedited("Remove red circle", SOURCE)
SIZE = {"height": HEIGHT, "width": WIDTH, "max_area": HEIGHT * WIDTH, "_auto_resize": False, "max_sequence_length": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("kontext")
    pipelines.kontext(found)
    return found


@pytest.fixture
def previews():
    return Previews(Reward(Rated(), {"preference": Fake()}), SAMPLE, at=[2, STEPS])


def modular(folder, blocks):
    pipeline = blocks.init_pipeline(str(folder))
    pipeline.load_components()
    for block in pipeline._blocks.sub_blocks["denoise"].sub_blocks.values():
        if hasattr(block, "set_progress_bar_config"):
            block.set_progress_bar_config(disable=True)
    return pipeline


def edit(pipeline):
    return pipeline(
        image=SOURCE.pil(),
        prompt=["Remove red circle"],
        num_inference_steps=STEPS,
        generator=torch.Generator().manual_seed(0),
        output="images",
        output_type="np",
        **SIZE,
    )


def test_looking_changes_nothing_and_the_last_look_shows_what_is_returned(folder, previews):
    alone = edit(modular(folder, FluxKontextAutoBlocks()))
    pipeline = modular(folder, with_previews(FluxKontextAutoBlocks(), previews))
    watched = edit(pipeline)
    assert np.array_equal(alone, watched)
    assert [seen[0].step for seen in previews.looks] == [2, STEPS]
    assert previews.looks[-1][0].picture == Image.of(pipeline.image_processor.numpy_to_pil(watched)[0])
    assert previews.looks[-1][0].score.status == "scored"


def test_it_sees_what_a_callback_of_the_pipeline_sees(folder, previews):
    edit(modular(folder, with_previews(FluxKontextAutoBlocks(), previews)))
    pipeline = pipelines.FluxKontextPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    with VerifierCallback(pipeline, Reward(Rated(), {"preference": Fake()}), SAMPLE, at=[2, STEPS]) as look:
        pipeline(
            SOURCE.pil(),
            "Remove red circle",
            num_inference_steps=STEPS,
            generator=torch.Generator().manual_seed(0),
            callback_on_step_end=look,
            callback_on_step_end_tensor_inputs=look.tensor_inputs,
            **SIZE,
        )
    assert look.looks == previews.looks


def test_a_hopeless_batch_ends_as_what_it_was_expected_to_become(folder):
    judge = Verifier(Reward(Rated(), {"preference": Fake()}), at_least(2.0))
    previews = Previews(judge, SAMPLE, at=[2, 3], stop=True)
    pipeline = modular(folder, with_previews(FluxKontextAutoBlocks(), previews))
    calls = []
    pipeline.transformer.register_forward_hook(lambda *_: calls.append(1))
    image = pipeline.image_processor.numpy_to_pil(edit(pipeline))[0]
    assert previews.stopped == len(calls) == 2
    assert previews.looks[0][0].picture == Image.of(image)
    edit(pipeline)  # and the next call starts afresh
    assert len(calls) == 4


def test_the_blocks_it_is_given_stay_as_they_are(folder, previews):
    blocks = FluxKontextAutoBlocks()
    with_previews(blocks, previews)
    edit(modular(folder, blocks))
    assert not previews.looks


def test_blocks_without_a_loop_or_a_picture_are_refused(previews):
    blocks = FluxKontextAutoBlocks()
    for names, problem in (
        (("text_encoder", "decode"), "has 0 denoising loops"),
        (("text_encoder", "vae_encoder", "denoise"), "decodes nothing after its loop"),
    ):
        some = SequentialPipelineBlocks.from_blocks_dict({name: blocks.sub_blocks[name] for name in names})
        with pytest.raises(ValueError, match=problem):
            with_previews(some, previews, workflow=None)
