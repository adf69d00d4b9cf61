"""`editcritic audit`: how would a reward be hacked?"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.interruption import interrupted_code, tell_interrupted
from ..benchmarks.common.terminal import echo, exit_code_command, print_json, render, rows_table
from .edit import DEMO, demo_entries, entries_of
from .options import DEFAULT_REWARD, AnswerCache, Data, Experts, Json, Protocol, Seed, Trust, command_line

if TYPE_CHECKING:
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.run.run_budget import BudgetLimits
    from ..reward import AnswerLog, BaseReward
    from ..reward.audit import AuditReport
    from ..reward.audit.audited_reward import AnyScorer
    from ..reward.image import FileIndex


@exit_code_command
def audit(
    context: typer.Context,
    samples: str = typer.Argument(
        metavar="SAMPLES",
        help="Good edits: a file or folder of samples, as in `score`; with --outputs, a suite; or `demo`, the "
        "photographs of the demo with their good edits.",
    ),
    reward: str = typer.Option(
        DEFAULT_REWARD,
        help="A name (see `editcritic rewards`), `name?option=value`, a TOML file; the URL of a judge server, or "
        "several, comma-separated; or module:function, which takes a list of samples and returns their scores.",
    ),
    experts: Experts = None,
    protocol: Protocol = None,
    pictures: bool = typer.Option(
        False, "--pictures", help="The function takes three lists: sources and edits as PIL images, and instructions."
    ),
    out: list[Path] | None = typer.Option(
        None,
        "-o",
        "--out",
        help="Write the report: a page (.html), with all figures as .json beside it, or these alone (.json). "
        "Repeatable.",
    ),
    family: list[str] | None = typer.Option(
        None,
        help="Only this family of variants, as the table names them, or all of a relation: lower, equal, same, "
        "no_number. Repeatable.",
    ),
    limit: int = typer.Option(16, min=1, help="Number of edits, of as many sources as possible."),
    tolerance: float = typer.Option(
        0.05, min=0.0, max=1.0, help="How far harmless variants may score from the edit, of the scale."
    ),
    fail_above: float | None = typer.Option(
        None, min=0.0, max=1.0, help="Exit code 1 if the rate of violations is above this, e.g. 0.01."
    ),
    worst: int = typer.Option(3, min=0, help="Examples on the page of each family with violations."),
    budget: str | None = typer.Option(
        None, help="Limits, e.g. judge_calls=1000,seconds=600,cost=5. The audit ends there."
    ),
    cache: AnswerCache = None,
    instruction: str | None = typer.Option(None, help="Instruction of all pairs in a folder that have no <id>.txt."),
    outputs: Path | None = typer.Option(None, help="Folder of an editor's outputs; SAMPLES names their suite then."),
    data: Data = None,
    seed: Seed = 0,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Find out how a reward would be hacked, on your own edits and without labels, before a policy does.

    Of each edit, variants are made whose right order is known: damaged ones, that must score lower; harmless changes,
    that must not matter; broken pictures, that must have no score. Printed are the families of variants by how often
    the reward is wrong, what a policy would gain by the best hack, how sensitive the reward is, and what its experts
    cost. The edits have to do what they were asked for; 16 or more, of different pictures, give firm rates.

    Ctrl-C ends it with a report of what is scored by then; with --cache, the next run asks for the rest only, and again
    for what tests whether an answer repeats. Exit code 1 if --fail-above is exceeded, if experts failed, if
    nothing could be compared, or if the budget was reached.

    Example: editcritic audit samples.jsonl --reward any-edit --experts small -o audit.html
    """
    from ..benchmarks.audit.chosen_edits import READ_AHEAD, latest_scores, of_many_sources, outage, valid_samples
    from ..benchmarks.audit.figures import write_figures
    from ..benchmarks.audit.page import write_audit_page
    from ..benchmarks.common.inputs import require_distinct_files
    from ..benchmarks.common.problems import Problems
    from ..benchmarks.run.run_budget import BudgetLimits
    from ..benchmarks.run.scoring_run import forward_warnings
    from ..reward import AnswerLog
    from ..reward.audit import AuditRun, select_families

    try:
        families = select_families(family or ())
    except ValueError as error:
        raise InputError(f"--family: {error}") from None
    limits = BudgetLimits.parse(budget)
    files = report_files(out or ())
    source = None if outputs or samples == DEMO else Path(samples)
    require_distinct_files(samples=source, cache=cache, **{f"-o {path}": path for path in files})
    for path in files:
        require_writable(path)
    with ExitStack() as stack:
        scoring = stack.enter_context(ExitStack())
        if as_json:  # the document alone is on standard output: what a function of the user's prints is no part of it
            scoring.enter_context(redirect_stdout(sys.stderr))
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        subject = audit_subject(reward, experts, protocol, pictures=pictures, log=log, limits=limits)
        problems: Problems[str] = Problems()
        entries = _entries(samples, outputs, data, instruction, seed, {} if log is None else log.files)

        def tell(problem: str) -> None:
            if problems.append(problem):
                echo(f"editcritic: {problem}")

        read = list(islice(valid_samples(entries, subject.scorer, tell), limit * READ_AHEAD))
        chosen = of_many_sources(read, limit, seed)
        if problems:
            named = "named above" if len(problems) == problems.total else f"the first {len(problems):,} named above"
            echo(f"editcritic: {problems.total:,} edits are left out, {named}")
        if not chosen:
            raise InputError(f"{samples} has no edit that can be audited")
        if len(read) > limit:
            echo(f"editcritic: {limit:,} edits of as many sources as possible are audited: --limit says how many")
        run = stack.enter_context(AuditRun(subject.scorer, chosen, families=families, tolerance=tolerance, seed=seed))
        interrupted = False
        stop = lambda: subject.exhausted() or outage(latest_scores(run), len(chosen))  # noqa: E731
        with audit_progress("auditing", len(chosen), stop) as progress, forward_warnings(echo) as warned:
            try:
                run.run(*progress)
            except KeyboardInterrupt:
                interrupted = True
        if not run.edits:
            tell_interrupted()
            return interrupted_code()
        report = run.report()
        scoring.close()
        code = _exit_code(report, fail_above, has_problems=bool(problems), interrupted=interrupted)
        figures = [path for path in files if path.suffix.lower() == ".json"]
        for path in figures:  # first, and the page last: an interrupted process has a few seconds left
            write_figures(path, report, command_line(context))
        if as_json:
            written = {"exit_code": code, "problems": list(problems), "num_problems": problems.total}
            print_json({**report.to_json(), **written, "files": [str(path) for path in files], "warnings": warned})
        else:
            print_report(report)
        for path in files:
            if path not in figures:
                write_audit_page(path, report, run.maker, command_line(context), worst=worst)
        if files:
            echo(f"editcritic: written to {', '.join(map(str, files))}")
        if interrupted:
            tell_interrupted("editcritic: interrupted; what was scored is reported")
            stack.pop_all()  # the engine's thread may use the log until the process ends
    return code


def _entries(
    samples: str, outputs: Path | None, data: Path | None, instruction: str | None, seed: int, index: FileIndex
) -> Iterator[SampleEntry]:
    if outputs is not None and instruction is not None:
        raise InputError("--instruction is for a folder of images: a suite has its instructions")
    if samples == DEMO and outputs is None and data is None:
        return demo_entries()
    return entries_of(samples, outputs, data, seed, index, instruction=instruction)


def _exit_code(report: AuditReport, fail_above: float | None, *, has_problems: bool, interrupted: bool) -> int:
    """Of what holds first. A reward without a score for any edit has failed, whatever the threshold."""
    if interrupted:
        return interrupted_code()
    if has_problems:
        return 2
    known = report.overall.value if any(score.value is not None for score in report.edits) else None
    is_above = known is None or (fail_above is not None and known > fail_above)
    return int(is_above or bool(report.stopped) or report.infrastructure_failures > 0)


@contextmanager
def audit_progress(
    label: str, edits: int, stop: Callable[[], str]
) -> Iterator[tuple[Callable[[], None], Callable[[], str]]]:
    """A status on a terminal, elsewhere a line now and then. Yields two functions: one to call after each edit, and
    `stop`, which is asked between batches and may be the only sign of life for long."""
    from ..benchmarks.run.run_budget import RunProgress, progress_reporter

    begun, done = time.monotonic(), 0

    def step() -> None:
        nonlocal done
        done += 1
        show()

    def show() -> None:
        watch(RunProgress(done, edits, 0, time.monotonic() - begun))

    def stop_reason() -> str:
        show()
        return stop()

    with progress_reporter(label) as watch:
        show()
        yield step, stop_reason


_OUTAGE_S = 20.0  # how long an audit waits for a server that does not answer
_ARGUMENTS = {1: "a list of samples", 3: "lists of sources, edits and instructions"}
"""Of a function of the user's, by their number."""


@dataclass(frozen=True)
class AuditSubject:
    """scorer: what is audited. exhausted: the limit that is reached; empty while there is none."""

    scorer: BaseReward | AnyScorer
    exhausted: Callable[[], str] = lambda: ""


def audit_subject(
    text: str,
    experts: Sequence[str] | None = None,
    protocol: str | None = None,
    *,
    pictures: bool = False,
    log: AnswerLog | None = None,
    limits: BudgetLimits,
) -> AuditSubject:
    """Raises `InputError` or `SpecError` for what cannot be audited, or takes none of these options."""
    from ..benchmarks.common.inputs import load_reward, spec_argument
    from ..benchmarks.run.run_budget import BudgetTracker
    from ..reward import Reward

    is_served = text.startswith(("http://", "https://"))
    function = None if is_served else _function(text, pictures)
    if is_served or function is not None:
        kind = "a judge server" if is_served else f"{text}, a function of yours,"
        for option, given in (("--experts", experts), ("--protocol", protocol), ("--cache", log)):
            if given is not None:
                raise InputError(f"{kind} has its experts, settings and answers itself: leave {option} out")
        if limits.judge_calls is not None or limits.cost is not None:
            raise InputError(f"{kind} does not say what it calls: --budget takes seconds=... here, nothing else")
    if pictures and function is None:
        raise InputError(f"--pictures is for a function of yours, as in --reward module:function, got {text}")
    if is_served or function is not None:
        return AuditSubject(function or _served(text), _deadline(limits.seconds))
    reward = load_reward(spec_argument(text), protocol, bindings=experts, log=log, on_failures="none")
    tracker = BudgetTracker(reward.experts, limits=limits)
    metered = Reward(reward.metric, tracker.experts, log=log, on_failures="none")
    deadline = _deadline(limits.seconds)  # loading does not count
    return AuditSubject(metered, lambda: tracker.exhausted or deadline())


def _function(text: str, pictures: bool) -> AnyScorer | None:
    """What `module:function` names if it takes samples itself; None for a metric, what makes one, or no such text."""
    from ..reward.audit import reward_of_pictures
    from ..reward.queries.specs import find_target

    if ":" not in text or "?" in text or text.endswith(".toml"):
        return None
    target: Any = find_target(text)
    if inspect.isclass(target) or hasattr(target, "card") or not callable(target) or not _needs_arguments(target):
        return None
    count, other = (3, 1) if pictures else (1, 3)
    if not _takes(target, count) and _takes(target, other):
        option = "leave --pictures out" if pictures else "add --pictures"
        raise InputError(
            f"--reward: {text} takes {_ARGUMENTS[other]}, and is called with {_ARGUMENTS[count]}: {option}"
        )
    return reward_of_pictures(target) if pictures else target


def _takes(target: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(target).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # built in
        return True
    return True


def _needs_arguments(target: Callable[..., Any]) -> bool:
    """Unlike what makes a metric, which is called with its options only."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:  # built in
        return True
    variadic = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    return variadic or any(one.kind in kinds and one.default is one.empty for one in parameters)


def _served(text: str) -> BaseReward:
    from ..benchmarks.common.optional_imports import require_serving
    from ..integrations.serving.client.remote_reward import RemoteError
    from ..integrations.trainers.trainer_reward import resolve_scorer
    from ..reward import BaseReward

    require_serving()
    try:
        scorer = resolve_scorer(text, on_failures="none", outage_timeout_s=_OUTAGE_S)
        assert isinstance(scorer, BaseReward)  # of a URL
        scorer.card  # noqa: B018  (asks the servers, which have to be there)
    except (ValueError, RemoteError) as error:
        raise InputError(f"--reward: {error}") from None
    return scorer


def _deadline(seconds: float | None) -> Callable[[], str]:
    begun = time.monotonic()

    def exhausted() -> str:
        over = seconds is not None and time.monotonic() - begun >= seconds
        return f"the budget of {seconds:g} seconds is spent" if over else ""

    return exhausted


def report_files(out: Sequence[Path]) -> list[Path]:
    """What is written: beside a page its figures, unless another file has them. Figures are written first."""
    for path in out:
        if path.suffix.lower() not in (".html", ".json"):
            raise InputError(f"-o {path} has the suffix of no report: give a name ending in .html or .json")
    pages = [path for path in out if path.suffix.lower() == ".html"]
    figures = [path for path in out if path not in pages] or [path.with_suffix(".json") for path in pages]
    files = [*figures, *pages]
    if twice := next((path for path in files if files.count(path) > 1), None):
        raise InputError(f"-o {twice} is given twice: use different files")
    return files


def require_writable(path: Path) -> None:
    """Fail before anything is asked, not after it. Raises `InputError` or OSError."""
    target = Path(os.path.realpath(path))  # of a link, which stays
    existed = target.exists()
    if existed and not target.is_file():  # to open a pipe would wait for its reader
        raise InputError(f"-o {path} is no file: give another name")
    with path.open("ab"):
        pass
    if not existed:
        target.unlink()


def print_report(report: AuditReport) -> None:
    """The figures as tables and lines on standard output, the verdict last."""
    from ..benchmarks.audit import report_text as texts

    render(rows_table(f"Audit of {report.reward}", (), texts.facts(report)))
    cells = [texts.finding_cells(finding) for finding in texts.by_violations(report) if finding.rate.violations]
    if cells:
        columns = texts.COLUMNS
        fixed = (columns[0], columns[3])
        render(rows_table("Families with violations", columns, cells, right=columns[2:], fixed=fixed))
    right = [finding.family.name for finding in report.findings if finding.rate.trials and not finding.rate.violations]
    if right:
        echo(f"No violations in {len(right)} families: {', '.join(right)}", stderr=False)
    none = [finding.family.name for finding in report.findings if not finding.rate.trials]
    if none and report.overall.trials:
        echo(f"Nothing to compare in {len(none)} families: {', '.join(none)}", stderr=False)
    if damages := texts.sensitivity_rows(report):
        losses = ", ".join(f"{name} {texts.mean_text(mean)}" for name, mean in damages)
        echo(f"Mean loss of score, of the scale, by what is damaged: {losses}", stderr=False)
    if costs := list(texts.cost_rows(report)):
        render(rows_table("What it took", texts.COST_COLUMNS, costs, right=texts.COST_COLUMNS[2:]))
    echo(texts.verdict(report), stderr=False)
