"""autograd's derivatives, with its names, order of arguments and results (D. Maclaurin et al., autograd, 2015).

Arrays of integers are differentiated as floats.  Derivatives by complex numbers are autograd's, the conjugates of ours,
and so are the adjoints that `make_vjp` takes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array import trees
from ..common.errors import NonScalarOutputError
from ..common.tree import conjugated, flatten, holds_complex
from ..transforms import functional, hessians, jacobians
from ..transforms.argnums import resolved
from ..transforms.checkpoint import checkpoint
from ..transforms.forward import jvp

__all__ = [
    "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian", "hessian_tensor_product", "hessian_vector_product",
    "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "tensor_jacobian_product", "value_and_grad",
    "vector_jacobian_product",
]  # fmt: skip


def subvals(x, ivs):
    """A tuple with other values at some places."""
    found = list(x)
    for i, value in ivs:
        found[i] = value
    return tuple(found)


def subval(x, i, v):
    """A tuple with another value at a place."""
    return subvals(x, [(i, v)])


def _float(x):
    return np.asarray(x, float) if isinstance(x, np.ndarray) and x.dtype.kind in "iub" else x


def unary_to_nary(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of functions of one argument as one of functions of several, by the argument ``argnum`` (a number or name), or by a tuple of them.

    Examples
    --------
    >>> from tapegrad.hips.differential_operators import unary_to_nary
    >>> at = unary_to_nary(lambda f, x: f(2.0 * x))
    >>> at(lambda a, b: a - b, 1)(10.0, 1.0)
    8.0
    """

    @functools.wraps(operator)
    def nary_operator(fun, argnum=0, *nary_op_args, **nary_op_kwargs):
        alone, places = resolved(fun, argnum)

        @functools.wraps(fun)
        def nary_f(*args, **kwargs):
            def unary(x):
                return fun(*subvals(args, zip(places, [x] if alone else x)), **kwargs)

            x = tuple(args[k] for k in places)
            return operator(unary, trees.map(_float, x[0] if alone else x), *nary_op_args, **nary_op_kwargs)

        return nary_f

    return nary_operator


def _by(transformation, **options):
    """autograd's form of a transformation of ours, whose derivatives by complex numbers are those by their conjugates."""

    def operator(fun, x):
        fun, x = _conjugate(fun, x)
        return transformation(fun, **options)(x)

    said = "".join(f", {name}={value}" for name, value in options.items())
    operator.__name__, operator.__doc__ = transformation.__name__, f"`tapegrad.{transformation.__name__}` by the argument ``argnum=0``{said}."
    return unary_to_nary(operator)


def _conjugate(fun, x):
    """A function and its argument, where that holds complex numbers as the function of the conjugates, and these."""
    return (lambda z: fun(conjugated(z)), conjugated(x)) if holds_complex(flatten(x)[1]) else (fun, x)


grad = _by(functional.grad)
value_and_grad = _by(functional.value_and_grad)
elementwise_grad = _by(functional.elementwise_grad)
grad_and_aux = _by(functional.grad, has_aux=True)
jacobian = _by(jacobians.jacobian)


@unary_to_nary
def holomorphic_grad(fun, x):
    """``holomorphic_grad(fun, argnum=0)``: the complex derivative of a holomorphic function."""
    return functional.grad(fun, holomorphic=True)(x)


@unary_to_nary
def hessian(fun, x):
    """``hessian(fun, argnum=0)``: the Hessian of a function that returns a number; of one that returns an array, that of each element."""
    try:
        return hessians.hessian(fun)(x)
    except NonScalarOutputError:
        return jacobian(jacobian(fun))(x)


@unary_to_nary
def deriv(fun, x):
    """``deriv(fun, argnum=0)``: the derivative in forward mode, along the vector of ones."""
    return jvp(fun, (x,), (trees.map(np.ones_like, x),))[1]


@unary_to_nary
def make_vjp(fun, x):
    """``make_vjp(fun, argnum=0)(*args)``: the VJP, a function of an adjoint, and the value."""
    value, pullback = jacobians.vjp(*_conjugate(fun, x))
    return (lambda g: pullback(conjugated(g))[0]), value


@unary_to_nary
def make_jvp(fun, x):
    """``make_jvp(fun, argnum=0)(*args)``: a function of a tangent that gives the value and its tangent."""
    return lambda v: jvp(fun, (x,), (v,))


@unary_to_nary
def make_jvp_reversemode(fun, x):
    """``make_jvp_reversemode(fun, argnum=0)(*args)``: a function of a tangent that gives that of the value."""
    return lambda v: jvp(fun, (x,), (v,))[1]


@unary_to_nary
def make_hvp(fun, x):
    """``make_hvp(fun, argnum=0)(*args)``: the product of the Hessian with a vector, as a function of that, and the gradient."""
    return make_vjp(grad(fun))(x)


def make_ggnvp(f, g=lambda x: 1.0 / 2.0 * np.sum(x**2, axis=-1), f_argnum=0):
    """``make_ggnvp(f, g)(*args)``: the product of the Gauss-Newton matrix of ``g(f(x))`` with a vector, as a function of that."""

    @unary_to_nary
    def operator(f, x):
        pull, y = make_vjp(f)(x)
        push = make_vjp(pull)(trees.map(lambda part: 0.0 * part, y))[0]
        product = make_hvp(g)(y)[0]
        return lambda v: pull(product(push(v)))

    return operator(f, f_argnum)


def _with_tensor(product):
    """``product(fun, x, tensor)`` as an operator that gives a function of the arguments of `fun`, and of the tensor behind them."""

    @functools.wraps(product)
    def operator(fun, argnum=0):
        return functools.wraps(fun)(lambda *args, **kwargs: unary_to_nary(product)(fun, argnum, args[-1])(*args[:-1], **kwargs))

    return operator


@_with_tensor
def hessian_tensor_product(fun, x, tensor):
    """``hessian_tensor_product(fun, argnum=0)(*args, vector)``: the Hessian times the vector."""
    return make_hvp(fun)(x)[0](tensor)


@_with_tensor
def tensor_jacobian_product(fun, x, tensor):
    """``tensor_jacobian_product(fun, argnum=0)(*args, tensor)``: the tensor times the Jacobian, summed over the tensor's axes."""
    return jacobian(lambda x: np.tensordot(tensor, fun(x), np.ndim(tensor)))(x)


hessian_vector_product, vector_jacobian_product = hessian_tensor_product, tensor_jacobian_product


def grad_named(fun, argname):
    """The gradient by the argument of this name."""
    return grad(fun, argname)


def multigrad_dict(fun):
    """A function that gives the gradients by all arguments, in a dict by their names."""

    @functools.wraps(fun)
    def gradients(*args, **kwargs):
        call = inspect.signature(fun).bind(*args, **kwargs)
        call.apply_defaults()

        def of_all(given):
            call.arguments = given
            return fun(*call.args, **call.kwargs)

        return grad(of_all)(dict(call.arguments))

    return gradients
