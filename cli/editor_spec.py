"""The editor that `--pipeline` names: a diffusers pipeline, an object of the user's own, or the tiny editor.

Errors that are visible without the weights are raised before they are loaded.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.optional_imports import require_diffusers, require_torch
from ..reward import EditSample
from ..reward.queries.specs import find_target
from ..reward.trust import is_trusted_module
from ..verifiers import Editor

TINY_EDITOR = "sceneedit"  # the name of the editor that comes with this package
_PIPELINE_LIBRARIES = ("diffusers", "transformers")

_FORMS = "the folder or hub id of a diffusers pipeline, module:name of your own, or sceneedit"


@dataclass(frozen=True, slots=True)
class EditorSpec:
    """An editor as the command line names it. pipeline_args: keyword arguments of every pipeline call. batch_size:
    images per call. dtype: a dtype name of torch; None is bfloat16 on a GPU and float32 elsewhere. device: None is the
    first GPU if there is one, else the CPU. download: whether missing files may be downloaded from the hub."""

    name: str
    pipeline_args: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 8
    dtype: str | None = None
    device: str | None = None
    download: bool = False

    def check(self, sample: EditSample) -> None:
        """Raise `InputError` if this editor cannot edit the sample, as far as that is known without the weights."""
        if self.name == TINY_EDITOR:
            require_diffusers()
            from ..benchmarks.sceneedit.tiny_editor.training_examples import SIZE

            if wrong := [image.size for image in sample.sources if image.size != (SIZE, SIZE)]:
                raise InputError(
                    f"{TINY_EDITOR} edits images of {SIZE} x {SIZE}, got {wrong[0][0]} x {wrong[0][1]}: see "
                    "docs/editor.md, or give another --pipeline"
                )
        elif self._is_custom:
            self._import_custom()
        else:
            self._check_class(self._pipeline_class(), len(sample.sources))

    def load(self) -> Editor:
        """The loaded editor. Raises `InputError`."""
        loaded = self.load_object()
        if isinstance(loaded, Editor):
            if self.pipeline_args:
                raise InputError(f"{self.name} is an editor, not a pipeline: it takes no --pipeline-arg")
            return loaded
        require_torch()  # diffusers has made what is a pipeline: a function needs no import of it
        from ..integrations.diffusers.pipeline_editor import make_editor

        try:
            return make_editor(loaded, batch_size=self.batch_size, **self.pipeline_args)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name} cannot be used as an editor: {error}") from None

    @property
    def _is_custom(self) -> bool:
        return ":" in self.name and not Path(self.name).exists()

    def load_object(self) -> Any:
        """The pipeline, or the editor that a function of the user's makes. Raises `InputError`."""
        if self.name == TINY_EDITOR:
            from ..benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained

            return self._move_to_device(load_pretrained())
        if self._is_custom:
            custom = self._import_custom()
            return custom() if _is_factory(custom) else custom
        kind, torch = self._pipeline_class(), import_module("torch")
        dtype = self.dtype or ("bfloat16" if torch.cuda.is_available() else "float32")
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise InputError(f"--dtype is a dtype name of torch, as in bfloat16, got {dtype!r}")
        options = {"torch_dtype": getattr(torch, dtype), "local_files_only": not self.download}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # older versions accept `torch_dtype` only
                pipeline = kind.from_pretrained(self.name, **options)
            return self._move_to_device(pipeline)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"{self.name} cannot be loaded: {_first_line(error)}") from error

    def _move_to_device(self, pipeline: Any) -> Any:
        torch = import_module("torch")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return pipeline.to(device)
        except (RuntimeError, AssertionError) as error:  # AssertionError: torch without CUDA
            raise InputError(f"{self.name} cannot be moved to {device!r}: {_first_line(error)}") from error

    def _pipeline_class(self) -> Any:
        diffusers = require_diffusers()
        if Path(self.name).is_dir() and not (Path(self.name) / "model_index.json").is_file():
            raise InputError(f"{self.name} has no model_index.json: give {_FORMS}")
        try:
            index = diffusers.DiffusionPipeline.load_config(self.name, local_files_only=not self.download)
        except (OSError, ValueError) as error:
            hint = "" if self.download else "; --download allows downloads from the hub"
            raise InputError(f"{self.name} cannot be loaded ({_first_line(error)}): give {_FORMS}{hint}") from error
        name = index.get("_class_name")
        if not isinstance(name, str) or not hasattr(diffusers, name):
            raise InputError(
                f"{self.name} has class {name}, which diffusers {diffusers.__version__} does not have: give "
                "module:name of a function that loads it"
            )
        for part, value in index.items():
            library = value[0] if isinstance(value, list | tuple) and value else None
            if library is None or library in _PIPELINE_LIBRARIES or hasattr(diffusers.pipelines, str(library)):
                continue
            if not is_trusted_module(str(library)):
                raise InputError(
                    f"the {part} of {self.name} is of the module {library}, and a pipeline's files import nothing but "
                    f"{' and '.join(_PIPELINE_LIBRARIES)} by themselves; if you trust it, add `--trust {library}`"
                )
        return getattr(diffusers, name)

    def _check_class(self, kind: Any, sources: int) -> None:
        from ..integrations.diffusers.pipeline_families import FAMILIES

        parameters = inspect.signature(kind.__call__).parameters
        bases = {base.__name__ for base in kind.__mro__}
        family = next((family for family in FAMILIES if bases.intersection(family.pipelines)), None)
        if family is None:
            lacking = [name for name in ("image", "prompt") if name not in parameters]
            names = ", ".join(name for family in FAMILIES for name in family.pipelines)
            raise InputError(
                f"{self.name} is a {kind.__name__}, which does not edit images by instruction: it takes no "
                f"{' and no '.join(lacking)}"
                if lacking
                else f"{self.name} is a {kind.__name__}, and the supported pipelines are {names}: for another one "
                "give module:name of a function that returns an editor (see docs/selection.md)"
            )
        if sources > 1 and not family.multi_source:
            raise InputError(f"{self.name} is a {kind.__name__}, which takes one source image, got {sources}")
        for name in self.pipeline_args:
            if name not in parameters and not any(
                parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
            ):
                near = difflib.get_close_matches(name, parameters, n=3, cutoff=0.5)
                hint = f"did you mean {', '.join(near)}?" if near else f"it takes {', '.join(parameters)}"
                raise InputError(f"{kind.__name__} has no argument {name!r}: {hint}")

    def _import_custom(self) -> Any:
        target = find_target(self.name)
        if not callable(target) and not isinstance(target, Editor):
            raise InputError(f"{self.name} is {type(target).__name__}: give {_FORMS}")
        return target


def _is_factory(target: Any) -> bool:
    if not (inspect.isfunction(target) or inspect.isclass(target)):
        return False
    parameters = inspect.signature(target).parameters.values()
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
