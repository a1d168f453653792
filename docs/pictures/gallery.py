"""Pictures that the demos draw, from runs of them: minutes."""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

DEMOS = Path(__file__).resolve().parents[2] / "demos"
PICTURES = {  # of each program: the files that are shown
    "recognize_digits": ("lenet.png",),
    "fit_a_line": ("prices.png",),
    "translate": ("translate.png",),
    "several_networks": ("embedding.png",),
    "gan_core": ("gan.png",),
    "reinforce": ("reinforce.png",),
    "early_exit": ("early_exit.png",),
    "cycle_gan": ("cycle_gan.png",),
    "char_transformer": ("char_transformer.png",),
    "fit_digits": ("fit_digits.png", "confusion.png"),
    "online_learning": ("online_learning.png",),
}
QUICK = ("several_networks", "early_exit", "cycle_gan", "char_transformer", "reinforce")
FILES = tuple(f"demo_{file}" for files in PICTURES.values() for file in files)
COLORS = 64  # of a picture: a quarter of the bytes, and no difference to be seen


def draw(folder):
    """Run the demos one after the other, and keep their pictures."""
    for program, files in PICTURES.items():
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, DEMOS / f"{program}.py", "--out", out]
            command += ["--quick"] if program in QUICK else []
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for file in files:
                with Image.open(Path(out) / file) as picture:
                    small = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
                    small.save(Path(folder) / f"demo_{file}", optimize=True)
