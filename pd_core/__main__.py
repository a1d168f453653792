"""`python -m pd_core COMMAND …`: inspect and fine-tune ONNX models, see `--help`."""

import sys

from .commands import main

if __name__ == "__main__":
    sys.exit(main())
