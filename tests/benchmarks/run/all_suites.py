"""Every suite, small and in its published layout, judged by processes: `python -m … FOLDER share|ray`.

`share` is one of several processes that torchrun has started (or the only one), `ray` a local cluster of two workers.
Results go to FOLDER/two or FOLDER/ray, a folder a suite.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from editcritic.benchmarks.suite_run.asked import How
from editcritic.benchmarks.suite_run.loading import load_suite
from editcritic.benchmarks.suite_run.raying import Cluster, carry_out_with_ray
from editcritic.benchmarks.suite_run.recipe import Recipe
from editcritic.benchmarks.suite_run.running import carry_out
from editcritic.benchmarks.suite_run.sharing import Share
from editcritic.reward import Expert, Grade, Judge, Levels, Reply, YesNo
from editcritic.reward.reward import no_download

from ..suites.complexedit import layout as complexedit
from ..suites.dlebench import published
from ..suites.edival import layout as edival
from ..suites.i2ibench import written as i2ibench
from ..suites.toy import outputs

SUITES: Mapping[str, str] = {
    "complex-edit": "complex-edit?levels=1,8&mode=expected",
    "dlebench": "dlebench?mode=plain",
    "edival": "edival?vq=false",
    "i2ibench": "i2ibench",
    "sceneedit": "sceneedit?prompts=9",
}
EVERYBODY = "tests.benchmarks.suite_run.every_suite:everybody"
LOOKERS = "editcritic.benchmarks.sceneedit.critics:experts"


class Drawn(Expert):
    """Answers in whatever form is asked for, by the digest of the question; where that is text, a label of DLEBench."""

    id = "drawn@1"
    kinds = (Judge,)

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        return [_drawn(query) for query in queries]


def _drawn(query: Judge) -> Reply:
    share, form = int(query.digest[:8], 16) / 2**32, query.form
    match form:
        case YesNo():
            options: Sequence[str] = ("yes", "no")
        case Levels():
            options = form.options
        case Grade():
            options = [str(grade) for grade in range(form.low, form.high + 1)]
        case _:
            label = ("Wrong Action", "Flawless Execution", "Single Anomaly", "Perfect Consistency")[int(4 * share)]
            return Reply(f"<Start Thinking>.</Start Thinking><Start Final Answer>{label}</Start Final Answer>")
    chosen = int(share * len(options))
    left = (1 - share) / (len(options) - 1)
    return Reply(options[chosen], {one: share if at == chosen else left for at, one in enumerate(options)})


def everybody() -> dict[str, Expert]:
    """Those that need no download, and a judge without knowledge."""
    return {**no_download(), "judge": Drawn()}


def write(folder: Path) -> None:
    """Data and outputs of all suites; an editor's pictures are noise, or what SceneEdit's editors drew."""
    chained = edival.chains(4)
    edival.write_data(folder / "edival", chained)
    edival.write_outputs(folder / "made" / "edival", chained)
    complexedit.on_hub(folder / "complex-edit")
    complexedit.outputs(folder / "made" / "complex-edit")
    published.written(folder / "dlebench", 6)
    i2ibench.written(folder / "i2ibench", i2ibench.rows()[:12])
    for name in ("dlebench", "i2ibench", "sceneedit"):
        asked = recipe(folder, name)
        outputs(folder / "made" / name, load_suite(asked.suite, asked.data))


def recipe(folder: Path, name: str) -> Recipe:
    """Of a suite."""
    data = None if name == "sceneedit" else folder / name
    asked = LOOKERS if name in ("edival", "sceneedit") else EVERYBODY
    return Recipe(SUITES[name], data, folder / "made" / name, "mine", (asked,), draws=50)


HOW = How(on_failures="none")


def main(folder: Path, way: str) -> None:
    if way == "share":
        share = Share.of(os.environ)
        for name in SUITES:
            carry_out(recipe(folder, name).asked(), HOW, out=folder / "two" / name, share=share)
        return
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    for name in SUITES:
        carry_out_with_ray(recipe(folder, name), HOW, Cluster(workers=2, cpus=0.5), out=folder / "ray" / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
