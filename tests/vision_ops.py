"""torchvision, for tests only: the processors of Qwen-VL and InternVL import it.

`make test` installs it outside of the environment's packages, so that only these tests see it. Its compiled part fits
the torch of the package index. With another build, such as the CPU one, the operators, which are never called here,
are declared manually.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(sys.prefix) / "torchvision-for-tests"
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
_LIBRARIES: list[object] = []


class _Operators(MetaPathFinder):
    """Loads or declares the operators when torchvision is looked for, so that nothing imports torch before."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            load_operators()


def provide() -> None:
    """Make torchvision importable in this process. Does nothing where it is installed, or without torch."""
    if find_spec("torchvision") is not None or find_spec("torch") is None:
        return
    if not FOLDER.is_dir():
        raise RuntimeError(f"{FOLDER} is missing: `make test` installs torchvision there")
    sys.path.append(str(FOLDER))
    sys.meta_path.insert(0, _Operators())


def load_operators() -> None:
    """Load torchvision's compiled part, or declare its operators where that was built for another torch."""
    import torch

    (compiled,) = (FOLDER / "torchvision").glob("_C.*")
    try:
        torch.ops.load_library(str(compiled))
    except OSError:
        declare_operators()


def declare_operators() -> None:
    """Declare the operators of torchvision's compiled part, which no model of ours calls."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for operator in _OPERATORS.strip().splitlines():
        library.define(operator)
    _LIBRARIES.append(library)  # its operators live as long as it does
