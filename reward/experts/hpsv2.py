"""HPSv2: human preference among images for a prompt (Wu et al., "Human Preference Score v2", 2023)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.clip_towers import CosineRater, Vector, embed_images
from .loading.hub_files import find_file
from .loading.open_clip import PaddedImageProcessor, clip_names
from .loading.state_dicts import check_load_options, load_state, read_state

FILE = "HPS_v2.1_compressed.pt"


class Hpsv2Weights:
    """Loads a file of open_clip's ViT-H-14 into transformers' `CLIPModel`."""

    @staticmethod
    def from_pretrained(
        name: str, *, base: str, revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError for another kind of file."""
        import torch
        import transformers

        check_load_options(**{key: value for key, value in options.items() if key != "output_loading_info"})
        state = clip_names(read_state(find_file(name, FILE, revision)))
        config = transformers.CLIPConfig.from_pretrained(base)
        with torch.device("meta"):
            model = transformers.CLIPModel(config)
        info = load_state(model, state)
        return model.to(dtype).eval(), info


class Hpsv2(CosineRater):
    """Answers `Rate` of "preference" with the cosine of image and prompt, as github.com/tgxs002/HPSv2 computes it.

    The authors' tables show it times 100: 0.27 here is 27 there. Ratings are comparable for one prompt; those of
    versions 2.0 and 2.1 are on different scales. Images are resized to 224 pixels on the longer side and padded with
    black. Sources are ignored: an edit is rated like any image, by a prompt that describes the image.

    name: a folder with `HPS_v2.1_compressed.pt`, a file (`HPS_v2_compressed.pt` for version 2.0), or a model on the
    hub. base: a CLIP ViT-H/14 in transformers' format, for configuration and tokenizer. truncate_prompt: whether
    prompts longer than the model's limit (77 tokens) are truncated, as the authors do; else such a query fails. A query
    without a prompt fails. antialias: whether downscaling is antialiased, as in the authors' code with torchvision 0.17
    and later; earlier versions gave other ratings. cache_bytes: for vectors of recent images and prompts (4 KB each).
    The authors compute in float16 on a GPU; the default here is float32.
    """

    loader = Hpsv2Weights
    processor = PaddedImageProcessor
    weights_file = FILE
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32", "backend": "pil"}

    def __init__(
        self,
        name: str = "xswu/HPSv2",
        *,
        base: str = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
        truncate_prompt: bool = True,
        antialias: bool = True,
        batch: int = 64,
        cache_bytes: int = 64 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        super().__init__(
            name, base=base, truncate_prompt=truncate_prompt, batch=batch, cache_bytes=cache_bytes, **loading
        )
        self.antialias = antialias

    def options_id(self) -> str:
        return " ".join(["whole prompts"] * (not self.truncate_prompt) + ["no antialias"] * (not self.antialias))

    def embed_images(self, loaded: LoadedModel, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        return embed_images(loaded, images, antialias=self.antialias)

    def scale(self, loaded: LoadedModel) -> float:
        return 1.0
