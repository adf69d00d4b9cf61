"""docs/models.md is up to date, and its names work."""

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from editcritic.cli.options import Experts
from editcritic.reward import Expert, build, load_experts, spec_of
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.loading.model_registry import Bundle, bundles, registered_models

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
sys.path.insert(0, str(PAGE.parent))
try:
    models_page = import_module("reference.models_page")
finally:
    sys.path.pop(0)


def test_the_page_is_up_to_date() -> None:
    hint = "write it again: python docs/reference/models_page.py --write docs/models.md"
    assert PAGE.read_text(encoding="utf-8") == models_page.page(), hint


@pytest.mark.parametrize("name", registered_models())
def test_what_stands_in_the_first_column_can_be_typed(name: str) -> None:
    assert f"| `{name}` |" in PAGE.read_text(encoding="utf-8")
    expert = build(name, "editcritic.experts")
    assert isinstance(expert, Expert)
    weights = expert if isinstance(expert, LocalExpert) else getattr(expert, "judge_expert", None)
    assert isinstance(weights, LocalExpert)
    assert weights.name == (registered_models()[name].checkpoint or registered_models()[name].weights)


def test_the_table_of_bundles_is_up_to_date() -> None:
    hint = "write it again: python docs/reference/models_page.py --bundles"
    assert "\n".join(models_page.bundle_table()) in (PAGE.parent / "experts.md").read_text(encoding="utf-8"), hint


def test_the_readme_and_the_help_agree_with_the_tables() -> None:
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    table = readme.partition("| bundle |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    told = {name.strip("`"): (download, memory) for names, _, download, memory, _ in rows for name in names.split(", ")}
    assert len(told) == 7
    for name, (download, memory) in told.items():
        facts = models_page.bundle_facts(bundles()[name])
        assert (facts["download"].casefold() in download.casefold(), facts["memory"] in memory) == (True, True), name
    assert f"a bundle ({', '.join(bundles())})" in get_args(Experts)[1].help
    adapters = readme.partition(" | adapters |")[0].rpartition("| ")[2].split(", ")
    trainers = (PAGE.parent / "trainers.md").read_text(encoding="utf-8").partition("\n\n|")[2].partition("\n\n")[0]
    supported = re.findall(r"^\| \[(.+?)\]\([^|]*\| (?!nothing)", trainers, re.MULTILINE)
    assert sorted(adapters) == sorted({*supported} - {"TRL"})


@pytest.mark.parametrize("bundle", bundles().values(), ids=lambda bundle: bundle.name)
def test_the_memory_of_a_bundle_is_that_of_its_machine(bundle: Bundle) -> None:
    experts = load_experts(bundle.own_roles)
    for expert in experts.values():  # or its memory would depend on the machine
        assert not isinstance(expert, LocalExpert) or expert.dtype != "auto"
    weights, kept = models_page.memory_use(experts)
    left = bundle.gpu_gb * 10**9 - weights - kept - bundle.passes_gib * 2**30
    assert left >= 0.5 * 10**9 or not bundle.gpu_gb  # a process and its libraries take about half a gigabyte of a GPU
    assert bool(weights) == bool(bundle.gpu_gb) or bundle.name == "laptop"


def test_the_lines_of_the_page_bind_what_the_bundles_bind() -> None:
    """What stands in the page's lines binds the same experts."""
    page = models_page.page()
    for bundle in bundles().values():
        if bundle.own_roles:
            line = page.partition(f"# {bundle.name}\n")[2].partition("\n")[0]
            typed, own = load_experts(line), load_experts(bundle.own_roles)
            assert {role: spec_of(expert) for role, expert in typed.items()} == {
                role: spec_of(expert) for role, expert in own.items()
            }


def test_shared_weights_are_counted_once_and_quantised_ones_as_such() -> None:
    one = models_page.memory_use(load_experts("a=dinov2-base"))
    both = models_page.memory_use(load_experts("a=dinov2-base b=dinov2-base?size=448"))
    assert both == (one[0], 2 * one[1])
    small = models_page.memory_use(load_experts("a=qwen2.5-vl-7b?dtype=bfloat16&quantisation=nf4"))
    assert small[0] == registered_models()["qwen2.5-vl-7b"].weight_bytes("nf4")


def test_a_model_of_unknown_size_is_no_bundle() -> None:
    with pytest.raises(ValueError, match="somebody/something is not in model_registry"):
        models_page.memory_use(load_experts("judge=vlm:somebody/something"))


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["models_page", "--write", str(tmp_path / "models.md")])
    models_page.main()
    assert (tmp_path / "models.md").read_text(encoding="utf-8") == models_page.page()
