"""Every suite, small and in its published layout, scored by several processes: `python -m … FOLDER share|ray`.

`share` is one of several processes that torchrun has started (or the only one), `ray` a local cluster of two workers.
Results go to FOLDER/two or FOLDER/ray, a folder a suite.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from editcritic.benchmarks.run.ray_cluster import RayCluster
from editcritic.benchmarks.run.ray_runner import execute_with_ray
from editcritic.benchmarks.run.run_config import RunConfig
from editcritic.benchmarks.run.run_journal import ProcessRank
from editcritic.benchmarks.run.run_settings import RunSettings
from editcritic.benchmarks.run.runner import execute
from editcritic.benchmarks.run.suite_loading import load_suite
from editcritic.reward import Expert
from editcritic.reward.metrics.dlebench.conversation import CONSISTENCY, FOLLOWING
from editcritic.reward.queries import Grade, Judge, Levels, Reply, YesNo
from editcritic.reward.queries.response_formats import Json
from editcritic.reward.reward import default_experts

from ..suites.complexedit import layout as complexedit
from ..suites.dlebench import layout
from ..suites.edival import layout as edival
from ..suites.gedit import layout as gedit
from ..suites.i2ibench import layout as i2ibench
from ..suites.imgedit import layout as imgedit
from ..suites.tiny_suite import Replying, outputs

SUITES: Mapping[str, str] = {
    "complex-edit": "complex-edit?levels=1,8&mode=expected",
    "dlebench": "dlebench?mode=plain",
    "edival": "edival?vq=false",
    "gedit": "gedit",
    "i2ibench": "i2ibench",
    "imgedit": "imgedit",
    "sceneedit": "sceneedit?prompts=9",
}
EVERYBODY = "tests.benchmarks.run.all_suites:everybody"
LOOKERS = "editcritic.benchmarks.sceneedit.scene_experts:scene_experts"


def _drawn(query: Judge) -> Reply:
    """In the requested response format, by the digest of the query; in JSON, the grades of VIEScore and of
    Complex-Edit; for free text, a label of the criterion of DLEBench."""
    if query.topic.startswith("imgedit/"):
        return imgedit.reply_to(query)
    share, form = int(query.digest[:8], 16) / 2**32, query.form
    match form:
        case YesNo():
            options: Sequence[str] = ("yes", "no")
        case Levels():
            options = form.options
        case Grade():
            options = [str(grade) for grade in range(form.low, form.high + 1)]
        case Json():
            first, second = int(11 * share), int(1100 * share) % 11
            grades: dict[str, object] = {"score": [first, second]}
            if query.topic == "complexedit/alignment":
                grades = {"instruction_following": first, "identity_preservation": second}
            return Reply(json.dumps({"reasoning": ".", **grades}))
        case _:
            scale = CONSISTENCY if "consistency" in query.topic else FOLLOWING
            label = scale.labels[int(4 * share)]
            return Reply(f"<Start Thinking>.</Start Thinking><Start Final Answer>{label}</Start Final Answer>")
    chosen = int(share * len(options))
    left = (1 - share) / (len(options) - 1)
    return Reply(options[chosen], {one: share if at == chosen else left for at, one in enumerate(options)})


def everybody() -> dict[str, Expert]:
    """Those that need no download, and a judge without knowledge."""
    return {**default_experts(), "judge": Replying(_drawn, "drawn@1")}


def write(folder: Path) -> None:
    """Data and outputs of all suites; an editor's pictures are noise, or what SceneEdit's editors drew."""
    chained = edival.chains(4)
    edival.write_data(folder / "edival", chained)
    edival.write_outputs(folder / "made" / "edival", chained)
    complexedit.on_hub(folder / "complex-edit")
    complexedit.outputs(folder / "made" / "complex-edit")
    gedit.on_hub(folder / "gedit", gedit.rows(keys=1))
    gedit.outputs(folder / "made" / "gedit", keys=1)
    layout.written(folder / "dlebench", 6)
    i2ibench.written(folder / "i2ibench", i2ibench.rows()[:12])
    imgedit.repository(folder / "imgedit")
    for name in ("dlebench", "i2ibench", "imgedit", "sceneedit"):
        outputs(folder / "made" / name, load_suite(SUITES[name], recipe(folder, name).data))


def recipe(folder: Path, name: str, way: str = "one") -> RunSettings:
    """Of a suite."""
    data = None if name == "sceneedit" else folder / name
    experts = LOOKERS if name in ("edival", "sceneedit") else EVERYBODY
    return RunSettings(
        suite=SUITES[name], data=data, outputs=folder / "made" / name, out=folder / way / name, editor_name="mine",
        experts=(experts,), bootstrap_samples=50, on_failures="none",
    )  # fmt: skip


HOW = RunSettings(on_failures="none")

RAY_SUITES = ("edival", "sceneedit")
"""Judged on a cluster, too: one whose cases are chains and whose data is a folder, and one without data. How a reader
reads is no matter of who starts it."""


def main(folder: Path, way: str) -> None:
    if way == "share":
        share = ProcessRank.from_environment(os.environ)
        for name in SUITES:
            execute(RunConfig.build(recipe(folder, name, "two")), process=share)
        return
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    for name in RAY_SUITES:
        execute_with_ray(recipe(folder, name, "ray").overridden({"ray": RayCluster(workers=2, cpus=0.5)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
