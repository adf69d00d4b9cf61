"""What the commands are given: folders of results, the suite that they belong to, folders of pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..inputs import InputError
from ..suite_run.loading import load_suite
from ..suites.results import RESULT, RUN, Results
from ..suites.suite import Suite

_PACK = "prompts"
"""The option for a folder of prompts, which results name by its digest, and which matters to judging alone."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Results and the folder they lie in. given: what the run that made them was told, as far as it is known."""

    folder: Path
    results: Results
    given: Mapping[str, Any]

    def place(self, name: str) -> Path | None:
        """A folder or file that the run was told of, if it is still there; written as seen from the results."""
        found = self.given.get(name)
        if not isinstance(found, str):
            return None
        place = Path(os.path.normpath(self.folder / found))
        return place if place.exists() else None


def load_results(folders: Sequence[Path]) -> list[Loaded]:
    """Each folder, or each of the folders of results inside of one. Raises `InputError`."""
    found = []
    for folder in folders:
        inside = sorted(path.parent for path in folder.glob(f"*/{RESULT}"))
        places = inside if inside and not (folder / RESULT).is_file() else [folder]
        found += [Loaded(place, Results.load(place), _given(place)) for place in places]
    return found


def _given(folder: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / RUN).read_text(encoding="utf-8")).get("given", {})
    except (OSError, ValueError, AttributeError):
        return {}
    return found if isinstance(found, Mapping) else {}


def suite_of(loaded: Sequence[Loaded], data: Path | None, spec: str | None = None) -> Suite:
    """The suite that results say they are of, with its options. spec: how to find it where its name does not; with
    options of its own, or those of the results.

    data: where the runs found it, by default. Raises `InputError` where there is none, or the data are others.
    """
    provenance = loaded[0].results.provenance
    name = provenance.get("suite")
    if not isinstance(name, str):
        raise InputError(f"{loaded[0].folder} does not say which suite it is of: it was not written by `bench run`")
    options = provenance.get("options", {}).items()
    kept = {key: json.dumps(value) for key, value in options if key != _PACK or not isinstance(value, str)}
    query = urlencode(kept)
    place = data or next((found for one in loaded if (found := one.place("data")) is not None), None)
    base = spec or name
    suite = load_suite(f"{base}?{query}" if query and "?" not in base else base, place)
    if suite.digest != provenance.get("data"):
        where = "that this version brings" if place is None else f"in {place}"
        raise InputError(
            f"the data {where} are not those of the results: their digest is {suite.digest[:16]}, expected "
            f"{str(provenance.get('data'))[:16]}; give the data that were judged to --data"
        )
    return suite


def outputs_of(given: Sequence[str], loaded: Sequence[Loaded], editors: Sequence[str]) -> dict[str, Path]:
    """Editor -> folder: of `NAME=DIR`, and otherwise where the run found them. Raises `InputError`."""
    found: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not name or not folder:
            raise InputError(f"--outputs {text}: give an editor's name and a folder, as in --outputs mine=outputs/mine")
        if name in found:
            raise InputError(f"--outputs names {name} twice")
        if not Path(folder).is_dir():
            raise InputError(f"--outputs {text}: there is no folder {folder}")
        found[name] = Path(folder)
    for editor, one in zip(editors, loaded, strict=True):
        place = one.place("outputs")
        if editor not in found and place is not None and place.is_dir():
            found[editor] = place
    return found
