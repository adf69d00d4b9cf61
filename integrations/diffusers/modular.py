"""Previews for diffusers' modular pipelines, which have no callbacks: blocks inside the denoising loop.

    scorer = PreviewScorer(verifier, sample, preview_steps=(2, 4), stop_on_reject=True)
    pipeline = with_previews(FluxKontextAutoBlocks(), scorer).init_pipeline(folder)

Previews are decoded by the pipeline's own blocks, after the loop."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from diffusers.modular_pipelines import LoopSequentialPipelineBlocks, ModularPipelineBlocks, PipelineState
from diffusers.modular_pipelines.modular_pipeline_utils import InputParam

from ...reward import Image
from .callbacks import PreviewScorer
from .latent_decoding import SchedulerTracker
from .pipeline_calls import finite_images

_LOOP_OUTPUTS = ("latents", "images", "output_type")


def with_previews(blocks: Any, scorer: PreviewScorer, *, workflow: str | None = "image_conditioned") -> Any:
    """A copy of a modular pipeline's blocks with previews. workflow: one of `blocks.available_workflows`; None for
    blocks with a single workflow. Raises ValueError unless it has exactly one denoising loop, followed by blocks that
    produce `images`."""
    copied = deepcopy(blocks)
    execution = copied.get_execution_blocks() if workflow is None else copied.get_workflow(workflow)
    ordered = list(execution.sub_blocks.values())
    loops = [index for index, block in enumerate(ordered) if isinstance(block, LoopSequentialPipelineBlocks)]
    if len(loops) != 1:
        raise ValueError(f"{type(blocks).__name__} has {len(loops)} denoising loops in {workflow!r}, expected one")
    loop, decoding_blocks = ordered[loops[0]], ordered[loops[0] + 1 :]
    if not any(output.name == "images" for block in decoding_blocks for output in block.intermediate_outputs):
        raise ValueError(f"{type(blocks).__name__} has no decoding after its loop: add blocks that produce images")
    for name, block in loop.sub_blocks.items():
        loop.sub_blocks[name] = PreviewBlock(block, scorer, decoding_blocks)
    return copied


class PreviewBlock(ModularPipelineBlocks):
    """Scores a preview after a step, until the batch is stopped. decoding_blocks: make `images` from latents."""

    def __init__(self, block: Any, scorer: PreviewScorer, decoding_blocks: Sequence[Any]) -> None:
        super().__init__()
        self._block = block
        self._scorer = scorer
        self._decoding_blocks = decoding_blocks
        self.model_name = block.model_name

    @property
    def description(self) -> str:
        return str(self._block.description)

    @property
    def expected_components(self) -> list[Any]:
        return list(self._block.expected_components)

    @property
    def expected_configs(self) -> list[Any]:
        return list(self._block.expected_configs)

    @property
    def inputs(self) -> list[Any]:
        """Those of the block, and those that decoding needs from before the loop."""
        own = list(self._block.inputs)
        names = dict.fromkeys(
            parameter.name for block in self._decoding_blocks for parameter in block.inputs if parameter.name
        )
        return own + [
            InputParam(name) for name in names if name not in (*_LOOP_OUTPUTS, *(parameter.name for parameter in own))
        ]

    @property
    def intermediate_outputs(self) -> list[Any]:
        return list(self._block.intermediate_outputs)

    def __call__(self, components: Any, block_state: Any, i: int, t: Any) -> tuple[Any, Any]:
        """Step `i`, from 0."""
        scorer = self._scorer
        if i > 0 and scorer.stopped_at is not None:
            return components, block_state
        with SchedulerTracker(components.scheduler) as tracker:
            components, block_state = self._block(components, block_state, i=i, t=t)
            latents = block_state.latents
            if tracker.has_stepped and scorer.is_due(i + 1, len(latents), len(block_state.timesteps)):
                expected = tracker.pred_original_sample
                if scorer.score_previews(expected, lambda: self._decode(components, block_state, expected)):
                    block_state.latents = expected.to(latents)
        return components, block_state

    def _decode(self, components: Any, block_state: Any, latents: Any) -> list[Image | str]:
        state = PipelineState()
        for name, value in block_state.as_dict().items():
            state.set(name, value)
        state.set("latents", latents)
        state.set("output_type", "pil")
        with finite_images(components) as images_or_reasons:
            for block in self._decoding_blocks:
                components, state = block(components, state)
        return images_or_reasons(state.get("images"))
