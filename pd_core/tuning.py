"""Fine-tuning of ONNX models: `pd.tuning`, objectives, training on arrays, artifacts.

`pd.lora`, `pd.prepare_qat` and `pd.export_tuned` are names of `pd`.
"""

from .training.tuning.artifacts import generate_artifacts
from .training.tuning.fake_quantization import FakeQuantization
from .training.tuning.finetuning import finetune
from .training.tuning.low_rank import LoRA
from .training.tuning.objectives import Objective, objective

__all__ = [
    "FakeQuantization",
    "LoRA",
    "Objective",
    "finetune",
    "generate_artifacts",
    "objective",
]
