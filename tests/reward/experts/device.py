"""Where the models of these tests compute: on the CPU, or on the device that `TEST_DEVICE` names, such as `cuda:0`."""

import os

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
