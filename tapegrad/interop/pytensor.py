"""`to_pytensor`: a function of ours inside a model of PyMC, or any other program of PyTensor.

PyTensor's operation takes a vector and returns one: what container the function takes and returns its numbers in is made of PyTensor's
own operations, around it.  Its derivatives are such operations again, of a vector and an adjoint or tangent behind it.  Under PyTensor's
Numba backend it is a function compiled by `tg.compile`, called without the interpreter's lock; on another path than that
was compiled for, Python is asked, which records it.
"""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.dual import as_float
from ..array.trees import ravel
from ..array.typing import Pytree
from ..codegen.compile import inside
from ..common.errors import DtypeError, GradientError, ShapeError, StructureError, UnsupportedFunctionError
from ..common.tree import flatten, leaf_names, unflatten
from ..common.uninterrupted import imported
from ..transforms.compiled import CompiledOutputs
from ..transforms.replay.kernels import checked_policy
from .operation import Operation, library, name_of, of_leaves


def to_pytensor(f: Callable[..., Any], *like: Pytree) -> Callable[..., Any]:
    """Make `f` a differentiable operation of PyTensor.

    Parameters
    ----------
    f : callable
        Takes and returns arrays and numbers, or containers of them.  It runs under `jit`, with the same contract.
    *like : float, array_like of float, or containers of them
        A point: arguments of the shapes that `f` will be called with.  Its path through `f` is compiled ahead of time.

    Returns
    -------
    callable
        Takes PyTensor variables, arrays and numbers in the containers of `like`, and returns variables in the containers that `f` returns.
        ``pytensor.grad``, Hessians and ``vectorize_graph`` work; under the Numba backend (which nutpie uses) it is machine code.

    Raises
    ------
    DtypeError
        If an array of `like` is not of floats.  From the call: if an argument is complex.
    ShapeError
        From the call: if an argument has another shape than in `like`.  If PyTensor learns the shape only when the program runs, it then
        raises an AssertionError that names the argument.
    StructureError
        From the call: if the arguments are in other containers than `like`.
    MissingPackageError
        If PyTensor is not installed.

    Examples
    --------
    >>> import numpy as np, pymc as pm  # doctest: +SKIP
    >>> from tapegrad.interop import to_pytensor
    >>> t, data = np.linspace(0.0, 5.0, 20), np.exp(-0.7 * np.linspace(0.0, 5.0, 20))
    >>> def misfit(rate):
    ...     return np.sum((np.exp(-rate * t) - data) ** 2)
    >>> misfit(0.7) < 1e-20
    np.True_
    >>> with pm.Model():  # doctest: +SKIP
    ...     rate = pm.HalfNormal("rate")
    ...     pm.Potential("likelihood", -0.5 * to_pytensor(misfit, 1.0)(rate) / 0.1**2)
    ...     idata = pm.sample(nuts_sampler="nutpie")
    """
    pt, of_vector = library("pytensor").tensor, _op()
    leaves, structure = flatten(like)
    name, names = name_of(f), [f"argument {k}{inside} of {name_of(f)}" for k, part in enumerate(structure.parts) for inside in leaf_names(part)]
    points = [np.asarray(as_float(leaf, what), np.float64) for leaf, what in zip(leaves, names)]
    vector, unravel = ravel(unflatten(structure, points))
    shapes = [point.shape for point in points]
    results, returned = of_leaves(f, structure, unflatten, name)(points)
    ends = np.cumsum([0, *(r.size for r in results)]).tolist()

    def flat(vector):
        return ravel(f(*unravel(vector)))[0]

    operation = of_vector(Operation(flat, name), vector, ends[-1])

    @functools.wraps(f)
    def call(*arguments: Any) -> Any:
        found, given = flatten(arguments)
        if given != structure:
            raise StructureError(f"{name} takes {structure}, as it was given to to_pytensor, not {given}")
        parts = [_checked(pt.as_tensor_variable(x), shape, what) for x, shape, what in zip(found, shapes, names)]
        vector = operation(pt.concatenate([pt.cast(part, "float64").ravel() for part in parts]))
        return unflatten(returned, [vector[at:end].reshape(r.shape) if r.shape else vector[at] for r, at, end in zip(results, ends, ends[1:])])

    return call


def _checked(variable, shape, what):
    """A variable of which it is known, or asserted when the program runs, that it has a shape."""
    pt = imported("pytensor.tensor")
    if variable.dtype.startswith("complex"):
        raise DtypeError(f"{what} is {variable.dtype}: pass real numbers")
    if variable.ndim != len(shape) or any(n not in (None, m) for n, m in zip(variable.type.shape, shape)):
        raise ShapeError(f"{what} has the shape {variable.type.shape}, not {shape}, as to_pytensor was given")
    if None in variable.type.shape:
        same = pt.all(pt.eq(variable.shape, np.array(shape, np.int64)))
        variable = imported("pytensor.raise_op").Assert(f"{what} must have the shape {shape}, as to_pytensor was given")(variable, same)
    return variable


@functools.cache
def _op():
    """The `Op` of operations of a vector, registered with PyTensor's Numba backend."""
    pt, graph = imported("pytensor.tensor"), imported("pytensor.graph.basic")
    dispatch = imported("pytensor.link.numba.dispatch.basic")

    class OfVector(imported("pytensor.graph.op").Op):
        """An operation of a vector, which returns a vector of `size` numbers; at `point` it is compiled."""

        __props__ = ("operation", "size")
        gufunc_signature = "(i)->(o)"

        def __init__(self, operation, point, size):
            self.operation, self.point, self.size = operation, point, size

        def make_node(self, vector):
            return graph.Apply(self, [pt.as_tensor_variable(vector)], [pt.tensor(dtype="float64", shape=(self.size,))])

        def perform(self, node, inputs, outputs):
            outputs[0][0] = self.answer(inputs[0])

        def answer(self, vector):
            """The result, recorded where its path is new."""
            if vector.shape != self.point.shape:
                raise ShapeError(f"the vector of all arguments of {self.operation.name} has the shape {vector.shape}, not {self.point.shape}")
            return np.ascontiguousarray(self.operation([vector])[0][0], np.float64)

        def infer_shape(self, fgraph, node, shapes):
            return [(self.size,)]

        def L_op(self, inputs, outputs, adjoints):
            pulled = _of_one(self.operation.pulled((0,), 1), self.point.size)
            point = np.concatenate([self.point, np.ones(self.size)])
            return [OfVector(pulled, point, self.point.size)(pt.concatenate([inputs[0], adjoints[0]]))]

        def R_op(self, inputs, tangents):
            if tangents[0] is None:
                return [None]
            pushed = _of_one(self.operation.pushed((0,)), self.point.size)
            return [OfVector(pushed, np.concatenate([self.point, np.ones_like(self.point)]), self.size)(pt.concatenate([inputs[0], tangents[0]]))]

        def __str__(self):
            return f"tapegrad{{{self.operation.name}}}"

    @dispatch.numba_funcify.register(OfVector)
    def machine_code(op, node=None, **_):
        return _in_numba(op, dispatch.numba_njit)

    return OfVector


@functools.cache
def _of_one(derived, size):
    """A derived operation, of one vector: `size` numbers and what they move by.  Made once, so that PyTensor computes it once."""

    def of_one(vector):
        return flatten(derived.function(vector[:size], vector[size:]))[0][0]

    return Operation(of_one, derived.name)


class _ByPython:
    """What compiled code asks where it knows no answer; Numba, which would keep a copy of it on disk, is told that there is none."""

    def __init__(self, op):
        self._op = op

    def __call__(self, vector):
        return self._op.answer(np.array(vector))

    def __reduce__(self):
        raise pickle.PicklingError("an operation of this process")


def _in_numba(op, njit):
    """The operation as a function of Numba's."""
    by_python, code, size, count = _ByPython(op), _compiled(op), op.size, op.point.size
    objmode = inside().objmode

    @njit
    def ask(vector):
        with objmode(out="float64[::1]"):
            out = by_python(vector)
        return out

    if code is None:
        return ask

    @njit
    def run(vector):
        out, known = np.empty(size), len(vector) == count
        if known:
            try:
                code(np.ascontiguousarray(vector), out)
            except Exception:
                known = False
        return out if known else ask(vector)

    return run


def _compiled(op):
    """The operation compiled at its point; None if it cannot be."""
    try:
        return CompiledOutputs(op.operation.function, [op.point], [np.empty(op.size)], None, os.cpu_count() or 1, checked_policy(None))
    except (UnsupportedFunctionError, GradientError, DtypeError):
        return None
