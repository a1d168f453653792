"""Import of ONNX models of any origin: converted to the pinned opset, as graphs of Variables."""

from . import padding
from .model import ImportedModel, import_onnx
