"""The files of the pages that train in a browser."""

import importlib.util
import logging
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

from pd_v2 import build
from pd_v2.dataset import common

DEMO = Path(__file__).resolve().parents[5] / "demos" / "browser"


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The folder that write_files.py --quick fills."""
    folder = tmp_path_factory.mktemp("files")
    data = str(DEMO.parent / "data")
    logger = logging.getLogger("paddle")
    level = logger.level
    with (
        mock.patch.dict(os.environ, PD_DATASET_CHECK="0", PD_DATASET_HOME=data),
        mock.patch.object(common, "DATA_HOME", data),
        mock.patch.object(sys, "path", [str(DEMO), *sys.path]),
        build.fresh(),
    ):
        spec = importlib.util.spec_from_file_location("demo_browser", DEMO / "write_files.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main(["--quick", "--out", str(folder)])
    logger.setLevel(level)
    return folder
