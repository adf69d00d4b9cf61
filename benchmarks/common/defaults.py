"""Defaults that commands and functions share."""

from __future__ import annotations

BOOTSTRAP_SAMPLES = 1000
"""Of the cases, for every interval of a table or a report."""
