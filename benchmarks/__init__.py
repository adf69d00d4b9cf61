"""Benchmark suites: run a suite on an editor's outputs, and load the results.

    from editcritic.benchmarks import load_results, run_suite

Suites are in `suites`, running them in `run`, reports in `report`, human evaluation in `human_eval`, drawn images
with a known ground truth in `sceneedit`. The command line `editcritic` is the package `cli`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run.runner import run_suite
    from .suites.results import load_results
    from .suites.suite import Suite

__all__ = ["Suite", "load_results", "run_suite"]

_MODULES = {"Suite": "suites.suite", "load_results": "suites.results", "run_suite": "run.runner"}


def __getattr__(name: str) -> Any:
    """Import on first use: the command line imports `benchmarks.common`, and `--help` needs no numpy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
