"""An image from a tensor equals the image from its array."""

import numpy as np
import pytest
import torch
from hypothesis import given

from editcritic.reward import Image, ImageError

from .test_image import PIXELS


@given(pixels=PIXELS)
def test_a_tensor_is_the_picture_of_its_array(pixels):
    tensor = torch.from_numpy(pixels)
    chw = tensor.permute(2, 0, 1)
    routes = {
        "tensor": tensor,
        "3 x H x W": chw,
        "1 x 3 x H x W": chw[None],
        "float": chw.float() / 255,
        "bfloat16": (chw.float() / 255).bfloat16(),
        "half with gradient": (tensor.float() / 255).half().requires_grad_(),
    }
    expected = Image.of(pixels)
    images = {name: Image.of(value) for name, value in routes.items()}
    assert {name for name, image in images.items() if image.digest != expected.digest} == set()
    assert {name for name, image in images.items() if not np.array_equal(image.pixels, pixels)} == set()
    assert {image.size for image in images.values()} == {(pixels.shape[1], pixels.shape[0])}
    assert set(images.values()) == {expected}


@pytest.mark.parametrize(
    ("value", "says"),
    [(torch.zeros(2, 3, 4, 4), r"got \(2, 3, 4, 4\)"), (torch.zeros(3, 4, 4, dtype=torch.int32), "got int32")],
    ids=["two of them", "int32"],
)
def test_a_tensor_that_is_no_picture_is_refused(value, says):
    with pytest.raises(ImageError, match=says):
        Image.of(value)
