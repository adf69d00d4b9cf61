"""Run an editor on a policy's instructions during training: each distinct edit is generated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from ...reward import EditSample, Image, build
from ...reward.queries.specs import Spec
from ...reward.sample import SampleTooLarge
from ...verifiers import Editor, Journal
from ...verifiers.selection import CandidateRequest, NoiseSpec
from ...verifiers.selection.generation import CandidateGenerator


@dataclass(frozen=True, slots=True)
class FailedEdit:
    """An edit that was not made. editor_down: not because of what the policy wrote; see `is_editor_down`."""

    reason: str
    editor_down: bool = False


@dataclass(frozen=True, slots=True)
class AppliedEdits:
    """What the edits of a completion led to: the image, or why there is none, and the errors of edits not made."""

    image: Image | FailedEdit
    instructions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class RolloutEditor:
    """The edits of one training step, all from one seed: equal instructions on equal images are one edit, also if it
    failed.
    """

    def __init__(self, editor: Editor, seed: int) -> None:
        self.editor = editor
        self._seed = seed
        self._journal = Journal()
        self._generator = CandidateGenerator(editor, self._journal, lambda cost, cached: None)
        self._edited: dict[object, Image | FailedEdit] = {}

    def edit(self, requests: Sequence[EditSample]) -> list[Image | FailedEdit]:
        """An image for each request, or why there is none. Raises `EditorError` if the editor generated nothing in a
        few attempts.
        """
        keys = [_key(request) for request in requests]
        new_requests = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._edited}
        for start in range(0, len(new_requests), self.editor.batch_size):
            batch = dict(list(new_requests.items())[start : start + self.editor.batch_size])
            candidates = self._generator.generate(
                [
                    CandidateRequest(str(number), request, request, NoiseSpec(self._seed))
                    for number, request in enumerate(batch.values())
                ]
            )
            for key, candidate in zip(batch, candidates, strict=True):
                self._edited[key] = candidate.picture or FailedEdit(candidate.error, candidate.editor_down)
        return [self._edited[key] for key in keys]

    def close(self) -> None:
        """Drop the cached images."""
        self._journal.close()
        self._edited.clear()


def apply_instructions(
    editor: Editor, samples: Sequence[EditSample], instructions: Sequence[tuple[str, ...]], seed: int
) -> list[AppliedEdits]:
    """Apply each sample's instructions to its source, one after the other; each distinct edit is generated once."""
    edits = [AppliedEdits(sample.source, lines) for sample, lines in zip(samples, instructions, strict=True)]
    with closing(RolloutEditor(editor, seed)) as rollout_editor:
        for turn in range(max(map(len, instructions), default=0)):
            requests: dict[int, EditSample] = {}
            for number, (sample, edit) in enumerate(zip(samples, edits, strict=True)):
                if turn < len(edit.instructions) and isinstance(edit.image, Image):
                    request = follow_up_request(sample, edit.image, edit.instructions[turn])
                    if isinstance(request, FailedEdit):
                        edits[number] = _after(edit, request)
                    else:
                        requests[number] = request
            for number, edited in zip(requests, rollout_editor.edit(list(requests.values())), strict=True):
                edits[number] = _after(edits[number], edited)
    return edits


def _after(edit: AppliedEdits, edited: Image | FailedEdit) -> AppliedEdits:
    if isinstance(edited, Image):
        return replace(edit, image=edited)
    return replace(edit, image=edited if edited.editor_down else edit.image, errors=(*edit.errors, edited.reason))


def follow_up_request(sample: EditSample, image: Image, instruction: str) -> EditSample | FailedEdit:
    """The request for the next instruction of a policy, applied to the current image; no edit for one that is too
    long.
    """
    try:
        return replace(sample, instruction=instruction, sources=(image, *sample.sources[1:]))
    except SampleTooLarge as error:
        return FailedEdit(str(error))


def resolve_editor(editor: Editor | Spec) -> Editor:
    """An editor, built if a spec is given. Raises ValueError for anything else."""
    resolved: Any = build(editor) if isinstance(editor, str | Mapping) else editor
    if not isinstance(resolved, Editor):
        raise ValueError(f"{editor!r} is no editor, but {type(resolved).__name__}")
    return resolved


def _key(request: EditSample) -> object:
    history = tuple((turn.instruction, turn.edited.digest) for turn in request.history)
    return tuple(image.digest for image in request.sources), request.instruction, history
