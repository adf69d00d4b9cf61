"""What the user vouches for, beyond what files may name by themselves.

A spec in a file (a recording, a lock, results, a TOML file) names what is installed: entry points, bundles, models of
the registry. Whatever else it names acts with the rights of whoever reads it: a module runs its code, an address
receives pictures, the name of an environment variable sends its value there, a path is read. So each of these has to
be trusted by its own text, in `--trust` or in the environment variable `EDITCRITIC_TRUST` (words as in a shell), which
worker processes inherit. What is typed on the command line or passed as an argument is the user's own and needs none.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

VARIABLE = "EDITCRITIC_TRUST"


def trusting(*names: str) -> contextlib.ExitStack:
    """Trust these as well, in this process and those it starts, until the block ends: `with trusting(name): ...`. Not a
    generator: one that is never closed would restore the variable whenever it is collected.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = shlex.join(dict.fromkeys((*trusted_names(), *names)))
    block = contextlib.ExitStack()
    block.callback(_restore, before)
    return block


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = before


def trusted_names() -> tuple[str, ...]:
    """Modules, addresses, names of environment variables, files and folders. Raises ValueError for open quotes. An
    empty name, as of a shell's variable that is not set, trusts nothing: as a path it is the working folder.
    """
    try:
        return tuple(filter(None, shlex.split(os.environ.get(VARIABLE, ""))))
    except ValueError as error:
        raise ValueError(f"{VARIABLE} cannot be read: {error}: give words as in a shell") from None


def is_trusted(text: str) -> bool:
    """Whether exactly this text is trusted: an address, the name of an environment variable."""
    return text in trusted_names()


def is_trusted_module(module: str) -> bool:
    """Whether a module, or a package that it is in, is trusted."""
    return any(module == name or module.startswith(f"{name}.") for name in trusted_names())


def is_trusted_file(path: Path) -> bool:
    """Whether this very file or folder is trusted, and with it everything that it names."""
    resolved = _resolved(path)
    return resolved is not None and any(_resolved(name) == resolved for name in trusted_names())


def is_trusted_path(path: Path) -> bool:
    """Whether a path is trusted, or a folder that it is in; links are followed."""
    resolved, folders = _resolved(path), map(_resolved, trusted_names())
    return resolved is not None and any(folder and resolved.is_relative_to(folder) for folder in folders)


def _resolved(path: str | Path) -> Path | None:
    """With links followed; None for a text that is no path, with a null character or a lone surrogate."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return None
