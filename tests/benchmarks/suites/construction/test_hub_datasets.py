"""A data set is fetched from the hub by the hub's own library, which comes with transformers."""

import hashlib
import json
import os
import subprocess
import sys

from editcritic.benchmarks.suites.construction.download import read_lock

from ...run.test_data_preparation import published
from .file_server import served

NEEDS = ("huggingface_hub",)


def test_a_data_set_of_the_hub_is_fetched_at_its_commit_recorded_and_opened(tmp_path):
    place = published(tmp_path / "published")
    files = {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", "from editcritic.cli.main import main; main()"]
    command += ["bench", "prepare", "complex-edit", "-o", str(tmp_path / "data"), "--download", "--json"]
    with served(files, hub=True) as server:
        # in a process of its own: the hub's library reads its settings once, and here it is kept from the network
        result = subprocess.run(
            command,
            env=os.environ | {"HF_ENDPOINT": server.url().rstrip("/"), "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert [(one["suite_spec"], one["items"]) for one in document["opened_suites"]] == [
        ("complex-edit", 16),
        ("complex-edit?split=test_syn", 16),
    ]
    lock = read_lock(tmp_path / "data")
    assert lock is not None
    assert lock.revision == "b0b8a81d740ae413d52572281a23dc975c4b4b91"
    assert {file.path: file.sha256 for file in lock.files} == {
        f"published/{name}": hashlib.sha256(data).hexdigest() for name, data in files.items()
    }
