"""Derivatives of what a solver finds, by the implicit function theorem: `root`, `fixed_point`, `argmin`.

The solution ``x(p)`` of ``f(x, p) = 0`` moves with the parameters p so that f stays zero::

    J dx = -(df/dp) dp        with J = df/dx at the solution,

so one linear solve gives the derivative, whatever found x: the solver runs on plain
numbers and is not looked at.  A call is one instruction, a custom primitive
(`tapegrad.autograd.custom`): the JVP rule solves with J, the VJP rule with its transpose.  Both
are written in operations that can be differentiated again, and the x in them is the
instruction's result, which depends on p: so derivatives of any order, in every nesting, are
those of the theorem.  Where J is not formed (``linear="gmres"``), the linear system is itself solved
by a `_Solution`, whose derivative is another linear solve.

A. Griewank and A. Walther, "Evaluating Derivatives", 2nd ed. (2008), chapter 15; M. Blondel et al.,
"Efficient and modular implicit differentiation" (2022).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..array.differentiable import Differentiable, below
from ..array.record import guard_on
from ..array.trees import joined, ravel
from ..array.typing import Pytree
from ..autograd import nested
from ..autograd.custom import Primitive
from ..common.errors import ConvergenceError, LeaveTapeError, OptionError, SingularJacobianError, StructureError, TapeMismatchError
from ..common.host_functions import host_function
from ..common.public import answers
from ..common.tree import flatten, rearranged, unflatten
from ..common.uninterrupted import imported
from .argnums import check_function
from .contents import COPIED, OBJECTS, Contents
from .forward import jvp
from .functional import grad, value_and_grad
from .jacobians import jacobian, vjp

__all__ = ["ITERATIONS", "TOLERANCE", "argmin", "fixed_point", "root"]

#: How the linear system of a derivative is solved.
LinearSolver: TypeAlias = Literal["dense", "gmres", "bicgstab", "cg"]

#: How large the largest residual may be, beside the largest one at the start (or 1).
TOLERANCE = 1e-6
#: Iterations of `fixed_point`, and the relative change at which it stops.
ITERATIONS, CHANGE = 10_000, 1e-14
LINEAR = get_args(LinearSolver)
_RUN_AGAIN = "between the call and its derivative or replay, for which the function is run again"


def _returned(result, name):
    if result is None:
        raise StructureError(f"{name} returns None: does the function return what it computes?")
    return result


@host_function
def _regular(matrix):
    """Whether a linear system with this matrix has digits in its solution."""
    with np.errstate(all="ignore"):
        condition = np.linalg.cond(matrix, 1) if np.isfinite(matrix).all() else np.inf
    return condition < 1.0 / (np.finfo(float).eps * len(matrix))


class _Solution:
    """The solution of ``residual(x, *args) = 0`` near `x0`, as a function of the arguments.

    Parameters
    ----------
    function : callable
        The user's.
    parts : callable
        ``parts(function)`` gives the residual, which returns as many numbers as x has, and ``solve(solution, x0, arguments)``, which, on
        plain numbers and with this object, gives x, in the containers of `x0`, or an ``OptimizeResult`` with it.
    linear : str
        One of `LINEAR`.
    tolerance : float
    name : str
        Of the residual, for errors.
    """

    def __init__(self, function, parts, linear, tolerance, name):
        check_function(function)
        if linear not in LINEAR:
            raise OptionError(f"linear={linear!r}: choose one of {', '.join(LINEAR)}")
        self.function, self.parts, self.linear, self.tolerance, self.name = function, parts, linear, tolerance, name
        self.residual, self.solve = parts(function)
        self.by_x = jacobian(self.of_vector)
        #: What the function had read when it was called, if there is a derivative or a replay to come.
        self.read = None

    def __call__(self, x0, args):
        #: `container` gives a vector the form of `x0`.
        start, self.container = ravel(x0)
        self.structure = flatten(x0)[1]
        parameters, self.arguments = flatten(tuple(args))
        primitive = Primitive(self._value, self.name)
        primitive.closed = "its solver is not looked into"
        primitive.defvjp(self._vjp)
        primitive.defjvp(self._jvp)
        operands = (start if isinstance(start, Differentiable) else start.astype(float), *parameters)
        read = Contents(self.function, OBJECTS, (), COPIED) if any(isinstance(operand, Differentiable) for operand in operands) else None
        result = primitive(*operands)
        if read is not None:
            read.keep_own()
            self.read = read
        return self.container(result)

    @contextlib.contextmanager
    def as_it_was(self):
        """Inside, the function is what it was at the call: it may read variables of a loop, or arrays that are filled again, and count."""
        with contextlib.nullcontext() if self.read is None else self.read.own_put_back():
            if self.read is not None:
                self.residual, self.solve = self.parts(self.read.restored(_RUN_AGAIN))
            yield

    def of_vector(self, x, *parameters):
        """The residual as a function of vectors."""
        residual = self.residual(self.container(x), *unflatten(self.arguments, list(parameters)))
        return joined(_returned(residual, self.name))

    # -- the value -----------------------------------------------------------------
    def _value(self, start, *parameters):
        with self.as_it_was():
            return self._searched(start, *parameters) if not nested.inside() else self._apart(start, *parameters)

    def _apart(self, start, *parameters):
        # What a solver computes is no part of the recording outside, nor are the derivatives it asks for: a thread of its own has
        # tapes of its own.
        with ThreadPoolExecutor(1) as apart:
            try:
                return apart.submit(self._searched, start, *parameters).result()
            except (LeaveTapeError, TapeMismatchError) as error:
                raise StructureError(
                    f"{self.name} uses a tensor that is none of its arguments, and would lose its derivative; pass it as one"
                ) from error

    def _searched(self, start, *parameters):
        def problem(x):
            return np.asarray(self.of_vector(np.array(x, float), *parameters), float)

        first = problem(start)
        if first.shape != start.shape:
            raise StructureError(
                f"{self.name} returns {first.size} numbers for {start.size} unknowns; it takes one equation for each of them"
            )
        answer = self.solve(self, self.container(np.array(start)), unflatten(self.arguments, list(parameters)))
        success, message = getattr(answer, "success", True), getattr(answer, "message", "")
        x = np.array(joined(_arranged(getattr(answer, "x", answer), self.structure)), float)
        if x.shape != start.shape:
            raise StructureError(f"the solver returned {x.size} numbers, the start has {start.size}")
        left = float(np.max(np.abs(problem(x)), initial=0.0))
        allowed = self.tolerance * max(1.0, float(np.max(np.abs(first), initial=0.0, where=np.isfinite(first))))
        if not left <= allowed:
            raise ConvergenceError(
                f"no solution of {self.name} was found: the largest residual is {left:.3g}, allowed is {allowed:.3g}"
                + (f" (the solver says: {message})" if not success and message else "")
                + "; start closer, give another solver, or tol"
            )
        return x

    # -- derivatives -----------------------------------------------------------------
    @staticmethod
    def _floats(parameters):
        """Numbers of the parameters that may get a derivative: in a recording those that are part of it."""
        floats = [k for k, p in enumerate(parameters) if np.asarray(getattr(below(p), "_v", below(p))).dtype.kind == "f"]
        live = [k for k in floats if isinstance(parameters[k], Differentiable)]
        return live or floats

    def _of_parameters(self, x, parameters, floats):
        """The residual as a function of these parameters."""
        return lambda *live: self.of_vector(x, *(dict(enumerate(parameters)) | dict(zip(floats, live))).values())

    def _jvp(self, tangents, x, start, *parameters):
        floats = [k for k in self._floats(parameters) if tangents[1 + k] is not None]
        primals, moved = tuple(parameters[k] for k in floats), tuple(tangents[1 + k] for k in floats)
        with self.as_it_was():
            _, change = jvp(self._of_parameters(x, parameters, floats), primals, moved)
            return -self._solved(x, parameters, change, False)

    def _vjp(self, g, x, start, *parameters):
        floats = self._floats(parameters)
        with self.as_it_was():
            weights = self._solved(x, parameters, g, True)
            _, pull = vjp(self._of_parameters(x, parameters, floats), *(parameters[k] for k in floats))
            gradients = dict(zip(floats, pull(weights)))
        return (None, *[-gradients[k] if k in gradients else None for k in range(len(parameters))])

    def _solved(self, x, parameters, b, transposed):
        """The solution of the linear system with J, or with its transpose."""
        if self.linear != "dense":
            return self._iterated(x, parameters, b, transposed)
        matrix = self.by_x(x, *parameters)
        if np.size(matrix) and not guard_on(_regular(), matrix):
            raise SingularJacobianError(
                f"the derivative of {self.name} in the unknowns is singular at the solution: the solution does not depend smoothly on the "
                "arguments there"
            )
        return np.linalg.solve(np.transpose(matrix) if transposed else matrix, b)

    def _iterated(self, x, parameters, b, transposed):
        method = self.linear

        def product(v, x, *parameters):
            function = lambda y: self.of_vector(y, *parameters)  # noqa: E731
            with self.as_it_was():
                return vjp(function, x)[1](v)[0] if transposed else jvp(function, (x,), (v,))[1]

        def solve(system, start, arguments):
            linalg = imported("scipy.sparse.linalg")
            b, x, *parameters = arguments
            size = len(b)
            operator = linalg.LinearOperator(
                (size, size), dtype=np.float64, matvec=lambda v: product(np.array(v, float).reshape(-1), x, *parameters)
            )
            solution, _ = getattr(linalg, method)(operator, b, rtol=1e-12, atol=0.0, maxiter=10 * size)
            return solution

        inner = _Solution(
            lambda v, b, x, *parameters: product(v, x, *parameters) - b, lambda system: (system, solve), method, 1e-8,
            f"the linear system of {self.name} ({method})",
        )
        return inner(np.zeros(np.shape(b)), (b, x, *parameters))


def _name(function):
    return getattr(function, "__qualname__", repr(function))


def _chosen(solver, function, by_method, args):
    """``solve(solution, x0, arguments)``, as `_Solution` calls it, for what the user gave: a function, the name of a method, or None.

    The user's own solver is handed ``function(x, *arguments)`` of x; ``by_method(solution, x0, arguments, method)`` solves otherwise.
    """
    if len(args) == 1 and isinstance(args[0], tuple) and inspect.isfunction(function):
        try:
            inspect.signature(function).bind(None, *args)
        except TypeError as error:
            raise TypeError(f"give the arguments of {_name(function)} one by one, not as a tuple: {error}") from None
    if callable(solver):
        return lambda solution, x0, arguments: solver(lambda x: function(x, *arguments), x0)
    return lambda solution, x0, arguments: by_method(solution, x0, arguments, solver)


def _arranged(thing, structure):
    """The leaves of `thing`; where it differs from `structure` in the order of keys only, as they stand there."""
    leaves, found = flatten(thing)
    return rearranged(leaves, found, structure) or leaves


def _by_scipy(solution, x0, arguments, method):
    """A root by `scipy.optimize.root`, with exact Jacobians."""
    optimize = imported("scipy.optimize")
    parameters = flatten(arguments)[0]
    exact = {"jac": lambda x: solution.by_x(np.array(x), *parameters)} if method in (None, "hybr", "lm") else {}
    return optimize.root(
        lambda x: solution.of_vector(np.array(x), *parameters), joined(x0), method=method or "hybr",
        tol=1e-13 if exact else None, **exact,
    )  # fmt: skip


@answers(args="give them one by one: root(f, x0, *args)")
def root(
    f: Callable[..., Any], x0: Pytree, *args: Pytree, solver: str | Callable[..., Any] | None = None, linear: LinearSolver = "dense",
    tol: float = TOLERANCE,
) -> Pytree:  # fmt: skip
    """Solve ``f(x, *args) = 0`` for x near `x0`, as a differentiable function of `args`.

    Parameters
    ----------
    f : callable
        Returns as many numbers as x has, as a number, an array, or containers of them.
    x0 : float, ndarray, or containers of them
        Where to start; nothing depends on it, so its derivative is zero.
    *args
        Further arguments of `f`: numbers, arrays, containers.  The solution depends on those that
        are tensors or dual numbers; `f` must not use other tensors or dual numbers.
    solver : str or callable, optional
        A method of `scipy.optimize.root` ("hybr" by default, with the exact Jacobian), or a function
        ``solver(fun, x0)``, which takes ``fun(x) = f(x, *args)`` on plain numbers and returns x, in the containers of
        `x0`, or an ``OptimizeResult``.
    linear : {"dense", "gmres", "bicgstab", "cg"}
        How the linear system of the derivative is solved: "dense" forms the Jacobian; the others
        (of `scipy.sparse.linalg`) only multiply by it; "cg" is for symmetric positive definite Jacobians.
    tol : float
        The largest residual allowed at the solution, relative to the largest one at `x0` (or to 1).

    Returns
    -------
    Of the containers of `x0`
        A tensor if an argument is a tensor that requires a gradient.

    Raises
    ------
    ConvergenceError
        The residual is not small; the message gives it.
    SingularJacobianError
        On differentiation, with ``linear="dense"``: the Jacobian with respect to x is singular there.  (Iterative solvers do not converge then.)
    StructureError
        There are not as many equations as unknowns.
    ModifiedInPlaceError
        On differentiation, and from a replay: an array or an attribute that `f` reads has changed since the call.  (Variables are what they were, and what
        `f` counts or caches itself is left out.)

    Notes
    -----
    The derivative follows from the implicit function theorem; the iterations of the solver are not differentiated.
    It has about the relative accuracy of the solution, so tolerances of solvers matter.

    Examples
    --------
    >>> import tapegrad as tg
    >>> def sqrt(a):
    ...     return tg.implicit.root(lambda x, a: x * x - a, 1.0, a)
    >>> round(sqrt(4.0), 9), round(tg.grad(sqrt)(4.0), 9), round(tg.grad(tg.grad(sqrt))(4.0), 9)
    (2.0, 0.25, -0.03125)
    """
    return _Solution(f, lambda f: (f, _chosen(solver, f, _by_scipy, args)), linear, tol, _name(f))(x0, args)


@answers(args="give them one by one: fixed_point(g, x0, *args)")
def fixed_point(
    g: Callable[..., Any], x0: Pytree, *args: Pytree, solver: str | Callable[..., Any] | None = None, linear: LinearSolver = "dense",
    tol: float = TOLERANCE,
) -> Pytree:  # fmt: skip
    """Find the x with ``g(x, *args) = x`` to which iteration from `x0` leads, as a differentiable function of `args`.

    Parameters
    ----------
    g : callable
        Returns a new x, in the same containers.
    x0, *args, linear, tol
        As for `root`.
    solver : callable, optional
        ``solver(fun, x0)``, which takes ``fun(x) = g(x, *args)`` on plain numbers; by default x is replaced by ``g(x)`` until
        it no longer changes.

    Returns
    -------
    Of the containers of `x0`

    Raises
    ------
    As `root`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> kepler = lambda e, m: tg.implicit.fixed_point(lambda x, e, m: m + e * np.sin(x), m, e, m)
    >>> round(tg.derivative(lambda e: kepler(e, 1.0))(0.1), 6)
    0.929061
    """

    def parts(g):
        def residual(x, *args):
            old, structure = flatten(x)
            new = _arranged(_returned(g(x, *args), _name(g)), structure)
            shapes = [[np.shape(below(p)) for p in side] for side in (old, new)]
            if shapes[0] != shapes[1]:
                raise StructureError(f"{_name(g)} returns shapes {shapes[1]} for an x of shapes {shapes[0]}; they have to be the same")
            return [b - a for a, b in zip(old, new)]

        def by_iteration(solution, x0, arguments, method):
            if method is not None:
                raise OptionError(f"solver={method!r}: give a function solver(g, x0), or none")
            x = joined(x0)
            for _ in range(ITERATIONS):
                before, x = x, np.array(joined(_arranged(g(solution.container(x), *arguments), solution.structure)), float)
                if not np.max(np.abs(x - before), initial=0.0) > CHANGE * max(1.0, np.max(np.abs(x), initial=0.0)):
                    break
            return solution.container(x)

        return residual, _chosen(solver, g, by_iteration, args)

    return _Solution(g, parts, linear, tol, _name(g))(x0, args)


@answers(args="give them one by one: argmin(f, x0, *args)")
def argmin(
    f: Callable[..., Any], x0: Pytree, *args: Pytree, solver: str | Callable[..., Any] | None = None, linear: LinearSolver = "dense",
    tol: float = TOLERANCE,
) -> Pytree:  # fmt: skip
    """Find the x near `x0` that minimises ``f(x, *args)``, as a differentiable function of `args`.

    Parameters
    ----------
    f : callable
        Returns one number.
    x0, *args, tol
        As for `root`; the residual is the gradient of `f` with respect to x.
    solver : str or callable, optional
        A method of `scipy.optimize.minimize` that takes gradients ("BFGS" by default), whose answer is
        improved by Newton steps; or a function ``solver(fun, x0)``, which takes ``fun(x) = f(x, *args)`` and returns x in the
        containers of `x0`, or an ``OptimizeResult``.
    linear : str
        As for `root`; the matrix is the Hessian, so "cg" will do at a proper minimum.

    Returns
    -------
    Of the containers of `x0`

    Raises
    ------
    As `root`; `SingularJacobianError` if the Hessian is singular at the minimum.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> def ridge(weight):
    ...     return tg.implicit.argmin(lambda x, w: np.sum((x - 3.0) ** 2) + w * np.sum(x ** 2), np.zeros(2), weight)
    >>> np.round(tg.derivative(ridge)(1.0), 9)      # x = 3 / (1 + w)
    array([-0.75, -0.75])
    """

    def parts(f):
        def by_minimizing(solution, x0, arguments, method):
            """By `scipy.optimize.minimize`, and Newton steps behind it: the derivative is as good as the solution."""
            optimize = imported("scipy.optimize")

            def objective(x, *parameters):
                return f(solution.container(x), *unflatten(solution.arguments, list(parameters)))

            parameters, both = flatten(arguments)[0], value_and_grad(objective)
            minimum = optimize.minimize(lambda x: both(np.array(x), *parameters), joined(x0), jac=True, method=method or "BFGS")
            better = _by_scipy(solution, solution.container(minimum.x), arguments, None)
            closer = float(np.max(np.abs(better.fun), initial=0.0)) < float(np.max(np.abs(both(minimum.x, *parameters)[1]), initial=0.0))
            # Newton steps may lead away to another stationary point.
            return better if closer and both(better.x, *parameters)[0] <= minimum.fun + 1e-9 * max(1.0, abs(minimum.fun)) else minimum

        return grad(f), _chosen(solver, f, by_minimizing, args)

    return _Solution(f, parts, linear, tol, _name(f))(x0, args)
