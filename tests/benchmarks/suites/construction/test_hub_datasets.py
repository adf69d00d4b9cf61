"""A data set is fetched from the hub by the hub's own library, which comes with transformers."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from editcritic.benchmarks.making.lock import read_lock

from .serving import served
from .test_prepare import published

NEEDS = ("huggingface_hub",)


def test_a_data_set_of_the_hub_is_fetched_at_its_commit_recorded_and_opened(tmp_path: Path) -> None:
    place = published(tmp_path / "published")
    files = {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", "from editcritic.benchmarks.cli import main; main()"]
    command += ["bench", "prepare", "complex-edit", "-o", str(tmp_path / "data"), "--download", "--json"]
    with served(files, hub=True) as server:
        # in a process of its own: the hub's library reads its settings once, and here it is kept from the network
        found = subprocess.run(
            command,
            env={
                **os.environ,
                "HF_ENDPOINT": server.url().rstrip("/"),
                "HF_HUB_OFFLINE": "0",
                "HF_HOME": str(tmp_path),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert [(one["spec"], one["items"]) for one in told["opened"]] == [
        ("complex-edit", 16),
        ("complex-edit?split=test_syn", 16),
    ]
    lock = read_lock(tmp_path / "data")
    assert lock is not None
    assert lock.revision == "b0b8a81d740ae413d52572281a23dc975c4b4b91"
    assert {file.path: file.sha256 for file in lock.files} == {
        f"published/{name}": hashlib.sha256(data).hexdigest() for name, data in files.items()
    }
