"""`to_jax`: a function of ours inside a program of JAX.

JAX differentiates in forward mode, and transposes what is linear in the tangents.  So there are two primitives.  `value` calls an
operation; its JVP is `pushed`, the JVP of the operation, whose transpose is `value` of the VJP.  The JVP of `pushed` is `pushed` of a
derived operation, and under ``jax.vmap`` both call the operation that is mapped: so the rules close, and every transformation holds
to any order.  (A ``custom_vjp`` has no forward mode; ``linear_call`` in a ``custom_jvp`` has neither tangents of its residuals nor
a rule for ``vmap``.)

What is traced knows shapes but no numbers.  The shapes of results are those of an earlier call with such arguments; without
one, `f` is run at a point made up for it.  Each later call is compared with that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.errors import GradientError, ShapeError, require
from ..common.tree import flatten, unflatten
from ..common.uninterrupted import imported
from .operation import Operation, by_position, checked, is_float, library, name_of, of_leaves


def to_jax(f: Callable[..., Any], result_shape_dtypes: Any = None) -> Callable[..., Any]:
    """Make `f` a differentiable operation of JAX.

    Parameters
    ----------
    f : callable
        Takes and returns arrays and numbers, or containers of them.  It runs under `jit`, with the same contract: unlike a function that JAX
        traces, it may branch on its numbers.
    result_shape_dtypes : callable or containers of jax.ShapeDtypeStruct, optional
        What `f` returns, as in ``jax.pure_callback``; or a function of the arguments that returns this.  By default `f` runs once at
        arguments made up from their shapes, when a traced program meets shapes that `f` was not yet called with.

    Returns
    -------
    callable
        Takes and returns what `f` does, as JAX arrays.  ``jax.jit``, ``grad``, ``jacfwd``, ``jacrev``, ``hessian``, ``vmap`` and ``lax.scan``
        work, in any order.

    Raises
    ------
    DtypeError
        From the call: if an argument is neither float64, float32, integers nor booleans.
    ShapeError
        If `f` returns another shape than for the made-up arguments, or than `result_shape_dtypes` says.
    GradientError
        If `f` cannot run at made-up arguments: give `result_shape_dtypes`.
    MissingPackageError
        If JAX is not installed.

    Notes
    -----
    ``jax.pure_callback`` calls tapegrad, which computes the numbers on the CPU.  JAX rounds them to float32 unless told
    ``jax.config.update("jax_enable_x64", True)`` (the context manager ``enable_x64`` applies to one thread, and callbacks come from others).

    Examples
    --------
    >>> from tapegrad.interop import to_jax
    >>> def halvings(x):
    ...     count = 0.0
    ...     while x > 1.0:
    ...         x, count = x / 2.0, count + 1.0
    ...     return x**2 + count
    >>> halvings(5.0)
    3.390625
    >>> import jax  # doctest: +SKIP
    >>> jax.jit(jax.grad(to_jax(halvings)))(5.0)  # doctest: +SKIP
    Array(0.3125, dtype=float32, weak_type=True)
    """
    jax = library("jax")
    value, _ = _primitives(jax)
    name = name_of(f)
    operations: dict[Any, _Shaped] = {}

    @functools.wraps(f)
    def call(*arguments: Any, **keywords: Any) -> Any:
        arguments = by_position(f, arguments, keywords) if keywords else arguments
        for k, argument in enumerate(arguments):
            for leaf in jax.tree.leaves(argument):
                checked(np.dtype(jax.numpy.result_type(leaf)), k, name)
        leaves, structure = jax.tree.flatten(arguments)
        operation = operations.get(structure) or operations.setdefault(structure, of_leaves(f, structure, jax.tree.unflatten, name, _Shaped))
        operation.result, operation.structure = result_shape_dtypes, structure
        leaves = [jax.numpy.asarray(leaf) for leaf in leaves]
        results = value.bind(*leaves, operation=operation)
        return unflatten(operation.described(leaves)[1], results)

    return call


class _Shaped(Operation):
    """An operation, with the shapes and dtypes of its results by those of its arguments: by `rule`, as a user has told, or as they were."""

    rule = result = structure = None

    def __init__(self, function, name):
        super().__init__(function, name)
        self.jax, self._known = imported("jax"), {}

    def described(self, arguments):
        """The shapes and dtypes of the flat results, and the container they come in."""
        key = self._key(arguments)
        if key not in self._known:
            self._known[key] = self._found([self.jax.ShapeDtypeStruct(*each) for each in key])
        return self._known[key]

    def _key(self, arguments):
        return tuple((tuple(a.shape), np.dtype(a.dtype)) for a in arguments)

    def _found(self, arguments):
        if self.rule is not None:
            return self.rule(arguments), None
        if self.result is not None:
            return flatten(self.result(*self.jax.tree.unflatten(self.structure, arguments)) if callable(self.result) else self.result)
        try:
            return self._shapes_of(*self([_made_up(k, a) for k, a in enumerate(arguments)]))
        except Exception as error:
            raise GradientError(
                f"{self.name} was run at arguments made up for it, to see what shapes it returns, and raised "
                f"{type(error).__name__}: tell to_jax its result_shape_dtypes"
            ) from error

    def _shapes_of(self, results, structure):
        canonical = self.jax.dtypes.canonicalize_dtype
        return [self.jax.ShapeDtypeStruct(r.shape, canonical(r.dtype)) for r in results], structure

    def answer(self, *arguments):
        """The results, as they were described."""
        arguments = [np.asarray(a) for a in arguments]
        results, structure = self(arguments)
        if self.rule is None and self.result is None:
            self._known.setdefault(self._key(arguments), self._shapes_of(results, structure))
        shapes, told = self.described(arguments)
        found, expected = [r.shape for r in results], [tuple(s.shape) for s in shapes]
        if found != expected or told not in (None, structure):
            raise ShapeError(
                f"{self.name} returned the shapes {found} in {structure}, where JAX was told {expected} in {told}: return the same for "
                "all arguments of a shape, or tell to_jax its result_shape_dtypes"
            )
        return [np.asarray(r, s.dtype) for r, s in zip(results, shapes)]

    def pulled(self, inputs, results):
        return self._by(lambda arguments: [arguments[k] for k in inputs], super().pulled(inputs, results))

    def pushed(self, inputs):
        return self._by(lambda arguments: [*filter(is_float, self.described(arguments[: len(arguments) - len(inputs)])[0])], super().pushed(inputs))

    def mapped(self, axes):
        def rule(arguments):
            (count,) = {a.shape[0] for a, axis in zip(arguments, axes) if axis is not None}
            inner = [a if axis is None else self.jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a, axis in zip(arguments, axes)]
            return [self.jax.ShapeDtypeStruct((count, *s.shape), s.dtype) for s in self.described(inner)[0]]

        return self._by(rule, super().mapped(axes))

    def _by(self, rule, derived):
        derived.rule = derived.rule or rule
        return derived


def _made_up(k, argument):
    """Numbers for an argument of which the shape is known: between a quarter and three quarters, no two alike; of integers, zero."""
    if argument.dtype.kind != "f":
        return np.zeros(argument.shape, argument.dtype)
    size = int(np.prod(argument.shape))
    return (0.25 + 0.5 * (np.arange(size) * 0.6180339887 + 0.1 * k) % 0.5).reshape(argument.shape).astype(argument.dtype)


@functools.cache
def _primitives(jax):
    """The primitives of all operations: a value, and a derivative that is linear in its tangents."""
    Primitive, (ad, batching, mlir) = imported("jax.extend.core").Primitive, (imported(f"jax.interpreters.{m}") for m in ("ad", "batching", "mlir"))
    value, push = Primitive("tapegrad"), Primitive("tapegrad_jvp")
    value.multiple_results = push.multiple_results = True

    def zeros(x):
        return jax.numpy.zeros(x.aval.shape, x.aval.dtype) if type(x) is ad.Zero else x

    def moves(x):
        return type(x) is not ad.Zero and np.issubdtype(x.dtype, np.floating)

    def tangents_of(operation, primals, tangents):
        """Values, and tangents by `push`, of any operation."""
        results = value.bind(*primals, operation=operation)
        inputs = tuple(k for k, t in enumerate(tangents) if moves(t))
        if not inputs:
            return results, [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
        pushed = iter(push.bind(*primals, *[tangents[k] for k in inputs], operation=operation, inputs=inputs))
        return results, [next(pushed) if is_float(r) else ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]

    def to_front(x, axis):
        return x if axis is None else jax.numpy.moveaxis(x, axis, 0)

    # ---- value: an operation, and its JVP, which is given the primals, and the tangents of `inputs` -----------------

    def mapped(arguments, axes, *, operation):
        moved = [to_front(x, axis) for x, axis in zip(arguments, axes)]
        results = value.bind(*moved, operation=operation.mapped(tuple(None if axis is None else 0 for axis in axes)))
        return results, [0] * len(results)

    def transposed(adjoints, *given, operation, inputs):
        primals, tangents = given[: len(given) - len(inputs)], given[len(given) - len(inputs) :]
        require(all(map(ad.is_undefined_primal, tangents)), f"{operation.name}: JAX asks for the transpose by some tangents of several")
        pulled = operation.pulled(inputs, len(adjoints))
        return [*[None] * len(primals), *value.bind(*primals, *map(zeros, adjoints), operation=pulled)]

    def push_mapped(given, axes, *, operation, inputs):
        count = len(given) - len(inputs)
        (size,) = {x.shape[axis] for x, axis in zip(given, axes) if axis is not None}
        moved, lanes = [to_front(x, axis) for x, axis in zip(given, axes)], [axis is not None for axis in axes]
        for at, k in enumerate(inputs, count):
            if lanes[at] != lanes[k]:
                # The tangents have the shape of their primals.
                alone = at if lanes[k] else k
                moved[alone], lanes[alone] = jax.numpy.broadcast_to(moved[alone], (size, *moved[alone].shape)), True
        require(any(lanes[:count]), f"{operation.name}: JAX maps the tangents of constant arguments")
        of_many = operation.mapped(tuple(0 if lane else None for lane in lanes[:count]))
        results = push.bind(*moved, operation=of_many, inputs=inputs)
        return results, [0] * len(results)

    def define(primitive, of):
        """A primitive that computes what is `of` its parameters, an operation."""

        def in_program(*given, **named):
            return jax.pure_callback(of(**named).answer, of(**named).described(given)[0], *given)

        def with_tangents(primals, tangents, **named):
            return tangents_of(of(**named), primals, tangents)

        primitive.def_impl(lambda *given, **named: [jax.numpy.asarray(r) for r in of(**named).answer(*given)])
        primitive.def_abstract_eval(lambda *given, **named: [jax.core.ShapedArray(s.shape, s.dtype) for s in of(**named).described(given)[0]])
        mlir.register_lowering(primitive, mlir.lower_fun(in_program, multiple_results=True))
        ad.primitive_jvps[primitive] = with_tangents

    define(value, lambda operation: operation)
    define(push, lambda operation, inputs: operation.pushed(inputs))
    batching.primitive_batchers[value], batching.primitive_batchers[push] = mapped, push_mapped
    ad.primitive_transposes[push] = transposed
    return value, push
