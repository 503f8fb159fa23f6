"""autograd's checks of derivatives, by `tapegrad.check`; each raises an AssertionError."""

import itertools

import numpy as np

from ..array import trees
from ..common.errors import OptionError
from ..common.tree import flatten, unflatten
from ..tools.check import check
from .differential_operators import make_jvp, make_vjp, subval, subvals, unary_to_nary

__all__ = ["check_equivalent", "check_grads", "check_jvp", "check_vjp", "combo_check", "quick_grad_check", "scalar_close", "subval", "subvals"]

TOL, RTOL, EPS = 1e-6, 1e-6, 1e-6


def scalar_close(a, b):
    """Whether two numbers agree."""
    return abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL


def check_equivalent(x, y):
    """Raise unless two containers have the same form and nearly the same numbers."""
    np.testing.assert_equal(flatten(x)[1], flatten(y)[1], "containers of different forms")
    trees.map(lambda one, other: np.testing.assert_allclose(one, other, RTOL, TOL), x, y)


def check_grads(f, argnum=(0,), modes=("fwd", "rev"), order=2):
    """``check_grads(f)(x)`` raises unless the derivatives of `f` agree with differences in all modes, up to an order."""
    places = argnum[0] if isinstance(argnum, tuple) and len(argnum) == 1 else argnum
    return unary_to_nary(_check_modes)(f, places, modes, order)


#: What `tapegrad.check` calls a mode, and its product of a Jacobian with a vector like the argument, or the value.
_MODES = {"fwd": ("forward", lambda f: lambda x, v: make_jvp(f)(x)(v)[1]), "rev": ("reverse", lambda f: lambda x, v: make_vjp(f)(x)[0](v))}


def _check_modes(f, x, modes, order):
    if not {*modes} <= {*_MODES}:
        raise OptionError(f'modes={modes!r}: there are "fwd" and "rev"')
    if {*modes} == {*_MODES} and order <= 2:
        return check_vjp(f, x, order=order)
    # A primitive need not have rules for the other mode.
    check_vjp(f, x, modes=[_MODES[mode][0] for mode in modes])
    for mode in modes if order > 1 else ():
        direction = trees.map(_drawn, x if mode == "fwd" else f(x))
        check_grads(_MODES[mode][1](f), (0, 1), modes, order - 1)(x, direction)


def _drawn(like):
    """Random numbers in the place of some."""
    parts = np.random.default_rng(0).standard_normal((2, *np.shape(like)))
    return parts[0] + 1j * parts[1] if np.iscomplexobj(like) else parts[0]


def check_vjp(f, x, **options):
    """Raise unless the derivatives agree with differences."""
    leaves, structure = flatten(x)
    check(lambda *leaves: f(unflatten(structure, leaves)), *leaves, **options)


check_jvp = check_vjp


def combo_check(fun, *args, **kwargs):
    """``combo_check(fun, ...)(list, list, ...)`` is `check_grads` of these options at all combinations of arguments, and of those by keyword."""

    def over(*lists, **choices):
        for given in itertools.product(*lists):
            for named in itertools.product(*choices.values()):
                check_grads(fun, *args, **kwargs)(*given, **dict(zip(choices, named)))

    return over


def quick_grad_check(fun, arg0, extra_args=(), kwargs=None, verbose=True, eps=1e-4, rtol=1e-4, atol=1e-6, rs=None):
    """Raise unless the gradient by the first argument agrees with differences along directions; these, and the steps, are those of `tapegrad.check`."""
    unary_to_nary(check_vjp)(fun, modes=["reverse"], rtol=rtol, atol=atol)(arg0, *extra_args, **(kwargs or {}))
    if verbose:
        print("the gradient agrees with differences")
