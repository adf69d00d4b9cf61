"""The library `datasets` reads what was made, pictures and all."""

from pathlib import Path

import PIL.Image

from ..complexedit.test_construction import made
from .scripted_experts import photographs


def test_datasets_reads_it_with_pictures_decoded(tmp_path: Path) -> None:
    import datasets

    report, _ = made(photographs(tmp_path / "photos", count=2, side=48), tmp_path / "data")
    rows = datasets.Dataset.from_parquet(str(report.files[0]), cache_dir=str(tmp_path / "cache"))
    assert isinstance(rows[0]["image"], PIL.Image.Image)
    assert rows[0]["edit"]["compound"][0]["compound_instruction"].startswith("Add a lantern")
