"""What the doctor says of torch, where there is one."""

import torch

from editcritic.benchmarks.inspection import doctor


def test_torch_and_its_device_are_told() -> None:
    report = doctor.torch_report()
    assert report["installed"]
    assert report["version"] == torch.__version__
    assert report["device"].startswith("cuda" if torch.cuda.is_available() else ("cpu", "mps"))
