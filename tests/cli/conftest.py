"""The fixtures of commands, for the tests of single commands."""

from ..benchmarks.conftest import editcritic, folder, three

__all__ = ["editcritic", "folder", "three"]
