"""Tables scored on a cluster of two machines, here of one, in what a user would do: `python -m … FOLDER` leaves
FOLDER/runs.json."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.cluster_utils import Cluster

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.inputs import load_reward
from editcritic.benchmarks.common.sample_tables import SampleTable
from editcritic.benchmarks.run import ray_cluster
from editcritic.benchmarks.run.block_runner import BlockOptions, TableReport, score_table
from editcritic.benchmarks.run.ray_cluster import RayCluster
from editcritic.reward import Reward
from studies.performance.killed_table import write_table

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
        score_table(table, reward, RayCluster(), options, out=out)
    except InputError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as own:  # else others would find it
        machines = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False, "temp_dir": own})
        ray.init(machines.address, log_to_driver=False)
        try:
            (folder / "runs.json").write_text(json.dumps(runs_of(folder, lambda: machines.add_node(num_cpus=1))))
        finally:
            ray.shutdown()
            machines.shutdown()


def runs_of(folder: Path, add_machine: Callable[[], object]) -> dict[str, Any]:
    runs: dict[str, Any] = {}
    cluster = RayCluster(workers=2, cpus=0.5)
    ray_cluster.ANSWER_LOG_FOLDER = folder / "machines"
    path = folder / "table.parquet"
    write_table(path, ROWS)
    edits = pq.read_table(path).to_pylist()
    rows = [{"id": f"edit-{number // 2}", "length": number, **edit} for number, edit in enumerate(edits)]
    rows[7]["edited"] = b"no picture"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=40)
    table, out = SampleTable.open(path, keep=["length"]), folder / "scores"
    reward = judged(folder, paid=str(folder / "paid"))

    runs["first"] = summary(score_table(table, reward, cluster, OPTIONS, out=out), folder)
    runs["again"] = summary(score_table(table, reward, cluster, OPTIONS, out=out), folder)
    damaged = sorted(out.glob("*.parquet"))[1]
    damaged.write_bytes(damaged.read_bytes()[:-50])
    runs["damaged"] = summary(score_table(table, reward, cluster, OPTIONS, out=out), folder)

    runs["another reward"] = refusal(table, load_reward("guard-not-blank"), out)
    runs["other columns"] = refusal(replace(table, keep=()), reward, out)
    runs["other blocks"] = refusal(table, reward, out, replace(OPTIONS, block_rows=50))
    os.utime(path, ns=(1, 1))
    runs["changed"] = refusal(SampleTable.open(path, keep=["length"]), reward, out)

    add_machine()  # which knows no answer of the first
    failing = judged(folder, "FailsAtFirst", paid=str(folder / "paid-failing"), fails=str(folder / "fails"))
    failed, none = folder / "failed", replace(OPTIONS, on_failures="none", window=4)
    (folder / "fails").touch()
    runs["failed"] = summary(score_table(table, failing, cluster, none, out=failed), folder)
    stopped = judged(folder, "FailsAtFirst", paid=str(folder / "paid-stopped"), fails=str(folder / "fails"))
    runs["too many"] = summary(score_table(table, stopped, cluster, OPTIONS, out=folder / "stopped"), folder)
    (folder / "fails").unlink()
    asked = len((folder / "paid-failing").read_text().split())
    runs["asked again"] = summary(score_table(table, failing, cluster, none, out=failed), folder)
    questions: list[str] = (folder / "paid-failing").read_text().split()
    runs["asked by it"] = [len(questions) - asked, len(set(questions[asked:]))]
    two = judged(folder, paid=str(folder / "paid-two"), seconds=0.05)
    apart = RayCluster(workers=2, cpus=1.0)
    ray_cluster.ANSWER_LOG_FOLDER = folder / "apart"
    options = replace(OPTIONS, block_rows=10, window=4)
    runs["two machines"] = summary(score_table(table, two, apart, options, out=folder / "two"), folder)
    return runs


if __name__ == "__main__":
    main(Path(sys.argv[1]))
