"""The parts of 2017's native library that programs of `paddle.v2` use."""
