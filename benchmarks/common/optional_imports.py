"""Libraries of optional extras, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...reward.installation import install_command
from .errors import InputError


def bench_library(module: str) -> Any:
    """Import a module of the extra `bench`. Raises `InputError` if it is not installed. matplotlib has its own
    settings, and no others: it reads a `matplotlibrc` of the working folder, by which it runs latex. Texts are drawn as
    they are, not as formulas."""
    imported = _import_from_extra("bench", module)
    if module.partition(".")[0] == "matplotlib":
        settings = import_module("matplotlib")
        settings.rcdefaults()
        settings.rcParams["text.parse_math"] = False
    return imported


def require_torch() -> None:
    """Import torch, all that a function needs to be an editor. Raises `InputError` if it is not installed."""
    _import_from_extra("diffusers", "torch")


def require_diffusers() -> Any:
    """Import diffusers. Raises `InputError` if it, torch or transformers is not installed."""
    for needed in ("torch", "transformers"):  # diffusers can be imported without them, but not used
        _import_from_extra("diffusers", needed)
    return _import_from_extra("diffusers", "diffusers")


def require_trl() -> Any:
    """Import TRL. Raises `InputError` if it or one of its dependencies is not installed."""
    for needed in ("torch", "transformers", "datasets", "peft"):
        _import_from_extra("trl", needed)
    return _import_from_extra("trl", "trl")


def require_serving() -> None:
    """Raise `InputError` if a library that the server needs is not installed."""
    for needed in ("fastapi", "httpx2", "prometheus_client", "uvicorn"):
        _import_from_extra("serve", needed)


def require_app() -> None:
    """Raise `InputError` if a library that the app's page needs is not installed. gradio is only looked for: when it is
    imported, it makes a folder for its files, and the page's server says where."""
    for needed in ("matplotlib", "skimage"):
        _import_from_extra("app", needed)
    if find_spec("gradio") is None:
        raise _missing("app", "gradio")


def _import_from_extra(extra: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(extra, module.partition(".")[0]) from error


def _missing(extra: str, library: str) -> InputError:
    return InputError(f"this requires {library}, which is not installed: {install_command(extra)}")
