"""Image files, decoded by Pillow, which is installed apart from this package."""

import numpy as np


def pixels(file, name, mode=None):
    """The pixels of an image file, an open one or a path, in a mode of Pillow's or its own.

    `name` is what errors call the file. Grey values of a JPEG file are the ones that it has.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            f"images are decoded by Pillow, which cannot be imported: {error}\n"
            "  hint: pip install pillow"
        ) from error
    try:
        with Image.open(file) as image:
            if mode == "L":
                image.draft("L", image.size)
            return np.array(image.convert(mode) if mode else image)
    except (OSError, SyntaxError) as error:
        if getattr(error, "errno", None):  # the file cannot be read at all
            raise
        raise ValueError(f"{name} is no image, or a damaged one: {error}") from error
