"""Growing pauses after failures, for what training can do without."""

from __future__ import annotations

_MAX_PAUSE = 64


class FailurePauses:
    """Leaves something out for 1, 2, 4, ... up to 64 turns after failures in a row.

    failures: all so far.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._in_a_row = self._pause = 0

    def is_turn(self) -> bool:
        """Whether it is asked this time, and not left out. Called once a turn."""
        if self._pause:
            self._pause -= 1
            return False
        return True

    def failed(self) -> int:
        """Count a failure; returns the number of turns that are now left out."""
        self.failures += 1
        self._pause = min(2**self._in_a_row, _MAX_PAUSE)
        self._in_a_row = min(self._in_a_row + 1, 8)
        return self._pause

    def succeeded(self) -> None:
        """The next failure is the first in a row."""
        self._in_a_row = 0
