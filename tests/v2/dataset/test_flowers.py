import functools
import io

import numpy as np
import pytest

from pd_v2 import image
from pd_v2.dataset import common, flowers

from . import originals

Image = pytest.importorskip("PIL.Image")

# The photographs 1 to 7 are of one colour each, so that a sample tells which it is.
GREYS = [10, 40, 70, 100, 130, 160, 190]
LABELS = [1, 102, 3, 4, 5, 6, 7]
SETS = {"trnid": [2, 5], "valid": [7], "tstid": [3, 1, 6]}
MEAN = [103.94, 116.78, 123.68]


def jpeg(blue):
    pixels = np.zeros((20, 30, 3), np.uint8) + np.uint8([200, 100, blue])
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG", quality=95, subsampling=0)
    return content.getvalue()


@pytest.fixture
def archive(home):
    return originals.flowers(home, [jpeg(grey) for grey in GREYS], LABELS, SETS)


def content_and_label(sample):
    return sample


@pytest.mark.parametrize(
    ("creator", "photographs"),
    [(flowers.train, [1, 3, 6]), (flowers.test, [2, 5]), (flowers.valid, [7])],
)
def test_the_authors_test_set_trains(archive, creator, photographs):
    reader = creator(mapper=content_and_label, use_xmap=False)
    expected = {(jpeg(GREYS[n - 1]), LABELS[n - 1] - 1) for n in photographs}
    assert set(reader()) == expected
    assert list(reader()) == list(reader)


@pytest.mark.parametrize("creator", [flowers.train, flowers.valid])
def test_samples_are_flat_pixels_less_their_mean(archive, creator):
    for pixels, label in creator():
        number = LABELS.index(label + 1)
        assert (pixels.shape, pixels.dtype) == ((150528,), np.float32)
        values = pixels.reshape(3, 224, 224) + np.float32(MEAN)[:, None, None]
        for channel, expected in zip(values, (GREYS[number], 100, 200), strict=True):
            assert np.abs(channel - expected).max() < 5


def test_a_cache_in_a_folder_of_any_name(tmp_path, monkeypatch):
    home = tmp_path / "café \u4e2d\x85"
    monkeypatch.setattr(common, "DATA_HOME", str(home))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    originals.flowers(home, [jpeg(10)], [4], {"valid": [1]})
    for _ in range(2):
        assert list(flowers.valid(mapper=content_and_label)) == [(jpeg(10), 3)]


def test_mappers():
    assert flowers.train_mapper.args == (True,)
    assert flowers.test_mapper.args == (False,)
    pixels, label = flowers.default_mapper(False, (jpeg(10), 3))
    assert pixels.shape == (150528,) and label == 3


def test_training_takes_squares_at_random_and_testing_the_middle():
    pixels = np.random.default_rng(0).integers(0, 256, (300, 300, 3)).astype(np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "JPEG")
    sample = content.getvalue(), 3
    np.random.seed(0)
    tests = [flowers.test_mapper(sample)[0] for _ in range(2)]
    trains = [flowers.train_mapper(sample)[0] for _ in range(2)]
    np.testing.assert_array_equal(*tests)
    assert (trains[0] != trains[1]).any() and (trains[0] != tests[0]).any()
    middle = image.center_crop(image.resize_short(image.load_image_bytes(sample[0]), 256), 224)
    expected = middle.transpose(2, 0, 1) - np.float32(MEAN)[:, None, None]
    np.testing.assert_array_equal(tests[0].reshape(3, 224, 224), expected)


def test_threads_are_as_many_as_asked_for(archive, monkeypatch):
    monkeypatch.setenv("CPU_NUM", "2")
    count = functools.partial(flowers.train, mapper=content_and_label, buffered_size=2)
    assert sorted(label for _, label in count()) == [0, 2, 5]


def test_batches_of_python_2(archive, home):
    list(flowers.valid(mapper=content_and_label))
    batch = home / "flowers" / "102flowers.tgz_batch" / "valid" / "batch_0"
    assert batch.exists()
    batch.write_bytes(b"(dS'data'\n(lS'\\xff\\xd8caf\\xe9'\nasS'label'\n(lI9\nas.")
    assert list(flowers.valid(mapper=content_and_label)) == [(b"\xff\xd8caf\xe9", 8)]


def test_a_photograph_without_a_label(home):
    originals.flowers(home, [jpeg(1)], [5], {"valid": [1, 2]})
    with pytest.raises(ValueError, match=r"setid.mat lists photographs 1 to 2, .* has 1 labels"):
        list(flowers.valid())


def test_fetch_asks_for_the_originals(asked):
    flowers.fetch()
    assert asked == [
        ("102flowers.tgz", "flowers", "52808999861908f626f3c1f4e79d11fa"),
        ("imagelabels.mat", "flowers", "e0620be6f572b9609742df49c70aed4d"),
        ("setid.mat", "flowers", "a5357ecc9cb78c4bef273ce3793fc85c"),
    ]
