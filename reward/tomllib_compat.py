"""The reader of TOML that comes with Python, and below 3.11 the package that it was taken from."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
