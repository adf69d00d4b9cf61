"""Audits of the page: each in a thread of its own, so that it can be watched, and ended with a report."""

from __future__ import annotations

import html
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ...reward import Engine, Reward, default_experts, load_experts
from ...reward.audit import AuditRun, Family
from ...reward.engine.workers import start_daemon
from ...reward.plain_text import one_line
from ..audit.chosen_edits import READ_AHEAD, latest_scores, of_many_sources, outage, valid_samples
from ..audit.figures import read_figures, write_figures
from ..audit.page import write_audit_page, write_figures_page
from ..common.errors import InputError
from ..common.inputs import SampleEntry, load_reward, spec_argument
from ..common.problems import Problems
from .settings import Scorers

MAX_RUNNING = 2  # audits at a time, of all windows
UNWATCHED_S = 30.0  # how long an audit goes on that no window asks about
STOPPED = "stopped on the page"
_SEED = 0


@dataclass(frozen=True, slots=True)
class AuditChoice:
    """What is audited. reward, experts: specs. limit: number of edits. command: for the report."""

    entries: Iterable[SampleEntry]
    reward: str
    experts: str
    families: Sequence[Family]
    limit: int
    command: str = ""


class AuditJob:
    """One audit, which begins at once. folder: in which its files are written; None: that of the system. It has experts
    and an engine of its own: what they cost is then its own, and an expert is never called from two engines at a time.
    The store of answers is the page's, so what was asked is not asked again. Raises `InputError` and `SpecError`."""

    def __init__(self, scorers: Scorers, choice: AuditChoice, folder: str | None) -> None:
        self.problems: Problems[str] = Problems()
        """Of edits that are left out."""
        with ExitStack() as stack:
            engine = stack.enter_context(Engine(log=scorers.log))
            experts = load_experts([choice.experts], default_experts())
            reward = load_reward(spec_argument(choice.reward), engine=engine, experts=experts, on_failures="none")
            self._run = stack.enter_context(self._prepared(reward, choice))
            self._stack = stack.pop_all()
        self._folder = folder
        self._command = choice.command
        self._is_stopped = threading.Event()
        self._watched_at = self._begun_at = time.monotonic()
        self._edits_done = 0
        self._is_writing = False
        self._files: tuple[Path, Path] | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="editcritic audit", daemon=True)
        start_daemon(self._thread, self.stop)

    def _prepared(self, reward: Reward, choice: AuditChoice) -> AuditRun:
        valid = valid_samples(choice.entries, reward, self.problems.append)
        chosen = of_many_sources(islice(valid, choice.limit * READ_AHEAD), choice.limit, _SEED)
        if not chosen:
            raise InputError(f"there is no edit that can be audited: {'; '.join(islice(self.problems, 3))}")
        return AuditRun(reward, chosen, families=choice.families, seed=_SEED)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it with a report, after the batch that is being scored."""
        self._is_stopped.set()

    def wait(self, seconds: float) -> None:
        """Watch it for so long, or until it has ended."""
        self._watched_at = time.monotonic()
        self._thread.join(seconds)

    def files(self) -> tuple[Path, Path]:
        """The page and the figures that it wrote, once it has ended. Raises what ended it."""
        if self._error is not None:
            raise self._error
        assert self._files is not None
        return self._files

    def progress(self) -> AuditProgress:
        """How far it is."""
        run = self._run
        return AuditProgress(
            self._edits_done,
            len(run.maker.samples),
            len(run.edits),
            len(run.trials),
            time.monotonic() - self._begun_at,
            is_stopped=self._is_stopped.is_set(),
            is_writing=self._is_writing,
        )

    def _work(self) -> None:
        try:
            with self._stack:
                self._run.run(self._step, self._stop_reason)
                self._is_writing = True
                folder = Path(tempfile.mkdtemp(dir=self._folder))
                page, figures = folder / "audit.html", folder / "audit.json"
                report = self._run.report()
                write_figures(figures, report, self._command)
                write_audit_page(page, report, self._run.maker, self._command)
                self._files = page, figures
        except BaseException as error:  # noqa: BLE001  (whatever it is: the window is told)
            self._error = error

    def _step(self) -> None:
        self._edits_done += 1

    def _stop_reason(self) -> str:
        if self._is_stopped.is_set():
            return STOPPED
        if time.monotonic() - self._watched_at > UNWATCHED_S:
            return "its window was closed"
        return outage(latest_scores(self._run), len(self._run.maker.samples))


@dataclass(frozen=True, slots=True)
class AuditProgress:
    """How far an audit is. done: edits whose variants are scored, of `edits`; scored: edits that have been scored
    themselves. is_stopped: whether it ends after the batch that is being scored. is_writing: whether only the report is
    left."""

    done: int
    edits: int
    scored: int
    variants: int
    seconds: float
    is_stopped: bool = False
    is_writing: bool = False


@dataclass
class AuditJobs:
    """The audits of all windows. Thread-safe."""

    scorers: Scorers
    folder: str | None
    _jobs: list[AuditJob] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, choice: AuditChoice) -> AuditJob:
        """Begin one. Raises `InputError` while `MAX_RUNNING` are running, and what `AuditJob` raises."""
        with self._lock:
            self._jobs = [job for job in self._jobs if job.is_running]
            if len(self._jobs) >= MAX_RUNNING:
                raise InputError(f"{MAX_RUNNING} audits are running: wait until one has ended, or stop one")
            job = AuditJob(self.scorers, choice, self.folder)
            self._jobs.append(job)
            return job


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
