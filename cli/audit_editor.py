"""The editor of `editcritic audit --pipeline`, used rightly and wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .editor_spec import EditorSpec

if TYPE_CHECKING:
    from ..reward import EditSample, Image
    from ..reward.audit.audited_edit import EditAgain
    from ..verifiers import Editor

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
    editor, weakened = spec.load_weakened(_WEAKENED)
    return AuditEditor(_edit_again(editor), {name: _edit_again(one) for name, one in weakened.items()})


def _edit_again(editor: Editor) -> EditAgain:
    def edit(sample: EditSample) -> Image:
        history = [sample.history] if sample.history else None
        return editor.edit([sample.sources], [sample.instruction], [_SEED], history=history)[0]

    return edit
