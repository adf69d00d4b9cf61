import json
from pathlib import Path

import pytest

from ..human_eval.label_files import write
from .synthetic_results import Drawn, outputs, scored


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Results of two editors; the second records its outputs folder."""
    suite = Drawn(count=5)
    write(tmp_path / "results" / "good", scored(suite, "good", 0.9))
    second = write(tmp_path / "results" / "bad", scored(suite, "bad", 0.3))
    pictures = outputs(tmp_path / "pictures", suite, 0.3)
    (second / "run.json").write_text(json.dumps({"invocation": {"outputs": str(pictures)}}))
    return tmp_path / "results"
