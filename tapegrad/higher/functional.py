"""Second derivatives of functions: `hessian`, `hvp`, `hessian_diag`, `laplacian`, `gnvp`.

Each records the gradient of the function on a tape of its own, once, and replays it
after (`tapegrad.replay`).  A Hessian is the Jacobian of that tape, several columns a
sweep; a product with the Hessian is the tangent of the gradient, recorded behind it, so
that one replay gives it.  Called inside of another derivative they are recorded there.
"""

from __future__ import annotations

import functools

import numpy as np

from ..dual import Dual, running
from ..errors import SeedShapeError, StructureError
from ..forward import jvp
from ..functional import Transformed, chosen, grad
from ..jacobians import _Jacobian
from ..record import normalise
from ..recording import prepared
from ..replay.function import Replayed
from ..tree import flatten, leaf_names, unflatten
from . import nested
from .nested import Evaluation, base_of


class _Gradient:
    """The gradient of a function as a function: a tuple by argument, in the order of the arguments."""

    def __init__(self, function, argnums, has_aux=False):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums, self.has_aux = function, tuple(sorted(set(argnums))), has_aux

    def __call__(self, *args, **kwargs):
        found = nested.value_and_gradients(self.function, args, self.argnums, kwargs, self.has_aux)[1]
        return tuple(found[k] for k in self.argnums)


# ---- dense Hessians ----------------------------------------------------------------------


class _Second(_Jacobian):
    """The Jacobian of a recorded gradient, and what is read off it."""

    def __init__(self, function, argnums, mode="auto", explain=False):
        numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
        super().__init__(function, argnums, mode, explain)
        if self._asked is not None:
            raise StructureError(f"argnums={argnums!r}: count the arguments from the front, from 0")
        self._gradient = _Gradient(function, numbers)
        self._replayed.function = self._gradient

    def _of(self, args, kwargs, read):
        """What `read` makes of a `Recording` of the gradient at these arguments."""
        self._replayed.check_positions(args)
        return self._replayed.call(args, kwargs, read).gradients

    def _structures(self, args):
        return [flatten(args[k])[1] for k in self._argnums_in_order]

    def _by_argument(self, args, leaves):
        """Leaves, in the order of the arguments, in their containers."""
        leaves, parts = iter(leaves), {}
        for k, structure in zip(self._argnums_in_order, self._structures(args)):
            parts[k] = unflatten(structure, [next(leaves) for _ in range(structure.count)])
        return parts[self._argnums[0]] if self._one else tuple(parts[k] for k in self._argnums)


#: Elements that an instruction of a gradient has on average, and elements of the arguments, from which on
#: directions are carried as an axis of arrays (one replay for many) instead of by sweeps of up to 16.
WIDE, ENOUGH = 48, 32
#: Numbers that such a replay may hold.
HELD = 1 << 24


def _directions_at_once(recording):
    """How many directions an array replay of a recorded gradient may carry; 0 if sweeps are the better way."""
    tape, total = getattr(recording, "_tape", None), sum(p.size for p in recording.inputs)
    if tape is None or recording.primitive or total < ENOUGH:
        return 0
    sizes = [m.size for m in tape.metas if m is not None]
    if sum(sizes) < WIDE * len(sizes):
        return 0
    return max(16, min(total, HELD // sum(sizes)))


def unit_directions(shapes):
    """All unit vectors of arrays of these shapes: for each array one with a leading axis for the elements of all."""
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    total, at, found = sum(sizes), 0, []
    for size, shape in zip(sizes, shapes):
        units = np.zeros((total, size))
        units[at + np.arange(size), np.arange(size)] = 1.0
        found.append(units.reshape((total, *shape)))
        at += size
    return found, total


class _Rows:
    """The rows of a Hessian as a function of the arguments, for a replay: the directions are constants of its tape."""

    def __init__(self, function, argnums):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums = function, argnums

    def __call__(self, *args, **kwargs):
        with Evaluation(self.function, args, self.argnums, kwargs) as e:
            e.run()
            e.check_number(len(e.results))
            units, total = unit_directions([np.shape(b) for b in e.bases])
            units = [normalise(u.astype(b.dtype)) for u, b in zip(units, e.bases)]
            return tuple(e.out(_second_products(e, units, total)))


class _Hessian(_Second):
    def __init__(self, function, argnums, mode="auto", explain=False):
        super().__init__(function, argnums, mode, explain)
        numbers = self._gradient.argnums
        self._products = _Products(function, numbers, False, _hvp_body, _hvp_by_duals)
        self._rows = Replayed(_Rows(function, numbers), numbers, scalar=False, adjoints=False)
        #: Shapes of arguments -> how many directions at once `_by_arrays` takes for them.
        self._counts = {}

    def __call__(self, *args, **kwargs):
        if nested.is_nested(args, kwargs):
            return self._inside(args, kwargs)
        self._replayed.check_positions(args)
        points = [np.asarray(leaf) for k in self._gradient.argnums for leaf in flatten(args[k])[0]]
        kind = tuple((p.shape, p.dtype.char) for p in points)
        count = self._counts.get(kind)
        if count is None:
            blocks = self._of(args, kwargs, self._blocks)
            if isinstance(blocks, int):
                count = self._counts[kind] = blocks
        if count is not None:
            blocks = self._by_arrays(args, kwargs, points, count)
        blocks = _symmetric(blocks)
        return self._by_argument(args, [self._by_argument(args, row) for row in blocks])

    def _blocks(self, recording):
        """The blocks; or how many directions at once `_by_arrays` may take to find them."""
        # Asked twice it is sought at once.
        compressed = recording.compressed() or recording.compressed()
        if self._mode != "reverse" and compressed is None:
            count = _directions_at_once(recording)
            if count:
                if self._explain:
                    print(f"forward mode, {count} directions in one replay: the gradient works on arrays")
                return count
        return super()._blocks(recording)

    def _by_arrays(self, args, kwargs, points, count):
        """Blocks ``[i][j]`` from products with unit vectors, `count` at once."""
        points = [p if p.dtype.kind == "f" else p.astype(float) for p in points]
        total = sum(p.size for p in points)
        if total <= count:
            found = self._rows.call(args, kwargs, backward=False).values
        else:
            found = self._in_chunks(args, kwargs, points, count)
        blocks, at = [], 0
        # Rows of the Hessian are its columns.
        for point in points:
            rows = [np.asarray(f)[at : at + point.size] for f in found]
            blocks.append([r.reshape(point.shape + other.shape) for r, other in zip(rows, points)])
            at += point.size
        return blocks

    def _in_chunks(self, args, kwargs, points, count):
        structures = self._structures(args)
        units, total = unit_directions([p.shape for p in points])
        found = [np.empty((total, *p.shape), p.dtype) for p in points]
        for start in range(0, total, count):
            part = slice(start, start + count)
            given = iter([u[part].astype(p.dtype) for u, p in zip(units, points)])
            direction = tuple(unflatten(s, [next(given) for _ in range(s.count)]) for s in structures)
            for whole, products in zip(found, flatten(self._products(*args, direction, **kwargs))[0]):
                whole[part] = products
        return found

    def _inside(self, args, kwargs):
        self._replayed.check_positions(args)
        rows, _ = nested.jacobian(self._gradient, args, self._gradient.argnums, kwargs)
        return self._by_argument(args, [row[self._argnums[0]] if self._one else tuple(row[k] for k in self._argnums) for row in rows])


def _symmetric(blocks):
    """Blocks ``[i][j]``, of which ``[j][i]`` is the transpose to the last bit."""
    found = [list(row) for row in blocks]
    for i, row in enumerate(blocks):
        for j in range(i + 1):
            one, other = np.asarray(row[j]), np.asarray(blocks[j][i])
            # Both are given as the shape of the row's argument followed by that of the column's.
            split = _axes_of_row(blocks, i)
            turned = np.moveaxis(other, range(other.ndim - split), range(-(other.ndim - split), 0)) if other.ndim else other
            mean = 0.5 * (one + turned)
            found[i][j] = _as_was(mean, row[j])
            if i != j:
                back = np.moveaxis(mean, range(split), range(-split, 0)) if split else mean
                found[j][i] = _as_was(np.array(back, order="C"), blocks[j][i])
    return found


def _axes_of_row(blocks, i):
    """The number of axes of argument `i`."""
    return np.ndim(blocks[i][i]) // 2


def _as_was(value, like):
    value = value.astype(np.asarray(like).dtype, copy=False)
    if value.ndim:
        return value
    return float(value) if value.dtype.char == "d" else value[()]


def hessian(f, argnums=0, mode="auto", explain=False, *, argnum=None):
    """A function that gives the Hessian of `f`, dense.

    Parameters
    ----------
    f : callable
        Returns one number.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers, arrays of
        floats, or containers of them.  Also called `argnum`.
    mode : {"auto", "forward", "reverse"}
        How the recorded gradient is differentiated: forward over reverse carries a tangent
        per element of the arguments, up to 16 in a sweep, or all as an axis of arrays where the
        gradient works on long arrays; reverse over reverse an adjoint.  "auto" predicts the
        cost of both; where elements interact with few others only, directions that have nothing
        in common are joined (as in `jacobian`).
    explain : bool
        Print the mode taken and the reason.

    Returns
    -------
    callable
        Gives, for arguments of `f`, an array of shape ``x.shape + x.shape`` (a number for a
        number), symmetric to the last bit: the mean of what was computed and its transpose.
        A tuple of tuples if `argnums` is a tuple, and containers of containers for
        containers.  Its ``stats()`` says what was recorded and replayed.

    Raises
    ------
    NonScalarOutputError
        `f` returns more than one number.
    StructureError, DtypeError
        As `tapegrad.grad`.
    HigherOrderError
        A rule that `f` uses gives first derivatives only; names it.

    See Also
    --------
    hvp : products with the Hessian, which is not formed.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode={mode!r} is not one of auto, forward, reverse")
    return _Hessian(f, chosen(argnums, argnum), mode, explain)


#: Columns of a Hessian that are held at once where only its diagonal is wanted.
CHUNK = 64


def _diagonals(recording):
    """The diagonal of the Jacobian of a recorded gradient, for each input, flat."""
    ports = recording.inputs
    ends = np.cumsum([0, *(p.size for p in ports)])
    found = [np.zeros(p.size, p.char) for p in ports]
    compressed = None if recording.primitive else recording.compressed()
    if compressed is not None and compressed[0] is not None:
        colours = compressed[0]
        rows = recording.many(True, colours.seeds)
        for k, begin in enumerate(ends[:-1]):
            at = np.arange(ports[k].size)
            found[k][:] = rows[k][colours.colour[begin + at], at]
        return found
    if recording.primitive:
        for k, (columns, begin) in enumerate(zip(recording.columns(), ends)):
            found[k][:] = np.diagonal(columns[begin : begin + ports[k].size])
        return found
    for k, (port, begin) in enumerate(zip(ports, ends)):
        for start in range(0, port.size, CHUNK):
            count = min(CHUNK, port.size - start)
            seeds = [[normalise(np.zeros(p.shape, p.char)) for p in ports] for _ in range(count)]
            for j in range(count):
                unit = np.zeros(port.size, port.char)
                unit[start + j] = 1.0
                seeds[j][k] = normalise(unit.reshape(port.shape))
            rows = recording.many(True, [prepared(ports, s) for s in seeds])[k]
            found[k][start : start + count] = rows[np.arange(count), start + np.arange(count)]
    return found


class _Diagonal(_Second):
    def _parts(self, args, kwargs):
        """The diagonal for each leaf of the arguments."""
        if nested.is_nested(args, kwargs):
            return self._inside(args, kwargs)
        shapes = [np.shape(leaf) for k in self._argnums_in_order for leaf in flatten(args[k])[0]]
        found = self._of(args, kwargs, _diagonals)
        return [normalise(np.asarray(d).reshape(shape)) for d, shape in zip(found, shapes)]

    def _inside(self, args, kwargs):
        """Recorded: one tangent per element, in one walk; rows of the Hessian where dual numbers are around."""
        if _among_duals((args, kwargs)):
            rows, _ = nested.jacobian(self._gradient, args, self._gradient.argnums, kwargs)
            found = []
            for k, row in enumerate(rows):
                block = flatten([row[a] for a in self._gradient.argnums])[0][k]
                shape = np.shape(block)[: np.ndim(block) // 2]
                size = int(np.prod(shape, dtype=np.int64))
                found.append(np.reshape(np.diagonal(np.reshape(block, (size, size))), shape))
            return found
        with Evaluation(self.__wrapped__, args, self._argnums_in_order, kwargs) as e:
            e.run()
            e.check_number(len(e.results))
            shapes = [np.shape(b) for b in e.bases]
            sizes = [int(np.prod(s, dtype=np.int64)) for s in shapes]
            rows, total = unit_directions(shapes)
            columns = _second_products(e, rows, total)
            found, at = [], 0
            for column, size, shape in zip(columns, sizes, shapes):
                block = np.reshape(column, (total, size))[at : at + size]
                found.append(np.reshape(np.diagonal(block), shape))
                at += size
            return e.out(found)

    def __call__(self, *args, **kwargs):
        return self._by_argument(args, self._parts(args, kwargs))


class _Laplacian(_Diagonal):
    def __call__(self, *args, **kwargs):
        total = 0.0
        for part in self._parts(args, kwargs):
            total = total + np.sum(part)
        return float(total) if isinstance(total, np.floating) and total.dtype.char == "d" else total


def hessian_diag(f, argnums=0, *, argnum=None):
    """A function that gives the diagonal of the Hessian of `f`: the second derivative in each element.

    Parameters
    ----------
    f, argnums, argnum
        As of `hessian`.

    Returns
    -------
    callable
        Gives an array of the shape of the argument, in its containers.  The Hessian is not
        held as a whole; where elements interact with few others only it takes a few
        directions (as `jacobian`), otherwise one per element.

    Raises
    ------
    As `hessian`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.hessian_diag(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    return _Diagonal(f, chosen(argnums, argnum))


def laplacian(f, argnums=0, *, argnum=None):
    """A function that gives the Laplacian of `f`: the sum of the second derivatives in each element.

    Parameters
    ----------
    f, argnums, argnum
        As of `hessian`.

    Returns
    -------
    callable
        Gives a number.

    Raises
    ------
    As `hessian`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.laplacian(lambda x: x[0] ** 2 + x[1] ** 3)(np.array([1.0, 2.0]))
    14.0
    """
    return _Laplacian(f, chosen(argnums, argnum))


# ---- products ------------------------------------------------------------------------------


def _directions(direction, bases, structure):
    """Tangents of the variables, and how many directions there are (None: one, without an axis for it)."""
    given, found = flatten(direction)
    if len(given) != len(bases):
        raise StructureError(f"the direction is {found}, but the arguments to differentiate are {structure}")
    shapes = [(np.shape(v), tuple(np.shape(b))) for v, b in zip(given, bases)]
    if all(v == b for v, b in shapes):
        return given, None
    count = shapes[0][0][0] if shapes[0][0] else None
    if count is not None and all(v == (count, *b) for v, b in shapes):
        return given, count
    name = next(name for name, (v, b) in zip(leaf_names(structure), shapes) if v != b)
    shape, own = next((v, b) for v, b in shapes if v != b)
    raise SeedShapeError(
        f"the direction{name} has the shape {shape}, its argument {own}; it needs that shape, or one more axis in front for "
        "several directions at once"
    )


def _second_products(e, directions, lanes):
    """The tangent of the gradient: one product with the Hessian for each direction."""
    gradients = e.pull(e.results[:1], [1.0])
    return e.push(gradients, directions, lanes)


def _among_duals(arguments):
    """Whether dual numbers are around: among the arguments, or of a derivative outside, whose function may use them."""
    return bool(running.level) or any(leaf.__class__ is Dual for leaf in flatten(arguments)[0])


class _Program:
    """A function of a direction and the arguments, for a replay: `body` says what is computed."""

    def __init__(self, function, argnums, has_aux, body):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums, self.has_aux, self.body = function, argnums, has_aux, body

    def __call__(self, direction, *args, **kwargs):
        with Evaluation(self.function, args, sorted(self.argnums), kwargs) as e:
            e.run()
            found = e.out(self.body(e, direction, self.has_aux))
            aux = unflatten(e.structure, e.out(e.results))[1] if self.has_aux else None
        by_argument = nested._by_argument(e, found)
        found = tuple(by_argument[k] for k in self.argnums)
        return (found, aux) if self.has_aux else found


class _Products(Transformed):
    """What `hvp` and `gnvp` return: the direction is the last argument."""

    def __init__(self, function, argnums, has_aux, body, by_duals):
        super().__init__(function, argnums, False, False)
        if len(set(self._argnums)) < len(self._argnums):
            raise StructureError(f"argnums={argnums!r} names an argument twice")
        self._has_aux, self._by_duals = has_aux, by_duals
        self._program = _Program(function, self._argnums, has_aux, body)
        self._replayed = Replayed(self._program, (0, *(k + 1 for k in self._argnums)), scalar=False, adjoints=False)

    def __call__(self, *args, **kwargs):
        if len(args) < 2:
            raise StructureError("a product takes the arguments of the function and, last, the direction")
        *args, direction = args
        if max(self._argnums) >= len(args):
            raise StructureError(
                f"argnums={self._argnums} asks for argument {max(self._argnums)}, but the function was called with {len(args)} "
                "positional arguments, and a direction"
            )
        if self._one:
            direction = (direction,)
        if nested.is_nested((direction, args), kwargs):
            if _among_duals((direction, args, kwargs)):
                return self._by_duals(self, args, kwargs, direction)
            return self._shaped(self._program(direction, *args, **kwargs))
        outcome = self._replayed.call((direction, *args), kwargs, backward=False)
        # The values are copies already, but for constants.
        values = outcome.values if outcome.tape is not None else [v.copy() if isinstance(v, np.ndarray) else v for v in outcome.values]
        return self._shaped(unflatten(outcome.structure, values))

    def _shaped(self, found):
        if self._has_aux:
            return (found[0][0] if self._one else found[0]), found[1]
        return found[0] if self._one else found


def _hvp_body(e, direction, has_aux):
    e.check_number(e.structure.parts[0].count if has_aux else len(e.results))
    given, lanes = _directions(direction, e.bases, _joined(e))
    return _second_products(e, given, lanes)


def _joined(e):
    from ..tree import Structure

    return e.structures[0] if len(e.structures) == 1 else Structure(tuple, (None,) * len(e.structures), tuple(e.structures))


def _hvp_by_duals(self, args, kwargs, direction):
    """Where dual numbers are around: forward mode over the recorded gradient, one direction at a time."""
    function = self.__wrapped__
    bases = [base_of(leaf) for k in self._argnums for leaf in flatten(args[k])[0]]
    structures = [flatten(args[k])[1] for k in self._argnums]
    given, lanes = _directions(direction, bases, flatten(tuple(args[k] for k in self._argnums))[1])

    def one(pick):
        parts = iter(given)
        tangents = tuple(unflatten(s, [pick(next(parts)) for _ in range(s.count)]) for s in structures)
        gradient = grad(function, self._argnums, self._has_aux)

        def of_variables(*variables):
            full = list(args)
            for k, v in zip(self._argnums, variables):
                full[k] = v
            found = gradient(*full, **kwargs)
            return found[0] if self._has_aux else found

        return jvp(of_variables, tuple(args[k] for k in self._argnums), tangents)[1]

    if lanes is None:
        found = one(lambda v: v)
    else:
        rows = [flatten(one(lambda v, j=j: v[j]))[0] for j in range(lanes)]
        structure = flatten(tuple(args[k] for k in self._argnums))[1]
        found = unflatten(structure, [np.stack(parts) for parts in zip(*rows)])
    aux = function(*args, **kwargs)[1] if self._has_aux else None
    return self._shaped((found, aux) if self._has_aux else found)


def hvp(f, argnums=0, has_aux=False, *, argnum=None):
    """A function that gives products of the Hessian of `f` with directions.

    Parameters
    ----------
    f : callable
        Returns one number (or a pair of it and anything else, with `has_aux`).
    argnums : int or sequence of int
        As of `grad`.  Also called `argnum`.
    has_aux : bool
        As of `grad`.

    Returns
    -------
    callable
        ``product(*args, v)``: the arguments of `f`, and last the direction, in the shape and
        containers of the argument that is differentiated (a tuple of them if `argnums` is
        one).  With one more axis in front, `v` is several directions, which share one pass.
        The product has the shape of `v`; ``(product, aux)`` with `has_aux`.

    Raises
    ------
    SeedShapeError, StructureError
        The direction does not fit.
    NonScalarOutputError, DtypeError, HigherOrderError
        As `hessian`.

    Notes
    -----
    Forward over reverse: the gradient is recorded, and the tangent of the recording along `v`
    behind it; a call replays both.  (B. Pearlmutter, "Fast exact multiplication by the
    Hessian", 1994.)

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> product = tg.hvp(lambda x: x[0] ** 2 * x[1])
    >>> product(np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    array([6., 2.])
    >>> product(np.array([1.0, 3.0]), np.eye(2))
    array([[6., 2.],
           [2., 0.]])
    """
    return _Products(f, chosen(argnums, argnum), has_aux, _hvp_body, _hvp_by_duals)


def gnvp(model, loss=None, argnums=0, *, argnum=None):
    """A function that gives products of the Gauss-Newton matrix with directions.

    For ``f(x) = loss(model(x))`` the matrix is ``J.T @ H @ J`` with the Jacobian J of the
    model and the Hessian H of the loss in the model's result: the Hessian of `f` without the
    curvature of the model, positive semidefinite if the loss is convex.

    Parameters
    ----------
    model : callable
        Returns a number, an array, or containers of them.
    loss : callable, optional
        Of the model's result; returns one number.  By default half the sum of squares, for
        which H is the identity: the product is ``J.T @ (J @ v)``.
    argnums : int or sequence of int
        Of the model, as of `grad`.  Also called `argnum`.

    Returns
    -------
    callable
        ``product(*args, v)``, as of `hvp`.

    Raises
    ------
    As `hvp`.

    References
    ----------
    N. Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent",
    Neural Computation 14 (2002) 1723-1738.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> product = tg.gnvp(lambda x: x ** 2)
    >>> product(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    array([ 4., 36.])
    """
    if loss is not None and not callable(loss):
        raise StructureError(f"expected a function as loss, got {type(loss).__name__}")
    return _Products(model, chosen(argnums, argnum), False, _GaussNewton(loss), _gnvp_by_duals)


class _GaussNewton:
    """What a Gauss-Newton product computes."""

    def __init__(self, loss):
        self.loss = loss

    def __call__(self, e, direction, has_aux):
        e.check()
        given, lanes = _directions(direction, e.bases, _joined(e))
        moved = e.push(e.results, given, lanes)
        if self.loss is not None:
            moved = self._weighted(unflatten(e.structure, e.results), moved, lanes)
        return e.pull(e.results, moved, lanes)

    def _weighted(self, result, moved, lanes):
        with Evaluation(self.loss, (result,), (0,), {}) as inner:
            inner.run()
            inner.check_number(len(inner.results))
            return _second_products(inner, moved, lanes)


def _gnvp_by_duals(self, args, kwargs, direction):
    raise StructureError(
        "a Gauss-Newton product cannot be taken inside of forward mode (tg.jvp, tg.jacfwd, tg.derivative); differentiate it by "
        "tg.grad or tg.vjp"
    )
