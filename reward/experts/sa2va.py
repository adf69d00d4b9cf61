"""Sa2va: masks for text commands, by Sa2VA (Yuan et al., 2025): a vision-language model with a SAM 2 decoder.

Facts from github.com/bytedance/Sa2VA. The model runs remote code from its checkpoint, which has not been reviewed here
and must be allowed.
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

from ..queries.answers import Mask
from ..queries.expert import ExpertDown
from ..queries.kinds import Segment
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.local_expert import LocalExpert
from .loading.remote_code import NullProcessor, RemoteCodeModel, is_pinned, remote_code_errors

_SEG_TOKEN = "[SEG]"  # the token with which Sa2VA requests a mask
_IMAGE_TOKEN = "<image>"  # the image's position in the prompt
_END_TOKENS = re.compile(r"<\|[^|<>]*\|>|</?s>")  # end-of-turn tokens, which its output contains


class Sa2va(LocalExpert[Mask | Failure]):
    """Answers `Segment`, one query at a time.

    The command is used as it is; a bare name is prefixed with `Please segment`. The mask is the union of all predicted
    masks, as in the authors' evaluation. If the output has none (no `[SEG]`), the mask is empty; `usage` counts these
    outputs as `empty_masks`. A query fails if text and masks are inconsistent, and for an empty output; the failure
    keeps the output. Scores are 1: the model predicts no confidence.

    The published code was written for transformers 4.49 (InternVL2.5) or 4.57 (InternVL3, Qwen-VL). Of the InternVL
    family `predict_forward` works on CUDA only; that of the Qwen-VL family needs `qwen_vl_utils`.

    Args:
        name: A folder or a model on the hub.
        trust_remote_code: Allows running the checkpoint's code, which its `config.json` names under `auto_map`; without
            it every query raises `ExpertDown`, which lists that code. For a name on the hub set `revision` to a full
            commit hash, which pins code and weights; there is a warning otherwise.
        batch: Queries per call; the model processes them one by one.
        loading: See `LoadOptions`; `dtype` is bfloat16, as the published code requires, and `device_map` and
            `quantisation` are not supported.
    """

    loader = RemoteCodeModel
    processor = NullProcessor
    kinds = (Segment,)
    default_load_options: ClassVar[LoadOptions] = {"dtype": "bfloat16"}

    def __init__(
        self,
        name: str = "ByteDance/Sa2VA-4B",
        *,
        trust_remote_code: bool = False,
        batch: int = 1,
        **loading: Unpack[LoadOptions],
    ) -> None:
        if not isinstance(trust_remote_code, bool):
            raise ValueError(f"trust_remote_code is true or false, got {trust_remote_code!r}")
        if loading.get("device_map") or loading.get("quantisation"):
            raise ValueError("Sa2VA is loaded by its own code, without device_map and quantisation: leave them out")
        options = {"trust_remote_code": trust_remote_code}
        super().__init__(name, batch=batch, cache_bytes=0, options=options, **loading)
        self.trust_remote_code = trust_remote_code
        self._empty_masks = 0
        if trust_remote_code and not is_pinned(name, self.revision):
            warnings.warn(
                f"the code of {name} may change and would be run: pin the code you have read with a full commit hash "
                "as revision=",
                stacklevel=2,
            )

    def check(self, loaded: LoadedModel) -> None:
        self._predict_parameters(loaded)

    def usage(self) -> dict[str, float]:
        """`empty_masks`: outputs without a mask."""
        return {"empty_masks": self._empty_masks}

    def answer_batch(self, queries: Sequence[Segment]) -> list[Mask | Failure]:
        with self.checkpoint.use() as loaded:
            return self.run_microbatched(
                lambda model, part: [self._mask(model, query) for query in part], loaded, queries
            )

    def _mask(self, loaded: LoadedModel, query: Segment) -> Mask | Failure:
        command = query.command.strip()
        if not re.search(r"\w", command):
            return Failure(f"the command {query.command!r} is empty: name what to segment")
        if _IMAGE_TOKEN in command:
            return Failure(f"the command contains {_IMAGE_TOKEN}, the image token: leave it out")
        processor = loaded.model.words
        if not re.search(r"\b(segment|mask)", command, re.IGNORECASE):
            command = f"Please segment {command.rstrip('.')}."
        arguments = {
            "image": query.image.pil(),
            "text": f"{_IMAGE_TOKEN}\n{command}",
            "tokenizer": getattr(processor, "tokenizer", processor),
            "processor": processor if hasattr(processor, "tokenizer") else None,
        }
        parameters = self._predict_parameters(loaded)
        taken = {name: value for name, value in arguments.items() if name in parameters}
        with self._remote_code(loaded):
            output = loaded.model.predict_forward(**taken)
        return self._read(query, output)

    def _read(self, query: Segment, output: Any) -> Mask | Failure:
        try:
            text, masks = str(output["prediction"]), list(output["prediction_masks"])
        except (KeyError, TypeError):
            kind = type(output).__name__
            return Failure(f"it returned no prediction and prediction_masks, but {kind}", raw=f"{output!r:.500}")
        height, width = query.image.height, query.image.width
        arrays = [np.asarray(mask).astype(bool) for mask in masks]
        if any(mask.shape[-2:] != (height, width) for mask in arrays):
            shapes = ", ".join(str(mask.shape) for mask in arrays)
            return Failure(f"it predicted masks of {shapes} for an image of {height} x {width}", raw=text)
        words = _END_TOKENS.sub("", text).strip()
        if not words:
            return Failure("its output is empty", raw=text)
        if (_SEG_TOKEN in words) != bool(arrays):
            return Failure(f"its output has {words.count(_SEG_TOKEN)} {_SEG_TOKEN} and {len(arrays)} masks", raw=text)
        self._empty_masks += not arrays
        union = np.zeros((height, width), dtype=bool)
        for mask in arrays:
            union |= mask.reshape(-1, height, width).any(0)
        return Mask(union)

    def _predict_parameters(self, loaded: LoadedModel) -> frozenset[str]:
        """Parameters of `predict_forward`. Raises `ExpertDown` if the model has none, or another one."""
        predict = getattr(loaded.model, "predict_forward", None)
        parameters = frozenset(inspect.signature(predict).parameters) if callable(predict) else frozenset[str]()
        if not parameters >= {"image", "text", "tokenizer"}:
            kind = type(loaded.model).__name__
            raise ExpertDown(f"{self.name} is a {kind} without Sa2VA's predict_forward(image, text, tokenizer)")
        return parameters

    @contextlib.contextmanager
    def _remote_code(self, loaded: LoadedModel) -> Iterator[None]:
        """Context with the model's device as current, which some of its code uses."""
        import torch

        current_device = torch.cuda.device(loaded.device) if loaded.device.type == "cuda" else contextlib.nullcontext()
        with remote_code_errors(self.name), current_device:
            try:
                yield
            except (RuntimeError, AssertionError) as error:
                if loaded.device.type == "cuda" or not re.search("cuda|nvidia", str(error), re.IGNORECASE):
                    raise
                raise ExpertDown(
                    f"the code that {self.name} brings works on CUDA only, and the model is on {loaded.device}: {error}"
                ) from error
