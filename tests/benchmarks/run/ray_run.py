"""A suite judged on one local cluster, first within a budget: `python -m … FOLDER` leaves FOLDER/found.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray

from editcritic.benchmarks.suite_run.asked import How
from editcritic.benchmarks.suite_run.raying import Cluster, carry_out_with_ray
from editcritic.benchmarks.suite_run.recipe import Recipe
from editcritic.benchmarks.suite_run.spending import Limits

SUITE = "tests.benchmarks.suites.toy:Toy?count=5"


def recipe(folder: Path) -> Recipe:
    judge = {"use": "tests.benchmarks.suite_run.asked:Paying", "paid": str(folder / "paid")}
    return Recipe(SUITE, None, folder / "outputs", "mine", {"judge": judge}, metrics=("following",))


def main(folder: Path) -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    found = []
    for how in (How(limits=Limits(judge_calls=4)), How()):
        ran = carry_out_with_ray(recipe(folder), how, Cluster(workers=2, cpus=0.5), out=folder / "ray")
        paid = (folder / "paid").read_text().split()
        found.append({"ended": ran.ended, "missing": ran.missing, "paid": len(paid), "questions": len(set(paid))})
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
