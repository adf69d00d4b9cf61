import contextlib

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, PNDMScheduler

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
from editcritic.integrations.diffusers.callbacks import VerifierCallback
from editcritic.integrations.diffusers.partial_denoising import PartialDenoising, initial_state
from editcritic.integrations.diffusers.pipeline_editor import make_editor
from editcritic.reward import Image, ImageError, Reward, Score
from editcritic.reward.queries import Failure, Measurement
from editcritic.verifiers import AllOf, BestOfN, Verifier, at_least, edit_request, select
from editcritic.verifiers.selection import NoiseSpec
from tests.reward.fakes import Fake, Rated, Says, picture

from .test_latent_decoding import HEIGHT, ROWS, SOURCE, STEPS, WIDTH, loaded_kind  # noqa: F401  (`loaded_kind` is a fixture)

SAMPLE = edit_request("Remove red circle", SOURCE)


def brightness(query):
    """Of the edited image: as good a reward as any, and different from row to row."""
    return Measurement(float(query.image.pixels.mean()) / 255)


def reward(rule=brightness, **options):
    return Reward(Rated(), {"preference": Fake(rule)}, **options)


def strict(rule=brightness, least=2.0, **options):
    """A verifier that rejects what has less; by default everything."""
    return Verifier(reward(rule, **options), at_least(least))


def fails(query):
    return Failure("the judge is down")


@pytest.fixture(scope="module")
def editor():
    """The tiny editor, and a function that calls it for ROWS images."""
    return load_pretrained()


def edit(pipeline, look=None, rows=ROWS, **more):
    if look is not None:
        more = {"callback_on_step_end": look, "callback_on_step_end_tensor_inputs": look.tensor_inputs, **more}
    seeds = [torch.Generator().manual_seed(seed) for seed in range(rows)]
    small = picture(0, 32, 32).pil()
    return pipeline([small] * rows, [SAMPLE.instruction] * rows, **{"generator": seeds} | more).images


def looking(pipeline, judge=None, samples=SAMPLE, steps=(2,), *, log=None, stop=False, **more):
    with VerifierCallback(
        pipeline, judge or reward(), samples, preview_steps=list(steps), log=log, stop_on_reject=stop
    ) as look:
        edit(pipeline, look, **more)
    return look


@contextlib.contextmanager
def counted(pipeline):
    """A list of a number for each call of the denoiser."""
    calls: list[int] = []
    hook = pipeline.transformer.register_forward_hook(lambda *_: calls.append(len(calls)))
    yield calls
    hook.remove()


def test_the_last_look_shows_what_is_returned_and_looking_changes_nothing(loaded_kind):  # noqa: F811
    kind, pipeline = loaded_kind
    alone = kind.call(pipeline, output_type="np")
    with VerifierCallback(pipeline, reward(), SAMPLE, preview_steps=range(1, STEPS + 1)) as look:
        call = (
            {"callback": look.after_step}
            if kind.old
            else {"callback_on_step_end": look, "callback_on_step_end_tensor_inputs": look.tensor_inputs}
        )
        watched = kind.call(pipeline, output_type="np", **call)
    assert np.array_equal(alone, watched)
    assert [[preview.step for preview in step_previews] for step_previews in look.previews] == [
        [step] * ROWS for step in range(1, STEPS + 1)
    ]
    last = pipeline.image_processor.numpy_to_pil(watched)
    assert [preview.picture for preview in look.previews[-1]] == [Image.of(image) for image in last]
    assert all(preview.picture.size == (WIDTH, HEIGHT) for step_previews in look.previews for preview in step_previews)
    assert "_callback_tensor_inputs" not in vars(pipeline)
    assert "step" not in vars(pipeline.scheduler)


def test_previews_are_those_of_a_run_in_pieces(editor):
    small = (picture(0, 32, 32),)
    drafts = [initial_state(small, SAMPLE.instruction, NoiseSpec(seed)) for seed in range(ROWS)]
    with PartialDenoising(editor, drafts, 3) as piece:
        images = edit(editor, generator=piece.generators)
    assert [one.picture for one in looking(editor, steps=[3]).previews[0]] == [Image.of(image) for image in images]


def test_a_reward_that_draws_random_numbers_changes_no_picture(editor, monkeypatch):
    def draws(query):
        torch.rand(3)
        return Measurement(0.5)

    scheduler = FlowMatchEulerDiscreteScheduler(shift=8.0, stochastic_sampling=True)  # from torch's own generator
    monkeypatch.setattr(editor, "scheduler", scheduler)
    torch.manual_seed(0)
    alone = edit(editor, output_type="np")
    torch.manual_seed(0)
    with VerifierCallback(editor, reward(draws), SAMPLE, preview_steps=[2, 4]) as look:
        watched = edit(editor, look, output_type="np")
    assert np.array_equal(alone, watched)
    assert len(look.previews) == 2


def test_each_row_is_scored_with_its_own_sample_and_logged_by_step_and_name(editor):
    samples = [edit_request("Remove red circle", SOURCE, id=name, target_text=name) for name in ("one", "two")]
    queried, lines = [], []

    class Noted(Rated):
        def __call__(self, sample):
            queried.append(sample)
            return super().__call__(sample)

    judge = Reward(Noted(), {"preference": Fake(brightness)})
    look = looking(editor, judge, samples, [2, 5], log=lambda *line: lines.append(line))
    assert [sample.id for sample in queried] == ["one/0", "two/1"] * 2
    assert [sample.target_text for sample in queried] == ["one", "two"] * 2
    assert [sample.group for sample in queried] == [samples[0].group] * 4
    previews = [preview for row in look.previews for preview in row]
    assert [sample.edited for sample in queried] == [preview.picture for preview in previews]
    values = [float(preview.picture.pixels.mean()) / 255 for preview in previews]
    assert [preview.score.value for preview in previews] == values
    names = ("rated/one/0", "rated/two/1")
    assert lines == [(2, dict(zip(names, values[:2], strict=True))), (5, dict(zip(names, values[2:], strict=True)))]


@pytest.mark.parametrize("options", [{"on_failures": "none"}, {"max_failure_rate": 0.0}])
def test_a_judge_that_fails_stops_nothing(editor, options):
    few = {"rows": 20, "num_inference_steps": 3, "output_type": "np"}
    lines = []
    judge = strict(fails, **options)
    look = looking(editor, judge, log=lambda *line: lines.append(line), stop=True, **few)
    assert {one.score.status for one in look.previews[0]} == {"failed"}
    assert all("the judge is down" in one.score.reason for one in look.previews[0])
    assert {one.answer for one in look.decisions[0]} == {"can't tell"}
    assert (lines, look.stopped_at) == ([(2, {})], None)


def test_a_metric_with_a_bug_stops_nothing(editor):
    class Broken(Says):
        def __call__(self, sample):
            raise KeyError("lost")
            yield

    look = looking(editor, Reward(Broken(Score.of(1.0))))
    assert look.previews[0][0].score == Score.failed("the judge failed: KeyError: 'lost'", cause="infrastructure")


def test_every_kind_of_pipeline_that_can_be_given_up_is(loaded_kind):  # noqa: F811
    kind, pipeline = loaded_kind
    if not hasattr(type(pipeline), "interrupt"):
        with pytest.raises(TypeError, match="has no interrupt, so its remaining steps cannot be skipped"):
            VerifierCallback(pipeline, strict(), SAMPLE, preview_steps=[2], stop_on_reject=True)
        return
    with (
        counted(pipeline) as calls,
        VerifierCallback(pipeline, strict(), SAMPLE, preview_steps=[2], stop_on_reject=True) as look,
    ):
        images = kind.call(pipeline, callback_on_step_end=look, callback_on_step_end_tensor_inputs=look.tensor_inputs)
    assert look.stopped_at == len(calls) == 2
    assert [one.picture for one in look.previews[0]] == [Image.of(image) for image in images]


def test_the_next_call_starts_afresh(editor):
    alone = edit(editor, output_type="np")
    says = Says(Score.of(0.0))
    judge = Verifier(Reward(says), at_least(0.5))
    with VerifierCallback(editor, judge, SAMPLE, preview_steps=[2], stop_on_reject=True) as look:
        edit(editor, look)
        first = look.previews
        assert look.stopped_at == 2
        says.score = Score.of(1.0)
        watched = edit(editor, look, output_type="np")
    assert look.stopped_at is None
    assert [len(first), len(look.previews)] == [1, 1]
    assert np.array_equal(alone, watched)


@pytest.mark.parametrize("other", [lambda query: Measurement(0.9), fails])
def test_one_row_that_may_come_to_something_keeps_the_batch(editor, other):
    rows = iter([lambda query: Measurement(0.1), other])

    def each(query):
        return next(rows)(query)

    judge = strict(each, 0.5, on_failures="none")
    assert looking(editor, judge, stop=True).stopped_at is None


def test_what_is_rejected_goes_on_unless_it_is_to_stop_before_the_last_step(editor):
    assert looking(editor, strict(), steps=[8], stop=True).stopped_at is None
    with counted(editor) as calls:
        look = looking(editor, strict())
    assert (look.stopped_at, len(calls)) == (None, 8)
    assert [one.answer for one in look.decisions[0]] == ["reject"] * ROWS


def test_a_verifier_may_be_made_of_several(editor):
    lines = []
    both = AllOf(strict(least=0.0), Verifier(Reward(Says(Score.of(0.25))), at_least(0.5)))
    look = looking(editor, both, stop=True, log=lambda *line: lines.append(line))
    assert look.stopped_at == 2
    (decisions,), (previews,) = look.decisions, look.previews
    assert [one.score for one in previews] == [one.scores[-1] for one in decisions]
    bright = [one.picture.pixels.mean() / 255 for one in previews]
    rated = {"rated/edit/0": bright[0], "says/edit/0": 0.25, "rated/edit/1": bright[1], "says/edit/1": 0.25}
    assert lines == [(2, rated)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"samples": [SAMPLE] * 3}, "3 samples for a batch of 2: give one, or one for each row"),
        ({"steps": [9]}, "takes 8 steps, but preview_steps has 9"),
        (
            {"callback_on_step_end_tensor_inputs": ["latents"]},
            "did not receive height, width: pass callback_on_step_end_tensor_inputs",
        ),
    ],
)
def test_a_pipeline_is_as_before_when_its_call_fails(editor, options, problem):
    with pytest.raises(ValueError, match=problem):
        looking(editor, **options)
    assert "_callback_tensor_inputs" not in vars(editor)
    assert "step" not in vars(editor.scheduler)


def test_allowed_names_of_ones_own_are_put_back(editor, monkeypatch):
    monkeypatch.setattr(editor, "_callback_tensor_inputs", ["latents", "image_latents"])
    with VerifierCallback(editor, reward(), SAMPLE, preview_steps=[2]):
        assert editor._callback_tensor_inputs == ["latents", "image_latents", "height", "width"]
    assert editor._callback_tensor_inputs == ["latents", "image_latents"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"preview_steps": []}, r"preview_steps must be 1 or more, got \[\]"),
        ({"preview_steps": [0, 2]}, r"preview_steps must be 1 or more, got \[0, 2\]"),
        (
            {"stop_on_reject": True},
            r"a reward rejects nothing: for stop_on_reject pass a verifier, as in Verifier\(reward, at_least",
        ),
        ({"samples": []}, "there are no samples"),
    ],
)
def test_what_makes_no_sense_is_refused(editor, options, problem):
    with pytest.raises(ValueError, match=problem):
        VerifierCallback(editor, reward(), options.pop("samples", SAMPLE), **{"preview_steps": [2]} | options)


def test_samples_that_lack_what_the_reward_needs_are_refused(editor):
    needs = Reward(Says(Score.of(1.0), requires=("mask",)))
    for judge in (needs, AllOf(strict(), Verifier(needs, at_least(0.5)))):
        with pytest.raises(ValueError, match="needs mask, and sample 'edit' has none"):
            VerifierCallback(editor, judge, SAMPLE, preview_steps=[2])


def test_a_scheduler_that_is_not_known_is_refused(editor, monkeypatch):
    monkeypatch.setattr(editor, "scheduler", PNDMScheduler())
    with pytest.raises(TypeError, match="PNDMScheduler has no known prediction"):
        VerifierCallback(editor, reward(), SAMPLE, preview_steps=[2])


def overflow(monkeypatch, pipeline, row):
    """The autoencoder of a pipeline overflows in one row."""
    decode = pipeline.vae.decode

    def overflowing(*args, **kwargs):
        (pixels, *rest) = decode(*args, **kwargs)
        pixels = pixels.clone()
        pixels[row : row + 1] = torch.nan
        return (pixels, *rest)

    monkeypatch.setattr(pipeline.vae, "decode", overflowing)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("judge", [reward(), strict()], ids=["reward", "verifier"])
def test_a_preview_of_nan_is_a_failed_score_of_its_row_and_no_black_picture(editor, judge, monkeypatch):
    lines = []
    overflow(monkeypatch, editor, row=1)
    look = looking(editor, judge, log=lambda *line: lines.append(line))
    (first, second, *_) = look.previews[0]
    assert [first.score.status, second.score.status] == ["scored", "failed"]
    assert "NaN or infinite, which the pipeline returns as black" in second.score.reason
    assert second.picture == SOURCE
    assert "rated/edit/1" not in lines[0][1]
    assert [decision.answer for decision in (look.decisions or [()])[0]][:2] in ([], ["reject", "can't tell"])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_an_editor_fails_for_a_picture_of_nan_alone(editor, monkeypatch):
    small = picture(0, 32, 32)
    overflow(monkeypatch, editor, row=0)
    with pytest.raises(ImageError, match="NaN or infinite, which the pipeline returns as black"):
        make_editor(editor).edit([(small,)], [SAMPLE.instruction], [0])
    monkeypatch.undo()
    overflow(monkeypatch, editor, row=1)  # of each call: the second of two, and none where one is made at a time
    request = edit_request(SAMPLE.instruction, small)
    result = select(BestOfN(2), [request], editor=make_editor(editor), reward=reward())
    assert [candidate.status for candidate in result[0].candidates] == ["made", "made"]


def test_a_pipeline_is_as_before_after_its_pictures_were_watched(editor):
    make_editor(editor).edit([(picture(0, 32, 32),)], [SAMPLE.instruction], [0])
    assert "postprocess" not in vars(editor.image_processor)
