"""The tab "Audit"."""

from __future__ import annotations

import gradio as gr

from .settings import AppSettings


def audit_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    gr.Markdown("")
