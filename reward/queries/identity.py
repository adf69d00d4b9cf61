"""Identity of metrics and rewards: a digest of all that their scores depend on.

It covers the tree of metrics with their classes, versions and options, the content of prompts, and the ids of experts.
It contains no paths: files count by their content. So equal rewards on two machines have equal identities, and two
rewards that can differ in any score have not. Journals, servers and caches compare identities.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Mapping, Set
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..image import Image
from .prompts import Prompts
from .specs import SpecError, import_path, parameters

SIGNATURE_DIGITS = 8
"""Hex digits of an identity at the end of a signature."""
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


class _Paths(Enum):
    """What a text counts as that names a file: of options, the content; of data, the text."""

    BY_CONTENT = "content"
    AS_TEXT = "text"


def metric_digest(metric: Any) -> str:
    """The digest of a metric without experts, 64 hex digits. An object is described by its class, the version in its
    card, and its constructor arguments, which it must keep as attributes of the same names; a property
    `identity_options` takes the place of the arguments. Raises `SpecError` for what no other process could have an
    equal of, such as a class defined inside a function.
    """
    return _digest(_describe(metric, _Paths.BY_CONTENT))


def content_digest(value: Any) -> str:
    """The digest of plain data, images or arrays, 64 hex digits; nothing is abbreviated, and no file is opened. Raises
    `SpecError` for an object that cannot be described.
    """
    return _digest(_describe(value, _Paths.AS_TEXT))


def reward_identity(metric: str, experts: Mapping[str, str]) -> str:
    """The identity of a reward, 64 hex digits. metric: its digest. experts: role -> id."""
    return _digest([metric, sorted(experts.items())])


def signature_with_identity(signature: str, identity: str) -> str:
    """A signature that ends in digits of an identity, as in `edival-if@3/paper#0123abcd`."""
    return f"{signature.partition('#')[0]}#{identity[:SIGNATURE_DIGITS]}"


def _digest(description: Any) -> str:
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()


def _describe(value: Any, paths: _Paths) -> Any:
    """A value as plain JSON; different for different values, also of different types."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return {"enum": import_path(type(value)), "name": value.name}
        case str():
            return _describe_text(value) if paths is _Paths.BY_CONTENT else value
        case bytes() | bytearray():
            return {"bytes": hashlib.sha256(value).hexdigest()}
        case Path():
            return _describe_text(str(value), is_path=True) if paths is _Paths.BY_CONTENT else str(value)
        case re.Pattern():
            return {"pattern": value.pattern, "flags": value.flags}
        case Image():
            return {"image": value.digest}
        case np.ndarray():
            if value.dtype.hasobject or type(value) is not np.ndarray:
                raise SpecError(f"no identity: an array of {value.dtype} ({type(value).__name__}) is not plain numbers")
            content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return {"array": content, "dtype": str(value.dtype), "shape": list(value.shape)}
        case np.generic():
            return _describe(value.item(), paths)
        case Mapping():
            return {"mapping": [[_describe(key, paths), _describe(item, paths)] for key, item in value.items()]}
        case Set():
            return {"set": sorted(json.dumps(_describe(item, paths)) for item in value)}
        case list() | tuple():
            return [_describe(item, paths) for item in value]
        case _:
            return _describe_object(value, paths)


def _describe_object(built: Any, paths: _Paths) -> dict[str, Any]:
    if inspect.isclass(built) or inspect.isfunction(built):
        return {"use": import_path(built), **_card_facts(built)}
    kind = type(built)
    options = getattr(built, "identity_options", None)
    if options is None:
        is_hidden = not inspect.isfunction(kind.__init__)
        if kind.__init__ is object.__init__:
            is_hidden = inspect.isroutine(built) or not _is_written_in_python(kind)
        if is_hidden:
            raise SpecError(f"no identity: what {kind.__qualname__} holds cannot be seen from outside")
        options = {}
        for name in parameters(kind):
            if not hasattr(built, name):
                raise SpecError(f"no identity: {kind.__qualname__} does not keep its argument {name!r} as an attribute")
            options[name] = getattr(built, name)
        if not options and not is_dataclass(built) and not hasattr(built, "card") and getattr(built, "__dict__", None):
            raise SpecError(f"no identity: {kind.__qualname__} holds what its constructor was not given")
    pack = getattr(built, "prompt_pack", None)
    if isinstance(pack, Prompts):
        options = {**options, "prompts": pack.digest}
    return {
        "class": import_path(kind),
        **_card_facts(built),
        "prompts": _own_prompts_digest(kind.__module__.rpartition(".")[0]),
        "options": {name: _describe(value, paths) for name, value in options.items()},
    }


def _is_written_in_python(kind: type) -> bool:
    """Whether a class is one of a Python module; the state of others is in C."""
    return bool(kind.__flags__ & _HEAP_TYPE) and "__module__" in vars(kind)


def _card_facts(built: Any) -> dict[str, Any]:
    card = getattr(built, "card", None)
    name, version = getattr(card, "name", None), getattr(card, "version", None)
    return {"name": name, "version": version} if isinstance(name, str) and isinstance(version, int) else {}


def _describe_text(text: str, *, is_path: bool = False) -> Any:
    """A text; that of an existing path as the digest of its content. Words without a slash or a suffix are no path."""
    if not is_path and not any(separator in text for separator in "/\\") and not Path(text[:255]).suffix:
        return text
    try:
        path = Path(text)
        if path.is_file():
            return {"file": hashlib.sha256(path.read_bytes()).hexdigest()}
        if path.is_dir():
            members = sorted(member for member in path.rglob("*") if member.is_file())
            contents = [
                [member.relative_to(path).as_posix(), hashlib.sha256(member.read_bytes()).hexdigest()]
                for member in members
            ]
            return {"folder": contents}
    except (OSError, ValueError):  # no path after all, or one that cannot be read
        pass
    return text


@cache
def _own_prompts_digest(package: str) -> str:
    """Digest of the prompts of a package; empty if it has none."""
    if not package:
        return ""
    try:
        folder = files(package) / "prompts"
        prompts = sorted((entry.name, entry.read_bytes()) for entry in folder.iterdir() if entry.name.endswith(".txt"))
    except (ImportError, OSError, TypeError):
        return ""
    return _digest([[name, hashlib.sha256(content).hexdigest()] for name, content in prompts])
