"""The editor that `--pipeline` names: a diffusers pipeline, something of the user's own, or the tiny editor.

What can be seen to be wrong without the weights is refused before they are loaded.
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

from ..reward import EditSample
from ..verifiers import Editor
from .extras import diffusers
from .inputs import InputError

TINY = "sceneedit"
"""The name of the editor that comes with this package."""

_FORMS = "the folder or hub id of a diffusers pipeline, module:name of your own, or sceneedit"


@dataclass(frozen=True, slots=True)
class Named:
    """What the command line says about an editor.

    settings: go into every call of the pipeline. batch: pictures a call. dtype: a name of torch's; None takes bfloat16
    on a GPU and float32 elsewhere. device: None takes the GPU where there is one. download: whether the hub is asked
    for what is not on this machine.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 8
    dtype: str | None = None
    device: str | None = None
    download: bool = False

    def check(self, sample: EditSample) -> None:
        """Raise `InputError` for what cannot edit this sample, as far as that is known without the weights."""
        if self.name == TINY:
            diffusers()
            from .sceneedit.learned.lessons import SIZE

            if wrong := [one.size for one in sample.sources if one.size != (SIZE, SIZE)]:
                raise InputError(
                    f"{TINY} edits pictures of {SIZE} x {SIZE}, got one of {wrong[0][0]} x {wrong[0][1]}: see "
                    "docs/editor.md for what it can do, or give another --pipeline"
                )
        elif self._is_own:
            self._own()
        else:
            self._check_class(self._class(), len(sample.sources))

    def load(self) -> Editor:
        """The editor, ready to work. Raises `InputError`."""
        found = self._loaded()
        if isinstance(found, Editor):
            if self.settings:
                raise InputError(f"{self.name} is an editor with settings of its own: --setting is for pipelines")
            return found
        diffusers()
        from ..integrations.diffusers.editor import editor_of

        try:
            return editor_of(found, batch=self.batch, **self.settings)
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name} cannot be used as an editor: {error}") from None

    @property
    def _is_own(self) -> bool:
        return ":" in self.name and not Path(self.name).exists()

    def _loaded(self) -> Any:
        if self.name == TINY:
            from .sceneedit.learned.pipeline import load

            return self._placed(load())
        if self._is_own:
            found = self._own()
            return found() if _is_factory(found) else found
        kind, torch = self._class(), import_module("torch")
        dtype = self.dtype or ("bfloat16" if torch.cuda.is_available() else "float32")
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise InputError(f"--dtype is a name of torch's, as in bfloat16, got {dtype!r}")
        options = {"torch_dtype": getattr(torch, dtype), "local_files_only": not self.download}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # the older versions know `torch_dtype` only
                pipeline = kind.from_pretrained(self.name, **options)
            return self._placed(pipeline)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"{self.name} cannot be loaded: {_first_line(error)}") from error

    def _placed(self, pipeline: Any) -> Any:
        torch = import_module("torch")
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return pipeline.to(device)
        except (RuntimeError, AssertionError) as error:  # the second is what torch without CUDA says
            raise InputError(f"{self.name} cannot be moved to {device!r}: {_first_line(error)}") from error

    def _class(self) -> Any:
        """The pipeline's class, by its model_index.json."""
        library = diffusers()
        if Path(self.name).is_dir() and not (Path(self.name) / "model_index.json").is_file():
            raise InputError(f"{self.name} has no model_index.json: give {_FORMS}")
        try:
            index = library.DiffusionPipeline.load_config(self.name, local_files_only=not self.download)
        except (OSError, ValueError) as error:
            hint = "" if self.download else "; --download asks the hub for what is not on this machine"
            raise InputError(f"{self.name} cannot be found ({_first_line(error)}): give {_FORMS}{hint}") from error
        name = index.get("_class_name")
        if not isinstance(name, str) or not hasattr(library, name):
            raise InputError(
                f"{self.name} is of {name}, which diffusers {library.__version__} does not have: give module:name of "
                "a function that loads it"
            )
        return getattr(library, name)

    def _check_class(self, kind: Any, sources: int) -> None:
        from ..integrations.diffusers.families import FAMILIES

        known = inspect.signature(kind.__call__).parameters
        bases = {base.__name__ for base in kind.__mro__}
        family = next((one for one in FAMILIES if bases.intersection(one.pipelines)), None)
        if family is None:
            lacking = [name for name in ("image", "prompt") if name not in known]
            names = ", ".join(name for one in FAMILIES for name in one.pipelines)
            raise InputError(
                f"{self.name} is of {kind.__name__}, which edits no picture by words: it takes no "
                f"{' and no '.join(lacking)}"
                if lacking
                else f"{self.name} is of {kind.__name__}, and the known editors are {names}: for another one give "
                "module:name of a function that makes an editor of it (see docs/selection.md)"
            )
        if sources > 1 and not family.several:
            raise InputError(f"{self.name} is of {kind.__name__}, which edits one picture, got {sources} sources")
        for name in self.settings:
            if name not in known and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
                near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
                hint = f"did you mean {', '.join(near)}?" if near else f"it takes {', '.join(known)}"
                raise InputError(f"{kind.__name__} has no setting {name!r}: {hint}")

    def _own(self) -> Any:
        module, _, path = self.name.partition(":")
        try:
            found: Any = import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, TypeError, ValueError) as error:  # the last two: a name that is none
            raise InputError(f"cannot find {self.name}: {error}") from None
        if not callable(found) and not isinstance(found, Editor):
            raise InputError(f"{self.name} is {type(found).__name__}: give {_FORMS}")
        return found


def _is_factory(found: Any) -> bool:
    """Whether it is called for an editor, rather than called to edit: a class or function that needs no argument."""
    if not (inspect.isfunction(found) or inspect.isclass(found)):
        return False
    parameters = inspect.signature(found).parameters.values()
    return all(one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
