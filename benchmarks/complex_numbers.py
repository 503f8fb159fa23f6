"""Complex numbers: kernels of complex code beside the same code in real and imaginary parts, gradients by Fourier transforms beside JAX's.

The tape is real, so that a complex number costs what its two parts do, and division a little more, which is safe against overflow.
Fourier transforms are calls of SciPy from the kernel; the adjoint of one is another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .registry import Row, benchmark, check_agreement
from .timing import measure

COUNT = 100_000


def in_complex(x, y, u, v):
    """A loss of two complex fields, given by their parts."""
    z, w = x + 1j * y, u + 1j * v
    out = np.exp(1j * z.real) * z * w + z * z / w
    return np.sum(np.abs(out) ** 2)


def in_parts(x, y, u, v):
    """The same, as one writes it without complex numbers."""
    c, s = np.cos(x), np.sin(x)
    a, b = c * x - s * y, c * y + s * x
    a, b = a * u - b * v, a * v + b * u
    p, q, d = x * x - y * y, 2.0 * x * y, u * u + v * v
    a, b = a + (p * u + q * v) / d, b + (q * u - p * v) / d
    return np.sum(a * a + b * b)


def spectrum(np, x, weights):
    """The weighted energy of a real signal's frequencies."""
    return np.sum(weights * np.abs(np.fft.rfft(x)) ** 2)


def far_field(np, phase, target):
    """How far the intensity behind a phase mask is from the one that is wanted."""
    field = np.fft.fft(np.exp(1j * phase), norm="ortho")
    return np.sum((np.real(field) ** 2 + np.imag(field) ** 2 - target) ** 2)


@benchmark(name="complex_numbers")
def complex_numbers(quick: bool) -> Iterator[Row]:
    """Complex code beside its parts, and gradients by Fourier transforms beside JAX."""
    import jax

    jax.config.update("jax_enable_x64", True)
    rng, budget = np.random.default_rng(0), 0.5 if quick else 3.0
    parts = rng.normal(size=COUNT), rng.normal(size=COUNT), rng.normal(size=COUNT), rng.normal(size=COUNT) + 3.0
    ours = {"complex": tg.jit(tg.grad(in_complex, (0, 1, 2, 3))), "parts": tg.jit(tg.grad(in_parts, (0, 1, 2, 3)))}
    check_agreement("the gradient of complex code", {name: np.stack(g(*parts)) for name, g in ours.items()})
    times = measure({name: lambda g=g: g(*parts) for name, g in ours.items()}, budget=budget)
    detail = {name: str(taken) for name, taken in times.items()}
    ratio = times["complex"].minimum / times["parts"].minimum
    yield Row("gradient of complex code, beside its parts", "at most 1.5 x", ratio, 1.5, "x", detail=detail)
    z, w = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
    whole = tg.jit(tg.grad(lambda z, w: in_complex(z.real, z.imag, w.real, w.imag), (0, 1)))
    whole(z, w)
    times = measure({"complex": lambda: whole(z, w), "parts": lambda: ours["parts"](*parts)}, budget=budget)
    detail = {name: str(taken) for name, taken in times.items()}
    yield Row("the same of complex arrays, which are taken apart", "", times["complex"].minimum / times["parts"].minimum, None, "x", detail=detail)
    for name, f, operands in (
        ("of a real signal", spectrum, (parts[0], rng.uniform(size=COUNT // 2 + 1))), ("of a phase mask", far_field, (parts[0], rng.uniform(size=COUNT))),
    ):  # fmt: skip
        mine, theirs = tg.jit(tg.grad(lambda *a, f=f: f(np, *a))), jax.jit(jax.grad(lambda *a, f=f: f(jax.numpy, *a)))
        calls = {"tapegrad": lambda g=mine, a=operands: g(*a), "JAX": lambda g=theirs, a=operands: g(*a).block_until_ready()}
        check_agreement(f"the gradient {name}", {who: np.asarray(call()) for who, call in calls.items()})
        times = measure(calls, budget=budget)
        ratio = times["tapegrad"].minimum / times["JAX"].minimum
        yield Row(f"gradient by FFT {name}, beside JAX", "at most 1.3 x", ratio, 1.3, "x", detail={who: str(taken) for who, taken in times.items()})
