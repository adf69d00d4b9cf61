"""The edits of an audit: those of a file or folder, an editor's outputs for a suite, or the demo's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..benchmarks.common.inputs import SampleEntry
    from ..reward.image import FileIndex

DEMO = "demo"
"""In place of a file: the demo's photographs with their good edits."""


def file_entries(path: Path, index: FileIndex, *, instruction: str | None = None) -> Iterator[SampleEntry]:
    """Those of `SampleSource`. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleSource

    return SampleSource.open(path, instruction=instruction).read(index)


def suite_entries(name: str, outputs: Path, data: Path | None, seed: int, index: FileIndex) -> Iterator[SampleEntry]:
    """An editor's outputs in random order; a missing one is a problem. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.human_eval.measurement_variance import sample_items
    from ..benchmarks.run.editor_outputs import MissingOutput, Outputs, UnnamedOutputs
    from ..benchmarks.run.suite_loading import load_suite

    suite = load_suite(name, data)
    editor_outputs, is_missing = Outputs(suite, outputs, index), False
    for item in sample_items(suite.items, len(suite.items), seed):
        try:
            yield SampleEntry(item.id, editor_outputs.sample(item))
        except MissingOutput as reason:
            is_missing = True
            yield SampleEntry(item.id, problem=str(reason))
    if is_missing and (unnamed := str(UnnamedOutputs.of(suite, outputs))):
        yield SampleEntry(str(outputs), problem=unnamed)


def demo_entries() -> Iterator[SampleEntry]:
    """The demo's good edits. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.demo.good_edits import good_edits

    return (SampleEntry(sample.id, sample) for sample in good_edits())


def demo_rollouts() -> Iterator[SampleEntry]:
    """Several edits of each of the demo's photographs. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.demo.rollouts import rollouts

    return (SampleEntry(sample.id, sample) for sample in rollouts())
