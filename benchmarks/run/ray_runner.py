"""A suite judged on many machines with Ray Data: actors judge cases, rows come back to the journal of this process.

Data, outputs and this package have to lie at the same places on every machine. Each machine keeps the answers of its
experts in a log of its own, so that what it has paid for is known there when a run goes on.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from ..inputs import InputError
from ..suites.suite import Item
from .asked import Asked, How
from .journal import ANSWERS, RowJournal
from .part import Part
from .recipe import Recipe
from .rows import line_of
from .running import JOURNAL, Ran, check_places, finish, now
from .sharing import ALONE, Meeting
from .spending import Limits, Spent
from .watching import Progress, unwatched

_CASES = 16
"""Of a batch, at most: rows come back by batches."""


@dataclass(frozen=True)
class Cluster:
    """address: of a Ray cluster that runs, None starts or joins one here. workers: actors. cpus, gpus: of each.

    answers: a folder for answer logs on the machines that are not this one.
    """

    address: str | None = None
    workers: int = 2
    cpus: float = 1.0
    gpus: float = 0.0
    answers: Path = Path(tempfile.gettempdir()) / "editcritic-bench"


def carry_out_with_ray(recipe: Recipe, how: How, cluster: Cluster, *, out: Path, journal: Path | None = None) -> Ran:
    """As `running.carry_out`. Raises `InputError` where Ray is not installed, or no cluster answers."""
    ray, data = _library("ray"), _library("ray.data")
    began, start = now(), time.monotonic()
    recipe = replace(
        recipe, data=None if recipe.data is None else recipe.data.resolve(), outputs=recipe.outputs.resolve()
    )
    asked = recipe.asked()
    place = journal or out / JOURNAL
    check_places(out, asked)
    with RowJournal(place) as book, Meeting(place, ALONE):
        book.agree(asked.settings)
        known = Part(asked, replace(how, watch=unwatched), book, asked.suite.items)
        todo = known.sort_out()
        lines, facts = dict(known.lines), [known.facts()]
        spent = Spent()
        ended = _over(how.limits, book.spent(), cluster.workers) if todo else ""
        for batch in _judged(ray, data, recipe, how, cluster, book, todo, start) if todo and not ended else ():
            for key, row in batch["rows"]:
                book.write(key, row)
                lines[row["id"]] = line_of(row)
            spent += Spent.from_json(batch["facts"]["spent"])
            facts.append(batch["facts"])
            share = f" (the share of one of {cluster.workers} workers)" if batch["spent"] else ""
            ended = ended or (batch["ended"] and batch["ended"] + share)
            book.note(spent, len(lines), len(known.lines))
            done = Progress(len(lines), len(asked.suite.items), len(known.lines), time.monotonic() - start, spent)
            how.watch(done)
            if batch["ended"] and how.on_failures != "none" and not batch["spent"]:
                break  # experts are down; what else comes back is in the logs of the machines
        book.note(spent, len(lines), len(known.lines), now=True)
        return finish(asked, how, out, place, lines, ended, {"began": began, "processes": facts})


def _judged(
    ray: Any,
    data: Any,
    recipe: Recipe,
    how: How,
    cluster: Cluster,
    book: RowJournal,
    todo: Sequence[Item],
    start: float,
) -> Iterator[dict[str, Any]]:
    """What the actors give back, batch by batch."""
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(cluster.address, ignore_reinit_error=True, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"no Ray cluster at {cluster.address or 'this machine'}: {error}") from None
    try:
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        cases: dict[str, list[str]] = {}
        for item in todo:
            cases.setdefault(item.case, []).append(item.id)
        seconds = how.limits.seconds
        blocks = min(len(cases), max(4 * cluster.workers, -(-len(cases) // _CASES)))
        given = {
            "recipe": recipe,
            "how": replace(how, watch=unwatched, limits=_each(how.limits, book.spent(), cluster.workers)),
            "until": None if seconds is None else time.time() - (time.monotonic() - start) + seconds,
            "home": ray.get_runtime_context().get_node_id(),
            "log": str((book.folder / ANSWERS).resolve()),
            "answers": str(cluster.answers),
        }
        judged = data.from_items([{"items": json.dumps(ids)} for ids in cases.values()], override_num_blocks=blocks)
        judged = judged.map_batches(
            Actor,
            fn_constructor_kwargs={"given": given},
            batch_size=None,
            compute=data.ActorPoolStrategy(size=min(cluster.workers, blocks)),
            num_cpus=cluster.cpus,
            num_gpus=cluster.gpus,
        )
        for row in judged.iter_rows():
            yield json.loads(row["judged"])
    finally:
        if started:
            ray.shutdown()


class Actor:
    """Judges cases on one machine. given: see `_judged`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.how: How = given["how"]
        self.until: float | None = given["until"]
        self.asked: Asked = given["recipe"].asked()
        self.spent = Spent()
        ray = _library("ray")
        if ray.get_runtime_context().get_node_id() == given["home"]:
            self.log = Path(given["log"])
        else:
            settings = json.dumps(self.asked.settings, sort_keys=True)
            self.log = Path(given["answers"]) / f"{hashlib.sha256(settings.encode()).hexdigest()[:16]}.sqlite"
            self.log.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[str]]:
        """A batch of cases, each its items' ids as JSON; gives back rows and what they took, as JSON."""
        items = [self.asked.suite.by_id[name] for ids in batch["items"] for name in json.loads(str(ids))]
        limits = self.how.limits
        if self.until is not None:
            limits = replace(limits, seconds=max(1e-9, self.until - time.time()))
        how = replace(self.how, limits=limits)
        part = Part(self.asked, how, None, items, before=self.spent, log=self.log)
        lines = part.work()
        self.spent += part.spending.spent
        found = {
            "rows": [(part.keys.get(name, ""), json.loads(line)) for name, line in lines.items()],
            "ended": part.ended,
            "spent": bool(part.spending.ended),
            "facts": part.facts(),
        }
        return {"judged": [json.dumps(found)]}


def _each(limits: Limits, before: Spent, workers: int) -> Limits:
    """What is left, divided evenly."""
    calls, spend = limits.judge_calls, limits.spend
    return replace(
        limits,
        judge_calls=None if calls is None else (calls - before.judge_calls) // workers,
        spend=None if spend is None else (spend - before.spend) / workers,
    )


def _over(limits: Limits, before: Spent, workers: int) -> str:
    """Why there is nothing left to divide; empty where there is."""
    if limits.judge_calls is not None and limits.judge_calls - before.judge_calls < workers:
        return f"the budget of {limits.judge_calls} judge calls is spent ({before.judge_calls} by now)"
    if limits.spend is not None and before.spend >= limits.spend:
        return f"the budget of {limits.spend:g} spend is spent ({before.spend:g} by now)"
    return ""


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError("ray is needed for this, and is not installed: pip install 'editcritic[ray]'") from error
