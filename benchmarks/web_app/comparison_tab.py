"""The tab "Compare results"."""

from __future__ import annotations

import gradio as gr

from .settings import AppSettings


def comparison_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    gr.Markdown("")
