"""Fine-tuning of ONNX models: LoRA, quantisation-aware training, tuned files, the commands."""

from .fake_quantization import FakeQuantization, prepare_qat
from .lora import LoRA, lora
from .objectives import LOSSES, Objective, objective
from .tuned_file import export_tuned

__all__ = [
    "LOSSES",
    "FakeQuantization",
    "LoRA",
    "Objective",
    "export_tuned",
    "lora",
    "objective",
    "prepare_qat",
]
