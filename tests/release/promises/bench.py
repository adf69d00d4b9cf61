"""`bench` has the photographs of the demo, and runs, reports and compares suites with any editor."""

from pathlib import Path

from .commands import PROGRAM, WITHOUT_OCR, editcritic, run_module

run_module("editcritic.benchmarks.demo", "--rows", "1", "--write", "demo")
assert "any-edit" in editcritic("score", "demo/samples.jsonl", "--reward", WITHOUT_OCR, "-o", "scores.jsonl"), PROGRAM
editcritic("audit", "demo", "--limit", "1", "--reward", "guard-not-a-copy", "--family", "blank", "-o", "audit.html")

Path("editors.py").write_text(
    "class Keep:\n"
    "    id, nfe, batch_size = 'keep', 0, 8\n"
    "    def edit(self, images, instructions, seeds, *, history=None):\n"
    "        return [sources[0] for sources in images]\n"
    "keep = Keep()\n",
    encoding="utf-8",
)
suite, experts = "sceneedit?prompts=3", "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"
editcritic("bench", "generate", suite, "--pipeline", "editors:keep", "-o", "made/kept")
for name in ("first", "second"):
    editcritic("bench", "run", suite, "--outputs", "made/kept", "-o", f"results/{name}", "--experts", experts)
editcritic("bench", "report", "results/first", "-o", "report.html")
assert "<html" in Path("report.html").read_text(encoding="utf-8").lower()
editcritic("bench", "compare", "results/first", "results/second")
