"""Fine-tuning of ONNX models: LoRA, quantisation-aware training, tuned files, the commands."""

from .artifacts import generate_artifacts
from .fake_quantization import FakeQuantization, prepare_qat
from .finetuning import finetune
from .low_rank import LoRA, lora
from .objectives import LOSSES, Objective, objective
from .tuned_file import export_tuned

__all__ = [
    "LOSSES",
    "FakeQuantization",
    "LoRA",
    "Objective",
    "export_tuned",
    "finetune",
    "generate_artifacts",
    "lora",
    "objective",
    "prepare_qat",
]
