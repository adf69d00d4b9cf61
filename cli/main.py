"""The program `editcritic`.

The commands are in `app`, which is imported only once signals are handled: Ctrl-C during imports is no traceback.
"""

from __future__ import annotations

import os

from ..benchmarks.common.interruption import end_after


def main() -> None:
    """Entry point."""
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # processes that libraries start import nothing of the working folder
    end_after(_run)


def _run() -> None:
    from .app import run

    run()


if __name__ == "__main__":
    main()
