"""The measuring scripts do the work they say they measure. Their timings are nobody's to assert."""

import json
import subprocess
import sys

import pytest

SCRIPTS = {
    "engine_overhead": ["--queries", "800", "--repeats", "1", "--json"],
    "engine_overhead --log": ["--queries", "800", "--repeats", "1", "--log", "--json"],
    "stream_memory": ["--samples", "40", "--side", "64", "--json"],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_prints_what_it_measured(name):
    module = f"editcritic.benchmarks.perf.{name.split()[0]}"
    ran = subprocess.run([sys.executable, "-m", module, *SCRIPTS[name]], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.get("queries", 800) == 800
    assert found.get("samples", 40) == 40
    assert all(isinstance(value, int | float) for value in found.values())


def test_refind_quality_counts_what_it_finds():
    module = "editcritic.benchmarks.perf.refind_quality"
    ran = subprocess.run([sys.executable, "-m", module, "--every", "19"], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert "moved" in ran.stdout
