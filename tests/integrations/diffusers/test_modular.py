from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FluxKontextAutoBlocks, FluxKontextPipeline, QwenImageEditAutoBlocks
from diffusers.modular_pipelines import SequentialPipelineBlocks
from diffusers.modular_pipelines.qwenimage import encoders

from editcritic.integrations.diffusers.callbacks import PreviewScorer, VerifierCallback
from editcritic.integrations.diffusers.modular import with_previews
from editcritic.reward import Image, Reward
from editcritic.verifiers import Verifier, at_least, edit_request
from tests import pipelines
from tests.reward.fakes import Fake, Rated, picture

HEIGHT, WIDTH, STEPS = 32, 64, 4
SOURCE = picture(0, WIDTH, HEIGHT)
SAMPLE = edit_request("Remove red circle", SOURCE)
SIZE = {"height": HEIGHT, "width": WIDTH}
KONTEXT = {**SIZE, "max_area": HEIGHT * WIDTH, "_auto_resize": False, "max_sequence_length": 8}


@dataclass(frozen=True)
class Kind:
    blocks: Callable[[], Any]
    folder: Path
    settings: dict[str, Any]

    def pipeline(self, previews: PreviewScorer | None = None) -> Any:
        blocks = self.blocks() if previews is None else with_previews(self.blocks(), previews)
        modular_pipeline = blocks.init_pipeline(str(self.folder))
        modular_pipeline.load_components()
        return modular_pipeline

    def edit(self, pipeline: Any) -> Any:
        return pipeline(
            image=SOURCE.pil(),
            prompt=[SAMPLE.instruction],
            num_inference_steps=STEPS,
            generator=torch.Generator().manual_seed(0),
            output="images",
            output_type="np",
            **self.settings,
        )


@pytest.fixture(scope="module")
def kontext(tmp_path_factory) -> Kind:
    folder = tmp_path_factory.mktemp("kontext")
    pipelines.kontext(folder)
    return Kind(FluxKontextAutoBlocks, folder, KONTEXT)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory) -> Iterator[Kind]:
    folder = tmp_path_factory.mktemp("qwen")
    pipelines.qwen_edit(folder)
    whole = encoders.calculate_dimensions  # to a megapixel
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "calculate_dimensions", lambda _, ratio: whole(32**2, ratio))
        yield Kind(QwenImageEditAutoBlocks, folder / "pipeline", SIZE)


@pytest.fixture(params=["kontext", "qwen"])
def kind(request) -> Kind:
    value: Kind = request.getfixturevalue(request.param)
    return value


@pytest.fixture
def previews() -> PreviewScorer:
    return PreviewScorer(Reward(Rated(), {"preference": Fake()}), SAMPLE, preview_steps=[2, STEPS])


def calls_of(pipeline: Any) -> list[int]:
    """Grows by one whenever its denoiser is asked."""
    calls: list[int] = []
    pipeline.transformer.register_forward_hook(lambda *_: calls.append(1))
    return calls


def test_looking_changes_nothing_and_the_last_look_shows_what_is_returned(kind, previews):
    alone = kind.edit(kind.pipeline())
    pipeline = kind.pipeline(previews)
    watched = kind.edit(pipeline)
    assert np.array_equal(alone, watched)
    assert [step_previews[0].step for step_previews in previews.previews] == [2, STEPS]
    assert previews.previews[-1][0].picture == Image.of(pipeline.image_processor.numpy_to_pil(watched)[0])
    assert previews.previews[-1][0].score.status == "scored"
    assert "step" not in vars(pipeline.scheduler)


def test_a_hopeless_batch_ends_as_what_it_was_expected_to_become(kind):
    unwatched = kind.pipeline()
    every = calls_of(unwatched)
    kind.edit(unwatched)
    judge = Verifier(Reward(Rated(), {"preference": Fake()}), at_least(2.0))
    previews = PreviewScorer(judge, SAMPLE, preview_steps=[2, 3], stop_on_reject=True)
    pipeline = kind.pipeline(previews)
    calls = calls_of(pipeline)
    image = pipeline.image_processor.numpy_to_pil(kind.edit(pipeline))[0]
    assert previews.stopped_at == 2
    assert len(calls) == len(every) / 2
    assert previews.previews[0][0].picture == Image.of(image)
    kind.edit(pipeline)  # and the next call starts afresh
    assert len(calls) == len(every)


def test_it_sees_what_a_callback_of_the_pipeline_sees(kontext, previews):
    kontext.edit(kontext.pipeline(previews))
    pipeline = FluxKontextPipeline.from_pretrained(kontext.folder)
    with VerifierCallback(pipeline, Reward(Rated(), {"preference": Fake()}), SAMPLE, preview_steps=[2, STEPS]) as look:
        pipeline(
            SOURCE.pil(),
            SAMPLE.instruction,
            num_inference_steps=STEPS,
            generator=torch.Generator().manual_seed(0),
            callback_on_step_end=look,
            callback_on_step_end_tensor_inputs=look.tensor_inputs,
            **KONTEXT,
        )
    assert look.previews == previews.previews


def test_the_blocks_it_is_given_stay_as_they_are(kontext, previews):
    blocks = FluxKontextAutoBlocks()
    with_previews(blocks, previews)
    kontext.edit(Kind(lambda: blocks, kontext.folder, KONTEXT).pipeline())
    assert not previews.previews


def test_blocks_without_a_loop_or_a_picture_are_refused(previews):
    blocks = FluxKontextAutoBlocks()
    for names, problem in (
        (("text_encoder", "decode"), "has 0 denoising loops"),
        (("text_encoder", "vae_encoder", "denoise"), "has no decoding after its loop"),
    ):
        some = SequentialPipelineBlocks.from_blocks_dict({name: blocks.sub_blocks[name] for name in names})
        with pytest.raises(ValueError, match=problem):
            with_previews(some, previews, workflow=None)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_a_preview_of_nan_is_a_failed_score_and_no_black_picture(kind, previews, monkeypatch):
    pipeline = kind.pipeline(previews)
    decode = pipeline.vae.decode
    monkeypatch.setattr(pipeline.vae, "decode", lambda *args, **kwargs: (decode(*args, **kwargs)[0] * torch.nan,))
    kind.edit(pipeline)
    assert [step_previews[0].score.status for step_previews in previews.previews] == ["failed", "failed"]
    assert "NaN or infinite" in previews.previews[0][0].score.reason
    assert "postprocess" not in vars(pipeline.image_processor)
