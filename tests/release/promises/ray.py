"""`ray` scores a suite on a cluster of two workers, here of this machine, as one process does."""

import json
from pathlib import Path

from editcritic.benchmarks.run.runner import RunConfig, execute
from tests.benchmarks.run.ray_run import main, recipe
from tests.benchmarks.suites.tiny_suite import Toy, outputs

folder = Path.cwd() / "cluster"
folder.mkdir()
outputs(folder / "outputs", Toy(count=5), without=["2/1"])
main(folder)
_, second = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
assert second == {"stop_reason": "", "missing": 2, "paid": 8, "questions": 8}, second
assert execute(RunConfig.build(recipe(folder, "one"))) is not None
for name in ("scores.jsonl", "result.json"):
    assert (folder / "one" / name).read_bytes() == (folder / "ray" / name).read_bytes(), name
