"""Complex numbers in real arrays, whose last axis holds both parts: discrete Fourier transforms, determinants, eigenvectors, erf.

Those of elementary functions whose formulas choose between cases, element by element, are two rows, of the real and of the imaginary part.

`fourier` is linear, and its adjoint is the transform the other way: the same row.  An adjoint is ``dL/dRe + i dL/dIm``; for eigenvectors
see C. Boeddeker et al., "On the computation of complex-valued gradients with application to statistically optimum beamforming" (2017).
"""

import math

import numpy as np

from ..common.errors import require
from ..common.uninterrupted import imported
from . import lang as L
from . import shapes as S
from .elementwise import over_square
from .lang import select
from .shapes import side_by_side, taken_apart
from .table import elementwise, structural


def as_complex(x):
    """An array of parts as a complex one."""
    return np.ascontiguousarray(x).view(np.complex64 if x.dtype.char == "f" else np.complex128)[..., 0]


def as_parts(z):
    """A complex array as one of parts."""
    z = np.asarray(z, order="C")
    return z[..., None].view(z.real.dtype)


# ---- Fourier transforms -----------------------------------------------------------------------


def _doubled(half, n, factor):
    """`half`, the frequencies of a real signal of length `n`, with those that stand for two times `factor`; changes it."""
    half[..., 1 : (n + 1) // 2] *= factor
    return half


def _fourier_value(x, axes=(-1,), forward=True, source="complex", target="complex", n=0, twofold=False):
    fft, x = imported("scipy.fft"), np.asarray(x)
    if source == "real" and target == "half":
        half = fft.rfft(x, n)
        return as_parts(_doubled(half, n, 2.0) if twofold else half)
    if source == "half":
        half = as_complex(x)
        return fft.irfft(half if twofold else _doubled(half.copy(), n, 0.5), n, norm="forward")
    z = x if source == "real" else as_complex(x)
    if target == "complex":
        parts = as_parts(fft.fftn(z, axes=axes) if forward else fft.ifftn(z, axes=axes, norm="forward"))
        if source == "real":
            # SciPy's have an imaginary part of -0.0 where NumPy's have 0.0: on another side of the branch cuts of log and sqrt.
            parts += 0.0
        return parts
    # The real part is the signal of the frequencies that are left when each is added to the conjugate of its opposite.
    *others, axis = axes
    z = fft.fftn(z, axes=others) if others and forward else fft.ifftn(z, axes=others, norm="forward") if others else z
    z = np.moveaxis(z.conj() if forward else z, axis, -1)
    half = z[..., : z.shape[-1] // 2 + 1].astype(np.result_type(z, np.complex64))
    half[..., 1:] += z[..., : (z.shape[-1] - 1) // 2 : -1].conj()
    half[..., 1:] *= 0.5
    half[..., 0].imag = 0.0
    return np.moveaxis(fft.irfft(half, z.shape[-1], norm="forward"), -1, axis)


def _fourier_shape(x, axes=(-1,), forward=True, source="complex", target="complex", n=0, twofold=False):
    shape = x.shape if source == "real" else x.shape[:-1]
    require(source == "real" or x.shape[-1] == 2, f"parts in the shape {x.shape}")
    require(all(-len(shape) <= axis < 0 for axis in axes), f"the axes {axes} of {len(shape)}")
    require("half" not in (source, target) or shape[-1] == (n if source == "real" else n // 2 + 1), f"{n} points in the shape {x.shape}")
    if source == "half":
        shape = (*shape[:-1], n)
    elif target == "half":
        shape = (*shape[:-1], n // 2 + 1)
    return shape if target == "real" else (*shape, 2), S.floating(x)


def _fourier_vjp(g, x, z, axes=(-1,), forward=True, source="complex", target="complex", n=0, twofold=False):
    return (g.fourier(axes=axes, forward=not forward, source=target, target=source, n=n, twofold=twofold),)


structural(
    "fourier", 1, _fourier_value, _fourier_vjp, jvp=lambda t, x, z, **attrs: t.fourier(**attrs), node="Fft",
    doc="discrete Fourier transform without a factor, of real signals (`source`), to their real part (`target`) or the frequencies that tell "
    "the others (\"half\"; `twofold`: times 2 those that stand for two)", shape=_fourier_shape,
)


# ---- complex numbers in rules -------------------------------------------------------------------


class Pair:
    """A complex matrix in a rule."""

    def __init__(self, re, im):
        self.re, self.im = re, im

    @classmethod
    def of(cls, x):
        """The matrix whose parts are along the last axis."""
        return cls(*(part.reshape(x.shape[:-1]) for part in taken_apart(x, (1, 1), x.ndim - 1)))

    def packed(self, like):
        """The parts along the last axis of what is of the shape and dtype of `like`."""
        return side_by_side(like, like.shape, [p.expand_dims([p.ndim]) for p in (self.re, self.im)], [1, 1], like.ndim - 1)

    def __add__(self, other):
        return Pair(self.re + other.re, self.im + other.im)

    def __sub__(self, other):
        return Pair(self.re - other.re, self.im - other.im)

    def __matmul__(self, other):
        return Pair(self.re @ other.re - self.im @ other.im, self.re @ other.im + self.im @ other.re)

    def times(self, other):
        """The product of elements."""
        (a, b), (c, d) = (self.re, self.im), (other.re, other.im)
        return Pair(L.times(a, c) - L.times(b, d), L.times(a, d) + L.times(b, c))

    def scaled(self, real):
        """The product with a real array."""
        return Pair(L.times(self.re, real), L.times(self.im, real))

    def conj(self):
        """The conjugate."""
        return Pair(self.re, -self.im)

    def h(self):
        """The conjugate transpose."""
        return Pair(self.re.swapaxes(-1, -2), -self.im.swapaxes(-1, -2))

    def rows(self, *counts):
        """The rows, so many in each part."""
        return map(Pair, *(taken_apart(part, counts, part.ndim - 2) for part in (self.re, self.im)))

    def solve(self, other):
        """The solution of ``self @ X = other``, by the real matrices ``[[A, -B], [B, A]]`` and ``[[C], [D]]``."""
        n, lead = self.re.shape[-1], self.re.shape[:-2]
        places = zip((self.re, -self.im, self.im, self.re), (0, n, 2 * n * n, 2 * n * n + n))
        whole = self.re.assemble((*lead, 2 * n, 2 * n), [(part, self.re.shape, None, at) for part, at in places])
        solved = whole.solve(side_by_side(other.re, (*lead, 2 * n, other.re.shape[-1]), [other.re, other.im], [n, n], len(lead)))
        return Pair(*taken_apart(solved, (n, n), solved.ndim - 2))


# ---- determinants and eigenvectors --------------------------------------------------------------


def _det_gradient(x, z):
    """The conjugate transpose of ``det(A) inv(A)``, whose inner product with a change is that of the determinant."""
    a = Pair.of(x)
    n = x.shape[-2]
    inverse = a.solve(Pair(x.constant(np.broadcast_to(np.eye(n), a.re.shape)), x.constant(np.zeros(a.re.shape))))
    return inverse, Pair.of(z.reshape((*z.shape[:-1], 1, 1, 2)))


def _det_vjp(g, x, z):
    inverse, det = _det_gradient(x, z)
    return (inverse.times(det).h().times(Pair.of(g.reshape((*g.shape[:-1], 1, 1, 2)))).packed(x),)


def _det_jvp(t, x, z):
    inverse, det = _det_gradient(x, z)
    change = (inverse @ Pair.of(t)).times(det)
    eye = t.constant(np.eye(x.shape[-2]))
    axes = (change.re.ndim - 2, change.re.ndim - 1)
    return Pair(*(L.times(p, eye).sum(axes) for p in (change.re, change.im))).packed(z)


structural(
    "complex_det", 1, lambda x: as_parts(np.linalg.det(as_complex(x))), _det_vjp, jvp=_det_jvp, node="LinalgDet",
    doc="determinant of complex matrices; the derivative at a singular matrix is NaN",
    shape=lambda x: ((*x.shape[:-3], 2), S.floating(x)),
)


#: Kinds of matrices: Hermitian ones, by one triangle; else "real" or "".
_TRIANGLES = ("L", "U")


def _eig_value(x, kind=""):
    z = as_complex(x)
    w, v = np.linalg.eigh(z, kind) if kind in _TRIANGLES else np.linalg.eig(z.real if kind == "real" else z)
    return as_parts(np.concatenate([w[..., None, :], v], axis=-2).astype(z.dtype))


def _gaps(w):
    """``1 / conj(w[j] - w[i])``, 0 where they are equal."""
    back = Pair(w.re.swapaxes(-1, -2), w.im.swapaxes(-1, -2))
    gap = w - back
    size = gap.re * gap.re + gap.im * gap.im
    return gap.scaled(L.select(L.eq(size, 0.0), 0.0, 1.0 / size))


def _real_element(v):
    """Where eigenvectors, columns, are made real: 1 over that element, 0 elsewhere.

    Of eigenvectors of general matrices LAPACK makes the largest element real, and its imaginary part exactly 0.  (If several real ones are
    equally large, which one it was is not known: each has its share.)
    """
    axis = v.re.ndim - 2
    size = L.select(L.eq(v.im, 0.0), v.re * v.re, 0.0)
    chosen = L.select(L.eq(size, size.reduce("max", axis, True)), 1.0, 0.0)
    return L.times(chosen, 1.0 / L.select(L.eq(chosen, 0.0), 1.0, v.re * chosen.sum((axis,), keepdims=True)))


def _symmetric(a):
    back = a.h()
    return Pair((a.re + back.re) * 0.5, (a.im + back.im) * 0.5)


def _eig_vjp(g, x, z, kind=""):
    n = x.shape[-2]
    (w, v), (to_w, to_v), eye = Pair.of(z).rows(1, n), Pair.of(g).rows(1, n), g.constant(np.eye(n))
    if kind not in _TRIANGLES:
        # What would turn them is undone by the phase that makes an element real.
        turned = (L.times(to_v.re, v.im) - L.times(to_v.im, v.re)).sum((v.re.ndim - 2,), keepdims=True)
        to_v = Pair(to_v.re, to_v.im + L.times(_real_element(v), turned))
    along = v.h() @ to_v
    # Vectors have length 1: what would make them longer is left out.
    fixed = along - (v.h() @ v).scaled(L.times(along.re, eye).sum((along.re.ndim - 2,), keepdims=True))
    inner = fixed.times(_gaps(w)) + to_w.scaled(eye)
    adjoint = v.h().solve(inner @ v.h())
    return ((_symmetric(adjoint) if kind in _TRIANGLES else adjoint).packed(x),)


def _eig_jvp(t, x, z, kind=""):
    n = x.shape[-2]
    (w, v), change, eye = Pair.of(z).rows(1, n), Pair.of(t), t.constant(np.eye(n))
    inner = v.solve((_symmetric(change) if kind in _TRIANGLES else change) @ v)
    axis = inner.re.ndim - 2
    of_w = Pair(*(L.times(p, eye).sum((axis,), keepdims=True) for p in (inner.re, inner.im)))
    of_v = v @ inner.times(_gaps(w).conj())
    longer = v.h() @ of_v
    of_v = of_v - v.scaled(L.times(longer.re, eye).sum((axis,), keepdims=True))
    if kind not in _TRIANGLES:
        angle = L.times(of_v.im, _real_element(v)).sum((axis,), keepdims=True)
        of_v = Pair(of_v.re + L.times(v.im, angle), of_v.im - L.times(v.re, angle))
    parts = zip((of_w.re, of_w.im), (of_v.re, of_v.im))
    like = z.narrow(z.ndim - 1, 0, 1).reshape(z.shape[:-1])
    return Pair(*(side_by_side(like, like.shape, pair, [1, n], axis) for pair in parts)).packed(z)


structural(
    "complex_eig", 1, _eig_value, _eig_vjp, jvp=_eig_jvp, node="LinalgEig", raises=True,
    doc="eigenvalues (first row) and eigenvectors of length 1 (columns of the rows below) of complex matrices, packed, those of Hermitian ones by "
    "one triangle; the terms 1/(a-b) of equal eigenvalues count as 0",
    shape=lambda x, kind="": ((*x.shape[:-3], x.shape[-3] + 1, x.shape[-2], 2), S.floating(x)),
)


# ---- the error function ---------------------------------------------------------------------------


def _erf_slope(x, kind):
    """``2 / sqrt(pi) exp(-z**2)``, negative of `erfc`."""
    z = Pair.of(x)
    size = L.exp(z.im * z.im - z.re * z.re) * (2.0 / math.sqrt(math.pi) * (1.0 if kind == "erf" else -1.0))
    angle = z.re * z.im * -2.0
    return Pair(size * L.cos(angle), size * L.sin(angle))


structural(
    "complex_erf", 1, lambda x, kind="erf": as_parts(getattr(imported("scipy.special"), kind)(as_complex(x))),
    lambda g, x, z, kind="erf": (Pair.of(g).times(_erf_slope(x, kind).conj()).packed(x),),
    jvp=lambda t, x, z, kind="erf": Pair.of(t).times(_erf_slope(x, kind)).packed(z), node="Erf",
    doc="error function of complex numbers, and its complement (`kind`)", shape=lambda x, kind="erf": (x.shape, S.floating(x)),
)


# ---- parts of functions that choose between cases ---------------------------------------------------


def _of_parts(name, value, expr, by_real, by_imag, scalar, doc):
    elementwise(f"complex_{name}", value, expr, (by_real, by_imag), scalar=scalar, node=f"Complex{name.title().replace('_', '')}", doc=doc)


def _wide(x, y):
    return L.abs(x) >= L.abs(y)


def _scaled_value(x, y, imag):
    wide = np.abs(x) >= np.abs(y)
    return np.where(wide, y / np.where(wide, x, 1.0), 1.0) if imag else np.where(wide, 1.0, x / np.where(wide, 1.0, y))


# R. Smith, "Algorithm 116: Complex division", 1962: nothing is squared.
_of_parts(
    "scaled_real", lambda x, y: _scaled_value(x, y, False), lambda x, y: select(_wide(x, y), 1.0, x / y),
    lambda x, y, z: select(_wide(x, y), 0.0, 1.0 / y), lambda x, y, z: select(_wide(x, y), 0.0, -(z / y)),
    lambda x, y: 1.0 if abs(x) >= abs(y) else x / y, "real part of a complex number over its larger part",
)
_of_parts(
    "scaled_imag", lambda x, y: _scaled_value(x, y, True), lambda x, y: select(_wide(x, y), y / x, 1.0),
    lambda x, y, z: select(_wide(x, y), -(z / x), 0.0), lambda x, y, z: select(_wide(x, y), 1.0 / x, 0.0),
    lambda x, y: y / x if abs(x) >= abs(y) else 1.0, "imaginary part of a complex number over its larger part",
)


def _root_value(x, y):
    # W. Kahan, "Branch cuts for complex elementary functions", 1987: without cancellation.
    larger = np.sqrt((np.hypot(x, y) + np.abs(x)) * 0.5)
    other = y / (2.0 * np.where(larger == 0.0, 1.0, larger))
    return np.where(x >= 0.0, larger, np.abs(other)), np.where(x >= 0.0, other, np.copysign(larger, y))


def _root_on_floats(x, y):
    larger = math.sqrt((abs(complex(x, y)) + abs(x)) * 0.5)
    return larger, y / (2.0 * (larger or 1.0))


def _root(x, y):
    # (Not the absolute value, whose kink the root does not have.)
    larger = L.sqrt((L.hypot(x, y) + select(x >= 0.0, x, -x)) * 0.5)
    return larger, y / (2.0 * select(L.eq(larger, 0.0), 1.0, larger))


def _root_real(x, y):
    larger, other = _root(x, y)
    return select(x >= 0.0, larger, L.abs(other))


def _root_imag(x, y):
    larger, other = _root(x, y)
    return select(x >= 0.0, other, L.copysign(larger, y))


def _root_slope(part, x, y, pole):
    # 1 / (2 w) is conj(w) / (2 |w|**2), and |w|**2 is |z|.
    size = L.hypot(x, y)
    return select(L.eq(size, 0.0), pole, 0.5 * part / size)


def _root_real_on_floats(x, y):
    larger, other = _root_on_floats(x, y)
    return larger if x >= 0.0 else abs(other)


def _root_imag_on_floats(x, y):
    larger, other = _root_on_floats(x, y)
    return other if x >= 0.0 else math.copysign(larger, y)


_of_parts(
    "sqrt_real", lambda x, y: _root_value(x, y)[0], _root_real, lambda x, y, z: _root_slope(z, x, y, math.inf),
    lambda x, y, z: _root_slope(_root_imag(x, y), x, y, 0.0), _root_real_on_floats, "real part of the square root of a complex number",
)
_of_parts(
    "sqrt_imag", lambda x, y: _root_value(x, y)[1], _root_imag, lambda x, y, z: -_root_slope(z, x, y, 0.0),
    lambda x, y, z: _root_slope(_root_real(x, y), x, y, math.inf), _root_imag_on_floats, "imaginary part of the square root of a complex number",
)


def _size_value(less, x, y):
    # Near 1 of what is added to that; W. Kahan, see above.
    near = np.logical_and(np.abs(less) < 0.5, np.abs(y) < 0.5)
    u, v = np.where(near, less, 0.0), np.where(near, y, 0.0)
    return 0.5 * np.log1p(u * (2.0 + u) + v * v) + np.log(np.hypot(np.where(near, 1.0, x), np.where(near, 0.0, y)))


def _size_on_floats(less, x, y):
    return 0.5 * math.log1p(less * (2.0 + less) + y * y) if abs(less) < 0.5 and abs(y) < 0.5 else math.log(abs(complex(x, y)))


def _size(less, x, y):
    near = (L.abs(less) < 0.5) & (L.abs(y) < 0.5)
    u, v = select(near, less, 0.0), select(near, y, 0.0)
    return select(near, 0.5 * L.log1p(u * (2.0 + u) + v * v), L.log(L.hypot(select(near, 1.0, x), select(near, 0.0, y))))


_of_parts(
    "log_size", lambda x, y: _size_value(x - 1.0, x, y), lambda x, y: _size(x - 1.0, x, y),
    lambda x, y, z: over_square(x, x, y), lambda x, y, z: over_square(y, x, y),
    lambda x, y: _size_on_floats(x - 1.0, x, y), "logarithm of the absolute value of a complex number, accurate near 1",
)
_of_parts(
    "log1p_size", lambda x, y: _size_value(x, 1.0 + x, y), lambda x, y: _size(x, 1.0 + x, y),
    lambda x, y, z: over_square(1.0 + x, 1.0 + x, y), lambda x, y, z: over_square(y, 1.0 + x, y),
    lambda x, y: _size_on_floats(x, 1.0 + x, y), "logarithm of the absolute value of 1 + z, accurate near z = 0",
)
