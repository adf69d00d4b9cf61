"""Two processes that torchrun starts judge a suite together."""

import json
import os
import subprocess
import sys
from pathlib import Path

from editcritic.benchmarks.run.runner import run_suite

from ..suites.tiny_suite import CoinJudge, Toy, outputs
from .counting_experts import experts, files

NEEDS = ("torch",)
ROOT = Path(__file__).parents[3]
RUN = ("-m", "editcritic.cli.main", "bench", "run", "tests.benchmarks.suites.tiny_suite:Toy?count=5")
WITH = (
    "--editor-name",
    "mine",
    "--experts",
    "judge=tests.benchmarks.suites.tiny_suite:CoinJudge",
    "--metric",
    "following",
)


def test_two_processes_of_torchrun_write_what_one_writes(tmp_path):
    suite = Toy(count=5)
    made = outputs(tmp_path / "outputs", suite, without=["2/1"])
    launch = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    done = subprocess.run(
        [*launch, *RUN, "--outputs", str(made), "-o", str(tmp_path / "two"), *WITH, "--json"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert json.loads(done.stdout)["counts"]["num_missing"] == 2, done.stderr
    run_suite(suite, made, editor="mine", experts=experts(CoinJudge()), metrics=["following"], out=tmp_path / "one")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    facts = json.loads((tmp_path / "two" / "run.json").read_text())
    assert [process["items"] for process in facts["processes"]] == [6, 4]
    assert sum(process["usage"]["judge_calls"] for process in facts["processes"]) == 8
