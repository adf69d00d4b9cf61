"""Options of commands that load an editor or experts; what they mean is the business of `pipelines.Named`, and of
`reward.load_experts`.
"""

from __future__ import annotations

from typing import Annotated

import typer

Setting = Annotated[
    list[str] | None,
    typer.Option("--setting", help="Of the pipeline's call, as in num_inference_steps=20; may be repeated."),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Pictures a call of the pipeline.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="Of the weights. Default: bfloat16 on a GPU, else float32.")]
Device = Annotated[str | None, typer.Option("--device", help="As in cuda:1. Default: the GPU, if any.")]
Download = Annotated[bool, typer.Option("--download", help="Ask the hub for what is not on this machine.")]
Experts = Annotated[
    list[str] | None,
    typer.Option(
        "--experts",
        help="Who is asked: `role=spec role=spec`, as in `detector=grounding-dino-tiny judge=openai:http://HOST/v1`; a "
        "TOML file; or module:function that returns role -> expert. May be repeated. Default: those that need no "
        "download.",
    ),
]
