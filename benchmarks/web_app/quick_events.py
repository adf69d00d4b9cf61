"""Options of events for which nobody waits, such as what a choice shows."""

from __future__ import annotations

from typing import Any

QUICK: dict[str, Any] = {"queue": False, "show_progress": "hidden"}
"""Answered by the request itself. The queue answers over a stream, which the server closes after its last event; the
page then waits forever for an event that it sent at that moment. So only what takes long, or reports something while it
runs (`gr.Progress`, `gr.Info`, `gr.Warning`), is queued.
"""
