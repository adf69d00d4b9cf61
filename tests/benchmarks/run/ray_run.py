"""A suite judged on one local cluster, first within a budget: `python -m … FOLDER` leaves FOLDER/runs.json."""

import json
import sys
from pathlib import Path

import ray

from editcritic.benchmarks.run.ray_cluster import RayCluster
from editcritic.benchmarks.run.ray_runner import execute_with_ray
from editcritic.benchmarks.run.run_settings import RunSettings

SUITE = "tests.benchmarks.suites.tiny_suite:Toy?count=5"


def recipe(folder: Path, way: str) -> RunSettings:
    judge = {"use": "tests.benchmarks.run.counting_experts:Paying", "paid": str(folder / "paid")}
    return RunSettings(
        suite=SUITE, outputs=folder / "outputs", out=folder / way, editor_name="mine", experts={"judge": judge},
        metrics=("following",),
    )  # fmt: skip


def main(folder: Path) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    runs = []
    for budget in ({"judge_calls": 4}, {}):
        ray_settings = {"ray": RayCluster(workers=2, cpus=0.5), "budget": budget}
        ran = execute_with_ray(recipe(folder, "ray").overridden(ray_settings))
        paid = (folder / "paid").read_text().split()
        facts = {"stop_reason": ran.stop_reason, "missing": ran.missing}
        runs.append({**facts, "paid": len(paid), "questions": len(set(paid))})
    (folder / "runs.json").write_text(json.dumps(runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
