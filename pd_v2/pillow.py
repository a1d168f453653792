"""Image files, decoded by Pillow, which is installed apart from this package."""

import struct
import zlib

import numpy as np

from pd_core import DamagedFile

_MOST_PIXELS = 1 << 26
# What Pillow's readers raise of damaged files, the one that announces too many pixels among them.
_DAMAGE = (
    *(OSError, SyntaxError, EOFError, struct.error, zlib.error),
    *(ValueError, LookupError, TypeError, OverflowError, RuntimeError),
)


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
            if image.width * image.height > _MOST_PIXELS:
                raise DamagedFile(f"{name} announces {image.width} x {image.height} pixels")
            if mode is None:
                return np.array(image)
            if mode == "L":
                image.draft("L", image.size)
            if image.format in ("JPEG", "MPO"):
                image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I"):  # 16 bits; convert() would make 256 and more white
                image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
            return np.array(image.convert(mode))
    except DamagedFile:
        raise
    except _DAMAGE as error:
        if getattr(error, "errno", None):  # the file cannot be read at all
            raise
        raise DamagedFile(f"{name} is no image, or a damaged one: {error}") from error
