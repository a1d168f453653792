"""The ONNX Runtime of this environment: its version, and what to do where there is none or two.

The package imports this first, so that no other module is the first one to import ONNX Runtime.
"""

import os
import warnings
from pathlib import Path

# Before the first import: the official wheels send it by default.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

_AGAIN = "python -m pip install pd-onnx, or pd-onnx-cpu for CPUs alone"

try:
    import onnxruntime
except ModuleNotFoundError as error:
    if error.name != "onnxruntime":
        raise
    raise ModuleNotFoundError(
        f"pd_core: there is no ONNX Runtime in this environment\n  hint: {_AGAIN}",
        name="onnxruntime",
    ) from None


def runtimes(folder: Path) -> list[str]:
    """Return the distributions in a folder that install the module `onnxruntime`, with versions."""
    texts = [info / "top_level.txt" for info in folder.glob("onnxruntime*.dist-info")]
    ours = [t for t in texts if t.is_file() and t.read_text().strip() == "onnxruntime"]
    found = [t.parent.stem.replace("_", "-").rsplit("-", 1) for t in ours]
    return sorted(map(" ".join, found))


def check(folder: Path, complete: bool) -> None:
    """Check the runtime in a folder of packages.

    Raises ImportError if it is not complete, as after one of two packages was removed, and warns
    if two packages have written the same files.
    """
    found = runtimes(folder)
    names = [text.split()[0] for text in found] or ["onnxruntime", "onnxruntime-gpu"]
    hint = f"  hint: python -m pip uninstall {' '.join(names)}, then {_AGAIN}"
    if not complete:
        raise ImportError(
            f"pd_core: {folder / 'onnxruntime'} is no ONNX Runtime: files are missing\n{hint}",
            name="onnxruntime",
        )
    if len(found) > 1:
        text = f"pd_core: {' and '.join(found)} have written the same files in {folder}"
        warnings.warn(f"{text}: there is no telling which of them runs\n{hint}", stacklevel=2)


check(Path(next(iter(onnxruntime.__path__))).parent, hasattr(onnxruntime, "InferenceSession"))
ONNX_RUNTIME: str = onnxruntime.__version__
