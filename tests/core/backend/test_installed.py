"""What is said where ONNX Runtime is missing, incomplete or installed twice."""

import subprocess
import sys

import pytest

from pd_core.backend.installed import check, runtimes

SEARCHED = """
import os, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "onnxruntime":
            print("telemetry off:", os.environ.get("ORT_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Finder)
"""
REMOVED = "import sys; sys.modules['onnxruntime'] = None\n"
EMPTY = """
import sys, types
sys.modules["onnxruntime"] = module = types.ModuleType("onnxruntime")
module.__path__ = ["/packages/onnxruntime"]
"""


def imported(before, monkeypatch):
    """The result of `import pd_core` in another process, after some statements."""
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    command = [sys.executable, "-c", f"{before}\nimport pd_core"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(folder, *names, module="onnxruntime"):
    """Write what pip writes about packages."""
    for name in names:
        info = folder / f"{name}.dist-info"
        info.mkdir(parents=True)
        (info / "top_level.txt").write_text(f"{module}\n")


def test_telemetry_is_off_before_the_first_import(monkeypatch):
    assert imported(SEARCHED, monkeypatch).stdout == "telemetry off: 1\n"


def test_without_a_runtime(monkeypatch):
    text = imported(REMOVED, monkeypatch).stderr
    assert "ModuleNotFoundError: pd_core: there is no ONNX Runtime in this environment\n" in text
    assert text.endswith("hint: python -m pip install pd-onnx, or pd-onnx-cpu for CPUs alone\n")


def test_a_folder_that_an_uninstallation_left(monkeypatch):
    text = imported(EMPTY, monkeypatch).stderr
    assert "ImportError: pd_core: /packages/onnxruntime is no ONNX Runtime: files are miss" in text
    assert "hint: python -m pip uninstall onnxruntime onnxruntime-gpu, then python -m" in text


def test_one_of_two_was_removed(tmp_path):
    install(tmp_path, "onnxruntime_gpu-1.31.1")
    with pytest.raises(ImportError, match=r"files are missing\n.*pip uninstall onnxruntime-gpu, "):
        check(tmp_path, complete=False)


def test_two_runtimes_in_one_folder(tmp_path):
    install(tmp_path, "onnxruntime-1.30.0", "onnxruntime_gpu-1.31.1")
    install(tmp_path, "onnxruntime_extensions-0.13.0", module="onnxruntime_extensions")
    assert runtimes(tmp_path) == ["onnxruntime 1.30.0", "onnxruntime-gpu 1.31.1"]
    said = (
        r"onnxruntime 1.30.0 and onnxruntime-gpu 1.31.1 have written the same files in .*: there "
        r"is no telling which of them runs\n  hint: python -m pip uninstall onnxruntime "
        r"onnxruntime-gpu, then python -m pip install pd-onnx, or pd-onnx-cpu for CPUs alone"
    )
    with pytest.warns(UserWarning, match=said):
        check(tmp_path, complete=True)


def test_one_runtime_is_right(tmp_path):
    install(tmp_path, "onnxruntime_gpu-1.31.1")
    check(tmp_path, complete=True)  # a warning is an error in tests
