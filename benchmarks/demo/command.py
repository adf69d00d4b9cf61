"""Rank candidate edits of real photographs with one reward; with `--damage`, also damaged copies of them.

python -m editcritic.benchmarks.demo [--damage] [--seeds 20] [--rows 8] [--write FOLDER]
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ...reward import Reward
from ..common.terminal import exit_code_command
from .scene_ranking import HACKS, SceneRanking, perturbed_candidates, rank_scenes, scene_candidates, write_candidates

DEFAULT_REWARD = "any-edit"


@exit_code_command
def main(
    damage: Annotated[
        bool, typer.Option("--damage", help="Rank damaged copies too: noise, JPEG, brightness. Takes minutes.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="With --damage: number of damaged copies of each edit.")] = 20,
    num_rows: Annotated[int | None, typer.Option("--rows", help="Use only the first N instructions.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--write", help="Write images and samples.jsonl to this folder, and exit.")
    ] = None,
) -> int:
    """Rank the candidates and print the table. Exit code 1 if a good edit is not first or a hack not last."""
    console = Console(width=None if Console().is_terminal else 160)
    start = time.perf_counter()
    edits = scene_candidates(num_rows)
    if folder is not None:
        console.print(f"{write_candidates(edits, folder)} samples in {folder / 'samples.jsonl'}")
        return 0
    reward = Reward.of(DEFAULT_REWARD, on_failures="none", max_in_flight=32)
    (rankings,) = rank_scenes(reward, [edits])
    console.print(_table(rankings))
    console.print(f"[dim]{len(edits)} instructions, one preset ({DEFAULT_REWARD}), no settings per row.[/dim]")
    num_expected = sum(ranking.is_expected_order for ranking in rankings)
    console.print(f"Good edit first, hacks ({' and '.join(HACKS)}) last: in {num_expected} of {len(edits)} rows.")
    holds = num_expected == len(edits)
    if damage:
        kept_counts: Counter[str] = Counter()
        rounds = rank_scenes(reward, perturbed_candidates(edits, seeds))
        for round_rankings in track(rounds, "Noise, JPEG, brightness", seeds, console=console, transient=True):
            kept_counts.update(ranking.scene.name for ranking in round_rankings if ranking.is_expected_order)
        console.print()
        console.print(_stability_table(rankings, kept_counts, seeds))
        kept, num_damaged = kept_counts.total(), seeds * len(edits)
        console.print(f"Order kept in {kept} of {num_damaged} damaged rows.")
        holds = holds and kept == num_damaged
    more = "" if damage else " --damage ranks damaged copies, too: noise, JPEG, brightness."
    console.print(f"{time.perf_counter() - start:.0f} s in total.{more}")
    return int(not holds)


def _table(rankings: list[SceneRanking]) -> Table:
    table = Table(title="Eight candidates per instruction, best first")
    table.add_column("instruction", max_width=34)
    for rank in range(1, len(rankings[0].order) + 1):
        table.add_column(str(rank))
    for ranking in rankings:
        cells = []
        for name, score in ranking.order:
            colour = "green" if name == "good" else "red" if name in HACKS else "default"
            value = "-" if score.value is None else f"{score.value:.3f}"
            cells.append(f"[{colour}]{name.replace('_', ' ')}[/]\n{value}")
        table.add_row(ranking.scene.instruction, *cells, end_section=True)
    return table


def _stability_table(rankings: list[SceneRanking], kept_counts: Counter[str], seeds: int) -> Table:
    table = Table(title="Good first and hacks last, after damage")
    table.add_column("instruction")
    table.add_column("undamaged", justify="center")
    table.add_column(f"of {seeds} seeds", justify="right")
    for ranking in rankings:
        kept = kept_counts[ranking.scene.name]
        table.add_row(
            ranking.scene.instruction,
            "yes" if ranking.is_expected_order else "NO",
            str(kept),
            style="" if kept == seeds else "red",
        )
    return table
