"""HPSv2: which of several pictures for a prompt do people prefer? (Wu et al., "Human Preference Score v2", 2023)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import Unpack

from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.clip_towers import Nearness, Vector, of_pictures
from ..models.open_clip import WholePictures, clip_names
from ..models.published import find_file
from ..models.states import fill, only_plain, read_state

FILE = "HPS_v2.1_compressed.pt"


class Hpsv2Weights:
    """Loads a file of open_clip's ViT-H-14 into transformers' `CLIPModel`."""

    @staticmethod
    def from_pretrained(
        name: str, *, base: str, revision: str | None = None, dtype: Any = None, **options: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The model in evaluation mode, and loading info. Raises ValueError where it is another kind of file."""
        import torch
        import transformers

        only_plain(**{key: value for key, value in options.items() if key != "output_loading_info"})
        state = clip_names(read_state(find_file(name, FILE, revision)))
        config = transformers.CLIPConfig.from_pretrained(base)
        with torch.device("meta"):
            model = transformers.CLIPModel(config)
        info = fill(model, state)
        return model.to(dtype).eval(), info


class Hpsv2(Nearness):
    """Answers `Rate` of "preference" by the cosine of picture and prompt, as github.com/tgxs002/HPSv2 computes it.

    The authors' tables show it times 100: 0.27 here is 27 there. Ratings compare pictures for one prompt; those of
    versions 2.0 and 2.1 are not on one scale. Pictures are seen whole, made 224 pixels on the longer side and filled
    up with black. Sources are passed over: an edit is rated like any picture, by what the prompt says it shows.

    name: a folder with `HPS_v2.1_compressed.pt`, a file (`HPS_v2_compressed.pt` for version 2.0), or a model on the
    hub. base: a CLIP ViT-H/14 in transformers' format, of which configuration and tokenizer are read. cut: whether only
    the beginning of a prompt that is longer than the model reads (77 tokens) is read, as the authors do; else such a
    query fails. A query without a prompt fails. antialias: whether pictures are smoothed when they are made smaller, as
    the authors' code has it with torchvision 0.17 and later; before, it had not, and ratings came out otherwise.
    limit_bytes: for vectors of recent pictures and prompts (4 KB each).
    The authors compute in float16 where there is a GPU; here it is float32 unless `dtype` says otherwise.
    """

    loader = Hpsv2Weights
    processor = WholePictures
    weights_file = FILE
    usual: ClassVar[Loading] = {"dtype": "float32", "backend": "pil"}

    def __init__(
        self,
        name: str = "xswu/HPSv2",
        *,
        base: str = "laion/CLIP-ViT-H-14-laion2B-s32B-b79K",
        cut: bool = True,
        antialias: bool = True,
        batch: int = 64,
        limit_bytes: int = 64 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        super().__init__(name, base=base, cut=cut, batch=batch, limit_bytes=limit_bytes, **loading)
        self.antialias = antialias

    def options_id(self) -> str:
        return " ".join(["whole prompts"] * (not self.cut) + ["no antialias"] * (not self.antialias))

    def pictures(self, loaded: Loaded, images: Sequence[Image]) -> list[tuple[Vector, int]]:
        return of_pictures(loaded, images, antialias=self.antialias)

    def scale(self, loaded: Loaded) -> float:
        return 1.0
