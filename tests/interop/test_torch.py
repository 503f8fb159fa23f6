"""A function of ours as an operation of PyTorch: each derivative beside PyTorch's own of the same function."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError, StructureError
from tapegrad.interop import to_torch
from tests.every import every

torch = pytest.importorskip("torch")

A = torch.tensor([0.3, -0.7, 1.2], dtype=torch.float64)
B = torch.tensor([[0.5, -1.0, 0.2], [1.5, 0.1, -0.4]], dtype=torch.float64)


def ours(x, m):
    return np.sin(m @ x) * np.sum(x**3), np.sum(np.tanh(m) ** 2)


def theirs(x, m):
    return torch.sin(m @ x) * torch.sum(x**3), torch.sum(torch.tanh(m) ** 2)


def total(f):
    return lambda x, m: (lambda y, z: (y**2).sum() * z)(*f(x, m))


def close(found, expected):
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            close(one, other)
        return
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


F, G = total(to_torch(ours)), total(theirs)
WAYS = {
    "value": lambda f: f(A, B),
    "grad": lambda f: torch.func.grad(f, argnums=(0, 1))(A, B),
    "jacrev": lambda f: torch.func.jacrev(torch.func.grad(f), argnums=1)(A, B),
    "jacfwd": lambda f: torch.func.jacfwd(f, argnums=(0, 1))(A, B),
    "hessian": lambda f: torch.func.hessian(f)(A, B),
    "jvp": lambda f: torch.func.jvp(f, (A, B), (torch.cos(A), torch.sin(B))),
    "jvp of grad": lambda f: torch.func.jvp(lambda x: torch.func.grad(f)(x, B), (A,), (torch.cos(A),)),
    "vmap": lambda f: torch.vmap(f, in_dims=(0, None))(torch.stack([A, 2.0 * A]), B),
    "vmap along another axis": lambda f: torch.vmap(f, in_dims=(1, None))(torch.stack([A, 2.0 * A], 1), B),
    "vmap of grad": lambda f: torch.vmap(torch.func.grad(f, argnums=1), in_dims=(None, 0))(A, torch.stack([B, 2.0 * B, B - 1.0])),
    "grad of vmap": lambda f: torch.func.grad(lambda x, m: torch.vmap(f, in_dims=(0, None))(x, m).sum(), argnums=1)(torch.stack([A, 2.0 * A]), B),
    "third": lambda f: torch.func.jacrev(torch.func.hessian(f))(A, B),
}


@every("way", sorted(WAYS))
def test_pytorchs_transformations(way):
    close(WAYS[way](F), WAYS[way](G))


def test_backward_twice():
    grads = []
    for f in (F, G):
        x, m = A.clone().requires_grad_(), B.clone().requires_grad_()
        (slope,) = torch.autograd.grad(f(x, m), x, create_graph=True)
        (slope**2).sum().backward()
        grads.append((x.grad, m.grad))
    close(*grads)


def test_pytorchs_own_check_passes():
    x, m = A.clone().requires_grad_(), B.clone().requires_grad_()
    assert torch.autograd.gradcheck(to_torch(ours), (x, m), check_forward_ad=True, nondet_tol=1e-12)
    assert torch.autograd.gradgradcheck(to_torch(ours), (x, m), check_fwd_over_rev=True, nondet_tol=1e-12)


def test_each_point_takes_its_path():
    @to_torch
    def collatz(x):
        steps = 0.0
        while x > 1.5:
            x = x / 2.0 if int(steps) % 2 == 0 else x * 1.25
            steps = steps + 1.0
        return x * steps

    found = torch.vmap(torch.func.grad(collatz))(torch.tensor([1.0, 3.0, 9.0, 30.0], dtype=torch.float64))
    assert found.tolist() == [tg.grad(collatz.__wrapped__)(x) for x in (1.0, 3.0, 9.0, 30.0)]


def test_float32_containers_integers_and_constants():
    @to_torch
    def picked(parameters, where, power):
        return {"picked": np.sum(parameters["w"][where] ** power)}

    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = picked({"w": w}, torch.tensor([0, 2, 2]), 2)
    assert out["picked"].dtype == torch.float32 and float(out["picked"]) == 19.0
    out["picked"].backward()
    assert w.grad.tolist() == [2.0, 0.0, 12.0] and w.grad.dtype == torch.float32


def test_memory_is_shared():
    table = np.ones(3)
    f = to_torch(lambda x, t: x * t)
    x, t = torch.ones(3, dtype=torch.float64), torch.from_numpy(table)
    for _ in range(3):
        table += 1.0
        y = f(x, t)
        assert y.tolist() == table.tolist()
        # What is done to a result is done to nothing of ours.
        y += 100.0


def test_a_module_with_our_function_inside_is_trained():
    torch.manual_seed(0)

    @to_torch
    def cooled(rate, t):
        temperature, out = 1.0, []
        for dt in np.diff(t):
            temperature = temperature - dt * rate * temperature
            out.append(temperature)
        return np.stack(out)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = torch.nn.Parameter(torch.tensor(0.2, dtype=torch.float64))

        def forward(self, t):
            return cooled(self.rate, t)

    t = torch.linspace(0.0, 2.0, 21, dtype=torch.float64)
    data = (1.0 - 0.1 * 0.7) ** torch.arange(1, 21, dtype=torch.float64)
    model = Model()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((model(t) - data) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert float(model.rate) == pytest.approx(0.7, abs=1e-6)


def test_arguments_that_do_not_fit_are_named():
    f = to_torch(ours)
    with pytest.raises(DtypeError, match="argument 1 of ours is torch.float16"):
        f(A, B.half())
    with pytest.raises(DtypeError, match="argument 0 of ours is torch.complex128"):
        f(A.to(torch.complex128), B)
    with pytest.raises(DtypeError, match="argument 0 of ours is on meta"):
        f(A.to("meta"), B)
    with pytest.raises(DtypeError, match="returns complex numbers"):
        to_torch(lambda x: np.exp(1j * x))(A)
    with pytest.raises(ValueError, match="matmul") as caught:
        f(A[:2], B)
    assert caught.value.__notes__ == ["ours was called with argument 0 of shape (2,), argument 1 of shape (2, 3)"]


def test_integers_beside_a_result_have_no_derivative():
    f = to_torch(lambda x: (np.argmax(x), np.sum(x**3), x > 0.0))
    x = A.clone().requires_grad_()
    place, value, positive = f(x)
    assert place.item() == 2 and positive.tolist() == [True, False, True] and not place.requires_grad
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    slope.sum().backward()
    torch.testing.assert_close(slope.detach(), 3.0 * A**2)
    torch.testing.assert_close(x.grad, 6.0 * A)
    torch.testing.assert_close(torch.func.vmap(torch.func.jacfwd(lambda x: f(x)[1]))(torch.stack([A, 2.0 * A])), torch.stack([3.0 * A**2, 12.0 * A**2]))
    torch.testing.assert_close(torch.func.jvp(f, (A,), (torch.ones_like(A),))[1][1], torch.sum(3.0 * A**2))


def test_arguments_by_name():
    def power(x, scale=2.0, exponent=3):
        return np.sum(scale * x**exponent)

    f, x = to_torch(power), A.clone().requires_grad_()
    for given in ({"exponent": 2}, {"scale": torch.tensor(2.0, dtype=torch.float64), "exponent": 2}):
        (slope,) = torch.autograd.grad(f(x, **given), x)
        torch.testing.assert_close(slope, 4.0 * A)
    torch.testing.assert_close(f(x=A), 2.0 * (A**3).sum())
    with pytest.raises(TypeError, match="unexpected keyword argument 'base'"):
        f(A, base=2)
    with pytest.raises(StructureError, match="takes n by name alone"):
        to_torch(lambda x, *, n: x**n)(A, n=2)
