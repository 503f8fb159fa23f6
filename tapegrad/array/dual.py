"""Dual numbers: forward mode with no tape.

A `Dual` carries a value and one or several tangents through every operation:
the primal result comes from the operation itself, its tangent from the row's
rule (`tapegrad.rules.table.Row.tangent`).  It shares operators, indexing,
methods and NumPy's protocols with tensors (`tapegrad.array.differentiable`).

Primal and tangent may themselves be tensors or dual numbers; the *level* says
who is inside whom.  An operation belongs to the highest level among its
operands, and to it everything of a lower level is a constant, so perturbations
of different derivatives cannot be confused (J. Siskind and B. Pearlmutter,
"Nesting forward-mode AD in a functional framework", 2008).

Fields beside those of `Differentiable`: `_p` the primal if that is not the plain value
`_v`, `_d` the tangent (None: zero), `_lanes` how many tangents (None: one, without
an axis for them), `_level`.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.dtypes import NUMBERS, by_rows, plain_array
from ..common.errors import DtypeError, LeaveTapeError, SeedShapeError, StructureError
from ..common.printing import format_tensor
from ..common.registry import registry
from ..interpreter.fields import native, place
from ..rules.shaping import look
from ..tape.layout import meta_of
from ..tape.places import called
from ..tape.watch import sealed
from . import record as _record
from .differentiable import Differentiable, below
from .record import as_operand, current_body, normalise, plain, tracked, widened
from .recorded import Recorded, as_rule_takes, tangent_on_arrays, tangent_on_floats
from .typing import TensorLike
from .views import root_of, views_of

if TYPE_CHECKING:
    from .tensor import Tensor

_new = object.__new__


#: Levels of transformations are this far apart: dual numbers made by hand nest in between.
LEVELS_APART = 1 << 20


class _InnermostLevel(threading.local):
    """The level of the innermost derivative that this thread is computing."""

    level = 0
    #: For each level that is being computed, by id: weak references to what has become a dual number of it, and the levels before.
    changed: dict = {}


running = _InnermostLevel()


@partial(native, operators=False)
class Dual(Differentiable):
    """A number or array with its tangent: the derivative along one or several directions.

    Parameters
    ----------
    value : number, array-like, Tensor or Dual
        The primal; arrays are copied.  Python ints count as floats.
    tangent : number, array-like, Tensor or Dual, optional
        Has the shape of `value`, preceded by an axis of extent `lanes` if that is
        given; zero by default.
    lanes : int, optional
        Number of tangents; powers of two from 4 to 16 are a good choice.
    level : int, optional
        Which derivative this is.  By default it is one more than the highest level of
        `value`, `tangent` and the derivative being computed.  Dual numbers of one
        level share their directions.

    Attributes
    ----------
    value : float, ndarray, Tensor or Dual
    tangent : float, ndarray, Tensor or Dual
    lanes : int or None
    level : int

    Raises
    ------
    SeedShapeError
        `tangent` has the wrong shape.
    DtypeError
        An argument has complex numbers, objects or an array of integers, or the
        float dtype of `tangent` is not that of `value`.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> d = tg.Dual(2.0, 1.0)
    >>> d * d + 1.0
    Dual(5.0, tangent=4.0)
    >>> np.exp(tg.Dual(0.0, [1.0, 2.0], lanes=2)).tangent
    array([1., 2.])
    """

    __slots__ = ()

    _is_dual = True
    #: A dual number is on no tape.
    _t = None
    _r = False
    #: The field of a tensor's key under the name of its content here.
    _p = Differentiable._k

    def __new__(
        cls, value: TensorLike, tangent: TensorLike | None = None, *, lanes: int | None = None, level: int | None = None
    ) -> Dual:
        value = as_primal(value, "tg.Dual")
        shape = np.shape(value)
        if lanes is not None and (not isinstance(lanes, (int, np.integer)) or lanes < 1):
            raise SeedShapeError(f"lanes is the number of tangents, a positive int, not {lanes!r}")
        if tangent is not None:
            tangent = check_tangent(tangent, value, shape if lanes is None else (int(lanes), *shape))
        inner = max(level_of(value), level_of(tangent))
        if level is None:
            level = 1 + max(inner, running.level)
        elif not isinstance(level, (int, np.integer)) or not 1 <= level < max(inner, running.level) + LEVELS_APART:
            raise StructureError(f"the level of a dual number is a small positive int, not {level!r}")
        elif level <= inner:
            raise StructureError(f"a dual number of level {level} cannot hold one of level {inner}; the level must be higher")
        return made(value, tangent, lanes if lanes is None else int(lanes), level)

    def __init__(
        self, value: TensorLike, tangent: TensorLike | None = None, *, lanes: int | None = None, level: int | None = None
    ) -> None:
        """Nothing: a class derived from this may call it with what it was given."""

    # -- parts --------------------------------------------------------------------
    @property
    def value(self) -> Any:
        return self._v if self._p is None else self._p

    @property
    def tangent(self) -> Any:
        return zeros_of(self, self._lanes) if self._d is None else self._d

    @property
    def lanes(self) -> int | None:
        return self._lanes

    @property
    def level(self) -> int:
        return self._level

    @property
    def requires_grad(self) -> bool:
        """True: a dual number carries a derivative, as a tensor that requires a gradient does."""
        return True

    def detach(self) -> Tensor:
        """The plain value as a constant tensor; every tangent is dropped, and every tape left.

        In a functional recording it is a live tensor through which no derivative passes.
        """
        base = below(self)
        if _record.trace_of((base,)) is not None:
            return base.detach()
        return plain(self._v if type(self._v) is float else sealed(self._v))

    def _refuse(self, how, instead):
        raise LeaveTapeError(
            f"{instead}. {how} of a dual number ({called(self, 'one')}) would drop its tangent (.detach() drops it on purpose)"
        )

    # -- description --------------------------------------------------------------
    def __repr__(self):
        lanes = "" if self._lanes is None else f", lanes={self._lanes}"
        return f"Dual({_shown(self.value)}, tangent={_shown(self.tangent)}{lanes})"

    __str__ = __repr__

    def __reduce__(self):
        return made, (self.value, self._d, self._lanes, self._level)

    # -- operations ---------------------------------------------------------------
    def _become(self, other):
        other._copy_to(self)

    def _copy_to(self, target):
        """Make `target`, a tensor or dual number, this dual number."""
        note_changed(target, self._level, level_of(target))
        if not target._is_dual:
            place(target, None, 0)
        target.__class__ = Dual
        target._v, target._m = self._v, None
        target._p, target._d, target._lanes, target._level = self._p, self._d, self._lanes, self._level

    def _apply_row(self, row, operands, attrs=(), value=None, integer=0):
        """`tapegrad.array.record.apply` where some operand is a dual number."""
        if not attrs:
            dual = at_once(row, operands)
            if dual is not None:
                return dual
        operands = [registry.objects.operand(o) for o in operands]
        body = current_body()
        if body is not None and body.meets(operands):
            # The body of a loop has it as an argument, and the loop its derivative.
            inner = [body.here(o) if body.is_outside(o) else o for o in operands]
            return _record.apply(row, inner, attrs, value, integer)
        if row.elementwise:
            operands = widened(operands)
        level, lanes = _common(operands)
        primals = [_inside(o, level) for o in operands]
        for k in row.refused:
            if operands[k] is not primals[k]:
                row.refuse(k)
        result = _record.apply(row, primals, attrs, value, integer)
        if result.__class__ is registry.objects.Complex:
            return registry.objects.at_door(row, operands, attrs, integer)
        primals = [p if isinstance(p, Differentiable) else as_operand(p, row.name) for p in primals]
        if row.dynamic:
            attrs = (*attrs, (row.dynamic, integer))
        return _carried(row, operands, primals, result, attrs, lanes, level)


def made(value, tangent, lanes, level):
    """A `Dual` of parts that are known to fit; what a pickled one is made again by."""
    d = _new(Dual)
    if isinstance(value, Differentiable):
        d._p, d._v = value, value._v
    else:
        d._p, d._v = None, value
    d._d, d._lanes, d._level = tangent, lanes, level
    d._m = d._x = None
    return d


def zeros_of(value, lanes):
    """A zero tangent of `value`."""
    array = np.asarray(value._v if isinstance(value, Differentiable) else value)
    shape = array.shape if lanes is None else (lanes, *array.shape)
    return normalise(np.zeros(shape, array.dtype if array.dtype.kind == "f" else np.float64))


def level_of(thing):
    """The level of a dual number; 0 for anything else."""
    return thing._level if thing.__class__ is Dual else 0


def note_changed(target, level, before):
    """Note that something from outside of a level, of the level `before`, becomes a dual number of it: to be none where that ends."""
    changed = running.changed.get(level)
    if changed is not None and before < level and id(target) not in changed:
        changed[id(target)] = weakref.ref(target, lambda _: changed.pop(id(target), None)), before


def leave(level):
    """The level ends: what was written to inside of it, and is still there, has its value from now on, and no tangent of that level."""
    for reference, before in list(running.changed.pop(level).values()):
        target = reference()
        if level_of(target) != level or root_of(target)[0] is not target:
            continue
        views, value = views_of(target), target.value
        if not isinstance(value, Differentiable):
            # The old memory may have been given out.
            value = plain(value if type(value) is float else np.copy(value))
            parts = [(view, plain(look(by_rows(value._v)[0], *window))) for view, *window in views]
        else:
            parts = [(view, view.value) for view, *_ in views if level_of(view) == level]
        for one, now in ((target, value), *parts):
            note_changed(one, level_of(now), before)
            if level_of(now) < 1 <= level_of(one):
                one.__class__ = now.__class__
                place(one, None, 0)
            one._become(now)


def _common(operands):
    """The highest level among the operands, and the lanes there."""
    level, lanes, seen = 0, None, None
    for o in operands:
        if o.__class__ is not Dual or o._level < level:
            continue
        if o._level > level:
            level, lanes, seen = o._level, o._lanes, None
        if o._d is not None:
            if seen is not None and o._lanes != seen._lanes:
                raise StructureError(
                    "dual numbers of one level met with different numbers of tangents "
                    f"({_count(seen)} and {_count(o)}): give them the same lanes, or different levels (tg.Dual(..., level=...))"
                )
            seen, lanes = o, o._lanes
    return level, lanes


def _count(d):
    return "one without an axis" if d._lanes is None else f"lanes={d._lanes}"


def _inside(operand, level):
    """An operand as an operation of `level` sees it: its primal, or itself as a constant."""
    return operand.value if operand.__class__ is Dual and operand._level == level else operand


def at_once(row, operands):
    """The result on float64 numbers and arrays, with tangents that are such; None if that is not the case, or takes NumPy's care."""
    values, tangents, level, lanes, arrays = [], [], 0, None, False
    for o in operands:
        kind = o.__class__
        if kind is Dual:
            if o._p is not None or level and (o._level != level or o._lanes != lanes):
                return None
            level, lanes = o._level, o._lanes
            x, t = o._v, o._d
            number = x.__class__ is float
            if t is not None and t.__class__ is not (float if number and lanes is None else np.ndarray):
                return None
        elif kind in NUMBERS:
            x, t, number = float(o), None, True
        else:
            x, t, number = o, None, False
        if not number:
            if x.__class__ is not np.ndarray or x.dtype.char != "d" or not x.ndim or not x.dtype.isnative or not x.flags.aligned:
                return None
            arrays = True
        values.append(x)
        tangents.append(t)
    if arrays:
        return _of_arrays(row, values, tangents, level, lanes)
    rule = tangent_on_floats(row)
    if rule is None:
        return None
    try:
        value = row.scalar(*values)
        tangent = rule(*values, value, *tangents)
    except (ArithmeticError, ValueError):
        return None
    return made(value, tangent, lanes, level) if value.__class__ is float else None


def _of_arrays(row, values, tangents, level, lanes):
    """`at_once` where there are arrays."""
    rule = tangent_on_arrays(row)
    if rule is None:
        return None
    try:
        value = row.value(*values)
    except ValueError:
        return None
    shape = value.shape
    if lanes is not None:
        # The axis of the lanes stays the first where operands have fewer axes than the value.
        shape = (lanes, *shape)
        tangents = [t if t is None or t.ndim == len(shape) else t.reshape(lanes, *[1] * (len(shape) - t.ndim), *t.shape[1:]) for t in tangents]
    with np.errstate(all="ignore"):
        tangent = rule(*values, value, *tangents)
    return made(value, tangent if tangent is None or np.shape(tangent) == shape else np.broadcast_to(tangent, shape), lanes, level)


def _carried(row, operands, primals, result, attrs, lanes, level):
    """The dual number whose primal is `result`, a tensor or dual number of lower level."""
    value = result._v
    if type(value) is not float and value.dtype.kind != "f":
        return result
    primal = result if tracked(result) else value
    tangents = [
        o._d if o.__class__ is Dual and o._level == level else None
        for o in (operands[k] for k in row.slots(len(operands)))
    ]
    tangent = None
    if any(t is not None for t in tangents):
        wrapped = [None if t is None else Recorded(t, lanes) for t in tangents]
        with np.errstate(all="ignore"):
            carried = row.tangent(wrapped, [as_rule_takes(p, k in row.constants) for k, p in enumerate(primals)], Recorded(primal), dict(attrs))
            if carried is not None:
                tangent = carried.as_tangent(meta_of(value), lanes).value
    return made(primal, tangent, lanes, level)


# ---- making one --------------------------------------------------------------------


def as_primal(value, what):
    """`value` as a dual number can hold it: float, new array, tracked tensor or dual number."""
    if isinstance(value, Differentiable):
        if tracked(value):
            return value
        value = value._v
    return value if type(value) is float else as_float(value, what)


def as_float(data, what):
    """`data` as a float, or as a new float64 or float32 array.

    Python ints, also in lists, count as floats; arrays of integers do not.
    """
    array = plain_array(data, what)
    if array.dtype.kind in "iub":
        if isinstance(data, (np.ndarray, np.generic)):
            raise DtypeError(
                f"{what}: an array of integers (dtype {array.dtype}, shape {array.shape}) cannot carry a derivative; "
                "convert with .astype(float)"
            )
        array = array.astype(np.float64)
    if array.dtype.char not in "df":
        raise DtypeError(f"{what}: dtype {array.dtype} cannot carry a derivative; use float64 or float32")
    return normalise(array)


def check_tangent(tangent, value, shape):
    """`tangent` as one of `value`, or an error that says why it is none."""
    weak = not isinstance(tangent, (Differentiable, np.ndarray, np.generic))
    if isinstance(tangent, Differentiable) and not tracked(tangent):
        tangent = tangent._v
    if not isinstance(tangent, Differentiable):
        tangent = as_float(tangent, "tangent")
    dtype = np.dtype(np.float64) if type(value) is float else value.dtype
    if np.shape(tangent) != shape:
        must = "must have that shape" if shape == np.shape(value) else f"must be of shape {shape} with lanes={shape[0]}"
        raise SeedShapeError(
            f"a tangent of shape {np.shape(tangent)} was given for a value of shape {tuple(np.shape(value))}; it {must}"
        )
    tangent_dtype = np.dtype(np.float64) if type(tangent) is float else tangent.dtype
    if tangent_dtype != dtype:
        if not weak:
            raise DtypeError(f"a tangent of dtype {tangent_dtype} was given for a value of dtype {dtype}; convert with .astype")
        tangent = np.asarray(tangent, dtype)
    return tangent


def _shown(part):
    if isinstance(part, Differentiable) or type(part) is float:
        return repr(part)
    return format_tensor(part)[len("tensor(") : -1] if np.ndim(part) == 0 else np.array2string(part, separator=", ")


registry.Dual = Dual
