import io
import pickle
import sys

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2 import image

from .dataset import originals

RNG = np.random.default_rng(0)
SMALL = (np.arange(15).reshape(3, 5) * 37 % 256).astype(np.uint8)
# What OpenCV makes of it with size (4, 6) and INTER_CUBIC.
RESIZED = [
    [0, 42, 105, 152],
    [49, 72, 68, 130],
    [156, 121, 4, 94],
    [194, 159, 51, 56],
    [141, 164, 183, 37],
    [110, 168, 255, 25],
]


@pytest.fixture
def encode():
    """encode(array, form) is an image file of an array in red, green and blue, or in grey."""
    pillow = pytest.importorskip("PIL.Image")

    def encoded(array, form, **options):
        content = io.BytesIO()
        pillow.fromarray(array).save(content, form, **options)
        return content.getvalue()

    return encoded


def photograph(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def keys(x):
    """The cubic convolution kernel of Keys with a = -0.75."""
    x = abs(x)
    if x < 1:
        return 1.25 * x**3 - 2.25 * x**2 + 1
    return -0.75 * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


def resized_by_loops(im, width, height, least=0, most=255):
    """Bicubic interpolation of one channel, pixel by pixel."""
    out = np.empty((height, width))
    for row, column in np.ndindex(out.shape):
        y = (row + 0.5) * im.shape[0] / height - 0.5
        x = (column + 0.5) * im.shape[1] / width - 0.5
        total = 0.0
        for i in range(int(np.floor(y)) - 1, int(np.floor(y)) + 3):
            for j in range(int(np.floor(x)) - 1, int(np.floor(x)) + 3):
                pixel = im[min(max(i, 0), im.shape[0] - 1), min(max(j, 0), im.shape[1] - 1)]
                total += keys(y - i) * keys(x - j) * pixel
        out[row, column] = total
    return np.clip(out, least, most)


def test_a_file_is_blue_green_and_red(encode, tmp_path):
    pixels = photograph(4, 6, 3)
    content = encode(pixels, "PNG")
    loaded = image.load_image_bytes(content)
    assert loaded.dtype == np.uint8 and loaded.flags.c_contiguous
    np.testing.assert_array_equal(loaded, pixels[:, :, ::-1])
    (tmp_path / "a.png").write_bytes(content)
    np.testing.assert_array_equal(image.load_image(str(tmp_path / "a.png")), loaded)


def test_a_file_that_a_translated_script_read_in_text_mode(encode):
    content = encode(photograph(4, 6, 3), "PNG")
    text = content.decode("utf-8", "surrogateescape")
    np.testing.assert_array_equal(image.load_image_bytes(text), image.load_image_bytes(content))


def test_a_file_in_grey(encode):
    pixels = photograph(4, 6)
    content = encode(pixels, "PNG")
    np.testing.assert_array_equal(image.load_image_bytes(content, is_color=False), pixels)
    colour = image.load_image_bytes(content)
    np.testing.assert_array_equal(colour, np.stack([pixels] * 3, axis=-1))


def test_grey_values_of_a_jpeg_are_its_luminance(encode):
    red = np.zeros((16, 16, 3), np.uint8) + np.uint8([200, 0, 0])
    grey = image.load_image_bytes(encode(red, "JPEG", quality=95), is_color=False)
    assert grey.shape == (16, 16)
    assert np.abs(grey.astype(int) - round(0.299 * 200)).max() <= 1


def test_transparency_is_dropped(encode):
    pixels = photograph(4, 6, 4)
    loaded = image.load_image_bytes(encode(pixels, "PNG"))
    np.testing.assert_array_equal(loaded, pixels[:, :, 2::-1])


# What a viewer does to the pixels of a file with such an orientation (Exif 2.3, tag 0x0112).
UPRIGHT = {
    1: lambda im: im,
    2: lambda im: im[:, ::-1],
    3: lambda im: im[::-1, ::-1],
    4: lambda im: im[::-1],
    5: lambda im: im.swapaxes(0, 1),
    6: lambda im: np.rot90(im, -1),
    7: lambda im: im[::-1, ::-1].swapaxes(0, 1),
    8: lambda im: np.rot90(im),
}


@pytest.mark.parametrize("is_color", [True, False])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_a_jpeg_of_a_turned_camera_is_upright(encode, orientation, is_color):
    pixels = photograph(16, 24, 3)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0%c" % orientation + bytes(6)
    turned = image.load_image_bytes(encode(pixels, "JPEG", exif=exif), is_color)
    as_stored = image.load_image_bytes(encode(pixels, "JPEG"), is_color)
    np.testing.assert_array_equal(turned, UPRIGHT[orientation](as_stored))


@pytest.mark.parametrize("is_color", [True, False])
def test_of_16_bits_the_upper_8_count(encode, is_color):
    grey = RNG.integers(0, 65536, (4, 6)).astype(np.uint16)
    loaded = image.load_image_bytes(encode(grey, "PNG"), is_color)
    np.testing.assert_array_equal(loaded[..., 0] if is_color else loaded, grey // 256)


def test_files_that_are_no_images(encode, tmp_path):
    with pytest.raises(ValueError, match=r"a file of 4 bytes is no image, or a damaged one: "):
        image.load_image_bytes(b"text")
    (tmp_path / "half.png").write_bytes(encode(photograph(40, 60, 3), "PNG")[:500])
    with pytest.raises(ValueError, match=r"half.png' is no image, or a damaged one: "):
        image.load_image(str(tmp_path / "half.png"))
    with pytest.raises(FileNotFoundError, match=r"none.png"):
        image.load_image(str(tmp_path / "none.png"))


def test_without_pillow(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"(?s)decoded by Pillow.*hint: pip install pillow"):
        image.load_image_bytes(b"text")


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((60, 80, 3), 30, (40, 30, 3)),
        ((80, 60, 3), 30, (30, 40, 3)),
        ((50, 50, 3), 20, (20, 20, 3)),
        ((7, 10, 1), 21, (30, 21, 1)),
        ((10, 7), 21, (21, 30)),
    ],
)
def test_the_shorter_side_has_the_size_and_the_sides_are_swapped(shape, size, expected):
    assert image.resize_short(photograph(*shape), size).shape == expected


def test_resizing_as_opencv_does():
    out = image.resize_short(np.ascontiguousarray(SMALL), 4)
    assert out.shape == (6, 4)
    np.testing.assert_array_equal(out, RESIZED)


@pytest.mark.parametrize("size", [3, 8, 17, 40])
@pytest.mark.parametrize("shape", [(13, 9), (9, 21)])
def test_resizing_as_the_formula_says(shape, size):
    pixels = photograph(*shape, 3)
    out = image.resize_short(pixels, size)
    for channel in range(3):
        expected = resized_by_loops(pixels[:, :, channel], out.shape[1], out.shape[0])
        np.testing.assert_allclose(out[:, :, channel], expected, atol=0.501)


@pytest.mark.parametrize("kind", ["uint16", "int16", "float32", "float64"])
def test_resizing_keeps_the_type_of_the_pixels(kind):
    """Floats are neither rounded nor cut off, integers only at the ends of their own range."""
    numbers = np.random.default_rng(0).normal(size=(9, 7, 1)) * 300
    pixels = (abs(numbers) if kind == "uint16" else numbers).astype(kind)
    out = image.resize_short(pixels, 16)
    expected = resized_by_loops(pixels[:, :, 0], *out.shape[1::-1], *limits(kind))
    assert out.dtype == kind
    np.testing.assert_allclose(out[:, :, 0], expected, atol=1e-3 if "float" in kind else 0.501)


def limits(kind):
    return (-np.inf, np.inf) if "float" in kind else (np.iinfo(kind).min, np.iinfo(kind).max)


@pytest.mark.parametrize("shape", [(48, 64, 3), (30, 20, 3), (20, 20, 1)])
def test_resizing_beside_opencv(shape):
    cv2 = pytest.importorskip("cv2")
    pixels = photograph(*shape)
    for size in (10, 32, 100):
        out = image.resize_short(pixels, size)
        theirs = cv2.resize(pixels, out.shape[1::-1], interpolation=cv2.INTER_CUBIC)
        difference = np.abs(theirs.reshape(out.shape).astype(int) - out)
        assert difference.max() <= 1 and (difference > 0).mean() < 0.001


def test_flip_and_axes():
    pixels = photograph(4, 6, 3)
    np.testing.assert_array_equal(image.left_right_flip(pixels), np.flip(pixels, axis=1))
    assert image.to_chw(pixels).shape == (3, 4, 6)
    np.testing.assert_array_equal(image.to_chw(pixels)[2], pixels[:, :, 2])
    np.testing.assert_array_equal(image.to_chw(pixels, order=(1, 0, 2))[5, 3], pixels[3, 5])


@pytest.mark.parametrize("shape", [(7, 10, 3), (7, 10)])
def test_crops(shape):
    pixels = photograph(*shape)
    np.testing.assert_array_equal(image.center_crop(pixels, 4), pixels[1:5, 3:7])
    np.testing.assert_array_equal(image.center_crop(pixels, 7, is_color=False), pixels[:, 1:8])
    np.random.seed(5)
    found = image.random_crop(pixels, 4)
    np.random.seed(5)
    top, left = np.random.randint(0, 4), np.random.randint(0, 7)
    np.testing.assert_array_equal(found, pixels[top : top + 4, left : left + 4])
    np.testing.assert_array_equal(image.random_crop(pixels[:, :7], 7), pixels[:, :7])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda im: image.center_crop(im, 8), r"center_crop: a square of 8 .* inside of \[7, 10\]"),
        (lambda im: image.random_crop(im, 0), r"random_crop: a square of 0 is not inside"),
        (
            lambda im: image.resize_short(im[..., :2], 4),
            r"resize_short: an image is .*\[7, 10, 2\]",
        ),
        (lambda im: image.to_chw(im[0]), r"to_chw: 3 axes are ordered, the image has \[10, 3\]"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(photograph(7, 10, 3))


def test_transform_for_testing_takes_the_middle():
    pixels = photograph(30, 20, 3)
    out = image.simple_transform(pixels, 10, 8, is_train=False)
    expected = image.center_crop(image.resize_short(pixels, 10), 8).transpose(2, 0, 1)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, expected)


def test_transform_for_training_crops_and_mirrors():
    pixels = photograph(12, 12, 3)
    np.random.seed(0)
    found = {image.simple_transform(pixels, 12, 11, True).tobytes() for _ in range(100)}
    squares = [pixels[i : i + 11, j : j + 11] for i in (0, 1) for j in (0, 1)]
    both = [*squares, *(square[:, ::-1] for square in squares)]
    assert found == {s.transpose(2, 0, 1).astype(np.float32).tobytes() for s in both}


def test_transform_for_training_draws_row_column_and_mirror():
    pixels = photograph(20, 20, 3)
    np.random.seed(8)
    found = [image.simple_transform(pixels, 20, 7, True) for _ in range(8)]
    np.random.seed(8)
    for out in found:
        top, left, kept = (np.random.randint(0, most) for most in (14, 14, 2))
        square = pixels[top : top + 7, left : left + 7][:, :: 1 if kept else -1]
        np.testing.assert_array_equal(out, square.transpose(2, 0, 1))


@pytest.mark.parametrize("mean", [[1, 2, 3], np.arange(192).reshape(3, 8, 8)])
def test_transform_subtracts_a_mean(mean):
    pixels = photograph(8, 8, 3)
    out = image.simple_transform(pixels, 8, 8, False, mean=mean)
    mean = np.asarray(mean, np.float32)
    shaped = mean[:, None, None] if mean.ndim == 1 else mean
    np.testing.assert_array_equal(out, pixels.transpose(2, 0, 1) - shaped)
    assert out.dtype == np.float32


def test_transform_of_a_grey_image():
    pixels = photograph(9, 9)
    out = image.simple_transform(pixels, 9, 9, False, is_color=False, mean=np.ones((9, 9)))
    np.testing.assert_array_equal(out, pixels - 1.0)


def test_load_and_transform(encode, tmp_path):
    pixels = photograph(8, 8, 3)
    (tmp_path / "a.png").write_bytes(encode(pixels, "PNG"))
    out = image.load_and_transform(str(tmp_path / "a.png"), 8, 8, False, mean=[3, 2, 1])
    np.testing.assert_array_equal(out, pixels.transpose(2, 0, 1)[::-1] - [[[3.0]], [[2]], [[1]]])
    grey = image.load_and_transform(str(tmp_path / "a.png"), 8, 8, False, is_color=False)
    assert grey.shape == (8, 8)


def test_it_is_a_module_of_the_package():
    assert paddle.image is image


def test_batches_of_files_in_a_tar(tmp_path):
    members = {f"jpg/{i}.jpg": b"file %d" % i for i in range(6)}
    tar = originals.tar(tmp_path / "photographs.tgz", members)
    labels = {f"jpg/{i}.jpg": 10 * i for i in (5, 4, 3, 1, 0)}
    listing = image.batch_images_from_tar(str(tar), "train", labels, num_per_batch=2)
    folder = tmp_path / "photographs.tgz_batch"
    assert listing == str(folder / "train.txt")
    paths = (folder / "train.txt").read_text().splitlines()
    assert paths == [str(folder / "train" / f"batch_{i}") for i in range(3)]
    batches = [pickle.loads((folder / "train" / f"batch_{i}").read_bytes()) for i in range(3)]
    assert [batch["label"] for batch in batches] == [[0, 10], [30, 40], [50]]
    assert [batch["data"] for batch in batches] == [
        [b"file 0", b"file 1"],
        [b"file 3", b"file 4"],
        [b"file 5"],
    ]
    assert sorted(path.name for path in folder.iterdir()) == ["train", "train.txt"]


def test_batches_are_made_once_and_again_when_one_is_missing(tmp_path):
    tar = originals.tar(tmp_path / "photographs.tgz", {"a": b"1", "b": b"2"})
    labels = {"a": 1, "b": 2}
    listing = image.batch_images_from_tar(str(tar), "test", labels, 1)
    content = tar.read_bytes()
    tar.unlink()
    assert image.batch_images_from_tar(str(tar), "test", labels, 1) == listing
    (tmp_path / "photographs.tgz_batch" / "test" / "batch_1").unlink()
    tar.write_bytes(content)
    image.batch_images_from_tar(str(tar), "test", labels, 1)
    assert (tmp_path / "photographs.tgz_batch" / "test" / "batch_1").exists()


def test_a_damaged_tar_leaves_no_batches(tmp_path):
    tar = originals.tar(tmp_path / "photographs.tgz", {"a": b"1", "b": b"2"})
    tar.write_bytes(tar.read_bytes()[:-6])
    with pytest.raises(ValueError, match=r"photographs.tgz is damaged"):
        image.batch_images_from_tar(str(tar), "test", {"a": 1, "b": 2}, 1)
    assert list((tmp_path / "photographs.tgz_batch").iterdir()) == []
