"""The models that throughput is measured with are those of the bundles, and answer its queries."""

from __future__ import annotations

import pytest
import torch
import transformers

from editcritic.reward.experts.loading.model_registry import bundles
from studies.performance.random_models import BUNDLES, Bundle, Role, bundle_models, model_roles
from studies.performance.throughput import QUERIES, measure
from tests.reward.experts.loading.test_model_sizes import PUBLISHED

MODELS: dict[tuple[Bundle, Role], str] = {
    ("laptop", "detector"): "mm-grounding-dino-tiny",
    ("laptop", "features"): "dinov2-small",
    ("small", "detector"): "mm-grounding-dino-tiny",
    ("small", "features"): "dinov2-base",
    ("small", "judge"): "qwen3-vl-2b",
    ("standard", "detector"): "mm-grounding-dino-base",
    ("standard", "features"): "dinov2-large",
    ("standard", "judge"): "qwen3-vl-8b",
}
SPELLED = ("detector",)
"""Their vocabulary has letters only, and is smaller than published."""


@pytest.mark.parametrize("bundle", BUNDLES)
def test_they_answer_what_they_are_measured_with(bundle: Bundle) -> None:
    with bundle_models(bundle, model_roles(bundle), shrunk=True) as experts:
        for role, expert in experts.items():
            alone, batch = measure(expert, QUERIES[role], [1, 2], 1e-6)
            assert batch["a second"] > 0
            # The work of a question does not depend on how many are asked at once, but for the padding.
            assert alone["GFLOP"] == pytest.approx(batch["GFLOP"], rel=0.1)
            assert alone["GFLOP"] > 0
            assert alone.get("tokens", 0) == pytest.approx(batch.get("tokens", 0), rel=0.1)
            assert ("tokens" in alone) == (role == "judge")


@pytest.mark.parametrize(("bundle", "role"), MODELS)
def test_their_shapes_are_those_published_of_the_bundle(
    bundle: Bundle, role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS[bundle, role]
    assert model in str(bundles()[bundle].roles[role])
    made = []
    kind, published = PUBLISHED[model]()

    class Stop(Exception):
        pass

    def built(self: object, config: object) -> None:
        made.append(config)
        raise Stop

    monkeypatch.setattr(kind, "__init__", built)
    with pytest.raises(Stop), bundle_models(bundle, (role,)):
        pass
    with torch.device("meta"):
        monkeypatch.undo()
        sizes = [sum(weight.numel() for weight in kind(config).parameters()) for config in (*made, published)]
    vocabulary = transformers.BertConfig().vocab_size - 1040
    assert sizes[1] - sizes[0] == (768 * vocabulary if role in SPELLED else 0)
