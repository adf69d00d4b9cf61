"""`editcritic judge calibrate`: fit, list, show and apply calibrations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, plain_table, print_json, progress_bar, render
from ..options import Json, Trust, command_group

if TYPE_CHECKING:
    from ...reward.metrics.calibration import CalibrationMap

CalibrationName = Annotated[str, typer.Argument(metavar="CALIBRATION", help="Name or file of a calibration.")]

_KNOTS_SHOWN = 20


@exit_code_command
def fit(
    scores: list[str] = typer.Argument(
        metavar="SCORES",
        help="Result folders, or files written by `editcritic score -o`; use EDITOR=FILE if the labels "
        "name editors. Files of one editor are merged by id, so several judges can be fitted "
        "together.",
    ),
    labels: list[Path] = typer.Option(..., help="File of human labels (written by `judge label`). Repeatable."),
    out: Path = typer.Option(
        ..., "-o", "--out", help="NAME.json for one calibration, or a folder for one calibration per metric."
    ),
    metric: list[str] | None = typer.Option(
        None, help="Fit only this metric; parts after a /. Repeat to fit several on one scale. Default: all."
    ),
    reward: list[str] | None = typer.Option(
        None,
        help="The reward that produced the scores; the calibration then rejects rewards built from other "
        "parts. Repeatable.",
    ),
    label_kind: str | None = typer.Option(None, help="Label kind to use, if there are several."),
    dimension: str | None = typer.Option(None, help="Dimension to use, if there are several."),
    scale: str = typer.Option(
        "log-odds", help="Pairwise labels only: log-odds, or share (probability of being preferred to the mean edit)."
    ),
    smoothing: float | None = typer.Option(
        None, help="Pairwise labels only: smoothness penalty. Default: chosen by cross-validation."
    ),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Fit calibrations: monotone maps from the scores of a judge to human labels.

    Scores of judges that are fitted to the same labels are on one scale. Exit code 1 if a map is uninformative: the
    scores do not predict the labels.

    Example: editcritic judge calibrate fit scores.jsonl --labels labels.jsonl -o maps/people.json
    """
    from ...benchmarks.common.inputs import spec_argument
    from ...benchmarks.human_eval.calibration_fit import (
        SCALES,
        LabelSet,
        build_metric,
        check_rewards,
        fit_calibrations,
        load_score_source,
    )

    if (chosen_scale := next((name for name in SCALES if name == scale), None)) is None:
        raise InputError(f"--scale is {' or '.join(SCALES)}, got {scale!r}")
    source, all_labels = load_score_source(scores, labels)
    label_set = LabelSet.select(all_labels, label_kind, dimension)
    rewards = [build_metric(spec_argument(text)) for text in reward or ()]
    metrics = metric or list(source.lookup.metrics)
    with progress_bar(None, "fitting"):
        calibrations = fit_calibrations(
            label_set, source, metrics, rewards=rewards, scale=chosen_scale, smoothing=smoothing
        )
    check_rewards(rewards, calibrations)
    saved = _save(calibrations, out)
    has_problems = any(calibration.provenance["problems"] for calibration in calibrations.values())
    if as_json:
        documents = [{"file": str(path), **calibration_to_json(calibration)} for path, calibration in saved.items()]
        head = {"kind": label_set.kind, "dimension": label_set.dimension}
        print_json({**head, "calibrations": documents, "exit_code": int(has_problems)})
        return int(has_problems)
    render(_calibration_table(saved))
    for path, calibration in saved.items():
        for problem in calibration.provenance["problems"]:
            echo(f"editcritic: {path.name}: {problem}")
        if not calibration.goes_in.spec:
            echo(f"editcritic: {path.name} accepts {calibration.goes_in.metric} of any parts: --reward restricts it")
    echo(", ".join(map(str, saved)), stderr=False)
    return int(has_problems)


def _save(calibrations: Mapping[str, CalibrationMap], out: Path) -> dict[Path, CalibrationMap]:
    if out.suffix == ".json":
        if len(calibrations) > 1:
            raise InputError(
                f"{out} is one file for calibrations of {', '.join(calibrations)}: give a folder, or one --metric"
            )
        paths = dict.fromkeys([out], next(iter(calibrations.values())))
    else:
        paths = {out / f"{name.replace('/', '-')}.json": calibration for name, calibration in calibrations.items()}
    saved = {}
    for path, calibration in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        calibration.save(path)
        saved[path] = type(calibration).load(path)
    return saved


@exit_code_command
def list_calibrations(as_json: Json = False) -> int:
    """List the calibrations that are installed by name, and their folders. Exit code 1 if a file is invalid.

    Example: editcritic judge calibrate list
    """
    from ...reward import SpecError
    from ...reward.metrics.calibration import (
        CALIBRATION_PATH_VARIABLE,
        CalibrationMap,
        calibration_folders,
        installed_calibrations,
    )

    valid: dict[Path, CalibrationMap] = {}
    invalid: dict[Path, str] = {}
    for path in installed_calibrations().values():
        try:
            valid[path] = CalibrationMap.load(path)
        except SpecError as error:
            invalid[path] = str(error)
        except OSError as error:
            invalid[path] = f"cannot read {path}: {error.strerror}"
    if as_json:
        documents = [{"file": str(path), **calibration_to_json(calibration)} for path, calibration in valid.items()]
        problems = [{"file": str(path), "problem": problem} for path, problem in invalid.items()]
        folders = [str(folder) for folder in calibration_folders()]
        print_json({"folders": folders, "calibrations": documents, "problems": problems})
        return int(bool(invalid))
    if valid:
        render(_calibration_table(valid))
    searched = ", ".join(map(str, calibration_folders()))
    echo(f"{len(valid)} calibrations in {searched} (set {CALIBRATION_PATH_VARIABLE} for other folders)", stderr=False)
    for problem in invalid.values():
        echo(f"editcritic: {problem}")
    return int(bool(invalid))


@exit_code_command
def show_calibration(name: CalibrationName, as_json: Json = False) -> int:
    """Show a calibration: its input, output and knots, and how it was fitted.

    Example: editcritic judge calibrate show maps/people.json
    """
    from rich.table import Table
    from rich.text import Text

    from ...reward.metrics.calibration import CalibrationMap, find_calibration
    from ...reward.plain_text import one_line

    path = find_calibration(name)
    calibration = CalibrationMap.find(path)
    if as_json:
        print_json({"file": str(path), **calibration_to_json(calibration)})
        return 0
    table = plain_table(Text(calibration.display_name, style="bold"))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    try:
        facts = _facts(calibration, path)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"the provenance in {path} is not what `judge calibrate fit` writes: {error!r}"
        raise InputError(one_line(problem)) from None
    for heading, text in facts:
        table.add_row(heading, Text(text))
    render(table)
    knots = Table("score", "calibrated", title="knots", title_justify="left")
    step = -(-len(calibration.x) // _KNOTS_SHOWN)
    for index in sorted({*range(0, len(calibration.x), step), len(calibration.x) - 1}):
        knots.add_row(f"{calibration.x[index]:g}", f"{calibration.y[index]:.4g}")
    render(knots)
    return 0


def _facts(calibration: CalibrationMap, path: Path) -> list[tuple[str, str]]:
    provenance = calibration.provenance
    bottom, top = calibration.comes_out.range
    low, high = ("unbounded" if end is None else f"{end:g}" for end in calibration.goes_in.range)
    files = [
        f"{item['file']} {item['sha256'][:12]}"
        for key in ("label_files", "score_files")
        for item in provenance.get(key, ())
    ]
    counts = ((f"{provenance[key]} {key.replace('_', ' ')}") for key in _COUNTS if key in provenance)
    rows = [
        ("file", str(path)),
        (
            "input",
            calibration.goes_in.metric
            + (f" ({low} to {high} {calibration.goes_in.unit})" if calibration.goes_in.unit else ""),
        ),
        ("reward", calibration.goes_in.spec or "any"),
        ("output", f"{bottom:.4g} to {top:.4g} ({calibration.comes_out.unit})"),
        ("means", calibration.comes_out.meaning),
        ("labels", f"{provenance.get('kind', '?')}:{provenance.get('dimension', '?')}"),
        ("counts", ", ".join(counts)),
        ("files", ", ".join(files)),
        ("experts", ", ".join(f"{role}: {name}" for role, name in provenance.get("experts", {}).items())),
        ("fitted", ", ".join(f"{key} {value}" for key, value in provenance.get("fit", {}).items())),
        ("held out", _format_held_out(provenance.get("held_out", {}))),
        ("problems", "; ".join(provenance.get("problems", ()))),
        ("date", provenance.get("date", "")),
        ("digest", calibration.digest),
    ]
    return [(heading, str(text)) for heading, text in rows if text]


_COUNTS = ("count", "ties", "edits", "annotators", "num_unscored", "num_unmatched")


def _format_held_out(held_out: Mapping[str, Any]) -> str:
    parts = [
        f"{name}: log-loss {held_out[name]['log_loss']:.4f}, accuracy {held_out[name].get('accuracy', 0.0):.3f}"
        for name in ("map", "line", "constant")
        if name in held_out
    ]
    return "; ".join(parts) + (f" ({held_out['judgements']} judgements, {held_out['folds']} folds)" if parts else "")


@exit_code_command
def apply(
    name: CalibrationName,
    scores: Path = typer.Argument(help="A file written by `editcritic score -o`."),
    out: Path = typer.Option(..., "-o", "--out", help="Calibrated scores (JSONL); - writes to stdout."),
    force: bool = typer.Option(False, "--force", help="Apply it even to scores of a metric it was not fitted on."),
    as_json: Json = False,
) -> int:
    """Apply a calibration to existing scores. The reward `calibrated` applies it while scoring.

    Example: editcritic judge calibrate apply maps/people.json scores.jsonl -o calibrated.jsonl
    """
    from ...benchmarks.common.inputs import require_distinct_files
    from ...benchmarks.human_eval.calibration_fit import read_scores
    from ...benchmarks.run.scoring_run import open_scores_file
    from ...reward.metrics.calibration import CalibrationMap, calibrate
    from ...reward.score import score_line

    if as_json and out == Path("-"):
        raise InputError("--json and -o - both want standard output: give a file to -o")
    require_distinct_files(scores=scores, out=out)
    calibration = CalibrationMap.find(name)
    entries = list(read_scores(scores))
    other_metrics = {score.metric or "no metric" for _, score in entries if score.value is not None} - {
        calibration.goes_in.metric
    }
    if other_metrics and not force:
        raise InputError(
            f"calibration {calibration.display_name} was fitted on {calibration.goes_in.metric}, and {scores} "
            f"has scores of {', '.join(sorted(other_metrics))}; --force calibrates them anyway"
        )
    calibrated_scores = [
        (row, calibrate(score, calibration).with_signature(calibration.signature_for(score.metric)))
        for row, score in entries
    ]
    with open_scores_file(out) as rows:
        rows.writelines(score_line(row, score) for row, score in calibrated_scores)
    num_values = sum(score.value is not None for _, score in calibrated_scores)
    num_clamped = sum(calibration.is_extrapolation(score.value) for _, score in entries if score.value is not None)
    if as_json:
        counts = {"scores": len(calibrated_scores), "calibrated": num_values, "clamped": num_clamped}
        print_json({"calibration": calibration_to_json(calibration), "out": str(out), **counts})
    else:
        echo(
            f"{num_values} of {len(calibrated_scores)} scores calibrated, {num_clamped} of them clamped: {out}",
            stderr=out == Path("-"),
        )
    return 0


def calibration_to_json(calibration: CalibrationMap) -> dict[str, Any]:
    """A calibration as plain JSON."""
    from dataclasses import asdict

    return {**asdict(calibration), "x": list(calibration.x), "y": list(calibration.y), "digest": calibration.digest}


def _calibration_table(calibrations: Mapping[Path, CalibrationMap]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table("name", title="calibrations", title_justify="left")
    for name in ("input", "output", "judgements", "held out: log-loss", "line", "constant", "digest"):
        table.add_column(name, justify="left" if name in ("input", "output", "digest") else "right", overflow="fold")
    for path, calibration in calibrations.items():
        held_out, count = calibration.provenance.get("held_out", {}), str(calibration.provenance.get("count", ""))
        names = ("map", "line", "constant")
        losses = [f"{held_out[name]['log_loss']:.4f}" if name in held_out else "" for name in names]
        low, high = calibration.comes_out.range
        output = f"{low:.3g} to {high:.3g}, {calibration.comes_out.unit}"
        cells = (path.stem, calibration.goes_in.metric, output, count, *losses, calibration.digest[:12])
        table.add_row(*map(Text, cells))
    return table


app = command_group(
    "calibrate",
    "Fit, list, show and apply calibrations that put scores of different judges on one scale.",
    {"fit": fit, "list": list_calibrations, "show": show_calibration, "apply": apply},
)
