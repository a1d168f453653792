import pytest

from pd_v2.dataset import common


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache whose files are taken as they are."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    return tmp_path / "cache"


@pytest.fixture
def asked(monkeypatch):
    """What is asked of common.download: (file name, folder, md5), and nothing is downloaded."""
    requests = []

    def download(url, module_name, md5sum, save_name=None):
        requests.append((url.split("/")[-1], module_name, md5sum))
        return f"{module_name}/{save_name or url.split('/')[-1]}"

    monkeypatch.setattr(common, "download", download)
    return requests
