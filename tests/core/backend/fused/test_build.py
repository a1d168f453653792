"""Libraries of C sources: what decides which one is found, who may write them, and kills."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pd_core
from pd_core.backend.fused import build as builder
from pd_core.backend.fused import compilers, home
from pd_core.backend.fused.build import available, build, compiler, folder, why_not
from pd_core.backend.fused.parts import Part, Source
from pd_core.graph.errors import CompilerError

SOURCE = '__attribute__((visibility("default"))) int f(int x) { return x + NUMBER; }'

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    """An empty folder of libraries."""
    monkeypatch.setenv("PD_FUSED_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def source(number):
    return SOURCE.replace("NUMBER", str(number))


def call(path):
    return ctypes.CDLL(str(path)).f(1)


def compilations(monkeypatch):
    """The commands that were run from here on."""
    commands, run = [], builder._run
    monkeypatch.setattr(builder, "_run", lambda c, *a: commands.append(c) or run(c, *a))
    return commands


def test_a_source_is_compiled_once(monkeypatch, private):
    commands = compilations(monkeypatch)
    first, again, other = build(source(1)), build(source(1)), build(source(2))
    assert first == again != other and first.parent == private
    assert [call(first), call(other)] == [2, 3]
    assert len(commands) == 2
    assert sorted(p.suffix for p in private.iterdir()) == [".c", ".c", first.suffix, first.suffix]


@pytest.mark.parametrize("what", ["flags", "include", "compiler", "processor", "runtime"])
def test_what_decides_the_result_has_a_library_of_its_own(what, monkeypatch, tmp_path):
    before, more = build(source(1)), {}
    if what == "flags":
        more = {"flags": ["-O1"]}
    elif what == "include":
        more = {"include": [tmp_path]}
    elif what == "compiler":
        other = compilers.Compiler(compiler().command, "another version")
        monkeypatch.setattr(builder, "compiler", lambda: other)
    elif what == "processor":
        monkeypatch.setattr(builder, "processor", lambda: "another one")
    else:
        monkeypatch.setattr(builder, "ONNX_RUNTIME", "2.0.0")
    assert build(source(1), **more) != before


def test_a_library_is_linked_and_found_where_it_is(tmp_path):
    used = shutil.copy(build(source(1)), tmp_path / f"libused{compilers.suffix()}")
    text = 'int f(int); __attribute__((visibility("default"))) int g(int x) { return 2 * f(x); }'
    path = build(text, libraries=[used])
    assert ctypes.CDLL(str(path)).g(1) == 4
    os.utime(used, (0, 0))  # another version of it
    assert build(text, libraries=[used]) != path


def test_no_rounding_is_left_to_the_compiler():
    assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"} & {*compilers.FLAGS}
    text = (
        '__attribute__((visibility("default"))) float f(float a, float b, float c)'
        "{ return a * b + c; }"
    )
    f = ctypes.CDLL(str(build(text))).f
    f.argtypes, f.restype = [ctypes.c_float] * 3, ctypes.c_float
    a = 1 + 2.0**-12
    assert f(a, a, -1 - 2.0**-11) == 0.0  # 2^-24 of the square is rounded away before the sum


def test_an_error_has_what_the_compiler_says(private):
    with pytest.raises(CompilerError, match=r"(?s)failed to compile .*undeclared.*PD_FUSE=1"):
        build("int f(void) { return undeclared; }")
    assert [p.suffix for p in private.iterdir()] == [".c"]  # the error names it


def test_a_command_that_does_not_start(monkeypatch, tmp_path):
    fake = tmp_path / "cc"
    fake.write_text("no program")
    fake.chmod(0o700)
    monkeypatch.setenv("PD_CC", str(fake))
    with pytest.raises(CompilerError, match="does not start"):
        build(source(1))


def test_without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("PD_CC", raising=False)
    monkeypatch.setattr(compilers, "find_spec", lambda name: None)
    compilers._found.cache_clear()
    assert not available()
    assert why_not().startswith("there is no C compiler (cc, gcc, clang or the package ziglang)")
    with pytest.raises(CompilerError, match=r"pip install 'pd-onnx\[fast\]'"):
        build(source(1))
    compilers._found.cache_clear()


def test_the_package_ziglang_is_the_last_choice(monkeypatch, tmp_path):
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    (tmp_path / "ziglang" / "zig").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("PD_CC", raising=False)
    assert compiler().command == (sys.executable, "-m", "ziglang", "cc")
    compilers._found.cache_clear()


@pytest.mark.parametrize(
    "named, why",
    [
        ("no-such-compiler", "is no command"),
        (f"{sys.executable} -c import(no)", "failed: "),
        ("", ""),
    ],
)
def test_the_compiler_that_is_named(named, why, monkeypatch):
    monkeypatch.setenv("PD_CC", named)
    assert why in why_not() and available() == (not why)


def test_a_command_of_several_words_is_asked_for_its_version(monkeypatch):
    cc = compiler().command[0]
    monkeypatch.setenv("PD_CC", f"{cc} -O0 -g0")
    assert compiler().options == ("-O0", "-g0") and len(compiler().identity) > 20
    assert str(compiler()) == f"{cc} -O0 -g0"
    text = SOURCE.replace("NUMBER", "OPTIMIZED")
    text = f"#ifdef __OPTIMIZE__\n#define OPTIMIZED 4\n#else\n#define OPTIMIZED 0\n#endif\n{text}"
    # they come after ours, and after those of a part: they have the last word
    plain = call(build(text)), call(build(Source((Part("", text, ("-O3",)),))))
    assert plain == (1, 1)
    monkeypatch.setenv("PD_CC", cc)
    assert call(build(text)) == 5


posix = pytest.mark.skipif(os.name != "posix", reason="no modes on this platform")


@posix
def test_the_folder_is_private(private):
    assert folder().stat().st_mode & 0o777 == 0o700
    path = build(source(1))
    assert path.stat().st_mode & 0o077 == 0


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(mode, private):
    build(source(1))
    private.chmod(mode)
    with pytest.raises(CompilerError, match=rf"others can write to .*mode {mode:o}(?s:.)*chmod"):
        build(source(1))


@posix
def test_a_folder_that_others_can_replace_is_refused(private):
    private.parent.chmod(0o777)
    with pytest.raises(CompilerError, match="others can replace what is in"):
        build(source(1))
    private.parent.chmod(0o1777)  # as /tmp is
    build(source(1))


@posix
def test_a_folder_of_another_user_is_refused(monkeypatch):
    build(source(1))
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(CompilerError, match="belongs to another user"):
        build(source(1))


@posix
@pytest.mark.parametrize("kind", ["writable", "link"])
def test_a_library_of_others_is_refused(kind):
    path = build(source(1))
    if kind == "writable":
        path.chmod(0o777)
    else:
        os.replace(path, f"{path}.moved")
        path.symlink_to(f"{path}.moved")
    with pytest.raises(CompilerError, match="not private"):
        build(source(1))


def test_a_folder_that_cannot_be_made(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PD_FUSED_HOME", str(tmp_path / "file" / "folder"))
    with pytest.raises(CompilerError, match=r"cannot be made(?s:.)*PD_FUSED_HOME"):
        build(source(1))


def test_the_default_folder_is_one_for_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("PD_FUSED_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folder().relative_to(tmp_path).parts[-2:] == ("pd", "fused")


def test_libraries_that_were_not_used_for_longest_are_removed(monkeypatch, private):
    paths = [build(source(k)) for k in range(3)]
    for age, path in zip([30, 10, 20], paths, strict=True):
        os.utime(path, (time.time() - age,) * 2)
    build(source(0))  # used again
    monkeypatch.setattr(home, "_LIMIT", 3 * paths[0].stat().st_size)
    last = build(source(3))
    left = {p for p in private.iterdir() if p.suffix == last.suffix}
    assert left == {paths[0], paths[1], last}
    assert not paths[2].with_suffix(".c").exists()


def test_files_that_vanish_while_the_oldest_are_looked_for(private, monkeypatch):
    """Links to nothing are listed and are not there, like files that another process renames."""
    old = build(source(0))
    os.utime(old, (0, 0))
    for k in range(20):
        (private / f"{k}{home.OBJECT}").symlink_to(private / "nothing")
    monkeypatch.setattr(home, "_LIMIT", 1)
    build(source(1))
    assert not old.exists()


def test_what_killed_compilers_have_left_is_removed(private):
    path = build(source(1))
    partial = home.partial_path(str(path))
    for name in (partial, home.partial_path(str(private / "other.so"))):
        with open(name, "w") as file:
            os.utime(file.fileno(), (0, 0))
    path.unlink()
    assert build(source(1)) == path
    assert sorted(private.iterdir()) == sorted([path, path.with_suffix(".c")])


# ---- libraries of parts

EXPORTED = '__attribute__((visibility("default"))) int f(int x) {{ return {sum}; }}'


def of_parts(*numbers, more=""):
    """A library whose f(x) adds x + number of several parts, each with a function."""
    header = f"{more}#define ADD(n) __attribute__((weak)) int add_##n(int x) {{ return x + n; }}\n"
    parts = [Part(header, f"ADD({n})") for n in numbers]
    declared = "".join(f"int add_{n}(int);" for n in numbers)
    table = declared + EXPORTED.format(sum=" + ".join(f"add_{n}(x)" for n in numbers))
    return Source((Part(header, table, alone=True), *parts))


def compiled(commands):
    """How many object files commands have made, and how many libraries."""
    objects = sum("-c" in command for command in commands)
    return objects, len(commands) - objects


def test_parts_are_compiled_once_for_all_libraries(monkeypatch):
    commands = compilations(monkeypatch)
    paths = [build(of_parts(1, 2, 3)), build(of_parts(1, 2, 3))]
    assert paths[0] == paths[1] and compiled(commands) == (2, 1)
    commands.clear()
    other = build(of_parts(3, 1))  # of both it has the object file of the first library
    assert compiled(commands) == (1, 1)
    commands.clear()
    more = build(of_parts(2, 4))
    assert compiled(commands) == (2, 1)
    assert [call(path) for path in (paths[0], other, more)] == [9, 6, 8]


def test_two_object_files_may_have_the_same_part(private):
    build(of_parts(1, 2))
    tools = builder._Tools((), (), ())
    tools.object(of_parts(2).parts[1]).unlink()
    build(of_parts(2, 3))  # compiles 2 again
    assert call(build(of_parts(1, 2, 3))) == 9


def test_file_systems_without_hard_links(monkeypatch, private):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    commands = compilations(monkeypatch)
    assert call(build(of_parts(1, 2))) == 5
    assert call(build(of_parts(2, 3))) == 7  # of 2 there are two files
    assert call(build(of_parts(1, 2, 3))) == 9
    assert compiled(commands) == (5, 3)
    assert not [p for p in private.iterdir() if p.name.startswith(".")]


def test_flags_and_headers_have_object_files_of_their_own(monkeypatch):
    commands = compilations(monkeypatch)
    build(of_parts(1))
    for again in ({"flags": ["-O0"]}, {}):
        commands.clear()
        build(of_parts(1, more="" if again else "/* another */\n"), **again)
        assert compiled(commands) == (2, 1)
    commands.clear()
    source = of_parts(1)
    parts = [source.parts[0], Part(source.parts[1].header, source.parts[1].text, ("-O0",))]
    assert call(build(Source(tuple(parts)))) == 2
    assert compiled(commands) == (1, 1)


def test_long_parts_are_divided_between_the_cores(monkeypatch):
    monkeypatch.setattr(builder, "cores", lambda: 3)
    commands = compilations(monkeypatch)
    text = "__attribute__((weak)) int f{0}(int x) {{ return {1}; }}"
    long = [text.format(k, "+".join(["x"] * builder._BATCH)) for k in range(8)]
    declared = "".join(f"int f{k}(int);" for k in range(8))
    table = Part("", declared + EXPORTED.format(sum="f0(x) + f7(x)"), alone=True)
    path = build(Source((table, *(Part("", each) for each in long))))
    assert compiled(commands) == (4, 1) and call(path) == 2 * builder._BATCH


def test_a_part_does_not_bring_what_others_call():
    """A part is in no file with one that calls more: a library without that would not link."""
    declared, weak = "int far(int); ", "__attribute__((weak)) int"
    far = Part("", f"{weak} far(int x) {{ return 10 * x; }}")
    near = Part(declared, f"{weak} near(int x) {{ return x + 1; }}")
    caller = Part(declared, f"{weak} caller(int x) {{ return far(x); }}", calls=("far",))
    table = "int near(int), caller(int);"
    both = Part("", table + EXPORTED.format(sum="near(x) + caller(x)"), alone=True)
    one = Part("", table + EXPORTED.format(sum="near(x)"), alone=True)
    assert call(build(Source((both, near, caller, far)))) == 12
    assert call(build(Source((one, near)))) == 2


def test_an_error_of_a_part_stores_neither_it_nor_the_library(private):
    source = of_parts(1)
    broken = Part(source.parts[0].header, "int broken(void) { return undeclared; }", ("-O0",))
    with pytest.raises(CompilerError, match=r"(?s)failed to compile .*undeclared.*PD_FUSE=1") as e:
        build(Source((*source.parts, broken)))
    named = next(word for word in str(e.value).split() if word.endswith(".c"))
    assert "undeclared" in Path(named).read_text()
    assert not [p for p in private.iterdir() if p.suffix == compilers.suffix()]
    assert not [p for p in private.iterdir() if p.name.startswith(".")]
    assert not builder._Tools((), (), ()).object(broken).exists()
    assert call(build(source)) == 2


@pytest.mark.skipif(os.name != "posix", reason="no modes on this platform")
def test_an_object_file_of_others_is_refused():
    build(of_parts(1))
    builder._Tools((), (), ()).object(of_parts(1).parts[1]).chmod(0o666)
    with pytest.raises(CompilerError, match="not private"):
        build(of_parts(1, 2))


def test_object_files_are_removed_with_the_libraries(monkeypatch, private):
    build(of_parts(1, 2))
    for path in private.iterdir():
        os.utime(path, (0, 0))
    monkeypatch.setattr(home, "_LIMIT", 1)
    last = build(of_parts(3))
    assert {p for p in private.iterdir() if p.suffix != ".c"} == {last}
    assert call(build(of_parts(1, 2))) == 5


# ---- several processes

# Without all of the package, whose import takes longer than the rest.
PROGRAM = """
import os, sys, types
sys.modules["pd_core"] = package = types.ModuleType("pd_core")
package.__path__ = [sys.argv[2]]
from pd_core.backend.fused.build import build
from pd_core.backend.fused.parts import Part, Source
texts = sys.argv[1].split(";;")
parts = [Part("", text, alone=not k) for k, text in enumerate(texts)]
print("ready", flush=True)
sys.stdin.readline()
print(build(Source(tuple(parts)) if len(parts) > 1 else texts[0]), flush=True)
"""
FORMS = ["one source", "parts"]


def started(number, form, **environment):
    text = source(number)
    if form == "parts":
        text = ";;".join(f"{p.header}{p.text}" for p in of_parts(number).parts)
    command = [sys.executable, "-c", PROGRAM, text, pd_core.__path__[0]]
    ends = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **ends, env=os.environ | environment)


def slow_compiler(folder, log):
    """A compiler that notes each of its runs, and takes its time when told so."""
    real, path = compiler().command[0], folder / "slow-cc"
    path.write_text(
        f'#!/bin/sh\necho $$ >> {log}\nif [ -p "$PD_WAIT" ]; then read line < "$PD_WAIT"; fi\n'
        f'exec {real} "$@"\n'
    )
    path.chmod(0o700)
    return str(path)


@posix
@pytest.mark.parametrize("form", FORMS)
def test_processes_that_need_the_same_library_compile_it_once(form, tmp_path):
    log = tmp_path / "log"
    named = {"PD_CC": slow_compiler(tmp_path, log)}
    processes = [started(7, form, **named) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all are imported: they begin together
        process.stdin.write("go\n")
        process.stdin.flush()
    paths = {process.communicate()[0].strip() for process in processes}
    assert len(paths) == 1 and call(paths.pop()) == 8
    assert len(log.read_text().splitlines()) == (1 if form == "one source" else 3)


@posix
@pytest.mark.parametrize("form", FORMS)
def test_a_killed_process_leaves_no_torn_library(form, tmp_path, private):
    log, gate = tmp_path / "log", tmp_path / "gate"
    os.mkfifo(gate)
    named = {"PD_CC": slow_compiler(tmp_path, log), "PD_WAIT": str(gate)}
    process = started(9, form, **named)
    process.stdin.write("go\n")
    process.stdin.flush()
    while not (log.exists() and log.read_text()):  # the compiler has been started
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not [p for p in private.iterdir() if p.suffix in (compilers.suffix(), ".o")]
    gate.unlink()  # the next run does not wait
    again = started(9, form, PD_CC=named["PD_CC"])
    path = again.communicate("go\n")[0].split()[-1]
    assert call(path) == 10
    first = log.read_text().splitlines()[: 1 if form == "one source" else 2]
    for process_id in first:  # they still wait
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process_id), signal.SIGKILL)
