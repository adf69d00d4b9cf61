"""JSON that a stranger wrote: bounded, and without what crashes or deceives those who use its values later.

Python's own parser takes duplicate keys (the last one counts, other readers take the first), NaN and infinities, which
no other reader takes, lone surrogates, which no file, terminal or database can store, and integers of any length.
"""

from __future__ import annotations

import json
import math
from typing import Any

from .plain_text import check_text

MAX_VALUES = 20_000
"""Values and keys of one line of a JSONL file, about."""
MAX_DEPTH = 64
MAX_INTEGER = 2**63 - 1
"""What databases and other languages can store."""


def parse_json(data: bytes | str, *, max_values: int = MAX_VALUES) -> Any:
    """Values from JSON, in UTF-8 with or without a byte order mark. Memory is of the order of its size.

    Raises ValueError for what is no JSON, for duplicate keys, NaN, infinities and numbers beyond 1e308, integers beyond
    64 bits, lone surrogates, nesting deeper than `MAX_DEPTH`, and more than `max_values` values.
    """
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        opened = text.count("[") + text.count("{")
        if (values := opened + text.count(",") + text.count(":")) > max_values:
            raise ValueError(f"it holds about {values:,} values, more than {max_values:,}")
        value = _DECODER.decode(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_depth_and_texts(value)
    return value


def _check_depth_and_texts(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if not item.isascii():
                    check_text(item)
            elif isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list):
                below += item
        if not below:
            return
        level = below
    raise ValueError(_TOO_DEEP)


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON: leave unknown values out")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is infinite in double precision")
    return number


def _integer(text: str) -> int:
    if len(text) > 20 or abs(number := int(text)) > MAX_INTEGER:
        raise ValueError(f"the integer {text[:40]} has more than 64 bits")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice!r:.80} is given twice")
    return table


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_int=_integer, parse_constant=_constant)
_TOO_DEEP = f"not JSON: nested deeper than {MAX_DEPTH} levels"
