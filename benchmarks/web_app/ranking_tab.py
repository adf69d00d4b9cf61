"""The tab "Score and rank"."""

from __future__ import annotations

import gradio as gr

from .settings import AppSettings


def ranking_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    gr.Markdown("")
