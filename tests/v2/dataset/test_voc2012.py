import io
import sys

import numpy as np
import pytest

from pd_v2.dataset import voc2012

from . import originals

Image = pytest.importorskip("PIL.Image")

SHAPES = {"2007_000001": (5, 8), "2008_000002": (9, 4)}
LISTS = {
    "trainval": ["2008_000002", "2007_000001"],
    "train": ["2007_000001"],
    "val": ["2008_000002"],
}


def encoded(image, form, **options):
    content = io.BytesIO()
    image.save(content, form, **options)
    return content.getvalue()


def classes(height, width):
    """Class 3 inside of an outline, in the colours of a palette."""
    values = np.full((height, width), 255, np.uint8)
    values[1:-1, 1:-1] = 3
    return values


def files(height, width):
    colour = np.zeros((height, width, 3), np.uint8) + np.uint8([200, 100, 50])
    label = Image.fromarray(classes(height, width)).convert("P")
    label.putpalette([i * 7 % 256 for i in range(768)])
    photograph = encoded(Image.fromarray(colour), "JPEG", quality=95, subsampling=0)
    return photograph, encoded(label, "PNG")


@pytest.fixture
def archive(home):
    return originals.voc2012(home, {name: files(*s) for name, s in SHAPES.items()}, LISTS)


@pytest.mark.parametrize(
    ("reader", "names"),
    [
        (voc2012.train, LISTS["trainval"]),
        (voc2012.test, LISTS["train"]),
        (voc2012.val, LISTS["val"]),
    ],
)
def test_samples_are_photographs_and_classes(archive, reader, names):
    samples = list(reader()())
    assert [photograph.shape for photograph, _ in samples] == [(*SHAPES[n], 3) for n in names]
    for name, (photograph, label) in zip(names, samples, strict=True):
        assert photograph.dtype == label.dtype == np.uint8
        np.testing.assert_array_equal(label, classes(*SHAPES[name]))
        assert np.abs(photograph.astype(int) - [200, 100, 50]).max() < 4
    assert len(list(reader())) == len(names)


def test_a_photograph_is_not_turned_as_its_classes_are_not(home):
    exif = Image.Exif()
    exif[0x0112] = 6  # as a camera held upright notes it
    photograph, label = files(5, 8)
    turned = encoded(Image.open(io.BytesIO(photograph)), "JPEG", exif=exif)
    originals.voc2012(home, {"a": (turned, label)}, {"val": ["a"]})
    assert [pixels.shape[:2] for pixels in next(voc2012.val()())] == [(5, 8), (5, 8)]


def test_a_photograph_that_is_not_there(home):
    originals.voc2012(home, {}, LISTS)
    with pytest.raises(ValueError, match=r"no file in it is named 'VOC.*/2007_000001.jpg'"):
        list(voc2012.test())


def test_a_damaged_photograph_is_named(home):
    originals.voc2012(home, {"a": (b"no JPEG", b"no PNG")}, {"val": ["a"]})
    with pytest.raises(ValueError, match=r"2012.tar: VOC.*/a.jpg is no image, or a damaged one: "):
        list(voc2012.val())


def test_without_pillow(archive, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"(?s)decoded by Pillow.*hint: pip install pillow"):
        list(voc2012.val())


def test_the_original_is_asked_for(asked):
    voc2012.train()
    assert asked == [("VOCtrainval_11-May-2012.tar", "voc2012", "6cd6e144f989b92b3379bac3b3de84fd")]
