"""NumPy's functions of complex arrays: by the real functions on both parts, by products of parts, or by real matrices.

Functions that are linear in an array (they move, join, pick and add elements) are called twice, for the real and for the imaginary part
(`LINEAR`, by the positions of the arrays among the arguments); products are four real ones.  A complex matrix ``A + iB`` is a
real one with the blocks ``[[a, -b], [b, a]]`` in the place of its elements: inverse, solution, pseudo-inverse and Cholesky factor of that
are those of the complex one, block by block.  Determinants and eigenvalues have rows of their own (`rules.complex`).
"""

import math
from functools import cache, partial, reduce
from itertools import product
from string import ascii_letters

import numpy as np

from ..array.complex import FUNCTIONS as COMPLEX
from ..array.complex import (
    MULTIPLY,
    UFUNCS,
    ComplexTensor,
    bilinear,
    conjugate,
    is_complex,
    lifted,
    pairwise,
    parts_of,
    real_dtype,
    refused,
)
from ..array.record import apply, record_aux
from ..common.registry import attach
from ..common.tree import mapped
from ..rules.complex import as_complex
from .dispatch import FUNCTIONS, implements, of_numpy, parameters
from .linalg import EighResult, SlogdetResult, SVDResult
from .own_code import own_code

_EigResult = type(np.linalg.eig(np.eye(1)))

#: Functions that are linear in the arrays at these positions (`round` is by parts, too).
LINEAR = {
    (0,): "reshape ravel transpose swapaxes matrix_transpose moveaxis rollaxis squeeze expand_dims atleast_1d atleast_2d atleast_3d broadcast_to "
    "concatenate stack vstack hstack dstack column_stack block split array_split hsplit vsplit dsplit diagonal flip fliplr flipud rot90 roll "
    "take take_along_axis copy tile repeat tril triu diag diagflat pad delete sum mean cumsum cumulative_sum trace resize nan_to_num gradient "
    "average trapezoid fft.fftshift fft.ifftshift linalg.diagonal linalg.trace linalg.matrix_transpose unstack round around "
    "lib.stride_tricks.sliding_window_view",
    (1,): "compress extract choose", (0, 1): "append linspace", (1, 2): "where select", (0, 2): "insert", (0, 1, 2): "ediff1d", (0, 3, 4): "diff",
    (2, 3, 4): "interp", (0, 1, 2, 3): "broadcast_arrays meshgrid",
}  # fmt: skip
#: Keyword arguments of theirs that stand in the result, or are added to it.
_STAND = {"initial", "constant_values", "end_values"}
#: Those that are linear in each of two operands; of the others in the conjugate of one.
_PRODUCTS = "dot matmul inner outer tensordot kron cross convolve linalg.outer linalg.matmul linalg.tensordot linalg.cross"


def _half(thing, which):
    if isinstance(thing, (list, tuple)):
        return mapped(_half, thing, which)
    if thing is None or not (is_complex(thing) or which):
        return thing
    part = parts_of(thing)[which]
    if part is not None:
        return part
    # A Python number stays one: it promotes weakly.
    return np.zeros(np.shape(thing), thing.real.dtype) if hasattr(thing, "dtype") else 0.0


def _paired(re, im):
    if isinstance(re, (list, tuple)):
        return type(re)([_paired(*parts) for parts in zip(re, im)])
    return ComplexTensor(re, im)


def _linear(function, places):
    names = _STAND.union(name for k, name in enumerate(parameters(function)) if k in places) if function is not np.where else ()

    def call(*args, **kwargs):
        if (dtype := kwargs.get("dtype")) is not None:
            if np.dtype(dtype).kind != "c":
                raise refused(f"{function.__name__} with dtype={np.dtype(dtype)}, which would drop a part,")
            kwargs["dtype"] = np.empty(0, dtype).real.dtype
        others = [a for k, a in enumerate(args) if k not in places] + [value for name, value in kwargs.items() if name not in names]
        if any(map(is_complex, others)):
            raise refused(f"{function.__name__} with another complex argument than {', '.join(sorted(names - _STAND))}")
        halves = []
        for which in (0, 1):
            given = [_half(a, which) if k in places else a for k, a in enumerate(args)]
            halves.append(function(*given, **{name: _half(v, which) if name in names else v for name, v in kwargs.items()}))
        return _paired(*halves)

    return call


COMPLEX |= {function: _linear(function, places) for places, names in LINEAR.items() for function in of_numpy(names)}
COMPLEX |= {function: bilinear(function) for function in of_numpy(_PRODUCTS)}
COMPLEX |= {
    f: own_code(f) for f in of_numpy("polyval real_if_close linalg.matrix_power linalg.vector_norm linalg.matrix_norm linalg.svdvals")
}


def complex_rule(*functions):
    """Decorator: the function stands for these of NumPy where there are complex numbers among the arguments."""

    def register(ours):
        COMPLEX.update(dict.fromkeys(functions, ours))
        return ours

    return register


COMPLEX[np.linalg.vecdot] = COMPLEX[np.vecdot, "__call__"] = lambda a, b, axis=-1: np.sum(conjugate(a) * b, axis=axis)
COMPLEX[np.matvec, "__call__"] = lambda a, b: np.matmul(a, lifted(b)[..., None])[..., 0]
COMPLEX[np.vecmat, "__call__"] = lambda a, b: np.matmul(conjugate(lifted(a))[..., None, :], b)[..., 0, :]
COMPLEX[np.add, "accumulate"] = lambda a, axis=0: np.cumsum(lifted(a), axis=axis)
COMPLEX[np.multiply, "accumulate"] = lambda a, axis=0: np.cumprod(lifted(a), axis=axis)
COMPLEX[np.add, "reduce"] = lambda a, axis=0, **options: np.sum(lifted(a), axis=axis, **options)
COMPLEX[np.multiply, "reduce"] = lambda a, axis=0, **options: _prod(a, axis, **options)
COMPLEX[np.multiply, "outer"] = lambda a, b: MULTIPLY(np.reshape(lifted(a), np.shape(a) + (1,) * np.ndim(b)), b)


@complex_rule(np.einsum)
def _einsum(subscripts, *operands, **options):
    if not isinstance(subscripts, str):
        # Lists of numbers beside the operands, and perhaps one of the result.
        given = (subscripts, *operands)
        words = ["".join(["..." if k is Ellipsis else _LETTERS[k] for k in numbers]) for numbers in (*given[1::2], *given[2 * (len(given) // 2) :])]
        operands = given[: len(given) // 2 * 2 : 2]
        subscripts = ",".join(words[: len(operands)]) + "".join(f"->{word}" for word in words[len(operands) :])
    totals = [None, None]
    for chosen in product(*([p for p in enumerate(parts_of(o)) if p[1] is not None] for o in operands)):
        imaginary, term = sum(which for which, _ in chosen), np.einsum(subscripts, *(part for _, part in chosen), **options)
        term, which = -term if imaginary % 4 > 1 else term, imaginary % 2
        totals[which] = term if totals[which] is None else totals[which] + term
    return ComplexTensor(*totals)


#: In the order in which ``np.einsum`` takes axes of a result that is not given.
_LETTERS = sorted(ascii_letters)


@complex_rule(np.average)
def _average(a, axis=None, weights=None, returned=False, **options):
    average = _mean(a, axis, weights, **options)
    return (average, np.average(lifted(a).real, axis, weights, True, **options)[1]) if returned else average


_mean = _linear(np.average, (0,))


@complex_rule(np.pad)
def _pad(array, pad_width, mode="constant", **options):
    if mode in ("maximum", "minimum", "median"):
        raise refused(f"numpy.pad with mode={mode!r}")
    return _padded(array, pad_width, mode, **options)


_padded = _linear(np.pad, (0,))


@complex_rule(np.prod)
def _prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=1.0, where=True):
    a = lifted(a) if dtype is None else lifted(a).astype(dtype)
    z = a if where is True else np.where(where, a, 1.0)
    axes = range(z.ndim) if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else axis
    for axis in [k % z.ndim for k in axes]:
        lines = np.moveaxis(z, axis, 0)
        if not len(lines):
            lines = ComplexTensor(np.ones((1, *lines.shape[1:]), real_dtype(z)))
        while (n := len(lines)) > 1:
            pairs = lines[: n // 2] * lines[n // 2 : n // 2 * 2]
            lines = np.concatenate([pairs, lines[-1:]]) if n % 2 else pairs
        z = np.moveaxis(lines, 0, axis)
    z = z if keepdims else np.squeeze(z, tuple(axes))
    return z if type(initial) is float and initial == 1.0 else z * initial


@complex_rule(np.cumprod)
def _cumprod(a, axis=None, dtype=None):
    z = lifted(a) if dtype is None else lifted(a).astype(dtype)
    z = np.ravel(z) if axis is None else np.moveaxis(z, axis, 0)
    step = 1
    while step < len(z):
        z, step = np.concatenate([z[:step], z[step:] * z[:-step]]), 2 * step
    return z if axis is None else np.moveaxis(z, 0, axis)


@complex_rule(np.var)
def _var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, **options):
    if dtype is not None:
        raise refused("numpy.var with dtype=")
    z, mean = lifted(a), options.pop("mean", None)
    if mean is None:
        return sum(np.var(part, axis, ddof=ddof, keepdims=keepdims, **options) for part in (z.real, z.imag))
    away, ddof, where = z - mean, options.pop("correction", ddof), options.get("where", True)
    sums = np.sum(np.square(away.real) + np.square(away.imag), axis=axis, keepdims=keepdims, **options)
    count = np.sum(np.broadcast_to(where, away.shape), axis=axis, keepdims=keepdims)
    return sums / np.maximum(count - ddof, 0).astype(sums.dtype)


@complex_rule(np.std)
def _std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, **options):
    if dtype is not None:
        raise refused("numpy.std with dtype=")
    if "mean" in options:
        return np.sqrt(_var(a, axis, ddof=ddof, keepdims=keepdims, **options))
    # That of the parts together, which has derivatives of all orders where it is 0; a root of `_var` has not.
    z, ddof = lifted(a), options.pop("correction", ddof)
    axes = np.arange(z.ndim)[... if axis is None else np.atleast_1d(axis)].tolist()
    parts = _stacked(z - np.mean(z, axis=axis, keepdims=True, **options))
    options = {name: np.expand_dims(value, -1) for name, value in options.items()}
    result = np.std(parts, axis=(*axes, z.ndim), ddof=2 * ddof, keepdims=keepdims, **options) * math.sqrt(2.0)
    return result[..., 0] if keepdims else result


def _like(function, a, dtype=None, **options):
    """An array that tensors may be written into, as of a real tensor."""
    whole = function(np.empty(a.shape, dtype or a.dtype), **options)
    return lifted(whole) if is_complex(whole) else function(a.real, dtype=dtype, **options)


@complex_rule(np.full_like)
def _full_like(a, fill_value, dtype=None):
    whole = np.zeros_like(a, dtype)
    whole[...] = fill_value
    return whole


COMPLEX |= {
    np.vdot: lambda a, b: np.dot(np.ravel(conjugate(a)), np.ravel(lifted(b))), np.linalg.multi_dot: lambda arrays: reduce(np.dot, map(lifted, arrays)),
    np.correlate: lambda a, v, mode="valid": bilinear(np.correlate)(a, conjugate(v), mode),
    np.real: lambda val: lifted(val).real, np.imag: lambda val: lifted(val).imag,
    np.shape: lambda a: a.shape, np.ndim: lambda a: a.ndim, np.size: lambda a: a.size,
    np.nansum: lambda a, *args, **options: np.sum(np.where(np.isnan(lifted(a)), 0.0, a), *args, **options),
    **{f: partial(lambda f, a, *args, **options: f(np.not_equal(lifted(a), 0.0), *args, **options), f) for f in (np.any, np.all, np.count_nonzero)},
    np.iscomplexobj: lambda x: True, np.isrealobj: lambda x: False,
    np.iscomplex: lambda x: x.imag != 0, np.isreal: lambda x: x.imag == 0, np.sinc: lambda x: _sinc(lifted(x) * np.pi),
    **{f: partial(_like, f) for f in (np.zeros_like, np.ones_like, np.empty_like)},
}  # fmt: skip


_SINC = [(-1.0) ** k / math.factorial(2 * k + 1) for k in range(12, -1, -1)]


def _sinc(z):
    # The terms of the slope of sin(z) / z are 1 / z near 0, where the slope is z / 3: a series there.
    near = np.logical_and(np.abs(z.real) < 1.0, np.abs(z.imag) < 1.0)
    far = np.where(near, 1.0, z)
    return np.where(near, np.polyval(np.array(_SINC, real_dtype(z)), UFUNCS["square"](np.where(near, z, 0.0))), UFUNCS["sin"](far) / far)


@complex_rule(np.angle)
@implements(np.angle)
def _angle(z, deg=False):
    angle = UFUNCS["angle"](z)
    return np.rad2deg(angle) if deg else angle



def _of_stacked(row, z, **attrs):
    packed = apply(row, (_stacked(z),), tuple(attrs.items()))
    return ComplexTensor(packed[..., 0], packed[..., 1])


def _expm1(x, y):
    near = np.abs(x) < 1.0
    return (
        np.where(near, np.expm1(np.where(near, x, 0.0)) * np.cos(y) - 2.0 * np.sin(0.5 * y) ** 2, np.exp(x) * np.cos(y) - 1.0),
        np.exp(x) * np.sin(y),
    )


def _sign(z):
    size = np.hypot(*(lifted(z).real, lifted(z).imag))
    return lifted(z) / np.where(size == 0.0, 1.0, size)


UFUNCS |= {"expm1": pairwise(_expm1), "sign": _sign}
UFUNCS["rint"] = lambda z: ComplexTensor(*map(np.rint, (lifted(z).real, lifted(z).imag)))
UFUNCS |= {name: partial(_of_stacked, "complex_erf", kind=name) for name in ("erf", "erfc")}


@cache
def _place(find, axis):
    return lambda re, im: np.expand_dims(find(as_complex(np.stack([re, im], -1)), axis), axis)


def _extreme(find, a, axis=None, out=None, keepdims=False, initial=None, where=True):
    """The first number that is largest, or smallest, by the real part and then by the imaginary one, as NumPy has it."""
    if where is not True and initial is None:
        raise ValueError("the largest and the smallest of complex numbers with where= need initial= too, as in NumPy")
    z = lifted(a) if where is True else np.where(where, a, initial)
    axes = [k % z.ndim for k in (range(z.ndim) if axis is None else np.atleast_1d(axis).tolist())]
    for k in axes:
        z = np.take_along_axis(z, record_aux(_place(find, k), z.real, z.imag), k)
    z = z if keepdims else np.squeeze(z, tuple(axes))
    return z if initial is None else _extreme(find, np.stack(_alike(z, np.broadcast_to(initial, z.shape))), 0)


def _alike(a, b):
    """Both as complex tensors of one dtype."""
    return [lifted(o).astype(np.result_type(real_dtype(a, b), np.complex64)) for o in (a, b)]


COMPLEX |= {f: partial(_extreme, find) for find, functions in ((np.argmax, (np.max, np.amax)), (np.argmin, (np.min, np.amin))) for f in functions}
UFUNCS |= {
    name: lambda a, b, find=find: _extreme(find, np.stack([np.broadcast_to(o, np.broadcast_shapes(np.shape(a), np.shape(b))) for o in _alike(a, b)]), 0)
    for name, find in (("maximum", np.argmax), ("minimum", np.argmin))
}


# ---- matrices --------------------------------------------------------------------------------


def blocks(z):
    """The real matrices for complex ones."""
    z = lifted(z)
    (m, n), a, b = z.shape[-2:], z.real, z.imag
    return np.reshape(np.stack([np.stack([a, -b], -1), np.stack([b, a], -1)], -3), (*z.shape[:-2], 2 * m, 2 * n))


def of_blocks(matrix):
    """The complex matrices of such real ones."""
    return ComplexTensor(matrix[..., ::2, ::2], matrix[..., 1::2, ::2])


for _function in (np.linalg.inv, np.linalg.pinv):
    COMPLEX[_function] = lambda a, *more, function=_function, **options: of_blocks(function(blocks(a), *more, **options))


@complex_rule(np.linalg.cholesky)
def _cholesky(a, /, *, upper=False):
    # The diagonal counts as real.
    z = lifted(a)
    return of_blocks(np.linalg.cholesky(blocks(ComplexTensor(z.real, z.imag * (1.0 - np.eye(z.shape[-1], dtype=z.real.dtype)))), upper=upper))


@complex_rule(np.linalg.solve)
def _solve(a, b):
    if np.ndim(b) == 1:
        return _solve(a, np.reshape(lifted(b), (-1, 1)))[..., 0]
    return of_blocks(np.linalg.solve(blocks(a), blocks(b)))


COMPLEX[np.linalg.det] = partial(_of_stacked, "complex_det")


@complex_rule(np.linalg.slogdet)
def _slogdet(a):
    z = lifted(a)
    size = 0.5 * np.linalg.slogdet(blocks(z))[1]
    det = _of_stacked("complex_det", z * np.exp(size * (-1.0 / max(z.shape[-1], 1)))[..., None, None])
    return SlogdetResult(det / np.abs(det), size)


def _stacked(z):
    z = lifted(z)
    return np.stack([z.real, z.imag], -1)


def _eigen(a, kind=""):
    kind = "real" if not kind and parts_of(a)[1] is None else kind
    whole = _of_stacked("complex_eig", a, kind=kind)
    return whole[..., 0, :], whole[..., 1:, :]


COMPLEX[np.linalg.eig] = FUNCTIONS[np.linalg.eig] = lambda a: _EigResult(*_eigen(a))
COMPLEX[np.linalg.eigvals] = FUNCTIONS[np.linalg.eigvals] = lambda a: _eigen(a)[0]
COMPLEX[np.linalg.eigvalsh] = lambda a, UPLO="L": _eigen(a, UPLO)[0].real


@complex_rule(np.linalg.eigh)
def _eigh(a, UPLO="L"):
    w, v = _eigen(a, UPLO)
    return EighResult(w.real, v)


@complex_rule(np.linalg.svd)
def _svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    z = lifted(a)
    (m, n), k = z.shape[-2:], min(z.shape[-2:])
    if full_matrices and compute_uv and m != n:
        raise ValueError("np.linalg.svd of complex matrices that are not square needs full_matrices=False: the added vectors are any basis of the rest")
    # The eigenvectors of [[0, A], [A^H, 0]] hold both kinds of singular vectors, its eigenvalues are the singular values and their negatives.
    lead, back = z.shape[:-2], np.swapaxes(conjugate(z), -1, -2)
    upper = np.concatenate([ComplexTensor(np.zeros((*lead, m, m), real_dtype(z))), z], -1)
    w, v = _eigh(np.concatenate([upper, np.concatenate([back, ComplexTensor(np.zeros((*lead, n, n), real_dtype(z)))], -1)], -2))
    if not compute_uv:
        return w[..., ::-1][..., :k]
    v = v[..., ::-1][..., :k] * math.sqrt(2.0)
    return SVDResult(v[..., :m, :], w[..., ::-1][..., :k], np.swapaxes(conjugate(v[..., m:, :]), -1, -2))


@complex_rule(np.linalg.norm)
def _norm(x, ord=None, axis=None, keepdims=False):
    matrix = np.ndim(x) == 2 if axis is None else np.size(axis) == 2
    if ord is None or ord == (matrix and "fro" or 2):
        z = np.atleast_1d(lifted(x))
        return np.linalg.norm(np.concatenate([z.real, z.imag], 0 if axis is None else np.ravel(axis)[0]), ord, axis, keepdims)
    if not matrix or ord not in (2, -2, "nuc"):
        return np.linalg.norm(np.abs(lifted(x)), ord, axis, keepdims)
    z = lifted(x) if axis is None else np.moveaxis(lifted(x), axis, (-2, -1))
    values = _svd(z, compute_uv=False)
    result = np.sum(values, -1) if ord == "nuc" else values[..., 0 if ord == 2 else -1]
    return np.expand_dims(result, axis if axis is not None else (-2, -1)) if keepdims else result




# ---- methods -----------------------------------------------------------------------------------


def _by_parts(name):
    return lambda self, *args, **kwargs: _paired(getattr(self.real, name)(*args, **kwargs), getattr(self.imag, name)(*args, **kwargs))


def _by_function(function):
    return lambda self, *args, **kwargs: COMPLEX[function](self, *args, **kwargs)


def _astype(self, dtype):
    if np.dtype(dtype).kind != "c":
        raise TypeError(f"a complex tensor is not converted to {np.dtype(dtype)}, which would drop a part of it: take z.real or abs(z)")
    part = np.float32 if np.dtype(dtype).char == "F" else np.float64
    return ComplexTensor(self.real.astype(part), self.imag.astype(part))


attach(ComplexTensor, {
    **{
        name: _by_parts(name)
        for name in "reshape ravel flatten squeeze expand_dims unsqueeze transpose permute t swapaxes moveaxis flip broadcast_to expand "
        "diagonal diag split repeat tile roll take clone copy sum mean cumsum trace round".split()
    },
    **{name: _by_function(getattr(np, name)) for name in "dot prod cumprod std var max min".split()},
    "astype": _astype, "T": property(lambda self: np.transpose(self)), "mT": property(lambda self: np.swapaxes(self, -1, -2)),
    "H": property(lambda self: np.swapaxes(conjugate(self), -1, -2)),
})  # fmt: skip
FUNCTIONS.setdefault(np.iscomplexobj, lambda x: False)
