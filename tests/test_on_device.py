"""The report on a device: what it makes of test results, and where it puts its section."""

import pytest

from tests.benchmarks import on_device


def test_failed_rows_are_named():
    output = (
        "..F.F\n"
        "FAILED tests/core/ops/test_devices.py::test_value_on_the_device[static-Slice-:,4:0:-2]\n"
        "FAILED tests/core/ops/test_devices.py::test_gradients_on_the_device[Pow] - odd - words\n"
        "2 failed, 3 passed in 1.02s\n"
    )
    text, failed = on_device.rows_sentence(output)
    assert failed == 2
    assert text == (
        "3 of 5 op tests agree with NumPy and with the CPU; different are "
        "`test_value_on_the_device[static-Slice-:,4:0:-2]`, `test_gradients_on_the_device[Pow]`."
    )


@pytest.mark.parametrize("output", ["", "no tests ran in 0.01s\n"])
def test_rows_that_did_not_run_are_a_failure(output):
    text, failed = on_device.rows_sentence(output)
    assert failed == 1 and text.startswith("The op tests did not run: ")


def test_a_section_takes_the_place_of_the_last_one():
    page = on_device.with_section("# Devices\n", "cuda:0", "one")
    page = on_device.with_section(page, "openvino", "two")
    page = on_device.with_section(page, "cuda:0", "three")
    assert page == (
        "# Devices\n\n"
        "<!-- measured on cuda:0 -->\nthree\n<!-- end of cuda:0 -->\n\n"
        "<!-- measured on openvino -->\ntwo\n<!-- end of openvino -->\n"
    )


def test_the_ops_run_on_the_device_that_is_named(monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they import much
    text, failed = on_device.op_rows("cpu", "test_value_on_the_device and Softsign")
    assert (text, failed) == ("2 of 2 op tests agree with NumPy and with the CPU.", 0)
