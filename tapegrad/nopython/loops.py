"""NumPy's functions of arrays that are defined by a loop, stated once, and its linear algebra.

Forward mode compiles the loops for dual numbers (`loop`); reverse mode puts them in place of the calls and differentiates them as it does
what the user writes (`reverse.forms`).  What computes by BLAS or LAPACK, sums, extrema and joins have rows of their own (`reverse.rows`).

Linear algebra of arrays of dual numbers has its values by Numba's own functions, tangents lane by lane.
"""

import functools
import inspect
import math

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from .arrays import both, primals
from .scalars import component, seeded
from .types import Token, common_dual, compiled_only, dual_of_arrays, element, is_dual_array, is_real

#: Function, or name of a method of arrays -> functions of the operands' types, each of which gives the loop or None.
LOOPS = {}


def loop(function, *dims, method=False, forward=True, typed=False):
    """Decorator: registers the loop that defines NumPy's `function`.

    Parameters
    ----------
    dims : int, None or ...
        The number of dimensions of each operand: None for a number, ``...`` for any array.
    method : bool
        Whether arrays have a method of that name.
    forward : bool
        Whether forward mode needs the loop: what only moves elements Numba compiles for dual numbers, too.
    typed : bool
        Whether what is defined gives the loop, for operands of some types.
    """

    def register(definition):
        signature = inspect.signature(definition)

        def fits(*operands):
            given = [ty.ndim if isinstance(ty, types.Array) else None for ty in operands]
            return all(n == want or want is ... and n is not None for n, want in zip(given, dims))

        def by_types(*operands):
            return (definition(*operands) if typed else definition) if fits(*operands) else None

        @functools.wraps(definition)
        def of_duals(*operands, **named):
            operands = signature.bind(*operands, **named).args
            given = [element(ty) for ty in operands if isinstance(ty, types.Type) and not isinstance(ty, types.Omitted)]
            return by_types(*operands) if common_dual(*given) is not None else None

        for key in (function, function.__name__) if method else (function,):
            LOOPS.setdefault(key, []).append((signature, by_types))
        if method:
            both(function, function.__name__)(of_duals)
        elif forward:
            overload(function, target="cpu")(of_duals)
        return definition

    return register


def chosen(function, args, kwargs, type_of):
    """The loop that defines NumPy's function, or a method of this name, with its operands in order; or None.

    Operands are names of variables, whose types ``type_of(name)`` gives; those that the call leaves out are numbers.
    """
    for signature, by_types in LOOPS.get(function, ()):
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            continue
        given.apply_defaults()
        tys = [type_of(operand) if isinstance(operand, str) else types.int64 for operand in given.args]
        found = by_types(*tys) if all(is_real(element(ty)) for ty in tys) else None
        if found is not None:
            return found, given.args
    return None


#: A new array of zeros, for elements of some operands: ``zeros_for(shape, operands...)``.
zeros_for = compiled_only("zeros_for")


@overload(zeros_for)
def _zeros_for(shape, *operands):
    dual = common_dual(*map(element, operands))
    dtype = np.result_type(*[np.dtype(str(types.unliteral(element(ty)))) for ty in operands]) if dual is None else Token(dual.lanes)
    return lambda shape, *operands: np.zeros(shape, dtype)


# ---- one number of an array -------------------------------------------------------------------
loop(np.mean, ..., method=True)(lambda a: np.divide(np.sum(a), a.size))


@loop(np.var, ..., method=True)
def _var(a):
    mean, total = np.mean(a), 0.0
    for x in a.flat:
        total += (x - mean) ** 2
    return total / a.size


@loop(np.std, ..., method=True)
def _std(a):
    var = np.var(a)
    return var if var == 0.0 else math.sqrt(var)


@loop(np.prod, ..., method=True, typed=True)
def _prod(a):
    one = 1.0 if is_dual_array(a) else getattr(np, str(a.dtype))(1)

    def prod(a):
        product = one
        for x in a.flat:
            product *= x
        return product

    return prod


loop(np.ptp, ...)(lambda a: np.max(a) - np.min(a))


loop(np.average, ..., ...)(lambda a, weights: np.sum(a * weights) / np.sum(weights))
loop(np.vdot, 1, 1)(lambda a, b: np.dot(a, b))
loop(np.trapezoid, 1)(lambda y: 0.5 * np.sum(y[1:] + y[:-1]))
loop(np.trapezoid, 1, None)(lambda y, dx: 0.5 * dx * np.sum(y[1:] + y[:-1]))
loop(np.trapezoid, 1, 1)(lambda y, x: 0.5 * np.sum((y[1:] + y[:-1]) * (x[1:] - x[:-1])))


@loop(np.linalg.norm, 1, None)
def _norm(x, ord):
    if ord == 2 or x.size == 0:
        size = np.linalg.norm(x)
    elif math.isinf(ord):
        size = np.max(np.abs(x)) if ord > 0 else np.min(np.abs(x))
    elif ord == 0:
        size = np.sum(np.where(x == 0.0, 0.0, 1.0))
    else:
        size = np.sum(np.abs(x) ** ord) ** (1.0 / ord)
    return size


@loop(np.trace, 2)
def _trace(a):
    total = 0.0
    for i in range(min(a.shape[0], a.shape[1])):
        total += a[i, i]
    return total


# ---- running sums and products, differences -----------------------------------------------------
@loop(np.cumsum, 1, method=True)
def _cumsum(a):
    sums, total = np.empty_like(a), 0.0
    for i in range(len(a)):
        total += a[i]
        sums[i] = total
    return sums


@loop(np.cumprod, 1, method=True)
def _cumprod(a):
    products, total = np.empty_like(a), 1.0
    for i in range(len(a)):
        total *= a[i]
        products[i] = total
    return products


loop(np.cumsum, ..., method=True)(lambda a: np.cumsum(a.ravel()))
loop(np.cumprod, ..., method=True)(lambda a: np.cumprod(a.ravel()))
loop(np.diff, 1)(lambda a: a[1:] - a[:-1])


@loop(np.diff, 1, None)
def _differences(a, n):
    if n < 0:
        raise ValueError("diff(): order must be non-negative")
    out = a.copy()
    for _ in range(n):
        out = out[1:] - out[:-1]
    return out


# ---- products of vectors ------------------------------------------------------------------------
@loop(np.convolve, 1, 1)
def _convolve(a, v):
    if a.size == 0 or v.size == 0:
        raise ValueError("an operand of np.convolve is empty")
    out = zeros_for(a.size + v.size - 1, a, v)
    for i in range(a.size):
        for j in range(v.size):
            out[i + j] += a[i] * v[j]
    return out


loop(np.correlate, 1, 1)(lambda a, v: np.convolve(a, v[::-1])[min(a.size, v.size) - 1 : max(a.size, v.size)])


@loop(np.cross, 1, 1)
def _cross(a, b):
    if a.size != 3 or b.size != 3:
        raise ValueError("np.cross takes vectors of three elements here")
    out = zeros_for(3, a, b)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] = a[j] * b[k] - a[k] * b[j]
    return out


@loop(np.bincount, 1, 1)
def _bincount(x, weights):
    if x.size != weights.size:
        raise ValueError("np.bincount takes as many weights as bins")
    out = zeros_for(np.max(x) + 1 if x.size else 0, weights)
    for i in range(x.size):
        if x[i] < 0:
            raise ValueError("np.bincount takes bins that are not negative")
        out[x[i]] += weights[i]
    return out


# ---- order, and what is left without NaN ----------------------------------------------------------
loop(np.sort, 1, forward=False)(lambda a: a[np.argsort(a)])


@register_jitable
def at_rank(line, rank):
    """The value of a sorted vector at a position between two elements."""
    k = int(rank)
    return line[k] + (line[k + 1] - line[k]) * (rank - k) if k + 1 < line.size else line[k]


loop(at_rank, 1, None, forward=False)(at_rank)


@loop(np.quantile, ..., None)
def _quantile(a, q):
    if not 0.0 <= q <= 1.0 or a.size == 0:
        raise ValueError("a quantile takes numbers, and its place among them from 0 to 1")
    line = np.sort(a.ravel())
    # (NaN is the last.)
    return at_rank(line, q * (line.size - 1)) if line[-1] == line[-1] else np.nan


loop(np.percentile, ..., None)(lambda a, q: np.quantile(a, q / 100.0))


loop(np.median, ...)(lambda a: np.quantile(a, 0.5) if a.size else np.nan)


def _without_nan(function, of_numbers, of_none):
    """Let `function` be another one of what is no NaN, `of_none` if there is nothing else."""

    @loop(function, ...)
    def known(a):
        line = a.ravel()
        line = line[line == line]
        return of_numbers(line) if line.size else of_none


for _name, _of_none in ({"sum": 0.0, "prod": 1.0} | dict.fromkeys(("mean", "var", "std", "median", "max", "min"), np.nan)).items():
    _without_nan(getattr(np, f"nan{_name}"), getattr(np, _name), _of_none)


@loop(np.linspace, None, None, None)
def _linspace(start, stop, num=50):
    out, step = zeros_for(num, start, stop, 0.0), (stop - start) / max(num - 1, 1)
    for i in range(num):
        out[i] = start + i * step
    if num > 1:
        out[num - 1] = stop
    return out


# ---- elements moved -----------------------------------------------------------------------------
loop(np.append, 1, 1)(lambda arr, values: np.concatenate((arr, values)))
loop(np.append, 1, None)(lambda arr, values: np.append(arr, np.full(1, values)))


@loop(np.roll, 1, None)
def _roll(a, shift):
    out = np.empty_like(a)
    for i in range(a.size):
        out[(i + shift) % a.size] = a[i]
    return out


@loop(np.repeat, 1, None, forward=False)
def _repeat(a, repeats):
    if repeats < 0:
        raise ValueError("negative dimensions are not allowed")
    out = zeros_for(a.size * repeats, a)
    for i in range(out.size):
        out[i] = a[i // repeats]
    return out


@loop(np.delete, 1, None, forward=False)
def _delete(arr, obj):
    if not -arr.size <= obj < arr.size:
        raise IndexError("obj must be less than the len(arr)")
    k = obj % arr.size
    return np.concatenate((arr[:k], arr[k + 1:]))


@loop(np.take, ..., 1, forward=False)
def _take(a, indices):
    flat = a.ravel()
    for k in indices:
        if not -flat.size <= k < flat.size:
            raise IndexError("Index out of bounds")
    return flat[indices]


def _triangle(function, lower):
    """Let `function` of a matrix have zeros beside a triangle, that of the diagonal number `k`."""

    @loop(function, 2, None, forward=False)
    def triangle(m, k=0):
        out = zeros_for((m.shape[0], m.shape[1]), m)
        for i in range(m.shape[0]):
            for j in range(m.shape[1]):
                if j <= i + k if lower else j >= i + k:
                    out[i, j] = m[i, j]
        return out


_triangle(np.tril, True)
_triangle(np.triu, False)


@loop(np.diag, 1, forward=False)
def _diagonal_matrix(v):
    out = zeros_for((v.size, v.size), v)
    for i in range(v.size):
        out[i, i] = v[i]
    return out


@loop(np.diag, 2, forward=False)
def _diagonal(v):
    out = zeros_for(min(v.shape[0], v.shape[1]), v)
    for i in range(out.size):
        out[i] = v[i, i]
    return out


# ---- tables -------------------------------------------------------------------------------------
@register_jitable
def place(xp, x, right):
    """How many points of a sorted table are below a number, or not above it."""
    low, high = 0, len(xp)
    while low < high:
        middle = (low + high) // 2
        if x < xp[middle] or not right and x == xp[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@register_jitable
def interval(x, xp):
    """The interval of a table in which a number lies, as its first point; -1 and n - 1 outside."""
    return place(xp, x, True) - 1 if x != xp[-1] else len(xp) - 2 if len(xp) > 1 else -1


@overload(np.searchsorted, target="cpu")
def _searchsorted(a, v, side="left"):
    if common_dual(element(a), v) is not None and isinstance(a, types.Array):
        return lambda a, v, side="left": place(a, v, side == "right")


@register_jitable
def between(x, xp, fp):
    """The value of a table at a number."""
    k = interval(x, xp)
    if 0 <= k < len(xp) - 1:
        y = fp[k] + (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k]) * (x - xp[k])
    else:
        y = fp[max(k, 0)] if x == x else x
    return y


loop(between, None, 1, 1, forward=False)(between)


@register_jitable
def _check_table(xp, fp):
    if len(xp) != len(fp) or len(xp) == 0:
        raise ValueError("a table of np.interp has as many values as points, and at least one")


loop(_check_table, 1, 1, forward=False)(_check_table)


@loop(np.interp, None, 1, 1)
def _at_a_number(x, xp, fp):
    _check_table(xp, fp)
    return between(x, xp, fp)


@loop(np.interp, 1, 1, 1)
def _at_numbers(x, xp, fp):
    _check_table(xp, fp)
    out = zeros_for(x.size, x, xp, fp, 0.0)
    for i in range(x.size):
        out[i] = between(x[i], xp, fp)
    return out


loop(np.interp, ..., 1, 1)(lambda x, xp, fp: np.interp(x.ravel(), xp, fp).reshape(x.shape))


# ---- linear algebra, lane by lane ----------------------------------------------------------------
@register_jitable
def tangents(a, lane):
    """The tangents of one lane of an array of numbers."""
    out = np.empty(a.shape)
    for i in np.ndindex(a.shape):
        out[i] = component(a[i], lane)
    return out


@register_jitable
def _joined(token, out, x, tangent, lane):
    """An array of dual numbers of values and the tangents of one lane, beside those that it has."""
    for i in np.ndindex(x.shape):
        out[i] = seeded(token, x[i], lane, tangent[i]) if lane == 0 else out[i] + seeded(token, 0.0, lane, tangent[i])


@register_jitable
def lower_half(a):
    """The strictly lower triangle of the symmetric part of a matrix, and half of its diagonal."""
    out = np.zeros_like(a)
    for i in range(len(a)):
        for j in range(i):
            out[i, j] = 0.5 * (a[i, j] + a[j, i])
        out[i, i] = 0.5 * a[i, i]
    return out


@register_jitable
def back_substituted(low, x):
    """The solution of ``low.T @ y = x``, `low` being lower triangular, in the place of `x`: loops, which Numba compiles in less time than its functions."""
    for i in range(len(low) - 1, -1, -1):
        for k in range(i + 1, len(low)):
            for j in range(x.shape[1]):
                x[i, j] -= low[k, i] * x[k, j]
        for j in range(x.shape[1]):
            x[i, j] /= low[i, i]
    return x


@overload(np.linalg.solve, target="cpu")
def _solve(a, b):
    dual = dual_of_arrays(a, b)
    if dual is not None:
        token, lanes = Token(dual.lanes), dual.lanes

        def solve(a, b):
            p = primals(a)
            x = np.linalg.solve(p, primals(b))
            out = np.empty_like(x, token)
            for lane in range(lanes):
                _joined(token, out, x, np.linalg.solve(p, tangents(b, lane) - np.dot(tangents(a, lane), x)), lane)
            return out

        return solve


def _of_matrix(function, prepare, tangent):
    """Let `function` of a matrix of dual numbers have the tangents ``tangent(result, prepare(matrix, result), tangents)``."""
    prepare, tangent = register_jitable(prepare), register_jitable(tangent)

    @overload(function, target="cpu")
    def typed(a):
        if is_dual_array(a):
            token, lanes = Token(a.dtype.lanes), a.dtype.lanes

            def matrix(a):
                p = primals(a)
                x = function(p)
                found, out = prepare(p, x), np.empty_like(x, token)
                for lane in range(lanes):
                    _joined(token, out, x, tangent(x, found, tangents(a, lane)), lane)
                return out

            return matrix


_of_matrix(np.linalg.inv, lambda p, x: 0, lambda x, _, t: -np.dot(np.dot(x, t), x))
_of_matrix(
    np.linalg.cholesky,
    lambda p, x: np.linalg.inv(x),
    lambda x, inverse, t: np.dot(x, lower_half(np.dot(np.dot(inverse, t), np.ascontiguousarray(inverse.T)))),
)


# ---- determinants: by cofactors, which a singular matrix has, too (`rules.linalg` has the formulas) --------
@register_jitable
def _others(s, i, j):
    """The product of all values except two."""
    product = 1.0
    for k in range(len(s)):
        if k != i and k != j:
            product *= s[k]
    return product


@register_jitable
def _singular(a):
    """Singular values and vectors, and the product of the determinants of these, which is 1 or -1."""
    u, s, vh = np.linalg.svd(a)
    return np.sign(np.linalg.det(u) * np.linalg.det(vh)), u, s, vh


@register_jitable
def _cofactors_of_numbers(a):
    """By the inverse, whose errors where `a` is nearly singular those of the determinant undo (G. W. Stewart, "On the adjugate matrix", 1998)."""
    d = np.linalg.det(a)
    if d != 0.0:
        return d * np.linalg.inv(a).T
    sign, u, s, vh = _singular(a)
    return np.dot(u * np.array([sign * _others(s, i, i) for i in range(len(s))]), vh)


#: The cofactors of a matrix, in nopython code.
cofactors = compiled_only("cofactors")


def _change_of_cofactors(x, singular, t):
    sign, u, s, vh = singular
    inner, core = np.dot(np.dot(u.T, t), vh.T), np.zeros(x.shape)
    for i in range(len(s)):
        for j in range(len(s)):
            if i != j:
                others = sign * _others(s, i, j)
                core[i, i] += others * inner[j, j]
                core[i, j] = -others * inner[j, i]
    return np.dot(np.dot(u, core), vh)


overload(cofactors, target="cpu")(lambda a: None if is_dual_array(a) else _cofactors_of_numbers)
_of_matrix(cofactors, lambda p, x: _singular(p), _change_of_cofactors)


def _of_determinant(function, value, gradient):
    """Let `function` of a matrix of dual numbers be ``value(values)``, with the tangents of ``gradient(values)``."""

    @overload(function, target="cpu")
    def typed(a):
        if is_dual_array(a):
            token, lanes = Token(a.dtype.lanes), a.dtype.lanes

            def number(a):
                p = primals(a)
                total, by_elements = seeded(token, value(p), 0, 0.0), gradient(p)
                for lane in range(lanes):
                    total += seeded(token, 0.0, lane, np.sum(by_elements * tangents(a, lane)))
                return total

            return number


#: The logarithm of the absolute value of a determinant, in nopython code.
log_abs_det = compiled_only("log_abs_det")


@register_jitable
def _log_abs_det(a):
    return np.linalg.slogdet(a)[1]


overload(log_abs_det, target="cpu")(lambda a: None if is_dual_array(a) else _log_abs_det)
_of_determinant(np.linalg.det, np.linalg.det, cofactors)
_of_determinant(log_abs_det, _log_abs_det, register_jitable(lambda a: np.linalg.inv(a).T))


@register_jitable
def sign_of_det(a):
    """The sign of a determinant."""
    return np.linalg.slogdet(primals(a))[0]


@loop(np.linalg.slogdet, 2)
def _slogdet(a):
    return sign_of_det(a), log_abs_det(a)
