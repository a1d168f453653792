"""Models of any origin, brought to the pinned opset and made of Variables."""

from . import padding
from .model import ImportedModel, import_onnx
