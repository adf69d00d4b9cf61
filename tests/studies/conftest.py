"""The fixtures of sample folders, for the commands of studies."""

from tests.benchmarks.conftest import folder

__all__ = ["folder"]
