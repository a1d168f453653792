"""Draw the pictures of docs/images again: all, or those of the scripts that are named.

    python docs/pictures                    # all; minutes, with Graphviz, Chromium and npm
    python docs/pictures speed schedules    # some

Each script here has `FILES`, the pictures that it draws, and `draw(folder)`.
"""

import sys
from importlib import import_module
from pathlib import Path

from style import IMAGES

SCRIPTS = sorted(
    path.stem
    for path in Path(__file__).resolve().parent.glob("*.py")
    if path.stem not in ("__main__", "screens", "style")
)


def main(names):
    """Draw the pictures of these scripts."""
    for name in names or SCRIPTS:
        if name not in SCRIPTS:
            raise SystemExit(f"there is no script {name!r}: {', '.join(SCRIPTS)}")
        script = import_module(name)
        script.draw(IMAGES)
        for file in script.FILES:
            print(f"{file}: {(IMAGES / file).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
