"""Linear algebra of arrays of dual numbers: values by Numba's own functions, tangents lane by lane."""

import numpy as np
from numba.extending import overload, register_jitable

from .arrays import primals
from .loops import loop
from .scalars import component, seeded
from .types import Token, compiled_only, dual_of_arrays, is_dual_array


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
                found, out = prepare(p, x), np.empty(x.shape, token)
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


# ---- determinants: by cofactors, which a singular matrix has, too (`rules.cofactors` has the formulas) --------
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
