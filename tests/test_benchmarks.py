"""The framework of `python -m tests.benchmarks`, on a toy workload and without other frameworks."""

import ast
import json
import math

import numpy as np
import pytest

from tests.benchmarks import __main__ as program
from tests.benchmarks import noise, report
from tests.benchmarks.contender import Failed, Process, Side
from tests.benchmarks.measure import ABSENT, Effort, Measured, Result, measure, workload_paths

TOY = """
import numpy as np

TITLE, KIND, RTOL, FLOPS = "toy | a line", "train", 1e-6, 2e6


def batches():
    return [(np.full(2, k, np.float32),) for k in range(4)]


def loop_of(weight):
    def loop(batches):
        losses = []
        for (x,) in batches:
            losses.append(float(((weight * x - 1.0) ** 2).sum()))
            weight[...] += 0.01
        return losses

    return loop


def ours():
    print("a line that is no answer")
    weight = np.ones(2, np.float32)
    return loop_of(weight), [weight.copy()]


def pytorch(parameters, compiled):
    (weight,) = parameters
    return loop_of(compiled(weight))


def wrong(parameters):
    return loop_of(parameters[0] + 1.0)


def broken(*parameters):
    raise ValueError("no such thing\\nmore")


def stopped(parameters):
    import os

    os._exit(3)
"""
OURS = Side("pd", "math", "ours")
OTHERS = [
    Side("PyTorch", "math", "pytorch"),
    Side("JAX", "math", "jax"),
    Side("wrong", "math", "wrong"),
    Side("broken", "math", "broken"),
    Side("stopped", "math", "stopped"),
    Side("not installed", "no_such_module", "pytorch"),
]
TINY = Effort(rounds=3, most_rounds=3, block_seconds=0.001)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The toy workload, measured."""
    path = tmp_path_factory.mktemp("workloads") / "toy.py"
    path.write_text(TOY)
    return measure(path, TINY, [OURS, *OTHERS])


def test_contenders_are_measured_in_the_same_rounds(toy):
    ours, torch = toy.sides[:2]
    assert (toy.name, toy.title, toy.flops) == ("toy", "toy | a line", 2e6)
    assert ours.error == torch.error == ""
    assert len(ours.ms) == len(torch.ms) == len(toy.peak_gflops) == TINY.rounds
    assert min(ours.ms + torch.ms + toy.peak_gflops) > 0.0
    assert ours.import_seconds >= 0.0 and ours.first_seconds >= 0.0
    assert toy.steps >= 1
    assert set(toy.ratios()) == {"PyTorch"}


def test_an_error_is_a_line_and_not_the_end(toy):
    errors = {side.name: side.error for side in toy.sides}
    assert errors["JAX"] == ABSENT
    assert errors["wrong"].startswith("the losses differ: 2, 2.0")
    assert errors["broken"] == "ValueError: no such thing"
    assert errors["stopped"] == "ended with status 3"
    assert errors["not installed"] == ("ModuleNotFoundError: No module named 'no_such_module'")
    assert not any(side.ms for side in toy.sides if side.error)
    rows = report.details([toy]).splitlines()
    assert len(rows) == 2 + len(toy.sides)
    assert "| broken | ValueError: no such thing |" in rows[-3]
    row = report.summary([toy]).splitlines()[-1]
    assert row.startswith("| toy / a line | ") and row.endswith(
        " | - | error | error | error | error |"
    )


def test_pd_that_fails_ends_its_workload_only(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    result = measure(path, TINY, [Side("pd", "math", "broken"), OTHERS[0]])
    assert [side.error for side in result.sides] == ["ValueError: no such thing"]
    assert "| toy / a line | error |" in report.summary([result])
    assert "against PyTorch - (0 workloads)" in report.means([result])


def test_a_process_that_takes_too_long_is_ended(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text("import time\ntime.sleep(100)")
    with (
        Process(OURS, path) as process,
        pytest.raises(Failed, match=r"took more than 0\.2 s"),
    ):
        process.receive(limit_seconds=0.2)


def result_of(name, **times):
    sides = [Measured(side.replace("_", ", "), ms=list(ms)) for side, ms in times.items()]
    return Result(name, name, "train", 1e6, 1, 0.0, [100.0], sides)


STEADY = [2.0, 2.02, 1.98, 2.0, 2.01]


def test_a_ratio_that_is_too_noisy_is_not_printed():
    steady = noise.ratio(STEADY, [1.0] * 5)
    assert steady.is_trusted and str(steady) == "2.00"
    noisy = noise.ratio([0.8, 1.0, 1.7, 1.2, 0.9], [1.0] * 5)
    assert not noisy.is_trusted and str(noisy) == "noisy: 0.8 to 1.7"
    with pytest.raises(ValueError, match="no values"):
        noise.ratio([], [])


def test_the_interval_contains_the_true_median():
    # P(fewer than k of n values are below the median), for k - 1 values cut off at each end
    for n, cut in ((1, 0), (4, 0), (5, 0), (8, 1), (11, 2), (33, 11)):
        assert noise.median_interval(range(n)) == (cut, n - 1 - cut)
    rng = np.random.default_rng(0)
    draws = rng.lognormal(size=(2000, 11))
    inside = [low <= 1.0 <= high for low, high in map(noise.median_interval, draws.tolist())]
    assert 0.92 < np.mean(inside) < 0.95  # 0.9346 by the binomial distribution


def test_means_leave_noisy_ratios_out():
    results = [
        result_of("a", pd=[1.0] * 5, PyTorch=STEADY, PyTorch_compiled=[4.0] * 5, JAX=[8.0] * 5),
        result_of("b", pd=[1.0] * 5, PyTorch=[8.0] * 5, JAX=[0.5] * 5),
        result_of("c", pd=[1.0] * 5, PyTorch=[1.0, 2.0, 3.0, 4.0, 5.0]),
    ]
    line = report.means(results)
    assert "against PyTorch 4.00 (2 workloads, 1 too noisy)" in line
    assert "against JAX 2.00 (2 workloads)" in line
    assert "against the better of both 1.00 (2 workloads, 1 too noisy)" in line
    table = report.summary(results).splitlines()
    assert table[0] == "| workload | ms of pd | PyTorch / pd | PyTorch, compiled / pd | JAX / pd |"
    assert table[2] == "| a | 1 | 2.00 | 4.00 | 8.00 |"
    assert table[4] == "| c | 1 | noisy: 1 to 5 | - | - |"
    assert math.isclose(noise.geometric_mean([2.0, 8.0]), 4.0)


def test_json_is_reported_again_and_drawn(toy, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    first, second, chart = (tmp_path / name for name in ("1.json", "2.json", "chart.png"))
    first.write_text(json.dumps([program.dataclasses.asdict(toy)]))
    options = ["--json", str(second), "--chart", str(chart)]
    assert program.main(["--merge", str(first), *options]) == 0
    assert json.loads(second.read_text()) == json.loads(first.read_text())
    assert chart.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "| toy / a line |" in printed
    assert printed.splitlines()[-1].startswith("Geometric mean")


def test_an_unknown_workload_is_named(capsys):
    with pytest.raises(SystemExit):
        program.main(["--only", "perceptron", "no_such_workload"])
    assert "no workload no_such_workload; there are" in capsys.readouterr().err


@pytest.mark.parametrize("path", workload_paths(), ids=lambda path: path.stem)
def test_workloads_have_the_interface(path):
    """By their source: neither PyTorch nor JAX is imported before it is needed."""
    tree = ast.parse(path.read_text())
    names, imported = {}, []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            aliases = [alias.name for alias in node.names]
            imported += [*aliases, getattr(node, "module", "")]
        elif isinstance(node, ast.Assign):
            targets = [t for target in node.targets for t in ast.walk(target)]
            names |= {t.id: None for t in targets if isinstance(t, ast.Name)}
    assert {"TITLE", "KIND", "RTOL", "FLOPS", "batches", "ours", "pytorch"} <= set(names)
    interface = {"batches": [], "ours": [], "pytorch": ["parameters", "compiled"]}
    for name, arguments in {**interface, "jax": ["parameters"]}.items():
        assert names.get(name) in (None, arguments), f"{name}({', '.join(names[name])})"
    assert not {name.split(".")[0] for name in imported if name} & {"torch", "jax"}
