"""Image files, decoded by Pillow, which is installed apart from this package."""

import numpy as np


def pixels(file, name, mode=None):
    """The pixels of an image file, an open one or a path, as Pillow or as OpenCV reads it.

    Without a mode they are as the file has them. In mode "RGB" or "L" they are OpenCV's: a JPEG
    file is turned upright, its grey values are the ones that it has, and of 16 bits the upper 8
    count. `name` is what errors call the file.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError(
            f"images are decoded by Pillow, which cannot be imported: {error}\n"
            "  hint: pip install pillow"
        ) from error
    try:
        with Image.open(file) as image:
            if mode is None:
                return np.array(image)
            if mode == "L":
                image.draft("L", image.size)
            if image.format in ("JPEG", "MPO"):
                image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I"):  # 16 bits; convert() would make 256 and more white
                image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
            return np.array(image.convert(mode))
    except (OSError, SyntaxError) as error:
        if getattr(error, "errno", None):  # the file cannot be read at all
            raise
        raise ValueError(f"{name} is no image, or a damaged one: {error}") from error
