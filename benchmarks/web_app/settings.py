"""What the page of `editcritic app` starts with, and what its tabs share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from ..human_eval.annotation_session import AnnotationSession
from .open_files import OpenFiles
from .scorers import Scorers


@dataclass(frozen=True, slots=True)
class AppSettings:
    """files: what may be opened beside uploads. scorers: builds rewards, with one store of answers.

    reward, experts: specs, chosen at the start. session: the questions of the tab "Label", or None for those that are
    chosen on the page.
    """

    files: OpenFiles = field(default_factory=OpenFiles)
    scorers: Scorers = field(default_factory=Scorers)
    reward: str = "any-edit"
    experts: str = "cpu"
    session: AnnotationSession | None = None

    @property
    def folder(self) -> str | None:
        """Where the page's files are written, which are removed in the end; None while it is not served."""
        return os.environ.get("GRADIO_TEMP_DIR")

    @property
    def labels(self) -> Path | None:
        """The label file of the session."""
        return None if self.session is None else self.session.path
