"""The objects for define-by-run code: step by step PyTorch's numbers, and what is kept and refused."""

import copy

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptimizationError

RNG = np.random.default_rng(0)
A, SIGN = RNG.normal(size=(20, 4)), np.sign(RNG.normal(size=20))

CASES = [
    ("SGD", {"lr": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.5, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2}),
    ("AdamW", {"lr": 0.5, "amsgrad": True}),
    ("LBFGS", {"lr": 0.5}),
    ("LBFGS", {"lr": 0.5, "max_iter": 4, "history_size": 3}),
    ("LBFGS", {"max_iter": 30, "tolerance_grad": 1e-3}),
]


def loss_of(w, c):
    return np.sum(np.log1p(np.exp(-(A @ w + c) * SIGN))) + 0.1 * np.sum(w**4)


def closure_of(optimizer, w, c):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(w, c)
        loss.backward()
        return loss

    return closure


def fresh():
    return tg.Parameter(np.ones(4)), tg.Parameter(0.5)


@pytest.mark.parametrize("name, options", CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_step_by_step_as_pytorch(name, options):
    torch = pytest.importorskip("torch")
    w, c = fresh()
    wt, ct = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (np.ones(4), 0.5))
    at, sign = torch.tensor(A), torch.tensor(SIGN)
    ours, theirs = getattr(tg.optim, name)([w, c], **options), getattr(torch.optim, name)([wt, ct], **options)

    def closure():
        theirs.zero_grad()
        loss = torch.log1p(torch.exp(-(at @ wt + ct) * sign)).sum() + 0.1 * (wt**4).sum()
        loss.backward()
        return loss

    for _ in range(15):
        mine, other = ours.step(closure_of(ours, w, c)), theirs.step(closure)
        assert mine.item() == pytest.approx(other.item(), rel=1e-12)
        np.testing.assert_allclose(w.detach().numpy(), wt.detach().numpy(), rtol=1e-11, atol=1e-13)
        assert c.item() == pytest.approx(ct.item(), rel=1e-11, abs=1e-13)


def test_lbfgs_with_a_line_search_comes_where_pytorchs_comes():
    torch = pytest.importorskip("torch")
    x, xt = tg.Parameter([-1.2, 1.0]), torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    ours = tg.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=100)
    theirs = torch.optim.LBFGS([xt], line_search_fn="strong_wolfe", max_iter=100)
    counts = [0, 0]

    def closure(optimizer, x, k):
        counts[k] += 1
        optimizer.zero_grad()
        loss = (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    ours.step(lambda: closure(ours, x, 0))
    theirs.step(lambda: closure(theirs, xt, 1))
    np.testing.assert_allclose(x.detach().numpy(), 1.0, atol=1e-5)
    np.testing.assert_allclose(xt.detach().numpy(), 1.0, atol=1e-4)
    assert counts[0] <= 1.25 * counts[1]


@pytest.mark.parametrize("name, options", CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v))
def test_saved_and_loaded_it_goes_on_the_same(name, options):
    w, c = fresh()
    one = getattr(tg.optim, name)([w, c], **options)
    for _ in range(4):
        one.step(closure_of(one, w, c))
    v, d = tg.Parameter(w.detach().numpy().copy()), tg.Parameter(c.item())
    two = getattr(tg.optim, name)([v, d])
    saved = one.state_dict()
    two.load_state_dict(copy.deepcopy(saved))
    for _ in range(4):
        one.step(closure_of(one, w, c))
        two.step(closure_of(two, v, d))
    assert np.array_equal(w.detach().numpy(), v.detach().numpy()) and c.item() == d.item()
    assert saved["param_groups"][0]["params"] == [0, 1]


def test_groups_have_options_of_their_own_which_may_change():
    w, c = fresh()
    optimizer = tg.optim.SGD([{"params": [w]}, {"params": c, "lr": 0.0}], lr=0.1)
    optimizer.step(closure_of(optimizer, w, c))
    assert c.item() == 0.5 and not np.any(w.detach().numpy() == 1.0)
    optimizer.param_groups[1]["lr"] = 0.1
    optimizer.step(closure_of(optimizer, w, c))
    assert c.item() != 0.5
    assert "Parameter Group 1" in repr(optimizer) and "lr: 0.1" in repr(optimizer)


def test_zero_grad_and_parameters_without_a_gradient():
    w, c = fresh()
    optimizer = tg.optim.Adam([w, c])
    np.sum(w**2).backward()
    optimizer.step()
    assert c.item() == 0.5 and c not in optimizer.state and w in optimizer.state
    optimizer.zero_grad(set_to_none=False)
    assert np.array_equal(w.grad.numpy(), np.zeros(4)) and c.grad is None
    optimizer.zero_grad()
    assert w.grad is None


def test_float32_stays():
    w = tg.tensor(np.ones(3, np.float32), requires_grad=True)
    for name in ("SGD", "Adam", "AdamW", "LBFGS"):
        optimizer = getattr(tg.optim, name)([w])

        def closure():
            optimizer.zero_grad()
            loss = np.sum(w**2)
            loss.backward()
            return loss

        optimizer.step(closure)
        assert w.dtype == np.float32 and w.grad.dtype == np.float32


def test_the_old_value_is_known_to_be_gone():
    w = tg.Parameter(np.ones(3))
    loss = np.sum(w**2)
    loss.backward(retain_graph=True)
    tg.optim.SGD([w], lr=0.1).step()
    with pytest.raises(tg.errors.ModifiedInPlaceError, match="'w'"):
        loss.backward()


def test_refused():
    w = tg.Parameter(np.ones(3))
    for params, message in (
        ([], "empty list"), (w, "write \\[x\\]"), ([np.ones(3)], "parameter 0 is of type ndarray; make it tg.Parameter"),
        ([w, w], "given twice"), ([w * 2.0], "was computed from others"), ([tg.tensor([1.0])], "does not require a gradient"),
        ([{"params": [w], "rate": 1}], "SGD has no option 'rate'"), ([{"params": [w], "lr": -1}], "lr=-1 must be at least 0"),
    ):  # fmt: skip
        with pytest.raises(OptimizationError, match=message):
            tg.optim.SGD(params)
    with pytest.raises(OptimizationError, match="alpha=-0.5 must be at least 0"):
        tg.optim.RMSprop([w], alpha=-0.5)
    with pytest.raises(OptimizationError, match="nesterov=True needs momentum"):
        tg.optim.SGD([w], nesterov=True)
    with pytest.raises(OptimizationError, match=r"betas\[1\]=1.0"):
        tg.optim.Adam([w], betas=(0.9, 1.0))
    with pytest.raises(OptimizationError, match="one group"):
        tg.optim.LBFGS([{"params": [w]}, {"params": [tg.Parameter(1.0)]}])
    with pytest.raises(OptimizationError, match="needs a closure"):
        tg.optim.LBFGS([w]).step(None)
    with pytest.raises(OptimizationError, match="strong_wolfe"):
        tg.optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(OptimizationError, match="groups of \\[1\\] parameters, this optimizer has \\[2\\]"):
        tg.optim.SGD([w, tg.Parameter(1.0)]).load_state_dict(tg.optim.SGD([w]).state_dict())
