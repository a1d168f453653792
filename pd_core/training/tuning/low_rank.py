"""LoRA: matrices that stay as they are, plus trained products of low rank (Hu et al. 2021)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import ops
from ...graph.errors import GraphError, ModelError, ShapeError
from ...graph.initializers import Constant, Uniform
from ...graph.misfits import Misfits
from ...graph.names import current_namespace
from ...graph.node import ancestors
from ...graph.rewrite import substitute
from ...graph.variable import Variable, static
from ...graph.whole import whole
from ...onnx.importing import ImportedModel
from ...run.session import Session, default_session
from ...run.undo import Undo
from ...storage.small_floats import widened
from ...storage.tensors import read_tensors, write_tensors
from .patterns import select

_LINEAR = ("MatMul", "Gemm", "Conv")
_WEIGHTS = tuple([f"{op} weight" for op in _LINEAR])


@whole
def lora(
    f: ImportedModel | Variable | Sequence[Variable],
    rank: int = 8,
    alpha: float | None = None,
    target: str | Sequence[str] = "*",
) -> "LoRA":
    """Add low-rank adapters to weights of a model: W + (alpha / rank) B A, with W frozen.

    `f` is an imported model, whose later calls have the adapters, or one output of a graph or
    several; those with the adapters are `outputs` of the result, a list. `target` are names or
    patterns of matrices of MatMul and Gemm [m, n], and of filters of Conv, taken as [m, n]; A is
    [rank, n] and B [m, rank], or the other way round for a matrix that multiplies from the right.
    The factor next to the input is drawn as U(±1/sqrt(inputs)), the other is 0. `alpha` is `rank`
    if None. Weights that a file stores as int8 or int4, and that were imported with
    `trainable=False`, stay integers in every export (QLoRA, Dettmers et al. 2023, has the idea).

    Nothing else is trained; `f.unfreeze("head.*")` trains more afterwards. `export_tuned` writes
    the sums, without new operators; `merge` does the same to the parameters of a graph. ModelError
    for a pattern that matches none.
    """
    if not isinstance(rank, int) or rank < 1:
        raise ValueError(f"lora: rank is a positive integer, not {rank!r}")
    matrices, keys = _of_file(f) if isinstance(f, ImportedModel) else _of_graph(f)
    chosen = select("lora", "matrix", matrices, target)
    adapters = {}
    for name in chosen:
        weight, input_first = matrices[name]
        if isinstance(f, ImportedModel) and keys[name] in f.reparametrized:
            raise GraphError(f"lora: {name!r} has an adapter already")
        adapters[name] = Adapter(weight, input_first, rank)
    result = LoRA(adapters, rank, float(rank if alpha is None else alpha))
    if isinstance(f, ImportedModel):
        f.freeze()
        for name, adapter in adapters.items():
            f.reparametrized[keys[name]] = Adapted(result, adapter)
    else:
        result.adapt(f)
    return result


class Adapter:
    """The factors of the product that is added to a weight, `a` [rank, n] and `b` [m, rank]."""

    def __init__(self, weight: Variable, input_first: bool, rank: int):
        m, n = _as_matrix(static(weight.dims))
        self.weight = weight
        bound, zeros = 1.0 / np.sqrt(m if input_first else n), Constant(0.0)
        drawn = Uniform(-bound, bound)
        self.a = _factor(weight, "lora_A", (rank, n), zeros if input_first else drawn)
        self.b = _factor(weight, "lora_B", (m, rank), drawn if input_first else zeros)
        self.zero_at_first = self.a if input_first else self.b

    def sum(self, weight: Variable, scale: float) -> Variable:
        """Return weight + scale B A."""
        product = ops.matmul(self.b * scale, self.a)
        return weight + (product if weight.rank == 2 else ops.reshape(product, list(weight.dims)))


@dataclass(frozen=True)
class Adapted:
    """A function of a stored weight that gives it with its adapter."""

    lora: "LoRA"
    adapter: Adapter

    def __call__(self, weight: Variable) -> Variable:
        """Return the sum."""
        return self.adapter.sum(weight, self.lora.scale)

    def variables(self) -> dict[str, Variable]:
        """Return the factors, which a module that has the model saves with it."""
        return {"lora_A": self.adapter.a, "lora_B": self.adapter.b}


class LoRA:
    """The adapters of a model by the names of their weights.

    `outputs` is the list of outputs of the graph with the adapters, of one too; it is empty for an
    imported model, which is called.
    """

    def __init__(self, adapters: dict[str, Adapter], rank: int, alpha: float):
        self.adapters, self.rank, self.alpha = adapters, rank, alpha
        self.outputs: list[Variable] = []

    @property
    def scale(self) -> float:
        """The factor of the products, alpha / rank."""
        return self.alpha / self.rank

    def parameters(self) -> list[Variable]:
        """Return the factors, which are what is trained."""
        return [v for adapter in self.adapters.values() for v in (adapter.a, adapter.b)]

    def summary(self) -> str:
        """Return one line: how many numbers are trained, and how many their matrices have."""
        trained = sum(int(np.prod(static(v.dims))) for v in self.parameters())
        full = sum(int(np.prod(static(a.weight.dims))) for a in self.adapters.values())
        count = len(self.adapters)
        return (
            f"LoRA of rank {self.rank}, alpha {self.alpha:g}, on {count} "
            f"{'matrix' if count == 1 else 'matrices'}: "
            f"{trained:,} numbers are trained instead of {full:,} ({trained / full:.2%})"
        )

    def adapt(self, targets: Variable | Sequence[Variable]) -> None:
        """Set `outputs` to the targets with the adapters, and freeze their other parameters."""
        before = [targets] if isinstance(targets, Variable) else list(targets)
        weights = {a.weight: a.sum(a.weight, self.scale) for a in self.adapters.values()}
        for node in ancestors(before):
            for x in node.inputs:
                if x is not None and x.is_persistent:
                    x.trainable = False
        self.outputs = list(substitute(before, weights))

    def merge(self, session: Session | None = None) -> None:
        """Add the products to their weights in the session, and set one factor of each to 0."""
        session = session or default_session()
        sums = {n: a.sum(a.weight, self.scale) for n, a in self.adapters.items()}
        with Undo(session):  # half of it would count a product twice
            for name, array in session.eval(sums, training=False).items():
                factor = self.adapters[name].zero_at_first
                session.set(self.adapters[name].weight, array)
                session.set(factor, np.zeros(static(factor.dims), factor.dtype))

    def save(self, path: str | os.PathLike, session: Session | None = None) -> None:
        """Write the factors alone to a safetensors file, `<weight>.lora_A` and `….lora_B`."""
        session = session or default_session()
        values = {v.name: session.get(v) for v in self.parameters()}
        write_tensors(path, values, {"rank": str(self.rank), "alpha": repr(self.alpha)})

    def load(
        self, path: str | os.PathLike, session: Session | None = None, strict: bool = True
    ) -> Misfits:
        """Set the factors to those of a file of `save`; return the names that do not fit.

        ModelError for adapters of other weights, unless `strict` is False: what fits is loaded
        then. ShapeError for another rank. After an error nothing is changed.
        """
        session = session or default_session()
        arrays, metadata = read_tensors(path)
        ours = {v.name: v for v in self.parameters()}
        missing = [name for name in ours if name not in arrays]
        misfits = Misfits(missing, [name for name in arrays if name not in ours])
        if any(misfits) and strict:
            raise ModelError(misfits.text(f"{os.fspath(path)} has adapters of other weights"))
        found = {name: v for name, v in ours.items() if name in arrays}
        for name, v in found.items():
            if arrays[name].shape != v.dims:
                raise ShapeError(f"{os.fspath(path)}: {name} is {arrays[name].shape}, not {v!r}")
        if float(metadata.get("alpha", self.alpha)) != self.alpha:
            raise ModelError(f"{os.fspath(path)} has alpha {metadata['alpha']}, not {self.alpha}")
        session.load_values({v: widened(arrays[name]) for name, v in found.items()})
        return misfits


def _factor(weight, suffix, shape, initializer):
    name = f"{weight.name.removeprefix(current_namespace())}.{suffix}"
    return Variable(name, shape=shape, dtype=weight.dtype, initializer=initializer)


def _as_matrix(shape):
    """Return the sizes of a matrix, or of filters [m, ...] as a matrix."""
    return shape[0], int(np.prod(shape[1:]))


def _of_file(f):
    """Return {name: (weight, whether its first axis is the input's)}, and {name: stored name}."""
    right = {
        node.input[1]
        for node in f.graph.node
        if _is_from_right(node.op_type, any(a.name == "transB" and a.i for a in node.attribute))
    }
    matrices, keys = {}, {}
    for key, decision in f.stored.decisions.items():
        if decision.use not in _WEIGHTS or not (key in f.stored.integers or key in f.stored.values):
            continue
        v = f.stored.weight(key)
        if (key in f.stored.integers or v.is_persistent) and _is_matrix(v, decision.use):
            matrices[decision.name] = v, key in right
            keys[decision.name] = key
    return matrices, keys


def _of_graph(targets):
    """Return {name: (weight, whether its first axis is the input's)}, and no stored names."""
    matrices = {}
    for node in ancestors([targets] if isinstance(targets, Variable) else list(targets)):
        for k, v in enumerate(node.inputs[:2] if node.op_type in _LINEAR else ()):
            if v is not None and v.is_persistent and _is_matrix(v, node.op_type):
                transposed = bool(node.attributes.get("transB"))
                matrices[v.name] = v, k == 1 and _is_from_right(node.op_type, transposed)
    return matrices, {}


def _is_from_right(op_type, transposed):
    return op_type == "MatMul" or (op_type == "Gemm" and not transposed)


def _is_matrix(v, use):
    return v.dtype.kind == "f" and (v.rank == 2 or (v.rank > 2 and use.startswith("Conv")))
