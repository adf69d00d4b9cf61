"""`docs` builds a site with the reference of an installed package, by mkdocs and by its successor."""

import subprocess
import sys
from pathlib import Path

Path("pages").mkdir()
Path("pages/index.md").write_text("# Reference\n\n::: editcritic.reward.score\n", encoding="utf-8")
Path("mkdocs.yml").write_text(
    "site_name: Reference\ndocs_dir: pages\ntheme:\n  name: material\nplugins:\n  - mkdocstrings\n", encoding="utf-8"
)
for tool, command in {"mkdocs": ["build", "--strict"], "zensical": ["build"]}.items():
    done = subprocess.run(
        [sys.executable, "-m", tool, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "instruction" in Path("site/index.html").read_text(encoding="utf-8"), tool
