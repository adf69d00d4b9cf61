"""The commands label, noise, scaling and stats of `editcritic bench`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..terminal import document, plainly, progress, say, show

if TYPE_CHECKING:
    from ...reward import EditSample
    from ..suites.suite import Item, Suite
    from .noise import Measured
    from .questions import About

SuiteName = Annotated[str, typer.Argument(metavar="SUITE", help="A suite by name, as in edival?mode=singlepass.")]
Data = Annotated[Path | None, typer.Option("--data", help="Where the suite's data lies; not for what is built in.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]
Seed = Annotated[int, typer.Option("--seed", help="Of whatever is drawn.")]


# -- label -------------------------------------------------------------------------------------------------------------


@plainly
def label(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE|RESULTS", help="A suite by name, or a folder of results, for its pictures.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The labels (JSONL). What is in it already counts.")],
    data: Data = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--outputs", help="NAME=FOLDER of an editor's pictures, or another folder of results; repeated."),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            "--ask",
            help="KIND:DIMENSION, as in pair:overall, yes-no:following, four-level:consistency, boxes:target, "
            "reference:reference; repeated. Default: pair:overall for several editors, yes-no:following for one.",
        ),
    ] = None,
    items: Annotated[int | None, typer.Option("--items", min=1, help="So many items, drawn. Default: all.")] = None,
    answers: Annotated[
        Path | None, typer.Option("--answers", help="Labels that are right: for feedback in the trial, and for checks.")
    ] = None,
    define: Annotated[
        list[str] | None, typer.Option("--define", help="DIMENSION=TEXT: what annotators are told about it.")
    ] = None,
    trial: Annotated[int, typer.Option("--trial", min=0, help="Questions for practice, before the others.")] = 30,
    recheck: Annotated[
        float, typer.Option("--recheck", min=0, max=1, help="Share of questions that come again, unannounced.")
    ] = 0.2,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    seed: Seed = 0,
) -> int:
    """Collect labels of people on a page that only this machine can see. Stop with Ctrl-C; the same command goes on."""
    from ..inputs import InputError, apart
    from .checks import answers as known_in
    from .checks import checks
    from .desk import Desk
    from .labels import read
    from .questions import Pool
    from .server import LabelServer

    apart(labels=out, answers=answers)
    if not out.resolve().parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}: make it first")
    loaded, editors = _asked_about(suite, data, outputs or ())
    pool = Pool(loaded, editors)
    questions = pool.questions(_abouts(ask, loaded, len(editors)), items=items, seed=seed)
    known = {} if answers is None else known_in(read([answers]))
    definitions = dict(_pair("--define", text, "DIMENSION=TEXT") for text in define or ())
    desk = Desk(pool, questions, out, known, seed, trial, recheck, definitions)
    with LabelServer(desk, port) as server:
        if pool.skipped:
            say(f"editcritic: {len(pool.skipped)} pictures are missing, as {pool.skipped[0]}")
        say(f"{len(questions)} questions; the page, for this machine alone (Ctrl-C ends it):", stderr=False)
        say(server.url, stderr=False)
        if open_page:
            import webbrowser

            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("editcritic: stopped; every answer is saved, and the same command goes on")
    for check in checks(read([out]), known):
        say(str(check), stderr=False)
    return 0


def _asked_about(suite: str, data: Path | None, outputs: Sequence[str]) -> tuple[Suite, dict[str, Path]]:
    """The suite, and editor -> folder of pictures. Raises `InputError`."""
    from ..inputs import InputError
    from ..suite_run.loading import load_suite
    from ..suites.results import RESULT

    editors: dict[str, Path] = {}
    if (Path(suite) / RESULT).is_file():
        spec, place, name, folder = _of_results(Path(suite))
        editors[name] = folder
    else:
        spec, place = suite, data
    for text in outputs:
        if "=" not in text and (Path(text) / RESULT).is_file():
            name, folder = _of_results(Path(text))[2:]
        else:
            name, folder_name = _pair("--outputs", text, "NAME=FOLDER, or a folder of results")
            folder = Path(folder_name)
        if name in editors:
            raise InputError(f"two folders of pictures are called {name!r}: name one otherwise, as in other=FOLDER")
        editors[name] = folder
    return load_suite(spec, data or place), editors


def _of_results(folder: Path) -> tuple[str, Path | None, str, Path]:
    """Suite, data, editor and outputs of a folder of results, as they lay when it was written."""
    from ..inputs import InputError
    from ..suites.results import RESULT, RUN

    try:
        head = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        given = json.loads((folder / RUN).read_text(encoding="utf-8"))["given"]
        data = None if given["data"] is None else (folder / given["data"]).resolve()
        return given["suite"], data, head["editor"], (folder / given["outputs"]).resolve()
    except OSError as error:
        raise InputError(f"{folder} is no folder of results: {error.strerror} ({error.filename})") from None
    except (ValueError, LookupError, TypeError):
        raise InputError(f"{folder} does not say where its pictures lie: give SUITE, --data and --outputs") from None


def _abouts(ask: Sequence[str] | None, suite: Suite, editors: int) -> list[About]:
    from .questions import About

    if ask:
        return [About.of(text) for text in ask]
    if editors > 1:
        return [About("pair", "overall")]
    if editors == 1:
        return [About("yes-no", "following")]
    if any(item.sample.reference is not None for item in suite.items):
        return [About("reference", "reference")]
    return [About("boxes", "target")]


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    from ..inputs import InputError

    name, _, value = text.partition("=")
    if not (name and value):
        raise InputError(f"{option} is {form}, got {text!r}")
    return name, value


# -- noise -------------------------------------------------------------------------------------------------------------


@plainly
def noise(
    suite: SuiteName,
    outputs: Annotated[Path, typer.Option("--outputs", help="The folder of an editor's pictures.")],
    metric: Annotated[
        str, typer.Option("--metric", help="A metric of the suite, or a reward as in `score`; parts of it behind a /.")
    ],
    data: Data = None,
    ks: Annotated[str, typer.Option("-k", help="Numbers of measurements to average, as in 1,2,4,8,20.")] = "1,2,4,8,20",
    samples: Annotated[int, typer.Option("--samples", min=1, help="Items that are measured, drawn.")] = 32,
    spread: Annotated[
        float | None, typer.Option("--spread", help="A wanted variation: says how many measurements it takes.")
    ] = None,
    experts: Annotated[
        list[str] | None, typer.Option("--experts", help="role=spec, a TOML file, or module:function: see `bench run`.")
    ] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", help="Of the suite's metrics.")] = None,
    cache: Annotated[Path | None, typer.Option("--cache", help="Keep answers of experts here, and use them.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write all there is as JSON here.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """How much a judge's score varies with the number of measurements it is the mean of, and how many it needs."""
    from ...reward import AnswerLog, Reward, load_experts, no_download
    from ...reward.complexedit.variance import MEANS
    from ..inputs import InputError
    from ..suite_run.loading import load_suite
    from ..suite_run.outputs import MissingPicture, Outputs
    from .noise import chosen, measured

    counts = _counts(ks)
    if spread is not None and not spread > 0:
        raise InputError(f"--spread is above 0, got {spread:g}")
    loaded = load_suite(suite, data)
    pictures = Outputs(loaded, outputs)
    single, path = _one_measurement(loaded, metric, protocol)
    found: list[tuple[Item, EditSample]] = []
    missing = 0
    for item in chosen(loaded.items, len(loaded.items), seed):
        if len(found) == samples:
            break
        try:
            found.append((item, pictures.sample(item)))
        except MissingPicture:
            missing += 1
    if not found:
        raise InputError(f"{outputs} has a picture of no item")
    many = MEANS * max(counts)
    with ExitStack() as stack, progress(many, "measuring") as (step, tell):
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        reward = Reward.of(single, load_experts(experts or (), no_download()), log=log, on_failures="none")
        if missing:
            tell(f"editcritic: {missing} items without a picture are left out")
        items = [item for item, _ in found]
        ready = [(item, sample) for item, sample in found if not reward.missing(sample)]
        if not ready:
            lacking = ", ".join(reward.missing(found[0][1]))
            raise InputError(f"{reward.card.name} needs {lacking}, and {items[0].id} has none")
        got = measured(reward, [item for item, _ in ready], [sample for _, sample in ready], path, many, step)
    whole = got.to_json(counts, spread)
    if out is not None:
        out.write_text(json.dumps(whole, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        document(whole)
    else:
        _show_noise(got, counts, spread)
    return int(bool(got.failed))


def _counts(text: str) -> list[int]:
    from ..inputs import InputError

    try:
        found = sorted({int(one) for one in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1:
        raise InputError(f"-k is whole numbers from 1 on, as in 1,2,4,8,20; got {text!r}")
    return found


def _one_measurement(suite: Suite, metric: str, protocol: str | None) -> tuple[Any, tuple[str, ...]]:
    """A spec that measures once a call, and the part that is looked at."""
    from ...reward import build, spec_of
    from ..inputs import read_spec

    specs = suite.metrics(protocol)
    name, *path = metric.split("/") if not metric.endswith(".toml") else [metric]
    spec = specs.get(name) or read_spec(name)
    built = build(spec)
    if getattr(built, "n", 1) != 1 and getattr(built, "mode", "numeric") == "numeric":
        built = build({**spec_of(built), "n": 1})
    return spec_of(built), tuple(path)


def _show_noise(got: Measured, counts: Sequence[int], spread: float | None) -> None:
    from rich.table import Table

    from .noise import settles

    table = Table("K", title=f"{got.metric}: (max - min) / 2 of four means of K measurements", title_justify="left")
    for name in ("mean over samples", "95 % interval", "largest", "expected by the spread of one"):
        table.add_column(name, justify="right")
    rows = [got.at(k) for k in counts]
    for row in rows:
        interval = "" if row.low is None else f"{row.low:.4f} to {row.high:.4f}"
        table.add_row(str(row.k), f"{row.mean:.4f}", interval, f"{row.largest:.4f}", f"{row.expected:.4f}")
    show(table)
    noise_of_one = got.noise
    unit = f", {got.unit}" if got.unit else ""
    say(f"{len(got.ids)} samples{unit}; standard deviation of one measurement: {noise_of_one}", stderr=False)
    settled = settles(rows)
    if settled is not None:
        say(f"from K = {settled} on, a step takes away less than a tenth of the variation at {rows[0].k}", stderr=False)
    if spread is not None:
        said = got.needed(spread)
        say(f"for a mean variation of {spread:g}: K = {said if said is not None else 'not known'}", stderr=False)
    for name, why in list(got.failed.items())[:5]:
        say(f"{name} could not be measured: {why}")
    if len(got.failed) > 5:
        say(f"and {len(got.failed) - 5} others")


# -- scaling -----------------------------------------------------------------------------------------------------------


@plainly
def scaling(
    direct: Annotated[Path | None, typer.Option("--direct", help="Results: the compound instruction at once.")] = None,
    sequential: Annotated[Path | None, typer.Option("--sequential", help="Results: its operations one by one.")] = None,
    direct_best: Annotated[Path | None, typer.Option("--direct-best", help="Results: at once, the best of N.")] = None,
    sequential_best: Annotated[
        Path | None, typer.Option("--sequential-best", help="Results: one by one, the best of N at each.")
    ] = None,
    multi: Annotated[
        list[Path] | None, typer.Option("--multi", help="Results of EdiVal in several turns; repeated, an editor each.")
    ] = None,
    single: Annotated[
        list[Path] | None, typer.Option("--single", help="Results of EdiVal in one shot, of the same editors.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Only this score; parts behind a /. With --multi: default if.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the curves here (PNG or SVG).")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A folder for the tables.")] = None,
    draws: Annotated[int, typer.Option("--draws", min=100, help="Of the bootstrap.")] = 1000,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """What doing it step by step, choosing among N, or taking turns is worth: curves with paired differences."""
    from ..inputs import InputError
    from ..suites.results import Results
    from .scaling import curves, turns
    from .telling import computed, tell

    given = {
        "direct": direct,
        "sequential": sequential,
        "direct best": direct_best,
        "sequential best": sequential_best,
    }
    ways = {name: Results.load(folder) for name, folder in given.items() if folder is not None}
    if bool(ways) == bool(multi or single):
        ways_said = "--direct, --sequential, --direct-best, --sequential-best"
        raise InputError(f"give two or more of {ways_said}; or --multi and --single")
    if ways:
        tables = curves(ways, [tuple(name.split("/")) for name in metric or ()])
    else:
        several, one = ([Results.load(folder) for folder in side or ()] for side in (multi, single))
        named = {results.editor: results for results in one}
        if {results.editor for results in several} != set(named) and not len(several) == len(one) == 1:
            raise InputError("--multi and --single are of the same editors, a folder each")
        tables = [turns(results, named.get(results.editor, one[0]), *(metric or ())[:1]) for results in several]
    found = computed(tables, draws, seed)
    if plot is not None:
        from .curves import draw

        draw(plot, [one for one in found if ways], list(ways))
    tell(found, {}, out, as_json, plot=None if plot is None else str(plot))
    return 0


# -- stats -------------------------------------------------------------------------------------------------------------


@plainly
def stats(
    suite: SuiteName,
    data: Data = None,
    light: Annotated[bool, typer.Option("--light/--no-light", help="Look at the pixels of sources.")] = True,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A folder for the tables, as CSV.")] = None,
    as_json: Json = False,
) -> int:
    """What a suite asks for, in numbers: operations, which follow which, target areas, types, sources, light."""
    from rich.table import Table

    from ..suite_run.loading import load_suite
    from .stats import of

    loaded = load_suite(suite, data)
    found = of(loaded, light=light)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for one in found:
            (out / f"{one.name}.csv").write_text(one.csv(), encoding="utf-8")
    if as_json:
        document({"suite": loaded.name, "data": loaded.digest, "tables": [one.to_json() for one in found]})
        return 0
    for one in found:
        table = Table("", title=one.title, title_justify="left")
        square = list(one.columns) == list(one.rows)  # whose columns are too many to be named twice
        for place, name in enumerate(one.columns, start=1):
            table.add_column(str(place) if square else name, justify="right")
        for place, (name, row) in enumerate(one.rows.items(), start=1):
            table.add_row(f"{place} {name}" if square else name, *(_shown(number) for number in row))
        show(table)
        for note in one.notes:
            say(f"  {note}", stderr=False)
    return 0


def _shown(number: float | int | None) -> str:
    return "" if number is None else str(number) if isinstance(number, int) else f"{number:.4g}"
