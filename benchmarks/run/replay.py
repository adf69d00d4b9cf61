"""Replays: scores from recorded answers, without models and without pictures.

A recording of ours (`recording.py`) replays with the reward it was made with, and then every score has to come out as
recorded, or with another one over the same answers. Golden cases (`golden.py`) replay with EdiVal-IF.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..reward import Score
from .golden import replay_cases
from .inputs import Entry, InputError, load_reward, read_spec
from .recording import Recall, agrees
from .score_run import Outcome, run

GOLDEN = ("edival", "edival-if")
"""Names under which golden cases are replayed."""


@dataclass
class Replay:
    """agree of compared: how many scores came out as recorded. differ: the others, in words."""

    agree: int = 0
    compared: int = 0
    differ: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def exit_code(self) -> int:
        """0 all agree, 1 some do not; without anything to compare with, that of scoring."""
        if self.outcome.interrupted or not self.compared:
            return self.outcome.exit_code
        return 1 if self.differ else 0


def is_golden(path: Path) -> bool:
    """Whether a file is of JSON lines, rather than a recording. Raises `InputError` for one that cannot be read."""
    try:
        with path.open("rb") as opened:
            return opened.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def replay_golden(name: str | None, path: Path, protocol: str | None) -> Replay:
    """Golden cases of EdiVal-IF; `protocol` defaults to `official`, which is whose verdicts they hold."""
    if name not in (None, *GOLDEN):
        raise InputError(f"{path} holds golden cases of edival, not of {name}: `editcritic replay edival {path}`")
    try:
        agree, total, differ = replay_cases(path, protocol or "official")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a file of golden cases: {error}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    return Replay(agree, total, [str(one) for one in differ])


def replay_recording(
    name: str | None,
    recall: Recall,
    protocol: str | None,
    *,
    write: Callable[[str, Score], None],
    complain: Callable[[str], None],
) -> Replay:
    """Score the samples of a recording from its answers; `write` and `complain` as in `run`.

    name: a reward as on the command line; None for the recorded one, whose scores are then compared with the recorded
    ones. A question the recording has no answer to fails the scores that need it.
    """
    spec = recall.spec if name is None else read_spec(name)
    reward = load_reward(spec, protocol, experts=recall.experts(), log=recall.log, on_failures="none")
    replay = Replay()
    compare = name is None and protocol is None

    def put(sample: str, score: Score) -> None:
        write(sample, score)
        recorded = recall.score_of(sample) if compare else None
        if recorded is not None:
            replay.compared += 1
            replay.agree += agrees(score, recorded)
            if not agrees(score, recorded):
                replay.differ.append(f"{sample}: recorded {_say(recorded)}, got {_say(score.to_json())}")

    entries = (Entry(f"{recall.log.path}, sample {sample.id}", sample) for sample in recall.samples())
    replay.outcome = run(reward, entries, put, complain=complain)
    return replay


def _say(score: dict[str, object]) -> str:
    value = score["value"]
    reason = f" ({score['reason']})" if score.get("reason") else ""
    return f"{value if value is not None else score['status']}{reason}"
