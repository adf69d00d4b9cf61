"""The wheels of a machine that has Python 3.12, torch with torchvision, OpenCV and nothing to download from.

    python -m tests.gpu_check.wheels [--python 3.12] [--add opencv-python-headless ...]

Fills `.gpu-wheels`, which git ignores and `bare.py` installs from, with the versions of `constraints.txt`, and removes
what was there. torchvision needs NumPy and Pillow, so they are there; OpenCV alone is larger than all of these.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".gpu-wheels"
CONSTRAINTS = ROOT / "constraints.txt"
MAX_MB = 60

NAMES = (
    # what transformers runs on, and judges that write JSON
    *("transformers", "tokenizers", "safetensors", "huggingface-hub", "regex", "pyyaml", "tqdm", "packaging"),
    *("accelerate", "psutil", "peft", "llguidance", "filelock", "fsspec", "typer", "click", "shellingham"),
    *("annotated-doc", "httpcore", "h11", "anyio", "idna", "certifi", "truststore"),
    *("httpx2", "httpcore2"),
    # the base install
    *("jinja2", "markupsafe", "jsonschema", "jsonschema-specifications", "referencing", "rpds-py", "attrs"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    *("rich", "markdown-it-py", "mdurl", "pygments", "tenacity"),
    # the tests
    *("pytest", "pluggy", "iniconfig", "hypothesis", "sortedcontainers"),
)

_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 24, 17, 12)]
_PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]


def pinned(names: Sequence[str]) -> list[str]:
    """`name==version` by `constraints.txt`. Raises `SystemExit` for a name that it does not pin."""
    versions = dict(re.findall(r"^([a-z0-9-]+)==(\S+)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE))
    if missing := [name for name in names if name not in versions]:
        raise SystemExit(f"constraints.txt pins no version of {', '.join(missing)}")
    return [f"{name}=={versions[name]}" for name in names]


def download(python: str, names: Sequence[str], folder: Path = FOLDER) -> int:
    """Fill the folder. Returns the bytes of all wheels."""
    shutil.rmtree(folder, ignore_errors=True)
    platforms = [f"--platform={platform}" for platform in _PLATFORMS]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={folder}"]
    pip += [f"--python-version={python}", "--implementation=cp", *platforms, *pinned(names)]
    subprocess.run(pip, check=True)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != len(names):
        raise SystemExit(f"{len(names)} distributions are {len(wheels)} wheels in {folder}: one of each is needed")
    return sum(wheel.stat().st_size for wheel in wheels)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make gpu-wheels", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default="3.12", help="version of the machine's Python")
    parser.add_argument("--add", nargs="*", default=[], metavar="NAME", help="what the machine lacks besides")
    options = parser.parse_args()
    size = download(options.python, [*NAMES, *options.add])
    commit = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    (FOLDER / "commit").write_text(subprocess.check_output(commit, cwd=ROOT, text=True), encoding="utf-8")
    sys.stdout.write(f"{len(NAMES) + len(options.add)} wheels, {size / 1e6:.1f} MB, in {FOLDER.name}\n")
    if size > MAX_MB * 1e6 and not options.add:
        raise SystemExit(f"they should be {MAX_MB} MB at most")


if __name__ == "__main__":
    main()
