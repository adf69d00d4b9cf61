"""Isolation of all tests: no influence of the caller's environment and home, no downloads, and the same hypothesis
examples on every run. Set up before any import reads it; processes started by tests inherit it.
"""

import gc
import os
import sys
import tempfile

# Proxies cannot reach the tests' servers; libraries keep caches and settings below the home; terminal variables change
# printed widths and colours; launchers set process ranks. Where bytecode is not kept, each process that a test starts
# compiles the packages again, and pytest rewrites every assertion.
OF_THE_CALLER = (
    *("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("PYTHONDONTWRITEBYTECODE", "EDITCRITIC_", "HF_", "MPL", "OPENAI_", "RAY_", "XDG_", "HUGGING_FACE_HUB_TOKEN"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_", "PMI_", "MPI_", "OMPI_", "MV2_"),
)
for name in [name for name in os.environ if name.startswith(OF_THE_CALLER) or name.lower().endswith("_proxy")]:
    del os.environ[name]
sys.dont_write_bytecode = False
HOME = tempfile.TemporaryDirectory(prefix="home-", ignore_cleanup_errors=True)  # gone when pytest ends
os.environ["HOME"] = HOME.name

# As in our own processes (`benchmarks.common.terminal`): multi-threaded sums differ in the last digits, and runs that
# are compared byte by byte need single-threaded processes.
for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[library] = "1"

from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

from .needs import needs  # noqa: E402
from .vision_ops import provide  # noqa: E402

os.environ["HF_HUB_OFFLINE"] = "1"

# No deadlines: a slow example on a shared machine is not an error. For more than the fixed examples:
# HYPOTHESIS_PROFILE=explore make test
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

provide()


# Libraries of seconds that test modules import in functions: whoever runs a few tests does not wait for them.
USED_LATER = {"datasets", "gradio", "matplotlib.pyplot", "ray", "trl"}
_TORCH = find_spec("torch") is not None


def pytest_collection_finish() -> None:
    """Refuse what makes collecting slow; exclude imported libraries from the garbage collections of tests."""
    if imported := sorted(USED_LATER & sys.modules.keys()):
        raise pytest.UsageError(f"collecting imported {', '.join(imported)}: import them in functions and fixtures")
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch, leave out the files that need it, or a library that is only used with it."""
    return True if not _TORCH and collection_path.match("test_*.py") and needs(collection_path) else None


def pytest_report_header() -> str | None:
    files = [path for path in Path(__file__).parent.rglob("test_*.py") if not _TORCH]
    return f"no torch: {sum(bool(needs(path)) for path in files)} of {len(files)} files left out" if files else None
