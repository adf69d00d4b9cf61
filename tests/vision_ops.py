"""torchvision, for tests only: the processors of Qwen-VL and InternVL import it.

`make test` puts it beside the environment's packages (not among them, so that only these tests see it). Its compiled
half fits the torch of the package index. Where that is another build, such as the one for CPUs alone, the operators,
which nothing here calls, are declared by hand.
"""

import sys
from pathlib import Path

PLACE = Path(sys.prefix) / "torchvision-for-tests"

_OPERATORS = """
nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor
roi_align(Tensor input, Tensor rois, float scale, int h, int w, int ratio, bool aligned) -> Tensor
_roi_align_backward(Tensor g, Tensor rois, float s, int h, int w, int n, int c, int y, int x, int r, bool a) -> Tensor
ps_roi_align(Tensor input, Tensor rois, float scale, int h, int w, int ratio) -> (Tensor, Tensor)
_ps_roi_align_backward(Tensor g, Tensor r, Tensor m, float s, int h, int w, int t, int n, int c, int y, int x) -> Tensor
roi_pool(Tensor input, Tensor rois, float scale, int h, int w) -> (Tensor, Tensor)
_roi_pool_backward(Tensor g, Tensor r, Tensor m, float s, int h, int w, int n, int c, int y, int x) -> Tensor
ps_roi_pool(Tensor input, Tensor rois, float scale, int h, int w) -> (Tensor, Tensor)
_ps_roi_pool_backward(Tensor g, Tensor r, Tensor m, float s, int h, int w, int n, int c, int y, int x) -> Tensor
qroi_align(Tensor input, Tensor rois, float scale, int h, int w, int ratio, bool aligned) -> Tensor
deform_conv2d(Tensor x, Tensor w, Tensor o, Tensor m, Tensor b, int a, int c, int d, int e, int f, int g, int h, \
int i, bool u) -> Tensor
_deform_conv2d_backward(Tensor g, Tensor x, Tensor w, Tensor o, Tensor m, Tensor b, int a, int c, int d, int e, \
int f, int h, int i, int j, bool u) -> (Tensor, Tensor, Tensor, Tensor, Tensor)
_cuda_version() -> int
"""

_KEPT: list[object] = []


def provide() -> None:
    """Let this process import torchvision. Does nothing where a whole one is installed, or no torch."""
    from importlib.util import find_spec

    if find_spec("torchvision") is not None or find_spec("torch") is None:
        return
    if not PLACE.is_dir():
        raise RuntimeError(f"{PLACE} is missing: `make test` puts torchvision there")
    import torch

    sys.path.append(str(PLACE))
    (compiled,) = (PLACE / "torchvision").glob("_C.*")
    try:
        torch.ops.load_library(str(compiled))
        return
    except OSError:  # made for another build of torch
        pass
    library = torch.library.Library("torchvision", "DEF")
    for operator in _OPERATORS.strip().splitlines():
        library.define(operator)
    _KEPT.append(library)  # its operators live as long as it does
