"""autograd's derivatives, with its names, order of arguments and results (D. Maclaurin et al., autograd, 2015).

Arrays of integers are differentiated as floats.  The gradient of a real function of complex numbers is autograd's, the conjugate of ours.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.forward import jvp
from ..common.tree import flatten, unflatten
from ..transforms import functional, hessians, jacobians
from ..transforms.checkpoint import checkpoint as _checkpoint
from ..transforms.hessians import hessian as _hessian

#: Which argument, or a tuple of which, as a tuple.
Argnum = Any


def _floats(thing):
    """A container with its integers as floats."""
    leaves, structure = flatten(thing)
    return unflatten(structure, [np.asarray(x, float) if isinstance(x, np.ndarray) and x.dtype.kind in "iub" else x for x in leaves])


def _places(argnum):
    return (argnum,) if isinstance(argnum, (int, np.integer)) else tuple(argnum)


def unary_to_nary(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of functions of one argument as one of functions of several, by the argument ``argnum``.

    Examples
    --------
    >>> from tapegrad.hips.differential_operators import unary_to_nary
    >>> at = unary_to_nary(lambda f, x: f(2.0 * x))
    >>> at(lambda a, b: a - b, 1)(10.0, 1.0)
    8.0
    """

    @functools.wraps(operator)
    def nary_operator(fun, argnum=0, *nary_op_args, **nary_op_kwargs):
        @functools.wraps(fun)
        def nary_f(*args, **kwargs):
            places, alone = _places(argnum), isinstance(argnum, (int, np.integer))

            def unary(x):
                given = list(args)
                for k, value in zip(places, (x,) if alone else x):
                    given[k] = value
                return fun(*given, **kwargs)

            x = _floats(args[argnum] if alone else tuple(args[k] for k in places))
            return operator(unary, x, *nary_op_args, **nary_op_kwargs)

        return nary_f

    return nary_operator


@unary_to_nary
def grad(fun, x):
    """``grad(fun, argnum=0)``: the gradient of a function of one number."""
    return functional.grad(fun, conjugate=True)(x)


@unary_to_nary
def value_and_grad(fun, x):
    """``value_and_grad(fun, argnum=0)``: value and gradient."""
    return functional.value_and_grad(fun, conjugate=True)(x)


@unary_to_nary
def elementwise_grad(fun, x):
    """``elementwise_grad(fun, argnum=0)``: the derivative of an element-wise function, in its argument's shape."""
    return functional.elementwise_grad(fun)(x)


@unary_to_nary
def holomorphic_grad(fun, x):
    """``holomorphic_grad(fun, argnum=0)``: the derivative of a holomorphic function."""
    return functional.grad(fun, holomorphic=True)(x)


@unary_to_nary
def deriv(fun, x):
    """``deriv(fun, argnum=0)``: the derivative in forward mode, along the vector of ones."""
    return jvp(fun, (x,), (_of_ones(x),))[1]


@unary_to_nary
def jacobian(fun, x):
    """``jacobian(fun, argnum=0)``: of shape (outputs, inputs)."""
    return jacobians.jacobian(fun)(x)


@unary_to_nary
def hessian(fun, x):
    """``hessian(fun, argnum=0)``."""
    return _hessian(fun)(x)


@unary_to_nary
def make_vjp(fun, x):
    """``make_vjp(fun, argnum=0)(*args)``: the VJP, a function of an adjoint, and the value."""
    value, pullback = jacobians.vjp(fun, x)
    return (lambda g: pullback(g)[0]), value


@unary_to_nary
def make_jvp(fun, x):
    """``make_jvp(fun, argnum=0)(*args)``: a function of a tangent that gives the value and its tangent."""
    return lambda v: jvp(fun, (x,), (v,))


make_jvp_reversemode = make_jvp


@unary_to_nary
def make_hvp(fun, x):
    """``make_hvp(fun, argnum=0)(*args)``: the product of the Hessian with a vector, as a function of that, and the gradient."""
    value, pullback = jacobians.vjp(functional.grad(fun), x)
    return (lambda v: pullback(v)[0]), value


def make_ggnvp(f, g=lambda x: 1.0 / 2.0 * np.sum(x**2, axis=-1), f_argnum=0):
    """``make_ggnvp(f, g)(*args)``: the product of the Gauss-Newton matrix of ``g(f(x))`` with a vector, as a function of that."""

    @unary_to_nary
    def at(f, x):
        return lambda v: hessians.gnvp(f, g)(x, v)

    return at(f, f_argnum)


def hessian_tensor_product(fun, argnum=0):
    """A function of the arguments and a vector behind them: the Hessian times that."""

    @functools.wraps(fun)
    def product(*args, **kwargs):
        *args, vector = args
        return unary_to_nary(lambda f, x: hessians.hvp(f)(x, vector))(fun, argnum)(*args, **kwargs)

    return product


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun, argnum=0):
    """A function of the arguments and a tensor behind them: that times the Jacobian, summed over the tensor's axes."""

    @functools.wraps(fun)
    def product(*args, **kwargs):
        *args, tensor = args
        return unary_to_nary(lambda f, x: jacobians.jacobian(lambda x: np.tensordot(tensor, f(x), np.ndim(tensor)))(x))(fun, argnum)(*args, **kwargs)

    return product


vector_jacobian_product = tensor_jacobian_product


@unary_to_nary
def grad_and_aux(fun, x):
    """``grad_and_aux(fun, argnum=0)`` of a function that returns a number and something more: the gradient, and what is more."""
    return functional.grad(fun, has_aux=True)(x)


def grad_named(fun, argname):
    """The gradient by the argument of this name."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def multigrad_dict(fun):
    """A function that gives the gradients by all arguments, in a dict by their names."""
    signature = inspect.signature(fun)

    @functools.wraps(fun)
    def gradients(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def of_all(given):
            call = inspect.BoundArguments(signature, dict(given))
            return fun(*call.args, **call.kwargs)

        return grad(of_all)(dict(bound.arguments))

    return gradients


def checkpoint(fun):
    """`fun`, whose intermediate values are computed again in the reverse sweep."""
    return _checkpoint(fun)


def _of_ones(x):
    leaves, structure = flatten(x)
    return unflatten(structure, [np.ones_like(np.asarray(leaf, float)) if np.ndim(leaf) else 1.0 for leaf in leaves])
