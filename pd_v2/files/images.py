"""Image files, decoded by Pillow, which is an optional dependency."""

import struct
import zlib

import numpy as np

from pd_core import DamagedFile

_MAX_PIXELS = 1 << 26
# Raised by Pillow's readers for damaged files, and for those that declare too many pixels.
_DAMAGE_ERRORS = (
    *(OSError, SyntaxError, EOFError, struct.error, zlib.error),
    *(ValueError, LookupError, TypeError, OverflowError, RuntimeError),
)


def pixels(file, name, mode=None):
    """Read the pixels of an image file, an open one or a path.

    Without a mode they are as stored in the file. In mode "RGB" or "L" they are those of OpenCV: a
    JPEG file is rotated as its EXIF data say, its luma channel is the grey image, and of 16 bits
    the upper 8 are used. `name` is the name of the file in errors.
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
            if image.width * image.height > _MAX_PIXELS:
                raise DamagedFile(f"{name} announces {image.width} x {image.height} pixels")
            if mode is None:
                return np.array(image)
            if mode == "L":
                image.draft("L", image.size)
            if image.format in ("JPEG", "MPO"):
                image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I"):  # 16 bits; convert() would saturate at 255
                image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
            return np.array(image.convert(mode))
    except DamagedFile:
        raise
    except _DAMAGE_ERRORS as error:
        if getattr(error, "errno", None):  # the file cannot be read at all
            raise
        raise DamagedFile(f"{name} is no image, or a damaged one: {error}") from error
