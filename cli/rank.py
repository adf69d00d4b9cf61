"""`editcritic rank`: candidate edits of a source, ranked."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..benchmarks.common.interruption import tell_interrupted
from ..benchmarks.common.terminal import exit_code_command, print_json, progress_bar, render
from .options import DEFAULT_REWARD, AnswerCache, Experts, Json, Protocol, RewardSpec, Trust

if TYPE_CHECKING:
    from ..reward import Score


@exit_code_command
def rank(
    candidates: list[Path] = typer.Argument(
        help="Images, or folders of images, with --source and --instruction; or one file of samples."
    ),
    source: Path | None = typer.Option(None, help="Source image of the candidates."),
    instruction: str | None = typer.Option(None, help="The edit instruction."),
    boxes: str | None = typer.Option(
        None, help='Boxes of source objects in pixels: {"cup": [[x0, y0, x1, y1]]}, or a file with that JSON.'
    ),
    reward: RewardSpec = DEFAULT_REWARD,
    experts: Experts = None,
    protocol: Protocol = None,
    out: Path | None = typer.Option(None, "-o", "--out", help="Write a contact sheet (HTML) to this file."),
    why: tuple[str, str] | None = typer.Option(
        None, metavar="A B", help="Say why one of these two candidates is above the other."
    ),
    cache: AnswerCache = None,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Rank candidate edits of a source: order, margins, reasons. Samples of a file are ranked within their groups.

    There are no ranks if all candidates with a value were rejected and others could not be judged.

    Example: editcritic rank edits --source cup.png --instruction "Remove cup" -o sheet.html
    """
    from ..benchmarks.common.inputs import load_reward, ranking_entries, require_no_picture, spec_argument
    from ..benchmarks.report import ranking
    from ..benchmarks.report.score_comparison import compare_candidates, render_comparison, require_comparable
    from ..benchmarks.run.scoring_run import forward_warnings, score_entries
    from ..reward import AnswerLog
    from ..reward.missing_inputs import for_command, for_rows

    require_no_picture(out, "a page of HTML")
    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        index = {} if log is None else log.files
        entries = ranking_entries(candidates, source, instruction, boxes, index)
        if why is not None:
            require_comparable(why, [entry.sample for entry in entries if entry.sample is not None])
        bound_reward = load_reward(spec_argument(reward), protocol, bindings=experts, log=log, on_failures="none")
        if out is not None:
            out.touch()  # fail before scoring, not after it
        samples: list[Any] = []
        scores: list[Score] = []

        def write(name: str, score: Score) -> None:
            scores.append(score)
            step()

        with progress_bar(len(entries), "scoring") as (step, tell), forward_warnings(tell):
            outcome = score_entries(bound_reward, entries, write, on_problem=tell, on_sample=samples.append)
        if outcome.interrupted:
            stack.pop_all()
            tell_interrupted()
            return 130
        rankings = ranking.rank_candidates(samples, scores, bound_reward.card.range[0])
        if out is not None and rankings:
            from ..benchmarks.report.ranking_sheet import write_sheet

            write_sheet(out, rankings, bound_reward.card)
        comparison = None if why is None or not rankings else compare_candidates(why, rankings)
        if as_json:
            groups = [group.to_json() for group in rankings]
            sheet = str(out) if out is not None and rankings else None
            print_json(
                {
                    "schema": ranking.SCHEMA,
                    **outcome.to_json(),
                    "reward": bound_reward.spec,
                    "reward_signature": bound_reward.known_signature,
                    "groups": groups,
                    **({} if comparison is None else {"why": comparison.to_json()}),
                    "sheet": sheet,
                }
            )
        else:
            for group in rankings:
                render(ranking.render_ranking(group, for_rows if source is None else for_command))
            if comparison is not None:
                render(render_comparison(comparison))
        return outcome.exit_code
