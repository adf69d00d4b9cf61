"""Ways to ask experts: in an engine, rebuilt from a spec, from a checkpoint that lacks weights, with counted passes."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from editcritic.reward import EditSample, Engine, Program, Score
from editcritic.reward.config import build
from editcritic.reward.engine.program import Ask
from editcritic.reward.queries.specs import spec_of


def in_engine(expert: Any, queries: Sequence[Any], sample: EditSample | None = None) -> list[Any]:
    """The outcomes of a program that asks all queries at once, failures and abstentions included."""
    outcomes: list[Any] = []

    def program() -> Program[Score]:
        outcomes.extend((yield Ask(tuple(queries))))
        return Score.of(1.0)

    with Engine() as engine:
        assert engine.submit(program(), {queries[0].role: expert}, sample).result(timeout=120).value == 1.0
    return outcomes


def rebuilt(expert: Any) -> Any:
    return build(spec_of(expert), "editcritic.experts")


def without_weights(folder: Path | str, to: Path, part: str) -> tuple[Path, int]:
    """A copy of a checkpoint without the weights that have this in their names, and their number."""
    from safetensors.torch import load_file, save_file

    copy = Path(shutil.copytree(folder, to, dirs_exist_ok=True))
    weights = load_file(copy / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if part not in name}
    assert len(kept) < len(weights)
    save_file(kept, copy / "model.safetensors", {"format": "pt"})
    return copy, len(weights) - len(kept)


def counted_passes(
    expert: Any, parts: Mapping[str, str], axis: Mapping[str, int] | None = None
) -> dict[str, list[int]]:
    """The batch sizes of each part of a model from now on. parts: names of modules. axis: of the batch, else 0."""
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    sizes: dict[str, list[int]] = {name: [] for name in parts}
    with expert.checkpoint.use() as loaded:
        for name, path in parts.items():

            def note(_: Any, args: Any, kwargs: Any, noted: list[int] = sizes[name]) -> None:
                noted.append(next(len(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)))

            loaded.model.get_submodule(path).register_forward_pre_hook(note, with_kwargs=True)
    return sizes
