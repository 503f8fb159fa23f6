"""Derivatives of a function as a whole: `vjp`, `linearize`, `jacfwd`, `jacrev`, `jacobian`.

`jacobian` runs the function on a tape, or under `jit` replays what was recorded (`tapegrad.transforms.replay`);
then each unit adjoint has a sweep down (reverse mode, a row of the Jacobian), or each unit tangent a pass up (forward mode, a
column); or both have from where the function is narrow, and the Jacobian is a product (`program.choosing`).  `vjp` and `linearize` run the function once,
on a tape of its own, which the function they return holds.  The user's tape and
every ``.grad`` stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ..array.differentiable import Differentiable
from ..array.objects import operand
from ..array.operators import unshared
from ..array.record import normalise, tracked
from ..array.tensor import Tensor
from ..array.typing import Argnums, Between, Mode, OfJacobian
from ..autograd import nested
from ..autograd.recording import RealPart, as_plain
from ..common.errors import OptionError, SeedShapeError, StructureError
from ..common.public import answers
from ..common.tree import alike, conjugated, flatten, leaf_names, own, rearranged, unflatten
from ..program.evaluation import Evaluation, on_tensors
from ..program.sweeps import StoreWalk
from ..tape.store import thread_state
from .argnums import check_given
from .contents import OBJECTS, Contents
from .environment import SMALL
from .forward import by_passes, on_tape
from .functional import chosen
from .transformed import OfDirections, Transformed

_RUN_AGAIN = "since tg.vjp or tg.linearize was called: the derivative of what they return runs the function again"

R = TypeVar("R", bound=Any)
X = TypeVar("X", bound=Any)

MODES = ("auto", "forward", "reverse")


def checked_mode(mode):
    """`mode`, if users may ask for it: `program.choosing` knows another one."""
    if mode not in MODES:
        raise OptionError(f"mode={mode!r} is not one of {', '.join(MODES)}")
    return mode


def arranged(container, structure, what, of):
    """The leaves of what is to be a container of `structure`, in its order; a list may stand for a tuple, and one leaf for another container of one."""
    leaves, found = flatten(container)
    if len(leaves) == structure.count == 1 or alike(found, structure):
        return leaves
    leaves = rearranged(leaves, found, structure)
    if leaves is None:
        raise StructureError(f"{what} is {found}, but {of} is {structure}")
    return leaves


def _fitted(container, structure, ports, what, of):
    """Seeds for `ports`, in a container of `structure`: tensors that carry a derivative as they are, others as normalised values."""
    count, seeds = flatten(container)[1].count, []
    if count != len(ports):
        raise SeedShapeError(f"{what}: {of} has {len(ports)} parts but the seed has {count}")
    leaves = arranged(container, structure, what, of)
    for p, seed, name in zip(ports, leaves, leaf_names(structure)):
        seed = operand(seed)
        live = isinstance(seed, Differentiable) and tracked(seed)
        seed = seed if live else np.asarray(seed._v if isinstance(seed, Tensor) else seed)
        if seed.shape != p.shape:
            raise SeedShapeError(f"{what}{name} has the shape {seed.shape} but {of}{name} has {p.shape}")
        if seed.dtype.kind not in "fiub":
            raise SeedShapeError(f"{what}{name} is of dtype {seed.dtype}; give floats")
        seeds.append(seed if live else normalise(np.array(seed, p.char, order="C")))
    return seeds


def _pulled(e, cotangent):
    return e.contained(e.pull(_fitted(cotangent, e.structure, e.outputs, "the cotangent", "the value")))


def _pushed(e, *tangents):
    if len(tangents) != len(e.structures):
        raise StructureError(f"the function was linearized at {len(e.structures)} arguments but got {len(tangents)} tangents")
    seeds, inputs = [], iter(e.inputs)
    for k, (tangent, structure) in enumerate(zip(tangents, e.structures)):
        seeds += _fitted(tangent, structure, [next(inputs) for _ in range(structure.count)], f"tangent {k}", f"argument {k}")
    return unflatten(e.structure, e.push(seeds))


def _recorded(f, primals):
    """Value and evaluation on a tape of its own."""
    walk = StoreWalk(f, primals, range(len(primals)))
    if thread_state().enabled:
        walk.refuse_captured(f)
    return unflatten(walk.structure, walk.results), walk


def _replayed(f, primals):
    """Value and evaluation by a replay or, where that cannot be, on a tape."""
    from .replay.function import Replayed  # `import tapegrad` does without it

    outcome, walk = Replayed(f, tuple(range(len(primals))), scalar=False).replayed_once(primals, {})
    return _recorded(f, primals) if walk is None else (unflatten(outcome.structure, [as_plain(v) for v in outcome.values]), walk)


def _linear(derivative, walked, f, primals):
    """The value of a function, and ``derivative(evaluation, *seeds)`` as a function of seeds; `walked` gives value and walk of a call at once."""
    if nested.is_nested(primals, {}):
        return _linear_inside(derivative, walked, f, primals)
    return nested.beside(_linear_at_once, _linear_inside, derivative, walked, f, primals)


def _linear_at_once(derivative, walked, f, primals):
    primals = own(primals)
    before, (value, walk) = Contents(f, OBJECTS, (), SMALL), walked(f, primals)
    before.keep_own()
    e = Evaluation(walk, range(len(primals)), False, [flatten(primal)[1] for primal in primals])

    def called(*seeds):
        if not nested.is_nested(seeds, {}):
            return derivative(e, *seeds)
        walk.check()
        # The function is run again, as it was.
        with before.own_put_back(), before.streams.restored():
            return _linear_inside(derivative, walked, before.restored(_RUN_AGAIN), primals)[1](*seeds)

    return value, called


def _linear_inside(derivative, _, f, primals):
    primals = own(primals)
    with on_tensors(f, primals, range(len(primals)), {}) as e:
        e.check()
        value = e.out(e.value())

    def called(*seeds):
        answer = derivative(e, *seeds)
        parts = [part for leaf in flatten(seeds)[0] for part in nested.parts_of(leaf)]
        return answer if any(isinstance(part, Tensor) and tracked(part) for part in parts) else e.out(answer)

    return value, called


def vjp(f: Callable[..., R], *primals: Any) -> tuple[R, Callable[[Any], tuple[Any, ...]]]:
    """Compute the value of a function, and return it with a function that pulls adjoints back.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a number, an array, or containers of them.
    *primals : float, ndarray, or containers of them

    Returns
    -------
    value
        ``f(*primals)`` as plain NumPy data.
    pullback : callable
        ``pullback(cotangent)`` takes adjoints shaped like the value and returns
        a tuple, one adjoint per primal; it may be called any number of times.

    Raises
    ------
    SeedShapeError
        From the pullback, for a cotangent that does not have the value's shape.
    StructureError
        From the pullback, for a cotangent that does not have its containers; or `f` returns None or text.
    HigherOrderError
        If a primal is a tensor that requires a gradient.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> value, pullback = tg.vjp(lambda x, y: x * np.sin(y), np.array([1.0, 2.0]), 0.0)
    >>> value
    array([0., 0.])
    >>> pullback(np.array([1.0, 10.0]))
    (array([0., 0.]), np.float64(21.0))
    """
    return _linear(_pulled, _recorded, f, primals)


def linearize(f: Callable[..., R], *primals: Any) -> tuple[R, Callable[..., R]]:
    """Compute the value of a function, and return it with the derivative as a linear function of tangents.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a number, an array, or containers of them.
    *primals : float, ndarray, or containers of them

    Returns
    -------
    value
        ``f(*primals)`` as plain NumPy data.
    push : callable
        ``push(*tangents)`` takes one tangent per primal, of its shapes, and
        returns the tangent of the value; it may be called any number of times
        and does not run `f`.

    Raises
    ------
    SeedShapeError, StructureError
        From `push`, for tangents that do not fit their primals.
    HigherOrderError
        If a primal is a tensor that requires a gradient.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> value, push = tg.linearize(lambda x: x * np.sum(x), np.array([1.0, 2.0]))
    >>> value
    array([3., 6.])
    >>> push(np.array([1.0, 0.0]))
    array([4., 2.])
    """
    return _linear(_pushed, _replayed, f, primals)


@overload
def jacrev(f: Between[X, R], argnums: Literal[0] = 0) -> Jacobian[X, R]: ...
@overload
def jacrev(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None) -> Transformed[Any]: ...
def jacrev(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None) -> Transformed[Any]:
    """Make a function that returns the Jacobian of `f`, by reverse mode; see `jacobian`.

    Parameters
    ----------
    f : callable
    argnums : int or tuple of int
        Also called `argnum`.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns its Jacobian.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jacrev(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return jacobian(f, chosen(argnums, argnum, kernel), mode="reverse")


@overload
def jacobian(f: Between[X, R], argnums: Literal[0] = 0, mode: Mode = "auto", explain: bool = False) -> Jacobian[X, R]: ...
@overload
def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None, holomorphic: bool = False,
) -> Transformed[Any]: ...  # fmt: skip
@answers(sparse="call tg.sparse_jacobian(f)")
def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None, kernel: None = None, holomorphic: bool = False,
) -> Transformed[Any]:  # fmt: skip
    """Make a function that returns the Jacobian of `f`.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or containers of them.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers,
        arrays of floats, or containers of them.  Also called `argnum`.
    mode : {"auto", "forward", "reverse"}
        Forward mode carries one tangent per element of the inputs over the tape,
        reverse mode one adjoint per element of the outputs.  "auto" predicts the
        cost of both from the recorded tape (`tapegrad.program.choosing`), and that of multiplying
        out the Jacobian where few numbers connect inputs and outputs; `tg.compare` runs them all.
    explain : bool
        Print the mode taken and the reason.
    kernel : None
        An option of `jit`; here it is refused.
    holomorphic : bool
        Whether `f` is a holomorphic function of complex arrays: the result is then its complex derivatives.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``f(x).shape + x.shape``
        (a number for scalars), in float64, or float32 where both are; if `argnums` is a tuple,
        a tuple of them, in the containers of the arguments; all in the container that `f`
        returns.  The callable's ``stats()`` says how often `f` was run, recorded and replayed.
        With ``out=a``, an array of the shape and dtype of the answer, it writes the answer to `a` and returns `a`.

    Raises
    ------
    HigherOrderError
        If an argument to differentiate with respect to is itself tracked.
    ShapeError, DtypeError, OptionError
        From a call: `out` does not fit, or there are several arrays to write.
    DtypeError
        If an argument is an array of integers.
    StructureError
        `argnums` names no argument, `f` returns None or text, or both arguments and results are complex, without `holomorphic`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    argnums, mode = chosen(argnums, argnum, kernel), checked_mode(mode)
    if holomorphic:
        return HolomorphicJacobian(RealPart(f), argnums, mode, explain)
    return JacobianFunction(f, argnums, mode, explain)


if TYPE_CHECKING:

    class Jacobian(OfJacobian[X, R], Transformed[Any]):
        """What type checkers are told that `jacobian` returns."""


class JacobianFunction(OfDirections):
    """What `jacobian` returns."""

    def __init__(self, function, argnums, mode, explain=False):
        self._mode, self._explain = mode, explain
        super().__init__(function, argnums)

    def body(self, e):
        return unflatten(e.structure, [e.contained(row) for row in e.jacobian(self._mode, self._explain)])

    def _planned(self, kept, structure):
        # What explains itself does so at each call.
        return None if self._explain else super()._planned(kept, structure)


class HolomorphicJacobian(JacobianFunction):
    """The conjugate of that of the real part."""

    def body(self, e):
        return conjugated(super().body(e))


@overload
def jacfwd(f: Between[X, R], argnums: Literal[0] = 0) -> OfJacobian[X, R]: ...
@overload
def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]: ...
def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Make a function that returns the Jacobian of `f`, by forward mode: one pass for every 16 inputs.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or nested tuples, lists and dicts of them.
    argnums : int or tuple of int
        The arguments to differentiate with respect to: numbers, arrays, or containers of them.

    Returns
    -------
    callable
        ``jacobian(*args, **kwargs)`` returns, for each array that `f` returns, one of shape
        ``f(x).shape + x.shape`` for each array in an argument; if `argnums` is a tuple, a tuple of these.

    Raises
    ------
    StructureError
        There is something else than numbers and arrays in an argument or result.
    DtypeError
        An argument is an array of integers.

    Notes
    -----
    Several directions (4, 8 or 16) share one pass: the partial derivatives of
    each operation are computed once.  Use `jacfwd` if outputs outnumber inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jacfwd(lambda x: np.stack([x[0] * x[1], x[0]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [1., 0.]])
    """
    return _Jacfwd(f, argnums)


class _Jacfwd(JacobianFunction):
    """What `jacfwd` returns: passes on dual numbers, and under `jit` the columns of a recording."""

    def __init__(self, function, argnums):
        super().__init__(function, argnums, "forward")

    def _answered(self, args, kwargs):
        found = self._by_passes(args, kwargs) if self._jit is None and self._by_duals(args) else None
        return super()._answered(args, kwargs) if found is None else found[0]

    def _inside(self, args, kwargs):
        found = self._by_passes(args, kwargs) if self._by_duals(args) else None
        return super()._inside(args, kwargs) if found is None else found[0]

    def _by_passes(self, args, kwargs):
        """The answer by passes on dual numbers, in a list; None if the function switches recording off, which these do not heed."""
        check_given(self._argnums, args)
        passes = [unshared(functools.partial(by_passes, self.__wrapped__, k, self._argnums), args, kwargs, self._argnums) for k in self._argnums]
        if None in passes:
            return None
        (leaves, structure), *_ = passes
        return [unflatten(structure, leaves if self._one else list(zip(*[leaves for leaves, _ in passes], strict=True)))]

    def _by_duals(self, args):
        """Whether passes on dual numbers answer: they are for one real array, and take apart the loops of a recording outside."""
        numbers = [args[k] for k in self._argnums if k < len(args)]
        return all(flatten(number)[1].kind is None for number in numbers) and not on_tape(numbers, ())
