"""The editor that is to be trained, used rightly and wrongly."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from editcritic.cli.editor_spec import EditorSpec
from editcritic.reward import EditSample, Image
from editcritic.reward.audit.audited_edit import EditAgain
from editcritic.verifiers import Editor

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
