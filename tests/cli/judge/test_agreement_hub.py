"""A preference set is fetched from the hub by the hub's own library, and then read from its cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

from ...benchmarks.suites.construction.file_server import served
from ...benchmarks.suites.human_preferences import layouts

NEEDS = ("huggingface_hub",)
ROOT = Path(__file__).parents[3]


def test_a_set_of_the_hub_is_downloaded_when_asked_and_then_read_from_the_cache(tmp_path: Path) -> None:
    place = layouts.genai_on_hub(tmp_path / "published")
    layouts.write_rows(place / "image_generation" / "test_v1-00000-of-00001.parquet", layouts.vc_reward_rows())
    files = {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    command = [sys.executable, "-c", "from editcritic.cli.main import main; main()", "judge", "agreement"]
    command += ["--reward", layouts.BRIGHT, "--json", "--bootstrap-samples", "100", "--set"]
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    environment.pop("HF_HUB_CACHE", None)

    def run(argument: str, *more: str, **settings: str) -> subprocess.CompletedProcess[str]:
        # in a process of its own: the hub's library reads its settings once, and here it is kept from the network
        return subprocess.run(
            [*command, argument, *more],
            env={**environment, **settings},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    before = run("genai-bench", HF_HUB_OFFLINE="1")
    assert before.returncode == 2
    assert "TIGER-Lab/GenAI-Bench is not in the hub's cache: give its folder, or --download" in before.stderr

    with served(files, hub=True) as server:
        online = {"HF_ENDPOINT": server.url().rstrip("/"), "HF_HUB_OFFLINE": "0"}
        downloaded = run("genai-bench", "--download", **online)
        fetched = [path for path, _ in server.requests if "/resolve/" in path]
    assert downloaded.returncode == 0, downloaded.stderr
    assert fetched
    assert not any("image_generation" in path for path in fetched)  # the editing part alone

    cached = run("genai-bench", HF_HUB_OFFLINE="1")
    local = run(f"genai-bench={place}", HF_HUB_OFFLINE="1")
    figures = [json.loads(result.stdout)["sets"][0]["tables"] for result in (downloaded, cached, local)]
    assert figures[0] == figures[1] == figures[2]
    assert figures[0][0]["rows"]["accuracy with ties"]["brightness"]["value"] == 0.5


def test_a_data_set_saved_to_disk_is_read_too(tmp_path: Path) -> None:
    import datasets

    from editcritic.benchmarks.suites.human_preferences.catalogue import read_edit_score_bench

    layouts.write_rows(tmp_path / "hub/train-00000-of-00001.parquet", layouts.edit_score_rows())
    dataset = datasets.Dataset.from_list(layouts.edit_score_rows())
    dataset = dataset.cast_column("input_image", datasets.Image())
    dataset = dataset.cast_column("output_images", datasets.Sequence(datasets.Image()))
    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": dataset}).save_to_disk(str(tmp_path / "saved"))
    plain, saved = (list(read_edit_score_bench(tmp_path / name)) for name in ("hub", "saved"))
    assert plain == saved
    dataset.to_parquet(str(tmp_path / "written" / "train-00000-of-00001.parquet"))
    assert list(read_edit_score_bench(tmp_path / "written")) == plain
