"""The synthetic server ends with the process that started it, whenever that one ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST = "from studies.load_test.synthetic_reward import SyntheticServer as S; import os"
# Kills itself with its server ready, or at once: then nobody reads the address that the server writes.
WHEN_READY = f"{FIRST}; s = S(life=60); print(s.process.pid, flush=True); os._exit(0)"
AT_ONCE = f"{FIRST}; S._wait_until_ready = lambda s: (print(s.process.pid, flush=True), os._exit(0)); S(life=60)"


@pytest.mark.parametrize("program", [WHEN_READY, AT_ONCE], ids=["when it is ready", "before it is"])
def test_a_server_ends_with_the_process_that_started_it(program: str) -> None:
    # The server inherits standard error, whose end is seen here only once both have ended.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)
    assert int(done.stdout)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
