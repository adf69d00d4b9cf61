"""All suites of one editor, one after another: those whose data and outputs are there.

A suite has one name for three folders: its data, the editor's outputs, and the results. The runs share the experts, one
file of answers, so that a query that several suites have is asked once, and the budget.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...reward.queries.specs import SpecError, entry_point_names
from ..common.errors import InputError
from ..suites.suite import Suite
from .suite_loading import SUITES, load_suite

ALL_SUITES = "all"
"""In place of a suite, in `bench run all`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class LeftOut(Exception):
    """A suite is not scored since something of it is not there; the message is the reason."""


@dataclass(frozen=True, slots=True)
class SuiteFolders:
    """A suite to score. name: of its folders. spec: the suite, with options. named: the user asked for it by name.

    data: None if there is no such folder: built-in suites need none.
    """

    name: str
    spec: str
    data: Path | None
    outputs: Path
    out: Path
    named: bool = False

    def load(self) -> Suite:
        """Raises `LeftOut` without outputs or data, and `InputError` or `SpecError` for data and specs with errors."""
        if not self.outputs.is_dir():
            raise LeftOut(f"there is no folder {self.outputs} of outputs")
        if self.data is not None:
            return load_suite(self.spec, self.data)
        try:
            return load_suite(self.spec)
        except SpecError:
            raise
        except InputError as error:
            raise LeftOut(str(error)) from None


def find_suites(texts: Sequence[str], data: Path, outputs: Path, out: Path) -> list[SuiteFolders]:
    """The folders of the suites to score: `DATA/NAME`, `OUTPUTS/NAME`, `OUT/NAME`.

    texts: specs such as `edival?mode=singlepass`, or `NAME=SPEC` for a name other than the suite's; by default all
    installed suites. The data of a suite with another name may also be in the folder of the suite's own name.

    Raises `InputError` for a text that is not of this form, for two suites of one name, and without a folder of
    outputs.
    """
    if not outputs.is_dir():
        raise InputError(f"{outputs} is no folder: give the folder with a folder of outputs for each suite, --outputs")
    found: dict[str, SuiteFolders] = {}
    for text in texts or entry_point_names(SUITES):
        head, equals, tail = text.partition("=")
        name, spec = (head, tail) if equals and "?" not in head else (text.partition("?")[0], text)
        suite = spec.partition("?")[0]
        if not _NAME.fullmatch(name) or not suite:
            raise InputError(f"--suite {text}: give a suite, as in edival?mode=singlepass, or NAME=SUITE")
        if name in found:
            raise InputError(f"--suite {text}: there are two suites {name}: name one of them, as in {name}-2={spec}")
        folder = next((data / one for one in (name, suite) if _NAME.fullmatch(one) and (data / one).is_dir()), None)
        found[name] = SuiteFolders(name, spec, folder, outputs / name, out / name, bool(texts))
    return list(found.values())
