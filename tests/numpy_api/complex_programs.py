"""Random programs of complex numbers, whose gradients are compared with PyTorch's and (conjugated) JAX's.

``python -m tests.numpy_api.complex_programs 10000`` runs so many, and prints what is wrong.  A program takes a real and a complex
vector and a complex matrix of 3, applies a few functions to what there is, and returns a real number of all that came out.
"""

import sys

import numpy as np

import tapegrad as tg

#: Functions of vectors by name: (operands, function of the namespace of NumPy or JAX and of that of Fourier transforms and matrices, PyTorch's).
ONE = "exp sin cos sinh cosh tanh sqrt log square conj".split()
VECTORS = {
    **{name: (1, lambda np, x, name=name: getattr(np, name)(x)) for name in ONE},
    "reciprocal": (1, lambda np, x: 1.0 / (x + 2.5)), "add": (2, lambda np, x, y: x + y), "subtract": (2, lambda np, x, y: x - 1j * y),
    "multiply": (2, lambda np, x, y: x * y), "divide": (2, lambda np, x, y: x / (y + 3.0j)), "power": (2, lambda np, x, y: (x + 2.0) ** (0.5 * y)),
    "cube": (1, lambda np, x: x**3), "abs": (1, lambda np, x: np.abs(x) * x), "angle": (1, lambda np, x: np.angle(x + 4.0) * x),
    "real": (1, lambda np, x: np.real(x) + 1j * np.abs(x)), "imag": (1, lambda np, x: np.imag(x + 0j) * x), "sum": (1, lambda np, x: np.sum(x) - x),
    "prod": (1, lambda np, x: np.prod(x) + x), "cumsum": (1, lambda np, x: np.cumsum(x, 0)), "cumprod": (1, lambda np, x: np.cumprod(x, 0)),
    "flip": (1, lambda np, x: np.flip(x, (0,)) * 1j), "roll": (1, lambda np, x: np.roll(x, 1, 0) + x[0]), "part": (1, lambda np, x: x[1:].sum() * x),
    "where": (2, lambda np, x, y: np.where(np.abs(x) > 1.0, x, y)), "outer": (2, lambda np, x, y: np.sum(np.outer(x + 0j, y + 0j), 0)),
    "fft": (1, lambda np, x: np.fft.fft(x)), "ifft": (1, lambda np, x: np.fft.ifft(x, norm="ortho")), "irfft": (1, lambda np, x: np.fft.irfft(x + 0j, 3) + 0j),
    "rfft": (1, lambda np, x: np.fft.rfft(np.abs(x))[1] * x), "fft to 5": (1, lambda np, x: np.fft.fft(x, 5)[:3]), "hfft": (1, lambda np, x: np.fft.hfft(x + 0j, 3) * x),
}  # fmt: skip
MATRICES = {
    "matmul": lambda np, m, x: m @ (x + 0j), "square": lambda np, m, x: m @ m @ (x + 0j), "inv": lambda np, m, x: np.linalg.inv(m) @ (x + 0j),
    "solve": lambda np, m, x: np.linalg.solve(m, x + 0j), "det": lambda np, m, x: np.linalg.det(m) * x * 0.1,
    "einsum": lambda np, m, x: np.einsum("ij,j,i->i", m, x + 0j, x + 0j), "trace": lambda np, m, x: np.trace(m) + x,
    "hermitian": lambda np, m, x: (m + np.conj(m).T) @ (x + 0j), "eigvalsh": lambda np, m, x: np.linalg.eigvalsh(m + np.conj(m).T) * x,
    "norm": lambda np, m, x: np.linalg.norm(m) * x, "eigvals": lambda np, m, x: np.sum(np.linalg.eigvals(m) ** 2) + x,
}  # fmt: skip


class Torch:
    """PyTorch under NumPy's names."""

    def __init__(self):
        import torch

        self.torch, self.fft, self.linalg = torch, torch.fft, torch.linalg

    def __getattr__(self, name):
        return getattr(self.torch, name)

    def where(self, condition, x, y):
        return self.torch.where(condition, x + 0j, y + 0j)


class Program:
    """The program of a seed: a function of a namespace and its operands."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.operands = rng.normal(size=3), rng.normal(size=3) + 1j * rng.normal(size=3), rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) + 2.0 * np.eye(3)
        self.steps, count = [], 2
        for _ in range(rng.integers(2, 7)):
            name = str(rng.choice([*VECTORS, *(f"m {name}" for name in MATRICES)]))
            arity = 1 if name.startswith("m ") else VECTORS[name][0]
            self.steps.append((name, [int(k) for k in rng.integers(0, count, arity)]))
            count += 1
        self.weights = rng.normal(size=count) + 1j * rng.normal(size=count)

    def __call__(self, np, t, z, m):
        values = [t, z]
        for name, slots in self.steps:
            x = [values[k] for k in slots]
            y = MATRICES[name[2:]](np, m, *x) if name.startswith("m ") else VECTORS[name][1](np, *x)
            # What grows without bounds is brought back.
            values.append(y / (1.0 + 0.1 * np.abs(y)))
        total = 0.0
        for w, value in zip(self.weights, values):
            total = total + np.sum(np.real(complex(w) * (value + 0j))) + 0.1 * np.sum(np.abs(value) ** 2)
        return total

    def __str__(self):
        return "; ".join(f"v{k + 2} = {name}({', '.join(f'v{s}' for s in slots)})" for k, (name, slots) in enumerate(self.steps))


def gradients_of_peers(program):
    """Those of PyTorch and the conjugates of JAX's."""
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    leaves = [torch.tensor(x, requires_grad=True) for x in program.operands]
    program(Torch(), *leaves).backward()
    ours = [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.resolve_conj().numpy() for leaf in leaves]
    theirs = jax.grad(lambda *operands: program(jax.numpy, *operands), (0, 1, 2))(*program.operands)
    return ours, [np.conj(np.asarray(g)) for g in theirs]


def near(one, other, tolerance):
    return all(np.allclose(a, b, rtol=tolerance, atol=tolerance * (1.0 + np.max(np.abs(b)))) for a, b in zip(one, other))


def verdict(seed, kernel=False, peers=True):
    """What is wrong with the gradient of a program: "" if nothing, None if its peers do not agree or it is not finite."""
    program = Program(seed)
    with np.errstate(all="ignore"):
        every = (0, 1, 2)
        gradients = tg.grad(lambda *operands: program(np, *operands), every)(*program.operands)
        if not all(np.isfinite(g).all() for g in gradients):
            return None
        rng = np.random.default_rng(seed + 1)
        ways = [rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if np.iscomplexobj(x) else 0.0) for x in program.operands]
        slope = sum(np.sum(np.real(np.conj(g) * d)) for g, d in zip(gradients, ways))
        pushed = tg.jvp(lambda *operands: program(np, *operands), program.operands, tuple(ways))[1]
        if not np.isclose(pushed, slope, rtol=1e-7, atol=1e-7):
            return f"forward mode says {pushed}, reverse mode {slope}"
        if kernel:
            jitted = tg.jit(tg.grad(lambda *operands: program(np, *operands), every), kernel="always")
            jitted(*program.operands)
            if not near(jitted(*program.operands), gradients, 1e-8):
                return "the kernel differs"
        if not peers:
            return ""
        torch, jax = gradients_of_peers(program)
        if not near(torch, jax, 1e-7):
            return "" if near(gradients, torch, 1e-6) or near(gradients, jax, 1e-6) else None
        return "" if near(gradients, torch, 1e-6) else f"{gradients} beside {torch}"


def main(count, first=0):
    wrong = apart = 0
    for seed in range(first, first + count):
        why = verdict(seed, kernel=seed % 50 == 0)
        apart += why is None
        if why:
            wrong += 1
            print(seed, Program(seed), why, sep="\n    ")
    print(f"{count} programs: {wrong} wrong, {apart} not compared")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])) > 0)
