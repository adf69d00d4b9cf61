"""Run a performance script as `python -m` does, with torchvision where `make test` puts it.

python -m tests.gpu_check.section throughput --shapes small --json
"""

import runpy
import sys

from ..vision_ops import provide

provide()
name = sys.argv.pop(1)
runpy.run_module(f"studies.performance.{name}", run_name="__main__", alter_sys=True)
