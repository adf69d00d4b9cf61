"""The editor that is to be trained, used wrongly: pictures that it makes when asked wrongly, or run too weakly."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward import EditSample, Image
from editcritic.reward.audit.audited_edit import AuditedEdit, EditAgain
from editcritic.verifiers import Editor

_UNRELATED = "A wooden sailing boat in a bottle on a shelf."
_SAME_ASK = 0.5  # of the words of two instructions: with so many in common they may ask for the same


@dataclass(frozen=True, slots=True)
class Misuse:
    """One way to use an editor wrongly. name: as in recipes. request: what the editor gets, its `edited` being the
    source. is_wrong: the picture cannot show what its sample asks for; without it, it may be as good as the edit.
    """

    name: str
    request: EditSample
    editor: EditAgain
    is_wrong: bool


def misuses(edit: AuditedEdit, edit_again: EditAgain | None, weakened: Mapping[str, EditAgain]) -> list[Misuse]:
    """All ways for an edit. weakened: editors with few steps, without guidance and so on, by what they lack."""
    sample = edit.sample
    ways: list[Misuse] = []
    if edit_again is not None:
        if (other := _other_instruction(edit)) is not None:
            ways.append(Misuse("asked for another edit", _request(sample, other), edit_again, is_wrong=True))
        ways += [
            Misuse("asked for nothing", _request(sample, ""), edit_again, is_wrong=True),
            Misuse("asked for something unrelated", _request(sample, _UNRELATED), edit_again, is_wrong=True),
            Misuse(
                "edited twice",
                EditSample(sample.id, sample.instruction, (sample.edited, *sample.sources[1:]), sample.edited),
                edit_again,
                is_wrong=False,
            ),
        ]
    ways += [
        Misuse(name, _request(sample, sample.instruction), editor, is_wrong=False) for name, editor in weakened.items()
    ]
    return ways


def _request(sample: EditSample, instruction: str) -> EditSample:
    """Without annotations: they are of the right instruction."""
    return EditSample(sample.id, instruction, sample.sources, sample.source, history=sample.history)


def _other_instruction(edit: AuditedEdit) -> str | None:
    """Another sample's, with hardly a word in common: two sources may have much the same instruction."""
    words = _words(edit.sample.instruction)
    for other in edit.others:
        common, both = words & _words(other.instruction), words | _words(other.instruction)
        if len(common) < _SAME_ASK * len(both):
            return other.instruction
    return None


def _words(instruction: str) -> set[str]:
    return set(instruction.casefold().split())


# -- the editor -------------------------------------------------------------------------------------------------------

_SEED = 0

_WEAKENED: Mapping[str, Mapping[str, Any]] = {
    "edited in 2 steps": {"num_inference_steps": 2},
    "edited without guidance": {"guidance_scale": 1.0, "true_cfg_scale": 1.0, "image_guidance_scale": 1.0},
}


@dataclass(frozen=True)
class AuditEditor:
    """edit_again: the editor; None without one. weakened: the same with less, by what it lacks."""

    edit_again: EditAgain | None = None
    weakened: Mapping[str, EditAgain] = field(default_factory=dict)


def audit_editor(spec: EditorSpec | None, samples: Sequence[EditSample]) -> AuditEditor:
    """Loaded, after a check that it can edit the samples. Raises `InputError`."""
    if spec is None:
        return AuditEditor()
    for sample in samples:
        spec.check(sample)
    weakened = {name: replace(spec, pipeline_args=arguments) for name, arguments in weakened_arguments(spec).items()}
    return AuditEditor(_edit_again(spec.load()), {name: _edit_again(one.load()) for name, one in weakened.items()})


def weakened_arguments(spec: EditorSpec) -> dict[str, dict[str, Any]]:
    """By what is lacking, the arguments of calls of the same pipeline, as far as it takes them; none for a function."""
    loaded = spec.load_object()
    if isinstance(loaded, Editor):
        return {}
    calls = [vars(base)["__call__"] for base in type(loaded).__mro__ if "__call__" in vars(base)]
    taken = {name for call in calls if inspect.isfunction(call) for name in inspect.signature(call).parameters}
    known = {name: {key: one[key] for key in one.keys() & taken} for name, one in _WEAKENED.items()}
    return {name: {**spec.pipeline_args, **arguments} for name, arguments in known.items() if arguments}


def _edit_again(editor: Editor) -> EditAgain:
    def edit(sample: EditSample) -> Image:
        history = [sample.history] if sample.history else None
        return editor.edit([sample.sources], [sample.instruction], [_SEED], history=history)[0]

    return edit
