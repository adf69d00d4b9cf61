"""The command line `editcritic`.

Exit codes: 0 done; 1 ran, but some scores failed, nothing could be chosen, a replay disagreed, or an installed part
does not work; 2 input or usage was wrong (what was right is still done); 130 interrupted. With `--json` there is one
JSON document on standard output and nothing else. Modules are imported in the commands, so that `--help` answers at
once.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import serve as serving
from .bench import app as bench
from .maps import app as maps
from .pipeline_options import Batch, Device, Download, Dtype, Experts, Setting
from .terminal import document, one_thread_a_library, plainly, progress, say, show, write_in_any_locale

if TYPE_CHECKING:
    from ..reward import Score
    from .score_run import Outcome

app = typer.Typer(
    name="editcritic",
    help="Scores image edits: for selection, for RL and for benchmarks, with the same scorer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

app.add_typer(bench)
app.add_typer(maps)
serving.add_to(app)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]
RewardName = Annotated[
    str,
    typer.Option(
        "--reward", help="A name (see `editcritic rewards`), `name?option=value`, `module:Name`, or a TOML file."
    ),
]
Protocol = Annotated[str | None, typer.Option("--protocol", help="A named way of computing it; its card lists them.")]
DEFAULT = "edit-balanced"


def main() -> None:
    """Entry point."""
    one_thread_a_library()
    write_in_any_locale()
    app()


# -- rewards ----------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def rewards(
    name: Annotated[str | None, typer.Argument(help="Print the card of this one.")] = None,
    as_json: Json = False,
) -> int:
    """List the installed rewards, or print the card of one."""
    from .catalogue import card_of, describe, listed, table

    if name is not None:
        one = describe(name)
        document(one.to_json()) if as_json else show(card_of(one))
        return 0
    found = list(listed())
    document([one.to_json() for one in found]) if as_json else show(table(found))
    return int(any(one.problem for one in found))


# -- score ------------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def score(
    samples: Annotated[
        Path,
        typer.Argument(
            help="A JSONL file, one edit a line, pictures relative to it; or a folder: with a `samples.jsonl`, or with "
            "pairs `<id>_source.png` and `<id>_edited.png` (or .jpg, .webp, ...), the instruction in `<id>.txt` or by "
            "--instruction."
        ),
    ],
    reward: RewardName = DEFAULT,
    experts: Experts = None,
    protocol: Protocol = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Write scores as JSONL, one by one as they come; - is stdout."),
    ] = None,
    instruction: Annotated[
        str | None, typer.Option("--instruction", help="Of all pairs in a folder that have no <id>.txt.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Keep answers of experts here, and use those that are there.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Keep all that `editcritic replay` needs. It is a cache as well.")
    ] = None,
    max_failed: Annotated[
        float, typer.Option("--max-failed", min=0.0, max=1.0, help="Share of failed scores that is tolerated.")
    ] = 0.5,
    on_failures: Annotated[
        str, typer.Option("--on-failures", help="Beyond that: raise (stop), none (go on), wait (and ask again).")
    ] = "raise",
    window: Annotated[int, typer.Option("--window", min=1, help="Samples in flight at a time; bounds memory.")] = 256,
    profile: Annotated[bool, typer.Option("--profile", help="Say what was asked and what experts took.")] = False,
    as_json: Json = False,
) -> int:
    """Score edits, with a summary: how many have which status, how the values lie, why the others have none."""
    from ..reward import AnswerLog
    from .inputs import Input, InputError, apart, load_reward, read_spec
    from .recording import Recording
    from .score_run import line_of, row_of, rows_to, run, warnings_to

    if cache is not None and record is not None:
        raise InputError("--record is a cache as well: give one of the two")
    if as_json and out == Path("-"):
        raise InputError("--json and -o - both want standard output: give a file to -o")
    apart(samples=samples, out=out, cache=cache, record=record)
    given = Input.of(samples, instruction=instruction)
    path = cache or record
    with ExitStack() as stack:
        log = None if path is None else stack.enter_context(AnswerLog(path, describe=record is not None))
        options = {"log": log, "window": window, "max_failed": max_failed, "on_failures": on_failures}
        bound = load_reward(read_spec(reward), protocol, given=experts, **options)
        recording = None if log is None or record is None else Recording(log, bound)
        rows = None if out is None else stack.enter_context(rows_to(out))
        kept: list[Any] = []

        def write(name: str, found: Score) -> None:
            if rows is not None:
                rows.write(row_of(name, found))
                rows.flush()
            elif as_json:
                kept.append(json.loads(row_of(name, found)))
            else:
                say(line_of(name, found), stderr=False)
            if recording is not None:
                recording.keep(name, found)
            step()

        lines = rows is None and not as_json  # which show the progress themselves
        with progress(given.count, "scoring", shown=not lines) as (step, tell), warnings_to(tell) as warned:
            taken = recording.add if recording is not None else lambda sample: None
            entries = given.read(None if log is None else log.files)
            outcome = run(bound, entries, write, complain=tell, taken=taken)
        if as_json:
            document(
                {
                    **outcome.to_json(),
                    "reward": bound.spec,
                    "scores": kept if out is None else None,
                    "scores_file": None if out is None else str(out),
                    "profile": outcome.stats if profile else None,
                    "warnings": warned,
                }
            )
        else:
            _report(outcome, bound.card.name, stderr=out == Path("-"), profile=profile)
        if outcome.exit_code == 130:
            stack.pop_all()  # the engine's thread may be using the log until the process ends
        # A log that was given up has lost answers: harmless in a cache, not in a recording.
        return outcome.exit_code or int(record is not None and bool(warned))


def _report(outcome: Outcome, name: str, *, stderr: bool = False, profile: bool = False) -> None:
    show(outcome.summary.table(name), stderr=stderr)
    if profile:
        from .summary import profile_table

        show(profile_table(outcome.stats), stderr=stderr)
    if outcome.problems:
        say(f"editcritic: {len(outcome.problems)} problems with the input, named above")
    if outcome.ended:
        say(f"editcritic: stopped: {outcome.ended}")
    if outcome.interrupted:
        say("editcritic: interrupted; what was scored has been written")


# -- rank -------------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def rank(
    candidates: Annotated[
        list[Path],
        typer.Argument(help="Pictures, or folders of them, with --source and --instruction; or one file of samples."),
    ],
    source: Annotated[Path | None, typer.Option("--source", help="The picture they were made from.")] = None,
    instruction: Annotated[str | None, typer.Option("--instruction", help="What the editor was told.")] = None,
    boxes: Annotated[
        str | None,
        typer.Option("--boxes", help='Objects of the source, in pixels: {"cup": [[x0, y0, x1, y1]]}; or a file of it.'),
    ] = None,
    reward: RewardName = DEFAULT,
    experts: Experts = None,
    protocol: Protocol = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write a contact sheet (HTML) here.")] = None,
    cache: Annotated[Path | None, typer.Option("--cache", help="As in `score`.")] = None,
    as_json: Json = False,
) -> int:
    """Rank candidate edits of a source: order, margins, and why. Samples of a file are ranked within their groups."""
    from ..reward import AnswerLog
    from . import rank as ranking
    from .inputs import load_reward, ranked_entries, read_spec
    from .score_run import run, warnings_to

    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        index = {} if log is None else log.files
        entries = ranked_entries(candidates, source, instruction, boxes, index)
        bound = load_reward(read_spec(reward), protocol, given=experts, log=log, on_failures="none")
        if out is not None:
            out.touch()  # before the work, not after it
        taken: list[Any] = []
        scores: list[Score] = []

        def write(name: str, found: Score) -> None:
            scores.append(found)
            step()

        with progress(len(entries), "scoring") as (step, tell), warnings_to(tell):
            outcome = run(bound, entries, write, complain=tell, taken=taken.append)
        if outcome.interrupted:
            stack.pop_all()
            say("editcritic: interrupted")
            return 130
        ranked = ranking.rank(taken, scores)
        if out is not None and ranked:
            from .sheet import write_sheet

            write_sheet(out, ranked, bound.card)
        if as_json:
            groups = [one.to_json() for one in ranked]
            sheet = str(out) if out is not None and ranked else None
            document(
                {"schema": ranking.SCHEMA, **outcome.to_json(), "reward": bound.spec, "groups": groups, "sheet": sheet}
            )
        else:
            for one in ranked:
                show(ranking.table(one))
        return outcome.exit_code


# -- edit -------------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def edit(
    sources: Annotated[
        list[Path], typer.Argument(metavar="SOURCE...", help="The picture to edit; several for one edit of them all.")
    ],
    instruction: Annotated[
        list[str],
        typer.Option("--instruction", help="What the editor is told; several are the steps of a compound edit."),
    ],
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            help="A diffusers pipeline (folder or hub id); module:name of a pipeline, an editor, a function "
            "f(image, instruction, seed), or one without arguments that makes any of these; `sceneedit`, the tiny one.",
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="A folder for what comes out, and for the journal.")],
    reward: RewardName = DEFAULT,
    experts: Experts = None,
    protocol: Protocol = None,
    selector: Annotated[
        str,
        typer.Option(
            "--selector",
            help="How candidates are made and chosen among: a name with options, module:Name, or a TOML file.",
        ),
    ] = "best-of?n=16",
    budget: Annotated[
        str | None, typer.Option("--budget", help="As in evaluations=128,judge_calls=50,seconds=600.")
    ] = None,
    ties: Annotated[
        str | None, typer.Option("--ties", help="A reward that is asked where candidates have the same score.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the first candidate; the others follow it.")] = 0,
    boxes: Annotated[
        str | None,
        typer.Option("--boxes", help='Objects of the source, in pixels: {"cup": [[x0, y0, x1, y1]]}; or a file of it.'),
    ] = None,
    setting: Setting = None,
    batch: Batch = 8,
    dtype: Dtype = None,
    device: Device = None,
    download: Download = False,
    again: Annotated[bool, typer.Option("--again", help="Write over what another run has left in the folder.")] = False,
    as_json: Json = False,
) -> int:
    """Edit a picture: make candidates, score them, keep the best. The same command again goes on where it ended."""
    from ..verifiers import JournalError, RunStopped
    from .edit import PICTURE, REPORT, SHEET, Asked, Place, Watched, failures, summary, table
    from .inputs import InputError, budget_of, load_reward, load_selector, read_spec, settings_of, to_edit
    from .pipelines import Named
    from .score_run import warnings_to

    asked = Asked(
        to_edit(sources, instruction, boxes),
        load_reward(read_spec(reward), protocol, given=experts),
        load_selector(read_spec(selector)),
        budget_of(budget),
        None if ties is None else load_reward(read_spec(ties)),
        seed,
    )
    asked.check()
    place = Place(out, again)
    place.check(asked.to_json(), sources)
    named = Named(pipeline, settings_of(setting or ()), batch, dtype, device, download)
    named.check(asked.sample)
    with ExitStack() as stack, progress(None, "candidates") as (step, tell), warnings_to(tell):
        try:
            journal = stack.enter_context(Watched(place.journal, step))
            tell(f"editcritic: loading {pipeline}")
            editor = named.load()
            place.check(asked.to_json(editor.id), sources)
            found = asked.run(editor, journal)
        except JournalError as error:
            raise InputError(str(error)) from None
        except RunStopped as error:
            problem = f"{error} ({place.journal}); the same command goes on from there"
            say(f"editcritic: {problem}")
            if as_json:
                document({"error": problem})
            return 1
        except KeyboardInterrupt:
            stack.pop_all()  # the engine's thread may be using the log until the process ends
            say(
                f"editcritic: interrupted; what was made is in {place.journal}, and the same command goes on from there"
            )
            return 130
        report = place.write(asked, editor, found)
    code = int(found[0].winner is None or failures(found[0]) > 0)
    if as_json:
        document({**report, "out": str(out), "exit_code": code})
        return code
    show(table(found[0]))
    for line in summary(found):
        say(line, stderr=False)
    written = [out / name for name in (PICTURE, SHEET, REPORT) if (out / name).exists()]
    say(", ".join(map(str, written)), stderr=False)
    if failed := failures(found[0]):
        say(f"editcritic: {failed} failed; the same command asks for what failed again")
    return code


# -- replay -----------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def replay(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[REWARD] FILE",
            help="A recording (made by `score --record`) or golden cases of EdiVal. REWARD, or - for the recorded one, "
            "is replayed over the recorded answers.",
        ),
    ],
    protocol: Protocol = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write the scores of a recording as JSONL.")] = None,
    as_json: Json = False,
) -> int:
    """Score again from recorded answers, without models and pictures. Exit code 1 if anything disagrees."""
    from .inputs import InputError, apart
    from .recording import Recall
    from .replay import is_golden, replay_golden, replay_recording
    from .score_run import row_of, rows_to

    if len(what) > 2:
        raise InputError(f"one reward and one file are expected, got {' '.join(what)}")
    name = what[0] if len(what) == 2 and what[0] != "-" else None
    path = Path(what[-1])
    if is_golden(path):
        found = replay_golden(name, path, protocol)
    else:
        with ExitStack() as stack:
            recall = Recall(path)
            stack.callback(recall.log.close)
            apart(recording=path, out=out)
            rows = None if out is None else stack.enter_context(rows_to(out))

            def write(sample: str, score: Score) -> None:
                if rows is not None:
                    rows.write(row_of(sample, score))
                step()

            with progress(len(recall), "replaying") as (step, tell):
                found = replay_recording(name, recall, protocol, write=write, complain=tell)
    for line in found.differ[:_DIFFER]:
        say(line)
    if len(found.differ) > _DIFFER:
        say(f"and {len(found.differ) - _DIFFER} others")
    if as_json:
        counts = {"agree": found.agree, "compared": found.compared, "differ": found.differ}
        document({**found.outcome.to_json(), **counts, "exit_code": found.exit_code})
        return found.exit_code
    on_stderr = out == Path("-")
    if found.outcome.summary.total:
        _report(found.outcome, name or "recorded reward", stderr=on_stderr)
    if found.compared:
        say(f"{found.agree}/{found.compared} agree", stderr=on_stderr)
    return found.exit_code


_DIFFER = 20


# -- differences ------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def differences(
    before: Annotated[Path, typer.Argument(help="A picture.")],
    after: Annotated[Path, typer.Argument(help="The same after an edit; brought to the size of the first.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Draw a sheet (PNG) with a pair a region.")] = None,
    threshold: Annotated[
        int, typer.Option("--threshold", help="Of 255: what a pixel must differ by, noise averaged out.")
    ] = 24,
    most: Annotated[int, typer.Option("--most", min=1, help="Regions that are told, the largest.")] = 32,
    as_json: Json = False,
) -> int:
    """Say where two pictures differ beyond noise, and how strongly. No model is needed."""
    from .differences import compare, table, write_sheet

    found = compare(before, after, out, threshold=threshold, most=most)
    if out is not None:
        write_sheet(out, found)
    if as_json:
        document({**found.to_json(), "sheet": None if out is None else str(out)})
    elif found.regions:
        show(table(found))
    else:
        say("no region differs beyond noise", stderr=False)
    return 0


# -- doctor -----------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def doctor(
    experts: Annotated[
        list[str] | None,
        typer.Option(
            "--experts",
            help="Say what these would load, from where and into how much memory: `role=spec ...`, a TOML file, or "
            "`module:function`. Nothing is loaded. Repeatable.",
        ),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="With --experts: ask servers for their only model.")] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            help="Compare a model that lies here with published scores: the name of a reference (`list` prints them), "
            "or a TOML file. --experts then says which expert to compare.",
        ),
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option("--pictures", help="With --check: the folder its pictures lie in.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what is installed, which experts can run here, how fast, and what to install for the rest."""
    from . import check_model, reference, would_load, would_load_table
    from .doctor import examine, table
    from .inputs import InputError

    if (pictures is not None and check is None) or (ask and (check is not None or not experts)):
        raise InputError("--pictures belongs to --check, --ask to --experts")
    if check == "list":
        names = list(reference.references())
        document(names) if as_json else say("\n".join(names), stderr=False)
        return 0
    if check is not None:
        checked = check_model.check(check, pictures or Path(), experts or [])
        document(checked.to_json()) if as_json else show(check_model.table(checked))
        return checked.exit_code
    if experts:
        found = would_load.would_load(experts, ask=ask)
        document(found.to_json()) if as_json else show(would_load_table.table(found))
        return found.exit_code
    report = examine()
    document(report.to_json()) if as_json else show(table(report))
    return report.exit_code


if __name__ == "__main__":
    main()
