"""Photographs as arrays: uint8 [height, width, 3] with the channels blue, green, red, as in 2017.

Files are decoded by Pillow, which is an optional dependency.
"""

import io
import os
import pickle
import shutil

import numpy as np

from pd_core import atomic_write
from pd_core.storage.partial import partial_path
from pd_v2.files import archive
from pd_v2.files.images import pixels
from pd_v2.files.text import lines, to_bytes

__all__ = [
    *("batch_images_from_tar", "center_crop", "left_right_flip", "load_and_transform"),
    *("load_image", "load_image_bytes", "random_crop", "resize_short", "simple_transform"),
    *("to_chw",),
]

_KEYS_A = -0.75  # the free parameter of the cubic convolution kernel, as in OpenCV


def load_image_bytes(bytes, is_color=True):
    """Decode the bytes of an image file: uint8 [H, W, 3], or [H, W] with is_color=False."""
    content = to_bytes(bytes) if isinstance(bytes, str) else bytes  # str if read in text mode
    return _decoded(io.BytesIO(content), f"a file of {len(content)} bytes", is_color)


def load_image(file, is_color=True):
    """Read an image file: uint8 [H, W, 3], or [H, W] with is_color=False."""
    return _decoded(file, repr(file), is_color)


def resize_short(im, size):
    """Resize an image so that its shorter side is `size`, by bicubic interpolation.

    As in 2017, the sides of an image that is not square come out swapped: 600 x 800 becomes
    341 x 256.
    """
    _require_image("resize_short", im)
    height, width = im.shape[:2]
    if height > width:
        return _resized(im, width=size * height // width, height=size)
    return _resized(im, width=size, height=size * width // height)


def to_chw(im, order=(2, 0, 1)):
    """Permute the axes of an image, by default from [H, W, C] to [C, H, W]."""
    if im.ndim != len(order):
        raise ValueError(f"to_chw: {len(order)} axes are ordered, the image has {list(im.shape)}")
    return im.transpose(order)


def center_crop(im, size, is_color=True):
    """Crop the central square of a side length."""
    _require_fits("center_crop", im, size)
    return _square(im, (im.shape[0] - size) // 2, (im.shape[1] - size) // 2, size)


def random_crop(im, size, is_color=True):
    """Crop a square of a side length, at a position drawn with numpy.random."""
    _require_fits("random_crop", im, size)
    top = np.random.randint(0, im.shape[0] - size + 1)
    left = np.random.randint(0, im.shape[1] - size + 1)
    return _square(im, top, left, size)


def left_right_flip(im):
    """Flip an image horizontally."""
    return im[:, ::-1]


def simple_transform(im, resize_size, crop_size, is_train, is_color=True, mean=None):
    """Preprocess an image for a network: float32 [C, crop_size, crop_size], minus the mean.

    The shorter side is resized to resize_size; training takes a random crop, flipped half of the
    time, testing the central one. mean has a value for each channel or each element.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size)
        if np.random.randint(2) == 0:
            im = left_right_flip(im)
    else:
        im = center_crop(im, crop_size)
    if im.ndim == 3:
        im = to_chw(im)
    im = im.astype(np.float32)
    return im if mean is None else im - _broadcast(mean, im)


def load_and_transform(filename, resize_size, crop_size, is_train, is_color=True, mean=None):
    """Read an image file and apply simple_transform."""
    im = load_image(filename, is_color)
    return simple_transform(im, resize_size, crop_size, is_train, is_color, mean)


def batch_images_from_tar(data_file, dataset_name, img2label, num_per_batch=1024):
    """Write the images of a tar that are keys of img2label {member name: label} to pickles.

    Each pickle is {"label": labels, "data": encoded files} of num_per_batch images. Returns the
    path of a file that lists them, data_file_batch/dataset_name.txt; if that exists already and is
    complete, nothing is written.
    """
    folder = os.path.abspath(f"{data_file}_batch")
    listing = os.path.join(folder, f"{dataset_name}.txt")
    if _is_complete(listing):
        return listing
    batches = os.path.join(folder, dataset_name)
    partial = partial_path(batches)  # a name of its own, as two processes may write
    os.makedirs(partial)
    try:
        count = _write_batches(partial, data_file, img2label, num_per_batch)
        shutil.rmtree(batches, ignore_errors=True)  # left by an interrupted process
        os.rename(partial, batches)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    with atomic_write(listing) as file:
        paths = (os.path.join(batches, f"batch_{i}") for i in range(count))
        file.writelines(os.fsencode(path) + b"\n" for path in paths)
    return listing


def _decoded(file, name, is_color):
    if not is_color:
        return pixels(file, name, "L")
    return np.ascontiguousarray(pixels(file, name, "RGB")[:, :, ::-1])


def _require_image(who, im):
    if im.ndim not in (2, 3) or (im.ndim == 3 and im.shape[2] not in (1, 3)) or not im.size:
        raise ValueError(f"{who}: an image is [H, W], [H, W, 1] or [H, W, 3], got {list(im.shape)}")


def _require_fits(who, im, size):
    _require_image(who, im)
    if not 0 < size <= min(im.shape[:2]):
        raise ValueError(f"{who}: a square of {size} is not inside of {list(im.shape[:2])}")


def _square(im, top, left, size):
    return im[top : top + size, left : left + size]


def _broadcast(mean, im):
    mean = np.asarray(mean, np.float32)
    return mean[:, None, None] if mean.ndim == 1 and im.ndim == 3 else mean


def _resized(im, width, height):
    """Resize by bicubic interpolation, in float32; integer results are rounded once, at the end."""
    columns, column_weights = _taps(im.shape[1], width)
    rows, row_weights = _taps(im.shape[0], height)
    values = im.reshape(*im.shape[:2], -1).astype(np.float32)
    wide = sum(values[:, columns[k]] * column_weights[k][:, None] for k in range(4))
    values = sum(wide[rows[k]] * row_weights[k][:, None, None] for k in range(4))
    return _cast(values, im.dtype).reshape(height, width, *im.shape[2:])


def _cast(values, dtype):
    """Convert to a pixel type; integers are rounded and saturated."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return values.astype(dtype)


def _taps(old_size, new_size):
    """Return the four source indices of each new pixel along an axis and their weights.

    Both are [4, new_size]. Keys, Cubic convolution interpolation for digital image processing,
    1981; beyond the border the outermost pixel is repeated.
    """
    scale = 1 / (new_size / old_size)
    position = ((np.arange(new_size) + 0.5) * scale - 0.5).astype(np.float32)
    first = np.floor(position)
    distance = np.abs(position - first - np.arange(-1, 3, dtype=np.float32)[:, None])
    old = first.astype(int) + np.arange(-1, 3)[:, None]
    return np.clip(old, 0, old_size - 1), _keys_kernel(distance)


def _keys_kernel(x):
    near = ((_KEYS_A + 2) * x - (_KEYS_A + 3)) * x * x + 1
    far = ((_KEYS_A * x - 5 * _KEYS_A) * x + 8 * _KEYS_A) * x - 4 * _KEYS_A
    return np.where(x <= 1, near, far)


def _is_complete(listing):
    """Return whether a listing and every file that it lists exist."""
    if not os.path.exists(listing):
        return False
    with open(listing, "rb") as file:
        return all(map(os.path.exists, lines(file.read())))


def _write_batches(folder, data_file, img2label, num_per_batch):
    """Write the pickles into a folder; return their number."""
    samples, count = [], 0
    for name, content in archive.tar_files(data_file, img2label.__contains__):
        samples.append((img2label[name], content))
        if len(samples) == num_per_batch:
            _write_batch(folder, count, samples)
            samples, count = [], count + 1
    if samples:
        _write_batch(folder, count, samples)
        count += 1
    return count


def _write_batch(folder, number, samples):
    labels, contents = ([*column] for column in zip(*samples, strict=True))
    with open(os.path.join(folder, f"batch_{number}"), "wb") as file:
        pickle.dump({"label": labels, "data": contents}, file, protocol=2)
