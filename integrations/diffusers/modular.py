"""Looking at edits while one of diffusers' modular pipelines makes them, which have no callbacks: blocks in the loop.

    previews = Previews(verifier, sample, at=(2, 4), stop=True)
    pipeline = with_previews(FluxKontextAutoBlocks(), previews).init_pipeline(folder)
    pipeline.load_components()
    images = pipeline(image=…, prompt=…, output="images")

Looks are scored as `callbacks.VerifierCallback` does it, and decoded by the pipeline's own blocks after the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from diffusers.modular_pipelines import (
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    PipelineState,
)
from diffusers.modular_pipelines.modular_pipeline_utils import InputParam

from ...reward import Image
from .callbacks import Previews
from .decoding import Steps

_GIVEN = ("latents", "images", "output_type")


def with_previews(blocks: Any, previews: Previews, *, workflow: str | None = "image_conditioned") -> Any:
    """A copy of a modular pipeline's blocks that looks at its rows; the pipeline made of them works as without.

    workflow: the one of `blocks.available_workflows` that is to be looked at; None for blocks that have only one way.
    Raises ValueError where there is not exactly one denoising loop in it, or nothing after it that makes `images`.
    """
    found = deepcopy(blocks)
    ways = found.get_execution_blocks() if workflow is None else found.get_workflow(workflow)
    order = list(ways.sub_blocks.values())
    loops = [number for number, block in enumerate(order) if isinstance(block, LoopSequentialPipelineBlocks)]
    if len(loops) != 1:
        raise ValueError(f"{type(blocks).__name__} has {len(loops)} denoising loops in {workflow!r}, expected one")
    loop, after = order[loops[0]], order[loops[0] + 1 :]
    if not any(out.name == "images" for block in after for out in block.intermediate_outputs):
        raise ValueError(f"{type(blocks).__name__} decodes nothing after its loop: give it blocks that make images")
    for name, block in loop.sub_blocks.items():
        loop.sub_blocks[name] = LookingBlock(block, previews, after)
    return found


class LookingBlock(ModularPipelineBlocks):
    """A block of a denoising loop and, if it takes the scheduler's step, a look at what is expected after it.

    Once the previews are given up it does nothing any more. after: blocks that make `images` of the loop's latents.
    """

    def __init__(self, block: Any, previews: Previews, after: Sequence[Any]) -> None:
        super().__init__()
        self._block = block
        self._previews = previews
        self._after = after
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
        """The block's, and what decoding takes from before the loop."""
        own = list(self._block.inputs)
        names = dict.fromkeys(one.name for block in self._after for one in block.inputs if one.name)
        return own + [InputParam(name) for name in names if name not in (*_GIVEN, *(one.name for one in own))]

    @property
    def intermediate_outputs(self) -> list[Any]:
        return list(self._block.intermediate_outputs)

    def __call__(self, components: Any, block_state: Any, i: int, t: Any) -> tuple[Any, Any]:
        """Step `i`, from 0."""
        previews = self._previews
        if i > 0 and previews.stopped is not None:
            return components, block_state
        with Steps(components.scheduler) as steps:
            components, block_state = self._block(components, block_state, i=i, t=t)
            latents = block_state.latents
            if steps.taken and previews.wants(i + 1, len(latents), len(block_state.timesteps)):
                expected = steps.expected
                if previews.look(expected, lambda: self._decoded(components, block_state, expected)):
                    block_state.latents = expected.to(latents)
        return components, block_state

    def _decoded(self, components: Any, block_state: Any, latents: Any) -> list[Image]:
        state = PipelineState()
        for name, value in block_state.as_dict().items():
            state.set(name, value)
        state.set("latents", latents)
        state.set("output_type", "pil")
        for block in self._after:
            components, state = block(components, state)
        return [Image.of(picture) for picture in state.get("images")]
