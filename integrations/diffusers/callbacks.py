"""Looking at edits while a diffusers pipeline makes them: scoring what they are about to become, giving up on them.

    verifier = Verifier(reward, at_least(0.3))
    with VerifierCallback(pipeline, verifier, sample, at=(2, 4), stop=True) as look:
        images = pipeline(…, callback_on_step_end=look, callback_on_step_end_tensor_inputs=look.tensor_inputs).images

For people who call the pipeline themselves. A selector of `editcritic.verifiers` goes further: it runs candidates in
pieces, so that what it does not spend on one is left for others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch

from ...reward import AnyReward, EditSample, Image, Score
from ...verifiers import Decides, Decision, Look
from .decoding import Steps, decoded, decoding_of

Log = Callable[[int, dict[str, float]], None]
"""Called with a step and the values found there, by name; as in `lambda step, values: run.log(values, step=step)`."""


class VerifierCallback:
    """Looks at every row of a batch after some of a pipeline's steps; made for `callback_on_step_end`.

    pipeline: one of `decoding.DECODINGS`. judge: a reward, or a verifier. samples: what is to be edited, as
    `editcritic.verifiers.unedited` makes it, one a row of the batch or one for all; the expected picture is put into
    it and judged. at: after how many denoiser evaluations to look. stop: whether to give up what a verifier rejects,
    which leaves out the remaining steps and returns what was expected. Rows cannot leave a batch, so that it is given
    up when all of them are rejected; what cannot be told, as after a failed judge, is not rejected. log: where values
    go, as `metric/sample/row`; those of rows without one are missing.

    Looking changes no picture: it draws no random numbers, and what a judge draws of torch's is put back. What a judge
    raises is a failed score, and the generation goes on. An autoencoder that was offloaded is brought back for each
    look, which takes its time.

    Raises TypeError for a pipeline or scheduler that cannot be looked at or, with `stop`, cannot be broken off;
    ValueError for samples that lack what the judge needs, and for steps that are none. The pipeline's call raises
    ValueError at its first step where rows and samples do not match, or it takes too few steps.
    """

    def __init__(
        self,
        pipeline: Any,
        judge: AnyReward | Decides,
        samples: EditSample | Sequence[EditSample],
        *,
        at: Iterable[int],
        stop: bool = False,
        log: Log | None = None,
    ) -> None:
        self._variables = decoding_of(pipeline).variables
        self._steps = Steps(pipeline.scheduler)
        if stop and not hasattr(type(pipeline), "interrupt"):
            raise TypeError(
                f"{type(pipeline).__name__} has no interrupt, so that its remaining steps cannot be left out: "
                "leave out stop, and it is only looked at"
            )
        self._pipeline = pipeline
        self._previews = Previews(judge, samples, at=at, stop=stop, log=log)
        self._allowed: list[str] | None = None

    @property
    def looks(self) -> list[tuple[Look, ...]]:
        """See `Previews`."""
        return self._previews.looks

    @property
    def decisions(self) -> list[tuple[Decision, ...]]:
        """See `Previews`."""
        return self._previews.decisions

    @property
    def stopped(self) -> int | None:
        """See `Previews`."""
        return self._previews.stopped

    @property
    def tensor_inputs(self) -> list[str]:
        """For the pipeline's `callback_on_step_end_tensor_inputs`."""
        return ["latents", *self._variables]

    def __enter__(self) -> VerifierCallback:
        self._steps.__enter__()
        # Pipelines hand out those local variables of their loop that are listed here.
        self._allowed = vars(self._pipeline).get("_callback_tensor_inputs")
        listed = getattr(self._pipeline, "_callback_tensor_inputs", [])
        self._pipeline._callback_tensor_inputs = list(dict.fromkeys([*listed, *self.tensor_inputs]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._steps.__exit__(kind, error, trace)
        del self._pipeline._callback_tensor_inputs
        if self._allowed is not None:
            self._pipeline._callback_tensor_inputs = self._allowed

    def __call__(self, pipeline: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        """What a pipeline calls after step `step`, counted from 0."""
        if missing := [name for name in self.tensor_inputs if name not in tensors]:
            raise ValueError(
                f"the callback was not given {', '.join(missing)}: "
                "pass callback_on_step_end_tensor_inputs=look.tensor_inputs to the pipeline"
            )
        if self._look(step + 1, tensors):
            tensors["latents"] = self._steps.expected.to(tensors["latents"])
            pipeline._interrupt = True
        return tensors

    def after_step(self, step: int, timestep: Any, latents: torch.Tensor) -> None:
        """The same for a pipeline that knows the older `callback=` alone: Stable Diffusion XL's InstructPix2Pix."""
        self._look((step + 1) * self._pipeline.scheduler.order, {"latents": latents})

    def _look(self, step: int, tensors: dict[str, Any]) -> bool:
        if not self._previews.wants(step, len(tensors["latents"]), len(self._pipeline.scheduler.timesteps)):
            return False
        expected = self._steps.expected
        variables = {name: tensors[name] for name in self._variables}
        return self._previews.look(expected, lambda: decoded(self._pipeline, expected, **variables))


class Previews:
    """Judges what the rows of a batch are expected to become, at some steps, and says when it is to be given up.

    What pipelines with callbacks and modular ones have in common. Arguments and errors as of `VerifierCallback`.

    Of the last call: looks: what was seen at each step that was looked at, a `Look` a row; where a verifier has several
    scores, with the last of them. decisions: likewise, a verifier's. stopped: after how many evaluations the batch was
    given up; None where it was not.
    """

    def __init__(
        self,
        judge: AnyReward | Decides,
        samples: EditSample | Sequence[EditSample],
        *,
        at: Iterable[int],
        stop: bool = False,
        log: Log | None = None,
    ) -> None:
        self._samples = [samples] if isinstance(samples, EditSample) else list(samples)
        if not self._samples:
            raise ValueError("there is no sample to put previews into: give one, or one for each row of the batch")
        for reward in (judge,) if isinstance(judge, AnyReward) else judge.rewards:
            reward.check(self._samples)
        self._at = frozenset(at)
        if not self._at or min(self._at) < 1:
            raise ValueError(f"previews are looked at after 1 evaluation or more, got at={sorted(self._at)}")
        if stop and isinstance(judge, AnyReward):
            raise ValueError(
                "a reward rejects nothing: to stop, give a verifier, as in Verifier(reward, at_least(0.5))"
            )
        self._judge = judge
        self._stop = stop
        self._log = log
        self._step: float = math.inf
        self._evaluations = 0
        self.looks: list[tuple[Look, ...]] = []
        self.decisions: list[tuple[Decision, ...]] = []
        self.stopped: int | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Previews:
        return self  # modular pipelines copy their blocks; what these have seen is for who holds the previews

    def wants(self, step: int, rows: int, evaluations: int) -> bool:
        """Whether to look after `step` of so many evaluations. Called after every step; a lower one begins anew."""
        if step <= self._step:
            if len(self._samples) not in (1, rows):
                raise ValueError(f"{len(self._samples)} samples for a batch of {rows}: give one, or one for each row")
            if max(self._at) > evaluations:
                raise ValueError(
                    f"the pipeline takes {evaluations} steps, and was to be looked at after {max(self._at)}"
                )
            self.looks, self.decisions, self.stopped, self._evaluations = [], [], None, evaluations
        self._step = step
        return step in self._at

    @torch.no_grad()
    def look(self, latents: torch.Tensor, decode: Callable[[], list[Image]]) -> bool:
        """Judge the pictures; True where the batch is given up. latents: tell whose random numbers are put back."""
        with torch.random.fork_rng([latents.device] if latents.is_cuda else []):
            samples = self._with(decode())
            judged = self._judged(samples)
        step = int(self._step)
        looks = [Look(step, sample.edited, scores[-1]) for sample, (scores, _) in zip(samples, judged, strict=True)]
        self.looks.append(tuple(looks))
        decisions = tuple(decision for _, decision in judged if decision is not None)
        if decisions:
            self.decisions.append(decisions)
        if self._log is not None:
            said = [(sample, score) for sample, (scores, _) in zip(samples, judged, strict=True) for score in scores]
            self._log(step, {_name(*one): one[1].value for one in said if one[1].value is not None})
        rejected = bool(decisions) and all(decision.answer == "reject" for decision in decisions)
        if not (self._stop and rejected and step < self._evaluations):
            return False
        self.stopped = step
        return True

    def _with(self, pictures: Sequence[Image]) -> list[EditSample]:
        samples = self._samples * len(pictures) if len(self._samples) == 1 else self._samples
        return [
            replace(sample, id=f"{sample.id}/{row}", edited=picture)
            for row, (sample, picture) in enumerate(zip(samples, pictures, strict=True))
        ]

    def _judged(self, samples: Sequence[EditSample]) -> list[tuple[tuple[Score, ...], Decision | None]]:
        judge = self._judge
        try:
            if isinstance(judge, AnyReward):
                return [((score,), None) for score in judge(samples)]
            return [(one.scores or (Score.abstained(one.reason or one.answer),), one) for one in judge(samples)]
        except Exception as error:  # noqa: BLE001  (whatever a judge does, it is not to stop a generation)
            failed = Score.failed(f"the judge failed: {type(error).__name__}: {error}")
            decision = None if isinstance(judge, AnyReward) else Decision("can't tell", failed.reason, (failed,))
            return [((failed,), decision)] * len(samples)


def _name(sample: EditSample, score: Score) -> str:
    return f"{score.metric.partition('@')[0]}/{sample.id}"
