"""Fine-tuning of ONNX models: objectives, training on arrays, artifacts, and the commands.

`pd.lora`, `pd.prepare_qat` and `pd.export_tuned` are names of `pd`.
"""

from .artifacts import generate_artifacts
from .fake_quantization import FakeQuantization
from .finetuning import finetune
from .low_rank import LoRA
from .objectives import Objective, objective

__all__ = [
    "FakeQuantization",
    "LoRA",
    "Objective",
    "finetune",
    "generate_artifacts",
    "objective",
]
