"""What is shown after an event, on a phone: there, results are below the form."""

from __future__ import annotations

_NARROW = 900
"""Pixels of a window below which columns lie below each other."""


def scroll_to(elem_id: str) -> str:
    """JavaScript for an event: bring a component into view on a narrow screen."""
    return (
        f"() => {{ if (innerWidth < {_NARROW}) document.getElementById('{elem_id}').scrollIntoView("
        "{behavior: 'smooth'}); }"
    )
