"""`tg.autograd.grad` of complex tensors and by them, beside PyTorch; seeds that are complex."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError, GradientError, NonScalarOutputError, SeedShapeError

V, W = np.array([0.5, 1.0]), np.array([0.2, -0.5])


def leaves(library):
    return library.tensor(V + 1j * W, requires_grad=True), library.tensor(W, requires_grad=True)


def plain(gradients):
    return [g.detach().numpy() for g in gradients]


def gradients(library):
    grad = library.autograd.grad
    z, x = leaves(library)
    square, turned, seed = z * z, x * 1j, library.tensor(V + 2j)
    (first,) = grad((abs(z) ** 4).sum(), z, create_graph=True)
    return [
        plain(found) for found in (
            grad((abs(z) ** 2).sum(), z), grad((abs(z) ** 2 * x).sum(), [x, z]), grad(z * z * x, [x, z], seed), grad(x * 1j, x, seed), grad([z * x, x.sum()], [z, x], [seed, None]),
            grad((z.real**2).sum(), [z]), grad(abs(square).sum(), square), grad(abs(turned).sum(), [turned]), (first,), grad((abs(first) ** 2).sum(), z),
            grad(z * z, z, library.tensor(np.eye(2) + 1j * np.ones((2, 2))), is_grads_batched=True), grad(z * x, [x], library.tensor(V)) if library is tg else grad(z * x, [x], library.tensor(V + 0j)),
        )
    ]  # fmt: skip


def test_as_in_pytorch():
    torch = pytest.importorskip("torch")
    for ours, theirs in zip(gradients(tg), gradients(torch), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
            assert one.dtype == other.dtype
    for library in (tg, torch):
        z, x = leaves(library)
        assert library.autograd.grad((x * x).sum(), [z, x], allow_unused=True)[0] is None
        (abs(z) ** 2).sum().backward(inputs=[z])
        np.testing.assert_allclose(z.grad.numpy(), 2.0 * (V + 1j * W))


def test_a_seed_is_complex_where_the_output_is():
    """NumPy would leave its imaginary part out."""
    z, x = leaves(tg)
    for seed in (V + 1j, tg.tensor(V + 1j), (V + 1j).tolist()):
        for call in (lambda seed=seed: tg.autograd.grad(x * x, x, seed if not isinstance(seed, list) else [seed]), lambda seed=seed: (x * x).backward(seed if not isinstance(seed, list) else [seed])):
            with pytest.raises(DtypeError, match="the seed of output 0 is complex"):
                call()
    np.testing.assert_allclose(tg.autograd.grad(z * z, z, [(V + 2j).tolist()])[0].numpy(), (V + 2j) * 2.0 * np.conj(V + 1j * W))


def test_what_is_refused():
    z, x = leaves(tg)
    with pytest.raises(GradientError, match="do not depend on input 0"):
        tg.autograd.grad((x * x).sum(), [z])
    with pytest.raises(NonScalarOutputError, match="without a seed"):
        tg.autograd.grad(z * z, z)
    with pytest.raises(SeedShapeError, match="1 outputs but 2"):
        tg.autograd.grad(z * z, z, [V + 0j, V + 0j])
