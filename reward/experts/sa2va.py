"""Sa2va: masks for commands in words, by Sa2VA (Yuan et al., 2025): a vision-language model that has SAM 2 draw.

Facts from github.com/bytedance/Sa2VA. The model is run by code that its checkpoint brings, which nobody here has read
for you: it has to be allowed.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..models.checkpoint import Loaded, Loading
from ..models.local import LocalExpert
from ..models.own_code import NoWords, OwnCode, is_pinned, running
from ..outcomes import Failure
from ..query import Mask, Segment

_DRAWN = "[SEG]"
"""What Sa2VA says where it has a mask drawn."""
_PICTURE = "<image>"
"""Where the picture stands in what it is told."""
_MARKS = re.compile(r"<\|[^|<>]*\|>|</?s>")
"""Ends of turns, which it does not leave out of what it says."""


class Sa2va(LocalExpert[Mask | Failure]):
    """Answers `Segment`, one query at a time.

    name: a folder or a model on the hub. trust_remote_code: allows the code that comes with the checkpoint to be run,
    which its `config.json` names under `auto_map`; without it every question is answered by `ExpertDown`, which says
    what would be run. With a name on the hub give `revision` a commit's full hash, which pins code and weights: there
    is a warning otherwise. batch: queries in one call; the model takes them one by one. loading: see `Loading`; `dtype`
    is bfloat16, which the published code is fixed to, and `device_map` and `quantisation` are not to be had.

    The command is told as it is; a bare name gets `Please segment` before it. The mask is the union of all that are
    drawn, as in the authors' evaluation. Where the answer draws none (no `[SEG]` in it), there is no such thing, and
    the mask is empty; `meter` counts these answers as `drew_nothing`. A query fails where words and masks do not go
    together, and where nothing is said at all; what was said is kept in the failure. Scores are 1: the model does not
    say how sure it is.

    The published code was made for transformers 4.49 (InternVL2.5) or 4.57 (InternVL3, Qwen-VL). Of the InternVL family
    `predict_forward` works on CUDA only; that of the Qwen-VL family needs `qwen_vl_utils`.
    """

    loader = OwnCode
    processor = NoWords
    kinds = (Segment,)
    usual: ClassVar[Loading] = {"dtype": "bfloat16"}

    def __init__(
        self,
        name: str = "ByteDance/Sa2VA-4B",
        *,
        trust_remote_code: bool = False,
        batch: int = 1,
        **loading: Unpack[Loading],
    ) -> None:
        if not isinstance(trust_remote_code, bool):
            raise ValueError(f"trust_remote_code is true or false, got {trust_remote_code!r}")
        if loading.get("device_map") or loading.get("quantisation"):
            raise ValueError("Sa2VA is loaded whole, by its own code: leave device_map and quantisation out")
        options = {"trust_remote_code": trust_remote_code}
        super().__init__(name, batch=batch, limit_bytes=0, options=options, **loading)
        self.trust_remote_code = trust_remote_code
        self._drew_nothing = 0
        if trust_remote_code and not is_pinned(name, self.revision):
            warnings.warn(
                f"{name} may bring other code tomorrow, and it would be run: pin what you have read, with a commit's "
                "full hash as revision=",
                stacklevel=2,
            )

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where its code is not allowed, or is not Sa2VA's."""
        with self.checkpoint.use() as loaded:
            self._takes(loaded)

    def meter(self) -> dict[str, float]:
        """`drew_nothing`: answers without a mask."""
        return {"drew_nothing": self._drew_nothing}

    def answers(self, queries: Sequence[Segment]) -> list[Mask | Failure]:
        with self.checkpoint.use() as loaded:
            return self.in_passes(self._masks, loaded, queries)

    def _masks(self, loaded: Loaded, queries: Sequence[Segment]) -> list[Mask | Failure]:
        return [self._mask(loaded, query) for query in queries]

    def _mask(self, loaded: Loaded, query: Segment) -> Mask | Failure:
        command = query.command.strip()
        if not re.search(r"\w", command):
            return Failure(f"the command {query.command!r} is empty: say what to segment")
        if _PICTURE in command:
            return Failure(f"the command holds {_PICTURE}, which stands for a picture: leave it out")
        words = loaded.model.words
        given = {
            "image": query.image.pil(),
            "text": f"{_PICTURE}\n{_told(command)}",
            "tokenizer": getattr(words, "tokenizer", words),
            "processor": words if hasattr(words, "tokenizer") else None,
        }
        takes = self._takes(loaded)
        with self._its_code(loaded):
            found = loaded.model.predict_forward(**{name: value for name, value in given.items() if name in takes})
        return self._read(query, found)

    def _read(self, query: Segment, found: Any) -> Mask | Failure:
        try:
            said, masks = str(found["prediction"]), list(found["prediction_masks"])
        except (KeyError, TypeError):
            return Failure(
                f"it gave no prediction and prediction_masks, but {type(found).__name__}", raw=f"{found!r:.500}"
            )
        height, width = query.image.height, query.image.width
        drawn = [np.asarray(mask).astype(bool) for mask in masks]
        if any(mask.shape[-2:] != (height, width) for mask in drawn):
            shapes = ", ".join(str(mask.shape) for mask in drawn)
            return Failure(f"it drew masks of {shapes} for a picture of {height} x {width}", raw=said)
        words = _MARKS.sub("", said).strip()
        if not words:
            return Failure("it said nothing", raw=said)
        if (_DRAWN in words) != bool(drawn):
            return Failure(f"it said {_DRAWN} {words.count(_DRAWN)} times, and drew {len(drawn)} masks", raw=said)
        self._drew_nothing += not drawn
        union = np.zeros((height, width), dtype=bool)
        for mask in drawn:
            union |= mask.reshape(-1, height, width).any(0)
        return Mask(union)

    def _takes(self, loaded: Loaded) -> frozenset[str]:
        """What `predict_forward` is given. Raises `ExpertDown` where the model has none, or another one."""
        predict = getattr(loaded.model, "predict_forward", None)
        takes = frozenset(inspect.signature(predict).parameters) if callable(predict) else frozenset[str]()
        if not takes >= {"image", "text", "tokenizer"}:
            kind = type(loaded.model).__name__
            raise ExpertDown(f"{self.name} is a {kind} without Sa2VA's predict_forward(image, text, tokenizer)")
        return takes

    @contextlib.contextmanager
    def _its_code(self, loaded: Loaded) -> Iterator[None]:
        """Within, it computes on the model's device: some of it goes to the current one."""
        import torch

        there = torch.cuda.device(loaded.device) if loaded.device.type == "cuda" else contextlib.nullcontext()
        with running(self.name), there:
            try:
                yield
            except (RuntimeError, AssertionError) as error:
                if loaded.device.type == "cuda" or not re.search("cuda|nvidia", str(error), re.IGNORECASE):
                    raise
                raise ExpertDown(
                    f"the code that {self.name} brings works on CUDA only, and the model is on {loaded.device}: {error}"
                ) from error


def _told(command: str) -> str:
    """A command as a sentence: a bare name becomes one."""
    if re.search(r"\b(segment|mask)", command, re.IGNORECASE):
        return command
    return f"Please segment {command.rstrip('.')}."
