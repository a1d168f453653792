"""Messages of the runtime without its files, functions and status codes."""

import numpy as np
import pytest

import pd_core as pd
from pd_core.backend.mismatches import in_words

NODE = "Error in execution: Non-zero status code returned while running {0} node. Name:'{0}_3' "
SAID = {
    NODE.format("Expand") + "Status Message: invalid expand shape": "Expand: invalid expand shape",
    NODE.format("DFT") + "Status Message: dft.cc:476 discrete_fourier_transform DFT input signal "
    "is empty": "DFT: input signal is empty",
    NODE.format("Resize") + "Status Message: /src/tensor.h:210 T* onnx::Data() [with T = float] "
    "utils::Is<T>(dtype_) was false. Tensor type mismatch.": "Resize: Tensor type mismatch.",
    NODE.format("ArgMax") + "Status Message: ": "ArgMax: it takes no arrays of these sizes",
    "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /a/element.cc:23 "
    "onnx::Mod::Mod(const onnx::Info&) fmod != 0 was false. fmod must be 1": "Exception during "
    "initialization: fmod must be 1",
    "something else": "something else",
}


@pytest.mark.parametrize("text", SAID, ids=range(len(SAID)))
def test_words(text):
    assert in_words(text) == SAID[text]


def test_of_a_run():
    x = pd.Variable([None, None])
    sizes = pd.Variable([2], dtype="int64")
    with pytest.raises(pd.BackendError, match=r"^Expand: .*\n  node   Expand, built at .*py:\d+"):
        pd.eval(pd.expand(x, sizes), {x: np.ones((2, 3)), sizes: [4, 4]})


MEETINGS = {
    r"^Reshape: the elements of \[2, 2\] do not fit \[4, 2\]\n": lambda x, y: pd.reshape(y, [4, 2]),
    r"^Concat: sizes (4 and 2|2 and 4) of axis 0 must be equal\n": lambda x, y: pd.concat(
        [x, y], 1
    ),
    r"^Add: sizes (4 and 2|2 and 4) must be equal, or one of them 1\n": lambda x, y: x + y,
}


@pytest.mark.parametrize("message", MEETINGS)
def test_sizes_that_meet_in_a_run(message):
    """Four rows, and those that are picked when it runs: two of them do not fit."""
    x, picked = pd.Variable([None, 2]), pd.Variable([None], dtype="int64")
    y = MEETINGS[message](x, pd.gather(x, pd.reshape(pd.nonzero(picked > 0), [-1])))
    a = np.ones((4, 2), np.float32)
    pd.eval(y, {x: a, picked: [1, 1, 1, 1]})
    with pytest.raises(pd.BackendError, match=message + r"(?s:.*)built at .*py:\d+"):
        pd.eval(y, {x: a, picked: [1, 0, 1, 0]})
