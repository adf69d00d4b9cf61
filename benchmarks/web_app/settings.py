"""What the page of `editcritic app` starts with, and what it may read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..human_eval.annotation_session import AnnotationSession


@dataclass(frozen=True, slots=True)
class AppSettings:
    """folders: nothing outside them is read, beside what is uploaded. reward, experts: specs, chosen at the start.

    cache: the answer log of all scores of the page, or None for memory. session: the questions of the tab for labels,
    or None for those that are chosen on the page.
    """

    folders: tuple[Path, ...] = ()
    experts: str | None = None
    cache: Path | None = None
    session: AnnotationSession | None = None
