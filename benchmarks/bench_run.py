"""Commands of `editcritic bench` about running suites: generate, run, lock, reproduce."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .pipeline_options import Device, Download, Dtype, Experts, Setting
from .terminal import document, plainly, progress, say

if TYPE_CHECKING:
    from ..verifiers import Editor
    from .suite_run.running import Ran
    from .suites.suite import Suite

SuiteName = Annotated[
    str, typer.Argument(metavar="SUITE", help="A suite, with options as in `edival?mode=singlepass`.")
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Where the suite's data lies; `sceneedit` is built in and needs none.")
]
Protocol = Annotated[str | None, typer.Option("--protocol", help="A named way of computing the suite's metrics.")]
Metric = Annotated[
    list[str] | None, typer.Option("--metric", help="Only this metric of the suite; may be repeated. Default: all.")
]
Reproducible = Annotated[
    bool, typer.Option("--reproducible", help="Ask local models one question at a time: slower, equal to the bit.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]

DEFAULT = "edit-balanced"
_PROBLEMS = 10
"""Of the data, that are told one by one; `run.json` has all."""


def add_to(app: typer.Typer) -> None:
    """Register them."""
    app.command()(generate)
    app.command()(run)
    app.command()(lock)
    app.command()(reproduce)


@plainly
def generate(
    suite: SuiteName,
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for pictures, in the suite's layout.")],
    data: Data = None,
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", help="The editor, as in `edit`: a diffusers pipeline, module:name, or `sceneedit`."),
    ] = None,
    editor_url: Annotated[
        str | None,
        typer.Option("--editor-url", help="An editor behind HTTP: JSON of instruction, images and seed is posted."),
    ] = None,
    editor_name: Annotated[
        str, typer.Option("--editor-name", help="Of the model behind --editor-url. Default: its address.")
    ] = "",
    editor_key_env: Annotated[
        str, typer.Option("--editor-key-env", help="The environment variable with the key of --editor-url.")
    ] = "",
    timeout: Annotated[float, typer.Option("--timeout", min=0.001, help="Seconds of a request to it.")] = 600.0,
    retries: Annotated[int, typer.Option("--retries", min=0, help="Of a request to it.")] = 2,
    selector: Annotated[
        str | None, typer.Option("--selector", help="Make candidates and choose among them, as in `best-of?n=8`.")
    ] = None,
    reward: Annotated[str, typer.Option("--reward", help="What --selector chooses by, as in `score`.")] = DEFAULT,
    experts: Experts = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Of each item under --selector, as in evaluations=64,judge_calls=50.")
    ] = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="The operations of a compound instruction one after the other.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Each item has a seed of its own, made of this and its id.")] = 0,
    setting: Setting = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Pictures a call, or requests at a time.")] = 8,
    dtype: Dtype = None,
    device: Device = None,
    download: Download = False,
    as_json: Json = False,
) -> int:
    """Have an editor make what a suite asks for. The same command again goes on: what is there is kept.

    `generated.jsonl` in the folder says of each picture what made it, its seed and the seconds it took. Exit code 1
    where pictures could not be made.
    """
    from ..reward import load_experts, no_download
    from .inputs import InputError, budget_of, load_selector, read_spec, settings_of
    from .pipelines import Named
    from .suite_run.generating import Choice, generate
    from .suite_run.http_editor import HttpEditor
    from .suite_run.loading import load_suite, reward_of

    loaded = load_suite(suite, data)
    _tell_problems(loaded)
    if (pipeline is None) == (editor_url is None):
        raise InputError("give the editor: either --pipeline or --editor-url")
    if selector is not None and sequential:
        raise InputError("--sequential is the selector sequential?n=1: give one of the two")
    choice = Choice.one_after_the_other() if sequential else None
    if selector is not None:
        bound = load_experts(experts, no_download()) if experts else None
        choice = Choice(load_selector(read_spec(selector)), reward_of(read_spec(reward), bound), budget_of(budget))
    if editor_url is not None:
        editor: Editor = HttpEditor(
            editor_url, name=editor_name, key_env=editor_key_env, batch=batch, timeout_s=timeout, retries=retries
        )
    else:
        named = Named(str(pipeline), settings_of(setting or ()), batch, dtype, device, download)
        kinds = {tuple(one.size for one in item.sample.sources): item.sample for item in loaded.items}
        for sample in kinds.values():
            named.check(sample)
        editor = named.load()
    with progress(len(loaded.items), "making") as (step, _):
        found = generate(loaded, out, editor, choice=choice, seed=seed, step=step)
    if as_json:
        document(
            {
                "exit_code": found.exit_code,
                "out": str(out),
                "editor": editor.id,
                "kept": len(found.kept),
                "made": len(found.made),
                "failed": {row.item: row.problem for row in found.failed},
                "stopped": found.ended,
            }
        )
        return found.exit_code
    for row in found.failed:
        say(f"editcritic: {row.item}: {row.problem}")
    if found.ended:
        say(f"editcritic: stopped: {found.ended}; the same command goes on")
    say(f"editcritic: {len(found.made)} made, {len(found.kept)} kept, {len(found.failed)} failed: {out}", stderr=False)
    return found.exit_code


@plainly
def run(
    suite: Annotated[
        str | None,
        typer.Argument(metavar="[SUITE]", help="A suite, with options as in `edival?mode=singlepass`; or --lock."),
    ] = None,
    *,
    outputs: Annotated[Path, typer.Option("--outputs", help="The folder of the editor's pictures.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for results.")],
    data: Data = None,
    locked: Annotated[
        Path | None,
        typer.Option("--lock", help="Judge by this protocol, in the place of SUITE, --experts and the like."),
    ] = None,
    editor: Annotated[str | None, typer.Option("--editor", help="Its name in tables. Default: the folder's.")] = None,
    experts: Experts = None,
    protocol: Protocol = None,
    metric: Metric = None,
    reproducible: Reproducible = False,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Where rows and answers are kept. Default: OUT/journal.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="As in judge_calls=5000,seconds=3600,spend=20: calls and spend of all runs of this journal, seconds "
            "of this one. A run that is stopped by it can be gone on with.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option("--price", help="Of a call of a role, as in judge=0.002; may be repeated.")
    ] = None,
    window: Annotated[int, typer.Option("--window", min=1, help="Items in flight at a time; bounds memory.")] = 256,
    max_failed: Annotated[
        float, typer.Option("--max-failed", min=0.0, max=1.0, help="Share of failed items that is tolerated.")
    ] = 0.5,
    on_failures: Annotated[
        str, typer.Option("--on-failures", help="Beyond that: raise (stop), none (go on), wait (and ask again).")
    ] = "raise",
    draws: Annotated[int, typer.Option("--draws", min=0, help="Of the bootstrap for intervals; 0 for none.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Of those draws.")] = 0,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Write results also of a run that ends early; they say so.")
    ] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Judge on a Ray cluster, with Ray Data.")] = False,
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", help="Of the cluster. Default: that of this machine, or a new one."),
    ] = None,
    ray_workers: Annotated[int, typer.Option("--ray-workers", min=1, help="Actors that judge.")] = 2,
    ray_cpus: Annotated[float, typer.Option("--ray-cpus", min=0.0, help="Of each actor.")] = 1.0,
    ray_gpus: Annotated[float, typer.Option("--ray-gpus", min=0.0, help="Of each actor.")] = 0.0,
    as_json: Json = False,
) -> int:
    """Judge what an editor has made of a suite: rows, tables with intervals, and where they come from.

    The same command again goes on where the last one ended, in whatever way it ended; no answer is paid for twice, and
    what failed is asked again. Started by `torchrun` or `accelerate launch`, the processes of one machine share the
    work, and what they write is equal to the byte. Exit code 1 where scores failed, pictures are missing, or the run
    ended early.
    """
    from .inputs import InputError
    from .score_run import warnings_to
    from .suite_run.asked import How
    from .suite_run.locking import read_lock, recipe_of, refuse_unlocked
    from .suite_run.raying import Cluster, carry_out_with_ray
    from .suite_run.recipe import Recipe
    from .suite_run.running import JOURNAL, carry_out
    from .suite_run.sharing import Share
    from .suite_run.spending import Limits, prices_of
    from .suite_run.watching import watched

    share = Share.of(os.environ)
    share.take_gpu(os.environ)
    limits, prices = Limits.of(budget), prices_of(price or ())
    name = editor or outputs.resolve().name
    given, asked_for = tuple(experts or ()), tuple(metric or ())
    if locked is not None:
        if suite or given or protocol or asked_for or reproducible:
            raise InputError("--lock says it all: give no SUITE, --experts, --protocol, --metric or --reproducible")
        held = read_lock(locked)
        recipe = recipe_of(held, data, outputs, name)
        asked = recipe.asked()
        for other in refuse_unlocked(held, asked, str(locked)):
            say(f"editcritic: not as it was locked: {other}")
    elif suite is None:
        raise InputError("give a SUITE, as in edival, or a protocol by --lock")
    else:
        recipe = Recipe(suite, data, outputs, name, given, protocol, asked_for, reproducible, draws, seed)
        asked = recipe.asked()
    if not share.rank:
        _tell_problems(asked.suite)
        for left, why in asked.judges.left_out.items():
            say(f"editcritic: {left} is left out: {why}")
    with warnings_to(say), watched("judging", shown=not share.rank) as watch:
        how = How(
            prices,
            limits,
            window,
            max_failed,
            on_failures,  # type: ignore[arg-type]  # which says what it may be
            allow_partial=allow_partial,
            watch=watch,
            given=recipe.to_json(out),
        )
        try:
            if ray or ray_address:
                cluster = Cluster(ray_address, ray_workers, ray_cpus, ray_gpus)
                ran: Ran | None = carry_out_with_ray(recipe, how, cluster, out=out, journal=journal)
            else:
                ran = carry_out(asked, how, out=out, journal=journal, share=share)
        except KeyboardInterrupt:
            place = journal or out / JOURNAL
            say(f"editcritic: interrupted; what was judged is in {place}, and the same command goes on from there")
            return 130
    return 0 if ran is None else _tell(ran, out, as_json)


def _tell_problems(suite: Suite) -> None:
    for problem in suite.problems[:_PROBLEMS]:
        say(f"editcritic: {problem}")
    if len(suite.problems) > _PROBLEMS:
        say(f"editcritic: and {len(suite.problems) - _PROBLEMS} other problems with the data")


def _tell(ran: Ran, out: Path, as_json: bool) -> int:
    from .suite_run.writing import counts_of

    counts = counts_of(ran.results)
    if as_json:
        summary: dict[str, Any] = {
            "exit_code": ran.exit_code,
            "out": str(out),
            "stopped": ran.ended,
            "counts": counts,
            "tables": [computed.to_json() for computed in ran.tables],
        }
        document(summary)
        return ran.exit_code
    for computed in ran.tables:
        say(computed.markdown(), stderr=False)
    if ran.ended:
        say(f"editcritic: {ran.ended}")
    if ran.missing:
        first = next(row for row in ran.results.rows if row.missing)
        say(f"editcritic: {ran.missing} of {counts['items']} items were not judged, as {first.id}: {first.missing}")
    if ran.failed:
        say(f"editcritic: {ran.failed} items have failed scores: the same command asks those again")
    if ran.tables:
        say(f"editcritic: the results are in {out}", stderr=False)
    return ran.exit_code


@plainly
def lock(
    suite: SuiteName,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file, as in protocol.toml.")],
    data: Data = None,
    experts: Experts = None,
    protocol: Protocol = None,
    metric: Metric = None,
    reproducible: Reproducible = False,
    draws: Annotated[int, typer.Option("--draws", min=0, help="Of the bootstrap for intervals; 0 for none.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", help="Of those draws.")] = 0,
    as_json: Json = False,
) -> int:
    """Write down everything that decides the numbers of a run, for others to run by (`bench run --lock`)."""
    from .suite_run.locking import write_lock
    from .suite_run.recipe import Recipe

    given, asked_for = tuple(experts or ()), tuple(metric or ())
    recipe = Recipe(suite, data, Path(), "", given, protocol, asked_for, reproducible, draws, seed)
    asked = recipe.asked()
    write_lock(out, recipe, asked)
    if as_json:
        document({"lock": str(out), "metrics": list(asked.judges.metrics), "left_out": dict(asked.judges.left_out)})
    else:
        for left, why in asked.judges.left_out.items():
            say(f"editcritic: {left} is left out: {why}")
        say(f"editcritic: {', '.join(asked.judges.metrics)} of {asked.suite.name} are locked in {out}", stderr=False)
    return 0


@plainly
def reproduce(
    results: Annotated[Path, typer.Argument(metavar="RESULT_DIR", help="A folder of results of `bench run`.")],
    data: Annotated[Path | None, typer.Option("--data", help="Where the data is now. Default: where it was.")] = None,
    outputs: Annotated[
        Path | None, typer.Option("--outputs", help="Where the pictures are now. Default: where they were.")
    ] = None,
    experts: Experts = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Keep what comes out here. Default: a folder that is taken away.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Do a result again, every question asked anew, and say whether it is equal to the byte; exit code 1 if not."""
    import tempfile
    from contextlib import ExitStack

    from .suite_run.asked import How
    from .suite_run.reproducing import recipe_of, reproduce
    from .suite_run.watching import watched

    recipe = recipe_of(results, data=data, outputs=outputs, experts=tuple(experts or ()))
    with ExitStack() as stack:
        again = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        watch = stack.enter_context(watched("judging again"))
        found = reproduce(recipe, results, again, How(watch=watch, given=recipe.to_json(again)))
    document(found.to_json()) if as_json else say(str(found), stderr=False)
    return int(not found.equal)
