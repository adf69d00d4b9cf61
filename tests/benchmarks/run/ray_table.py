"""Tables scored on one local cluster, in what a user would do: `python -m … FOLDER` leaves FOLDER/runs.json."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.inputs import load_reward
from editcritic.benchmarks.common.sample_tables import SampleTable
from editcritic.benchmarks.run.block_runner import BlockOptions, TableReport, score_table
from editcritic.benchmarks.run.ray_cluster import RayCluster
from editcritic.benchmarks.studies.performance.killed_table import write_table
from editcritic.reward import Reward

CLUSTER = RayCluster(workers=2, cpus=0.5)
OPTIONS = BlockOptions(block_rows=30)
ROWS = 100


def judged(folder: Path, expert: str = "Paying", **options: Any) -> Reward:
    judge = {"use": f"tests.benchmarks.run.counting_experts:{expert}", **options}
    return Reward.of("judge-yes-no", {"judge": judge})


def summary(report: TableReport, folder: Path) -> dict[str, Any]:
    paid = (folder / "paid").read_text().split() if (folder / "paid").exists() else []
    return {
        **{name: getattr(report, name) for name in ("rows", "reused", "blocks", "stop_reason", "exit_code")},
        "counts": dict(report.summary.counts),
        "problems": list(report.problems),
        "paid": len(paid),
        "questions": len(set(paid)),
    }


def refusal(table: SampleTable, reward: Reward, out: Path, options: BlockOptions = OPTIONS) -> str:
    try:
        score_table(table, reward, CLUSTER, options, out=out)
    except InputError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    runs: dict[str, Any] = {}
    path = folder / "table.parquet"
    write_table(path, ROWS)
    edits = pq.read_table(path).to_pylist()
    rows = [{"id": f"edit-{number // 2}", "length": number, **edit} for number, edit in enumerate(edits)]
    rows[7]["edited"] = b"no picture"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=40)
    table, out = SampleTable.open(path, keep=["length"]), folder / "scores"
    reward = judged(folder, paid=str(folder / "paid"))

    runs["first"] = summary(score_table(table, reward, CLUSTER, OPTIONS, out=out), folder)
    runs["again"] = summary(score_table(table, reward, CLUSTER, OPTIONS, out=out), folder)
    damaged = sorted(out.glob("*.parquet"))[1]
    damaged.write_bytes(damaged.read_bytes()[:-50])
    runs["damaged"] = summary(score_table(table, reward, CLUSTER, OPTIONS, out=out), folder)

    runs["another reward"] = refusal(table, load_reward("guard-not-blank"), out)
    runs["other columns"] = refusal(replace(table, keep=()), reward, out)
    runs["other blocks"] = refusal(table, reward, out, replace(OPTIONS, block_rows=50))
    os.utime(path, ns=(1, 1))
    runs["changed"] = refusal(SampleTable.open(path, keep=["length"]), reward, out)

    failing = judged(folder, "FailsAtFirst", paid=str(folder / "paid-failing"), fails=str(folder / "fails"))
    failed, none = folder / "failed", replace(OPTIONS, on_failures="none", window=4)
    (folder / "fails").touch()
    runs["failed"] = summary(score_table(table, failing, CLUSTER, none, out=failed), folder)
    runs["too many"] = summary(score_table(table, failing, CLUSTER, OPTIONS, out=folder / "stopped"), folder)
    (folder / "fails").unlink()
    asked = len((folder / "paid-failing").read_text().split())
    runs["asked again"] = summary(score_table(table, failing, CLUSTER, none, out=failed), folder)
    questions: list[str] = (folder / "paid-failing").read_text().split()
    runs["asked by it"] = [len(questions) - asked, len(set(questions[asked:]))]
    (folder / "runs.json").write_text(json.dumps(runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
