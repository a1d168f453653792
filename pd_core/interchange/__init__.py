"""`pd.interchange`: models of other frameworks, in both directions."""

# isort: skip_file
# fmt: off
from .model_folder import ModelFolder
from .pytorch import from_pytorch, to_pytorch
from .writing import write_model_folder

__all__ = ["ModelFolder", "from_pytorch", "to_pytorch", "write_model_folder"]
