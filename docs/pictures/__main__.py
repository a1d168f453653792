"""Draw the pictures of docs/images again: all, or those of the scripts that are named.

    python docs/pictures                    # all; minutes, with Graphviz, Chromium and npm
    python docs/pictures speed schedules    # some

Each script here has `FILES`, the pictures that it draws, and `draw(folder)`.
"""

import argparse
from importlib import import_module
from pathlib import Path

from style import IMAGES

SCRIPTS = sorted(
    path.stem
    for path in Path(__file__).resolve().parent.glob("*.py")
    if path.stem not in ("__main__", "screens", "style")
)


def main():
    """Draw the pictures of the scripts that are named."""
    parser = argparse.ArgumentParser(prog="python docs/pictures", description="Draw pictures.")
    parser.add_argument("scripts", nargs="*", help=f"of {', '.join(SCRIPTS)}")
    parser.add_argument("--out", type=Path, default=IMAGES, help="default: docs/images")
    parser.add_argument("--list", action="store_true", help="only print script and file")
    args = parser.parse_args()
    if unknown := set(args.scripts) - set(SCRIPTS):
        parser.error(f"there is no script {', '.join(sorted(unknown))}")
    for name in args.scripts or SCRIPTS:
        script = import_module(name)
        if not args.list:
            script.draw(args.out)
        for file in script.FILES:
            size = "" if args.list else f" {(args.out / file).stat().st_size / 1000:.0f} kB"
            print(f"{name} {file}{size}")


if __name__ == "__main__":
    main()
