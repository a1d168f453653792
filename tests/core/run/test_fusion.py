"""Fused kernels are run where they are asked for, and nowhere else."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest

import pd_core as pd
from pd_core.backend.fused import program
from pd_core.backend.fused.build import available
from tests.core.backend.fused.marked import DOMAIN, MARKED

pytestmark = pytest.mark.skipif(not available(), reason="there is no C compiler here")

HALF = np.array([0.25, 1.5], np.float32)
PLAIN, FUSED = [1.0, 2.0], [1.5, 2.5]


@pytest.fixture(autouse=True)
def marked(monkeypatch):
    """Kernels that give other results than the operators that they replace."""
    monkeypatch.setattr(program, "FUSERS", [MARKED])


def ceiling():
    x = pd.Variable([None])
    return x, pd.ceil(x)


def results(session=pd, number=1):
    x, y = ceiling()
    return [session.eval(y, {x: HALF}).tolist() for _ in range(number)][-1]


# ---- switches


def test_it_is_off_unless_asked_for():
    assert results() == PLAIN
    assert not pd.default_session().fused


def test_a_block_is_of_what_is_inside():
    x, y = ceiling()
    found = [pd.eval(y, {x: HALF}).tolist()]
    for _ in range(2):
        with pd.fused():
            found += [pd.eval(y, {x: HALF}).tolist() for _ in range(3)]
            assert pd.default_session().fused
        found += [pd.eval(y, {x: HALF}).tolist() for _ in range(3)]
    assert found == [PLAIN, *([FUSED] * 3 + [PLAIN] * 3) * 2]


def test_the_innermost_block_has_the_last_word():
    with pd.fused(), pd.fused(False):
        assert results() == PLAIN
    with pd.fused(False), pd.fused():
        assert results() == FUSED


def test_a_session_has_it_for_all_of_its_evaluations():
    session = pd.Session(fused=True)
    assert results(session, 3) == FUSED and session.fused
    with pd.fused(False):
        assert results(session) == FUSED
    assert results() == PLAIN


def test_a_session_may_refuse(monkeypatch):
    monkeypatch.setenv("PD_FUSE", "1")
    session = pd.Session(fused=False)
    with pd.fused():
        assert results(session) == PLAIN


@pytest.mark.parametrize("value, expected", [("1", FUSED), ("0", PLAIN), ("", PLAIN)])
def test_the_environment_is_the_default(value, expected, monkeypatch):
    monkeypatch.setenv("PD_FUSE", value)
    pd.reset()
    assert results() == expected
    assert results(pd.Session()) == expected
    with pd.fused(False):
        assert results() == PLAIN


def test_the_block_is_one_of_its_thread():
    found = []
    with pd.fused():
        thread = threading.Thread(target=lambda: found.append(results()))
        thread.start()
        thread.join()
        assert results() == FUSED
    assert found == [PLAIN]


def test_it_is_for_cpus(monkeypatch):
    with pytest.raises(pd.PlaceError, match="for CPUs, not for 'reference'"):
        pd.Session("reference", fused=True)
    monkeypatch.setenv("PD_FUSE", "1")
    with pd.fused(), pd.Session("reference") as session:
        assert not session.fused and results(session) == PLAIN


def test_without_a_compiler_asking_is_an_error(monkeypatch):
    session = pd.Session()
    monkeypatch.setenv("PD_CC", "no-such-compiler")
    hint = "no-such-compiler.* is no command(?s:.)*install"
    with pytest.raises(pd.CompilerError, match=hint), pd.fused():
        pass
    with pytest.raises(pd.CompilerError, match=hint):
        pd.Session(fused=True)
    with pd.fused(False):
        assert results(session) == PLAIN
    monkeypatch.setenv("PD_FUSE", "1")
    with pytest.raises(pd.CompilerError, match=hint):
        pd.Session()
    pd.Session(fused=False)


def test_a_failed_compilation_is_an_error_and_stores_nothing(monkeypatch):
    broken = program.Fuser(lambda *_: ("no C", None))
    monkeypatch.setattr(program, "FUSERS", [broken])
    w = pd.Variable("w", data=np.ones(2, np.float32))
    step = pd.assign(w, pd.ceil(w * 2.0))
    with pytest.raises(pd.CompilerError, match=r"failed to compile(?s:.)*PD_FUSE=1"), pd.fused():
        pd.eval(step)
    assert pd.default_session().get(w).tolist() == [1.0, 1.0]
    pd.eval(step)  # as ever
    assert pd.default_session().get(w).tolist() == [2.0, 2.0]


# ---- programs


def test_values_are_those_of_the_session():
    w = pd.Variable("w", data=np.full(2, 0.5, np.float32))
    step = pd.assign(w, pd.ceil(w + 0.25))
    with pd.fused():
        pd.eval(step)  # 1.5
    pd.eval(step)  # 2
    with pd.fused():
        pd.eval(step)  # 3.5
    assert pd.default_session().get(w).tolist() == [3.5, 3.5]


def test_programs_of_equal_structure_are_shared_within_a_mode(no_programs):
    with pd.fused():
        before = pd.stats()["compiled"]
        assert [results() for _ in range(3)] == [FUSED] * 3
        assert [results(pd.Session(fused=True)), results()] == [FUSED] * 2
    assert results() == PLAIN
    assert pd.stats()["compiled"] - before <= 2


def test_programs_are_cleared_in_both_modes():
    session = pd.Session()
    results(session)
    with pd.fused():
        results(session)
    compilers = session.compilers
    assert [len(c.cache) > 0 for c in compilers._of.values()] == [True, True]
    pd.clear_programs()
    assert [len(c.cache) for c in compilers._of.values()] == [0, 0]


def test_several_steps_in_one_run():
    x, y = ceiling()
    stacked = np.stack([HALF, HALF + 1])
    with pd.fused():
        assert pd.run_steps(y, {x: stacked}).tolist() == [FUSED, [2.5, 3.5]]
    assert pd.run_steps(y, {x: stacked}).tolist() == [PLAIN, [2.0, 3.0]]


def test_the_bodies_of_loops():
    with pd.fused():
        x = pd.Variable([3])
        y = pd.scan(lambda s, r: (s + pd.ceil(r), s), pd.constant(np.float32(0)), x)[0]
        assert pd.eval(y, {x: np.ones(3, np.float32)}) == 4.5


def test_graphs_that_are_built_while_values_are_at_hand():
    found = []
    for on in (True, False, True):
        with pd.fused(on), pd.guard():
            found.append(pd.ceil(pd.to_variable(HALF)).numpy().tolist())
    assert found == [FUSED, PLAIN, FUSED]


def test_dropout_draws_the_same_numbers():
    x = pd.Variable([None])
    y = pd.ceil(pd.dropout(x, 0.5)) - x
    ones = np.ones(64, np.float32)
    found = []
    for on in (False, True):
        with pd.fused(on), pd.Session(seed=3):
            found.append(pd.eval(y, {x: ones}, training=True))
    assert np.array_equal(found[0] + 0.5, found[1])


def test_an_exported_model_has_no_kernels(tmp_path):
    x, y = ceiling()
    with pd.fused():
        results()
        pd.export_onnx(str(tmp_path / "y.onnx"), [y], inputs=[x])
    model = onnx.load(str(tmp_path / "y.onnx"))
    assert [node.op_type for node in model.graph.node] == ["Ceil"]
    assert DOMAIN not in {o.domain for o in model.opset_import}


HASHED = """
import hashlib, sys
import pd_core as pd
from pd_core.backend.fused import program
program.kept = lambda name: None
digest = lambda source: hashlib.sha256(source.text().encode()).hexdigest()
program.build = lambda source: print(digest(source)) or sys.exit()
x = pd.Variable([None, 8])
cost = pd.reduce_mean(pd.square(pd.fc(pd.gelu(pd.fc(x, size=16)), size=1)))
with pd.fused():
    pd.eval(pd.AdamOptimizer(1e-2).minimize(cost), {x: [[1.0] * 8]})
"""


def test_another_process_writes_the_same_source():
    """It is the key of the library: with another one each process, and each rank, compiles."""
    found = set()
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", HASHED]
        found.add(subprocess.check_output(command, env=environment, text=True))
    assert len(found) == 1 and len(found.pop()) == 65


# ---- lines, profiles, libraries


def test_errors_name_the_line_that_built_the_operator():
    x, y = ceiling()  # its second line
    line = ceiling.__code__.co_firstlineno + 2
    with pd.fused():
        for _ in range(2):
            with pytest.raises(pd.BackendError, match="too large for this kernel") as caught:
                pd.eval(y, {x: HALF * 1e5})
            assert caught.value.site == (__file__, line)
            x, y = ceiling()  # of a program that is known


def test_a_profile_has_kernels_with_their_lines():
    x, y = ceiling()
    line = ceiling.__code__.co_firstlineno + 2
    with pd.fused(), pd.profile() as found:
        for _ in range(2):
            assert pd.eval(y, {x: HALF}).tolist() == FUSED
    (row, _) = found.rows("node")
    assert (row.operator, row.line, row.calls) == ("MarkedCeil", (__file__, line), 1)
    with pd.profile() as found:
        assert pd.eval(y, {x: HALF}).tolist() == PLAIN
        with pd.fused():
            assert pd.eval(y, {x: HALF}).tolist() == FUSED
    assert {row.name for row in found.rows("operator")} >= {"Ceil", "MarkedCeil"}


def test_check_numerics_sees_what_kernels_make():
    x, y = ceiling()
    with pd.fused(), pd.check_numerics(), pytest.raises(pd.NumericError, match="Log"):
        pd.eval(pd.log(y - 3.0), {x: HALF})


maps = Path("/proc/self/maps")


@pytest.mark.skipif(not maps.exists(), reason="no /proc here")
def test_libraries_are_unloaded_with_their_programs(monkeypatch, tmp_path):
    monkeypatch.setenv("PD_FUSED_HOME", str(tmp_path))
    pd.clear_programs()

    def loaded():
        return str(tmp_path) in maps.read_text()

    for _ in range(3):
        with pd.Session(fused=True) as session:
            assert results(session) == FUSED and loaded()
            assert results(session) == FUSED
        gone = weakref.ref(session)
        del session
        pd.clear_programs()
        gc.collect()
        assert gone() is None and not loaded()


def test_threads_run_one_library_at_the_same_time():
    x, y = ceiling()
    found = []

    def work():
        session = pd.Session(fused=True)
        found.extend(session.eval(y, {x: HALF}).tolist() for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [FUSED] * 80


def test_removing_the_folder_does_no_harm(monkeypatch, tmp_path):
    monkeypatch.setenv("PD_FUSED_HOME", str(tmp_path / "home"))
    pd.clear_programs()
    session = pd.Session(fused=True)
    assert results(session) == FUSED
    for path in (tmp_path / "home").iterdir():
        path.unlink()
    assert results(session) == FUSED  # it is loaded
    pd.clear_programs()
    assert results(session) == FUSED
