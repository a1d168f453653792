"""Inference sessions in a forked process, which has their memory and none of their threads.

The end of a session waits for its threads. In a forked process it would wait for ever where there
is one beside the caller's, and ends the process by a segmentation fault where there are several. It
needs no `del`: the garbage collector ends what the parent has dropped, in a worker of PyTorch's
DataLoader for instance, and Python ends what is left when the process exits.
"""

import ctypes
import os
from weakref import WeakSet

import onnxruntime

_opened: WeakSet[onnxruntime.InferenceSession] = WeakSet()


def not_ended_by_forks(session: onnxruntime.InferenceSession) -> onnxruntime.InferenceSession:
    """Return a session that processes forked from this one never end, whatever they drop."""
    _opened.add(session)
    return session


def _keep_inherited():
    """Hold each session by a reference that nobody gives back, not even Python at its exit."""
    for session in _opened:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_inherited)
