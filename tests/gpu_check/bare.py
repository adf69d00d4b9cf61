"""`make gpu-check` on a machine without make, network and editcritic, with the wheels of `make gpu-wheels`.

    python3 tests/gpu_check/bare.py [--out FOLDER] [--sections small ...]

Needs nothing but Python and pip. Installs the wheels into a folder that is gone afterwards and leaves the machine's
packages alone; editcritic is the working tree. Options are those of `tests.gpu_check`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / ".gpu-wheels"
TREE = ROOT / "typings"
"""`editcritic` as links to the folders of the working tree."""


def describe(site: Path) -> None:
    """Write the name, version and entry points of the working tree as an installed distribution has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = site / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (folder / "METADATA").write_text(head, encoding="utf-8")
    groups = {"console_scripts": project["scripts"], **project["entry-points"]}
    lines = (
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in names.items()) for group, names in groups.items()
    )
    (folder / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def main() -> int:
    wheels = sorted(map(str, WHEELS.glob("*.whl")))
    if not wheels:
        raise SystemExit(f"{WHEELS} has no wheels: call `make gpu-wheels` where there is a network")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        subprocess.run([*pip, "--no-cache-dir", "--disable-pip-version-check", "--target", site, *wheels], check=True)
        describe(site)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (site, TREE, ROOT)))}
        command = [sys.executable, "-m", "tests.gpu_check", *sys.argv[1:]]
        return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
