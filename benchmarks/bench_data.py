"""Commands of `editcritic bench` about data: prepare, make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .pipeline_options import Batch, Device, Download, Dtype, Setting
from .terminal import document, plainly, progress, say

if TYPE_CHECKING:
    from .making.outcome import Outcome

make = typer.Typer(
    name="make",
    help="Make benchmark data of your own pictures, in the published formats, with any judge.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def add_to(app: typer.Typer) -> None:
    """Register them."""
    app.command("prepare")(prepare)
    app.add_typer(make)


Images = Annotated[Path, typer.Argument(metavar="IMAGES", help="A folder of pictures.")]
Out = Annotated[
    Path, typer.Option("-o", "--out", help="A folder for the data. The same command again goes on where it ended.")
]
JudgeSpec = Annotated[
    str,
    typer.Option(
        "--judge",
        help="Who is asked: an expert with options, as in 'served?model=…&url=…', module:Name, or a TOML file with its "
        "table, or with [experts.judge] as for `score`.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", help="Of all that is drawn.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many pictures, the first ones.")]
Pack = Annotated[
    str | None, typer.Option("--prompts", help="A folder of prompts that replace ours: <name>.txt, as in the package.")
]
Window = Annotated[int, typer.Option("--window", min=1, help="Pictures in work at a time.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")]


@plainly
def prepare(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="edival, complex-edit, dlebench or i2ibench.")],
    images: Annotated[
        Path | None, typer.Argument(metavar="IMAGES", help="For i2ibench: the pictures to build a suite of.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The folder of the data. Default: data/SUITE.")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch what is missing.")] = False,
    sources: Annotated[
        Path | None,
        typer.Option("--sources", help="Other places of the files, as a mirror's: TOML, [[file]] with path and url."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", help="For edival: count what this instruction file holds, and compare with the paper."),
    ] = None,
    judge: Annotated[str | None, typer.Option("--judge", help="For i2ibench: who writes; as for `make`.")] = None,
    single: Annotated[
        int | None,
        typer.Option(
            "--single",
            min=0,
            help="For i2ibench: scenes of one picture, five prompts each. Default: up to 100.",
        ),
    ] = None,
    multi: Annotated[
        int | None,
        typer.Option("--multi", min=0, help="For i2ibench: scenes of several, five prompts each. Default: up to 100."),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Say what the data of a suite is and where it is; fetch it when told to; check it, and open it.

    Nothing is fetched without --download. Exit code 1 where data is missing, or the suite finds problems in it, or
    a count of --csv is not that of the published file.
    """
    from .inputs import InputError
    from .making.prepare import plan
    from .making.prepare import prepare as prepared
    from .making.sources import source_of

    if csv is not None:
        others = (images, out, sources, judge, single, multi)
        if suite != "edival" or download or any(one is not None for one in others):
            raise InputError("--csv compares an instruction file of edival and does nothing else: give no other option")
        return _count(csv, as_json)
    data = out or Path("data") / suite
    if images is not None or judge is not None:
        if suite != "i2ibench" or images is None or judge is None:
            raise InputError("IMAGES and --judge are for i2ibench, which is built of pictures: give both, or neither")
        return _build(images, data, judge, single, multi, seed, as_json)
    source = source_of(suite, sources)
    found = prepared(source, data, download=download, tell=say)
    problems = [f"{one.spec}: {problem}" for one in found.opened for problem in one.problems]
    code = int(not found.there or bool(problems))
    if as_json:
        document({**found.to_json(), "exit_code": code})
        return code
    if not found.there:
        for line in plan(found):
            say(line, stderr=False)
    for one in found.opened:
        say(f"{one.spec}: {one.items} items in {data}", stderr=False)
    for problem in problems[:10]:
        say(f"editcritic: {problem}")
    if len(problems) > 10:
        say(f"editcritic: and {len(problems) - 10} more")
    return code


def _count(csv: Path, as_json: bool) -> int:
    """EdiVal's instruction file held against the published one."""
    from .making.edival_counts import check

    checks = check(csv)
    differ = [one for one in checks if not one.agrees]
    if as_json:
        rows = [one.to_json() for one in checks]
        document({"suite": "edival", "csv": str(csv), "checks": rows, "exit_code": int(bool(differ))})
        return int(bool(differ))
    for one in checks:
        counted = f"{one.counted}" if one.agrees else f"{one.counted}, expected {one.expected}"
        say(f"  {'agrees ' if one.agrees else 'DIFFERS'}  {one.name}: {counted}", stderr=False)
    same = len(checks) - len(differ)
    say(f"{same} of {len(checks)} counts of {csv} are those of the published file", stderr=False)
    return int(bool(differ))


def _build(
    images: Path, data: Path, judge: str, single: int | None, multi: int | None, seed: int, as_json: bool
) -> int:
    """A suite of pictures for I2I-Bench, whose own is not published."""
    from ..reward import Judge
    from .making.given import expert_of
    from .suites.i2ibench.prepare import prepare as build

    asked = expert_of(judge, "judge", Judge)
    return _report(build(images, data, judge=asked, single=single, multi=multi, seed=seed), "prompts", as_json)


@make.command("edival")
@plainly
def make_edival(
    images: Images,
    out: Out,
    judge: JudgeSpec,
    detector: Annotated[
        str, typer.Option("--detector", help="Who finds the objects that the judge lists; like --judge.")
    ] = "grounding-dino",
    turns: Annotated[int, typer.Option("--turns", min=1, help="Edits in a chain.")] = 3,
    counts: Annotated[str, typer.Option("--counts", help="What a number of objects may be changed to.")] = "3-5",
    oversized: Annotated[
        str,
        typer.Option(
            "--oversized",
            help="A detection is too large by `either` of side (0.9) and area (0.4), as in the paper, or by `both`, as "
            "in the released code.",
        ),
    ] = "either",
    seed: Seed = 0,
    limit: Limit = None,
    prompts: Pack = None,
    window: Window = 64,
    as_json: Json = False,
) -> int:
    """EdiVal-Agent: objects by a judge, kept where a detector finds them, and chains of instructions about them."""
    from ..reward import Detect, Judge
    from .inputs import InputError
    from .making import edival
    from .making.edival_chain import Agent
    from .making.edival_objects import OVERSIZED, Grounding
    from .making.given import expert_of, pack_of, pictures, range_of

    if oversized not in OVERSIZED:
        raise InputError(f"--oversized is {' or '.join(OVERSIZED)}, got {oversized!r}")
    try:
        agent = Agent(
            turns=turns,
            seed=seed,
            counts=range_of(counts),
            grounding=Grounding(oversized=OVERSIZED[oversized]),
            prompts=pack_of(prompts),
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    given = pictures(images, limit)
    asked = expert_of(judge, "judge", Judge), expert_of(detector, "detector", Detect)
    with progress(len(given), "making") as (step, _):
        found = edival.make(given, out, agent, judge=asked[0], detector=asked[1], step=step, window=window)
    return _report(found, "chains", as_json)


@make.command("complex-edit")
@plainly
def make_complex_edit(
    images: Images,
    out: Out,
    judge: JudgeSpec,
    count: Annotated[int, typer.Option("--count", min=1, help="Atomic instructions a picture: C1 to C of this.")] = 8,
    split: Annotated[str, typer.Option("--split", help="test_real or test_syn: photographs or made pictures.")] = (
        "test_real"
    ),
    seed: Seed = 0,
    limit: Limit = None,
    prompts: Pack = None,
    window: Window = 64,
    as_json: Json = False,
) -> int:
    """Complex-Edit: a sequence of atomic instructions a picture, simplified, and made compound step by step."""
    from ..reward import Judge
    from .extras import bench
    from .inputs import InputError
    from .making import complex_edit
    from .making.given import expert_of, pack_of, pictures

    if split not in complex_edit.SPLITS:
        raise InputError(f"--split is {' or '.join(complex_edit.SPLITS)}, got {split!r}")
    bench("pyarrow")  # before the work, not after it
    writer = complex_edit.Writer(count, seed, pack_of(prompts))
    given = pictures(images, limit)
    asked = expert_of(judge, "judge", Judge)
    with progress(len(given), "making") as (step, _):
        found = complex_edit.make(given, out, writer, judge=asked, split=split, step=step, window=window)
    return _report(found, "pictures with instructions", as_json)


@make.command("dlebench")
@plainly
def make_dlebench(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="A JSONL file of visual questions (image, question, options, answer, boxes), or a folder with a "
            "questions.jsonl; pictures relative to it.",
        ),
    ],
    out: Out,
    judge: JudgeSpec,
    pipeline: Annotated[str, typer.Option("--pipeline", help="Who edits the crops; as for `editcritic edit`.")],
    labels: Annotated[
        list[Path] | None,
        typer.Option("--labels", help="What people said of references with `bench label`; may be given several times."),
    ] = None,
    seed: Seed = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only so many questions, the first ones.")] = None,
    prompts: Pack = None,
    window: Window = 64,
    setting: Setting = None,
    batch: Batch = 8,
    dtype: Dtype = None,
    device: Device = None,
    download: Download = False,
    as_json: Json = False,
) -> int:
    """DLEBench: an edit that makes a wrong answer to a question true, and a reference picture of it.

    References wait for people in review.jsonl: fill in `accept`, `regenerate` or `discard`, and run the command again.
    """
    from ..reward import Judge
    from .inputs import settings_of
    from .making.counterfactual import read_questions
    from .making.dlebench import Synthesis
    from .making.given import expert_of, pack_of
    from .pipelines import Named

    given = list(read_questions(questions))[:limit]
    asked = expert_of(judge, "judge", Judge)
    pack = pack_of(prompts)
    editor = Named(pipeline, settings_of(setting or ()), batch, dtype, device, download).load()
    with progress(len(given), "asking") as (step, _):
        synthesis = Synthesis(asked, editor, seed, pack, tuple(labels or ()), window)
        found = synthesis.make(given, out, step=step)
    return _report(found, "samples", as_json)


def _report(found: Outcome, what: str, as_json: bool) -> int:
    if as_json:
        document({**found.to_json(), "exit_code": found.exit_code})
        return found.exit_code
    say(f"{found.made} {what} made, {found.rejected} given up (see rejects.jsonl)", stderr=False)
    for path in found.files:
        say(f"  {path}", stderr=False)
    if found.failed:
        name, reason = next(iter(found.failed.items()))
        say(
            f"editcritic: {len(found.failed)} not answered, the first of them {name}: {reason}; the same command asks "
            "again for these alone"
        )
    return found.exit_code
