"""How gradients are exchanged: the options of `init`, and which of them exclude each other."""

from dataclasses import dataclass

import numpy as np

_CHOICES = {
    "reduce": ("mean", "sum"),
    "wire_dtype": (None, "float16", "bfloat16"),
    "compression": (None, "top_k", "int8"),
}


@dataclass(frozen=True)
class Settings:
    """How gradients are exchanged: the options of `init`."""

    reduce: str = "mean"
    wire_dtype: str | None = None
    bucket_bytes: int = 1 << 22
    own_draws: bool = True
    divisions: int = 1
    sync_batch_norm: bool = False
    check_every: int | None = 100
    reproducible: bool = False
    compression: str | None = None
    top_k: float = 0.01
    local_steps: int = 1

    def check(self) -> None:
        """Raise a ValueError for options that are wrong, alone or together."""
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                texts = " or ".join(repr(c) for c in choices if c is not None)
                raise ValueError(f"init: {name} is {texts}, not {value!r}")
        if self.bucket_bytes < 1 or self.divisions < 1 or self.local_steps < 1:
            raise ValueError(
                f"init: bucket_bytes {self.bucket_bytes}, divisions {self.divisions} and "
                f"local_steps {self.local_steps} are positive"
            )
        if self.check_every is not None and self.check_every < 1:
            raise ValueError(f"init: check_every is at least 1, or None, not {self.check_every}")
        if not 0.0 < self.top_k <= 1.0:
            raise ValueError(
                f"init: top_k is the part of the numbers that travel, in (0, 1], not {self.top_k}"
            )
        for one, other, reason in self._excluded():
            raise ValueError(f"init: {one} and {other} exclude each other: {reason}")

    def _excluded(self):
        """Yield (option, option, reason) for those that make no sense together."""
        is_local, is_short = self.local_steps > 1, self.wire_dtype is not None
        exact, local = "reproducible=True", f"local_steps={self.local_steps}"
        packed = self.compression and f"compression={self.compression!r}"
        if self.reproducible and is_short:
            yield exact, "wire_dtype", "exact sums are of the numbers themselves"
        if self.reproducible and packed:
            yield exact, packed, "what is sent later depends on the number of ranks"
        if self.reproducible and is_local:
            yield exact, local, "local steps depend on the number of ranks"
        if packed and is_short:
            yield packed, "wire_dtype", "each says how gradients travel"
        if self.compression == "top_k" and self.divisions > 1:
            yield packed, "divisions", "all its numbers travel in one message"
        if is_local and packed:
            yield local, packed, "parameters travel, of which nothing may be lost"
        if is_local and is_short:
            yield local, "wire_dtype", "parameters travel, of which nothing may be lost"
        if is_local and self.divisions > 1:
            yield local, "divisions", "no gradients travel"
        if is_local and self.sync_batch_norm:
            yield local, "sync_batch_norm", "it exchanges numbers in every step"

    def wire(self, dtype: np.dtype) -> np.dtype | None:
        """Return the dtype in which values of a dtype travel, None for their own."""
        if self.wire_dtype is None or dtype.itemsize <= 2:
            return None
        if self.wire_dtype == "bfloat16":
            from ml_dtypes import bfloat16  # comes with onnx

            return np.dtype(bfloat16)
        return np.dtype(self.wire_dtype)
