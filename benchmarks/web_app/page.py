"""The page: one tab a job."""

from __future__ import annotations

import gradio as gr

from .audit_tab import audit_tab
from .comparison_tab import comparison_tab
from .labelling_tab import labelling_tab
from .ranking_tab import ranking_tab
from .settings import AppSettings

_TABS = {
    "Score and rank": ranking_tab,
    "Audit": audit_tab,
    "Compare results": comparison_tab,
    "Label": labelling_tab,
}


def build_page(settings: AppSettings) -> gr.Blocks:
    """The page, not served yet."""
    with gr.Blocks(title="editcritic", analytics_enabled=False) as page:
        for name, add in _TABS.items():
            with gr.Tab(name, id=name):
                add(settings)
    return page
