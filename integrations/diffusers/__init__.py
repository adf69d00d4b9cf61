"""Editors and verifier callbacks on diffusers pipelines. Importing this package loads neither torch nor diffusers;
using one of its names does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import VerifierCallback
    from .pipeline_editor import DiffusersEditor, FunctionEditor, SinglePassEditor, make_editor
    from .pipeline_families import FAMILIES, PipelineFamily

__all__ = [
    "FAMILIES",
    "DiffusersEditor",
    "FunctionEditor",
    "PipelineFamily",
    "SinglePassEditor",
    "VerifierCallback",
    "make_editor",
]

_MODULES = {
    "FAMILIES": "pipeline_families",
    "DiffusersEditor": "pipeline_editor",
    "FunctionEditor": "pipeline_editor",
    "PipelineFamily": "pipeline_families",
    "SinglePassEditor": "pipeline_editor",
    "VerifierCallback": "callbacks",
    "make_editor": "pipeline_editor",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
