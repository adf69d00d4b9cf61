"""Replays: scores from recorded answers, without models and without images.

A recording (`recordings.py`) replays with its own reward, and then every score has to equal the recorded one, or with
another reward on the same answers. Golden cases (`golden_cases.py`) replay with EdiVal-IF.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...reward import Score
from ...reward.file_specs import require_trusted
from ...reward.plain_text import one_line
from ...reward.regular_files import open_regular
from ..common.errors import InputError
from ..common.inputs import SampleEntry, load_reward, spec_argument
from .golden_cases import replay_cases
from .recordings import RecordingReader, same_score
from .scoring_run import ScoringReport, score_entries

GOLDEN_REWARDS = ("edival", "edival-if")
"""Reward names that replay golden cases."""


@dataclass
class ReplayReport:
    """num_agreeing of num_compared scores equal the recorded ones. mismatches: messages for the others."""

    num_agreeing: int = 0
    num_compared: int = 0
    mismatches: list[str] = field(default_factory=list)
    report: ScoringReport = field(default_factory=ScoringReport)

    @property
    def exit_code(self) -> int:
        """0 if all scores agree, else 1; without scores to compare with, the exit code of scoring."""
        if self.report.interrupted or not self.num_compared:
            return self.report.exit_code
        return 1 if self.mismatches else 0


def is_golden(path: Path) -> bool:
    """Whether a file has JSON lines and is no recording. Raises `InputError` if it cannot be read."""
    try:
        with open_regular(path) as opened:
            return opened.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def replay_golden(name: str | None, path: Path, protocol: str | None) -> ReplayReport:
    """Replay golden cases of EdiVal-IF; `protocol` defaults to `official`, the source of their verdicts."""
    if name not in (None, *GOLDEN_REWARDS):
        raise InputError(
            f"{path} contains golden cases of edival, not of {name}: `editcritic dev replay edival {path}`"
        )
    try:
        num_agreeing, total, mismatches = replay_cases(path, protocol or "official")
    except ValueError as error:
        raise InputError(str(error)) from None
    return ReplayReport(num_agreeing, total, [str(mismatch) for mismatch in mismatches])


def replay_recording(
    name: str | None,
    recording: RecordingReader,
    protocol: str | None,
    *,
    write: Callable[[str, Score, str], None],
    on_problem: Callable[[str], None],
) -> ReplayReport:
    """Score the samples of a recording from its answers. write: called with each sample's id and score, and the
    reward's signature. on_problem: as in `score_entries`.

    name: a reward as on the command line; None replays the recorded reward and compares its scores with the recorded
    ones. A query without a recorded answer fails the scores that need it.
    """
    spec = recording.spec if name is None else spec_argument(name)
    if name is None:  # of the recorded spec, only the metric is built
        require_trusted(spec["reward"] if isinstance(spec, Mapping) and "reward" in spec else spec, recording.log.path)
    reward = load_reward(spec, protocol, experts=recording.experts(), log=recording.log, on_failures="none")
    replay, signature = ReplayReport(), reward.known_signature
    compare = name is None and protocol is None

    def add_score(sample: str, score: Score) -> None:
        write(sample, score, signature)
        recorded = recording.recorded_score(sample) if compare else None
        if recorded is not None:
            replay.num_compared += 1
            replay.num_agreeing += same_score(score, recorded)
            if not same_score(score, recorded):
                replay.mismatches.append(
                    f"{sample}: recorded {_format_score(recorded)}, got {_format_score(score.to_json())}"
                )

    entries = (SampleEntry(f"{recording.log.path}, sample {sample.id}", sample) for sample in recording.samples())
    replay.report = score_entries(reward, entries, add_score, on_problem=on_problem)
    return replay


def _format_score(score: dict[str, object]) -> str:
    value = score["value"]
    reason = f" ({one_line(str(score['reason']))})" if score.get("reason") else ""
    return f"{value if value is not None else score['status']}{reason}"
