"""Rank candidate edits of real photographs with one reward, and see whether the order survives small damage.

python -m editcritic.benchmarks.demo [--seeds 20] [--rows 8] [--write FOLDER]
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
from .run import HACKS, Ranking, damaged, rank, rows, write

REWARD = "edit-balanced"


def main(
    seeds: Annotated[int, typer.Option(help="How many times to damage the candidates and rank again.")] = 20,
    first: Annotated[int | None, typer.Option("--rows", help="Only so many instructions.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--write", help="Write pictures and samples.jsonl here, and end.")
    ] = None,
) -> None:
    """Rank, print, damage, rank again. Exit code 1 if the order does not hold."""
    console = Console(width=None if Console().is_terminal else 160)
    start = time.perf_counter()
    edits = dict(list(rows().items())[:first])
    if folder is not None:
        console.print(f"{write(edits, folder)} samples in {folder / 'samples.jsonl'}")
        return
    reward = Reward.of(REWARD, on_failures="none", window=32)
    (rankings,) = rank(reward, [edits])
    console.print(_table(rankings))
    console.print(f"[dim]{len(edits)} instructions, one preset ({REWARD}), no settings a row.[/dim]\n")
    held: Counter[str] = Counter()
    again = rank(reward, damaged(edits, seeds))
    for found in track(again, "Noise, JPEG, brightness", seeds, console=console, transient=True):
        held.update(ranking.scene.name for ranking in found if ranking.holds)
    console.print(_stability(rankings, held, seeds))
    kept, seconds = sum(held.values()), time.perf_counter() - start
    console.print(f"Order kept in {kept} of {seeds * len(edits)} damaged rows. {seconds:.0f} s in all.")
    if kept < seeds * len(edits) or not all(ranking.holds for ranking in rankings):
        raise typer.Exit(1)


def _table(rankings: list[Ranking]) -> Table:
    table = Table(title="Eight candidates an instruction, best first")
    table.add_column("instruction", max_width=34)
    for place in range(1, len(rankings[0].order) + 1):
        table.add_column(str(place))
    for ranking in rankings:
        cells = []
        for name, score in ranking.order:
            colour = "green" if name == "good" else "red" if name in HACKS else "default"
            value = "-" if score.value is None else f"{score.value:.3f}"
            cells.append(f"[{colour}]{name.replace('_', ' ')}[/]\n{value}")
        table.add_row(ranking.scene.instruction, *cells, end_section=True)
    return table


def _stability(rankings: list[Ranking], held: Counter[str], seeds: int) -> Table:
    table = Table(title="Good first and hacks last, after damage")
    table.add_column("instruction")
    table.add_column("as made", justify="center")
    table.add_column(f"of {seeds} seeds", justify="right")
    for ranking in rankings:
        kept = held[ranking.scene.name]
        table.add_row(
            ranking.scene.instruction, "yes" if ranking.holds else "NO", str(kept), style="" if kept == seeds else "red"
        )
    return table
