"""The samples behind results: the suite and the outputs that the runs recorded, if the page may open them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...reward import EditSample, SpecError
from ..common.errors import InputError
from ..report.results_loading import LoadedResults, load_suite_of
from ..run.editor_outputs import MissingOutput, Outputs
from ..suites.suite import Suite
from .open_files import OpenFiles


@dataclass(frozen=True)
class ResultPictures:
    """suite: None if it cannot be loaded. outputs: by the place of the results. notes: why something is not there."""

    suite: Suite | None
    outputs: Mapping[int, Outputs]
    notes: tuple[str, ...]

    @staticmethod
    def find(files: OpenFiles, loaded: Sequence[LoadedResults]) -> ResultPictures:
        """Of results of one suite. What they record is read only where it lies in what was named at the start."""
        suite, note = _suite(files, loaded)
        if suite is None:
            return ResultPictures(None, {}, (note,))
        outputs: dict[int, Outputs] = {}
        notes: list[str] = []
        for number, results in enumerate(loaded):
            folder = results.recorded_path("outputs")
            if folder is None:
                notes.append(f"{results.results.editor} has no pictures: {results.folder.name} records no outputs")
            elif not files.holds(folder):
                notes.append(
                    f"{results.results.editor} has no pictures: its outputs lie in {folder}; start the app with that "
                    "folder, too"
                )
            elif folder.is_dir():
                outputs[number] = Outputs(suite, folder)
        return ResultPictures(suite, outputs, tuple(notes))

    def sample(self, number: int, item: str) -> EditSample:
        """The item with the output of these results. Raises `MissingOutput`."""
        if self.suite is None or number not in self.outputs:
            raise MissingOutput("its outputs are not known")
        if item not in self.suite.by_id:
            raise MissingOutput("the suite has no such item")
        return self.outputs[number].sample(self.suite.by_id[item])


def _suite(files: OpenFiles, loaded: Sequence[LoadedResults]) -> tuple[Suite | None, str]:
    """The suite, or why it is not loaded."""
    for results in loaded:
        data = results.recorded_path("data")
        if data is not None and not files.holds(data):
            return None, f"the suite is not loaded: its data lie in {data}; start the app with that folder, too"
    try:
        return load_suite_of(loaded, None), ""
    except (InputError, SpecError) as error:
        return None, f"the suite is not loaded: {error}"
