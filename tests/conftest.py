"""What holds for every test: nothing is downloaded, and hypothesis draws the same examples on every run."""

import gc
import os

# As in our own processes (`benchmarks.terminal.one_thread_a_library`), before anything imports numpy or torch: sums of
# several threads differ in the last digits, and runs that are compared to the byte have processes of one thread.
for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(library, "1")

from hypothesis import settings  # noqa: E402

from .vision_ops import provide  # noqa: E402

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub; processes started by tests inherit it

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
