"""An audit on the page: how far it is, and its report, which is the page that `editcritic audit` writes."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path

from ...reward.plain_text import one_line
from ..audit.figures import read_figures
from ..audit.page import write_figures_page
from ..common.problems import Problems
from .audit_jobs import AuditProgress

_MAX_PROBLEMS = 3

_PREPARE = """
const page = this.contentDocument.documentElement;
new ResizeObserver(() => { this.style.height = Math.ceil(page.getBoundingClientRect().height) + 'px'; }).observe(page);
page.addEventListener('click', (event) => {
  const link = event.target.closest('a[href]');
  if (!link) return;
  event.preventDefault();
  page.querySelector(link.getAttribute('href')).scrollIntoView();
});
"""
"""The page in the frame has no scripts, and its links to its sections would lead out of it: see `srcdoc`."""


_STYLE = "<style>:is(#audit-status, #audit-report) .html-container { padding: 0; }</style>"
"""The frame needs all the width of a phone."""


def progress_html(progress: AuditProgress, problems: Problems[str]) -> str:
    """How far an audit is, in words and as a bar. problems: of edits that are left out."""
    if progress.is_writing:
        text = "Writing the report."
    elif progress.is_stopped:
        text = "Stopping: what is being scored is finished first."
    elif progress.scored < progress.edits:
        text = "Scoring the edits themselves."
    else:
        text = f"Edits done: {progress.done:,} of {progress.edits:,}."
    bar = (
        f'<progress max="{progress.edits}" value="{progress.done}" aria-label="edits done" '
        'style="display: block; width: 100%; height: .6rem; accent-color: var(--color-accent)"></progress>'
    )
    return f"{_STYLE}{bar}<p>{text} {_counts_text(progress)}</p>{_left_out_html(problems)}"


def done_html(progress: AuditProgress, problems: Problems[str]) -> str:
    """The same once its report is there."""
    return f"{_STYLE}<p>Done. {_counts_text(progress)}</p>{_left_out_html(problems)}"


def _counts_text(progress: AuditProgress) -> str:
    minutes, seconds = divmod(int(progress.seconds), 60)
    return f"{progress.variants:,} variants scored, {f'{minutes} min ' if minutes else ''}{seconds} s."


def _left_out_html(problems: Problems[str]) -> str:
    if not problems:
        return ""
    shown = "; ".join(one_line(problem) for problem in problems[:_MAX_PROBLEMS])
    more = f"; and {problems.total - _MAX_PROBLEMS:,} more" if problems.total > _MAX_PROBLEMS else ""
    return f'<p style="overflow-wrap: anywhere">Left out: {html.escape(shown)}{more}.</p>'


def report_html(page: Path) -> str:
    """The page of an audit in a frame, as high as what is in it. Raises OSError."""
    text = html.escape(page.read_text(encoding="utf-8"))
    prepare = html.escape(_PREPARE)
    return (
        f'{_STYLE}<iframe title="report of the audit" sandbox="allow-same-origin" srcdoc="{text}" onload="{prepare}" '
        'style="width: 100%; height: 60rem; border: 0; border-radius: 8px"></iframe>'
    )


def stored_report_html(figures: Path, folder: str | None) -> str:
    """The same of a file of figures, which has no pictures. folder: for the page. Raises `InputError` and OSError."""
    stored = read_figures(figures)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        page = Path(temporary) / "audit.html"
        write_figures_page(page, stored)
        return report_html(page)
