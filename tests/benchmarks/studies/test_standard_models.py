"""The models that throughput is measured with are those of the bundle, and answer its queries."""

from __future__ import annotations

import pytest
import torch
import transformers

from editcritic.benchmarks.studies.performance.standard_models import standard_models
from editcritic.benchmarks.studies.performance.throughput import _QUERIES, measure
from editcritic.reward.experts.loading.bundles import bundles

from ...reward.experts.loading.test_model_sizes import PUBLISHED

MODELS = {"detector": "mm-grounding-dino-base", "features": "dinov2-large", "judge": "qwen3-vl-8b"}
SPELLED = ("detector",)
"""Their vocabulary has letters only, and is smaller than published."""


def test_they_answer_what_they_are_measured_with() -> None:
    with standard_models(("detector", "features", "judge"), shrunk=True) as experts:
        for role, expert in experts.items():
            (row,) = measure(expert, _QUERIES[role], [2], 1e-6)
            assert row["a second"] > 0


@pytest.mark.parametrize("role", MODELS)
def test_their_shapes_are_those_published_of_the_bundle(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MODELS[role] in str(bundles()["standard"].roles[role])
    made = []
    kind, published = PUBLISHED[MODELS[role]]()

    class Stop(Exception):
        pass

    def built(self: object, config: object) -> None:
        made.append(config)
        raise Stop

    monkeypatch.setattr(kind, "__init__", built)
    with pytest.raises(Stop), standard_models((role,)):  # type: ignore[arg-type]
        pass
    with torch.device("meta"):
        monkeypatch.undo()
        sizes = [sum(weight.numel() for weight in kind(config).parameters()) for config in (*made, published)]
    vocabulary = transformers.BertConfig().vocab_size - 1040
    assert sizes[1] - sizes[0] == (768 * vocabulary if role in SPELLED else 0)
