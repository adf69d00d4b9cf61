"""Reward: a metric bound to experts, callable on a batch. The one scorer of trainers, pipelines and benchmarks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any, Literal

from .answers import AnswerLog
from .any_reward import AnyReward
from .binding import Experts, load_experts
from .boxes import Box
from .card import Card
from .compose import Metric, signed
from .engine import Engine
from .expert import Expert
from .image import Image
from .sample import EditSample
from .score import Score, Scores
from .spec import Spec, SpecError, build, spec_of

OnFailures = Literal["raise", "none", "wait"]

_OPTIONS = ("log", "window", "max_failed", "on_failures", "patience_s")
_ROLLING = 64
_LEAST = 16


class TooManyFailures(RuntimeError):
    """More scores failed than `max_failed` allows.

    `scores` holds what was computed, in order; of a stream, which has handed out the others, the last one.
    """

    def __init__(self, message: str, scores: Sequence[Score]) -> None:
        super().__init__(message)
        self.scores = tuple(scores)

    def __reduce__(self) -> tuple[Any, ...]:  # workers send it home
        return TooManyFailures, (str(self), self.scores)


class Reward(AnyReward):
    """A metric or composition bound to experts.

    metric: see `compose.Metric`. experts: role -> expert (`judge` also serves `judge.quality`); default: those that
    need no download. engine: share one among rewards to share answers; made on first use otherwise, with `log` (keeps
    answers on disk) and `window` (samples in flight).

    max_failed, on_failures: what happens when, among the last 64 scores (at least 16), a greater share than
    `max_failed` has failed. `raise`: `TooManyFailures` with what was computed. `none`: nothing, scores are None.
    `wait`: wait and ask again, first after 1 s, then after up to a minute, at most `patience_s` for one outage; and
    ask once more, at once, for whatever else has failed, which brings back what failed while the outage lasted.
    """

    def __init__(
        self,
        metric: Metric,
        experts: Mapping[str, Expert] | None = None,
        *,
        engine: Engine | None = None,
        log: AnswerLog | None = None,
        window: int = 256,
        max_failed: float = 0.5,
        on_failures: OnFailures = "raise",
        patience_s: float = 3600.0,
    ) -> None:
        if not 0 <= max_failed <= 1:
            raise ValueError(f"max_failed is a share in [0, 1], got {max_failed}")
        if on_failures not in ("raise", "none", "wait"):
            raise ValueError(f"on_failures is 'raise', 'none' or 'wait', got {on_failures!r}")
        self.metric = metric
        self.experts = dict(no_download() if experts is None else experts)
        unbound = [role for role in metric.card.roles if not _bound(role, self.experts)]
        if unbound:
            raise ValueError(
                f"{metric.card.name} asks {', '.join(unbound)}, but experts are bound to "
                f"{', '.join(sorted(self.experts)) or 'no role'} only: bind one to each"
            )
        self.max_failed = max_failed
        self.on_failures: OnFailures = on_failures
        self.patience_s = patience_s
        self._window = window
        self._log = log
        self._engine = engine
        self._recent: deque[bool] = deque(maxlen=_ROLLING)
        self._making = threading.Lock()

    @staticmethod
    def of(spec: Spec, experts: Experts | None = None, *, engine: Engine | None = None, **options: Any) -> Reward:
        """Build one from a spec (see `spec`), as in `Reward.of("edival-if", protocol="official")`.

        experts: see `load_experts`.

        Options named like an argument of `Reward` (log, window, max_failed, on_failures, patience_s) go to it, the
        others to the metric. Raises `SpecError`.
        """
        ours = {key: options.pop(key) for key in _OPTIONS if key in options}
        if isinstance(spec, Mapping) and "reward" in spec:
            experts = experts if experts is not None else spec.get("experts")
            spec = spec["reward"]
        metric = build(spec, **options)
        if not hasattr(metric, "card"):
            raise SpecError(f"{spec!r} is not a metric: it has no card")
        bound = None if experts is None else load_experts(experts)
        return Reward(metric, bound, engine=engine, **ours)

    @property
    def spec(self) -> dict[str, Any]:
        """A plain table `Reward.of` builds the same reward of: for servers, workers and result files."""
        return {
            "reward": spec_of(self.metric),
            "experts": {role: spec_of(expert) for role, expert in self.experts.items()},
        }

    def __reduce__(self) -> tuple[Callable[..., Reward], tuple[Any, ...]]:
        options = {"max_failed": self.max_failed, "on_failures": self.on_failures, "patience_s": self.patience_s}
        return _rebuild, (self.spec, {**options, "window": self._window})

    @property
    def card(self) -> Card:
        return self.metric.card

    @property
    def expert_ids(self) -> dict[str, str]:
        return {role: expert.id for role, expert in self.experts.items()}

    @property
    def engine(self) -> Engine:
        with self._making:  # a server's threads may all come at once
            if self._engine is None or not self._engine.is_open:
                self._engine = Engine(window=self._window, log=self._log)
            return self._engine

    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        """Score a batch. Results are in the order of the samples, whatever order the work is done in.

        Raises ValueError where samples lack fields the metric requires, naming them, before anything is asked;
        `TooManyFailures` by `on_failures`.
        """
        batch = list(samples)
        self.check(batch)
        before = self.engine.stats()
        start = time.perf_counter()
        scores: list[Score] = []
        try:
            for score in self.stream(batch):
                scores.append(score)  # noqa: PERF402  (what was computed is wanted if it stops half-way)
        except TooManyFailures as error:
            raise TooManyFailures(str(error), [*scores, *error.scores]) from None
        stats = self.engine.stats().since(before)
        stats["seconds"] = round(time.perf_counter() - start, 4)
        return Scores(tuple(scores), tuple(sample.id for sample in batch), stats)

    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        """Scores one by one, in order; samples are taken as there is room, so that any number of them fits."""
        held: deque[EditSample] = deque()  # only where a failed one may have to be asked again

        def programs() -> Iterator[tuple[Any, EditSample]]:
            for sample in samples:
                if self.on_failures == "wait":
                    held.append(sample)
                yield signed(self.metric, sample), sample

        # Closed here rather than with the last reference to it, which a traceback may hold for long.
        with closing(self.engine.run(programs(), self.experts)) as scores:
            for score in scores:
                sample = held.popleft() if self.on_failures == "wait" else None
                if sample is not None and score.status == "failed":
                    score = self._again(sample)
                self._recent.append(score.status == "failed")
                if score.status == "failed" and self._tripped():
                    if self.on_failures == "raise":
                        share = sum(self._recent) / len(self._recent)
                        self._recent.clear()
                        raise TooManyFailures(
                            f"{share:.0%} of the last scores failed (allowed: {self.max_failed:.0%}); the last one: "
                            f"{score.reason}",
                            [score],
                        )
                    if sample is not None:
                        score = self._insist(sample, score)
                        self._recent[-1] = False
                yield score

    def offload(self) -> None:
        """Let the experts give back the accelerator's memory: weights go to the CPU's, and each is brought back by the
        next question to it. Waits for batches under way, also those of a call that was left with an exception. What was
        answered stays known.

        Experts that hold none (served ones, algorithms on pixels) are left alone: those without a method `offload`.
        """
        if self._engine is not None:
            self._engine.wait_for_abandoned()
        for expert in {id(expert): expert for expert in self.experts.values()}.values():
            give_back = getattr(expert, "offload", None)
            if callable(give_back):
                give_back()

    def _tripped(self) -> bool:
        return len(self._recent) >= _LEAST and sum(self._recent) > self.max_failed * len(self._recent)

    def _insist(self, sample: EditSample, score: Score) -> Score:
        """Ask again until it is answered: known answers cost nothing, so only what failed is asked."""
        pause, waited = 1.0, 0.0
        while score.status == "failed":
            if waited >= self.patience_s:
                raise TooManyFailures(f"still failing after {waited:.0f} s: {score.reason}", [score])
            pause = min(pause, self.patience_s - waited)
            time.sleep(pause)
            waited += pause
            pause = min(2 * pause, 60.0)
            for expert in self.experts.values():
                self.engine.reload(expert)
            score = self._again(sample)
        return score

    def _again(self, sample: EditSample) -> Score:
        return self.engine.submit(signed(self.metric, sample), self.experts, sample).result()


def no_download() -> dict[str, Expert]:
    """The experts that need no weights: annotated boxes found again, OCR from its wheel, colours, pixel statistics.

    They abstain on what they cannot know: materials, backgrounds, objects without a box, what a judge is asked besides
    colours, and all that a segmenter is asked.
    """
    from .experts.annotated import Annotated
    from .experts.colour import ColourJudge
    from .experts.differences import Differences
    from .experts.lanczos import Lanczos
    from .experts.no_segmenter import NoSegmenter
    from .experts.ocr import RapidOcr
    from .experts.pixels import PixelFeatures

    annotated, pixels = Annotated(), PixelFeatures()
    return {
        "detector": annotated,
        "matcher": annotated,
        "differences": Differences(),
        "enhancer": Lanczos(),
        "judge": ColourJudge(),
        "reader": RapidOcr(),
        "reader.guard": RapidOcr(working=320),
        "features": pixels,
        "pixels": pixels,
        "segmenter": NoSegmenter(),
    }


def score(
    source: object,
    edited: object,
    instruction: str,
    *,
    reward: Spec | AnyReward = "edit-balanced",
    boxes: Mapping[str, Sequence[Sequence[float]]] | None = None,
    **fields: Any,
) -> Score:
    """Score one edit.

    source, edited: anything `Image.of` takes. boxes: objects of the source as pixel corners, name -> [(x0, y0, x1, y1),
    ...]. fields: any other field of `EditSample`. Raises ImageError, SpecError or ValueError with what to do.
    """
    before = Image.of(source)
    drawn = {
        name: tuple(Box.from_corners(x0, y0, x1, y1, before.size) for x0, y0, x1, y1 in found)
        for name, found in (boxes or {}).items()
    }
    fields.setdefault("id", "edit")
    sample = EditSample(instruction=instruction, sources=(before,), edited=Image.of(edited), boxes=drawn, **fields)
    bound = (
        reward if isinstance(reward, AnyReward) else _cached(reward) if isinstance(reward, str) else Reward.of(reward)
    )
    return bound([sample])[0]


@cache
def _cached(spec: str) -> Reward:
    return Reward.of(spec, on_failures="none")


def _bound(role: str, experts: Mapping[str, Expert]) -> bool:
    return role in experts or role.partition(".")[0] in experts


def _rebuild(spec: dict[str, Any], options: dict[str, Any]) -> Reward:
    return Reward.of(spec, **options)
