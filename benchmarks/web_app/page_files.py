"""Which files a request may name: those of the page's own folder, where uploads and pictures lie.

gradio's own check of the values of an event runs only where it started the server itself. Without one, a value that
names any file of this machine is copied to where the page reads it, and one that names an address is fetched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...reward.strict_json import parse_json

MAX_VALUES = 200_000
"""Values and keys in the JSON of an event."""


class PageFiles:
    """folder: the page's own, private."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def holds(self, path: str) -> bool:
        """Whether this is the path of a file of the folder; no address is one, and no link out of it."""
        if "\0" in path or not Path(path).is_absolute():
            return False
        real = Path(os.path.realpath(path))
        return real.is_relative_to(self._folder) and real.is_file()

    def check_event(self, body: bytes, num_inputs: Mapping[int, int]) -> None:
        """Raise ValueError unless the body of an event is JSON that names files of the folder only, and an event of the
        page with as many values as it takes, if any. num_inputs: by the number of an event.
        """
        event = parse_json(body, max_values=MAX_VALUES)
        for path in _paths(event):
            if not (isinstance(path, str) and self.holds(path)):
                raise ValueError(f"{path!r:.200} is no file that was dropped on the page")
        if isinstance(event, dict) and isinstance(event.get("data"), list):
            number = event.get("fn_index")
            if type(number) is not int or num_inputs.get(number) != len(event["data"]):
                raise ValueError(
                    f"the page has no event {number!r:.40} with {len(event['data'])} values: load it again"
                )


def _paths(value: Any) -> Iterator[Any]:
    """What the objects in it name as `path`, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from _paths(item)
    elif isinstance(value, dict):
        if value.get("path") is not None:
            yield value["path"]
        for item in value.values():
            yield from _paths(item)
