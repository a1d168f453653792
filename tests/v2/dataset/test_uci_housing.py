from pathlib import Path

import numpy as np
import pytest

import pd_v2 as paddle
from pd_v2.dataset import common, uci_housing
from pd_v2.reader import creator

DEMO_DATA = Path(__file__).parents[3] / "demos" / "data"
TABLE = np.random.default_rng(0).normal(size=(10, 14)).round(4)


@pytest.fixture(autouse=True)
def demo_cache(monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(DEMO_DATA))
    monkeypatch.setenv("PD_DATASET_CHECK", "0")
    monkeypatch.setattr(uci_housing, "UCI_TRAIN_DATA", None)
    monkeypatch.setattr(uci_housing, "UCI_TEST_DATA", None)


@pytest.fixture
def table_file(tmp_path):
    """table_file(table) writes numbers as text and returns the path."""

    def write(table):
        path = tmp_path / "housing.data"
        np.savetxt(path, table, fmt="%.4f", delimiter="  ")
        return str(path)

    return write


def test_features_are_scaled_over_all_rows_and_the_price_is_raw(table_file):
    uci_housing.load_data(table_file(TABLE))
    train, test = uci_housing.UCI_TRAIN_DATA, uci_housing.UCI_TEST_DATA
    assert (len(train), len(test)) == (8, 2)
    loaded = np.concatenate([train, test])
    np.testing.assert_array_equal(loaded[:, 13], TABLE[:, 13])
    for column in range(13):
        values = TABLE[:, column]
        expected = (values - values.mean()) / (values.max() - values.min())
        np.testing.assert_allclose(loaded[:, column], expected, rtol=1e-12)


def test_another_width_and_ratio(table_file):
    uci_housing.load_data(table_file(TABLE[:, :3]), feature_num=3, ratio=0.5)
    assert uci_housing.UCI_TRAIN_DATA.shape == uci_housing.UCI_TEST_DATA.shape == (5, 3)


def test_demo_table():
    train, test = list(uci_housing.train()()), list(uci_housing.test()())
    assert (len(train), len(test)) == (404, 102)
    for features, price in (train[0], test[0]):
        assert (features.shape, features.dtype) == ((13,), np.float64)
        assert (price.shape, price.dtype) == ((1,), np.float64)
    assert [price.item() for _, price in (train[0], test[-1])] == [24.0, 11.9]
    features = np.stack([features for features, _ in train + test])
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.ptp(features, axis=0), 1, rtol=1e-12)


def test_the_reader_may_be_called_or_iterated():
    reader = uci_housing.test()
    assert len(list(reader())) == len(list(reader)) == len(list(reader())) == 102


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE[:3, :13], "housing.data: 39 numbers are no whole rows of 14"),
        (np.zeros((0, 14)), "housing.data: 0 numbers are no whole rows"),
        (TABLE * (np.arange(14) != 4), "column 4 has the same value in all rows"),
    ],
)
def test_bad_tables_name_the_file(table_file, table, message):
    with pytest.raises(ValueError, match=message):
        uci_housing.load_data(table_file(table))


def test_a_word_that_is_no_number(tmp_path):
    path = tmp_path / "housing.data"
    path.write_text("1 " * 13 + "x")
    with pytest.raises(ValueError, match=r"housing.data: could not convert string .*'x'"):
        uci_housing.load_data(str(path))


def test_feature_names():
    assert len(uci_housing.feature_names) == 14
    assert uci_housing.feature_names[5] == "RM"


def test_feature_range_draws_a_chart(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    uci_housing.feature_range([3.0, 4.0], [1.0, -1.0])
    assert (tmp_path / "image" / "ranges.png").read_bytes().startswith(b"\x89PNG")


def test_convert_writes_both_sets(tmp_path):
    uci_housing.convert(str(tmp_path))
    samples = list(creator.recordio(str(tmp_path / "uci_housing_train-*"))())
    assert len(samples) == 404
    assert (len(samples[0][0]), len(samples[0][1])) == (13, 1)
    assert len(list(creator.recordio(str(tmp_path / "uci_houseing_test-00000"))())) == 102


def test_model_is_a_pool_of_parameters(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    (tmp_path / "fit_a_line.tar").mkdir()
    features = paddle.layer.data("x", paddle.data_type.dense_vector(13))
    pool = paddle.parameters.create(paddle.layer.fc(features, 1))
    value = np.arange(13, dtype=np.float32).reshape(13, 1)
    pool.set("___fc_layer_0__.w0", value)
    with open(tmp_path / "fit_a_line.tar" / "fit_a_line.tar", "wb") as file:
        pool.to_tar(file)
    loaded = uci_housing.model()
    assert loaded.names() == ["___fc_layer_0__.w0", "___fc_layer_0__.wbias"]
    np.testing.assert_array_equal(loaded.get("___fc_layer_0__.w0"), value)


def test_fetch_asks_for_the_original(monkeypatch):
    asked = []
    monkeypatch.setattr(common, "download", lambda *args: asked.append(args))
    uci_housing.fetch()
    assert asked == [(uci_housing.URL, "uci_housing", "d4accdce7a25600298819f8e28e8d593")]
