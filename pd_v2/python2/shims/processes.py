"""Modules that start processes; Python processes translate their programs too."""

import errno
import subprocess

from pd_v2.python2 import process
from pd_v2.python2.shims.files import File
from pd_v2.python2.shims.text import as_binary, as_bytes, as_text
from pd_v2.python2.shims.views import overrides

# fmt: off
_STARTERS = (
    "execl", "execlp", "execv", "execvp", "posix_spawn", "posix_spawnp", "spawnl", "spawnlp",
    "spawnv", "spawnvp", "startfile", "system",
)
# fmt: on


@overrides("os")
def _os(os):
    def fdopen(fd, mode="r", buffering=-1):
        return File(fd, mode, buffering)

    starters = [name for name in _STARTERS if hasattr(os, name)]
    return {
        **{name: process.sharing_translation(getattr(os, name)) for name in starters},
        "errno": errno,
        "fdopen": fdopen,
        "getcwdu": os.getcwd,
        "popen": _popen,
    }


def _popen(command, mode="r", buffering=-1):
    """Open a pipe from a shell command, or to it with mode "w"."""
    end = "stdin" if mode.startswith("w") else "stdout"
    started = subprocess.Popen(  # noqa: S602  the program asks for a shell, as in Python 2
        as_text(command), shell=True, env=process.child_environment(None), **{end: subprocess.PIPE}
    )
    pipe = _Pipe.wrap(getattr(started, end), mode)
    pipe.process = started
    return pipe


class _Pipe(File):
    """One end of a pipe to a process."""

    def close(self):
        """Close the pipe; return the exit status in the form of os.wait(), None for success."""
        self.buffer.close()
        status = self.process.wait()
        return _waited(status) or None


@overrides("subprocess")
def _subprocess(subprocess):
    """Let pipes carry any string."""

    def adapted(keywords):
        if keywords.get("universal_newlines"):
            keywords = {**keywords, "encoding": "utf-8", "errors": "surrogateescape"}
        return {**keywords, "env": process.child_environment(keywords.get("env"))}

    class Popen(subprocess.Popen):
        """A process whose pipes are Python 2 files."""

        def __init__(self, *args, **keywords):
            super().__init__(*args, **adapted(keywords))
            if not self.text_mode:
                for name in ("stdin", "stdout", "stderr"):
                    pipe = getattr(self, name)
                    setattr(self, name, pipe and File.wrap(pipe))

        def communicate(self, input=None):
            input = input if self.text_mode else as_bytes(input)
            return tuple(map(as_binary, super().communicate(input)))

    def check_output(*args, **keywords):
        return as_binary(subprocess.check_output(*args, **adapted(keywords)))

    def starting(function):
        return lambda *args, **keywords: function(*args, **adapted(keywords))

    return {
        **{name: starting(getattr(subprocess, name)) for name in ("call", "check_call", "run")},
        **{
            name: process.sharing_translation(getattr(subprocess, name))
            for name in ("getoutput", "getstatusoutput")
        },
        "Popen": Popen,
        "check_output": check_output,
    }


@overrides("commands")
def _commands(_):
    def getstatusoutput(command):
        status, output = process.sharing_translation(subprocess.getstatusoutput)(command)
        return _waited(status), output

    return {"getstatusoutput": getstatusoutput}


def _waited(status):
    """Return an exit status, -n after signal n, in the form of os.wait()."""
    return -status if status < 0 else status << 8


@overrides("multiprocessing")
def _multiprocessing(_):
    return {"set_start_method": process.set_start_method}
