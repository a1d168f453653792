"""`pd.tuning`: fine-tuning of ONNX models, and a search for learning rates.

`pd.lora`, `pd.prepare_qat` and `pd.export_tuned` are names of `pd`.
"""

from .training.tuning.artifacts import generate_artifacts
from .training.tuning.fake_quantization import FakeQuantization
from .training.tuning.finetuning import finetune
from .training.tuning.low_rank import LoRA
from .training.tuning.objectives import Objective, objective
from .training.tuning.rates import RateTest, find_learning_rate

__all__ = [
    "FakeQuantization",
    "LoRA",
    "Objective",
    "RateTest",
    "find_learning_rate",
    "finetune",
    "generate_artifacts",
    "objective",
]
