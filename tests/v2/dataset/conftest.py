import http.server
import threading

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


@pytest.fixture
def url(tmp_path, request):
    """The url of a file source.bin, with the CONTENT of the module of the test."""
    (tmp_path / "source.bin").write_bytes(request.module.CONTENT)
    return (tmp_path / "source.bin").as_uri()


@pytest.fixture
def server(request):
    """An HTTP server with the Handler of the module of the test, and the `url` of a file there.

    The handler appends to `asked` and reads `habits`.
    """
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), request.module.Handler)
    server.habits, server.asked = (), []
    server.url = f"http://127.0.0.1:{server.server_port}/data.bin"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
