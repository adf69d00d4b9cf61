"""The page: one tab a job."""

from __future__ import annotations

from importlib.resources import files

import gradio as gr

from .audit_tab import audit_tab
from .comparison_tab import comparison_tab
from .labelling_tab import labelling_tab
from .ranking_tab import ranking_tab
from .settings import AppSettings

_TABS = {
    "rank": ("Score and rank", ranking_tab),
    "audit": ("Audit", audit_tab),
    "compare": ("Compare", comparison_tab),
    "label": ("Label", labelling_tab),
}

CSS = "".join(files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "question.css"))
HEAD = f"<script>{files(__package__).joinpath('page.js').read_text(encoding='utf-8')}</script>"


def theme() -> gr.Theme:
    """Plain, with the system's fonts: others would be fetched from elsewhere."""
    fonts, mono = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")
    plain = gr.themes.Default(primary_hue="blue", neutral_hue="slate", font=fonts, font_mono=mono)
    # Its own shades have a contrast of 2.6 to 3.7, below the 4.5 of WCAG's level AA.
    return plain.set(
        body_text_color_subdued="*neutral_600",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
    )


def build_page(settings: AppSettings) -> gr.Blocks:
    """The page, not served yet."""
    first = "label" if settings.session is not None else "rank"
    with gr.Blocks(title="editcritic", analytics_enabled=False, fill_width=True) as page:
        gr.Markdown("**editcritic**: how good is an image edit?", elem_id="head")
        with gr.Tabs(selected=first):
            for name, (title, add) in _TABS.items():
                with gr.Tab(title, id=name, elem_id=f"tab-{name}"):
                    add(settings)
    return page
