"""Libraries that only an extra brings, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .inputs import InputError


def bench(module: str) -> Any:
    """A module of a library that comes with the extra `bench`. Raises `InputError` where it is not installed."""
    return _brought("bench", module)


def diffusers() -> Any:
    """The library diffusers, with those it needs to be of use. Raises `InputError` where one is not installed."""
    for needed in ("torch", "transformers"):  # without them it can be imported, and does nothing
        _brought("diffusers", needed)
    return _brought("diffusers", "diffusers")


def trl() -> Any:
    """The library TRL. Raises `InputError` where it, or one that it needs, is not installed."""
    for needed in ("torch", "transformers", "datasets", "peft"):
        _brought("trl", needed)
    return _brought("trl", "trl")


def serving() -> None:
    """See to it that all is there that a server needs. Raises `InputError` where it is not."""
    for needed in ("fastapi", "httpx2", "prometheus_client", "uvicorn"):
        _brought("serve", needed)


def _brought(extra: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise InputError(f"{name} is needed here, and is not installed: pip install 'editcritic[{extra}]'") from error
