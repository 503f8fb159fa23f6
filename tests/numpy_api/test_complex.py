"""Functions of complex numbers beside NumPy's, differences, PyTorch and JAX."""

import numpy as np
import pytest
from scipy import special

import tapegrad as tg
from tapegrad.scipy import linalg
from tests.every import every
from tests.numpy_api.complex_checks import array, compare, loss_of, real

Z, W, T = array(4), array(4), real(4)
M, N = array(3, 3), array(3, 3)
UNARY = (
    "exp log sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh log2 log10 log1p expm1 exp2 reciprocal square "
    "conjugate negative positive sign absolute abs angle real imag sinc"
).split()


@every("name", UNARY)
def test_functions_of_one_number(name):
    compare(getattr(np, name), Z, kernel=name in ("exp", "sqrt", "tanh", "absolute"))


@pytest.mark.parametrize("name", "exp log sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh log1p expm1 absolute angle".split())
def test_values_in_every_quadrant_and_on_the_axes(name):
    x = np.array([-2.5, -1.0, -0.3, -0.0, 0.0, 0.4, 1.0, 3.0])
    grid = np.array([complex(a, b) for a in x for b in x if not (name in ("log", "log1p", "arctanh", "arctan") and abs(complex(a, b)) in (0.0, 1.0))])
    with np.errstate(all="ignore"):
        ours, theirs = getattr(np, name)(tg.tensor(grid)), getattr(np, name)(grid)
    ours = ours.detach().numpy()
    # Which side of a branch cut a zero lies on is compared off the cuts.
    off = ~((grid.imag == 0) & (np.abs(grid.real) >= 1.0) | (grid.real == 0) & (np.abs(grid.imag) >= 1.0))
    np.testing.assert_allclose(ours[off], theirs[off], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", "add subtract multiply divide power".split())
@pytest.mark.parametrize("kinds", ["zz", "rz", "zr"])
def test_functions_of_two_numbers(name, kinds):
    one, other = (Z if kinds[0] == "z" else np.abs(T) + 0.5), (W if kinds[1] == "z" else np.abs(T) + 0.5)
    compare(getattr(np, name), one, other, kernel=kinds == "zz")


PROGRAMS = {
    "whole powers": (lambda z: z**3 + z**-2 + z**0 + z**1, Z), "a root": (lambda z: z**0.5, Z), "a number to the power": (lambda z: 2.0**z, Z),
    "real meets a number": (lambda t: np.exp(1j * t) * t, T), "real meets an array": (lambda t: (t + W) / (1j - t), T),
    "matmul": (lambda a, b: a @ b, M, N), "real matmul": (lambda a, b: a @ b, real(3, 3), N), "dot": (np.dot, M, N), "vdot": (np.vdot, Z, W),
    "inner": (np.inner, M, N), "outer": (np.outer, Z, W), "kron": (np.kron, Z, W), "tensordot": (lambda a, b: np.tensordot(a, b, 1), M, N),
    "cross": (np.cross, M, N), "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), M, N),
    "einsum of three": (lambda a, b, c: np.einsum("ij,jk,k->i", a, b, c), M, real(3, 3), array(3)), "einsum of one": (lambda a: np.einsum("ij->ji", a), M),
    "correlate": (lambda a, b: np.correlate(a, b, "full"), Z, W), "convolve": (np.convolve, Z, W),
    "sum": (lambda z: np.sum(z, axis=0), M), "max": (np.max, Z), "min along": (lambda z: np.min(z, axis=1, keepdims=True), M),
    "max of some": (lambda z: z.max(axis=(0, 2)), array(2, 3, 2)), "amin": (np.amin, M),
    "maximum": (np.maximum, Z, W), "minimum of a number": (lambda z: np.minimum(z, 0.1), Z), "erf": (special.erf, Z), "erfc": (special.erfc, Z), "mean": (np.mean, M), "prod": (np.prod, Z), "prod along": (lambda z: np.prod(z, axis=1, keepdims=True), M),
    "cumprod": (lambda z: np.cumprod(z, axis=1), M), "cumsum": (np.cumsum, Z), "var": (np.var, Z), "std": (lambda z: np.std(z, axis=0), M),
    "concatenate": (lambda a, b: np.concatenate([a, b, T]), Z, W), "stack": (lambda a, t: np.stack([a, t]), Z, T),
    "where": (lambda a, b: np.where(T > 0, a, b), Z, W), "where of a real": (lambda a, b: np.where(T > 0, a, b), T, W),
    "parts": (lambda a: a[1:] * a[[0, 1, 0]], Z), "shapes": (lambda a: a.reshape(3, 3).T[:, ::-1].ravel(), array(9)), "split": (lambda a: np.split(a, 2), Z),
    "roll, pad, tile": (lambda a: np.tile(np.pad(np.roll(a, 1), 2), 2), Z), "trace, tril": (lambda a: np.trace(a) * np.tril(a), M),
    "a list": (lambda a: tg.array([[a[0], 1.0], [T[0], a[1] * 1j]]) @ np.ones(2) if isinstance(a, tg.array([a]).__class__) else np.array([a[0] + 1.0, T[0] + a[1] * 1j]), Z),
    "polyval": (np.polyval, Z, W), "norm": (np.linalg.norm, M), "spectral norm": (lambda a: np.linalg.norm(a, 2), M),
    "nuclear norm": (lambda a: np.linalg.norm(a, "nuc"), M), "norm by columns": (lambda a: np.linalg.norm(a, 1), M),
    "inv": (np.linalg.inv, M), "det": (np.linalg.det, M), "pinv": (np.linalg.pinv, array(4, 3)), "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), M),
    "solve": (np.linalg.solve, M, N), "solve for a vector": (np.linalg.solve, M, array(3)), "solve, real matrix": (np.linalg.solve, real(3, 3), array(3)),
    "matrix_power": (lambda a: np.linalg.matrix_power(a, 3), M), "inverse power": (lambda a: np.linalg.matrix_power(a, -2), M),
    "cholesky": (lambda a: np.linalg.cholesky(a @ a.conj().T + np.eye(3)), M), "eigvals": (np.linalg.eigvals, M),
    "eigvals of a real": (np.linalg.eigvals, real(4, 4)), "eig": (lambda a: np.abs(np.linalg.eig(a)[1]), M),
    "eig of a real": (lambda a: np.abs(np.linalg.eig(a)[1]), real(4, 4)), "eigvalsh": (lambda a: np.linalg.eigvalsh(a + a.conj().T), M),
    "eigh": (lambda a: np.abs(np.linalg.eigh(a + a.conj().T)[1]), M), "singular values": (lambda a: np.linalg.svd(a, compute_uv=False), array(4, 3)),
    "svd": (lambda a: tuple(map(np.abs, np.linalg.svd(a, full_matrices=False))), array(4, 3)),
    "svd, wide": (lambda a: tuple(map(np.abs, np.linalg.svd(a, full_matrices=False))), array(3, 4)),
    "svd product": (lambda a: (lambda u, s, vh: (u * np.sqrt(s)) @ vh)(*np.linalg.svd(a, full_matrices=False)), array(3, 4)),
    "stacks": (lambda a: (np.linalg.inv(a), np.linalg.det(a), np.linalg.eigvals(a)), array(2, 3, 3)),
    # Numbers that stand beside the array are no parts of both halves.
    "pad with": (lambda a: (np.pad(a, 1, constant_values=1.0), np.pad(a, (1, 2), constant_values=(2.0, 1j)), np.pad(a, 2, "linear_ramp", end_values=2.0)), Z),
    "differences of": (lambda a, t: (np.diff(a, prepend=1.0, append=t), np.ediff1d(a, to_begin=1.0), np.ediff1d(a, 2.0)), Z, T),
    "sums from": (lambda a: (np.sum(a, initial=1.0), np.nansum(a, initial=1.0), np.add.reduce(a, initial=2.0), np.prod(a, initial=2j, where=T > 0)), Z),
    "average": (lambda a: np.average(a, weights=[1, 2, 3, 4], returned=True), Z), "nansum": (lambda a: np.nansum(a * np.array([1, np.nan, 1, 1])), Z),
    "interp": (lambda t, a: np.interp([0.5, 1.2, 9.0], np.arange(4.0) + t**2, a, right=1.0), np.float64(0.2), Z), "linspace": (lambda a, t: np.linspace(a, t[0], 3), Z, T),
    "trapezoid": (lambda a, t: (np.trapezoid(a, dx=0.3), np.trapezoid(a, t)), Z, T), "meshgrid": (lambda a, t: np.meshgrid(a, t), Z, T),
    "select": (lambda a, t: (np.select([T > 1.0, T > 0.0], [a, t], 1.0), np.choose([0, 1, 0, 1], [a, t])), Z, T),
    "accumulated": (lambda a: (np.cumulative_sum(a, include_initial=True), np.add.accumulate(a), np.multiply.accumulate(a)), Z),
    "vecdot of a real": (lambda t, m: (np.vecdot(W, t), np.vecdot(t, W), np.linalg.vecdot(W, t), np.vecmat(W[:3], m), np.matvec(m * 1j, t[:3])), T, real(3, 3)),
    "matvec, vecmat": (lambda a, m: (np.matvec(m, a), np.vecmat(a, m)), array(3), M), "windows": (lambda a: np.lib.stride_tricks.sliding_window_view(a, 2), Z),
    "norms": (lambda a: (np.linalg.vector_norm(a), np.linalg.vector_norm(a, axis=1, ord=3), np.linalg.matrix_norm(a, ord="nuc")), M),
    "any, rounded": (lambda a: (np.any(a) * a, np.count_nonzero(a) * a, np.round(a, 1) + a, a.round(1) * a, np.rint(a) * a), Z),
    "real if close": (lambda a, t: (np.real_if_close(a), np.real_if_close(t + 1e-18j)), Z, T),
}  # fmt: skip
#: Of which kernels are made, too.
KERNELS = {"real meets a number", "matmul", "prod", "parts", "det", "eigvals", "einsum", "solve"}


@every("name", PROGRAMS)
def test_functions_of_arrays(name):
    f, *operands = PROGRAMS[name]
    compare(f, *operands, kernel=name in KERNELS)


OWN = {
    **dict.fromkeys("sum mean prod cumsum std var norm flip ravel squeeze transpose diagonal trace".split(), ()), "reshape": ((9,),),
    "take": ([0, 2],), "repeat": (2,), "tile": (2,), "roll": (1,), "expand_dims": (0,), "diag": (1,), "dot": (N,), "outer": (N,), "matmul": (N,),
    "zeros_like": (), "broadcast_to": ((2, 3, 3),), "swapaxes": (0, 1), "moveaxis": (0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_functions_of_this_package(name):
    theirs = np.linalg.norm if name == "norm" else getattr(np, name)
    both = [lambda z, f=f: np.sum(np.abs(f(np.array([[2.0, 1.0, 3.0]]) * z, *OWN[name]) + 1.0)) for f in (theirs, getattr(tg, name))]
    for expected, found in zip(*[tg.value_and_grad(loss)(M) for loss in both]):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("join", ["stack", "concatenate", "hstack", "vstack"])
def test_joined_by_functions_of_this_package(join):
    losses = [lambda z, w, m=m: np.sum(np.abs(getattr(m, join)([z, w, M.real])) ** 3) for m in (np, tg)]
    for expected, found in zip(*[tg.grad(loss, argnums=(0, 1))(M, N) for loss in losses]):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_as_pytorch_and_jax():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")

    def f(np, z, w):
        return np.sum(np.abs(np.sin(z) * w + np.exp(z / w) - np.sqrt(w) * np.log(z) + np.tanh(z) ** 2) ** 2)

    gradients = tg.grad(lambda z, w: f(np, z, w), (0, 1))(Z, W)
    leaves = [torch.tensor(x, requires_grad=True) for x in (Z, W)]
    f(torch, *leaves).backward()
    jax.config.update("jax_enable_x64", True)
    for ours, leaf, theirs, conjugate in zip(
        gradients, leaves, jax.jit(jax.grad(lambda z, w: f(jax.numpy, z, w), (0, 1)))(Z, W), tg.grad(lambda z, w: f(np, z, w), (0, 1), conjugate=True)(Z, W)
    ):
        np.testing.assert_allclose(ours, leaf.grad.numpy(), rtol=1e-10)
        np.testing.assert_allclose(conjugate, theirs, rtol=1e-10)
    seed = np.array([1.0 - 2.0j, 0.5j, 2.0, 1.0 + 1.0j])
    value, pull = tg.vjp(lambda z: np.sin(z) * z, Z)
    leaf = torch.tensor(Z, requires_grad=True)
    (torch.sin(leaf) * leaf).backward(torch.tensor(seed))
    np.testing.assert_allclose(pull(seed)[0], leaf.grad.numpy(), rtol=1e-10)
    theirs = jax.vjp(lambda z: jax.numpy.sin(z) * z, Z)[1](seed.conj())[0].conj()
    np.testing.assert_allclose(pull(seed)[0], theirs, rtol=1e-10)
    ours, theirs = tg.jvp(lambda z: np.sin(z) * z, (Z,), (seed,)), jax.jvp(lambda z: jax.numpy.sin(z) * z, (Z,), (seed,))
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-10)
    cube = tg.grad(lambda z: z**3 + np.exp(z), holomorphic=True)(Z[0])
    np.testing.assert_allclose(cube, jax.grad(lambda z: z**3 + jax.numpy.exp(z), holomorphic=True)(Z[0]), rtol=1e-10)
    theirs = jax.jit(jax.jacrev(lambda z: jax.numpy.cumsum(z**2), holomorphic=True))(Z)
    for make in (lambda f: f, tg.jit):
        np.testing.assert_allclose(make(tg.jacobian(lambda z: np.cumsum(z**2), holomorphic=True))(Z), theirs, rtol=1e-10)


def test_the_absolute_value_of_zero_has_gradient_zero():
    zero = np.zeros(2, complex)
    for f in (np.abs, lambda z: np.sqrt(np.sum(np.abs(z) ** 2) + 1.0)):
        np.testing.assert_array_equal(tg.grad(lambda z, f=f: np.sum(f(z)))(zero), zero)
    np.testing.assert_array_equal(tg.grad(lambda z: np.abs(z**3).sum())(zero), zero)


def test_a_primitive_of_a_complex_tensor():
    power = tg.primitive(lambda z: np.abs(z) ** 2)
    power.defvjp(lambda g, result, z: 2.0 * g * z)
    np.testing.assert_allclose(tg.grad(lambda z: np.sum(power(z)))(Z), 2.0 * Z)


def test_a_primitive_that_computes_with_complex_numbers_inside_is_called_at_every_point():
    """What it converts for SciPy was, under `jit`, that of the recording."""
    turned = tg.primitive(lambda x: np.asarray(np.exp(1j * x)).imag)
    jitted = tg.jit(lambda x: np.sum(turned(x)))
    root = tg.jit(lambda x: np.sum(linalg.sqrtm((3.0 + 1j * x[0]) * np.eye(2)).imag))
    for at in (0.3, 0.5):
        assert jitted(np.full(2, at)) == pytest.approx(2 * np.sin(at))
        assert root(np.array([at])) == pytest.approx(2 * np.sqrt(3.0 + 1j * at).imag)


@every("name", "sqrt log arcsin arccos arccosh arctanh angle".split())
@every("kind", ["array", "number"])
def test_a_zero_that_is_known_has_the_sign_of_numpys(name, kind):
    """It says on which side of a cut a number is; of ``x + 0j`` no part is computed until it is read."""
    for x in (np.array([-2.0, -0.5, 0.5, 2.0]) if kind == "array" else np.float64(2.0), np.float64(-2.0)):
        for made in (lambda x: x + 0j, lambda x: -(x + 0j), lambda x: np.conj(x + 0j), lambda x: np.conj(-(x + 0j))):
            found = [f(x) for f in (lambda x: getattr(np, name)(made(x)), tg.jit(lambda x: getattr(np, name)(made(x))))]
            ours = getattr(np, name)(made(tg.tensor(x, requires_grad=True))).detach().numpy()
            for each in (found[1], ours):
                np.testing.assert_allclose(each, found[0], rtol=1e-12, atol=1e-15)


def test_extremes_and_erf_far_out():
    z = tg.tensor(np.array([1.0 + 1j, complex(np.nan, 0.0), 2.0]))
    assert np.isnan(np.max(z).real.item()) and np.isnan(np.min(z).real.item()) and tg.max(z[::2]).item() == 2.0
    tie = tg.grad(lambda z: np.max(z).real)(np.array([1.0 + 1j, 1.0 + 2j, 1.0 + 2j, 0.5]))
    np.testing.assert_array_equal(tie, [0.0, 1.0, 0.0, 0.0])
    far = np.array([5.0 + 4.0j, -26.0 + 1.0j, 0.1 - 3.0j, 1e-9 + 1e-9j])
    for f, sign in ((special.erf, 1.0), (special.erfc, -1.0)):
        slope = tg.grad(lambda z, f=f: np.sum(f(z)), holomorphic=True)(far)
        np.testing.assert_allclose(f(tg.tensor(far)).detach().numpy(), f(far), rtol=1e-15)
        np.testing.assert_allclose(slope, sign * 2.0 / np.sqrt(np.pi) * np.exp(-(far**2)), rtol=1e-12, atol=1e-300)


def test_division_and_hyperbolic_tangent_far_out():
    big = np.array([1e200 + 1e200j, -400.0 + 3.0j, 1e-200 - 1e-200j])
    np.testing.assert_allclose((big / tg.tensor(big)).numpy(), np.ones(3), rtol=1e-14)
    np.testing.assert_allclose(np.tanh(tg.tensor(np.array([400.0 + 1j, -400.0 + 1j]))).numpy(), [1.0, -1.0], rtol=1e-14)
    assert np.isfinite(tg.grad(lambda z: np.sum(np.real(1.0 / z)))(np.array([1e150 + 1j]))).all()


def test_powers_at_zero_and_whole_ones_are_numpys():
    z = np.array([0j, 1.0 + 2j, -3.0 + 0j])
    for exponent in (0, 0.0, 0.5, 2.0, -1.0, 3.7, 1.0 + 1j, 1j, 0j, np.array([0.0, 0.5, 2.5]), np.array([0j, 1j, 2.0]), np.nan):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(tg.jit(lambda z, exponent=exponent: z**exponent)(z), z**exponent, rtol=1e-14, atol=1e-14)
    assert tg.grad(lambda z: np.sum((z**2.0).imag))(z)[2] == -6j and (tg.tensor(z[2]) ** 2.0).imag.item() == 0.0
    assert np.isnan((tg.tensor(0j) ** -1.5).imag.item()) and tg.grad(lambda z: (z**1.5).real)(0j) == 0.0


def test_formulas_choose_in_one_instruction():
    with tg.Tape() as tape:
        z = tg.tensor(1.0 + 2j, requires_grad=True)
        for f in (np.sqrt, np.log, np.log1p, lambda z: z / (1.0 - z), lambda z: z**1.5):
            f(z)
    assert "where" not in str(tape).lower() and len(tape) < 50


def test_containers_carries_and_files(tmp_path):
    loss = loss_of(lambda z, t: (z * t["a"] + t["b"], np.exp(z)))
    arguments = Z, {"a": 2.0 - 1.0j, "b": T}
    expected = tg.grad(loss, (0, 1))(*arguments)
    jitted = tg.jit(tg.grad(loss, (0, 1)))
    for _ in range(4):
        found = jitted(*arguments)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        assert type(found[1]["a"]) is complex and found[1]["a"] == pytest.approx(expected[1]["a"])
        assert found[1]["b"].dtype == np.float64
    assert jitted.stats().records == 1 and jitted.stats().kernel_calls >= 2
    # In another order of memory, and as another number: the same function.
    np.testing.assert_allclose(jitted(array(8)[::2], {"a": np.complex128(1j), "b": T})[1]["b"].shape, (4,))

    def turns(z):
        return np.sum(np.abs(tg.scan(lambda c, x: (c * x + 1.0, c * c), z, np.array([1j, 2.0, 3.0]))[1]))

    compare(turns, np.array(1.0 + 0.5j), kernel=True)
    f = tg.jit(lambda z: np.fft.ifft(z * 2.0))
    f.tape(Z).save(tmp_path / "f")
    np.testing.assert_allclose(tg.load_tape(tmp_path / "f")(Z.real, Z.imag), np.fft.ifft(2.0 * Z))
    np.testing.assert_allclose(tg.checkpoint(lambda z: np.fft.fft(z))(tg.tensor(Z)).numpy(), np.fft.fft(Z))


def test_leaves_gradients_and_optimisers():
    target = np.array([1.0 + 2.0j, 3.0j])
    z = tg.tensor(np.zeros(2, complex), requires_grad=True)
    assert z.grad is None
    (np.abs(z - target) ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), -2.0 * target)
    z.grad = None
    (z * target).backward(np.array([1.0, 1.0j]))
    np.testing.assert_allclose(z.grad.numpy(), np.conj(target) * [1.0, 1.0j])
    for kind in (tg.optim.SGD, tg.optim.Adam, tg.optim.LBFGS):
        z = tg.tensor(np.zeros(2, complex), requires_grad=True)
        optimizer = kind([z], lr=0.2)

        def closure(z=z, optimizer=optimizer):
            optimizer.zero_grad()
            loss = np.sum(np.abs(z - target) ** 2)
            loss.backward()
            return loss

        for _ in range(200 if kind is tg.optim.Adam else 60):
            optimizer.step(closure)
        np.testing.assert_allclose(z.detach().numpy(), target, atol=1e-3)
    for start in (np.zeros(2, complex), [0j, 1.0], {"z": np.zeros(2, complex)}):
        found = tg.optimize.minimize(lambda z: np.sum(np.abs((z["z"] if isinstance(z, dict) else z) - target) ** 2), start).x
        np.testing.assert_allclose(found["z"] if isinstance(found, dict) else found, target, atol=1e-6)


def test_assignment_and_new_arrays():
    import tapegrad.numpy as tnp

    def f(x):
        m = tnp.zeros((2, 2), complex)
        m[0, 0], m[1, 1], m[0, 1] = x * 1j, x, 1.0
        return tnp.abs(tnp.linalg.det(m)) ** 2

    assert tg.grad(f)(2.0) == tg.jit(tg.grad(f))(2.0) == tg.jvp(f, (2.0,), (1.0,))[1] == pytest.approx(32.0)
    at = np.array([1.0 + 2j, -0.5j])
    for make in (np.zeros_like, np.ones_like, np.empty_like, lambda z: np.full_like(z, 3j)):

        def g(z, make=make):
            y = make(z)
            y[0], y[1] = z[1] * 2.0, 1j
            return np.sum(np.abs(y) ** 2)

        for derivative in (tg.grad(g), tg.jit(tg.grad(g))):
            np.testing.assert_allclose(derivative(at), [0.0, 8.0 * at[1]])
    assert np.ones_like(tg.tensor(at), float).tolist() == [1.0, 1.0]
    z = tg.tensor(np.array([1j, 2.0]), requires_grad=True) * 1.0
    z[0] = 3.0
    z.imag[1] = 1.0
    assert z.detach().numpy().tolist() == [3.0, 2.0 + 1.0j]
    matrix = tg.array([[z[0], 1.0], [0.0, z[1]]])
    np.testing.assert_allclose(np.sum(matrix * np.eye(2)).item(), 5.0 + 1.0j)


@pytest.mark.parametrize("f", [lambda z: np.sum(z.imag), lambda z: np.sum(np.real(z)), lambda z: np.linalg.norm(z), lambda z: np.var(z, axis=0)])
def test_complex_numbers_stand_in_no_array_of_objects(f):
    """NumPy would take them for real: an imaginary part of 0, the root of a sum of squares as norm."""

    def g(a, array=np.array):
        return f(array([np.exp(1j * a), 1j * a * a]))

    def h(a):
        return g(a, tg.array)

    for derivative in (tg.grad, tg.jacfwd, lambda f: tg.jit(tg.grad(f)), lambda f: lambda a: tg.vmap(tg.grad(f))(np.array([a]))[0]):
        with pytest.raises(tg.errors.LeaveTapeError, match=r"write tg\.array\(\[z, \.\.\.\]\)"):
            derivative(g)(0.7)
        assert derivative(h)(0.7) == pytest.approx((g(0.7 + 1e-6) - g(0.7 - 1e-6)) / 2e-6, rel=1e-7)


def test_what_a_complex_tensor_says_of_itself():
    z = tg.tensor(np.array([1.0 + 2.0j, -0.5j]), requires_grad=True)
    assert repr(z) == "tensor([ 1.+2.j , -0.-0.5j], requires_grad=True)"
    assert (z.shape, z.ndim, z.size, len(z), z.dtype, z.is_leaf) == ((2,), 1, 2, 2, np.dtype(complex), True)
    assert [complex(part) for part in z.detach()] == [1.0 + 2.0j, -0.5j] == z.tolist()
    assert f"{z[0].detach():.1f}" == "1.0+2.0j" and bool(z[0]) and z.detach()[1].item() == -0.5j
    single = tg.tensor(np.array([1j], np.complex64))
    for f in (
        lambda z: np.reshape(z, (1, 1)), np.sum, lambda z: np.where([True], z, 0), lambda z: np.where([True], z, 1j), lambda z: z / (z + 1), lambda z: 1 / (z + 1),
        np.arctan, np.tanh, np.log1p, np.expm1, lambda z: (z + 1) ** 0.5, np.fft.fft, lambda z: np.fft.hfft(z, 4), lambda z: np.fft.irfft(z.imag, 4),
    ):  # fmt: skip
        assert f(0.5 * single).dtype == f(0.5 * single.numpy()).dtype
    assert single.dtype == (single * 2.0).dtype == np.exp(single).dtype == np.complex64 and (single + np.ones(1)).dtype == np.complex128
    assert np.iscomplexobj(z) and not np.iscomplexobj(z.real) and np.allclose(z.detach(), z.detach() + 1e-12)
    assert (z == z).detach().numpy().all() and not (z != z).detach().numpy().any()
    assert z.astype(np.complex64).dtype == np.complex64 and z.H.shape == (2,) if z.ndim > 1 else True
    np.testing.assert_array_equal(np.isfinite(z * np.inf).numpy(), [False, False])


def test_what_is_refused():
    z, errors = tg.tensor(Z, requires_grad=True), tg.errors
    for call, error, words in (
        (lambda: np.sort(z), errors.UnsupportedFunctionError, "z.real and z.imag"),
        (lambda: z < 1.0, TypeError, "<"),
        (lambda: np.hypot(z, 1.0), errors.UnsupportedFunctionError, "hypot"),
        (lambda: np.asarray(z), errors.LeaveTapeError, "cut the derivative"),
        (lambda: complex(z[0]), errors.LeaveTapeError, "float"),
        (lambda: tg.zeros(4).__setitem__(0, z[0]), errors.TapegradError, "complex"),
        (lambda: z.astype(float), TypeError, "z.real"),
        (lambda: tg.astype(z, float), TypeError, "z.real"),
        (lambda: tg.grad(lambda z: z)(1j), errors.NonScalarOutputError, "holomorphic=True"),
        (lambda: tg.elementwise_grad(lambda z: z)(1j), errors.NonScalarOutputError, "real number"),
        (lambda: tg.grad(lambda z: z.real, holomorphic=True)(1j), errors.DtypeError, "holomorphic=True"),
        (lambda: tg.jacobian(lambda z: z**2)(Z), errors.StructureError, "holomorphic=True"),
        (lambda: tg.hessian(lambda z: np.sum(np.abs(z) ** 2))(Z), errors.StructureError, "four real arrays"),
        (lambda: tg.tensor(Z.astype(np.clongdouble)), errors.DtypeError, "astype"),
        (lambda: tg.softmax(z), errors.UnsupportedFunctionError, "softmax"),
        (lambda: tg.primitive(lambda z: z * z)(z), errors.ComplexOperandError, "real and imaginary parts"),
        (lambda: np.add(z, 1.0, out=np.zeros(4, complex)), errors.LeaveTapeError, "out="),
    ):
        with pytest.raises(error, match=words):
            call()


def test_a_derivative_that_is_stopped():
    np.testing.assert_allclose(tg.grad(lambda z: np.sum(np.abs(tg.stop_gradient(z) * z)))(Z), Z)
    with tg.no_grad():
        assert not (tg.tensor(Z, requires_grad=True) * 2.0).requires_grad


def _sum_with_itself(z):
    return z + 0, z - 0.0, +z, z.conj(), z**1, z + z.real, z.copy()


def _changed_sums(z):
    for made in _sum_with_itself(z):
        made[0] = 9.0
        made.imag[1] = 7.0
    return z


def _same_name(z):
    other = z
    other += 1.0
    other *= 2j
    return z


def _views(z):
    first, last = z[:2], z[::-1][:2]
    first -= 1j
    last /= 2.0 - 1j
    return z


def _listed(z):
    both = [z, z.reshape(3, 1)]
    both[1] += np.ones((3, 1))
    both[0] **= 2
    return z


def _rebound(z):
    other = z
    other = other + 1.0
    other[0] = 0.0
    return z


def _written_part(z):
    z.real = 2.0
    z[2] -= 1j
    return z


@pytest.mark.parametrize("change", [_changed_sums, _same_name, _views, _listed, _rebound, _written_part])
@pytest.mark.parametrize("of", ["sum", "product"])
def test_memory_is_shared_where_that_of_numpy_is(of, change):
    """What is written into a complex array is seen in its views and other names, and in nothing else: not in the parts that it was made of."""

    def function(x):
        u, v = x * 1.0, x * x
        z = u + 1j * v if of == "sum" else u * (1.0 + 2.0j)
        return np.sum(np.abs(change(z)) ** 2 * x) + np.sum(u * v)

    x, steps = np.array([1.0, 2.0, 3.0]), 1e-6 * np.eye(3)
    slopes = [(function(x + h) - function(x - h)) / 2e-6 for h in steps]
    for both in (tg.value_and_grad(function), tg.jit(tg.value_and_grad(function)), lambda x: (tg.jvp(function, (x,), (x,))[0], tg.jacfwd(function)(x))):
        value, gradient = both(x)
        assert value == pytest.approx(function(x))
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6)


def test_comparisons_know_infinities_and_nan():
    x = np.array([1.0 + 1.0j, np.inf + 1.0j, complex(np.nan, 1.0), 2.0])
    y, z = x + [1e-9, 0.0, 0.0, 1.0], tg.tensor(x, requires_grad=True)
    for options in ({}, {"equal_nan": True}):
        np.testing.assert_array_equal(np.asarray(np.isclose(z, y, **options)), np.isclose(x, y, **options))
        for n in (1, 2, 3, 4):
            assert np.allclose(z[:n], y[:n], **options) is np.allclose(x[:n], y[:n], **options)
            assert np.array_equal(z[:n], x[:n], **options) is np.array_equal(x[:n], x[:n], **options)
    assert not np.array_equal(z, x[:2]) and np.array_equal(z.real, z.real + 0j, equal_nan=True)


SPECIAL = np.array([complex(a, b) for a in (0.0, 1.0, np.inf, -np.inf, np.nan) for b in (0.0, -2.0, np.inf, np.nan)])


@pytest.mark.parametrize("equal_nan", [False, True])
def test_comparisons_of_infinities_and_nan(equal_nan):
    one, other = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    for x, y in ((tg.tensor(one), other), (one, tg.tensor(other)), (tg.tensor(one), tg.tensor(other))):
        np.testing.assert_array_equal(np.isclose(x, y, equal_nan=equal_nan), np.isclose(one, other, equal_nan=equal_nan))
    same = tg.tensor(SPECIAL)
    assert np.array_equal(same, SPECIAL, equal_nan=equal_nan) is equal_nan is np.allclose(same, SPECIAL, equal_nan=equal_nan)
    assert np.isclose(np.array([np.inf, 1.0]), tg.tensor(np.array([np.inf + 0j, 1.0 + 1e-12j]))).tolist() == [True, True]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_correlation_with_a_longer_sequence(mode):
    for m, n in ((2, 5), (3, 4), (4, 2), (3, 3)):
        compare(lambda a, v: np.correlate(a, v, mode), array(m), array(n))
        compare(lambda a, v: np.correlate(a, v, mode), real(m), array(n))


def test_the_diagonal_of_a_hermitian_matrix_counts_as_real():
    a = M @ M.conj().T + 3.0 * np.eye(3) + np.diag([0.1j, -0.2j, 0.3j])
    for upper in (False, True):
        np.testing.assert_allclose(np.linalg.cholesky(tg.tensor(a), upper=upper).numpy(), np.linalg.cholesky(a, upper=upper))
    assert np.all(np.diag(tg.grad(lambda z: np.sum(np.abs(np.linalg.cholesky(z)) ** 4))(a)).imag == 0.0)


@pytest.mark.parametrize("mode", ["maximum", "minimum", "median"])
def test_padding_by_an_order_is_refused(mode):
    with pytest.raises(tg.errors.UnsupportedFunctionError, match=f"numpy.pad with mode='{mode}' has no rule for complex numbers"):
        np.pad(tg.tensor(Z), 2, mode=mode)


BECOMES = {
    "where": lambda x: np.where(T > 0, x, 1.5j), "where, the other way": lambda x: np.where(T > 0, W, x), "select": lambda x: np.select([T > 0], [x], 2j),
    "full_like": lambda x: np.full_like(x, 2.0 - 1j, dtype=complex) * x, "astype": lambda x: x.astype(complex) ** 0.5, "np.astype": lambda x: np.astype(x, np.complex64),
}  # fmt: skip


@pytest.mark.parametrize("name", BECOMES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_of_real_constants_complex_results_have_their_imaginary_parts(name, dtype):
    function, x = BECOMES[name], np.array([-1, 2, 3, -4], dtype)
    found, expected = function(tg.tensor(x)), function(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.angle(found), np.angle(expected), rtol=1e-6)
    slope = tg.jit(tg.grad(lambda t: np.sum((function(tg.tensor(x)) * t).imag)))
    for _ in range(3):
        np.testing.assert_allclose(slope(T), expected.imag, rtol=1e-6)


def test_a_real_tensor_becomes_complex():
    compare(lambda t: np.sqrt(t.astype(complex)), np.array([-1.0, 2.0, 3.0]))
    assert tg.grad(lambda t: np.sum(np.abs(t.astype(np.complex64) * 1j)))(np.array([1.0, -2.0], "f")).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("polynomial", [[1.0, 0.0, 1.0], [2.0, 1.0, 3.0, 1.0]])
def test_roots_of_constants(polynomial):
    np.testing.assert_allclose((np.roots(tg.tensor(polynomial)) * 1.0).imag, np.roots(polynomial).imag)


CHOSEN = np.abs(M) > 0.9
KEYWORDS = {
    **{f"{f.__name__}, mean": lambda z, f=f: f(z, axis=0, mean=np.mean(z, axis=0, keepdims=True), ddof=1) for f in (np.var, np.std)},
    **{f"{f.__name__}, another mean": lambda z, f=f: f(z, mean=0.3 + 1j, where=CHOSEN, keepdims=True) for f in (np.var, np.std)},
    **{f"{f.__name__}, positions": lambda z, f=f: f(z, 0, None, None, 1, True) for f in (np.var, np.std)},
    **{f"{f.__name__}, dtype": lambda z, f=f: f(z, axis=0, dtype=complex) for f in (np.sum, np.mean, np.prod, np.cumsum, np.cumprod)},
    **{f"{f.__name__}, out": lambda z, f=f: _out(f, z) for f in (np.sum, np.mean, np.prod, np.max)},
    **{f"{f.__name__}, initial": lambda z, f=f: f(z, axis=0, initial=z[0, 0] * 0.5, where=CHOSEN) for f in (np.max, np.min)},
    "einsum of lists": lambda z: np.einsum(z, [0, 1], z, [2, 1], [0, 2]), "einsum, no result": lambda z: np.einsum(z, [30, 2], z, [2, 1]),
    "einsum, an ellipsis": lambda z: np.einsum(z, [..., 1], z, [..., 1], [...]), "concatenate, dtype": lambda z: np.concatenate([z, z], dtype=complex),
}  # fmt: skip


def _out(function, z):
    out = np.zeros_like(z[0])
    assert function(z, axis=0, out=out) is out
    return out * z[0]


@pytest.mark.parametrize("name", KEYWORDS)
def test_keyword_arguments(name):
    function = KEYWORDS[name]
    np.testing.assert_allclose(function(tg.tensor(M)).numpy(), function(M), rtol=1e-12)
    compare(function, M)


REFUSED = {
    "numpy.std with dtype=": lambda z: np.std(z, dtype=complex), "sum with dtype=float64": lambda z: np.sum(z, dtype=float),
    "numpy.full_like with shape": lambda z: np.full_like(z, 1j, shape=(2,)), "with out= that is no complex tensor": lambda z: np.prod(z, out=np.zeros((), complex)),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_other_keyword_arguments_are_refused(words):
    with pytest.raises(tg.errors.UnsupportedFunctionError, match=words):
        REFUSED[words](tg.tensor(Z, requires_grad=True))
