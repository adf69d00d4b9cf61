"""Libraries of extras: they take no settings of the working folder."""

import subprocess
import sys

DRAW = """
from pathlib import Path
from types import SimpleNamespace as Made
from editcritic.benchmarks.human_eval.scaling_tables import draw
cell = Made(value=1.0, low=0.5, high=1.5)
table = Made(cells={r"$\\frac{": {"direct": cell}}, table=Made(title="$"))
draw(Path("plot.png"), [table], ["direct"])
"""


def test_charts_run_no_latex_of_a_stranger_and_draw_any_text(tmp_path):
    latex = tmp_path / "bin" / "latex"
    latex.parent.mkdir()
    latex.write_text("#!/bin/sh\ntouch was-run\nexit 1\n")
    latex.chmod(0o755)
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\ntext.latex.preamble: \\input{secret}\n")
    ran = subprocess.run(
        [sys.executable, "-c", DRAW],
        cwd=tmp_path,
        env={"PATH": str(latex.parent), "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "plot.png").exists()
    assert not list(tmp_path.rglob("was-run"))
