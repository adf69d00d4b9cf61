"""Score a table on many machines with Ray Data: actors read and score blocks, the driver writes their files. The table
and this package need the same paths on every machine; the folder of scores is the driver's. Each machine has an answer
log of its own, so that a block that was cut short asks nothing again there."""

from __future__ import annotations

import json
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...integrations.row_check import BrokenFile, RowReader
from ...reward import AnswerLog, Engine, Reward, Score
from ...reward.plain_text import one_line
from ...reward.queries.expert import ExpertDown
from ...reward.reward import OnFailures
from ...reward.trust import trusted_names, trusting
from ..common.errors import InputError
from ..common.inputs import SampleEntry
from ..common.interruption import interrupted_code
from ..common.problems import Problems
from ..common.sample_tables import SampleTable, TableRow
from ..common.terminal import user_error_text, user_errors
from .ray_cluster import NodeLogs, RayCluster, actor_results, connected, ray_library
from .run_budget import ProgressCallback, RunProgress, ignore_progress
from .run_journal import ANSWER_LOG_FILE, SINGLE_PROCESS, Rendezvous
from .score_blocks import INVALID, Block, BlockSummary, BlockWriter, ScoreFolder, blocks_of, check_kept, run_settings
from .scoring_run import score_entries

_CACHE_BYTES = 64 * 2**20
"""Of answers that an actor holds in memory; all of them are in its log."""


@dataclass(frozen=True)
class BlockOptions:
    """block_rows: at most, in a block. window: samples in flight of an actor. answer_log: of this machine; by default
    in the folder of scores. on_problem: called with the problems that are kept. Others as in `Reward`."""

    block_rows: int = 1000
    window: int = 256
    max_failure_rate: float = 0.5
    on_failures: OnFailures = "raise"
    answer_log: Path | None = None
    on_progress: ProgressCallback = ignore_progress
    on_problem: Callable[[str], None] = lambda text: None


@dataclass(frozen=True)
class _PendingBlock:
    """only: the rows whose scores failed, where the others are there; None for all."""

    block: Block
    only: frozenset[int] | None = None


@dataclass
class TableReport:
    """The outcome of a run. reused: rows of earlier runs. problems: rows that are no samples, and blocks that could not
    be read. stop_reason: why it ended early, or empty. stats: of the engines, added."""

    rows: int
    summary: BlockSummary = field(default_factory=BlockSummary)
    blocks: int = 0
    reused: int = 0
    problems: Problems[str] = field(default_factory=Problems)
    stop_reason: str = ""
    interrupted: bool = False
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 done, 1 some scores failed or the run ended early, 2 some input was invalid, 130 or 143 interrupted."""
        if self.interrupted:
            return interrupted_code()
        if self.problems or self.summary.counts[INVALID]:
            return 2
        return 1 if self.stop_reason or self.summary.counts["failed"] else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "rows": self.rows,
            "done": self.summary.rows,
            "reused": self.reused,
            "blocks": self.blocks,
            "mean": self.summary.mean,
            "summary": self.summary.to_json(),
            "problems": list(self.problems),
            "num_problems": self.problems.total,
            "stop_reason": self.stop_reason,
            "interrupted": self.interrupted,
        }


def score_table(
    table: SampleTable, reward: Reward, cluster: RayCluster, options: BlockOptions, *, out: Path
) -> TableReport:
    """Score the blocks of a table that `out` does not have yet, and the rows that it has with failed scores.

    reward: built again in each actor, from its spec. Interruptions are not raised: the report has them. Raises
    `InputError` without Ray or its cluster, without an identity of the reward, or if `out` has other settings.
    """
    ray_library("ray.data")
    start = time.monotonic()
    check_kept(table.keep)
    table = table.absolute()
    settings = run_settings(table, reward, options.block_rows)
    folder = ScoreFolder(out, settings)
    with Rendezvous(folder.folder, SINGLE_PROCESS):
        folder.remove_unfinished()
        report, pending = TableReport(table.count), dict[int, _PendingBlock]()
        for block in blocks_of(table, settings):
            report.blocks += 1
            summary = folder.summary(block)
            if summary is None:
                pending[block.number] = _PendingBlock(block)
            elif summary.counts["failed"]:
                pending[block.number] = _PendingBlock(block, frozenset(folder.failed_rows(block)))
                report.reused += block.count - summary.counts["failed"]
            else:
                report.summary.merge(summary)
                report.reused += block.count
        try:
            with _told(report):
                first: tuple[int, float] | None = None
                for result in _results(table, reward, cluster, options, folder, pending, settings["identity"]):
                    _add_result(report, folder, pending[result["block"]].block, result, options)
                    done, failed, now = report.summary.rows, report.summary.counts["failed"], time.monotonic()
                    first = first or (done, now)  # the rate is that after actors have started and models are loaded
                    options.on_progress(RunProgress(done, report.rows, first[0], now - first[1], failed=failed))
                    if report.stop_reason:
                        break  # the answers of the other blocks are in the logs of the machines
        except KeyboardInterrupt:
            report.interrupted = True
        finally:
            seconds = round(time.monotonic() - start, 3)
            folder.write_summary({**report.to_json(), "seconds": seconds, "reward": reward.spec, "stats": report.stats})
    return report


def _add_result(
    report: TableReport, folder: ScoreFolder, block: Block, result: Mapping[str, Any], options: BlockOptions
) -> None:
    data = json.loads(result["report"])
    for problem in data["problems"]:
        if report.problems.append(problem):
            options.on_problem(problem)
    report.problems.total += data["num_problems"] - len(data["problems"])
    report.stats = _added(report.stats, data["stats"])
    report.stop_reason = data["stop_reason"]
    if result["content"]:
        report.summary.merge(folder.write(block, result["content"]))


@contextmanager
def _told(report: TableReport) -> Iterator[None]:
    """What Ray raises, as of machines that are lost too often, becomes the reason for the end."""
    ray_error = ray_library("ray.exceptions").RayError
    try:
        yield
    except ray_error as error:
        report.stop_reason = one_line(f"Ray: {error}")


def _added(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    total = dict(first)
    for name, value in second.items():
        if isinstance(value, Mapping):
            total[name] = _added(total.get(name, {}), value)
        else:
            total[name] = total.get(name, 0) + value
    return total


def _results(
    table: SampleTable,
    reward: Reward,
    cluster: RayCluster,
    options: BlockOptions,
    folder: ScoreFolder,
    pending: Mapping[int, _PendingBlock],
    identity: str,
) -> Iterator[dict[str, Any]]:
    """What the actors return, block by block: number, content of its file or nothing, report as JSON."""
    if not pending:
        return
    with connected(cluster) as ray:
        actor_config = {
            "table": table,
            "blocks": dict(pending),
            "spec": reward.spec,
            "identity": identity,
            "window": options.window,
            "options": {"max_failure_rate": options.max_failure_rate, "on_failures": options.on_failures},
            "logs": NodeLogs.of(ray, options.answer_log or folder.folder / ANSWER_LOG_FILE),
            "trusted": trusted_names(),
        }
        numbers = [{"block": number} for number in pending]
        yield from actor_results(cluster, BlockActor, actor_config, numbers, len(pending))


class BlockActor:
    """Scores blocks on one machine. actor_config: see `_results`."""

    def __init__(self, actor_config: Mapping[str, Any]) -> None:
        self.config = actor_config
        self.table: SampleTable = actor_config["table"]
        self._reward: Reward | None = None
        self._log: AnswerLog | None = None
        self._readers: dict[int, RowReader] = {}
        trusting(*actor_config["trusted"])  # for the life of this process: a cluster knows nothing of the environment

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """Score blocks, given by their numbers. Nothing that a user has to mend is raised: the report has it."""
        import pyarrow

        results = [self._result(self.config["blocks"][int(number)]) for number in batch["block"]]
        return pyarrow.table(
            {
                "block": pyarrow.array([int(number) for number in batch["block"]]),
                "content": pyarrow.array([content for content, _ in results], pyarrow.binary()),
                "report": pyarrow.array([json.dumps(report) for _, report in results]),
            }
        )

    def _result(self, pending: _PendingBlock) -> tuple[bytes, dict[str, Any]]:
        block = pending.block
        report: dict[str, Any] = {"problems": [], "num_problems": 0, "stop_reason": "", "stats": {}}
        file = self.table.files[block.file]
        try:
            reward = self._built()
            file.require_unchanged()
            return self._scored(pending, reward, report)
        except BrokenFile as error:
            where = f"{file.name}, rows {block.first:,} to {block.first + block.count - 1:,}"
            report |= {"problems": [f"{where}: {error}"], "num_problems": 1}
        except user_errors() as error:
            report["stop_reason"] = one_line(user_error_text(error))
        return b"", report

    def _scored(self, pending: _PendingBlock, reward: Reward, report: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        writer = BlockWriter(self.table, pending.block, reward.known_signature)
        waiting: deque[TableRow] = deque()

        def entries() -> Iterator[SampleEntry]:
            for row in self._rows(pending):
                problem = row.problem
                if row.sample is not None and (missing := reward.missing_fields(row.sample)):
                    problem = f"{reward.card.name} needs {', '.join(missing)}, which {row.sample.id!r} lacks"
                if problem:
                    writer.add(replace(row, problem=problem), None)
                    yield SampleEntry(row.location, problem=problem)
                else:
                    waiting.append(row)
                    yield SampleEntry(row.location, row.sample)

        def add(name: str, score: Score) -> None:
            writer.add(waiting.popleft(), score)

        outcome = score_entries(reward, entries(), add, on_problem=lambda text: None)
        report |= {
            "problems": list(outcome.problems),
            "num_problems": outcome.problems.total,
            "stop_reason": outcome.stop_reason,
            "stats": outcome.stats,
        }
        if outcome.stop_reason or outcome.interrupted:
            return b"", report
        return writer.content(), report

    def _rows(self, pending: _PendingBlock) -> Iterator[TableRow]:
        block = pending.block
        file = self.table.files[block.file]
        if block.file not in self._readers:
            self._readers = {block.file: RowReader(file.rows, self.table.read_columns)}
        index = None if self._log is None else self._log.files
        return self.table.read(self._readers[block.file], file, block.first, block.count, index, pending.only)

    def _built(self) -> Reward:
        if self._reward is None:
            self._log = AnswerLog(self.config["logs"].here(self.config["identity"][:16]))
            try:
                engine = Engine(window=self.config["window"], log=self._log, cache_bytes=_CACHE_BYTES)
                reward = Reward.of(self.config["spec"], engine=engine, **self.config["options"])
                identity = reward.identity
            except (ImportError, ValueError, ExpertDown) as error:
                raise InputError(f"the reward cannot be built on {socket.gethostname()}: {error}") from None
            if identity != self.config["identity"]:
                raise InputError(
                    f"the reward is another one on {socket.gethostname()}: install the same version and models there"
                )
            self._reward = reward
        return self._reward
