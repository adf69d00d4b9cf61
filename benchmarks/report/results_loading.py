"""Loading of result folders, of their suite, and of the outputs folders."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward.file_specs import require_trusted
from ...reward.strict_json import read_json
from ...reward.trust import is_trusted_file, is_trusted_path
from ..common.errors import InputError
from ..run.suite_loading import load_suite
from ..suites.results import RESULT_FILE, RUN_FILE, SCORES_FILE, Results, load_results
from ..suites.suite import Suite

_DEPTH = 2  # of result folders in a folder, as in `results/EDITOR/SUITE`
_PROMPT_PACK_OPTION = "prompts"  # option for a prompt folder: results store its digest; only scoring needs it


@dataclass(frozen=True, slots=True)
class LoadedResults:
    """Results and their folder. invocation: options of the run that wrote them, if known. finished_at: when it did."""

    folder: Path
    results: Results
    invocation: Mapping[str, Any]
    finished_at: str = ""

    def recorded_path(self, name: str) -> Path | None:
        """A recorded path, relative to the results, if it still exists."""
        recorded = self.invocation.get(name)
        if not isinstance(recorded, str):
            return None
        path = Path(os.path.normpath(self.folder / recorded))
        return path if path.exists() else None


def load_result_folders(folders: Sequence[Path]) -> list[LoadedResults]:
    """Each result folder, also named by a file in it, or the result folders inside a folder and its subfolders, as of
    editors with several suites. Raises `InputError`."""
    return [
        _loaded(found)
        for folder in folders
        for found in ([folder.parent] if _is_result_file(folder) else list(_result_folders(folder)) or [folder])
    ]


def _is_result_file(path: Path) -> bool:
    return path.name in (RESULT_FILE, SCORES_FILE) and path.is_file()


def _result_folders(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Those in a folder, itself included; none inside of another, where a suite may write files of any name."""
    if all((folder / name).is_file() for name in (RESULT_FILE, SCORES_FILE)):
        yield folder
    elif depth and folder.is_dir():
        for path in sorted(folder.iterdir()):
            yield from _result_folders(path, depth - 1)


def _loaded(folder: Path) -> LoadedResults:
    results = load_results(folder)
    try:
        facts = read_json(folder / RUN_FILE)
    except (OSError, ValueError):
        facts = None
    facts = facts if isinstance(facts, Mapping) else {}
    invocation, finished_at = facts.get("invocation"), facts.get("finished_at")
    return LoadedResults(
        folder,
        results,
        invocation if isinstance(invocation, Mapping) else {},
        finished_at if isinstance(finished_at, str) else "",
    )


def load_suite_of(loaded: Sequence[LoadedResults], data: Path | None, spec: str | None = None) -> Suite:
    """The suite of the results, with its options. spec: used instead of the recorded name; with its own options, or
    those of the results. data: default: the recorded folder. Raises `InputError` if the suite is unknown or its data
    differ, and `SpecError` if the results name what is neither installed nor trusted (see `file_specs`)."""
    provenance = loaded[0].results.provenance
    name = provenance.get("suite")
    if not isinstance(name, str):
        raise InputError(f"{loaded[0].folder} does not name its suite: it was not written by `bench run`")
    recorded = provenance.get("suite_options", {})
    if not isinstance(recorded, Mapping):
        raise InputError(f"{loaded[0].folder} has no table of suite options, but {recorded!r:.80}")
    options = {
        key: value for key, value in recorded.items() if key != _PROMPT_PACK_OPTION or not isinstance(value, str)
    }
    if spec is None or "?" not in spec:
        require_trusted({**options, "use": name if spec is None else ""}, loaded[0].folder)
    data_folder = data or next(
        (path for results in loaded if (path := results.recorded_path("data")) is not None), None
    )
    protocol = provenance.get("protocol")
    suite = load_suite(spec if spec and "?" in spec else {**options, "use": spec or name}, data_folder).under(
        protocol if isinstance(protocol, str) else None
    )
    if suite.digest != provenance.get("data_digest"):
        location = "built into this version" if data_folder is None else f"in {data_folder}"
        raise InputError(
            f"the data {location} differ from those of the results: their digest is {suite.digest[:16]}, expected "
            f"{str(provenance.get('data_digest'))[:16]}; give the scored data with --data"
        )
    return suite


def find_outputs(
    assignments: Sequence[str], loaded: Sequence[LoadedResults], editors: Sequence[str]
) -> dict[str, Path]:
    """Editor -> outputs folder: from `NAME=FOLDER`, else as recorded by the run. Raises `InputError`."""
    outputs: dict[str, Path] = {}
    for text in assignments:
        name, equals, folder = text.partition("=")
        if not equals or not name or not folder:
            raise InputError(f"--outputs {text}: give an editor's name and a folder, as in --outputs mine=outputs/mine")
        if name in outputs:
            raise InputError(f"--outputs names {name} twice")
        if not Path(folder).is_dir():
            raise InputError(f"--outputs {text}: there is no folder {folder}")
        outputs[name] = Path(folder)
    for editor, results in zip(editors, loaded, strict=True):
        path = results.recorded_path("outputs")
        if editor not in outputs and path is not None and path.is_dir():
            # A stranger's results may record any folder, and a page with pictures of it may be sent around.
            place = path.resolve()
            is_near = any(place.is_relative_to(root) for root in (Path.cwd(), results.folder.resolve().parent))
            if not is_near and not is_trusted_path(place) and not is_trusted_file(results.folder):
                raise InputError(
                    f"{results.folder} records outputs in another place, {place}: if they are its own, "
                    f"give --outputs NAME=FOLDER, or add `--trust {shlex.quote(str(place))}`"
                )
            outputs[editor] = path
    return outputs
