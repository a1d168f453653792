"""A plugin of pytest: sessions run on the device PD_TEST_DEVICE where a test names none.

    PD_TEST_DEVICE=cuda:0 python -m pytest -p tests.on_device tests/core

Tests of the CPU's own kernels, of equal bits and of errors that only a CPU raises fail there.
"""

import os

import pd_core as pd
from pd_core.run.session import Session


def pytest_configure():
    """Give sessions another device by default, the default session too."""
    device, init = os.environ["PD_TEST_DEVICE"], Session.__init__

    def on_device(self, chosen=device, *args, **kwargs):
        init(self, chosen, *args, **kwargs)

    Session.__init__ = on_device
    pd.use_device(device)
