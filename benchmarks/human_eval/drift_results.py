"""What `judge drift` compares: results of a suite, or a recording of `score --record`, replayed for its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...reward import Score
from ..common.errors import InputError
from ..run.replay import RecordingReader, replay_recording
from ..suites.results import ResultRow, Results, load_results


def load_answers(paths: Sequence[Path]) -> list[Results]:
    """Results of folders, one an editor, or those of one recording, with a row a sample and its sources as the case.

    Raises `InputError`, also for a recording beside others, since it names no editor, and for one whose scores this
    version does not reproduce; `LogError` for a damaged one.
    """
    recordings = [path for path in paths if path.is_file()]
    if recordings and len(paths) > 1:
        raise InputError(
            f"{recordings[0]} is a recording, which names no editor: one at a time is compared, got {len(paths)} paths"
        )
    return [_recorded_results(path) if recordings else load_results(path) for path in paths]


def _recorded_results(path: Path) -> Results:
    recording = RecordingReader(path)
    try:
        samples = {sample.id: sample for sample in recording.samples()}
        rows: list[ResultRow] = []

        def add(name: str, score: Score, signature: str) -> None:
            if recording.recorded_score(name) is None:  # interrupted before it was scored
                return
            sample = samples[name]
            case = " ".join(image.digest for image in sample.sources)
            scores = {signature.partition("@")[0]: score}
            rows.append(ResultRow(name, case, {}, scores, edited=sample.edited.digest, instruction=sample.instruction))

        replay = replay_recording(None, recording, None, write=add, on_problem=lambda _: None)
    finally:
        recording.log.close()
    if replay.report.interrupted:
        raise KeyboardInterrupt
    if replay.mismatches:
        raise InputError(
            f"{path}: {len(replay.mismatches):,} of {replay.num_compared:,} scores are not the recorded ones with this "
            f"version ({replay.mismatches[0]}): compare recordings of one version"
        )
    return Results("", rows)
