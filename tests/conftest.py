"""What holds for every test: the caller's environment and home decide nothing, nothing is downloaded, and hypothesis
draws the same examples on every run. All of it before anything reads it; processes started by tests inherit it.
"""

import gc
import os
import tempfile

# Proxies do not reach the servers of tests; maps, caches and settings of libraries lie below the home; programs print
# as wide and as coloured as they are told; launchers number processes.
OF_THE_CALLER = (
    *("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
    *("EDITCRITIC_", "HF_", "MPL", "OPENAI_", "RAY_", "XDG_", "HUGGING_FACE_HUB_TOKEN"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_", "PMI_", "MPI_", "OMPI_", "MV2_"),
)
for name in [name for name in os.environ if name.startswith(OF_THE_CALLER) or name.lower().endswith("_proxy")]:
    del os.environ[name]
HOME = tempfile.TemporaryDirectory(prefix="home-", ignore_cleanup_errors=True)  # gone when pytest ends
os.environ["HOME"] = HOME.name

# As in our own processes (`benchmarks.terminal.one_thread_a_library`): sums of several threads differ in the last
# digits, and runs that are compared to the byte have processes of one thread.
for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[library] = "1"

from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402

from hypothesis import settings  # noqa: E402

from .needs import needs  # noqa: E402
from .vision_ops import provide  # noqa: E402

os.environ["HF_HUB_OFFLINE"] = "1"

# No deadlines: a shared machine is slow at times, and a slow example is not a wrong one. To look further than the
# fixed examples: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

provide()


def pytest_collection_finish() -> None:
    """Libraries that are imported by now stay: the collections that tests ask for need not go through them."""
    gc.collect()
    gc.freeze()


_TORCH = find_spec("torch") is not None


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Where there is no torch, the files that need it, or what is only used beside it, are left out."""
    return True if not _TORCH and collection_path.match("test_*.py") and needs(collection_path) else None


def pytest_report_header() -> str | None:
    files = [path for path in Path(__file__).parent.rglob("test_*.py") if not _TORCH]
    return f"no torch: {sum(bool(needs(path)) for path in files)} of {len(files)} files left out" if files else None
