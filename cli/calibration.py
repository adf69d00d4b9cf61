"""Commands of `editcritic maps`: fit, list, show, apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .terminal import document, plainly, say, show

if TYPE_CHECKING:
    from ..reward.score_maps import ScoreMap

app = typer.Typer(
    name="maps",
    help="Scores of different judges on one scale: fit maps from labels of people, list them, show them, apply them.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]
Name = Annotated[str, typer.Argument(metavar="MAP", help="The name of a map, or its file.")]

_KNOTS_SHOWN = 20


# -- fit ---------------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def fit(
    scores: Annotated[
        list[str],
        typer.Argument(
            metavar="SCORES...",
            help="Folders of results, or files that `editcritic score -o` wrote; EDITOR=FILE where labels name "
            "editors. Files of one editor are put together by id, so that several judges can be fitted at once.",
        ),
    ],
    labels: Annotated[list[Path], typer.Option("--labels", help="A file of labels (`bench label` makes them).")],
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--out", help="NAME.json for one map; or a folder, for a map of each metric under its name."
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="Fit this one; parts behind a /. Repeated: on one scale. Default: all there are."
        ),
    ] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option(
            "--reward", help="The reward that made the scores: the map then refuses one that is made of other parts."
        ),
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Of labels, where there are several.")] = None,
    dimension: Annotated[str | None, typer.Option("--dimension", help="Likewise.")] = None,
    scale: Annotated[
        str,
        typer.Option(
            "--scale",
            help="Of pairs: log-odds, or share (from 0 to 1: the probability of being preferred to the mean edit).",
        ),
    ] = "log-odds",
    ridge: Annotated[float, typer.Option("--ridge", help="Of pairs: how strongly rises are held back.")] = 0.1,
    smooth: Annotated[
        float | None,
        typer.Option("--smooth", help="Of pairs: how strongly rises are kept alike. Default: what does best held out."),
    ] = None,
    knots: Annotated[int | None, typer.Option("--knots", min=2, help="Of pairs. Default: by their number.")] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, help="Of the judgements that are held out.")] = 5,
    seed: Annotated[int, typer.Option("--seed", help="Of what is held out together.")] = 0,
    as_json: Json = False,
) -> int:
    """Fit score maps: what a judge's scores are worth to people. Exit code 1 where one of them tells nothing."""
    from .inputs import InputError, read_spec
    from .people.score_maps import SCALES, Asked, built, check_rewards, fit_maps
    from .people.scored import source_of

    if (chosen := next((one for one in SCALES if one == scale), None)) is None:
        raise InputError(f"--scale is {' or '.join(SCALES)}, got {scale!r}")
    source, read = source_of(scores, labels)
    asked = Asked.of(read, kind, dimension)
    rewards = [built(read_spec(text)) for text in reward or ()]
    wanted = metric or list(source.meeting.metrics)
    settings: dict[str, Any] = {"ridge": ridge, "smooth": smooth, "knots": knots, "folds": folds, "seed": seed}
    maps = fit_maps(asked, source, wanted, rewards=rewards, scale=chosen, **settings)
    check_rewards(rewards, maps)
    written = _written(maps, out)
    poor = any(one.provenance["problems"] for one in maps.values())
    if as_json:
        found = [{"map": str(path), **told(one)} for path, one in written.items()]
        document({"kind": asked.kind, "dimension": asked.dimension, "maps": found, "exit_code": int(poor)})
        return int(poor)
    show(_table(written))
    for path, one in written.items():
        for problem in one.provenance["problems"]:
            say(f"editcritic: {path.name}: {problem}")
        if not one.goes_in.spec:
            say(f"editcritic: {path.name} is for {one.goes_in.metric}, whatever its parts are: --reward would say it")
    say(", ".join(map(str, written)), stderr=False)
    return int(poor)


def _written(maps: Mapping[str, ScoreMap], out: Path) -> dict[Path, ScoreMap]:
    """Save each; a folder is made where it is missing. Raises `InputError`, OSError."""
    from .inputs import InputError

    if out.suffix == ".json":
        if len(maps) > 1:
            raise InputError(
                f"{out} is one file, and there are maps of {', '.join(maps)}: give a folder, or one --metric"
            )
        places = dict.fromkeys([out], next(iter(maps.values())))
    else:
        places = {out / f"{name.replace('/', '-')}.json": one for name, one in maps.items()}
    found = {}
    for path, one in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        one.save(path)
        found[path] = type(one).load(path)
    return found


# -- list --------------------------------------------------------------------------------------------------------------


@app.command("list")
@plainly
def list_maps(as_json: Json = False) -> int:
    """The maps that are found by name, and where. Exit code 1 if a file there is none."""
    from ..reward import SpecError
    from ..reward.score_maps import FOLDERS, ScoreMap, folders, installed

    good: dict[Path, ScoreMap] = {}
    bad: dict[Path, str] = {}
    for path in installed().values():
        try:
            good[path] = ScoreMap.load(path)
        except SpecError as error:
            bad[path] = str(error)
        except OSError as error:
            bad[path] = f"cannot read {path}: {error.strerror}"
    if as_json:
        found = [{"file": str(path), **told(one)} for path, one in good.items()]
        problems = [{"file": str(path), "problem": problem} for path, problem in bad.items()]
        document({"folders": [str(folder) for folder in folders()], "maps": found, "problems": problems})
        return int(bool(bad))
    if good:
        show(_table(good))
    looked = ", ".join(map(str, folders()))
    say(f"{len(good)} maps in {looked} ({FOLDERS} names other folders)", stderr=False)
    for problem in bad.values():
        say(f"editcritic: {problem}")
    return int(bool(bad))


# -- show --------------------------------------------------------------------------------------------------------------


@app.command("show")
@plainly
def show_map(name: Name, as_json: Json = False) -> int:
    """What a map is for, what it gives, its knots, and how it was fitted."""
    from rich.table import Table
    from rich.text import Text

    from ..reward.score_maps import ScoreMap, find

    path = find(name)
    one = ScoreMap.named(path)
    if as_json:
        document({"file": str(path), **told(one)})
        return 0
    table = Table(
        box=None, pad_edge=False, show_header=False, title=Text(one.label, style="bold"), title_justify="left"
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for what, text in _facts(one, path):
        table.add_row(what, Text(text))
    show(table)
    drawn = Table("score", "is worth", title="knots", title_justify="left")
    step = -(-len(one.x) // _KNOTS_SHOWN)
    for place in sorted({*range(0, len(one.x), step), len(one.x) - 1}):
        drawn.add_row(f"{one.x[place]:g}", f"{one.y[place]:.4g}")
    show(drawn)
    return 0


def _facts(one: ScoreMap, path: Path) -> list[tuple[str, str]]:
    said = one.provenance
    low, high = ("unbounded" if end is None else f"{end:g}" for end in one.goes_in.range)
    files = [
        f"{item['file']} {item['sha256'][:12]}" for key in ("label_files", "score_files") for item in said.get(key, ())
    ]
    counts = ((f"{said[key]} {key.replace('_', ' ')}") for key in _COUNTS if key in said)
    rows = [
        ("file", str(path)),
        ("for", one.goes_in.metric + (f" ({low} to {high} {one.goes_in.unit})" if one.goes_in.unit else "")),
        ("made by", one.goes_in.spec or "not said"),
        ("gives", f"{one.comes_out.range[0]:.4g} to {one.comes_out.range[1]:.4g} ({one.comes_out.unit})"),
        ("means", one.comes_out.meaning),
        ("labels", f"{said.get('kind', '?')}:{said.get('dimension', '?')}"),
        ("from", ", ".join(counts)),
        ("files", ", ".join(files)),
        ("experts", ", ".join(f"{role}: {name}" for role, name in said.get("experts", {}).items())),
        ("fitted", ", ".join(f"{key} {value}" for key, value in said.get("fit", {}).items())),
        ("held out", _held_out(said.get("held_out", {}))),
        ("problems", "; ".join(said.get("problems", ()))),
        ("date", said.get("date", "")),
        ("digest", one.digest),
    ]
    return [(what, text) for what, text in rows if text]


_COUNTS = ("count", "ties", "edits", "annotators", "not_scored", "of_other_edits")


def _held_out(found: Mapping[str, Any]) -> str:
    said = [
        f"{name}: log-loss {found[name]['log_loss']:.4f}, accuracy {found[name].get('accuracy', 0.0):.3f}"
        for name in ("map", "line", "constant")
        if name in found
    ]
    return "; ".join(said) + (f" ({found['judgements']} judgements, {found['folds']} folds)" if said else "")


# -- apply -------------------------------------------------------------------------------------------------------------


@app.command()
@plainly
def apply(
    name: Name,
    scores: Annotated[Path, typer.Argument(help="A file that `editcritic score -o` wrote.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The mapped scores, JSONL; - is stdout.")],
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also scores of another metric than it was fitted on.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Bring scores that are there already onto a map's scale. `mapped` is the reward that does so as it scores."""
    from ..reward.mapped import mapped
    from ..reward.score_maps import ScoreMap
    from .inputs import InputError, apart
    from .people.scored import read_scores
    from .score_run import row_of, rows_to

    if as_json and out == Path("-"):
        raise InputError("--json and -o - both want standard output: give a file to -o")
    apart(scores=scores, out=out)
    one = ScoreMap.named(name)
    read = list(read_scores(scores))
    others = {score.metric or "nobody" for _, score in read if score.value is not None} - {one.goes_in.metric}
    if others and not anyway:
        raise InputError(
            f"the map {one.label} was fitted on scores of {one.goes_in.metric}, and {scores} has some of "
            f"{', '.join(sorted(others))}; --anyway maps them all the same"
        )
    found = [(row, mapped(score, one).by(one.signs(score.metric))) for row, score in read]
    with rows_to(out) as rows:
        rows.writelines(row_of(row, score) for row, score in found)
    valued = sum(score.value is not None for _, score in found)
    clamped = sum(one.beyond(score.value) for _, score in read if score.value is not None)
    if as_json:
        counts = {"scores": len(found), "mapped": valued, "clamped": clamped}
        document({"map": told(one), "out": str(out), **counts})
    else:
        say(f"{valued} of {len(found)} scores mapped, {clamped} of them clamped: {out}", stderr=out == Path("-"))
    return 0


# -- what they share ---------------------------------------------------------------------------------------------------


def told(one: ScoreMap) -> dict[str, Any]:
    """A map as plain JSON."""
    from dataclasses import asdict

    return {**asdict(one), "x": list(one.x), "y": list(one.y), "digest": one.digest}


def _table(maps: Mapping[Path, ScoreMap]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("map", title="score maps", title_justify="left")
    for name in ("for", "gives", "judgements", "held out: log-loss", "line", "constant", "digest"):
        table.add_column(name, justify="left" if name in ("for", "gives", "digest") else "right", overflow="fold")
    for path, one in maps.items():
        losses = [_loss(one.provenance.get("held_out", {}), name) for name in ("map", "line", "constant")]
        gives = f"{one.comes_out.range[0]:.3g} to {one.comes_out.range[1]:.3g}, {one.comes_out.unit}"
        cells: Sequence[str] = (path.stem, one.goes_in.metric, gives, str(one.provenance.get("count", "")), *losses)
        table.add_row(*map(Text, (*cells, one.digest[:12])))
    return table


def _loss(found: Mapping[str, Any], name: str) -> str:
    return f"{found[name]['log_loss']:.4f}" if name in found else ""
