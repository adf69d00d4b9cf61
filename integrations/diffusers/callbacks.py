"""Score and stop edits during a direct call of a diffusers pipeline, from previews of the expected result.

    verifier = Verifier(reward, at_least(0.3))
    with VerifierCallback(pipeline, verifier, sample, preview_steps=(2, 4), stop_on_reject=True) as callback:
        pipeline(…, callback_on_step_end=callback, callback_on_step_end_tensor_inputs=callback.tensor_inputs)

The selectors of `editcritic.verifiers` go further: they spend the saved evaluations on other candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ...reward import BaseReward, EditSample, Image, Score
from ...reward.score import Cause
from ...verifiers import Decision
from ...verifiers.selection import Preview
from ...verifiers.verifier import VerifierLike
from .latent_decoding import SchedulerTracker, decode_latents, latent_decoder_of

LogFn = Callable[[int, dict[str, float]], None]
"""Called with a step and its values by name, e.g. `lambda step, values: run.log(values, step=step)`."""


class PreviewScorer:
    """Scores previews of the rows of a batch at some steps, and decides when to stop it; see `VerifierCallback`.

    Of the last call: previews, one per row for each scored step; decisions of a verifier, likewise; stopped_at: the
    number of evaluations after which the batch was stopped, or None."""

    def __init__(
        self,
        judge: BaseReward | VerifierLike,
        samples: EditSample | Sequence[EditSample],
        *,
        preview_steps: Iterable[int],
        stop_on_reject: bool = False,
        log: LogFn | None = None,
    ) -> None:
        self._samples = [samples] if isinstance(samples, EditSample) else list(samples)
        if not self._samples:
            raise ValueError("there are no samples: pass one, or one for each row of the batch")
        for reward in (judge,) if isinstance(judge, BaseReward) else judge.rewards:
            reward.validate(self._samples)
        self._preview_steps = frozenset(preview_steps)
        if not self._preview_steps or min(self._preview_steps) < 1:
            raise ValueError(f"preview_steps must be 1 or more, got {sorted(self._preview_steps)}")
        if stop_on_reject and isinstance(judge, BaseReward):
            raise ValueError(
                "a reward rejects nothing: for stop_on_reject pass a verifier, as in Verifier(reward, at_least(0.5))"
            )
        self._judge = judge
        self._stop = stop_on_reject
        self._log = log
        self._step: float = math.inf
        self._evaluations = 0
        self.previews: list[tuple[Preview, ...]] = []
        self.decisions: list[tuple[Decision, ...]] = []
        self.stopped_at: int | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> PreviewScorer:
        return self  # modular pipelines copy their blocks; the previews belong to the caller's object

    def is_due(self, step: int, rows: int, evaluations: int) -> bool:
        """Whether to score after `step`. Called after every step; a lower step starts a new call."""
        if step <= self._step:
            if len(self._samples) not in (1, rows):
                raise ValueError(f"{len(self._samples)} samples for a batch of {rows}: give one, or one for each row")
            if max(self._preview_steps) > evaluations:
                raise ValueError(
                    f"the pipeline takes {evaluations} steps, but preview_steps has {max(self._preview_steps)}"
                )
            self.previews, self.decisions, self.stopped_at, self._evaluations = [], [], None, evaluations
        self._step = step
        return step in self._preview_steps

    @torch.no_grad()
    def score_previews(self, latents: torch.Tensor, decode: Callable[[], list[Image | str]]) -> bool:
        """Score the images; True if the batch is stopped. latents: their device's RNG state is preserved."""
        with torch.random.fork_rng([latents.device] if latents.is_cuda else []):
            images = decode()
            samples = self._preview_samples(images)
            made = [sample for sample, image in zip(samples, images, strict=True) if isinstance(image, Image)]
            results_left = iter(self._score(made))
            results = [next(results_left) if isinstance(image, Image) else self._failed(image) for image in images]
        step = int(self._step)
        previews = [
            Preview(step, sample.edited, scores[-1]) for sample, (scores, _) in zip(samples, results, strict=True)
        ]
        self.previews.append(tuple(previews))
        decisions = tuple(decision for _, decision in results if decision is not None)
        if decisions:
            self.decisions.append(decisions)
        if self._log is not None:
            scored = [(sample, score) for sample, (scores, _) in zip(samples, results, strict=True) for score in scores]
            self._log(step, {_name(*pair): pair[1].value for pair in scored if pair[1].value is not None})
        rejected = bool(decisions) and all(decision.answer == "reject" for decision in decisions)
        if not (self._stop and rejected and step < self._evaluations):
            return False
        self.stopped_at = step
        return True

    def _preview_samples(self, images: Sequence[Image | str]) -> list[EditSample]:
        samples = self._samples * len(images) if len(self._samples) == 1 else self._samples
        return [
            replace(sample, id=f"{sample.id}/{row}", edited=image if isinstance(image, Image) else sample.source)
            for row, (sample, image) in enumerate(zip(samples, images, strict=True))
        ]

    def _score(self, samples: Sequence[EditSample]) -> list[tuple[tuple[Score, ...], Decision | None]]:
        judge = self._judge
        if not samples:
            return []
        try:
            if isinstance(judge, BaseReward):
                return [((score,), None) for score in judge(samples)]
            return [
                (decision.scores or (Score.abstained(decision.reason or decision.answer),), decision)
                for decision in judge(samples)
            ]
        except Exception as error:  # noqa: BLE001  (no exception of a judge may stop a generation)
            failure = self._failed(f"the judge failed: {type(error).__name__}: {error}", "infrastructure")
            return [failure] * len(samples)

    def _failed(self, reason: str, cause: Cause = "") -> tuple[tuple[Score, ...], Decision | None]:
        failure = Score.failed(reason, cause=cause)
        decision = None if isinstance(self._judge, BaseReward) else Decision("can't tell", reason, (failure,))
        return (failure,), decision


class VerifierCallback(PreviewScorer):
    """Scores a preview of every row of a batch after some of a pipeline's steps; a `callback_on_step_end`.

    A preview that is none, as of latents with a NaN, is a failed score of its row, and the source takes its place.

    Previews do not change the images: they sample no random numbers, and torch's RNG state is restored after scoring.
    An exception of the judge is a failed score, and the generation continues. An offloaded autoencoder is loaded for
    each preview, which takes time.

    Raises TypeError for an unsupported pipeline or scheduler and, with `stop_on_reject`, one that cannot be
    interrupted; ValueError for samples that lack what the judge needs, and for invalid steps. The pipeline call raises
    ValueError at its first step if rows and samples do not match, or if it has too few steps.

    Args:
        pipeline: One of `latent_decoding.LATENT_DECODERS`.
        judge: A reward, or a verifier.
        samples: The requested edits (see `editcritic.verifiers.edit_request`), one per row of the batch or one for all;
            the preview becomes the edited image.
        preview_steps: Numbers of denoiser evaluations after which to score.
        stop_on_reject: Whether to stop a batch that a verifier rejects: the remaining steps are skipped, and the
            preview is returned. A batch stops only if all its rows are rejected; undecided rows, e.g. after a failed
            judge, are not rejected.
        log: Receives the values as `metric/sample/row`; rows without a value are missing.
    """

    def __init__(
        self,
        pipeline: Any,
        judge: BaseReward | VerifierLike,
        samples: EditSample | Sequence[EditSample],
        *,
        preview_steps: Iterable[int],
        stop_on_reject: bool = False,
        log: LogFn | None = None,
    ) -> None:
        self._variables = latent_decoder_of(pipeline).variables
        self._tracker = SchedulerTracker(pipeline.scheduler)
        if stop_on_reject and not hasattr(type(pipeline), "interrupt"):
            raise TypeError(
                f"{type(pipeline).__name__} has no interrupt, so its remaining steps cannot be skipped: use it without "
                "stop_on_reject"
            )
        super().__init__(judge, samples, preview_steps=preview_steps, stop_on_reject=stop_on_reject, log=log)
        self._pipeline = pipeline
        self._original_inputs: list[str] | None = None

    @property
    def tensor_inputs(self) -> list[str]:
        """Pass this as the pipeline's `callback_on_step_end_tensor_inputs`."""
        return ["latents", *self._variables]

    def __enter__(self) -> VerifierCallback:
        self._tracker.__enter__()
        # Pipelines pass those local variables of their loop to the callback that are listed here.
        self._original_inputs = vars(self._pipeline).get("_callback_tensor_inputs")
        names = getattr(self._pipeline, "_callback_tensor_inputs", [])
        self._pipeline._callback_tensor_inputs = list(dict.fromkeys([*names, *self.tensor_inputs]))
        return self

    def __exit__(self, *error: object) -> None:
        self._tracker.__exit__(*error)
        del self._pipeline._callback_tensor_inputs
        if self._original_inputs is not None:
            self._pipeline._callback_tensor_inputs = self._original_inputs

    def __call__(self, pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        """Called by the pipeline after step `step`, counted from 0."""
        if missing := [name for name in self.tensor_inputs if name not in tensors]:
            raise ValueError(
                f"the callback did not receive {', '.join(missing)}: "
                "pass callback_on_step_end_tensor_inputs=callback.tensor_inputs to the pipeline"
            )
        if self._score_preview(step + 1, tensors):
            tensors["latents"] = self._tracker.pred_original_sample.to(tensors["latents"])
            pipeline._interrupt = True
        return tensors

    def after_step(self, step: int, timestep: Any, latents: torch.Tensor) -> None:
        """For pipelines that only have the older `callback=`: InstructPix2Pix on Stable Diffusion XL."""
        self._score_preview((step + 1) * self._pipeline.scheduler.order, {"latents": latents})

    def _score_preview(self, step: int, tensors: dict[str, Any]) -> bool:
        if not self.is_due(step, len(tensors["latents"]), len(self._pipeline.scheduler.timesteps)):
            return False
        expected = self._tracker.pred_original_sample
        variables = {name: tensors[name] for name in self._variables}
        return self.score_previews(expected, lambda: decode_latents(self._pipeline, expected, **variables))


def _name(sample: EditSample, score: Score) -> str:
    return f"{score.metric.partition('@')[0]}/{sample.id}"
