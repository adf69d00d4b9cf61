"""Candidate generation: batches within the editor's limit, each image once, failures isolated per image."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...reward import EditSample, Image
from ...reward.queries.identity import content_digest
from .candidate import Cost, Preview
from .editor import DenoisingState, Editor, EditorError, NoiseSpec, StepwiseEditor, is_editor_down
from .journal import Journal, JournalError

T = TypeVar("T")

_MAX_CONSECUTIVE_FAILURES = 3
"""Failures in a row, each of a batch of one, after which an editor without any success counts as down."""


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """A candidate to be generated.

    Args:
        editor_input: The editor's input (instruction, sources, earlier turns).
        reward_input: The sample to score, into which the generated image is put. The `edited` of both is ignored, as in
            `edit_request`.
    """

    id: str
    editor_input: EditSample
    reward_input: EditSample
    noise: NoiseSpec
    step: int = 1
    parent: str = ""

    def with_image(self, picture: Image) -> EditSample:
        """The sample that the reward scores."""
        return replace(
            self.reward_input, id=f"{self.reward_input.id}/{self.id}", group=self.reward_input.group, edited=picture
        )


@dataclass(frozen=True, slots=True)
class PartialCandidate:
    """A candidate after `step` evaluations (counted from the start of the denoising), and their `cost`.

    Args:
        error: Why the editor failed, if it did.
    """

    request: CandidateRequest
    step: int = 0
    cost: Cost = field(default_factory=Cost)
    previews: tuple[Preview, ...] = ()
    error: str = ""

    @property
    def value(self) -> float | None:
        """The value of the last preview; None without one."""
        return self.previews[-1].score.value if self.previews and not self.error else None

    @property
    def rejected(self) -> bool:
        """Whether a guard rejected the last preview."""
        return bool(self.previews) and self.previews[-1].score.rejected


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """An image or the editor's error, the cost, whether it came from the journal, and whether the editor is down."""

    picture: Image | None
    cost: Cost
    error: str = ""
    cached: bool = False
    editor_down: bool = False


class CandidateGenerator:
    """Generates images by an editor through a journal. on_cost: called with each cost and whether it was cached."""

    def __init__(self, editor: Editor, journal: Journal, on_cost: Callable[[Cost, bool], None]) -> None:
        self.editor = editor
        self.journal = journal
        self._on_cost = on_cost
        self._has_succeeded = False
        self._consecutive_failures = 0

    def generate(self, requests: Sequence[CandidateRequest]) -> list[GeneratedImage]:
        keys = [self._key(request, self.editor.nfe) for request in requests]
        seeded = [number for number, request in enumerate(requests) if request.noise.parent is None]
        images = self._generate_all(
            keys, seeded, lambda numbers: self._edit([requests[n] for n in numbers]), self.editor.nfe
        )
        derived = [number for number in range(len(requests)) if number not in images]
        if derived:
            self.require_stepwise()
        for start in sorted({requests[number].noise.start_step for number in derived}):
            indices = [number for number in derived if requests[number].noise.start_step == start]
            partials = [PartialCandidate(requests[number], start) for number in indices]
            images |= dict(zip(indices, self.advance(partials, self.editor.nfe), strict=True))
        return [images[number] for number in range(len(requests))]

    def require_stepwise(self) -> None:
        if not isinstance(self.editor, StepwiseEditor):
            raise TypeError(f"{self.editor.id} is not a StepwiseEditor: use a selector that needs no previews")

    def _edit(self, requests: Sequence[CandidateRequest]) -> list[tuple[Image, Any]]:
        pictures = self.editor.edit(
            [request.editor_input.sources for request in requests],
            [request.editor_input.instruction for request in requests],
            [request.noise.seed for request in requests],
            history=[request.editor_input.history for request in requests],
        )
        return [(picture, None) for picture in _check_count(pictures, requests, self.editor)]

    def advance(self, partials: Sequence[PartialCandidate], until_step: int) -> list[GeneratedImage]:
        """Previews at step `until_step` of candidates that are all at one step."""
        keys = [self._key(partial.request, until_step) for partial in partials]
        images = self._generate_all(
            keys,
            range(len(partials)),
            lambda numbers: self._advance_states([partials[number] for number in numbers], until_step),
            until_step - partials[0].step,
        )
        return [images[number] for number in range(len(partials))]

    def _advance_states(self, partials: Sequence[PartialCandidate], until_step: int) -> list[tuple[Image, Any]]:
        assert isinstance(self.editor, StepwiseEditor)
        states = [self._state(partial.request, partial.step) for partial in partials]
        advanced = _check_count(self.editor.advance(states, until_step), partials, self.editor)
        return [(picture, state.arrays if until_step < self.editor.nfe else None) for state, picture in advanced]

    def _state(self, request: CandidateRequest, step: int) -> DenoisingState:
        """The state at a step that was computed before. A state that the journal lost is recomputed without charge."""
        assert isinstance(self.editor, StepwiseEditor)
        editor_input, noise = request.editor_input, request.noise
        arrays = self.journal.get_state(self._key(request, step))
        if arrays is not None:
            return DenoisingState(
                editor_input.sources, editor_input.instruction, noise, step, arrays, editor_input.history
            )
        if noise.parent is not None and not noise.radius:
            parent = self._state(replace(request, noise=noise.parent), noise.preview_step)
            state = self.editor.renoise([parent], noise.restart_step, [noise.seed])[0]
        else:
            state = self.editor.begin(
                [editor_input.sources], [editor_input.instruction], [noise], history=[editor_input.history]
            )[0]
        if state.step < step:
            state = self.editor.advance([state], step)[0][0]
        return state

    def _generate_all(
        self,
        keys: Sequence[str],
        numbers: Sequence[int],
        generate_batch: Callable[[Sequence[int]], list[tuple[Image, Any]]],
        nfe: int,
    ) -> dict[int, GeneratedImage]:
        """The images of `numbers`: cached, generated and stored, or failed."""
        images: dict[int, GeneratedImage] = {}
        for number in numbers:
            cached = self.journal.get_image(keys[number])
            if cached is not None:  # perhaps generated in other stages by another selector: charged as it would be here
                cost = Cost(nfe, 0, cached[1].seconds)
                images[number] = GeneratedImage(cached[0], cost, cached=True)
                self._on_cost(cost, True)
                self._has_succeeded = True
        batches = [[number for number in numbers if number not in images]]
        while batches:
            batch = batches.pop()
            if not batch:
                continue
            start = time.perf_counter()
            try:
                outputs = generate_batch(batch)
            except JournalError:  # not of the editor
                raise
            except Exception as error:  # editors are user code: whatever they raise is a failed candidate
                if len(batch) > 1:  # a single request may have broken the batch, or the batch was too large
                    half = len(batch) // 2
                    batches += [batch[half:], batch[:half]]
                    continue
                message = f"the editor failed: {type(error).__name__}: {error}"
                cost = Cost(nfe, 0, time.perf_counter() - start)
                images[batch[0]] = GeneratedImage(None, cost, message, editor_down=is_editor_down(error))
                self._on_cost(images[batch[0]].cost, False)
                self._consecutive_failures += 1
                if not self._has_succeeded and self._consecutive_failures >= _MAX_CONSECUTIVE_FAILURES:
                    raise EditorError(message) from error
                continue
            self._has_succeeded = True
            cost = Cost(nfe, 0, (time.perf_counter() - start) / len(batch))
            for number, (picture, arrays) in zip(batch, outputs, strict=True):
                self.journal.put_image(keys[number], picture, cost, arrays)
                images[number] = GeneratedImage(picture, cost)
                self._on_cost(cost, False)
        return images

    def _key(self, request: CandidateRequest, step: int) -> str:
        editor_input = request.editor_input
        history = [
            [turn.instruction, turn.edited.digest, [source.digest for source in turn.sources]]
            for turn in editor_input.history
        ]
        sources = [image.digest for image in editor_input.sources]
        return content_digest(
            ["made", self.editor.id, sources, editor_input.instruction, history, request.noise.describe(), step]
        )


def _check_count(outputs: Sequence[T], requests: Sequence[Any], editor: Editor) -> Sequence[T]:
    if len(outputs) != len(requests):
        raise ValueError(f"{editor.id} returned {len(outputs)} images for {len(requests)} requests")
    return outputs
