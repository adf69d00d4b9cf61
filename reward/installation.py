"""How to install what is missing, as this package was installed."""

from __future__ import annotations

import json
from importlib import metadata

DISTRIBUTION = "editcritic"


def install_command(extras: str = "", options: str = "") -> str:
    """The command that installs extras, comma-separated: `pip install -e '.[ocr]'` in a clone that is installed
    editable, else `pip install 'editcritic[ocr]'`. options: of pip."""
    package = "." if _is_editable() else DISTRIBUTION
    words = [options, "-e" if package == "." else "", f"'{package}[{extras}]'" if extras else package]
    return " ".join(["pip install", *filter(None, words)])


def _is_editable() -> bool:
    try:
        # not what setuptools leaves in a clone, an `egg-info`, which says nothing of the installation
        installed = next(one for one in metadata.distributions(name=DISTRIBUTION) if one.read_text("INSTALLER"))
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        return bool(origin.get("dir_info", {}).get("editable"))
    except (StopIteration, OSError, ValueError, AttributeError):
        return False
