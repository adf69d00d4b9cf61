"""JSON that a stranger wrote: bounded, and without what crashes or deceives those who use its values later.

Python's own parser takes duplicate keys (the last one counts, other readers take the first), NaN and infinities, which
no other reader takes, lone surrogates, which no file, terminal or database can store, and integers of any length.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .plain_text import check_text
from .regular_files import MAX_LINE_BYTES, MAX_TEXT_BYTES, nonempty_lines, read_regular

MAX_VALUES = 20_000
"""Values and keys of one line of a JSONL file, about."""
MAX_DEPTH = 64
MAX_INTEGER = 2**63 - 1
"""What databases and other languages can store."""
_ODD = re.compile(r"\\u[dD]|\d{19}|[eE]\+?\d{3}")
"""Without which there is neither a surrogate, nor an integer of more than 64 bits, nor an infinite number."""
_LONG_INTEGER = re.compile(r"\d{400}")  # old Pythons take quadratic time for it
_TOO_DEEP = f"not JSON: nested deeper than {MAX_DEPTH} levels"


class UnsafeJSON(ValueError):
    """JSON beyond a limit: nested too deeply, with too many values, too large a number, or a lone surrogate."""


def parse_json(data: bytes | str, *, max_values: int = MAX_VALUES) -> Any:
    """Values from JSON, in UTF-8 with or without a byte order mark. Memory is of the order of its size. Raises
    ValueError for what is no JSON, for duplicate keys, NaN and infinities; and its subclass `UnsafeJSON` for numbers
    beyond 1e308, integers beyond 64 bits, lone surrogates, nesting deeper than `MAX_DEPTH`, and more than `max_values`
    values.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        opened = text.count("[") + text.count("{")
        if (values := opened + text.count(",") + text.count(":")) > max_values:
            raise UnsafeJSON(f"it holds about {values:,} values, more than {max_values:,}")
        is_odd = isinstance(data, str) or opened > MAX_DEPTH or _ODD.search(text) is not None
        if _LONG_INTEGER.search(text):
            raise UnsafeJSON("it holds an integer of hundreds of digits")
        value = _DECODER.decode(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise UnsafeJSON(_TOO_DEEP) from None
    if is_odd:
        _check(value)
    return value


def json_lines(
    path: Path, *, max_values: int = MAX_VALUES, inside: Path | None = None
) -> Iterator[tuple[int, Any | ValueError]]:
    """The lines of a JSONL file with their numbers: each as its values, or as the error that says what it is. Raises
    OSError as `open_regular`.
    """
    for number, line in nonempty_lines(path, inside=inside):
        yield number, json_line(line, max_values=max_values)


def json_line(line: bytes | None, *, max_values: int = MAX_VALUES) -> Any | ValueError:
    """The values of a line of `nonempty_lines`, or the error that says what it is."""
    if line is None:
        return ValueError(f"the line has more than {MAX_LINE_BYTES:,} bytes: one JSON object is expected")
    try:
        return parse_json(line, max_values=max_values)
    except ValueError as error:
        return error


def read_json(path: Path, *, max_values: int = 10**6, inside: Path | None = None) -> Any:
    """The values of a JSON file. Raises OSError as `open_regular`, and ValueError as `parse_json`."""
    return parse_json(read_regular(path, MAX_TEXT_BYTES, inside=inside), max_values=max_values)


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if not item.isascii():
                    try:
                        check_text(item)
                    except ValueError as error:
                        raise UnsafeJSON(str(error)) from None
            elif isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and not math.isfinite(item):
                raise UnsafeJSON("a number is infinite in double precision")
            elif isinstance(item, int) and abs(item) > MAX_INTEGER:
                raise UnsafeJSON(f"the integer {str(item)[:40]} has more than 64 bits")
        if not below:
            return
        level = below
    raise UnsafeJSON(_TOO_DEEP)


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON: leave unknown values out")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice!r:.80} is given twice")
    return table


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
