"""A pickled tensor is refused as every other object is."""

import pickle

import pytest
import torch

from editcritic.integrations.serving.server.restricted_pickle import PickleError, loads

from .server.test_restricted_pickle import without_doing_anything


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_tensor_is_refused_with_what_to_send_instead(protocol):
    data = pickle.dumps({"images": [torch.zeros(2)]}, protocol)
    with without_doing_anything(), pytest.raises(PickleError, match=r"images as the bytes of PNG or JPEG files"):
        loads(data)
